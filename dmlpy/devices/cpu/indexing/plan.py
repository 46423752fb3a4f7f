"""The plans of gathers, scatters and ONE_HOT on packed tensors, of NONZERO_COORDINATES, and the parameters of their kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.movement.plan import Copy, CopyPlan, Elements
from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, FixedArray, Flag, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.operators.indexing import NonzeroCoordinatesDesc


BLOCKS = Kernel("dmlpy.devices.cpu.indexing.kernels:build_blocks", 5)
"""Gathers or scatters of blocks of contiguous elements: whether it scatters."""
ELEMENTS = Kernel("dmlpy.devices.cpu.indexing.kernels:build_elements", 5)
"""Gathers or scatters of single elements along an axis: whether it scatters, and the bytes of an element."""
ONE_HOT = Kernel("dmlpy.devices.cpu.indexing.kernels:build_one_hot", 5)
"""ONE_HOT: the bytes of an element."""

_BYTES_OF_A_THREAD = 1 << 18
"""Bytes that are worth waking another thread for."""


class IndexingParameters(UnitParameters):
    """The parameters of all kernels. A tile is some of the units: blocks, rows of elements, or of ONE_HOT groups.

    The indexed tensor is the input of a gather and the output of a scatter; the other one is read or written from first to last.
    """

    indices: Address = field("the indices")
    index_bytes: Bytes = field("the size of an index: 4 or 8")
    signed: Flag = field("whether indices are signed, and negative ones count from the end")
    indexed: Address = field("the indexed tensor, or the output of ONE_HOT")
    other: Address = field("the other tensor, or the two values of ONE_HOT")
    per_batch: Count = field("units of a batch of the indexed tensor")
    batch_size: Bytes = field("from a batch of the indexed tensor to the next")
    period: Count = field("of blocks, tuples of indices: after them they begin anew")
    axes: Count = field("of blocks, the indices of a tuple")
    sizes: Address = field("the sizes of the indexed dimensions, int64 [axes], one where units are not blocks")
    block: Bytes = field("the size of a block")
    columns: Count = field("elements of a row, or indices of a group")
    row_indices: Bytes = field("of elements, from the indices of a row to those of the next; 0 if all rows have the same")
    index_step: Bytes = field("of elements, from an index of the indexed tensor to the next")
    column_step: Bytes = field("of elements, from a column of the indexed tensor to the next")


@dataclass(frozen=True)
class Units:
    """The units of a kernel, and how it finds them.

    Attributes:
        kernel: the kernel, and its choices.
        count: the units.
        ordered: whether a unit may write over what an earlier one wrote.
        indices: the place of the indices.
        indexed: the place of the indexed tensor, or of the output of ONE_HOT.
        other: the place of the other tensor.
        sizes: the sizes of the indexed dimensions.
        values: more of the kernel's parameters.
    """

    kernel: tuple[Kernel, tuple[Any, ...]]
    count: int
    ordered: bool
    indices: str
    indexed: str
    other: str
    sizes: Sequence[int]
    values: dict[str, int]


class IndexingPlan(PlanWithoutConstants):
    """Units one after the other; before a scatter the output is filled.

    Args:
        tensors: the tensors of a checked desc, which are packed.
        units: what the kernel goes over.
        filled: what the indexed tensor is filled with first: the place of a packed tensor of its sizes, or "" for zeros.
    """

    temporary_size = 0

    def __init__(self, tensors: dict[str, TensorDesc], units: Units, filled: str | None = None) -> None:
        self._units, self._sizes = units, FixedArray.of_rows([units.sizes])
        kind = tensors[units.indices].data_type.numpy
        self._index_bytes, self._signed = kind.itemsize, kind.kind == "i"
        output = tensors["output_tensor"]
        moved = output.element_count * output.data_type.numpy.itemsize
        threads = Threads() if units.ordered else Threads.of(available_threads(), moved, _BYTES_OF_A_THREAD)
        self._shares = WorkShares(units.count, threads)
        self._copy = None
        if filled is not None:
            kind, shape = output.data_type.numpy, (output.element_count,)
            source = Elements(filled, kind, shape, (kind.itemsize,)) if filled else Elements.repeating(0, kind, shape)
            self._copy = CopyPlan([Copy(Elements(units.indexed, kind, shape, (kind.itemsize,)), source)])

    def _kernel(self) -> Function:
        kernel, choices = self._units.kernel
        return kernel(*choices)

    def load(self) -> None:
        self._kernel()
        if self._copy is not None:
            self._copy.load()

    def describe(self) -> str:
        return f"compiled by LLVM on {self._shares}; {self._units.count} units{' after a copy' * (self._copy is not None)}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        units = self._units
        values: dict[str, Any] = {
            **self._shares.values,
            "indices": tensors[units.indices],
            "index_bytes": self._index_bytes,
            "signed": self._signed,
            "indexed": tensors[units.indexed],
            "other": tensors[units.other],
            "sizes": self._sizes,
            "row_indices": units.values.get("columns", 0) * self._index_bytes,
            **units.values,
        }
        launch = TaskLaunch.of(self._kernel(), IndexingParameters.bound(values), self._shares.threads)
        return launch if self._copy is None else in_order([self._copy.bind(tensors, 0, None), launch])


NONZERO = Kernel("dmlpy.devices.cpu.indexing.kernels:build_nonzero", 5)
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
