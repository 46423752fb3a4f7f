"""Problems of an array that a caller passes for a described tensor, wherever it is bound."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.int4 import int4_type
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc


def shape_remedy(desc: TensorDesc, shape: tuple[int, ...]) -> str | None:
    """A remedy that makes an array of the described sizes from one of other sizes; None if no likely one is known."""
    squeezed = tuple(size for size in shape if size != 1)
    if squeezed == tuple(size for size in desc.sizes if size != 1):
        return f"only dimensions of size 1 differ: array.reshape({', '.join(map(str, desc.sizes))})"
    if len(shape) == len(desc.sizes) and sorted(shape) == sorted(desc.sizes):
        return "the sizes are right in another order: transpose the array (and copy it, or compile for its strides)"
    if prod(shape) == desc.element_count:
        return f"the number of elements matches: array.reshape({', '.join(map(str, desc.sizes))}) keeps their order"
    return None


def int4_problems(
    name: str, desc: TensorDesc, dtype: np.dtype[Any], shape: tuple[int, ...], why: str, *, output: bool = False, copied: bool = False
) -> list[Problem]:
    """The problems with an array's type and sizes that is given for a tensor of 4-bit elements.

    Args:
        name: its place.
        desc: the tensor.
        dtype: the array's type.
        shape: its sizes.
        why: where the desc comes from.
        output: whether it is written.
        copied: whether values are copied, so that they may also be of `ml_dtypes`, an element to a byte.
    """
    memory, data_type = desc.memory, desc.data_type
    unpacked = f"{data_type.name.lower()} of ml_dtypes {list(desc.sizes)}"
    if copied and int4_type(dtype) is data_type:
        if shape == desc.sizes:
            return []
        return [Problem("array.shape", name, str(list(shape)), str(list(desc.sizes)), (why,), shape_remedy(desc, shape))]
    if dtype == np.uint8 and shape == memory.sizes:
        return []
    expected = f"uint8 {list(memory.sizes)}, two elements to a byte" + (f", or {unpacked}" if copied else "")
    packs = not output and shape == desc.sizes and (int4_type(dtype) is data_type or dtype == data_type.unpacked)
    remedy = "pack them: dmlpy.pack_int4(array)" if packs else shape_remedy(memory, shape) if dtype == np.uint8 else None
    code = "array.shape" if dtype == np.uint8 else "array.type"
    return [Problem(code, name, f"{dtype} {list(shape)}", expected, (why,), remedy)]


def value_problems(name: str, values: np.ndarray[Any, Any], limit: int, symbol: str) -> list[Problem]:
    """A problem if any value exceeds the limit or is negative; it reports the worst value."""
    flat = values.reshape(-1)
    for index in (int(flat.argmax()), int(flat.argmin())):
        if not 0 <= (value := int(flat[index])) <= limit:
            return [Problem("value.range", f"{name}[{index}]", str(value), f"0 to {limit}", (f"{symbol} is {limit}",))]
    return []
