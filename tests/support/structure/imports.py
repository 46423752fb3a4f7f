"""The modules that a file of dmlpy imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dmlpy as dml

ROOT = Path(dml.__file__).parent


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Modules that a file imports, by statement or by `import_module`; `from dmlpy import x` counts as `dmlpy.x` where that is a module."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            below = [f"{module}.{alias.name}" for alias in node.names if module.startswith("dmlpy") and is_module(f"{module}.{alias.name}")]
            yield from below or [module]
        else:
            match node:
                case ast.Call(
                    func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                    args=[ast.Constant(value=str(module)), *_],
                ):
                    yield module


@cache
def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()
