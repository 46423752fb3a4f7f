"""Element types as the kernels spell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

ELEMENT_TYPES = {
    "float32": "float",
    "float16": "machine::half",
    "bfloat16": "machine::bfloat16",
    "float64": "double",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint64": "unsigned long long",
    "uint32": "unsigned",
    "uint16": "unsigned short",
    "uint8": "unsigned char",
}
"""The C++ type of each NumPy type, and of BFLOAT16, by name."""

INT4_TYPES = {"int4": "Int4", "uint4": "UInt4"}
"""The C++ types of 4-bit elements, two to a byte."""

WORD_TYPES = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "Vector4<unsigned>"}
"""The words that kernels copy, by their bytes."""


def element_type(data_type: np.dtype[Any]) -> str:
    """The type of elements that are compared or computed with."""
    return ELEMENT_TYPES[data_type.name]


def word_type(data_type: np.dtype[Any]) -> str:
    """The unsigned type with the size of elements that are copied unchanged."""
    return WORD_TYPES[data_type.itemsize]
