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

    Raises:
        ImportError: the stub cannot be read, as in an archive.
    """
    modules: set[str] = set()
    names: dict[str, list[str]] = {}
    try:
        stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    except OSError as error:
        reason = f"{file} has no folder, as in an archive" if isinstance(error, NotADirectoryError) else str(error)
        remedy = "install it with pip, or unpack the archive (python -m zipfile -e ARCHIVE FOLDER) and import it from the folder"
        raise ImportError(f"dmlpy reads kernels, tables and stubs from files: {reason}; {remedy}", name=package, path=file) from None
    for module, name in _IMPORT.findall(stub):
        names.setdefault(module, []).append(name) if module else modules.add(name)
    found: tuple[Callable[[str], Any], Callable[[], list[str]], list[str]] = lazy_loader.attach(package, modules, names)
    return found
