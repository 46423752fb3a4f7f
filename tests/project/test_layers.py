"""One-way imports: each module knows only the layers below its own. Read from the import statements, those inside functions too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dmlpy
from tests.support.structure.imports import imports
from tests.support.structure.layers import LAYERS

ROOT = Path(dmlpy.__file__).parent
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(ROOT.rglob("*.py"))


def part(module: str) -> str:
    """The part of dmlpy that a module belongs to: `devices.cuda` for `dmlpy.devices.cuda.kernels`."""
    names = module.split(".")[1:] or ["__init__"]
    two = ".".join(names[:2])
    return two if two in LEVEL else names[0]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def against_the_layers(path: Path) -> list[str]:
    """What a file imports from the layers above its own, or from another part of its layer."""
    own = part(module_of(path))
    inside = [imported for imported in imports(path) if imported == "dmlpy" or imported.startswith("dmlpy.")]
    return [imported for imported in inside if (other := part(imported)) != own and LEVEL[other] >= LEVEL[own]]


def test_imports_go_one_way() -> None:
    assert {module_of(path): wrong for path in FILES if (wrong := against_the_layers(path))} == {}


KNOWN_BY: dict[str, set[str]] = {
    # dmlpy.keras and dmlpy.nn compute with the arrays that users of a GPU hold; the benchmark measures CuPy too.
    "cupy": {"devices/cuda/runtime/cupy_runtime.py", "keras/backend.py", "nn/arrays.py", "bench/libraries/cupy.py"},
    "cupyx": set(),
    "cupy_backends": {"devices/cuda/runtime/cupy_runtime.py"},
    "rich": {"cli/*.py", "devices/cpu/jit.py", "messages/tables.py", "keras/progress.py", "messages/problems.py"},
    "typer": {"cli/*.py"},
    "PIL": {"dxdispatch/pictures.py"},
    "matplotlib": {"bench/picture.py", "docs/notebook.py", "keras/callbacks.py"},
    "dask": {"dask/*.py", "docs/error_examples/dask.py"},
    "distributed": {"dask/*.py"},
    "jax": {"bench/libraries/jax.py"},
    "openvino": {"bench/libraries/openvino.py"},
    "thinc": {"thinc/*.py"},
    "torch": {"thinc/pytorch.py", "torch/*.py", "bench/libraries/torch.py"},
    "dmlpy.torch": {"torch/*.py", "bench/libraries/torch.py"},
}
"""Packages that few files may import, with these files."""


@pytest.mark.parametrize("package", KNOWN_BY)
def test_few_files_know_a_package(package: str) -> None:
    allowed = {path for pattern in KNOWN_BY[package] for path in ROOT.glob(pattern)}
    importers = {path for path in FILES if any(f"{imported}.".startswith(f"{package}.") for imported in imports(path))}
    assert sorted(importers - allowed) == []


def test_importing_dmlpy_stays_light() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import sys, json, dmlpy; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(json.loads(found.stdout))
    heavy = {
        "cupy",
        "rich",
        "typer",
        "PIL",
        "psutil",
        "cuda",
        "torch",
        "dmlpy.keras",
        "dmlpy.operators.activation",
        "dmlpy.operators.recurrent",
        "dmlpy.graphs",
        "flatbuffers",
        "graphviz",
        "dmlpy.bench",
        "dmlpy.cli.main",
        "dmlpy.dxdispatch",
        "dmlpy.inspection.schemas",
        "dmlpy.messages.tables",
        "dmlpy.validation.checking",
        "dmlpy.compiler",
    }
    assert not loaded & heavy
    assert {"dmlpy.devices.numpy", "dmlpy.devices.cuda"} <= loaded
    # Only what a device is found by is loaded, not the device.
    assert not loaded & {"dmlpy.devices.numpy.device", "dmlpy.devices.cuda.device", "difflib", "tempfile"}


def test_an_imported_module_needs_no_operators() -> None:
    """Python looks for `files` in `dmlpy` before it imports the module; what `dmlpy` says of unknown names must not be searched for."""
    program = "import sys; from dmlpy.system import files; print(*(name for name in sys.modules if name.startswith('dmlpy.operators.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def cycle(known: Mapping[str, Iterable[str]]) -> list[str]:
    """Modules that import each other in a circle; empty if there are none."""
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_modules_import_each_other() -> None:
    """Inside packages too; imports inside functions and for type checkers count, and none is excused."""
    names = {module_of(path): path for path in FILES}
    assert cycle({name: {other for other in imports(path) if other in names and other != name} for name, path in names.items()}) == []


def test_the_layers_are_few() -> None:
    """Layers are of packages, so that a reader can keep the staircase in mind: single modules are those of dmlpy's root alone."""
    assert len(LAYERS) <= 15
    parts = [name for names in LAYERS for name in names]
    assert sorted(parts) == sorted({part(module_of(path)) for path in FILES})
    modules = {name for name in parts if not (ROOT / name.replace(".", "/")).is_dir()}
    assert modules == {path.stem for path in ROOT.glob("*.py")}


def test_a_circle_is_found() -> None:
    assert set(cycle({"a": ["b"], "b": ["c"], "c": ["b"]})) == {"b", "c"}
    assert cycle({"a": ["b", "c"], "b": ["c"]}) == []


def test_a_wrong_import_is_found(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    lines = ["from dmlpy.validation import checking", "import cupy.cuda", "import_module('cupyx')", "importlib.import_module('torch')"]
    file.write_text("def f():\n    " + "\n    ".join(lines))
    assert imports(file) == ("dmlpy.validation.checking", "cupy.cuda", "cupyx", "torch")
    assert LEVEL[part("dmlpy.validation.checking")] > LEVEL[part("dmlpy.description.descs")]
    assert part("dmlpy.devices.cuda.kernels") == "devices.cuda"
    assert part("dmlpy.devices.plan") == "devices"
