"""The compiled matrix products, of packed panels and of matrices in place, and the packing of B in panels of columns.

The product in place copies a block of terms to panels, while sums over other terms stay in a cache. Rows of a transposed A are copied too:
in place, each term of a few rows is on another page. Its kernel is a task of a fused launch (see `devices.cpu.thread_pool_kernels`) with
one stage. A thread sums a tile over all terms in its own memory before it writes anything.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, row_copy
from dmlpy.devices.cpu.matrix.blocked import BLOCK_TERMS, VECTORS, BlockedProductParameters, blocked_scratch
from dmlpy.devices.cpu.matrix.pair_kernels import add_pairs
from dmlpy.devices.cpu.matrix.plan import PanelPackingParameters, ProductParameters
from dmlpy.devices.cpu.product_kernels import call_product
from dmlpy.devices.cpu.recurrent.packing_kernels import transposed_tile
from dmlpy.devices.cpu.simd import integer_at, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, acquire, commit, first_tile, next_tile, publish, wait_for_all_tiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.thread_pool import TaskBody


@cache
def panel_copy(width: int, stored: Storage, isa: Isa) -> Any:
    """The kernel `copy(source, source_row, rows, columns, target)`.

    It copies the first columns of some rows one after the other, as floats, with zeros for a panel's missing columns.

    Args:
        width: the vectors of a panel.
        stored: the type of the tensors' elements.
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
        stored: the type of the tensors' elements.
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


