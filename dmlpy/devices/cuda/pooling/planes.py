"""Average and max pooling of images whose places fit in 32 bits: one launch of the kernel of raw_kernels/pooling/planes.cu."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.element_types import element_type
from dmlpy.devices.cuda.common.steps import Step
from dmlpy.devices.cuda.kernels import Kernel, struct
from dmlpy.devices.cuda.pooling.sliding import pooling_windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.cuda.common.windows import Window
    from dmlpy.operators.pooling.windows import PoolingDesc

Reduction = Literal["MaximumOf", "IndexedOf", "AverageOf"]

PLANES = 2
"""Spatial dimensions that the kernel has."""

_WRITTEN_OUT = (2, 3)
"""Lengths of either side of the windows that kernels are written out for."""

_NEIGHBOURS = 2
"""Elements of the output to a thread, if windows are written out."""

_WINDOW = struct(*((name, np.int32) for name in ("size", "start", "end", "length", "dilation", "stride", "step", "next")))
_TENSORS: Mapping[Reduction, int] = {"MaximumOf": 4, "IndexedOf": 6, "AverageOf": 4}
"""The tensors that have a place for each thread."""

FEWEST_AXES = 3
"""Of a kernel: usually images are one axis, and each of the two spatial dimensions is one."""

_LIMIT = 2**31


def planes_kernel(data_type: np.dtype[Any], reduction: Reduction, taps: int, adjacent: bool, axes: int = FEWEST_AXES) -> Kernel:
    """The kernel for elements of a type.

    Args:
        data_type: of the elements.
        reduction: what becomes of a window's elements.
        taps: the length of either side of the window if it is written out, else 0.
        adjacent: whether the elements of a row of the window lie side by side in memory.
        axes: that threads are numbered along.
    """
    scalar = element_type(data_type)
    parameters = struct(
        *((name, np.uint64) for name in ("input", "output", "indices")),
        ("axes", axes_type(_TENSORS[reduction], "int32", axes)),
        ("rows", _WINDOW),
        ("columns", _WINDOW),
        *((name, np.int32) for name in ("origin", "output_step", "index_step", "row_length", "positions")),
        ("count", np.uint32),
        ("include_padding", np.int32),
        ("wide_indices", np.int32),
        ("least", data_type),
    )
    entry = f"pool_planes<{scalar}, {reduction}, {taps}, {_NEIGHBOURS if taps else 1}, {str(adjacent).lower()}, {axes}>"
    return Kernel("pooling/planes.cu", entry, parameters, f"PlanesParameters<{scalar}, {_TENSORS[reduction]}, {axes}>")


def planes_step(
    desc: PoolingDesc,
    reduction: Reduction,
    addresses: Mapping[str, str],
    *,
    output: Sequence[int],
    indices: Sequence[int] | None = None,
    include_padding: bool = False,
    wide_indices: bool = False,
) -> Step | None:
    """The launch of a checked desc; None if it has more spatial dimensions or places that need more than 32 bits.

    Args:
        desc: the pooling.
        reduction: what becomes of a window's elements.
        addresses: the step's addresses.
        output: strides of the values.
        indices: strides of their indices; None if there are none.
        include_padding: whether the divisor of a mean counts padding.
        wide_indices: whether indices have 64 bits, not 32.
    """
    x, sizes = desc.tensors()["input_tensor"], desc.tensors()[desc.positioned].sizes
    deep, *windows = pooling_windows(desc)
    strides = [0] * (PLANES + 2 - len(x.sizes)) + list(x.element_strides[2:])
    if len(x.sizes) > PLANES + 2 or not _fits(
        windows, strides, x.element_strides, x.sizes, [output, *([] if indices is None else [indices])]
    ):
        return None
    assert deep.size == deep.length == 1
    rows, columns = windows
    taps = columns.length if rows.length == columns.length in _WRITTEN_OUT else 0
    neighbours = _NEIGHBOURS if taps else 1
    threads = (*sizes[:-1], -(-sizes[-1] // neighbours))
    axes = merged(threads, _places(desc, windows, neighbours, output, indices))
    none = (Axis(1, (0,) * _TENSORS[reduction]),) * (FEWEST_AXES - len(axes))
    kernel = planes_kernel(x.data_type.numpy, reduction, taps, columns.dilation * strides[-1] == 1, len(none) + len(axes))
    argument = np.zeros(1, kernel.parameters)
    argument["axes"] = axes_value((*none, *axes), _TENSORS[reduction], "int32", len(none) + len(axes))
    for field, window, stride in zip(("rows", "columns"), windows, strides, strict=True):
        argument[field] = (*window[:6], window.dilation * stride, window.stride * stride)
    argument["origin"] = -sum(window.start * stride for window, stride in zip(windows, strides, strict=True))
    argument["output_step"], argument["index_step"] = output[-1], 0 if indices is None else indices[-1]
    argument["row_length"], argument["positions"], argument["count"] = x.sizes[-1], sizes[-1], prod(threads)
    argument["include_padding"], argument["wide_indices"] = include_padding, wide_indices
    argument["least"] = -np.inf if is_float(x.data_type.numpy) else np.iinfo(x.data_type.numpy).min
    return Step(kernel, argument, addresses, prod(threads), neighbours)


def _places(
    desc: PoolingDesc, windows: Sequence[Window], neighbours: int, output: Sequence[int], indices: Sequence[int] | None
) -> list[tuple[int, ...]]:
    """The strides of the kernel's tensors along the dimensions of the output, of which the last counts threads."""
    x = desc.tensors()["input_tensor"]
    spatial = len(x.sizes) - 2
    along = windows[PLANES - spatial :]
    first_tap = (*x.element_strides[:2], *(window.stride * step for window, step in zip(along, x.element_strides[2:], strict=True)))
    row = (0, 0, *[1] * (spatial - 1), 0)
    column = (*[0] * (spatial + 1), 1)
    number = (*packed_strides(x.sizes)[:2], *[0] * spatial)
    strides = [output, first_tap, row, column, *([] if indices is None else [indices, number])]
    return [(*each[:-1], each[-1] * neighbours) for each in strides]


def _fits(
    windows: Sequence[Window], strides: Sequence[int], steps: Sequence[int], sizes: Sequence[int], others: Sequence[Sequence[int]]
) -> bool:
    """Whether 32 bits hold all places, those of padding and of threads' last neighbours too."""
    reach = [
        window.start + window.end + window.size + (window.length + 1) * window.dilation + (window.positions + 1) * window.stride
        for window in windows
    ]
    inside = sum(stride * (size - 1) for stride, size in zip(steps, sizes, strict=True))
    padded = inside + sum(stride * places for stride, places in zip(strides, reach, strict=True))
    positions = [*sizes[:2], *(window.positions + 1 for window in windows[PLANES + 2 - len(sizes) :])]
    written = [sum(stride * size for stride, size in zip(other, positions, strict=True)) for other in others]
    return max(padded, *reach, *written, prod(sizes), prod(positions)) < _LIMIT
