"""The compiled convolution whose lanes are filters: what a few neighbouring positions see multiplies vectors of weights.

No lane is lost at the end of a row of positions, and positions may see floats that lie any distance apart. So narrow images take as long
for a position as wide ones, and where windows stay inside of the image, it is read in place, whatever the strides are. The weights of a
chunk of the terms stay in the first-level cache while all positions of a tile see them; the sums of other positions wait in scratch
meanwhile. Every result is that of `convolution_kernels`, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.convolution.convolution_parameters import FILTER_PARAMETERS
from dmlpy.devices.cpu.convolution.filter_lanes_products import call_product, finished_tile
from dmlpy.devices.cpu.convolution.gather_kernels import call_filling
from dmlpy.devices.cpu.convolution.items import place_of
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.load_store import load_store_of, spread_writer
from dmlpy.devices.cpu.simd import jit, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


def convolution_of(halves: bool, isa: Isa) -> TaskBody:
    """A thread's part of a convolution, to be compiled.

    Args:
        halves: whether input and output are of FLOAT16.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, lanes, zero = simd_of(isa), load_store_of(halves, isa), isa.lanes, np.float32(0.0)
    load, load_some, store, all_of = simd.load, simd.load_some, simd.store, simd.all_of
    subtract, multiply_add, at_most, at_least = simd.subtract, simd.multiply_add, simd.at_most, simd.at_least
    finish, write, write_spread = finished_tile(isa), load_store.store, spread_writer(halves, isa)
    size, element = simd.size, load_store.size

    @jit
    def sum_up(p: Any, source: Any, weights: Any, first_row: Any, rows: Any, scratch: Any) -> None:
        """Sums what the positions of some rows see, for a block of filters."""
        row_size, groups = p.vectors * size, (p.columns + p.most - 1) // p.most
        for first in range(0, p.terms, p.chunk_terms):
            terms, to = min(p.chunk_terms, p.terms - first), scratch + p.sums
            start, start_row = (scratch, 0) if first == 0 else (to, row_size)
            # The weights of the next chunk come from memory while those of this one are multiplied.
            ahead, ahead_step = weights + terms * row_size, row_size // (rows * groups)
            for row in range(rows):
                columns = min(p.columns, p.positions - (first_row + row) * p.columns)
                for group in range(groups):
                    column = columns * group // groups
                    count = columns * (group + 1) // groups - column
                    at = source + row * p.row_step + column * p.column_step
                    call_product(p.product, (count, weights, terms, p.places, at, p.column_step, start, start_row, to, ahead, ahead_step))
                    ahead += terms * ahead_step
                    to += count * row_size
                    if first > 0:
                        start = to
            weights += terms * row_size
            source += p.chunk_step

    @jit
    def give(p: Any, sums: Any, count: Any, filters: Any, coefficients: Any, output: Any, tile: Any) -> None:
        """Finishes and writes a vector of filters for `count` positions that lie evenly in the output; `tile` is scratch."""
        coefficients_row, row_size = p.filters * FLOAT_BYTES, p.vectors * size
        if p.output_channel == element:
            centre, factor = load_some(coefficients, filters), load_some(coefficients + coefficients_row, filters)
            bias, low, high = load_some(coefficients + 2 * coefficients_row, filters), all_of(p.low), all_of(p.high)
            for position in range(count):
                value = multiply_add(subtract(load(sums + position * row_size), centre), factor, bias)
                write(output + position * p.output_element, at_least(at_most(value, high), low), filters)
        else:
            direct = not halves and p.output_element == FLOAT_BYTES
            for first in range(0, count, lanes):
                positions, target = min(lanes, count - first), output + first * p.output_element
                to, to_row = (target, p.output_channel) if direct else (tile, size)
                finish(sums + first * row_size, row_size, positions, filters, coefficients, coefficients_row, p.low, p.high, to, to_row)
                if not direct:
                    for number in range(filters):
                        of_filter, vector = target + number * p.output_channel, tile + lanes * size
                        write_spread(of_filter, load(tile + number * size), positions, p.output_element, vector)

    parameters_at = struct_view(FILTER_PARAMETERS)

    def convolve(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        scratch, state, finished, filled = p.scratch + thread * p.scratch_size, parameters, 0, -1
        item = first_tile(state, p.items, thread, threads, sync, epoch)
        if item < p.items:
            for vector in range(p.vectors):
                store(scratch + vector * size, all_of(zero))
        while item < p.items:
            share, tile, first_row, rows, group, z, source, output = place_of(p, item)
            if p.copies != 0:
                if filled != tile:
                    call_filling(p.fill, (p.filling, scratch + p.part, source, z * p.stride_z - p.pad_z, first_row * p.stride_y))
                    filled = tile
                source = scratch + p.part
            else:
                source += z * p.slice_step + first_row * p.row_step
            positions = min(rows * p.columns, p.positions - first_row * p.columns)
            for block in range(p.blocks * share // p.parts, p.blocks * (share + 1) // p.parts):
                weights = p.weights + (group * p.blocks + block) * p.terms * p.vectors * size
                sum_up(p, source, weights, first_row, rows, scratch)
                for row in range(0, rows, p.run):
                    count = min(p.run * p.columns, positions - row * p.columns)
                    for vector in range(p.vectors):
                        channel = (block * p.vectors + vector) * lanes
                        if channel < p.filters:
                            give(
                                p,
                                scratch + p.sums + (row * p.columns * p.vectors + vector) * size,
                                count,
                                min(lanes, p.filters - channel),
                                p.coefficients + (3 * group * p.filters + channel) * FLOAT_BYTES,
                                output + channel * p.output_channel + row * p.output_row,
                                scratch + p.tile,
                            )
            finished += 1
            item = next_tile(state, item, p.items, threads, epoch)
        wait_for_all_tiles(state, finished, p.items, thread, threads)

    return convolve
