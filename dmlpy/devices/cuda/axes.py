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


@cache
def axes_type(tensors: int) -> np.dtype[Any]:
    """The struct of axes that so many tensors share."""
    return struct(("strides", np.int64, (tensors, MOST_AXES)), ("sizes", np.uint32, (MOST_AXES,)), ("count", np.int32))


def axes_value(axes: Sequence[Axis], tensors: int) -> np.ndarray[Any, Any]:
    """One element of `axes_type(tensors)` for axes of so many tensors, outermost first."""
    value = np.zeros((), axes_type(tensors))
    for at, axis in enumerate(axes):
        value["sizes"][at] = axis.size
        value["strides"][:, at] = axis.strides
    value["count"] = len(axes)
    return value
