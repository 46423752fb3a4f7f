"""The syntax trees of kernels' functions: each file is parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from types import FunctionType


@cache
def _functions_of(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    """The functions that a file defines, by name and first line, decorators included."""
    tree = ast.parse(Path(file).read_bytes(), file)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {(node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])): node for node in functions}


def syntax_of(function: FunctionType) -> ast.FunctionDef:
    """The definition of a function in its file.

    Raises:
        DeviceError: the file is missing, or it has changed since its module was imported.
    """
    code = function.__code__
    try:
        return _functions_of(code.co_filename)[code.co_name, code.co_firstlineno]
    except (OSError, SyntaxError) as error:
        why = f"{type(error).__name__}: {error}"
    except KeyError:
        why = f"it has no {code.co_name} at line {code.co_firstlineno}: it has changed since Python imported it"
    raise DeviceError(
        f"the device cpu compiles {function.__qualname__} from its source file, {code.co_filename}, which it cannot use: {why}"
    )


def outer_names(function: FunctionType) -> dict[str, Any]:
    """The objects that a function uses from the functions around it, by name."""
    cells = function.__closure__ or ()
    return dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True))


@cache
def stores_of(definition: ast.FunctionDef) -> dict[str, int]:
    """How often a function's statements assign each name."""
    found: dict[str, int] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = found.get(node.id, 0) + 1
    return found
