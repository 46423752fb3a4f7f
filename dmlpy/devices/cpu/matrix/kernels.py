"""The compiled matrix products of packed panels, and the packing of B in panels of columns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, row_copy
from dmlpy.devices.cpu.matrix.blocked import VECTORS
from dmlpy.devices.cpu.matrix.pair_kernels import add_pairs
from dmlpy.devices.cpu.matrix.plan import PanelPackingParameters, ProductParameters
from dmlpy.devices.cpu.recurrent.packing_kernels import transposed_tile
from dmlpy.devices.cpu.simd import simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


@cache
def panel_copy(width: int, stored: Storage, isa: Isa) -> Any:
    """The kernel `copy(source, source_row, rows, columns, target)`.

    It copies the first columns of some rows one after the other, as floats, with zeros for a panel's missing columns.

    Args:
        width: the vectors of a panel.
        stored: the type of the source's elements; panels are of FLOAT32.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store = simd_of(isa), load_store_of(stored, isa)
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


def build_packing(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the packing, to be compiled.

    Args:
        stored: the type of the matrix's elements; panels are of FLOAT32.
        isa: the instruction set that it is compiled for.
    """
    lanes, size, element = isa.lanes, simd_of(isa).size, load_store_of(stored, isa).size
    copy, transpose = panel_copy(VECTORS, stored, isa), transposed_tile(isa, stored=stored)
    parameters_at = struct_view(PanelPackingParameters)
    row_size = VECTORS * size

    def pack(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            entry, first = tile // p.panels, tile % p.panels * VECTORS * lanes
            outer, inner = entry // p.batch, entry % p.batch
            source = p.b + outer * p.b_outer + inner * p.b_batch
            target = p.packed + outer * p.packed_outer + inner * p.packed_batch + tile % p.panels * p.panel_size
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
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return pack


def build_product(stored: Storage, pairs: bool, isa: Isa) -> TaskBody:
    """Builds a thread's part of a matrix product, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        pairs: whether terms of A and B are pairs of BFLOAT16, with the size of a FLOAT32, whatever the tensors have.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store = simd_of(isa), load_store_of(stored, isa)
    read, write, element, one, copy = load_store.load, load_store.store, load_store.size, load_store.load_one, row_copy(stored, isa)
    load, store, all_of, multiply_add = simd.load, simd.store, simd.all_of, simd.multiply_add
    at_most, at_least, lanes, size = simd.at_most, simd.at_least, isa.lanes, simd.size
    multiply, scaled, most = simd.product_in_place(VECTORS, add_pairs if pairs else None), simd.multiply, isa.columns(VECTORS)
    width, row_size = VECTORS * lanes, VECTORS * size

    @jit
    def write_row(p: Any, sums: Any, c: Any, output: Any, count: Any) -> None:
        """Writes `count` columns of a row of sums to the output."""
        for column in range(0, count, lanes):
            left = count - column
            value = scaled(all_of(p.alpha), load(sums + column * FLOAT_BYTES))
            if c != 0:
                at = c + column * p.c_column
                added = all_of(one(at)) if p.c_column == 0 else read(at, left)
                value = multiply_add(all_of(p.beta), added, value)
            value = at_least(at_most(value, all_of(p.high)), all_of(p.low))
            write(output + column * element, value, left)

    parameters_at = struct_view(ProductParameters)

    def product(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        zeros, state, finished = p.scratch + thread * p.scratch_size, parameters, 0
        sums, floats = zeros + row_size, zeros + (1 + most) * row_size
        tile = first_tile(state, p.tiles, thread, threads, sync, epoch)
        if tile < p.tiles:
            for vector in range(VECTORS):
                store(zeros + vector * size, all_of(np.float32(0.0)))
        while tile < p.tiles:
            row_split, rest = tile % p.row_splits, tile // p.row_splits
            panel_split, entry = rest % p.panel_splits, rest // p.panel_splits
            outer, inner = entry // p.batch, entry % p.batch
            a = p.a + outer * p.a_outer + inner * p.a_batch
            b = p.b + outer * p.b_outer + inner * p.b_batch
            c = p.c + outer * p.c_outer + inner * p.c_batch
            output = p.output + outer * p.output_outer + inner * p.output_batch
            # Splits of rows begin at whole groups, so a row's sum does not depend on the number of threads.
            groups = (p.rows + most - 1) // most
            first_group, last_group = groups * row_split // p.row_splits, groups * (row_split + 1) // p.row_splits
            for panel in range(p.panels * panel_split // p.panel_splits, p.panels * (panel_split + 1) // p.panel_splits):
                first_column = panel * width
                columns = min(width, p.columns - first_column)
                for group in range(first_group, last_group):
                    first_row = p.rows * group // groups
                    rows = p.rows * (group + 1) // groups - first_row
                    factors, factor_row = a + first_row * p.a_row, p.a_row
                    if stored != "float32" and not pairs:
                        for row in range(rows):
                            copy(factors + row * factor_row, floats + row * p.terms * FLOAT_BYTES, p.terms)
                        factors, factor_row = floats, p.terms * FLOAT_BYTES
                    multiply(rows, b + panel * p.panel_size, p.panel_row, p.terms, factors, factor_row, zeros, 0, sums)
                    for row in range(first_row, first_row + rows):
                        added = c + row * p.c_row + first_column * p.c_column if p.c != 0 else 0
                        target = output + row * p.output_row + first_column * element
                        write_row(p, sums + (row - first_row) * row_size, added, target, columns)
            finished += 1
            tile = next_tile(state, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(state, finished, p.tiles, thread, threads)

    return product
