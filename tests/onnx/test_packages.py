"""The packages of `dmlpy.onnx` import each other one way."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmlpy import onnx
from tests.support.structure.imports import imports

ROOT = Path(onnx.__file__).parent
ALLOWED: dict[str, set[str]] = {
    "loading": set(),
    "nodes": {"loading"},
    "domains": {"loading", "nodes"},
    "lowering": {"loading", "nodes", "domains"},
    "runtime": {"loading", "nodes", "domains", "lowering"},
    "reporting": {"loading", "nodes", "lowering"},
    "exporting": {"loading"},
}
"""What each package imports of the others, for type checkers and inside functions too."""


def upward(package: str) -> list[tuple[str, str]]:
    """The imports of a package, by module, that its row does not allow."""
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name in imports(path):
            other = name.removeprefix("dmlpy.onnx.")
            if other != name and other.partition(".")[0] not in {package, *ALLOWED[package]}:
                found.append((own, other))
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_only_those_below_them(package: str) -> None:
    assert upward(package) == []


def test_every_package_has_a_row_and_every_permission_is_used() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(ALLOWED)
    for package, allowed in ALLOWED.items():
        names = {name.split(".")[2] for path in (ROOT / package).rglob("*.py") for name in imports(path) if name.startswith("dmlpy.onnx.")}
        assert allowed <= names
