"""The plan of QUANTIZED_LINEAR_AVERAGE_POOLING."""

from __future__ import annotations

import functools
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.convolution.layout import byte_strides
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.pooling.plan import SliceWindowParameters, steps_of
from dmlpy.devices.cpu.quantized.products import is_signed
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, Flag, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import BoundAddress, Launch, PlanWithoutConstants, Pointers
from dmlpy.reference.windows import windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.quantized.products import QuantizedLinearAveragePoolingDesc
    from dmlpy.reference.registry import Array

MEANS = Kernel("dmlpy.devices.cpu.pooling.byte_kernels:build_means", 5)
"""The mean of windows of bytes."""

LANES = 8
"""Results that are computed at once, in float64."""
_WORK_OF_A_THREAD = 1 << 20
"""Taps of all positions that are worth waking another thread for."""
_MOST_JOINED = 64
"""Channels of a row, at most."""
_ZERO = np.zeros(1, np.uint8)
"""The zero point that no tensor gives."""


class BytePoolingParameters(SliceWindowParameters):
    """The parameters of the kernel."""

    input_flip: Count = field("128 if the input is signed")
    output_flip: Count = field("128 if the output is signed")
    low: Count = field("the least result")
    high: Count = field("the largest result")
    input_scale: Address = field("the input's scales")
    input_scale_step: Bytes = field("from the scale of a channel to the next")
    input_zero: Address = field("the input's zero points")
    input_zero_step: Bytes = field("from the zero point of a channel to the next")
    output_scale: Address = field("the output's scales")
    output_scale_step: Bytes = field("from the scale of a channel to the next")
    output_zero: Address = field("the output's zero points")
    output_zero_step: Bytes = field("from the zero point of a channel to the next")
    row_counts: Address = field("for each row of positions the divisor of its means and the elements that a window has, float64 [rows, 2]")
    column_divisors: Address = field("the divisors of columns of positions, float64, whole vectors")
    column_counts: Address = field("the elements that windows of columns have, float64, whole vectors")
    column_sums: Bytes = field("the size of the sums of columns in a thread's scratch")
    of_whole: Flag = field("whether windows are side by side in one row without gaps, so that no sums of columns are needed")
    scratch: Address = field("for each thread the sums of columns, int32, those of windows, float64, and as many results")
    scratch_size: Bytes = field("from a thread's scratch to the next")


