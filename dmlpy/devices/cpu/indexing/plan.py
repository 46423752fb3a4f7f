"""The compiled plan of GATHER: a copy for each index."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, Flag, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.operators.indexing import GatherDesc

GATHER = Kernel("dmlpy.devices.cpu.indexing.kernels:build_gather", 5)
"""The copies of indexed slices."""

_WORK_OF_A_THREAD = 1 << 20
"""Bytes that are worth waking another thread for."""
_BYTES_OF_AN_INDEX = 64
"""Bytes whose copy takes as long as the beginning of a slice."""
_TILES_PER_THREAD = 4
"""Tiles for each thread."""


class GatherParameters(CountedParameters):
    """The parameters of GATHER. A tile is some of the slices of the output."""

    slices: Count = field("slices of the output: one for each entry before the axis and each index")
    indices: Count = field("indices")
    size: Count = field("entries of the input along the axis")
    slice_size: Bytes = field("bytes of a slice")
    x: Address = field("the input, packed")
    x_outer: Bytes = field("from an entry of the input before the axis to the next")
    index: Address = field("the indices, packed")
    index_width: Bytes = field("bytes of an index, 4 or 8")
    unsigned: Flag = field("whether indices are unsigned")
    y: Address = field("the output, packed")


class GatherPlan(PlanWithoutConstants):
    """GATHER of packed tensors.

    Args:
        desc: a checked desc of whole bytes.
    """

    temporary_size = 0

    def __init__(self, desc: GatherDesc) -> None:
        x, indices, element = desc.input_tensor, desc.indices_tensor, desc.input_tensor.data_type.numpy.itemsize
        slices, count = prod(x.sizes[: desc.axis]), indices.element_count
        self._slice_size = prod(x.sizes[desc.axis + 1 :]) * element
        self._slices, size = slices * count, x.sizes[desc.axis]
        index = indices.data_type.numpy
        self._values = {
            "slices": self._slices,
            "indices": count,
            "size": size,
            "slice_size": self._slice_size,
            "x_outer": size * self._slice_size,
            "index_width": index.itemsize,
            "unsigned": index.kind == "u",
        }
        self._threads = max(
            1, min(available_threads(), self._slices * (self._slice_size + _BYTES_OF_AN_INDEX) // _WORK_OF_A_THREAD, self._slices)
        )

    def load(self) -> None:
        GATHER()

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        return f"compiled by LLVM on {threads}; {self._slices} slice(s) of {self._slice_size} bytes"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = {
            "tiles": min(self._slices, _TILES_PER_THREAD * self._threads) if self._threads > 1 else 1,
            **self._values,
            "x": tensors["input_tensor"],
            "index": tensors["indices_tensor"],
            "y": tensors["output_tensor"],
        }
        return TaskLaunch.of(GATHER(), GatherParameters.bound(values), self._threads)
