"""The compiled plan of ARGMIN and ARGMAX: the parameters of their kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import AxisDirection, DataType
from dmlpy.devices.axes import Axis, merged, repeated
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Flag, Float32, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.operators.reduction import IndexReductionDesc

INDEX_REDUCTION = Kernel("dmlpy.devices.cpu.reduction.index_kernels:build_index_reduction", 5)
"""The indices of largest or smallest elements of rows: the instruction set."""

_WORK_OF_A_THREAD = 1 << 15
"""Elements that are worth waking another thread for."""
_TILES_PER_THREAD = 4
"""Tiles for each thread."""
_ONE = Axis(1, (0, 0))


class IndexReductionParameters(UnitParameters):
    """The parameters of the indices of extremes. A tile is some of the rows, which have two axes."""

    row_size: Count = field("rows along the inner of their two axes")
    entries: Count = field("elements of a row")
    x: Address = field("the input, whose rows are contiguous")
    x_row: Bytes = field("from a row of the input to the next along the outer axis of rows")
    x_row1: Bytes = field("from a row of the input to the next along the inner axis")
    y: Address = field("the output")
    y_row: Bytes = field("from an index to the next along the outer axis of rows")
    y_row1: Bytes = field("from an index to the next along the inner axis")
    y_width: Bytes = field("bytes of an index, 4 or 8")
    backward: Flag = field("whether the last of equal elements counts")
    sign: Float32 = field("1 for the largest element, -1 for the smallest")


class IndexReductionPlan(PlanWithoutConstants):
    """ARGMIN or ARGMAX along one dimension.

    Args:
        desc: a checked desc.
        axes: two axes of rows, then that of their elements.
        sign: 1 for the largest element, -1 for the smallest.
    """

    temporary_size = 0

    def __init__(self, desc: IndexReductionDesc, axes: tuple[Axis, Axis, Axis], sign: int) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        outer, inner, entry = axes
        width = desc.output_tensor.data_type.numpy.itemsize
        self._rows, self._entries = outer.size * inner.size, entry.size
        self._values = {
            "units": self._rows,
            "row_size": inner.size,
            "entries": entry.size,
            "x_row": outer.strides[0] * FLOAT_BYTES,
            "x_row1": inner.strides[0] * FLOAT_BYTES,
            "y_row": outer.strides[1] * width,
            "y_row1": inner.strides[1] * width,
            "y_width": width,
            "backward": desc.axis_direction is AxisDirection.DECREASING,
            "sign": sign,
        }
        self._threads = max(1, min(available_threads(), self._rows * self._entries // _WORK_OF_A_THREAD, self._rows))

    def load(self) -> None:
        INDEX_REDUCTION(host_isa())

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        return f"compiled by LLVM on {threads}; {self._rows} row(s) of {self._entries} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = {
            "tiles": min(self._rows, _TILES_PER_THREAD * self._threads) if self._threads > 1 else 1,
            **self._values,
            "x": tensors["input_tensor"],
            "y": tensors["output_tensor"],
        }
        return TaskLaunch.of(INDEX_REDUCTION(host_isa()), IndexReductionParameters.bound(values), self._threads)


def axes_of(desc: IndexReductionDesc) -> tuple[Axis, Axis, Axis] | str:
    """The two axes of a checked desc's rows and that of their elements, or why the kernel does not read them."""
    x, y = desc.input_tensor, desc.output_tensor
    assert y is not None  # guaranteed by the check
    if x.data_type is not DataType.FLOAT32:
        return "a compiled index of an extreme is that of FLOAT32"
    if sum(x.sizes[axis] > 1 for axis in desc.axes) > 1:
        return "a compiled index of an extreme is that along one dimension"
    axes = merged(x.sizes, [x.element_strides, repeated(y.sizes, y.element_strides)], set(desc.axes))
    entries, rows = [axis for axis in axes if axis.reduced], [axis for axis in axes if not axis.reduced]
    if len(rows) > 2 or any(axis.strides[0] != 1 for axis in entries):
        return "a compiled index of an extreme needs rows of contiguous elements, along two axes at most"
    outer, inner = (_ONE, _ONE, *rows)[-2:]
    return outer, inner, entries[0] if entries else _ONE
