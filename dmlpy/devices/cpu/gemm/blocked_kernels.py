"""The compiled product of two matrices as they lie: B is copied to panels a block of terms at a time, while other sums wait in a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.gemm.packing_kernels import panel_copy
from dmlpy.devices.cpu.gemm.parameters import BLOCK_PANELS, BLOCK_TERMS, BLOCKED_PARAMETERS, VECTORS
from dmlpy.devices.cpu.products import call_product
from dmlpy.devices.cpu.registers import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.sharing import first_item, next_item, wait_for_all
from dmlpy.devices.cpu.vectors import integer_at, jit, record_at, vectors_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.team import Share


def blocked_product_of(registers: Registers) -> Share:
    """A thread's share of a product, to be compiled.

    Args:
        registers: the registers that it is compiled for.
    """
    vectors = vectors_of(registers)
    load, store, load_some, store_some = vectors.load, vectors.store, vectors.load_some, vectors.store_some
    all_of, add, multiply, lanes, size = vectors.all_of, vectors.add, vectors.multiply, registers.lanes, vectors.size
    most = registers.columns(VECTORS)
    width, row_size, tile_size, zero = VECTORS * lanes, VECTORS * size, most * VECTORS * size, np.float32(0.0)
    copy = panel_copy(VECTORS, False, registers)

    @jit
    def give(sums: Any, output: Any, columns: Any, adds: Any) -> None:
        """Writes sums, or adds them."""
        for column in range(0, columns, lanes):
            value, to, left = load(sums + column * FLOAT_BYTES), output + column * FLOAT_BYTES, columns - column
            if left >= lanes:
                store(to, add(load(to), value) if adds != 0 else value)
            else:
                store_some(to, add(load_some(to, left), value) if adds != 0 else value, left)

    @jit
    def total(p: Any, blocks: Any, first_row: Any, last_row: Any, sums: Any) -> None:
        """Sums rows of a transposed A over all terms, a block after the other."""
        for row in range(first_row, last_row, lanes):
            left, all_blocks = min(lanes, last_row - row), all_of(zero)
            for block in range(blocks):
                begin, end = p.terms * block // blocks, p.terms * (block + 1) // blocks
                of_block, at = all_of(zero), p.a + begin * p.a_row + row * FLOAT_BYTES
                for _ in range(begin, end):
                    of_block = add(of_block, load(at) if left == lanes else load_some(at, left))
                    at += p.a_row
                all_blocks = add(all_blocks, of_block)
            store(sums, all_blocks)
            give(sums, p.totals + row * FLOAT_BYTES, left, p.adds)

    @jit
    def scale(p: Any, samples: Any, rows: Any, panel: Any, values: Any) -> None:
        """Multiplies rows of a panel's width, which lie beside each other, by the multipliers of their samples."""
        for row in range(rows):
            of_sample = p.multipliers + integer_at(samples + 8 * row) * p.multipliers_row + panel * row_size
            for vector in range(VECTORS):
                at = values + vector * size
                store(at, multiply(load(at), load(of_sample + vector * size)))
            values += row_size

    parameters_at = record_at(BLOCKED_PARAMETERS)

    def product(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        p = parameters_at(parameters)
        zeros, finished = p.scratch + thread * p.scratch_size, 0
        panel, tiles = zeros + row_size, zeros + row_size + BLOCK_TERMS * row_size
        item = first_item(parameters, p.items, thread, threads, board, met)
        if item < p.items:
            for vector in range(VECTORS):
                store(zeros + vector * size, all_of(zero))
        # Groups and blocks do not depend on the parts, so each sum is the same on however many threads.
        groups, blocks = (p.rows + most - 1) // most, max(1, (p.terms + BLOCK_TERMS - 1) // BLOCK_TERMS)
        panels = (p.columns + width - 1) // width
        while item < p.items:
            row_part, panel_part = item % p.row_parts, item // p.row_parts
            first_group, last_group = groups * row_part // p.row_parts, groups * (row_part + 1) // p.row_parts
            if p.totals != 0 and panel_part == 0:
                total(p, blocks, p.rows * first_group // groups, p.rows * last_group // groups, panel)
            first_panel = BLOCK_PANELS * panel_part
            for block in range(blocks):
                begin = p.terms * block // blocks
                count = p.terms * (block + 1) // blocks - begin
                for number in range(first_panel, min(first_panel + BLOCK_PANELS, panels)):
                    columns = min(width, p.columns - number * width)
                    copy(p.b + begin * p.b_row + number * row_size, p.b_row, count, columns, panel)
                    if p.term_samples != 0:
                        scale(p, p.term_samples + 8 * begin, count, number, panel)
                    tile = tiles + (number - first_panel) * (last_group - first_group) * tile_size
                    for group in range(first_group, last_group):
                        row = p.rows * group // groups
                        rows = p.rows * (group + 1) // groups - row
                        factors = p.a + row * p.a_entry + begin * p.a_term
                        start, start_row = (zeros, 0) if block == 0 else (tile, row_size)
                        call_product(p.product, (rows, panel, count, factors, p.a_row, start, start_row, tile))
                        if block == blocks - 1:
                            if p.row_samples != 0:
                                scale(p, p.row_samples + 8 * row, rows, number, tile)
                            for each in range(rows):
                                to = p.output + (row + each) * p.output_row + number * row_size
                                give(tile + each * row_size, to, columns, p.adds)
                        tile += tile_size
            finished += 1
            item = next_item(parameters, item, p.items, threads, met)
        wait_for_all(parameters, finished, p.items, thread, threads)

    return product
