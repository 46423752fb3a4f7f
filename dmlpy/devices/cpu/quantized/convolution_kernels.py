"""The compiled convolution of bytes: sums of products for vectors of positions, and the copy of an input tile that they read.

An input tile holds what the windows of some rows of positions read, with its padding: for each quad of channels a subplane for each pair of
y and x modulo the strides, in which what a tap reads for the positions of a row lies side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.quantized.byte_product_kernels import byte_at, byte_sums, quad_product, row_interleaving, set_quad
from dmlpy.devices.cpu.quantized.parameters import ByteConvolutionParameters, Output
from dmlpy.devices.cpu.quantized.result_kernels import ROW_SIZE, row_results, row_terms_at, row_writer
from dmlpy.devices.cpu.simd import integer_at, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.quantized.byte_isa import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_interleave = row_interleaving()


@jit
def _fill(target: Any, count: Any, quad: Any) -> None:
    for at in range(count):
        set_quad(target + at * 4, quad)


@jit
def _copy_row(p: ByteConvolutionParameters, source: Any, rows: Any, first: Any, width: Any, padding: Any, target: Any) -> None:
    """Copies a row of a subplane: columns `first`, and every `stride_x`th after it, of 1 to 4 channels; `width` columns exist."""
    step = p.stride_x
    before = min(p.pitch, max(0, (-first + step - 1) // step))
    end = max(before, min(p.pitch, (width - first + step - 1) // step))
    _fill(target, before, padding)
    if end > before:
        begin = source + (first + before * step) * p.input_element
        _interleave(begin, p.input_channel, rows, step * p.input_element, end - before, p.input_flip, target + before * 4)
    _fill(target + end * 4, p.pitch - end, padding)


@jit
def _gather(p: ByteConvolutionParameters, source: Any, first_row: Any, padding: Any, target: Any) -> None:
    """Copies the input tile of the rows of positions from `first_row` on."""
    for quad in range(p.quads):
        own, rows = source + quad * 4 * p.input_channel, min(4, p.channels - quad * 4)
        to, around = target + quad * p.plane, padding & (1 << 8 * rows) - 1  # missing channels add nothing to sums of bytes
        for lower in range(p.stride_y):
            for right in range(p.stride_x):
                for row in range(p.subplane_rows):
                    y = (first_row + row) * p.stride_y + lower - p.pad_y
                    if 0 <= y < p.height:
                        # The last row of an image that is divided into rows of positions may be shorter.
                        columns = min(p.width, p.positions - y * p.width) if p.positions != 0 else p.width
                        _copy_row(p, own + y * p.input_row, rows, right - p.pad_x, columns, around, to)
                    else:
                        _fill(to, p.pitch, around)
                    to += p.pitch * 4


def build_convolution(output: Output, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of a convolution, to be compiled.

    Args:
        output: what becomes of the sums.
        isa: the instruction set that it is compiled for.
    """
    block, vectors = isa.block
    width, size, lanes = vectors * isa.lanes, isa.lanes * 4, isa.lanes
    multiply, add, finish = quad_product(block, vectors, True, isa), byte_sums(vectors, isa), row_results(output, True, isa)
    write_rows, element = row_writer(output), 1 if output is Output.BYTES else 4
    parameters_at = struct_view(ByteConvolutionParameters)

    def convolve(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished, gathered = parameters_at(parameters), 0, -1
        sums = p.scratch + thread * p.scratch_size
        results, bytes_of = sums + block * width * 4, sums + (block + 1) * width * 4
        input_tile = sums + p.input_tile
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        padding = 0
        if tile < p.tiles:
            padding = (byte_at(p.input_zero) if p.input_zero != 0 else 0) ^ (p.input_flip & 255)
            padding *= 0x01010101
            for column in range(width):
                set_quad(bytes_of + column * 4, 0)
        while tile < p.tiles:
            filter_split, image_tile = tile % p.filter_splits, tile // p.filter_splits
            first_row, rest = image_tile % p.row_splits * p.rows, image_tile // p.row_splits
            group, image, rows = rest % p.groups, rest // p.groups, min(p.rows, p.out_height - first_row)
            if gathered != image_tile:
                gathered = image_tile
                _gather(p, p.input + image * p.input_image + group * p.channels * p.input_channel, first_row, padding, input_tile)
            y = p.output + image * p.output_image + group * p.filters * p.output_channel + first_row * p.output_row
            positions = (rows - 1) * p.pitch + p.out_width
            if p.positions != 0:
                positions = min(positions, p.positions - first_row * p.out_width)
            total = (positions + lanes - 1) // lanes
            parts = (total + vectors - 1) // vectors
            block_size = p.quads * p.taps * block * 4
            terms = p.column_first, p.column_second, p.column_factor, p.column_scale
            with_sums = p.column_first, bytes_of, p.column_factor, p.column_scale
            for number in range(p.blocks * filter_split // p.filter_splits, p.blocks * (filter_split + 1) // p.filter_splits):
                weights = p.weights + (group * p.blocks + number) * block_size
                filters = min(block, p.filters - number * block)
                for part in range(parts):
                    begin = total * part // parts
                    count = total * (part + 1) // parts - begin
                    # The last vectors overlap those before them, so that they are whole.
                    position = min(begin * lanes, max(0, positions - count * lanes))
                    source, count_here = input_tile + position * 4, min(count * lanes, positions - position)
                    of_row, column = y + position // p.pitch * p.output_row, position % p.pitch
                    # All vectors are in one row, and are written whole.
                    is_whole = count_here == count * lanes and column + count_here <= p.out_width and p.output_element == element
                    multiply(count, p.quads, p.plane, p.taps, p.offsets, source, weights, 0, sums)
                    uses_second = integer_at(p.uses_second) != 0
                    if uses_second:
                        add(count, p.quads, p.plane, p.taps, p.offsets, source, bytes_of)
                    for each in range(filters):
                        channel = number * block + each
                        row_terms = p.row_terms + (group * p.filters + channel) * ROW_SIZE
                        second = row_terms_at(row_terms).second
                        columns = with_sums if uses_second else terms
                        to = of_row + channel * p.output_channel
                        place = to + column * element if is_whole else results
                        finish(p, row_terms, second, sums + each * vectors * size, columns, count, 0, place)
                        if not is_whole:
                            write_rows(p, results, to, column, count_here)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return convolve
