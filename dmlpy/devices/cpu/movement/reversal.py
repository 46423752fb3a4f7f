"""The plan of REVERSE_SUBSEQUENCES: runs of neighbouring sequences, and the parameters of their kernel."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from dmlpy.operators.movement.copy import ReverseSubsequencesDesc

REVERSAL = Kernel("dmlpy.devices.cpu.movement.reversal_kernels:build_reversal", 5)
"""The reversal of the first elements of sequences."""

_BYTES_OF_A_THREAD = 1 << 18
"""Bytes that are worth waking another thread for."""
_TILES_PER_THREAD = 4
"""Tiles for each thread."""
_PLACES = ("output_tensor", "input_tensor", "sequence_lengths_tensor")


class ReversalParameters(UnitParameters):
    """The parameters of the kernel. A tile is some of the groups: sequences whose elements lie side by side."""

    axes: Count = field("axes of the groups")
    table: Address = field(
        "the axes, innermost first, int64 [axes, 4]: groups, and the bytes from one to the next in output, input and lengths"
    )
    columns: Count = field("sequences of a group")
    length_step: Bytes = field("from the length of a group's sequence to the next")
    length_bytes: Bytes = field("the size of a length: 4 or 8")
    size: Count = field("elements of a sequence")
    width: Bytes = field("the size of an element")
    output: Address = field("the output")
    output_step: Bytes = field("from an element of a sequence of the output to the next")
    input: Address = field("the input")
    input_step: Bytes = field("from an element of a sequence of the input to the next")
    lengths: Address = field("the lengths")


class ReversalPlan(PlanWithoutConstants):
    """A reversal of the first elements of sequences, of any width.

    Args:
        desc: a checked desc of elements of whole bytes.
    """

    temporary_size = 0

    def __init__(self, desc: ReverseSubsequencesDesc) -> None:
        tensors = [desc.tensors()[place] for place in _PLACES]
        self._width, self._length_bytes = tensors[0].data_type.numpy.itemsize, tensors[2].data_type.numpy.itemsize
        self._size, self._steps = tensors[0].sizes[desc.axis], [tensor.element_strides[desc.axis] * self._width for tensor in tensors[:2]]
        sizes, *strides = (
            [value for axis, value in enumerate(values) if axis != desc.axis]
            for values in (tensors[0].sizes, *(tensor.element_strides for tensor in tensors))
        )
        axes = list(merged(sizes, strides))
        none = Axis(1, (1, 1, 0))
        inner = axes.pop() if axes and axes[-1].strides[:2] == (1, 1) else none
        self._columns, self._length_step = inner.size, inner.strides[2] * self._length_bytes
        widths = self._width, self._width, self._length_bytes
        table = [(axis.size, *(step * width for step, width in zip(axis.strides, widths, strict=True))) for axis in reversed(axes)]
        self._table, self._axes, self._groups = FixedArray(np.array(table, np.int64)), len(axes), prod(axis.size for axis in axes)
        moved = tensors[0].element_count * self._width
        self._threads = max(1, min(available_threads(), moved // _BYTES_OF_A_THREAD, self._groups))

    def load(self) -> None:
        REVERSAL()

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        return f"compiled by LLVM on {threads}; {self._groups} group(s) of {self._columns} sequence(s) of {self._size} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        output, source, lengths = (tensors[place] for place in _PLACES)
        values: dict[str, Any] = {
            "tiles": min(self._groups, _TILES_PER_THREAD * self._threads) if self._threads > 1 else 1,
            "units": self._groups,
            "axes": self._axes,
            "table": self._table,
            "columns": self._columns,
            "length_step": self._length_step,
            "length_bytes": self._length_bytes,
            "size": self._size,
            "width": self._width,
            "output": output,
            "output_step": self._steps[0],
            "input": source,
            "input_step": self._steps[1],
            "lengths": lengths,
        }
        return TaskLaunch.of(REVERSAL(), ReversalParameters.bound(values), self._threads)
