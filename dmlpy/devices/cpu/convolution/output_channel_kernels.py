"""The compiled convolution that is vectorized over output channels: the input of a few positions multiplies vectors of weights.

No lane is lost at the end of a row of positions, and positions may read floats at any distance. So a position of a narrow image takes
as long as one of a wide image, and where windows stay inside of the image, it is read in place, whatever the strides are. The weights
of a chunk of the terms stay in the first-level cache while they are applied to all positions of a tile, whose sums are in scratch
meanwhile. Every result is that of `kernels`, bit for bit.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit, unpacked
from dmlpy.devices.cpu.convolution.kernels import epilogue_kernel, locate_input, locate_tile
from dmlpy.devices.cpu.convolution.layout import ChannelParameters, Epilogue
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, spread_writer, transposed
from dmlpy.devices.cpu.runtime_kernels import indirect_call
from dmlpy.devices.cpu.simd import ADDRESS, Loop, each_below, each_count, prefetch, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.thread_pool import TaskBody


call_product = indirect_call(11)
"""call_product(product, arguments) calls the kernel of `build_product` by its address."""


def build_product(vectors: int, most: int, isa: Isa) -> Callable[..., None]:
    """Builds the product of weights with the input of some positions, to be compiled.

    Its arguments are columns, matrix, terms, term_offsets, source, step, start, start_row, sums, ahead, ahead_step:
    sums[column][vector] = start[column][vector] + matrix[term][vector] * the float at source + term_offsets[term] + column * step, summed
    over the terms in order; there is at least one term. `columns` is 1 to `most`, `start_row` is from a row of `start` to the
    next, and `term_offsets` has an int64 for each term; distances are bytes.

    With each term a cache line is prefetched to the second-level cache: the first at `ahead`, the others at intervals of
    `ahead_step`. Invalid addresses do no harm.

    Args:
        vectors: vectors of weights.
        most: columns, at most.
        isa: the instruction set that it is compiled for.
    """

    @intrinsic
    def multiply(columns: Any, others: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            columns, others = arguments
            values = unpacked(builder, others)
            for count in each_count(builder, columns, most):
                _product(builder, vectors, count, isa, values)

        return types.void(types.int64, types.UniTuple(types.int64, 10)), generate

    def product(
        columns: Any,
        matrix: Any,
        terms: Any,
        term_offsets: Any,
        source: Any,
        step: Any,
        start: Any,
        start_row: Any,
        sums: Any,
        ahead: Any,
        ahead_step: Any,
    ) -> None:
        multiply(columns, (matrix, terms, term_offsets, source, step, start, start_row, sums, ahead, ahead_step))

    return product


def _product(builder: Any, count: int, columns: int, isa: Isa, arguments: Sequence[Any]) -> None:
    """Generates the code for a number of columns."""
    matrix, terms, term_offsets, source, step, start, start_row, sums, ahead, ahead_step = arguments
    simd = simd_of(isa)
    starts = []
    for column in range(columns):
        row = builder.add(start, builder.mul(start_row, ADDRESS(column)))
        starts += [simd.value_of(builder, row, vector * simd.size) for vector in range(count)]
    steps = [builder.mul(step, ADDRESS(column)) for column in range(columns)]
    end = builder.add(term_offsets, builder.shl(terms, ADDRESS(3)))
    loop = Loop(builder, [term_offsets, matrix, ahead, *starts])
    term_offset, row, line, *carried = loop.values
    prefetch(builder, line, caches=2)
    weights = [simd.value_of(builder, row, vector * simd.size) for vector in range(count)]
    at = builder.add(source, builder.load(builder.inttoptr(term_offset, ADDRESS.as_pointer()), align=8))
    totals = []
    for column in range(columns):
        value = simd.repeated_at(builder, builder.add(at, steps[column]))
        for vector in range(count):
            totals.append(simd.fused(builder, weights[vector], value, carried[column * count + vector]))
    following = [builder.add(term_offset, ADDRESS(8)), builder.add(row, ADDRESS(count * simd.size)), builder.add(line, ahead_step)]
    loop.repeat_while(builder.icmp_signed("<", following[0], end), [*following, *totals])
    for number, total in enumerate(totals):
        simd.write(builder, total, sums, number * simd.size)


@cache
def _tile_epilogue(clips: bool, isa: Isa) -> Any:
    """The kernel `apply_epilogue(sums, sums_row, positions, filters, coefficients, coefficients_row, low, high, target, target_row)`.

    target[filter][position] = (sums[position][filter] - centre) * factor + bias, from low to high if `clips`, for the first positions and
    filters, at most a vector's lanes of each. Centres, factors and biases of the filters are rows of `coefficients`. Sums of as many
    positions as there are lanes are read; nothing but the results is written.
    """
    simd, lanes = simd_of(isa), isa.lanes

    @intrinsic
    def apply_epilogue(
        sums: Any,
        sums_row: Any,
        positions: Any,
        filters: Any,
        coefficients: Any,
        coefficients_row: Any,
        low: Any,
        high: Any,
        target: Any,
        target_row: Any,
    ) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            sums, sums_row, positions, filters, coefficients, coefficients_row, low, high, target, target_row = arguments
            rows = [builder.add(coefficients, builder.mul(coefficients_row, ADDRESS(row))) for row in range(3)]
            centre, factor, bias = (simd.first_of(builder, row, filters) for row in rows)
            limits = [simd.repeated(builder, limit) for limit in (low, high)]
            tile = []
            for _ in range(lanes):
                value = simd.fused(builder, builder.fsub(simd.value_of(builder, sums), centre), factor, bias)
                tile.append(simd.clipped(builder, value, *limits) if clips else value)
                sums = builder.add(sums, sums_row)
            for value in each_below(builder, transposed(builder, tile), filters):
                simd.write_first(builder, value, target, positions)
                target = builder.add(target, target_row)

        return types.void(*[types.int64] * 6, types.float32, types.float32, types.int64, types.int64), generate

    return apply_epilogue


def build_convolution(stored: Storage, epilogue: Epilogue, isa: Isa) -> TaskBody:
    """Builds a thread's part of a convolution, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        epilogue: what is computed of the sums.
        isa: the instruction set that it is compiled for.
    """
    simd, lanes, zero = simd_of(isa), isa.lanes, np.float32(0.0)
    store, all_of, size = simd.store, simd.all_of, simd.size
    accumulate, write_vectors = _accumulation(size), _vector_writer(stored, epilogue, isa)

    @jit
    def begin(p: ChannelParameters, thread: Any) -> Any:
        """The scratch, which begins with zeros, and the image tile whose input is there: none."""
        scratch = own_scratch(p, thread)
        for vector in range(p.vectors):
            store(scratch + vector * size, all_of(zero))
        return scratch, -1

    @jit
    def convolve(p: ChannelParameters, tile: Any, state: Any) -> Any:
        scratch, gathered = state
        filter_split, image_tile, first_row, rows, group, z, source, output = locate_tile(p, tile)
        source = locate_input(p, source, z, first_row, first_row * p.stride_y, image_tile == gathered, scratch + p.input_tile)
        positions = min(rows * p.columns, p.positions - first_row * p.columns)
        for block in range(p.blocks * filter_split // p.filter_splits, p.blocks * (filter_split + 1) // p.filter_splits):
            weights = p.weights + (group * p.blocks + block) * p.terms * p.vectors * size
            accumulate(p, source, weights, first_row, rows, scratch)
            for row in range(0, rows, p.run_rows):
                count = min(p.run_rows * p.columns, positions - row * p.columns)
                for vector in range(p.vectors):
                    channel = (block * p.vectors + vector) * lanes
                    if channel < p.filters:
                        sums = scratch + p.sums + (row * p.columns * p.vectors + vector) * size
                        coefficients = p.coefficients + (3 * group * p.filters + channel) * FLOAT_BYTES
                        target = output + channel * p.output_channel + row * p.output_row
                        write_vectors(p, sums, count, min(lanes, p.filters - channel), coefficients, target, scratch + p.epilogue_tile)
        return scratch, image_tile

    return share_tiles(ChannelParameters, convolve, begin)


def _accumulation(size: int) -> Any:
    """accumulate(p, source, weights, first_row, rows, scratch): the sums of a block of filters; a vector has `size` bytes."""

    @jit
    def accumulate(p: ChannelParameters, source: Any, weights: Any, first_row: Any, rows: Any, scratch: Any) -> None:
        """Sums the products of a block of filters for the positions of some rows."""
        row_size, groups = p.vectors * size, (p.columns + p.max_columns - 1) // p.max_columns
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
                    call_product(
                        p.product, (count, weights, terms, p.term_offsets, at, p.column_step, start, start_row, to, ahead, ahead_step)
                    )
                    ahead += terms * ahead_step
                    to += count * row_size
                    if first > 0:
                        start = to
            weights += terms * row_size
            source += p.chunk_step

    return accumulate


def _vector_writer(stored: Storage, epilogue: Epilogue, isa: Isa) -> Any:
    """write_vectors(p, sums, count, filters, coefficients, output, tile): the results of a vector of filters."""
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    load, load_some = simd.load, simd.load_some
    subtract, multiply_add, size, element = simd.subtract, simd.multiply_add, simd.size, load_store.size
    plain, adds, finish = epilogue.is_plain, epilogue.adds, epilogue_kernel(epilogue, isa)
    apply_epilogue, read, write, write_spread = _tile_epilogue(plain, isa), load_store.load, load_store.store, spread_writer(stored, isa)

    @jit
    def write_vectors(p: ChannelParameters, sums: Any, count: Any, filters: Any, coefficients: Any, output: Any, tile: Any) -> None:
        """Applies the epilogue to a vector of filters for `count` evenly spaced positions of the output; `tile` is scratch."""
        coefficients_row, row_size = p.filters * FLOAT_BYTES, p.vectors * size
        if p.output_channel == element:
            centre, factor = load_some(coefficients, filters), load_some(coefficients + coefficients_row, filters)
            bias = load_some(coefficients + 2 * coefficients_row, filters)
            for position in range(count):
                place, added = output + position * p.output_element, centre
                if adds:
                    added = read(place - p.output + p.added, filters)
                value = multiply_add(subtract(load(sums + position * row_size), centre), factor, bias)
                write(place, finish(p, value, added), filters)
        else:
            direct = plain and stored == "float32" and p.output_element == FLOAT_BYTES
            for first in range(0, count, lanes):
                positions, target = min(lanes, count - first), output + first * p.output_element
                to, to_row = (target, p.output_channel) if direct else (tile, size)
                apply_epilogue(
                    sums + first * row_size, row_size, positions, filters, coefficients, coefficients_row, p.low, p.high, to, to_row
                )
                if not direct:
                    for number in range(filters):
                        of_filter, vector, value = target + number * p.output_channel, tile + lanes * size, load(tile + number * size)
                        if adds:
                            value = finish(p, value, read(of_filter - p.output + p.added, positions))
                        elif not plain:
                            value = finish(p, value, value)
                        write_spread(of_filter, value, positions, p.output_element, vector)

    return write_vectors
