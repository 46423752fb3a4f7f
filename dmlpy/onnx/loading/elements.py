"""ONNX's element types and those of tensors: DirectML's, and BFLOAT16, which dmlpy's devices add."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper

from dmlpy.description import support
from dmlpy.description.bfloat16 import with_bfloat16
from dmlpy.description.enums import DataType
from dmlpy.messages.naming import Count, listed
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

_DATA_TYPES: dict[int, DataType] = {
    TensorProto.FLOAT: DataType.FLOAT32,
    TensorProto.FLOAT16: DataType.FLOAT16,
    TensorProto.BFLOAT16: DataType.BFLOAT16,
    TensorProto.DOUBLE: DataType.FLOAT64,
    TensorProto.BOOL: DataType.UINT8,
    TensorProto.UINT8: DataType.UINT8,
    TensorProto.UINT16: DataType.UINT16,
    TensorProto.UINT32: DataType.UINT32,
    TensorProto.UINT64: DataType.UINT64,
    TensorProto.INT8: DataType.INT8,
    TensorProto.INT16: DataType.INT16,
    TensorProto.INT32: DataType.INT32,
    TensorProto.INT64: DataType.INT64,
    TensorProto.UINT4: DataType.UINT4,
    TensorProto.INT4: DataType.INT4,
}

FLOATS = with_bfloat16(support.FLOATS)
"""The types of floating-point tensors that operators compute with; FLOAT64 is computed on the host."""
MAX_DIMENSIONS = 64
"""The most dimensions of an array of NumPy."""


def data_type_of(element: int) -> DataType | None:
    """The tensors' type of an ONNX element type; None if there is none, as for strings. Booleans are UINT8, 0 or 1."""
    return _DATA_TYPES.get(element)


def element_of(data_type: DataType) -> int:
    """ONNX's type of DirectML's elements; UINT8 is never a boolean."""
    return next(element for element, represented in _DATA_TYPES.items() if represented is data_type and element != TensorProto.BOOL)


@cache
def dtype_of(element: int) -> np.dtype[Any]:
    """The NumPy type in which the package onnx holds elements; `ml_dtypes` has those that NumPy lacks, 4-bit ones in a byte each."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(element))


def sizes_problem(path: str, sizes: Sequence[int], element: int) -> Problem | None:
    """The problem with sizes that no NumPy array can have; None if they are possible.

    Args:
        path: the place of the sizes.
        sizes: the sizes, each 0 or more.
        element: ONNX's type of the elements; 0 if unknown.
    """
    if len(sizes) > MAX_DIMENSIONS:
        return Problem("onnx.size", path, Count(f"{len(sizes)} dimensions"), f"at most {MAX_DIMENSIONS}")
    if prod(size for size in sizes if size) * (dtype_of(element).itemsize if element else 1) >= 1 << 63:
        return Problem("onnx.size", path, listed(sizes), "sizes whose product, those of 0 left out, is less than 2**63 bytes")
    return None


ELEMENTS = tuple(TensorProto.DataType.values())
"""The numbers of ONNX's element types and of none, which protobuf lists anew each time."""


def element_of_array(array: np.ndarray[Any, Any]) -> int:
    """ONNX's type of an array's elements."""
    return element_of_dtype(array.dtype)


@cache
def element_of_dtype(dtype: np.dtype[Any]) -> int:
    """ONNX's type of elements that NumPy holds."""
    return int(helper.np_dtype_to_tensor_dtype(dtype))


@cache
def element_name(element: int | None) -> str:
    """The name as in ONNX's type strings: `float16`, `int64`; `unknown` for None and undefined."""
    if not element:
        return "unknown"
    name = str(TensorProto.DataType.Name(element)).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


@cache
def type_string(element: int) -> str:
    """The type of a tensor as ONNX's schemas spell it: `tensor(float)`."""
    return f"tensor({str(TensorProto.DataType.Name(element)).lower()})"
