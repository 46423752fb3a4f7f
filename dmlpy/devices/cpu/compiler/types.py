"""The types of values in kernels, and `Value`, an LLVM value with its type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from llvmlite import ir

if TYPE_CHECKING:
    from collections.abc import Sequence


class Type:
    """A type of kernels' values.

    Attributes:
        name: how messages show it.
        llvm: the type of its values in LLVM code.
    """

    def __init__(self, name: str, llvm: Any) -> None:
        self.name, self.llvm = name, llvm

    def __call__(self, *arguments: Type) -> Signature:
        """The signature of a function that returns this type."""
        return Signature(self, arguments)

    def __repr__(self) -> str:
        return self.name


class Integer(Type):
    """A signed integer, or a boolean, of some bits."""

    def __init__(self, name: str, bits: int) -> None:
        super().__init__(name, ir.IntType(bits))
        self.bits = bits


class Float(Type):
    """A float of some bits."""

    def __init__(self, name: str, bits: int, llvm: Any) -> None:
        super().__init__(name, llvm)
        self.bits = bits


class UniTuple(Type):
    """Several values of one type: an array in LLVM code."""

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"{count} x {element}", ir.ArrayType(element.llvm, count))
        self.element, self.count = element, count


class StructPointer(Type):
    """The address of an element of a structured type, whose fields a kernel reads as attributes."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        super().__init__(f"struct({', '.join(dtype.names or ())})", ir.IntType(8).as_pointer())
        self.dtype = dtype


@dataclass(frozen=True)
class Signature:
    """The types of a function's result and arguments."""

    result: Type
    arguments: Sequence[Type]


@dataclass(frozen=True, slots=True)
class Value:
    """A value that is known when the kernel runs."""

    type: Type
    llvm: Any


Term: TypeAlias = Any
"""The value of an expression in a kernel: a `Value`, a tuple of terms, or any other object, which is known when it is compiled."""

void = Type("void", ir.VoidType())
boolean = Integer("boolean", 1)
int32, int64 = Integer("int32", 32), Integer("int64", 64)
float32, float64 = Float("float32", 32, ir.FloatType()), Float("float64", 64, ir.DoubleType())

_OF_NUMBERS: tuple[tuple[type | tuple[type, ...], Type], ...] = (
    ((bool, np.bool_), boolean),
    (np.int32, int32),
    ((int, np.integer), int64),
    (np.float32, float32),
    ((float, np.float64), float64),
)
_OF_FIELDS = {"i4": int32, "i8": int64, "f4": float32, "f8": float64}


def type_of_number(number: object) -> Type | None:
    """The type that a number has in kernels; None for any other object."""
    return next((kind for kinds, kind in _OF_NUMBERS if isinstance(number, kinds)), None)


def type_of_field(dtype: np.dtype[Any]) -> Type:
    """The type of a field of a struct."""
    return _OF_FIELDS[dtype.str[1:]]


@cache
def struct_pointer(dtype: np.dtype[np.void]) -> StructPointer:
    """The type of pointers to a structured type. There is one for each, so that code for it is compiled once."""
    return StructPointer(dtype)
