"""The codes of problems that the sources name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dmlpy as dml

SOURCE = Path(dml.__file__).parent


def codes_in(source: str) -> Iterator[str]:
    """Codes that a module can emit: the first argument of each Problem(...) and report(...), a text or an f-string that begins with one."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Problem", "report") and node.args):
            continue
        match node.args[0]:
            case ast.Constant(value=str(code)):
                yield code
            case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]):
                yield from (f"{start}{name}" for name in ("temporary", "persistent"))
