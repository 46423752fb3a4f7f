"""What `.ci/gpu` prepares without a GPU: compiled kernels in one file, the order of the tests, and a plan of what fits into the time."""

from __future__ import annotations

import os
import sys
import tarfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("`.ci/gpu` is a script of bash, and ends programs by signals of POSIX", allow_module_level=True)

import dmlpy as dml
from dmlpy import compiler
from dmlpy.bench import priorities
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.offline_device import OfflineRuntime, limits_of
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.messages.problems import DeviceError
from tests.gpu_check import calls, info, kernels, plan, plugin
from tests.support.cuda import gpu_kernels
from tests.support.cuda.binaries.nvrtc import NEWEST, Nvrtc, library_of
from tests.support.cuda.changed_waits import DELAY
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.instances.persistent_grid import grid_instances
from tests.support.cuda.programs import COPY
from tests.support.tools import require

# kernels

WAITING = next(grid_instances())
"""A kernel whose blocks wait for each other."""


class Noting(OfflineRuntime):
    """Compiles nothing: an image is the beginning of its source's hash. `left` kernels can be had before it fails."""

    sources: list[str]
    left = 100

    def compiler_version(self) -> str:
        return "a compiler"

    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        if Noting.left == 0:
            raise DeviceError("interrupted")
        Noting.left -= 1
        Noting.sources.append(source)
        return [(str(architecture).encode(), entry) for entry in entries]


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `.ci/gpu kernels` for three kernels: its output. One of them is that of the soak."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(kernels, "processors", lambda: 1)
    monkeypatch.setattr(kernels, "runtime_of", lambda target, version: Noting(limits_of(target)))
    monkeypatch.setattr(kernels, "named_by_tests", lambda target, scratch: {(COPY, False), (WAITING, False), (WAITING, True)})
    monkeypatch.setattr(kernels, "named_by_cases", lambda limits: {(COPY, False)})
    monkeypatch.setattr(Noting, "sources", [], raising=False)
    monkeypatch.setattr(Noting, "left", 100)

    def run() -> list[str]:
        assert kernels.main("H200", None, tmp_path / "made" / "kernels.tar.gz", tmp_path / "folder") == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_every_kernel_is_compiled_by_itself_and_packed(prepared: Any, tmp_path: Path) -> None:
    lines = prepared()
    assert lines[0] == "for a H200 (sm_90) by a compiler"
    assert "3 kernels, 3 of them compiled" in lines[-2]
    assert f"3 kernels are in {tmp_path / 'made' / 'kernels.tar.gz'}" in lines[-1]
    assert [DELAY in source for source in Noting.sources] == [False, False, True]
    with tarfile.open(tmp_path / "made" / "kernels.tar.gz") as archive:
        names = archive.getnames()
    assert len(names) == 3
    library = KernelLibrary(Noting(limits_of("H100")), 0)
    Noting.left = 0  # whatever is compiled from now on fails
    os.environ["DMLPY_CACHE_DIR"] = str(tmp_path / "folder")
    assert [image for image, _ in library.images([COPY, WAITING]).values()] == [b"90", b"90"]
    assert set(library.keys.values()) < set(names)


def test_what_was_interrupted_continues(prepared: Any) -> None:
    Noting.left = 2
    with pytest.raises(DeviceError, match="interrupted"):
        prepared()
    Noting.left = 100
    assert "3 kernels, 1 of them compiled" in prepared()[-2]
    assert "3 kernels, 0 of them compiled" in prepared()[-2]


def test_a_named_nvrtc_makes_what_the_product_asks_for() -> None:
    """The same names, and cubins that differ from those of CuPy in the note of the options only."""
    pytest.importorskip("cupy")
    require("nvrtc")
    library = library_of(NEWEST)
    assert library is not None
    ours, cupy = kernels.NvrtcRuntime(limits_of("sm_90"), library), CupyRuntime()
    if Nvrtc(library).version != cupy._cupy.cuda.nvrtc.getVersion():
        pytest.skip("CuPy finds another NVRTC than the newest")
    assert (ours.name, ours.compiler_version()) == (cupy.name, cupy.compiler_version())
    source = sources.read(COPY.file)
    (image, symbol), (expected, expected_symbol) = (runtime.compile(source, [COPY.entry], 90)[0] for runtime in (ours, cupy))
    assert symbol == expected_symbol
    assert image[:4] == expected[:4] == b"\x7fELF"
    assert abs(len(image) - len(expected)) < 256
    with pytest.raises(DeviceError, match="absent"):
        ours.compile(source, ["absent<float>"], 90)


@pytest.mark.parametrize("version", ["13.0", "12.9"])
def test_another_nvrtc_has_other_keys(version: str) -> None:
    require(f"nvrtc {version}")
    assert kernels.runtime_of("H100", version).compiler_version().startswith(f"NVRTC {version} --std=c++17")


def test_an_nvrtc_that_is_missing_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert kernels.main("sm_90", str(tmp_path), tmp_path / "file", tmp_path / "folder") == 2
    assert capsys.readouterr().out.startswith(f"there is no NVRTC in {tmp_path}; pip install ")
    assert kernels.main("hopper", None, tmp_path / "file", tmp_path / "folder") == 2
    assert "'hopper' is neither an architecture" in capsys.readouterr().out


