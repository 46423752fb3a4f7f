"""The matrices of a recurrent gradient in memory: strided rows and blocks of them, runs of gates, and copies of 2 bytes an element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cuda.common.matrix_products import FLOAT
from dmlpy.devices.cuda.kernels import ELEMENT_THREADS, KernelLibrary, Struct
from dmlpy.devices.cuda.recurrent.gradient_kernels import LARGEST, NARROW, find_largest_kernel, narrow_kernel
from dmlpy.devices.cuda.runtime.interface import Matrix

if TYPE_CHECKING:
    from dmlpy.devices.plan import Launch

HALF = np.dtype(np.float16)
MOST_PARTS = ELEMENT_THREADS
"""The most blocks that search for the largest gradient: `scale_threads` of raw_kernels/recurrent/gradient_results.cu."""


@dataclass(frozen=True)
class StridedRows:
    """Strided rows in memory, whose blocks products read and write."""

    pointer: int
    stride: int
    data_type: np.dtype[Any] = FLOAT

    def block(self, row: int, rows: int, column: int, columns: int) -> Matrix:
        pointer = self.pointer + self.data_type.itemsize * (row * self.stride + column)
        return Matrix(pointer, rows, columns, self.stride, self.data_type)

    def transposed(self, row: int, rows: int, column: int, columns: int) -> Matrix:
        """The transpose of a block: [columns, rows]."""
        block = self.block(row, rows, column, columns)
        return Matrix(block.pointer, columns, rows, self.stride, self.data_type, transposed=True)


class GateRun(NamedTuple):
    """Consecutive gates whose rows are adjacent in the weights and among the gate gradients.

    Attributes:
        direction: the direction of the first one.
        gate: the first one's number in its direction.
        row: its row of H among the weights of all directions.
        column: its row of H among the gate gradients of a step, all directions.
        gates: the number of gates.
    """

    direction: int
    gate: int
    row: int
    column: int
    gates: int


class Scale(NamedTuple):
    """The address and number of `find_largest`'s results, from which kernels compute a scale; zeros if there is no scale."""

    parts: int
    num_parts: int


NO_SCALE = Scale(0, 0)


def scaled(library: KernelLibrary, source: int, count: int, destination: int, parts: int) -> list[Launch]:
    """Makes a FLOAT16 copy of float32 gradients, times a power of two that readers obtain from `scale_of`.

    BFLOAT16, whose range is that of float32, needs no scale: `narrowed` copies to it.

    Args:
        library: the device's kernels.
        source: the gradients' address.
        count: the number of gradients.
        destination: the copy's address.
        parts: address of `MOST_PARTS` floats.
    """
    argument, width = np.zeros(1, LARGEST), _width(count, source)
    argument["values"], argument["parts"], argument["count"] = source, parts, count
    scale = scale_of(parts, count)
    find = library.launch(find_largest_kernel(width), (scale.num_parts,), ELEMENT_THREADS, argument)
    return [find, narrowed(library, source, count, destination, HALF, scale)]


def narrowed(
    library: KernelLibrary, source: int, count: int, destination: int, data_type: np.dtype[Any], scale: Scale = NO_SCALE
) -> Launch:
    """Makes a copy of float32 values in FLOAT16 or BFLOAT16, times a scale."""
    argument, width = np.zeros(1, NARROW), _width(count, source, destination)
    argument["source"], argument["destination"], argument["count"] = source, destination, count
    put_scale(argument, scale)
    return library.launch_elements(narrow_kernel(data_type, width), count // width, argument)


def scale_of(parts: int, count: int) -> Scale:
    """The scale of this many gradients, whose largest values are at the address `parts`."""
    return Scale(parts, min(MOST_PARTS, -(-count // ELEMENT_THREADS)))


def put_scale(argument: Struct, scale: Scale) -> None:
    """Sets the fields of a struct for the scale of its kernel's input."""
    argument["parts"], argument["num_parts"] = scale


def _width(count: int, *pointers: int) -> int:
    """The number of values that a thread takes at a time: four if that divides their number and the addresses are multiples of 16 bytes."""
    return 4 if count % 4 == 0 and not any(pointer % 16 for pointer in pointers) else 1
