"""`Sliding<inputs, others>` of raw_kernels/pooling/forward.cu: the windows of a pooling."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.axes import merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.windows import WINDOW, counts_along, windows_of, windows_value
from dmlpy.devices.cuda.kernels import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.common.windows import Window
    from dmlpy.operators.pooling.windows import PoolingDesc

SPATIAL = 3
"""The spatial dimensions of the kernels' windows."""


@cache
def sliding_type(inputs: int, others: int) -> np.dtype[np.void]:
    """The struct for this many tensors that windows slide over, and that many others that have an element for each position."""
    return struct(
        ("axes", axes_type(1 + inputs + SPATIAL + others)),
        ("origin", np.int64, (inputs,)),
        ("steps", np.int64, (SPATIAL, inputs)),
        ("windows", WINDOW, (SPATIAL,)),
        ("count", np.uint64),
    )


def pooling_windows(desc: PoolingDesc) -> tuple[Window, ...]:
    """The windows of a checked desc."""
    tensors = desc.tensors()
    return windows_of(desc, tensors[desc.slid_over].sizes[2:], desc.window_size, tensors[desc.positioned].sizes[2:], SPATIAL)


def sliding_value(
    desc: PoolingDesc, output: Sequence[int], inputs: Sequence[Sequence[int]], others: Sequence[Sequence[int]] = ()
) -> tuple[np.ndarray[Any, Any], int]:
    """One element of `sliding_type` and the number of positions, in all images.

    Args:
        desc: a checked desc.
        output: strides of the tensor that has an element for each position.
        inputs: strides of those that the windows slide over.
        others: strides of other tensors that have an element for each position.
    """
    sizes, windows = desc.tensors()[desc.positioned].sizes, pooling_windows(desc)
    along = windows[SPATIAL + 2 - len(sizes) :]
    first = [(*strides[:2], *(window.stride * stride for window, stride in zip(along, strides[2:], strict=True))) for strides in inputs]
    strides = [output, *first, *counts_along([window.stride for window in windows], len(sizes)), *others]
    value, count = np.zeros((), sliding_type(len(inputs), len(others))), int(np.prod(sizes, dtype=object))
    value["axes"] = axes_value(merged(sizes, strides), len(strides))
    value["windows"], value["count"] = windows_value(windows), count
    for at, tensor in enumerate(inputs):
        value["origin"][at] = -sum(window.start * stride for window, stride in zip(along, tensor[2:], strict=True))
        value["steps"][SPATIAL - len(along) :, at] = [window.dilation * stride for window, stride in zip(along, tensor[2:], strict=True)]
    return value, count