class QuantizedAveragePoolingPlan(PlanWithoutConstants):
    """A quantized average pooling over two or three dimensions.

    Args:
        desc: a checked desc.
    """

    def __init__(self, desc: QuantizedLinearAveragePoolingDesc) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._tensors, source = desc.tensors(), byte_strides(desc.input_tensor)
        (batch, channels, *spatial), (_, _, *out) = desc.input_tensor.sizes, desc.output_tensor.sizes
        self._planes, window, rank = batch * channels, tuple(desc.window_size), len(spatial)
        along = windows(desc, spatial, window, out)
        taps = self._planes * prod(out) * prod(window)
        pads, strides, dilations = desc.start_padding[-rank:], desc.strides[-rank:], desc.dilations[-rank:]
        divisors = [_sum_of_taps(axis.padded if desc.include_padding else axis.inside) for axis in along]
        counts = [_sum_of_taps(axis.inside) for axis in along]
        self._of_whole = (
            prod(out) == 1 and window == tuple(spatial) and not any(pads) and set(dilations) == {1} and _is_run(source, spatial)
        )
        self._channels, self._joined = channels, 1
        if self._of_whole:
            # Windows over whole images without gaps: each is a part of one row, which has those of several channels.
            count = prod(spatial)
            self._joined = self._channels_of_a_row(count)
            self._channels, out = channels // self._joined, [1, self._joined]
            self._planes //= self._joined
            spatial, window, strides, pads, dilations = [1, self._joined * count], (1, count), (1, count), (0, 0), (1, 1)
            divisors = counts = [np.ones(1), np.full(self._joined, float(count))]
        self._values: dict[str, Any] = {}
        names = ("{}", "out_{}", "window_{}", "stride_{}", "dilation_{}", "pad_{}")
        for name, axis_values, alone in zip(names, (spatial, out, window, strides, dilations, pads), (1, 1, 1, 1, 1, 0), strict=True):
            axes = ("depth", "height", "width") if name in names[:2] else "zyx"
            self._values |= zip(map(name.format, axes), (*(alone,) * (3 - len(axis_values)), *axis_values), strict=True)
        padded = np.ones((2, ceil(out[-1] / LANES) * LANES))
        padded[:, : out[-1]] = divisors[-1], counts[-1]
        self._fixed = {
            "row_counts": FixedArray(np.stack([_of_rows(divisors[:-1]), _of_rows(counts[:-1])], axis=1)),
            "column_divisors": FixedArray(padded[0].copy()),
            "column_counts": FixedArray(padded[1].copy()),
        }
        self._shares = WorkShares(self._planes, Threads.of(available_threads(), taps, _WORK_OF_A_THREAD))
        self._column_sums = 0 if self._of_whole else aligned(4 * spatial[-1])
        self._scratch_size = aligned(self._column_sums + padded.shape[1] * 9)
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def _channels_of_a_row(self, count: int) -> int:
        """How many channels, of so many elements each, are side by side and have the same scales and zero points."""
        channels, names = self._tensors["input_tensor"].sizes[1], ("scale", "zero_point")
        parameters = [self._tensors.get(f"{side}_{name}_tensor") for side in ("input", "output") for name in names]
        if byte_strides(self._tensors["input_tensor"])[1] != count or any(each is not None and _channel_step(each) for each in parameters):
            return 1
        return max(size for size in range(1, _MOST_JOINED + 1) if channels % size == 0)

    def load(self) -> None:
        MEANS()

    def describe(self) -> str:
        of = f"whole images, {self._joined} at a time" if self._of_whole else "columns, then of windows"
        return f"compiled by LLVM, sums of 32 bits of {of}, float64 arithmetic on {self._shares}; {self._planes} plane(s)"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        low, high = self._tensors["output_tensor"].data_type.limits
        values: dict[str, Any] = {
            **self._shares.values,
            "channels": self._channels,
            "of_whole": self._of_whole,
            **self._values,
            **self._fixed,
            "low": int(low),
            "high": int(high),
            "column_sums": self._column_sums,
            "scratch": temporary,
            "scratch_size": self._scratch_size,
        }
        for name, role in (("input", "input"), ("output", "pooled")):
            tensor = self._tensors[f"{name}_tensor"]
            steps = steps_of(role, tensor)
            if self._of_whole and name == "output":
                steps["pooled_element"] = steps["pooled_channel"]
            steps[f"{role}_channel"] *= self._joined
            values |= {role: tensors[f"{name}_tensor"], **steps, f"{name}_flip": 128 if is_signed(tensor) else 0}
            for what, place in (("scale", f"{name}_scale_tensor"), ("zero", f"{name}_zero_point_tensor")):
                parameter = self._tensors.get(place)
                values[f"{name}_{what}"] = BoundAddress(_ZERO.ctypes.data, None) if parameter is None else tensors[place]
                values[f"{name}_{what}_step"] = 0 if parameter is None else _channel_step(parameter)
        return TaskLaunch.of(MEANS(), BytePoolingParameters.bound(values), self._shares.threads)


def _sum_of_taps(taps: Array) -> Array:
    """How many taps count, [positions]."""
    sums: Array = np.asarray(np.sum(taps, axis=0, dtype=np.float64))
    return sums


def _of_rows(counts: Sequence[Array]) -> Array:
    """The products of the counts of slices, if there are some, and rows of positions."""
    return functools.reduce(np.multiply.outer, counts).reshape(-1)


def _is_run(steps: Sequence[int], spatial: Sequence[int]) -> bool:
    """Whether the elements of an image of a channel are side by side, given its strides in bytes."""
    *outer, element = steps[-len(spatial) :]
    return element == 1 and all(
        size == 1 or step == prod(spatial[axis + 1 :]) for axis, (size, step) in enumerate(zip(spatial, outer, strict=False))
    )


def _channel_step(tensor: TensorDesc) -> int:
    """The bytes from an element of a tensor to the next; of its dimensions one is longer than 1, at most."""
    steps = [stride for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1]
    return steps[0] * tensor.data_type.numpy.itemsize if steps else 0
