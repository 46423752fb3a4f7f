"""The functions that kernels call, their syntax trees, and pieces of LLVM code that they share.

They are `jit` functions, intrinsics, which append LLVM code, and C functions of the process. They are defined as in Numba, without its
contexts: who knows those can read these.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FunctionType

    from dmlpy.devices.cpu.compiler.types import Signature


class Function:
    """A Python function that is compiled with each kernel that calls it, once for each combination of types of arguments.

    Attributes:
        python: the function.
        inlines: whether its code is inlined at each call.
    """

    def __init__(self, python: Callable[..., Any], *, inlines: bool) -> None:
        self.python, self.inlines = python, inlines

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.python.__qualname__} is a function for kernels only")


class Intrinsic:
    """An operation as LLVM code.

    Attributes:
        define: returns the signature and the function that appends the code, for the types of its arguments.
    """

    def __init__(self, define: Callable[..., tuple[Signature, Callable[..., Any]]]) -> None:
        self.define = define

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.define.__qualname__} is an operation for kernels only")


class ExternalFunction:
    """A C function of the process.

    Args:
        name: its symbol.
        signature: its types.
    """

    def __init__(self, name: str, signature: Signature) -> None:
        self.name, self.signature = name, signature

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.name} is a function for kernels only")


def jit(function: Callable[..., Any]) -> Any:
    """A function for use in kernels: it is inlined at each call."""
    return Function(function, inlines=True)


def called(function: Callable[..., Any]) -> Any:
    """A function for use in kernels that is not inlined, because it is long and several places call it."""
    return Function(function, inlines=False)


def intrinsic(define: Callable[..., Any]) -> Any:
    """An operation as LLVM code: define(*types) returns its signature and generate(builder, arguments)."""
    return Intrinsic(define)


# Their syntax trees: each file is parsed once.


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
    except FileNotFoundError:
        packed = "keep the .py files of dmlpy in a packed program (PyInstaller: module_collection_mode 'py')"
        why = f"it is missing; {packed}, or run on the device numpy, which needs none"
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
    counts: dict[str, int] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts[node.id] = counts.get(node.id, 0) + 1
    return counts


# Pieces of LLVM code


_COUNT = ir.IntType(32)


def declared(module: Any, kind: Any, name: str) -> Any:
    """A function that LLVM or the process defines."""
    return module.globals.get(name) or ir.Function(module, kind, name)


def allocated(builder: Any, kind: Any, count: int | None = None) -> Any:
    """Room on the stack, allocated once for a call of the function: for a value, or for some in a row."""
    with builder.goto_entry_block():
        return builder.alloca(kind, size=None if count is None else _COUNT(count))


def phis(builder: Any, *paths: tuple[Any, Sequence[Any]]) -> list[Any]:
    """The values at the beginning of a block, given each block that branches to it, with as many values that it has computed."""
    results = []
    for values in zip(*(values for _, values in paths), strict=True):
        results.append(result := builder.phi(values[0].type))
        for (block, _), value in zip(paths, values, strict=True):
            result.add_incoming(value, block)
    return results


def unpacked(builder: Any, packed: Any) -> list[Any]:
    """The values of a tuple that an intrinsic gets."""
    return [builder.extract_value(packed, place) for place in range(packed.type.count)]
