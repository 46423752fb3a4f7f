"""The compiled packing of a matrix in panels of columns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.matrix.parameters import PACKING_PARAMETERS, VECTORS
from dmlpy.devices.cpu.recurrent.packing_kernels import transposed_tile
from dmlpy.devices.cpu.simd import jit, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody


@cache
def panel_copy(width: int, halves: bool, isa: Isa) -> Any:
    """The kernel `copy(source, source_row, rows, columns, target)`.

    It copies the first columns of some rows beside each other, as floats, with zeros where a panel's columns are missing.

    Args:
        width: the vectors of a panel.
        halves: whether the source is FLOAT16.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store = simd_of(isa), load_store_of(halves, isa)
    store, read, lanes, size = simd.store, load_store.load, isa.lanes, simd.size
    vector_size = lanes * load_store.size

    @jit
    def copy(source: Any, source_row: Any, rows: Any, columns: Any, target: Any) -> None:
        for _ in range(rows):
            for vector in range(width):
                store(target + vector * size, read(source + vector * vector_size, columns - vector * lanes))
            source += source_row
            target += width * size

    return copy


def packing_of(halves: bool, isa: Isa) -> TaskBody:
    """A thread's part of the packing, to be compiled.

    Args:
        halves: whether the matrix is FLOAT16.
        isa: the instruction set that it is compiled for.
    """
    lanes, size, element = isa.lanes, simd_of(isa).size, load_store_of(halves, isa).size
    copy, transpose = panel_copy(VECTORS, halves, isa), transposed_tile(isa, halves=halves)
    parameters_at = struct_view(PACKING_PARAMETERS)
    row_size = VECTORS * size

    def pack(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        item = first_tile(parameters, p.items, thread, threads, sync, epoch)
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
            item = next_tile(parameters, item, p.items, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.items, thread, threads)

    return pack
