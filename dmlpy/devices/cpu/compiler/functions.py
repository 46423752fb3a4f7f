"""The functions that kernels call: `jit` functions, intrinsics, which append LLVM code, and C functions of the process.

They are defined as in Numba, without its contexts: who knows those can read these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

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
