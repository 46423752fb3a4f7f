"""What the CPU device's modules import: those that plans are made of know nothing of the compiler, which stored code runs without."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from fnmatch import fnmatch
from graphlib import TopologicalSorter
from pathlib import Path

from tests.support.folders import ROOT

FOLDER = ROOT / "dmlpy/devices/cpu"
KERNELS = ("*kernels.py", "simd*.py", "load_store.py", "compiler/*.py")
"""The files that compiled code is made of; nothing but their like and the machinery imports them."""
MACHINERY = ("llvm.py",)
"""The file that imports llvmlite when it is asked to compile or to load."""


def is_of(path: Path, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(path.as_posix(), f"*/{pattern}") for pattern in patterns)


def imports(path: Path) -> set[str]:
    """The modules that a file imports when it runs, within functions, too."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_checkers = {id(node) for test in ast.walk(tree) if is_for_checkers(test) for node in ast.walk(test)}
    for node in ast.walk(tree):
        if id(node) in for_checkers:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def is_for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def short(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


FILES = sorted(FOLDER.rglob("*.py"))
KERNEL_MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES if is_of(path, KERNELS)}


def test_only_kernels_import_llvmlite() -> None:
    others = {short(path): imports(path) for path in FILES if not is_of(path, KERNELS + MACHINERY)}
    found = {name: [each for each in names if each.partition(".")[0] == "llvmlite"] for name, names in others.items()}
    assert {name: names for name, names in found.items() if names} == {}


def test_only_kernels_import_kernels() -> None:
    found = {short(path): sorted(KERNEL_MODULES & imports(path)) for path in FILES if not is_of(path, KERNELS + MACHINERY)}
    assert {name: names for name, names in found.items() if names} == {}


FAMILIES = {path.parent.name for path in FOLDER.glob("*/plans.py")}
"""The folders of operators' families; the compiler has a folder, but is not a family."""


def families_of_kernels(files: Iterable[Path]) -> set[str]:
    """The families whose modules are imported by those of the files that compiled code is made of."""
    names = (name.split(".") for path in files if is_of(path, KERNELS) for name in imports(path))
    return {name[3] for name in names if name[:3] == ["dmlpy", "devices", "cpu"] and len(name) > 4} & FAMILIES


def test_kernels_that_families_share_know_none_of_them() -> None:
    assert len(FAMILIES) > 10
    assert families_of_kernels(path for path in FILES if path.parent == FOLDER) == set()


def test_kernels_of_families_import_each_other_in_no_circle() -> None:
    known = {family: families_of_kernels((FOLDER / family).glob("*.py")) - {family} for family in FAMILIES}
    assert known["recurrent"] == {"matrix"}
    TopologicalSorter(known).prepare()  # which raises CycleError
