"""UNFOLD and FOLD on CUDA: one launch of a kernel of raw_kernels/movement/blocks.cu."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.axes import element_count, merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.element_types import word_type
from dmlpy.devices.cuda.common.steps import Step, StepsPlan
from dmlpy.devices.cuda.common.windows import WINDOW, counts_along, windows_of, windows_value
from dmlpy.devices.cuda.kernels import Kernel, scalar_type, struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.common.windows import Window
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.movement.blocks import FoldDesc, UnfoldDesc

_FILE = "movement/blocks.cu"
SPATIAL = 6
"""The spatial dimensions of the kernels' windows."""
_TENSORS = 2 + SPATIAL


def unfold_kernel(data_type: np.dtype[Any]) -> Kernel:
    word = word_type(data_type)
    parameters = struct(
        ("image", np.uint64),
        ("columns", np.uint64),
        ("inner", axes_type(_TENSORS)),
        ("outer", axes_type(_TENSORS)),
        ("inner_count", np.uint64),
        ("count", np.uint64),
        ("origin", np.int64),
        ("start", np.int64, (SPATIAL,)),
        ("size", np.int64, (SPATIAL,)),
    )
    return Kernel(_FILE, f"unfold<{word}>", parameters, f"UnfoldParameters<{word}>")


def fold_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(
        ("columns", np.uint64),
        ("image", np.uint64),
        ("axes", axes_type(_TENSORS)),
        ("positions", np.int64, (SPATIAL,)),
        ("taps", np.int64, (SPATIAL,)),
        ("windows", WINDOW, (SPATIAL,)),
        ("count", np.uint64),
    )
    return Kernel(_FILE, f"fold<{scalar}>", parameters, f"FoldParameters<{scalar}>")


def unfold_plan(desc: UnfoldDesc, target: Target) -> StepsPlan:
    """Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    image, columns = tensors["input_tensor"], tensors["output_tensor"]
    windows = _windows(desc, image.sizes[2:])
    along = windows[SPATIAL + 2 - len(image.sizes) :]
    batch_stride, row_stride, position_stride = columns.element_strides[-3:]
    lengths, places = [window.length for window in along], [window.positions for window in along]
    per_channel, *tap_strides = _row_major(row_stride, lengths)
    _, *position_strides = _row_major(position_stride, places)

    # for an entry of the columns: its offset, that of the image's element, and the element's coordinate along each dimension
    tap_steps, position_steps = [window.dilation for window in along], [window.stride for window in along]
    spatial_strides = image.element_strides[2:]
    rows = merged(
        (*image.sizes[:2], *lengths),
        [
            (batch_stride, per_channel, *tap_strides),
            (*image.element_strides[:2], *(step * stride for step, stride in zip(tap_steps, spatial_strides, strict=True))),
            *counts_along([window.dilation for window in windows], len(image.sizes)),
        ],
    )
    positions = merged(
        places,
        [
            position_strides,
            [step * stride for step, stride in zip(position_steps, spatial_strides, strict=True)],
            *(strides[2:] for strides in counts_along([window.stride for window in windows], len(image.sizes))),
        ],
    )
    inner, outer = (positions, rows) if position_stride <= row_stride else (rows, positions)

    kernel = unfold_kernel(image.data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    argument["inner"], argument["outer"] = axes_value(inner, _TENSORS), axes_value(outer, _TENSORS)
    argument["inner_count"], argument["count"] = element_count(inner), columns.element_count
    argument["origin"] = -sum(window.start * stride for window, stride in zip(along, spatial_strides, strict=True))
    argument["start"], argument["size"] = [window.start for window in windows], [window.size for window in windows]
    addresses = {"image": "input_tensor", "columns": "output_tensor"}
    return StepsPlan(desc, target.library, [Step(kernel, argument, addresses, columns.element_count)])


def fold_plan(desc: FoldDesc, target: Target) -> StepsPlan:
    """Raises DeviceError if the kernel cannot be compiled."""
    columns, image = desc.input_tensor, desc.output_tensor
    windows, rank = _windows(desc, image.sizes[2:]), len(image.sizes)
    batch_stride, row_stride, position_stride = columns.element_strides[-3:]
    per_channel, *tap_strides = _row_major(row_stride, [window.length for window in windows])
    _, *position_strides = _row_major(position_stride, [window.positions for window in windows])
    strides = [image.element_strides, (batch_stride, per_channel, *(0 for _ in image.sizes[2:])), *counts_along((1,) * SPATIAL, rank)]

    kernel = fold_kernel(image.data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    argument["axes"] = axes_value(merged(image.sizes, strides), _TENSORS)
    argument["positions"], argument["taps"], argument["windows"] = position_strides, tap_strides, windows_value(windows)
    argument["count"] = image.element_count
    addresses = {"columns": "input_tensor", "image": "output_tensor"}
    return StepsPlan(desc, target.library, [Step(kernel, argument, addresses, image.element_count)])


def _windows(desc: FoldDesc | UnfoldDesc, spatial: Sequence[int]) -> tuple[Window, ...]:
    """The windows of a checked desc over an image of these sizes."""
    windows = windows_of(desc, spatial, desc.window_sizes, (1,) * len(spatial), SPATIAL)
    rooms = [window.size + window.start + window.end - 1 - (window.length - 1) * window.dilation for window in windows]
    return tuple(window._replace(positions=room // window.stride + 1) for window, room in zip(windows, rooms, strict=True))


def _row_major(stride: int, sizes: Sequence[int]) -> list[int]:
    """The product of all entries and the stride, then the distance of neighbours along each dimension."""
    return [*accumulate(reversed(sizes), lambda step, size: step * size, initial=stride)][::-1]
