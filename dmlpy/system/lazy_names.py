"""Names of a package that are imported from its modules on first use, as its stub lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lazy_loader

if TYPE_CHECKING:
    from collections.abc import Callable

_IMPORT = re.compile(r"^from \.(\S*) import (\w+) as \w+$", re.MULTILINE)


def attach_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The result of `lazy_loader.attach_stub`: the package's `__getattr__`, `__dir__` and `__all__`.

    That parses the stub as Python, which takes a tenth of the import of dmlpy. Here each import is a line, as `dmlpy.x.stubs` writes it.

    Args:
        package: the package's name.
        file: its `__init__.py`, beside which the stub is.
    """
    modules: set[str] = set()
    names: dict[str, list[str]] = {}
    for module, name in _IMPORT.findall(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")):
        names.setdefault(module, []).append(name) if module else modules.add(name)
    found: tuple[Callable[[str], Any], Callable[[], list[str]], list[str]] = lazy_loader.attach(package, modules, names)
    return found
