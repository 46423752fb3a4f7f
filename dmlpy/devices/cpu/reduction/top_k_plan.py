"""The plan of TOP_K and TOP_K1, and the parameters of their kernel."""

from __future__ import annotations

from math import log, log2
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import AxisDirection
from dmlpy.devices.axes import element_count, merged
from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, UnitParameters, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.operators.reduction import TopK1Desc

if TYPE_CHECKING:
    from dmlpy.operators.reduction import TopKDesc

TOP_K = Kernel("dmlpy.devices.cpu.reduction.top_k_kernels:build_top_k", 5)
"""The first elements of sorted rows: NumPy's name of their type, whether the smallest come first, and the instruction set."""

COUNTED = Kernel("dmlpy.devices.cpu.reduction.top_k_kernels:build_counted_top_k", 5)
"""The first bytes of sorted rows, where many are taken: the bits by which a byte differs from its rank."""
SORTED = Kernel("dmlpy.devices.cpu.reduction.sorted_top_k_kernels:build_sorted_top_k", 5)
"""The first elements of sorted rows, where many of long rows are taken; the choices are those of `TOP_K`."""
RANKS = 1 << 8
"""Ranks that bytes, and digits of keys, have."""

_WORK_OF_A_THREAD = 1 << 16
"""Elements that are worth waking another thread for."""
_FEW = 1 << 8
"""Elements of a row of which a heap finds any number."""
_LEAST_SHARE = 32
"""Of longer rows a heap finds at most one element in this many; more are sorted sooner by digits."""
_STEP_TIME, _RANKS_TIME = 5, 150
"""The time of a step of a heap, and of all ranks, where counting a byte takes 1."""
_PLACES = ("input_tensor", "output_value_tensor", "output_index_tensor")


class TopKParameters(UnitParameters):
    """The parameters of the kernel. Units are rows."""

    axes: Count = field("axes of the rows")
    table: Address = field(
        "the axes, innermost first, int64 [axes, 4]: rows, and the bytes from one to the next in the input, the values and the indices"
    )
    size: Count = field("elements of a row")
    k: Count = field("how many of them are taken")
    x: Address = field("the input")
    x_step: Bytes = field("from an element of a row to the next")
    values: Address = field("the elements that are taken")
    value_step: Bytes = field("from an element of a row of them to the next")
    indices: Address = field("their indices")
    index_step: Bytes = field("from an index of a row to the next")
    index_bytes: Bytes = field("the size of an index: 4 or 8")
    scratch: Address = field("for each thread a heap, int64 [k]; or counts, int32 [RANKS], entries, int64 [2, size], and a row")
    scratch_size: Bytes = field("from a thread's scratch to the next")


class TopKPlan(PlanWithoutConstants):
    """The largest or smallest elements along a dimension: by a heap for each row or, where many are taken, by counts or digits.

    Args:
        desc: a checked desc.
    """

    def __init__(self, desc: TopKDesc) -> None:
        tensors = [desc.tensors()[place] for place in _PLACES]
        widths = [tensor.data_type.numpy.itemsize for tensor in tensors]
        ascending = isinstance(desc, TopK1Desc) and desc.axis_direction is AxisDirection.INCREASING
        dtype, size = tensors[0].data_type.numpy, tensors[0].sizes[desc.axis]
        choices: tuple[Any, ...] = dtype.name, ascending, host_isa()
        if dtype.itemsize == 1 and _counts_in_less_time(size, desc.k):
            choices = ((0 if ascending else RANKS - 1) ^ (RANKS // 2 if dtype.kind == "i" else 0),)
            kernel, self._how, scratch = COUNTED, "counts", 4 * RANKS
        elif size > _FEW and desc.k * _LEAST_SHARE > size:
            kernel, self._how, scratch = SORTED, "digits", 4 * RANKS + (16 + widths[0]) * size
        else:
            kernel, self._how, scratch = TOP_K, "heaps", 8 * desc.k
        self._kernel, self._choices = kernel, choices
        sizes, *strides = (
            [value for axis, value in enumerate(values) if axis != desc.axis]
            for values in (tensors[0].sizes, *(tensor.element_strides for tensor in tensors))
        )
        axes = merged(sizes, strides)
        table = [(axis.size, *(step * width for step, width in zip(axis.strides, widths, strict=True))) for axis in reversed(axes)]
        steps = [tensor.element_strides[desc.axis] * width for tensor, width in zip(tensors, widths, strict=True)]
        self._values: dict[str, Any] = {
            "axes": len(axes),
            "table": FixedArray.of_rows(table),
            "size": size,
            "k": desc.k,
            **dict(zip(("x_step", "value_step", "index_step"), steps, strict=True)),
            "index_bytes": widths[2],
        }
        self._shares = WorkShares(element_count(axes), Threads.of(available_threads(), tensors[0].element_count, _WORK_OF_A_THREAD))
        self._scratch_size = aligned(scratch)
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def load(self) -> None:
        self._kernel(*self._choices)

    def describe(self) -> str:
        rows, k, size = self._shares.units, self._values["k"], self._values["size"]
        return f"compiled by LLVM on {self._shares}; {k} of {size} elements of {rows} row(s), by {self._how}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values = {
            **self._shares.values,
            **self._values,
            **dict(zip(("x", "values", "indices"), (tensors[place] for place in _PLACES), strict=True)),
            "scratch": temporary,
            "scratch_size": self._scratch_size,
        }
        return TaskLaunch.of(self._kernel(*self._choices), TopKParameters.bound(values), self._shares.threads)


def _counts_in_less_time(size: int, k: int) -> bool:
    """Whether counting the bytes of a row takes less time than a heap, into which each better one sinks."""
    return _STEP_TIME * k * log2(k + 1) * log(size / k + 1) > size + _RANKS_TIME
