"""The compiled packing of a matrix in panels of columns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.load_store import elements_of
from dmlpy.devices.cpu.matrix.parameters import PACKING_PARAMETERS, VECTORS
from dmlpy.devices.cpu.recurrent.packing_kernels import transposed_tile
from dmlpy.devices.cpu.sharing import first_item, next_item, wait_for_all
from dmlpy.devices.cpu.simd import jit, record_at, vectors_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Registers
    from dmlpy.devices.cpu.thread_pool import Share


@cache
def panel_copy(width: int, halves: bool, registers: Registers) -> Any:
    """The kernel `copy(source, source_row, rows, columns, target)`.

    It copies the first columns of some rows beside each other, as floats, with zeros where a panel's columns are missing.

    Args:
        width: the vectors of a panel.
        halves: whether the source is FLOAT16.
        registers: the registers that it is compiled for.
    """
    vectors, elements = vectors_of(registers), elements_of(halves, registers)
    store, read, lanes, size = vectors.store, elements.read, registers.lanes, vectors.size
    vector_size = lanes * elements.size

    @jit
    def copy(source: Any, source_row: Any, rows: Any, columns: Any, target: Any) -> None:
        for _ in range(rows):
            for vector in range(width):
                store(target + vector * size, read(source + vector * vector_size, columns - vector * lanes))
            source += source_row
            target += width * size

    return copy


def packing_of(halves: bool, registers: Registers) -> Share:
    """A thread's share of the packing, to be compiled.

    Args:
        halves: whether the matrix is FLOAT16.
        registers: the registers that it is compiled for.
    """
    lanes, size, element = registers.lanes, vectors_of(registers).size, elements_of(halves, registers).size
    copy, transpose = panel_copy(VECTORS, halves, registers), transposed_tile(registers, halves=halves)
    parameters_at = record_at(PACKING_PARAMETERS)
    row_size = VECTORS * size

    def pack(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        p, finished = parameters_at(parameters), 0
        item = first_item(parameters, p.items, thread, threads, board, met)
        while item < p.items:
            entry, first = item // p.panels, item % p.panels * VECTORS * lanes
            outer, inner = entry // p.batch, entry % p.batch
            source = p.b + outer * p.b_outer + inner * p.b_batch
            target = p.packed + outer * p.packed_outer + inner * p.packed_batch + item % p.panels * p.panel_size
            columns = min(VECTORS * lanes, p.columns - first)
            if p.transposed == 0:
                copy(source + first * element, p.b_row, p.terms, columns, target)
            else:
                source += first * p.b_row
                for term in range(0, p.terms, lanes):
                    for vector in range(VECTORS):
                        at, to = source + vector * lanes * p.b_row + term * element, target + term * row_size + vector * size
                        transpose(at, p.b_row, columns - vector * lanes, min(lanes, p.terms - term), to, row_size)
            finished += 1
            item = next_item(parameters, item, p.items, threads, met)
        wait_for_all(parameters, finished, p.items, thread, threads)

    return pack
