"""`Axes<tensors>` of raw_kernels/common/axes.cuh: axes as kernels take them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.kernels import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.axes import Axis

MOST_AXES = 8
"""Dimensions that a tensor may have."""

VECTOR_BYTES = 16
"""Bytes of the widest access of a thread."""


DIVISOR = struct(("divisor", np.uint32), ("multiplier", np.uint32), ("first_shift", np.uint32), ("second_shift", np.uint32))
"""`Divisor`: a divisor as a multiplication and shifts."""


@cache
def axes_type(tensors: int, offset: str = "int64", most: int = MOST_AXES) -> np.dtype[np.void]:
    """The struct of axes that this many tensors share: `Axes<tensors, offset, most>`."""
    return struct(("strides", offset, (tensors, most)), ("sizes", DIVISOR, (most,)), ("count", np.int32))


def axes_value(axes: Sequence[Axis], tensors: int, offset: str = "int64", most: int = MOST_AXES) -> np.ndarray[Any, Any]:
    """One element of `axes_type` for axes of this many tensors, outermost first."""
    value = np.zeros((), axes_type(tensors, offset, most))
    for at, axis in enumerate(axes):
        value["sizes"][at] = divisor(axis.size)
        value["strides"][:, at] = axis.strides
    value["count"] = len(axes)
    return value


def divisor(size: int) -> tuple[int, int, int, int]:
    """A `Divisor` of less than 2^32."""
    bits = (size - 1).bit_length()
    first = min(bits, 1)
    return size, (1 << 32) * ((1 << bits) - size) // size + 1, first, bits - first
