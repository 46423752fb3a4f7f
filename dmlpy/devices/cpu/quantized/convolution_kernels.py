"""The compiled convolutions of bytes: with quads of channels, and, where groups have one input channel, with quads of taps.

What a vector of positions reads in a row lies side by side, so one load and one rearrangement of bytes give the quads of taps of all of
them.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import allocated, called, intrinsic, jit, unpacked
from dmlpy.devices.cpu.memory_kernels import byte_at, set_byte, set_word, word_at
from dmlpy.devices.cpu.quantized.byte_move_kernels import valid_positions, write_valid
from dmlpy.devices.cpu.quantized.byte_product_kernels import (
    all_of,
    byte_sums,
    copy_bytes,
    dot,
    integers,
    quad_of_padding,
    quad_product,
    repeated_quad,
    row_interleaving,
    store,
)
from dmlpy.devices.cpu.quantized.products import Output
from dmlpy.devices.cpu.quantized.result_kernels import (
    ROW_SIZE,
    FilterResults,
    filter_results,
    first_term,
    quantized_product,
    row_terms_at,
    row_writer,
    run_writer,
)
from dmlpy.devices.cpu.quantized.tiling import (
    DEPTHWISE_VECTORS,
    ByteConvolutionParameters,
    DepthwiseByteParameters,
)
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, each_count, integer_at
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.quantized.products import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_interleave = row_interleaving()


@jit
def _fill_quads(target: Any, count: Any, quad: Any) -> None:
    for at in range(count):
        set_word(target + at * 4, quad)


@jit
def _copy_row(p: ByteConvolutionParameters, source: Any, rows: Any, first: Any, width: Any, padding: Any, target: Any) -> None:
    """Copies a row of a subplane: columns `first`, and every `stride_x`th after it, of 1 to 4 channels; `width` columns exist."""
    step = p.stride_x
    before = min(p.pitch, max(0, (-first + step - 1) // step))
    end = max(before, min(p.pitch, (width - first + step - 1) // step))
    _fill_quads(target, before, padding)
    if end > before:
        begin = source + (first + before * step) * p.input_element
        _interleave(begin, p.input_channel, rows, step * p.input_element, end - before, p.input_flip, target + before * 4)
    _fill_quads(target + end * 4, p.pitch - end, padding)


@jit
def _gather_quads(p: ByteConvolutionParameters, source: Any, first_row: Any, padding: Any, target: Any) -> None:
    """Copies the input tile of the rows of positions from `first_row` on."""
    for quad in range(p.quads):
        channels, rows = source + quad * 4 * p.input_channel, min(4, p.channels - quad * 4)
        to, around = target + quad * p.plane, padding & (1 << 8 * rows) - 1  # missing channels add nothing to sums of bytes
        for lower in range(p.stride_y):
            for number in range(p.subplanes):
                right = number * p.subplane_step
                for row in range(p.subplane_rows):
                    y = (first_row + row + row // p.run_rows * p.left_out_rows) * p.stride_y + lower - p.pad_y
                    if 0 <= y < p.height:
                        # The last row of an image that is divided into rows of positions may be shorter.
                        columns = min(p.width, p.positions - y * p.width) if p.positions != 0 else p.width
                        _copy_row(p, channels + y * p.input_row, rows, right - p.pad_x, columns, around, to)
                    else:
                        _fill_quads(to, p.pitch, around)
                    to += p.pitch * 4


@jit
def _gather_position(p: ByteConvolutionParameters, source: Any, target: Any) -> None:
    """Copies the quads of an image of one position, whose channels lie side by side."""
    flip, plane, whole = p.input_flip, p.plane, p.channels // 4
    for quad in range(whole):
        set_word(target + quad * plane, word_at(source + quad * 4) ^ flip)
    for channel in range(whole * 4, p.quads * 4):
        byte = byte_at(source + channel) ^ (flip & 255) if channel < p.channels else 0
        set_byte(target + whole * plane + channel % 4, byte)


def _part_product(output: Output, looks_up: bool, isa: ByteIsa) -> Any:
    """The kernel `multiply_part` of `build_convolution`."""
    (block, vectors), lanes, size = isa.block, isa.lanes, isa.lanes * 4
    width, element = vectors * lanes, 1 if output is Output.BYTES else 4
    multiply, add = quad_product(block, vectors, True, isa), byte_sums(vectors, isa)
    quantize = quantized_product(block, vectors, looks_up, isa)
    finish, write_rows, is_quantized = filter_results(output, looks_up, isa), row_writer(output), output is Output.BYTES
    moves_bytes = isa.moves_bytes and is_quantized

    @jit
    def multiply_part(p: ByteConvolutionParameters, scratch: Any, part: Any, position: Any, filters: Any, weights: Any, y: Any) -> None:
        """Computes some vectors of positions, from a position on, of a block's filters, given the first and how many there are.

        `part` has how many vectors and how many of their positions there are.
        """
        count, useful = part
        results, bytes_of = scratch + block * width * 4, scratch + (block + 1) * width * 4
        source, column = scratch + p.input_tile + position * 4, position % p.pitch
        of_row, uses_second = y + position // p.pitch * p.output_row, integer_at(p.uses_second) != 0
        in_row, is_packed = column + useful <= p.out_width, p.output_element == element
        # All vectors are in one row, and are written whole.
        is_whole, valid = useful == count * lanes and in_row and is_packed, -1
        # Results of positions that there are follow each other.
        follow = moves_bytes and is_packed and (in_row or p.output_row == p.out_width)
        if follow:
            valid = valid_positions(column, useful, p.pitch, p.out_width)
        offset = min(column, p.out_width) * element
        first_terms, left = p.row_terms + filters[0] * ROW_SIZE, -1
        if is_quantized and (is_whole or follow) and not uses_second:
            part_arguments = filters[1], first_terms, p.low, p.high, of_row + offset, p.output_channel, valid
            left = quantize(count, p.quads, p.plane, p.taps, p.offsets, source, weights, scratch, part_arguments)
        else:
            multiply(count, p.quads, p.plane, p.taps, p.offsets, source, weights, 0, scratch)
        if uses_second:
            add(count, p.quads, p.plane, p.taps, p.offsets, source, bytes_of)
        columns = p.column_first, bytes_of if uses_second else p.column_first, p.column_factor, p.column_scale
        for each in range(filters[1] if left != 0 else 0):
            if left >> each & 1:
                row_terms, to = first_terms + each * ROW_SIZE, of_row + each * p.output_channel
                place = to + offset if is_whole else results
                finish(p, row_terms, row_terms_at(row_terms).second, scratch + each * vectors * size, columns, count, 0, place)
                if not is_whole:
                    if follow:
                        write_valid(results, to + offset, valid)
                    else:
                        write_rows(p, results, to, column, useful)

    return multiply_part


def build_convolution(output: Output, looks_up: bool, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of a convolution, to be compiled.

    Args:
        output: what becomes of the sums.
        looks_up: whether results are looked up in tables.
        isa: the instruction set that it is compiled for.
    """
    (block, vectors), lanes, multiply_part = isa.block, isa.lanes, _part_product(output, looks_up, isa)
    width, factor_bytes = vectors * lanes, isa.factor_bytes

    @jit
    def begin(p: ByteConvolutionParameters, thread: Any) -> Any:
        """Returns the thread's scratch, a quad of padding, and that no input tile is in the scratch."""
        sums = own_scratch(p, thread)
        for column in range(width):
            set_word(sums + ((block + 1) * width + column) * 4, 0)
        return sums, quad_of_padding(p), -1

    @jit
    def convolve(p: ByteConvolutionParameters, tile: Any, state: Any) -> Any:
        scratch, padding, gathered = state
        filter_split, image_tile = tile % p.filter_splits, tile // p.filter_splits
        first_row, rest = image_tile % p.row_splits * p.rows, image_tile // p.row_splits
        group, image, rows = rest % p.groups, rest // p.groups, min(p.rows, p.out_height - first_row)
        if gathered != image_tile:
            source = p.input + image * p.input_image + group * p.channels * p.input_channel
            if p.positions == 1 and p.input_channel == 1:
                _gather_position(p, source, scratch + p.input_tile)
            else:
                _gather_quads(p, source, first_row, padding, scratch + p.input_tile)
        positions = (rows - 1) * p.pitch + p.out_width
        if p.positions != 0:
            positions = min(positions, p.positions - first_row * p.out_width)
        total = (positions + lanes - 1) // lanes
        parts, block_size = (total + vectors - 1) // vectors, p.quads * p.taps * block * factor_bytes
        for number in range(p.blocks * filter_split // p.filter_splits, p.blocks * (filter_split + 1) // p.filter_splits):
            weights = p.weights + (group * p.blocks + number) * block_size
            filters = group * p.filters + number * block, min(block, p.filters - number * block)
            y = p.output + image * p.output_image + filters[0] * p.output_channel + first_row * p.output_row
            for part in range(parts):
                begin_of = total * part // parts
                count = total * (part + 1) // parts - begin_of
                # The last vectors overlap those before them, so that they are whole.
                position = min(begin_of * lanes, max(0, positions - count * lanes))
                multiply_part(p, scratch, (count, min(count * lanes, positions - position)), position, filters, weights, y)
        return scratch, padding, image_tile

    return share_tiles(ByteConvolutionParameters, convolve, begin)


def _finish_sums(builder: Any, quantized: bool, looks_up: bool, isa: ByteIsa, sums: Any, results: Any) -> tuple[Any, Any, Any]:
    """The first value of a filter's sums, the function that generates the code behind them, and a variable: whether results may be wrong.

    Args:
        builder: where the code is appended.
        quantized: whether results are written, else sums.
        looks_up: whether results are looked up in the filter's table.
        isa: the instruction set.
        sums: the address of the sums; with results, they are stored there if some may be wrong.
        results: the code's tuple of the address of `RowTerms`, whose second term is 0, both limits and the target.
    """
    unsure = allocated(builder, ADDRESS)
    builder.store(ADDRESS(0), unsure)
    row, low, high, target = unpacked(builder, results)

    def finish(totals: list[Any]) -> None:
        if quantized:
            of_filter = FilterResults(builder, isa, row, (low, high), looks_up=looks_up)
            unsure_lanes = of_filter.write(builder, totals, sums, partial(store, builder, address=target))
            builder.store(builder.zext(unsure_lanes, ADDRESS), unsure)
            return
        for vector, total in enumerate(totals):
            store(builder, total, builder.add(sums, ADDRESS(vector * isa.lanes * 4)))

    return first_term(builder, isa, row) if quantized else all_of(isa, 0), finish, unsure


@cache
def row_window_product(stride: int, quantized: bool, looks_up: bool, isa: ByteIsa) -> Any:
    """The kernel `multiply(count, source, row, rows, quads, weights, sums, results)`, for 1 to `DEPTHWISE_VECTORS` vectors of positions.

    It sums the products of the taps of `rows` rows, `row` bytes apart from `source` on, each of `quads` quads.

    Args:
        stride: bytes from a position to the next.
        quantized: whether results are written (see `_finish_sums`), not sums.
        looks_up: whether results are looked up in the filter's table.
        isa: the instruction set that it is compiled for.
    """
    lanes, size = isa.lanes, isa.lanes * 4
    # No more than is needed: fewer loads cross the lines of the cache.
    read = ir.VectorType(ir.IntType(8), 1 << ((lanes - 1) * stride + 3).bit_length())
    chosen = ir.Constant(ir.VectorType(INDEX, size), [lane * stride + tap for lane in range(lanes) for tap in range(4)])

    @intrinsic
    def multiply(count: Any, source: Any, row: Any, rows: Any, quads: Any, weights: Any, sums: Any, results: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            count, source, row, rows, quads, weights, sums, results = arguments
            first, finish, unsure = _finish_sums(builder, quantized, looks_up, isa, sums, results)
            for number in each_count(builder, count, DEPTHWISE_VECTORS):
                of_rows = Loop(builder, [ADDRESS(0), source, weights, *[first] * number])
                done, row_at, weight, *totals = of_rows.values
                of_quads = Loop(builder, [ADDRESS(0), row_at, weight, *totals])
                quad, at, factor, *totals = of_quads.values
                signed = repeated_quad(builder, isa, factor)
                added = []
                for vector, total in enumerate(totals):
                    place = builder.inttoptr(builder.add(at, ADDRESS(vector * lanes * stride)), read.as_pointer())
                    loaded = builder.load(place, align=1)
                    windows = builder.bitcast(builder.shuffle_vector(loaded, loaded, chosen), integers(isa))
                    added.append(dot(builder, isa, total, windows, signed))
                next_quad, next_factor = builder.add(quad, ADDRESS(1)), builder.add(factor, ADDRESS(4))
                more = builder.icmp_signed("<", next_quad, quads)
                of_quads.repeat_while(more, [next_quad, builder.add(at, ADDRESS(4)), next_factor, *added])
                next_row = builder.add(done, ADDRESS(1))
                more = builder.icmp_signed("<", next_row, rows)
                of_rows.repeat_while(more, [next_row, builder.add(row_at, row), next_factor, *added])
                finish(added)
            return builder.load(unsure)

        return types.int64(*[types.int64] * 7, types.UniTuple(types.int64, 4)), generate

    return multiply


@jit
def _fill_bytes(target: Any, count: Any, value: Any) -> None:
    for at in range(0, count // 4 * 4, 4):
        set_word(target + at, value * 0x01010101)
    for at in range(count // 4 * 4, count):
        set_byte(target + at, value)


@jit
def _copy_rows(p: DepthwiseByteParameters, source: Any, first_row: Any, target: Any) -> None:
    """Copies the rows that the windows of a tile read, as unsigned bytes, into a tile that holds padding."""
    # Read once: LLVM cannot know that the stores below do not write the parameters.
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
def _gather_rows(p: DepthwiseByteParameters, image: Any, group: Any, split: Any, padding: Any, fills: Any, target: Any) -> None:
    """Copies the tile of some rows of positions of an image's channel; fills it with padding before if the last one had it elsewhere."""
    if fills:
        _fill_bytes(target, p.tile_rows * p.pitch, padding)
    _copy_rows(p, p.input + image * p.input_image + group * p.input_channel, split * p.rows, target)


def _plane_product(output: Output, stride: int, looks_up: bool, isa: ByteIsa) -> Any:
    """The kernel `multiply_plane` of `build_depthwise`."""
    lanes, size = isa.lanes, isa.lanes * 4
    multiply, is_quantized = row_window_product(stride, False, False, isa), output is Output.BYTES
    finish = filter_results(output, looks_up, isa)
    quantize: Any = row_window_product(stride, True, looks_up, isa) if is_quantized else None
    nothing = (0, 0, 0, 0)
    write, write_rows, element = run_writer(output), row_writer(output), 1 if output is Output.BYTES else 4
    most = DEPTHWISE_VECTORS * lanes

    @jit
    def multiply_plane(p: DepthwiseByteParameters, rows_of_tile: Any, scratch: Any, first_row: Any, channel: Any, output: Any) -> None:
        """Computes the rows of positions of a filter that a tile's rows of the image give."""
        sums, results, bytes_of = scratch, scratch + DEPTHWISE_VECTORS * size, scratch + 2 * DEPTHWISE_VECTORS * size
        weights = p.weights + channel * p.taps_y * p.quads * 4
        of_row = p.row_terms + channel * ROW_SIZE
        second, uses_second = row_terms_at(of_row).second, integer_at(p.uses_second) != 0
        columns = (p.column_first, bytes_of if uses_second else p.column_first, p.column_factor, p.column_scale)
        rows, run, low, high = min(p.rows, p.out_height - first_row), p.out_width, p.low, p.high
        steps, step = rows, p.stride_y * p.pitch
        if p.joins_rows != 0:  # rows of the tile follow each other as the positions of one
            run, steps = (rows - 1) * p.pitch + p.out_width, 1
        for row in range(steps):
            to, place = output + (first_row + row) * p.output_row, 0
            for column in range(0, run, most):
                useful = min(most, run - column)
                count, at = (useful + lanes - 1) // lanes, rows_of_tile + row * step + column * stride
                is_whole, unsure = useful == count * lanes and p.joins_rows == 0 and p.output_element == element, 1
                target = to + column * element if is_whole else results
                if is_quantized and not uses_second:
                    row_arguments = of_row, low, high, target
                    unsure = quantize(count, at, p.row_step, p.taps_y, p.quads, weights, sums, row_arguments)
                else:
                    multiply(count, at, p.row_step, p.taps_y, p.quads, weights, sums, nothing)
                if uses_second:
                    multiply(count, at, p.row_step, p.taps_y, p.quads, p.ones, bytes_of, nothing)
                if unsure != 0:
                    finish(p, of_row, second, sums, columns, count, 0, target)
                if p.joins_rows != 0:
                    place, to = write_rows(p, results, to, place, useful)
                elif not is_whole:
                    write(results, to + column * p.output_element, useful, p.output_element)

    return multiply_plane


def build_depthwise(output: Output, stride: int, looks_up: bool, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of a convolution, to be compiled.

    Args:
        output: what becomes of the sums.
        stride: columns from a position of the window to the next.
        looks_up: whether results are looked up in tables.
        isa: the instruction set that it is compiled for.
    """
    size, most, multiply_plane = isa.lanes * 4, DEPTHWISE_VECTORS * isa.lanes, _plane_product(output, stride, looks_up, isa)

    @jit
    def begin(p: DepthwiseByteParameters, thread: Any) -> Any:
        """Returns the thread's scratch, with padding in the rows of two images, and that it has rows of none."""
        scratch, padding = own_scratch(p, thread), quad_of_padding(p) & 255
        for column in range(most):
            set_word(scratch + 2 * DEPTHWISE_VECTORS * size + column * 4, 0)
        for half in range(2):
            _fill_bytes(scratch + 3 * DEPTHWISE_VECTORS * size + half * p.tile_size, p.tile_rows * p.pitch, padding)
        return scratch, padding, -1

    @jit
    def convolve(p: DepthwiseByteParameters, unit: Any, last: Any, state: Any) -> Any:
        """Computes some units; returns the number of the rows of an image that were copied last."""
        scratch, padding, copied = state
        first_rows, fills = scratch + 3 * DEPTHWISE_VECTORS * size, p.row_splits > 1  # whole images have padding at the same places
        split, rest = unit % p.row_splits, unit // p.row_splits
        filter_number, plane = rest % p.filters, rest // p.filters
        group, image = plane % p.groups, plane // p.groups
        while unit < last:
            number = (image * p.groups + group) * p.row_splits + split
            if copied != number:
                _gather_rows(p, image, group, split, padding, fills, first_rows + number % 2 * p.tile_size)
            copied = number
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
                _gather_rows(p, image, group, split, padding, fills, first_rows + (number + 1) % 2 * p.tile_size)
                copied = number + 1
            channel = of_group * p.filters + of_filter
            output = p.output + of_image * p.output_image + channel * p.output_channel
            multiply_plane(p, first_rows + number % 2 * p.tile_size, scratch, of_split * p.rows, channel, output)
        return copied

    @jit
    def run(p: DepthwiseByteParameters, tile: Any, state: Any) -> Any:
        copied = convolve(p, p.units * tile // p.tiles, p.units * (tile + 1) // p.tiles, state)
        return state[0], state[1], copied

    return share_tiles(DepthwiseByteParameters, run, begin)
