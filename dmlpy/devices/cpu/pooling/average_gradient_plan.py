"""The plan of the gradient of average pooling, and the parameters of its kernel."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.tensors import packed_strides
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.pooling.plan import SliceWindowParameters, counts_along, slice_windows, steps_of, window_counts
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, Flag, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from dmlpy.operators.pooling.average import AveragePoolingGradDesc

AVERAGE_GRADIENT = Kernel("dmlpy.devices.cpu.pooling.average_gradient_kernels:build_average_gradient", 5)
"""The gradient of average pooling: the type of tensors, and the instruction set."""

_SPATIAL_DIMENSIONS = 3
"""Dimensions of a plane with slices."""
_WORK_OF_A_THREAD = 1 << 18
"""Elements that are added and are worth waking another thread for."""


class AverageGradientParameters(SliceWindowParameters):
    """The parameters of the kernel. The input is the gradient that is written; the tensor of all positions is the incoming one."""

    slice_counts: Address = field("the divisors of slices of positions, float32")
    row_counts: Address = field("the divisors of rows of positions, float32")
    column_counts: Address = field("the divisors of columns of positions, float32, a whole number of vectors")
    spreads_windows: Flag = field("whether rows are summed window by window, else tap by tap")
    has_columns_alone: Flag = field("whether each window has a single column, and each column a window")
    pitch: Count = field("elements of a row of scratch: a whole number of vectors")
    spaced: Bytes = field("from a thread's scratch to its row of shares, `stride_x` apart with zeros between")
    spaced_size: Count = field("elements of that row")
    lines: Bytes = field("from a thread's scratch to the sums of each row of positions, float32 [out_depth, out_height, pitch]")
    scratch: Address = field("the scratch of all threads, which begins with a row of shares")
    scratch_size: Bytes = field("from a thread's scratch to the next")


class AverageGradientPlan(PlanWithoutConstants):
    """The gradient of an average pooling of floats over two or three dimensions.

    Each row of positions is spread along the columns first; then each row of the result adds up those whose windows have it.

    Args:
        desc: a checked desc whose tensors have one type.
    """

    def __init__(self, desc: AveragePoolingGradDesc) -> None:
        isa, self._tensors = host_isa(), desc.tensors()
        self._values = values = slice_windows(desc, desc.input_gradient_tensor.sizes)
        self._storage, lanes = storage_of(desc.input_gradient_tensor.data_type), isa.lanes
        batch, channels, *spatial = desc.output_gradient_tensor.sizes
        slices = counts_along(desc, -3) if len(spatial) == _SPATIAL_DIMENSIONS else FixedArray(np.ones(1, np.float32))
        self._counts = slices, *window_counts(desc, isa)
        width, positions, window = values["width"], values["out_width"], values["window_x"]
        # Windows that are wide and have few columns in common are spread in vectors of their columns.
        self._spreads_windows = 2 * (window + lanes) * positions < window * width
        self._has_columns_alone = (window, values["stride_x"], values["pad_x"], positions) == (1, 1, 0, width)
        self._pitch = -(-width // lanes) * lanes
        reach = max((positions - 1) * values["stride_x"] + 1, width + values["pad_x"])
        self._spaced_size = 0 if self._spreads_windows else -(-(window - 1 + reach) // lanes) * lanes + lanes
        self._spaced = aligned((-(-positions // lanes) * lanes) * FLOAT_BYTES)
        self._lines = self._spaced + aligned(self._spaced_size * FLOAT_BYTES)
        self._scratch_size = self._lines + aligned(self._pitch * values["out_height"] * values["out_depth"] * FLOAT_BYTES)
        planes = batch * channels
        self._shares = WorkShares(planes, Threads.of(available_threads(), planes * prod(spatial), _WORK_OF_A_THREAD))
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def load(self) -> None:
        AVERAGE_GRADIENT(self._storage, host_isa())

    def describe(self) -> str:
        how = "window by window" if self._spreads_windows else "tap by tap"
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; {self._shares.units} plane(s), rows {how}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = {
            **self._shares.values,
            **self._values,
            **dict(zip(("slice_counts", "row_counts", "column_counts"), self._counts, strict=True)),
            "spreads_windows": self._spreads_windows,
            "has_columns_alone": self._has_columns_alone,
            "pitch": self._pitch,
            "spaced": self._spaced,
            "spaced_size": self._spaced_size,
            "lines": self._lines,
            "scratch": temporary,
            "scratch_size": self._scratch_size,
        }
        for name, place in (("input", "output_gradient_tensor"), ("pooled", "input_gradient_tensor")):
            values |= {name: tensors[place], **steps_of(name, self._tensors[place])}
        return TaskLaunch.of(AVERAGE_GRADIENT(self._storage, host_isa()), AverageGradientParameters.bound(values), self._shares.threads)


def of_joined_rows(desc: AveragePoolingGradDesc) -> AveragePoolingGradDesc | None:
    """A desc of four dimensions whose planes are single rows, if one window has all elements of planes without gaps; else None."""
    source, target = desc.input_gradient_tensor, desc.output_gradient_tensor
    outer, spatial, steps = target.sizes[:2], target.sizes[2:], target.element_strides
    is_whole = source.sizes[2:] == (1,) * len(spatial) and tuple(desc.window_size) == spatial
    packed = tuple(steps[2:]) == tuple(packed_strides(spatial))
    if not is_whole or not packed or any(desc.start_padding) or any(desc.end_padding):
        return None
    return desc.replace(
        input_gradient_tensor=source.replace(sizes=(*outer, 1, 1), strides=(*source.element_strides[:2], 0, 0)),
        output_gradient_tensor=target.replace(sizes=(*outer, 1, prod(spatial)), strides=(*steps[:2], 0, 1)),
        window_size=(1, prod(spatial)),
        strides=(1, 1),
        start_padding=(0, 0),
        end_padding=(0, 0),
    )
