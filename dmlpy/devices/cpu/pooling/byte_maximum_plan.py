"""The plan of a max pooling of bytes without indices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.pooling.plan import SliceWindowParameters, slice_windows, steps_of
from dmlpy.devices.cpu.quantized.products import is_signed
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from dmlpy.operators.pooling.windows import ForwardPoolingDesc

MAXIMA = Kernel("dmlpy.devices.cpu.pooling.byte_maximum_kernels:build_maxima", 5)
"""The largest byte of windows."""

VECTOR = 64
"""Bytes that are compared at once."""
VECTORS = 4
"""Vectors that are compared in a turn of a loop, at most."""
_WORK_OF_A_THREAD = 1 << 22
"""Taps of all positions that are worth waking another thread for."""


class ByteMaximumParameters(SliceWindowParameters):
    """The parameters of the kernel. Slices are padded: their rows are `pitch` bytes apart."""

    flip: Count = field("128 if bytes are signed: with that bit changed, they have the order of unsigned ones")
    pitch: Bytes = field("from a row of a padded slice to the next")
    padded_slice: Bytes = field("from a padded slice to the next")
    padded_size: Bytes = field("all padded slices of a plane; a whole number of vectors")
    column_taps: Count = field("taps of a window in a column, of all slices")
    column_offsets: Address = field("the bytes from a position to each of them, int64 [column_taps]")
    row_offsets: Address = field("the bytes from a position to each tap in a row, int64 [window_x]")
    runs: Count = field("runs of a slice's positions, whose columns are compared as if they were next to each other")
    run_size: Bytes = field("a run")
    run_step: Bytes = field("from where a run reads to the next")
    row_step: Bytes = field("from a row of positions of the runs to the next that is a result")
    scratch: Address = field("for each thread the padded slices, the maxima of columns, those of windows, and a row of results")
    maxima: Bytes = field("the maxima of columns, and of windows; a whole number of vectors")
    scratch_size: Bytes = field("from a thread's scratch to the next")


class ByteMaximumPlan(PlanWithoutConstants):
    """A max pooling of bytes over two or three dimensions.

    Args:
        desc: a checked desc without indices.
    """

    def __init__(self, desc: ForwardPoolingDesc) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._source, self._target = desc.input_tensor, desc.output_tensor
        values = slice_windows(desc, self._target.sizes)
        spread, reach = {}, {}
        for axis, name in zip("zyx", ("depth", "height", "width"), strict=True):
            spread[axis] = (values[f"out_{name}"] - 1) * values[f"stride_{axis}"] + 1
            reach[axis] = spread[axis] + (values[f"window_{axis}"] - 1) * values[f"dilation_{axis}"]
        pitch = max(values["pad_x"] + values["width"], reach["x"])
        padded_slice, slack = reach["y"] * pitch, VECTOR * VECTORS
        one_run = values["stride_y"] == 1 or pitch < VECTOR
        runs, run_size = (1, spread["y"] * pitch) if one_run else (values["out_height"], pitch)
        padded_size, maxima = aligned(reach["z"] * padded_slice + pitch + slack), aligned(runs * run_size + slack)
        columns = [
            z * values["dilation_z"] * padded_slice + y * values["dilation_y"] * pitch
            for z in range(values["window_z"])
            for y in range(values["window_y"])
        ]
        self._planes = self._source.sizes[0] * self._source.sizes[1]
        taps = self._planes * prod(self._target.sizes[2:]) * prod(desc.window_size)
        self._shares = WorkShares(self._planes, Threads.of(available_threads(), taps, _WORK_OF_A_THREAD))
        self._scratch_size = padded_size + 3 * maxima
        self._values: dict[str, Any] = {
            **values,
            **steps_of("input", self._source),
            **steps_of("pooled", self._target),
            "flip": 128 if is_signed(self._source) else 0,
            "pitch": pitch,
            "padded_slice": padded_slice,
            "padded_size": padded_size,
            "column_taps": len(columns),
            "column_offsets": FixedArray.of_rows([columns]),
            "row_offsets": FixedArray.of_rows([[x * values["dilation_x"] for x in range(values["window_x"])]]),
            "runs": runs,
            "run_size": run_size,
            "run_step": values["stride_y"] * pitch,
            "row_step": (values["stride_y"] if one_run else 1) * pitch,
            "maxima": maxima,
            "scratch_size": self._scratch_size,
        }
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def load(self) -> None:
        MAXIMA()

    def describe(self) -> str:
        return f"compiled by LLVM, maxima of bytes of columns, then of windows, on {self._shares}; {self._planes} plane(s)"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        addresses = {"input": tensors["input_tensor"], "pooled": tensors["output_tensor"], "scratch": temporary}
        values = {**self._shares.values, **self._values, **addresses}
        return TaskLaunch.of(MAXIMA(), ByteMaximumParameters.bound(values), self._shares.threads)