def build_blocked_product(isa: Isa) -> Callable[..., int]:
    """The product, to be compiled.

    Args:
        isa: the instruction set that it is compiled for.
    """
    simd = simd_of(isa)
    load, store, load_some, store_some = simd.load, simd.store, simd.load_some, simd.store_some
    all_of, add, multiply, lanes, size = simd.all_of, simd.add, simd.multiply, isa.lanes, simd.size
    most = isa.columns(VECTORS)
    width, row_size, tile_size, zero = VECTORS * lanes, VECTORS * size, most * VECTORS * size, np.float32(0.0)
    copy_whole, copy_narrow = panel_copy(VECTORS, "float32", isa), panel_copy(1, "float32", isa)
    slot, scratch = most * FLOAT_BYTES, blocked_scratch(isa)
    group_size, whole = scratch.group_size, -(-most // lanes) * lanes

    @jit
    def write_sums(sums: Any, output: Any, columns: Any, adds: Any) -> None:
        """Writes sums, or adds them."""
        for column in range(0, columns, lanes):
            value, to, left = load(sums + column * FLOAT_BYTES), output + column * FLOAT_BYTES, columns - column
            if left >= lanes:
                store(to, add(load(to), value) if adds != 0 else value)
            else:
                store_some(to, add(load_some(to, left), value) if adds != 0 else value, left)

    @jit
    def first_row_of(p: BlockedProductParameters, group: Any, groups: Any) -> Any:
        """The first row of a group.

        A single row is summed in another order than several. So that a row's bits do not depend on the number of rows, a group has a
        single row only if there is no other; a transposed A, whose terms vary, always has the same number of rows.
        """
        return min(group * most, p.rows) if p.transposed != 0 else p.rows * group // groups

    @jit
    def copy_groups(p: BlockedProductParameters, begin: Any, count: Any, first_row: Any, last_row: Any, target: Any) -> None:
        """Copies a block of terms of some groups of rows of a transposed A: the values of a term for a group's rows are contiguous.

        Values written past a group's rows are overwritten by the next term, or unused.
        """
        first = p.a + begin * p.a_row + first_row * FLOAT_BYTES
        for _ in range(count):
            source, to, left = first, target, p.rows - first_row
            for _ in range(first_row, last_row, most):
                if left >= whole:
                    for vector in range(whole // lanes):
                        store(to + vector * size, load(source + vector * size))
                else:
                    for vector in range(whole // lanes):
                        store(to + vector * size, load_some(source + vector * size, min(left, most) - vector * lanes))
                source, to, left = source + slot, to + group_size, left - most
            first += p.a_row
            target += slot

    @jit
    def copy_panel(p: BlockedProductParameters, begin: Any, count: Any, each: Any, columns: Any, target: Any) -> None:
        """Copies a block of terms of a panel of B, of one vector if it has no more columns."""
        if p.b_rows != 0:
            for term in range(begin, begin + count):
                source = integer_at(p.b_rows + 8 * term) + each * row_size
                if columns > lanes:
                    copy_whole(source, 0, 1, columns, target)
                    target += row_size
                else:
                    copy_narrow(source, 0, 1, columns, target)
                    target += size
        elif columns > lanes:
            copy_whole(p.b + begin * p.b_row + each * row_size, p.b_row, count, columns, target)
        else:
            copy_narrow(p.b + begin * p.b_row + each * row_size, p.b_row, count, columns, target)

    @jit
    def total(count: Any, groups: Any, factors: Any, sums: Any, begins: Any) -> None:
        """Adds the sums over a block of terms to the totals of some groups of rows; the first block sets them."""
        for _ in range(groups):
            for first in range(0, most, lanes):
                # Four sums at a time: an addition waits for the one before.
                first_sum, second, third, fourth = all_of(zero), all_of(zero), all_of(zero), all_of(zero)
                at = factors + first * FLOAT_BYTES
                for _ in range(count // 4):
                    first_sum, second = add(first_sum, load(at)), add(second, load(at + slot))
                    third, fourth = add(third, load(at + 2 * slot)), add(fourth, load(at + 3 * slot))
                    at += 4 * slot
                for _ in range(count % 4):
                    first_sum = add(first_sum, load(at))
                    at += slot
                of_block, to = add(add(first_sum, second), add(third, fourth)), sums + first * FLOAT_BYTES
                store(to, of_block if begins else add(load(to), of_block))
            factors += group_size
            sums += whole * FLOAT_BYTES

    @jit
    def scale(p: BlockedProductParameters, samples: Any, rows: Any, panel: Any, vectors: Any, values: Any) -> None:
        """Multiplies contiguous rows of a panel by the multipliers of their samples."""
        for row in range(rows):
            of_sample = p.multipliers + integer_at(samples + 8 * row) * p.multipliers_row + panel * row_size
            for vector in range(vectors):
                store(values, multiply(load(values), load(of_sample + vector * size)))
                values += size

    @jit
    def write_tiles(
        p: BlockedProductParameters, groups: Any, first_group: Any, last_group: Any, first_panel: Any, last_panel: Any, sums_of_tile: Any
    ) -> None:
        """Writes the sums of some groups of rows and panels."""
        for panel in range(first_panel, last_panel):
            columns = min(width, p.columns - panel * width)
            vectors = VECTORS if columns > lanes else 1
            for group in range(first_group, last_group):
                row = first_row_of(p, group, groups)
                rows = first_row_of(p, group + 1, groups) - row
                if p.row_samples != 0:
                    scale(p, p.row_samples + 8 * row, rows, panel, vectors, sums_of_tile)
                for number in range(rows):
                    to = p.output + (row + number) * p.output_row
                    if p.output_rows != 0:
                        to = integer_at(p.output_rows + 8 * (row + number))
                    write_sums(sums_of_tile + number * vectors * size, to + panel * row_size, columns, p.adds)
                sums_of_tile += tile_size

    @jit
    def write_totals(p: BlockedProductParameters, first_group: Any, last_group: Any, sums: Any) -> None:
        """Writes the totals of some groups of rows."""
        for group in range(first_group, last_group):
            write_sums(sums, p.totals + group * slot, min(most, p.rows - group * most), p.adds)
            sums += whole * FLOAT_BYTES

    parameters_at = struct_view(BlockedProductParameters)

    def product(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p, stage = parameters_at(parameters), stage + 1
        zeros = p.scratch + thread * p.scratch_size
        panel, packed = zeros + scratch.panel, zeros + scratch.packed
        totals, sums_of_tiles = zeros + scratch.totals, zeros + scratch.tiles
        tile = acquire(p, sync, thread, threads, stage, p.tiles, NOTHING)
        if tile >= 0:
            for vector in range(VECTORS):
                store(zeros + vector * size, all_of(zero))
        # Groups and blocks do not depend on the splits, so a sum does not depend on the number of threads.
        groups, blocks = (p.rows + most - 1) // most, max(1, (p.terms + BLOCK_TERMS - 1) // BLOCK_TERMS)
        panels, transposed = (p.columns + width - 1) // width, p.transposed != 0
        while tile >= 0:
            row_split, panel_split = tile % p.row_splits, tile // p.row_splits
            first_group, last_group = groups * row_split // p.row_splits, groups * (row_split + 1) // p.row_splits
            first_panel, last_panel = panels * panel_split // p.panel_splits, panels * (panel_split + 1) // p.panel_splits
            has_totals = p.totals != 0 and panel_split == 0
            for block in range(blocks):
                begin = p.terms * block // blocks
                count = p.terms * (block + 1) // blocks - begin
                if transposed:
                    copy_groups(p, begin, count, first_group * most, min(last_group * most, p.rows), packed)
                if has_totals:
                    total(count, last_group - first_group, packed, totals, block == 0)
                sums_of_tile = sums_of_tiles
                for each in range(first_panel, last_panel):
                    columns = min(width, p.columns - each * width)
                    vectors = VECTORS if columns > lanes else 1
                    multiplied = p.product if columns > lanes else p.narrow_product
                    copy_panel(p, begin, count, each, columns, panel)
                    if p.term_samples != 0:
                        scale(p, p.term_samples + 8 * begin, count, each, vectors, panel)
                    of_group = packed
                    for group in range(first_group, last_group):
                        row = first_row_of(p, group, groups)
                        rows = first_row_of(p, group + 1, groups) - row
                        factors, factor_row = (of_group, slot) if transposed else (p.a + row * p.a_row + begin * p.a_term, p.a_row)
                        start, start_row = (zeros, 0) if block == 0 else (sums_of_tile, vectors * size)
                        call_product(multiplied, (rows, panel, count, factors, factor_row, start, start_row, sums_of_tile))
                        of_group += group_size
                        sums_of_tile += tile_size
            if commit(sync, threads, stage, tile):
                write_tiles(p, groups, first_group, last_group, first_panel, last_panel, sums_of_tiles)
                if has_totals:
                    write_totals(p, first_group, last_group, totals)
                publish(sync, threads, stage, tile)
            tile = acquire(p, sync, thread, threads, stage, p.tiles, tile)
        return stage

    return product