def test_the_kernels_of_what_is_measured_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are profiled, one of each strategy, and the one that shows whether the kernels fit a machine."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(priorities, "FIRST_LAYERS", calls.PROFILED[:1])
    named = kernels.named_by_cases(limits_of("H100"))
    assert not any(is_late for _, is_late in named)
    functions = {kernel.entry.partition("<")[0] for kernel, _ in named}
    assert {"persistent_block", "persistent_grid", "step", "convolve_tiles", "attend_halves"} <= functions
    compiler._compile.cache_clear()
    device = CudaDevice(DryRunRuntime(limits_of("H100")))
    dml.compile(info.probe(), device)
    assert {(kernel, False) for kernel in device.library.keys} <= named


@pytest.mark.slow
def test_the_kernels_of_the_soak_come_late_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLPY_TEST_SOAKED", "0")
    _, named = gpu_kernels.kernels_of_gpu_tests(tmp_path / "kernels", calls.SOAK, gpu="A100")
    late = {kernel for kernel, is_late in named if is_late}
    assert {kernel.file for kernel in late} >= {"recurrent/persistent_grid.cu", "recurrent/persistent_grid_gradient.cu"}
    assert late <= {kernel for kernel, is_late in named if not is_late}


# the order of the tests


class Item:
    """An item of pytest's with a test's parameters, or none."""

    def __init__(self, nodeid: str, **params: object) -> None:
        self.nodeid, self.callspec = nodeid, types.SimpleNamespace(params=params) if params else None


def item(nodeid: str, **params: object) -> Any:
    return Item(nodeid, **params)


def test_a_row_of_each_operator_comes_first_and_samples_last() -> None:
    relu, gelu = (
        kind(input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(1,))) for kind in (dml.ActivationReluDesc, dml.ActivationGeluDesc)
    )
    many = [item(f"{plugin.SAMPLED}.py::test_n[{number}]", number=number) for number in range(25)]
    given = [
        *many,
        item("a.py::test_a[relu-1]", desc=relu, size=1),
        item("a.py::test_a[relu-2]", desc=relu, size=2),
        item("a.py::test_a[gelu-1]", kind=dml.ActivationGeluDesc),
        item("a.py::test_a[gelu-2]", desc=gelu),
        item("a.py::test_b[1]", number=1),
        item("a.py::test_b[2]", number=2),
        item("b.py::test_c"),
    ]
    deselected: list[Any] = []
    hook = types.SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    config: Any = types.SimpleNamespace(hook=hook)
    plugin.pytest_collection_modifyitems(config, given)
    ordered = [one.nodeid for one in given]
    assert len(deselected) == 22
    firsts = ["a.py::test_a[relu-1]", "a.py::test_a[gelu-1]", "a.py::test_b[1]", "b.py::test_c"]
    others = ["a.py::test_a[relu-2]", "a.py::test_a[gelu-2]", "a.py::test_b[2]"]
    assert ordered == [*firsts, *others, *(many[number].nodeid for number in (0, 10, 20))]


# the plan


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The output of `.ci/gpu plan`, with 120 tests in each part."""
    monkeypatch.setattr(plan, "collected", lambda *arguments: [f"tests/test_{number // 60}.py::test_x[{number}]" for number in range(120)])

    def run(of: str, seconds: float | None, workers: int = 12) -> list[str]:
        assert plan.main(of, seconds, workers) == 0
        return capsys.readouterr().out.splitlines()

    return run


def test_all_fits_into_the_first_call(told: Any) -> None:
    lines = told("check", None)
    assert lines[0].startswith("check, 400 s: ")
    parts = [line.split()[:4] for line in lines[1:-1]]
    assert [part for part, *_ in parts] == [f"{part}:" for part in calls.shares("check")]
    assert all(fit == count for _, fit, _, count in parts)
    assert float(lines[-1].split()[0]) > 0


@pytest.mark.parametrize("of", calls.CALLS)
def test_what_does_not_fit_is_named(of: str, told: Any) -> None:
    """Each part has the time that the call gives it, and what is over is left."""
    lines = told(of, 110)
    left = {line.split(":")[0].removeprefix("left out of "): line.partition(": ")[2] for line in lines if line.startswith("left out of")}
    for line in lines[1:]:
        if line.startswith("  "):
            part, fit, _, count, _, _, took, _, allowed, _ = line.split()
            assert float(took) <= float(allowed) + 0.5
            assert (part.rstrip(":") in left) == (fit != count)
    assert "steps" not in left or left["steps"]
    if of == "check":
        assert "MULTIHEAD_ATTENTION" in left["operators"] or "GEMM" in left["operators"]
        assert left["rest"] == "tests/test_0.py 60, tests/test_1.py 60"


def test_a_version_to_compare_with_takes_its_time(told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many operators again, and the start of another process."""

    def cases() -> int:
        return int(next(line.split()[1] for line in told("recheck", None) if line.startswith("  operators:")))

    monkeypatch.chdir(tmp_path)
    alone = cases()
    (tmp_path / ".gpu" / "before").mkdir(parents=True)
    assert 1 <= cases() < alone / 2
