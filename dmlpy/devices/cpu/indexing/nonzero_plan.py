"""The compiled plan of NONZERO_COORDINATES, and the parameters of its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, FixedArray, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from dmlpy.operators.indexing import NonzeroCoordinatesDesc

NONZERO = Kernel("dmlpy.devices.cpu.indexing.nonzero_kernels:build_nonzero", 5)
"""The coordinates of the elements that are not zero: the bytes of an element."""
_WORD = 4


class NonzeroParameters(CountedParameters):
    """The parameters of the kernel. Dimensions are those of the coordinates; the input's others have one entry each."""

    dimensions: Count = field("dimensions")
    rows: Count = field("entries of all dimensions but the last")
    columns: Count = field("entries of the last one")
    sizes: Address = field("the sizes, int64 [dimensions]")
    strides: Address = field("the bytes from an entry of the input to the next, int64 [dimensions]")
    column: Bytes = field("the same along the last dimension")
    mask: Count = field("the bits of an element that are not all 0 unless it is zero: all but a float's sign")
    x: Address = field("the input")
    count: Address = field("how many elements are not zero, a word")
    coordinates: Address = field("their coordinates, words [elements, dimensions]")
    size: Bytes = field("the size of all coordinates")
    indices: Address = field("the entry along each dimension, int64 [dimensions]")


class NonzeroPlan(PlanWithoutConstants):
    """One pass over the elements, on one thread.

    Args:
        desc: a checked desc with packed outputs.
    """

    def __init__(self, desc: NonzeroCoordinatesDesc) -> None:
        assert desc.output_coordinates_tensor is not None  # guaranteed by the check
        x, (*_, rows, dimensions) = desc.input_tensor, desc.output_coordinates_tensor.sizes
        dtype = x.data_type.numpy
        self._width, self._elements, self.temporary_size = dtype.itemsize, rows, 8 * dimensions
        sizes, strides = (np.array(values[len(x.sizes) - dimensions :], np.int64) for values in (x.sizes, x.element_strides))
        bits = 8 * dtype.itemsize
        self._values: dict[str, Any] = {
            "tiles": 1,
            "dimensions": dimensions,
            "rows": rows // int(sizes[-1]),
            "columns": int(sizes[-1]),
            "sizes": FixedArray(sizes),
            "strides": FixedArray(strides * dtype.itemsize),
            "column": int(strides[-1]) * dtype.itemsize,
            "mask": -1 if bits == 64 and dtype.kind != "f" else (1 << bits - (dtype.kind == "f")) - 1,
            "size": rows * dimensions * _WORD,
        }

    def load(self) -> None:
        NONZERO(self._width)

    def describe(self) -> str:
        return f"compiled by LLVM on 1 thread; {self._elements} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places = {"x": "input_tensor", "count": "output_count_tensor", "coordinates": "output_coordinates_tensor"}
        values = self._values | {name: tensors[place] for name, place in places.items()} | {"indices": temporary}
        return TaskLaunch.of(NONZERO(self._width), NonzeroParameters.bound(values), 1)
