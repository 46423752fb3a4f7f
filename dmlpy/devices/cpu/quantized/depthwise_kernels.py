"""The compiled convolution of bytes whose groups have one input channel: the four bytes of a quad are taps of a row.

What a vector of positions reads in a row lies side by side, so one load and one rearrangement of bytes give the quads of all of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import called, intrinsic, jit
from dmlpy.devices.cpu.quantized.byte_product_kernels import (
    all_of,
    byte_at,
    copy_bytes,
    dot,
    integers,
    repeated_quad,
    set_byte,
    set_quad,
    store,
)
from dmlpy.devices.cpu.quantized.parameters import DepthwiseByteParameters, Output
from dmlpy.devices.cpu.quantized.result_kernels import ROW_SIZE, row_results, row_terms_at, row_writer, run_writer
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, each_count, integer_at, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.quantized.byte_isa import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

VECTORS = 4
"""Vectors of positions whose sums are in registers at once."""


@cache
def window_product(stride: int, isa: ByteIsa) -> Any:
    """The kernel `multiply(count, source, row, rows, quads, weights, sums)`, for `count` vectors of positions, 1 to `VECTORS`.

    It sums the products of the taps of `rows` rows, `row` bytes apart from `source` on, each of `quads` quads.

    Args:
        stride: bytes from a position to the next.
        isa: the instruction set that it is compiled for.
    """
    lanes, size = isa.lanes, isa.lanes * 4
    # No more than is needed: fewer loads cross the lines of the cache.
    read = ir.VectorType(ir.IntType(8), 1 << ((lanes - 1) * stride + 3).bit_length())
    chosen = ir.Constant(ir.VectorType(INDEX, size), [lane * stride + tap for lane in range(lanes) for tap in range(4)])

    @intrinsic
    def multiply(count: Any, source: Any, row: Any, rows: Any, quads: Any, weights: Any, sums: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            count, source, row, rows, quads, weights, sums = arguments
            for number in each_count(builder, count, VECTORS):
                of_rows = Loop(builder, [ADDRESS(0), source, weights, *[all_of(isa, 0)] * number])
                done, row_at, weight, *totals = of_rows.values
                of_quads = Loop(builder, [ADDRESS(0), row_at, weight, *totals])
                quad, at, factor, *totals = of_quads.values
                signed = repeated_quad(builder, isa, factor)
                added = []
                for vector, total in enumerate(totals):
                    place = builder.inttoptr(builder.add(at, ADDRESS(vector * lanes * stride)), read.as_pointer())
                    found = builder.load(place, align=1)
                    windows = builder.bitcast(builder.shuffle_vector(found, found, chosen), integers(isa))
                    added.append(dot(builder, isa, total, windows, signed))
                next_quad, next_factor = builder.add(quad, ADDRESS(1)), builder.add(factor, ADDRESS(4))
                more = builder.icmp_signed("<", next_quad, quads)
                of_quads.repeat_while(more, [next_quad, builder.add(at, ADDRESS(4)), next_factor, *added])
                next_row = builder.add(done, ADDRESS(1))
                more = builder.icmp_signed("<", next_row, rows)
                of_rows.repeat_while(more, [next_row, builder.add(row_at, row), next_factor, *added])
                for vector, total in enumerate(added):
                    store(builder, total, builder.add(sums, ADDRESS(vector * size)))

        return types.void(*[types.int64] * 7), generate

    return multiply


@jit
def _fill(target: Any, count: Any, value: Any) -> None:
    for at in range(0, count // 4 * 4, 4):
        set_quad(target + at, value * 0x01010101)
    for at in range(count // 4 * 4, count):
        set_byte(target + at, value)


@jit
def _copy_rows(p: DepthwiseByteParameters, source: Any, first_row: Any, target: Any) -> None:
    """Copies the rows that the windows of a tile read, as unsigned bytes, into a tile that holds padding."""
    # In variables: what is written might be the parameters, for all that LLVM knows.
    inside, flip, row_size, element_size, pitch = min(p.width, p.pitch - p.pad_x), p.input_flip, p.input_row, p.input_element, p.pitch
    y = first_row * p.stride_y - p.pad_y
    first, last, to = max(0, -y), min(p.tile_rows, p.height - y), target + p.pad_x
    if inside > 0:
        for row in range(first, last):
            if element_size == 1:
                copy_bytes(source + (y + row) * row_size, to + row * pitch, inside, flip)
            else:
                for column in range(inside):
                    of_element = source + (y + row) * row_size + column * element_size
                    set_byte(to + row * pitch + column, byte_at(of_element) ^ (flip & 255))


@called
def _gather(p: DepthwiseByteParameters, image: Any, group: Any, split: Any, padding: Any, fills: Any, target: Any) -> None:
    """Copies the tile of some rows of positions of an image's channel; fills it with padding before if the last one had it elsewhere."""
    if fills:
        _fill(target, p.tile_rows * p.pitch, padding)
    _copy_rows(p, p.input + image * p.input_image + group * p.input_channel, split * p.rows, target)


