"""Elements of 4 bits, two to a byte: the first in the low half, the second in the high one, and zeros behind an odd last one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import view
from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc

Array = np.ndarray[Any, np.dtype[Any]]

_OF_BYTES = {np.dtype(np.int8): DataType.INT4, np.dtype(np.uint8): DataType.UINT4}
_NAMES = {"int4": DataType.INT4, "uint4": DataType.UINT4}


def pack_int4(values: Any) -> Array:
    """Packs integers of 4 bits two to a byte, as INT4 and UINT4 tensors have them.

    The first of two neighbours takes the low half of a byte. Behind an odd number of elements the last high half is 0.

    Args:
        values: an array in host memory, of any sizes, last dimension fastest: int8 for INT4 (-8 to 7), uint8 for UINT4 (0 to 15), or
            `ml_dtypes.int4` or `ml_dtypes.uint4`.

    Returns:
        uint8 [(n + 1) // 2] for n elements.

    Raises:
        DescError: another type, or a value that 4 bits do not hold.
    """
    array = _host_array(values, "pack_int4", "values")
    data_type = int4_type(array.dtype) or _OF_BYTES.get(array.dtype)
    if data_type is None:
        cast = "cast it: array.astype(numpy.int8)" if array.dtype.kind in "iu" else None
        expected = "int8, uint8, ml_dtypes.int4 or ml_dtypes.uint4"
        raise DescError("pack_int4", [Problem("array.type", "values", str(array.dtype), expected, remedy=cast)])
    flat = array.reshape(-1).astype(data_type.unpacked, copy=False)
    least, most = data_type.limits
    if wrong := np.flatnonzero((flat < least) | (flat > most)).tolist():
        found = brief(int(flat[wrong[0]]))
        why = f"{array.dtype} elements are packed as {data_type}"
        raise DescError("pack_int4", [Problem("value.range", f"values[{wrong[0]}]", found, f"{least} to {most}", (why,))])
    return _pack(flat)


def unpack_int4(packed: Any, data_type: Any, sizes: Sequence[int]) -> Array:
    """Unpacks integers of 4 bits to a byte each, the inverse of `pack_int4`.

    Args:
        packed: uint8 [(n + 1) // 2] in host memory, as an INT4 or UINT4 output has it.
        data_type: `"INT4"` gives int8, `"UINT4"` uint8; `ml_dtypes.int4` and `ml_dtypes.uint4` give arrays of their own type.
        sizes: of the result, n elements in all.

    Returns:
        A new array of the sizes.

    Raises:
        DescError: another type, or another number of bytes.
    """
    array = _host_array(packed, "unpack_int4", "packed")
    kind, dtype = _parse_type(data_type)
    shape = _parse_sizes(sizes)
    count = prod(shape)
    if array.dtype != np.uint8:
        raise DescError("unpack_int4", [Problem("array.type", "packed", str(array.dtype), "uint8")])
    if array.shape != ((count + 1) // 2,):
        why = (f"{count} elements of 4 bits take {(count + 1) // 2} bytes",)
        raise DescError("unpack_int4", [Problem("array.shape", "packed", str(list(array.shape)), str([(count + 1) // 2]), why)])
    return _unpack(array, kind, count).reshape(shape).astype(dtype, copy=False)


def int4_type(dtype: np.dtype[Any]) -> DataType | None:
    """The 4-bit type whose elements an array of `ml_dtypes` holds, a byte each; None for all other types."""
    return _NAMES.get(dtype.name) if dtype.itemsize == 1 and dtype.kind == "V" else None  # NumPy puts a name together each time


def pack_tensor(values: Array, tensor: TensorDesc) -> Array:
    """The bytes of a described tensor of 4-bit elements, from values that 4 bits hold; what lies between strided elements is 0.

    Args:
        values: integers, a byte or more each, of the described sizes or broadcastable to them.
        tensor: its layout.
    """
    flat = np.zeros(tensor.span, tensor.data_type.unpacked)
    np.lib.stride_tricks.as_strided(flat, tensor.sizes, tensor.element_strides)[...] = values
    return _pack(flat)


def unpack_tensor(data: Array, tensor: TensorDesc) -> Array:
    """The elements of a described tensor of 4-bit elements, of the described sizes: int8 for INT4, uint8 for UINT4.

    Args:
        data: its bytes.
        tensor: its layout.
    """
    flat = _unpack(data, tensor.data_type, tensor.span)
    return np.lib.stride_tricks.as_strided(flat, tensor.sizes, tensor.element_strides)


def _pack(flat: Array) -> Array:
    low = flat[0::2].view(np.uint8) & 15
    low[: flat.size // 2] |= flat[1::2].view(np.uint8) << 4
    return low


def _unpack(data: Array, data_type: DataType, count: int) -> Array:
    halves = np.empty(2 * data.size, np.uint8)
    np.bitwise_and(data, 15, out=halves[0::2])
    np.right_shift(data, 4, out=halves[1::2])
    if data_type is DataType.INT4:
        return (halves[:count] ^ 8).view(np.int8) - np.int8(8)
    return halves[:count]


def _host_array(value: Any, function: str, name: str) -> Array:
    try:
        seen = view(value)
    except TypeError as error:
        found = f"of type {type(value).__name__}"
        raise DescError(function, [Problem("array.kind", name, found, "an array in host memory", (str(error),))]) from None
    if seen.device != "cpu":
        remedy = "copy it to the host: array.get()"
        raise DescError(function, [Problem("array.device", name, "an array in GPU memory", "host memory", remedy=remedy)])
    array: Array = seen.owner[0]
    return array


def _parse_type(data_type: Any) -> tuple[DataType, np.dtype[Any]]:
    with suppress(ValueError, TypeError):
        if isinstance(data_type, np.dtype | type):
            dtype = np.dtype(data_type)
            if (kind := int4_type(dtype)) is not None:
                return kind, dtype
        elif (parsed := DataType.parse(data_type)).bits == 4:
            return parsed, parsed.unpacked
    expected = "INT4, UINT4, ml_dtypes.int4 or ml_dtypes.uint4"
    raise DescError("unpack_int4", [Problem("field.form", "data_type", brief(data_type), expected)])


def _parse_sizes(sizes: Any) -> tuple[int, ...]:
    if isinstance(sizes, Sequence) and all(isinstance(size, int) and size >= 0 for size in sizes):
        return tuple(sizes)
    raise DescError("unpack_int4", [Problem("field.form", "sizes", brief(sizes), "a list of integers of at least 0")])
