"""The compiled product of matrices in place.

A block of terms of B is copied to panels, while sums over other terms stay in a cache. Rows of a transposed A are copied too: in place,
each term of a few rows is on another page. The kernel is a task of a fused launch (see `devices.cpu.thread_pool_kernels`) with one stage. A
thread sums a tile over all terms in its own memory before it writes anything.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.matrix.blocked import BLOCK_TERMS, VECTORS, BlockedProductParameters, blocked_scratch
from dmlpy.devices.cpu.matrix.kernels import panel_copy
from dmlpy.devices.cpu.product_kernels import call_product
from dmlpy.devices.cpu.simd import integer_at, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, acquire, commit, publish

if TYPE_CHECKING:
    from collections.abc import Callable

_ZERO = np.float32(0.0)


@cache
def _first_row(isa: Isa) -> Any:
    """The kernel `first_row_of(p, group, groups)`."""
    most = isa.columns(VECTORS)

    @jit
    def first_row_of(p: BlockedProductParameters, group: Any, groups: Any) -> Any:
        """The first row of a group.

        A single row is summed in another order than several. So that a row's bits do not depend on the number of rows, a group has a
        single row only if there is no other; a transposed A, whose terms vary, always has the same number of rows.
        """
        return min(group * most, p.rows) if p.transposed != 0 else p.rows * group // groups

    return first_row_of


def _group_copy(isa: Isa) -> Any:
    """The kernel `copy_groups(p, begin, count, first_row, last_row, target)`."""
    simd, most, lanes = simd_of(isa), isa.columns(VECTORS), isa.lanes
    load, load_some, store, size = simd.load, simd.load_some, simd.store, simd.size
    slot, group_size, whole = most * FLOAT_BYTES, blocked_scratch(isa).group_size, -(-most // lanes) * lanes

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

    return copy_groups


def _block_copy(isa: Isa) -> Any:
    """The kernel `copy_panel(p, begin, count, each, columns, target)`."""
    copy_whole, copy_narrow = panel_copy(VECTORS, "float32", isa), panel_copy(1, "float32", isa)
    lanes, size, row_size = isa.lanes, simd_of(isa).size, VECTORS * simd_of(isa).size

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

    return copy_panel


def _total(isa: Isa) -> Any:
    """The kernel `total(count, groups, factors, sums, begins)`."""
    simd, most, lanes = simd_of(isa), isa.columns(VECTORS), isa.lanes
    load, store, add, all_of = simd.load, simd.store, simd.add, simd.all_of
    slot, group_size, whole = most * FLOAT_BYTES, blocked_scratch(isa).group_size, -(-most // lanes) * lanes

    @jit
    def total(count: Any, groups: Any, factors: Any, sums: Any, begins: Any) -> None:
        """Adds the sums over a block of terms to the totals of some groups of rows; the first block sets them."""
        for _ in range(groups):
            for first in range(0, most, lanes):
                # Four sums at a time: an addition waits for the one before.
                first_sum, second, third, fourth = all_of(_ZERO), all_of(_ZERO), all_of(_ZERO), all_of(_ZERO)
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

    return total


@cache
def _scale(isa: Isa) -> Any:
    """The kernel `scale(p, samples, rows, panel, vectors, values)`."""
    simd, row_size = simd_of(isa), VECTORS * simd_of(isa).size
    load, store, multiply, size = simd.load, simd.store, simd.multiply, simd.size

    @jit
    def scale(p: BlockedProductParameters, samples: Any, rows: Any, panel: Any, vectors: Any, values: Any) -> None:
        """Multiplies contiguous rows of a panel by the multipliers of their samples."""
        for row in range(rows):
            of_sample = p.multipliers + integer_at(samples + 8 * row) * p.multipliers_row + panel * row_size
            for vector in range(vectors):
                store(values, multiply(load(values), load(of_sample + vector * size)))
                values += size

    return scale


def _writers(isa: Isa) -> tuple[Any, Any]:
    """The kernels `write_tiles` and `write_totals`, which write the sums of groups of rows, of some panels or over all terms."""
    simd, most, lanes = simd_of(isa), isa.columns(VECTORS), isa.lanes
    load, store, load_some, store_some, add = simd.load, simd.store, simd.load_some, simd.store_some, simd.add
    first_row_of, scale, size = _first_row(isa), _scale(isa), simd.size
    width, row_size, tile_size, slot = VECTORS * lanes, VECTORS * size, most * VECTORS * size, most * FLOAT_BYTES
    whole = -(-most // lanes) * lanes

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

    return write_tiles, write_totals


def _groups_product(isa: Isa) -> Any:
    """The kernel `multiply_groups(p, multiply, groups, range_of_groups, panel, packed, terms, tiles)`.

    It multiplies groups of rows by a panel, for the first term and the count of `terms`, with the product at the address `multiply`.
    `packed` has the rows of a transposed A. `tiles` are the address of the first group's sums, that of the zeros that they begin with, or
    0 where they go on from what they are, and the bytes of a row of sums. Returns the address of the sums that follow.
    """
    most, first_row_of, group_size = isa.columns(VECTORS), _first_row(isa), blocked_scratch(isa).group_size
    tile_size, slot = most * VECTORS * simd_of(isa).size, most * FLOAT_BYTES

    @jit
    def multiply_groups(
        p: BlockedProductParameters, multiply: Any, groups: Any, range_of_groups: Any, panel: Any, packed: Any, terms: Any, tiles: Any
    ) -> Any:
        (first_group, last_group), (begin, count), (sums, zeros, sums_row) = range_of_groups, terms, tiles
        of_group = packed
        for group in range(first_group, last_group):
            row = first_row_of(p, group, groups)
            rows = first_row_of(p, group + 1, groups) - row
            factors, factor_row = (of_group, slot) if p.transposed != 0 else (p.a + row * p.a_row + begin * p.a_term, p.a_row)
            start, start_row = (zeros, 0) if zeros != 0 else (sums, sums_row)
            call_product(multiply, (rows, panel, count, factors, factor_row, start, start_row, sums))
            of_group += group_size
            sums += tile_size
        return sums

    return multiply_groups


def build_blocked_product(isa: Isa) -> Callable[..., int]:
    """The product, to be compiled.

    Args:
        isa: the instruction set that it is compiled for.
    """
    simd, most, lanes, parameters_at = simd_of(isa), isa.columns(VECTORS), isa.lanes, struct_view(BlockedProductParameters)
    store, all_of, size = simd.store, simd.all_of, simd.size
    width, scratch, multiply_groups, scale = VECTORS * lanes, blocked_scratch(isa), _groups_product(isa), _scale(isa)
    copy_groups, copy_panel, total, (write_tiles, write_totals) = _group_copy(isa), _block_copy(isa), _total(isa), _writers(isa)

    def product(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p, stage = parameters_at(parameters), stage + 1
        zeros = p.scratch + thread * p.scratch_size
        panel, packed = zeros + scratch.panel, zeros + scratch.packed
        totals, sums_of_tiles = zeros + scratch.totals, zeros + scratch.tiles
        tile = acquire(p, sync, thread, threads, stage, p.tiles, NOTHING)
        if tile >= 0:
            for vector in range(VECTORS):
                store(zeros + vector * size, all_of(_ZERO))
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
                    copy_panel(p, begin, count, each, columns, panel)
                    if p.term_samples != 0:
                        scale(p, p.term_samples + 8 * begin, count, each, vectors, panel)
                    multiplied = p.product if columns > lanes else p.narrow_product
                    tiles = sums_of_tile, zeros if block == 0 else 0, vectors * size
                    sums_of_tile = multiply_groups(p, multiplied, groups, (first_group, last_group), panel, packed, (begin, count), tiles)
            if commit(sync, threads, stage, tile):
                write_tiles(p, groups, first_group, last_group, first_panel, last_panel, sums_of_tiles)
                if has_totals:
                    write_totals(p, first_group, last_group, totals)
                publish(sync, threads, stage, tile)
            tile = acquire(p, sync, thread, threads, stage, p.tiles, tile)
        return stage

    return product