def build_depthwise(output: Output, stride: int, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of a convolution, to be compiled.

    Args:
        output: what becomes of the sums.
        stride: columns from a position of the window to the next.
        isa: the instruction set that it is compiled for.
    """
    lanes, size = isa.lanes, isa.lanes * 4
    multiply, finish = window_product(stride, isa), row_results(output, True, isa)
    write, write_rows, element = run_writer(output), row_writer(output), 1 if output is Output.BYTES else 4
    parameters_at, most = struct_view(DepthwiseByteParameters), VECTORS * lanes

    @jit
    def multiply_plane(p: DepthwiseByteParameters, rows_of_tile: Any, scratch: Any, first_row: Any, channel: Any, output: Any) -> None:
        """Computes the rows of positions of a filter that a tile's rows of the image give."""
        sums, results, bytes_of = scratch, scratch + VECTORS * size, scratch + 2 * VECTORS * size
        weights = p.weights + channel * p.taps_y * p.quads * 4
        of_row = p.row_terms + channel * ROW_SIZE
        second, uses_second = row_terms_at(of_row).second, integer_at(p.uses_second) != 0
        columns = (p.column_first, bytes_of if uses_second else p.column_first, p.column_factor, p.column_scale)
        rows, run = min(p.rows, p.out_height - first_row), p.out_width
        steps, step = rows, p.stride_y * p.pitch
        if p.joins_rows != 0:  # rows of the tile follow each other as the positions of one
            run, steps = (rows - 1) * p.pitch + p.out_width, 1
        for row in range(steps):
            to, place = output + (first_row + row) * p.output_row, 0
            for column in range(0, run, most):
                useful = min(most, run - column)
                count, at = (useful + lanes - 1) // lanes, rows_of_tile + row * step + column * stride
                multiply(count, at, p.row_step, p.taps_y, p.quads, weights, sums)
                if uses_second:
                    multiply(count, at, p.row_step, p.taps_y, p.quads, p.ones, bytes_of)
                is_whole = useful == count * lanes and p.joins_rows == 0 and p.output_element == element
                finish(p, of_row, second, sums, columns, count, 0, to + column * element if is_whole else results)
                if p.joins_rows != 0:
                    place, to = write_rows(p, results, to, place, useful)
                elif not is_whole:
                    write(results, to + column * p.output_element, useful, p.output_element)

    def convolve(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished, held = parameters_at(parameters), 0, -1
        scratch = p.scratch + thread * p.scratch_size
        first_rows = scratch + 3 * VECTORS * size
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        padding, fills = 0, p.row_splits > 1  # the padding of whole images is at the same places in all of them
        if tile < p.tiles:
            padding = (byte_at(p.input_zero) if p.input_zero != 0 else 0) ^ (p.input_flip & 255)
            for column in range(most):
                set_quad(scratch + 2 * VECTORS * size + column * 4, 0)
            for half in range(2):
                _fill(first_rows + half * p.tile_size, p.tile_rows * p.pitch, padding)
        while tile < p.tiles:
            unit, last = p.units * tile // p.tiles, p.units * (tile + 1) // p.tiles
            split, rest = unit % p.row_splits, unit // p.row_splits
            filter_number, plane = rest % p.filters, rest // p.filters
            group, image = plane % p.groups, plane // p.groups
            while unit < last:
                number = (image * p.groups + group) * p.row_splits + split
                if held != number:
                    _gather(p, image, group, split, padding, fills, first_rows + number % 2 * p.tile_size)
                held = number
                of_split, of_filter, of_group, of_image = split, filter_number, group, image
                unit, split = unit + 1, split + 1
                if split == p.row_splits:
                    split, filter_number = 0, filter_number + 1
                    if filter_number == p.filters:
                        filter_number, group = 0, group + 1
                        if group == p.groups:
                            group, image = 0, image + 1
                # What follows is copied ahead: vectors are loaded late enough after their bytes were stored.
                if unit < last and (image * p.groups + group) * p.row_splits + split == number + 1:
                    _gather(p, image, group, split, padding, fills, first_rows + (number + 1) % 2 * p.tile_size)
                    held = number + 1
                channel = of_group * p.filters + of_filter
                output = p.output + of_image * p.output_image + channel * p.output_channel
                multiply_plane(p, first_rows + number % 2 * p.tile_size, scratch, of_split * p.rows, channel, output)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return convolve
