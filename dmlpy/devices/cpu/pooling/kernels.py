"""The compiled poolings: max and average, and of regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.convolution.gather_kernels import input_tile_gather
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.lane_kernels import horizontal_maximum_or_nan, horizontal_sum, lane_selector, maximum_of
from dmlpy.devices.cpu.load_store import load_store_of, spread_writer
from dmlpy.devices.cpu.memory_kernels import long_at, set_long, word_at
from dmlpy.devices.cpu.pooling.plan import PoolingParameters
from dmlpy.devices.cpu.pooling.region_plan import SAMPLE_BYTES, RegionParameters
from dmlpy.devices.cpu.simd import INDEX, float_at, integer_at, maximum, set_float, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


_WORD_BYTES, _WORD = 4, 0xFFFFFFFF
_LOWEST, _ZERO, _ONE = np.float32(-np.inf), np.float32(0.0), np.float32(1.0)
_FARTHEST = float(1 << 31)
"""Coordinates beyond it lie outside every image."""
_OUTSIDE = -1
_CHAINS = 4
"""Vectors of a window's row that are combined with others than each other: an addition takes as many cycles."""
_BLOCK = 64
"""Vectors that are summed one after the other; the sums of blocks are summed in turn, so that roundings do not add up."""


def build_pooling(kind: Literal["max", "average"], stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a pooling, to be compiled.

    Args:
        kind: the reduction of a window's elements.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    averages = kind == "average"
    within, all_of = within_window(averages, itself, stored, isa), simd_of(isa).all_of
    combine_lanes = horizontal_sum(isa) if averages else horizontal_maximum_or_nan(isa)

    @jit
    def pool_window(p: PoolingParameters, source: Any, y: Any, x: Any) -> Any:
        value = combine_lanes(within(p, source, y, x, all_of(_ONE)))
        if averages:
            value /= float_at(p.row_counts + y * FLOAT_BYTES) * float_at(p.column_counts + x * FLOAT_BYTES)
        return value

    return pooling_of(_positions(averages, isa), pool_window, _planes(averages, stored, isa), stored, isa)


def pooling_of(pool_vector: Any, pool_window: Any, pool_planes: Any, stored: Storage, isa: Isa) -> TaskBody:
    """A thread's part of a pooling.

    Args:
        pool_vector: pool_vector(p, at, y, x, left) is the result of a vector of positions of a row, from the tile's elements at `at` on;
            `left` is the number of positions in the rest of the row.
        pool_window: pool_window(p, source, y, x) is that of a position, whose window's rows are contiguous in memory.
        pool_planes: pool_planes(p, source, output, count, scratch) pools planes of a single window each, up to the lanes of a vector.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    gather, set_one, lanes = input_tile_gather(stored, isa), load_store_of(stored, isa).store_one, isa.lanes
    write = spread_writer(stored, isa)

    @jit
    def pool_positions(p: PoolingParameters, input_tile: Any, output: Any, first_row: Any, rows: Any, vector: Any) -> None:
        for row in range(rows):
            begin = input_tile + row * p.pitch * FLOAT_BYTES
            for column in range(0, p.out_width, lanes):
                left = p.out_width - column
                value = pool_vector(p, begin + column * FLOAT_BYTES, first_row + row, column, left)
                write(output + row * p.output_row + column * p.output_element, value, left, p.output_element, vector)

    @jit
    def pool(p: PoolingParameters, first: Any, last: Any, scratch: Any) -> None:
        joined = last if p.joins_planes != 0 else first
        for number in range(first, joined, lanes):
            source, output = p.input + number * p.input_channel, p.output + number * p.output_channel
            pool_planes(p, source, output, min(lanes, last - number), scratch)
        for number in range(joined, last):
            plane, row_split = number // p.row_splits, number % p.row_splits
            image, channel = plane // p.image_planes, plane % p.image_planes
            source = p.input + image * p.input_image + channel * p.input_channel
            output = p.output + image * p.output_image + channel * p.output_channel
            first_row = row_split * p.rows
            rows = min(p.rows, p.out_height - first_row)
            if p.within_window == 0:
                gather(p, scratch, source, 0, first_row)
                pool_positions(p, scratch, output + first_row * p.output_row, first_row, rows, scratch + p.plane)
            else:
                for y in range(first_row, first_row + rows):
                    for x in range(p.out_width):
                        set_one(output + y * p.output_row + x * p.output_element, pool_window(p, source, y, x))

    return share_units(PoolingParameters, pool, own_scratch)


@jit
def itself(p: PoolingParameters, value: Any, unit: Any) -> Any:
    """The term of an element that is the element."""
    return value


def reduced_taps(combine: Any, term: Any, isa: Isa) -> Any:
    """The kernel `reduce(p, at, unit)`: what the terms of all taps are combined to, for a vector of positions.

    Args:
        combine: the operation of two vectors.
        term: term(p, value, unit) is an element's term.
        isa: the instruction set that it is compiled for.
    """
    load = simd_of(isa).load

    @jit
    def reduce_block(p: PoolingParameters, at: Any, unit: Any, first: Any, last: Any) -> Any:
        value = term(p, load(at + integer_at(p.offsets + 8 * first)), unit)
        for tap in range(first + 1, last):
            value = combine(value, term(p, load(at + integer_at(p.offsets + 8 * tap)), unit))
        return value

    @jit
    def reduce_blocks(p: PoolingParameters, at: Any, unit: Any, first: Any, last: Any) -> Any:
        value = reduce_block(p, at, unit, first, min(last, first + _BLOCK))
        for tap in range(first + _BLOCK, last, _BLOCK):
            value = combine(value, reduce_block(p, at, unit, tap, min(last, tap + _BLOCK)))
        return value

    @jit
    def reduce(p: PoolingParameters, at: Any, unit: Any) -> Any:
        value = reduce_blocks(p, at, unit, 0, min(p.taps, _BLOCK * _BLOCK))
        for tap in range(_BLOCK * _BLOCK, p.taps, _BLOCK * _BLOCK):
            value = combine(value, reduce_blocks(p, at, unit, tap, min(p.taps, tap + _BLOCK * _BLOCK)))
        return value

    return reduce


def _positions(averages: bool, isa: Isa) -> Any:
    """The kernel of a vector of positions."""
    simd = simd_of(isa)
    load, all_of, multiply, divide = simd.load, simd.all_of, simd.multiply, simd.divide
    reduce = reduced_taps(simd.add if averages else maximum_of(isa), itself, isa)

    @jit
    def pool_vector(p: PoolingParameters, at: Any, y: Any, x: Any, left: Any) -> Any:
        value = reduce(p, at, all_of(_ONE))
        if averages:
            height = all_of(float_at(p.row_counts + y * FLOAT_BYTES))
            value = divide(value, multiply(height, load(p.column_counts + x * FLOAT_BYTES)))
        return value

    return pool_vector


def within_window(sums: bool, term: Any, stored: Storage, isa: Isa) -> Any:
    """The kernel `within(p, source, y, x, unit)`: a vector whose lanes are what the terms of some elements of a window are combined to.

    Args:
        sums: whether terms are added; else the largest is found.
        term: as that of `reduced_taps`; the term of 0 is 0.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, size, all_of, select_first = load_store.load, load_store.size, simd.all_of, lane_selector(isa)
    identity, combine = (_ZERO, simd.add) if sums else (_LOWEST, maximum_of(isa))
    turn = _CHAINS * lanes

    @jit
    def within(p: PoolingParameters, source: Any, y: Any, x: Any, unit: Any) -> Any:
        top, left = y * p.stride_y - p.pad_y, x * p.stride_x - p.pad_x
        low, high = max(0, left), min(p.width, left + p.window_x)
        whole = low + max(0, high - low) // turn * turn
        nothing = all_of(identity)
        first, second, third, fourth, total, vectors = nothing, nothing, nothing, nothing, nothing, 0
        for row in range(max(0, top), min(p.height, top + p.window_y)):
            begin = source + row * p.input_row
            for begin_of in range(low, whole, _BLOCK * turn):
                for column in range(begin_of, min(whole, begin_of + _BLOCK * turn), turn):
                    at = begin + column * size
                    first = combine(first, term(p, read(at, lanes), unit))
                    second = combine(second, term(p, read(at + lanes * size, lanes), unit))
                    third = combine(third, term(p, read(at + 2 * lanes * size, lanes), unit))
                    fourth = combine(fourth, term(p, read(at + 3 * lanes * size, lanes), unit))
                    vectors += 1
                if vectors >= _BLOCK:
                    total = combine(total, combine(combine(first, second), combine(third, fourth)))
                    first, second, third, fourth, vectors = nothing, nothing, nothing, nothing, 0
            for column in range(whole, high, lanes):
                value = term(p, read(begin + column * size, high - column), unit)
                first = combine(first, value if sums else select_first(high - column, value, nothing))
                vectors += 1
            if vectors >= _BLOCK:
                total = combine(total, combine(combine(first, second), combine(third, fourth)))
                first, second, third, fourth, vectors = nothing, nothing, nothing, nothing, 0
        return combine(total, combine(combine(first, second), combine(third, fourth)))

    return within


def _planes(averages: bool, stored: Storage, isa: Isa) -> Any:
    """The kernel of some planes, up to the lanes of a vector, of a single window each; they lie `input_channel` bytes apart."""
    simd, vector_size, write = simd_of(isa), isa.lanes * FLOAT_BYTES, spread_writer(stored, isa)
    within, combine_each = within_window(averages, itself, stored, isa), _combined_vectors(averages, isa)
    store, divide, all_of = simd.store, simd.divide, simd.all_of

    @jit
    def pool_planes(p: PoolingParameters, source: Any, output: Any, count: Any, scratch: Any) -> None:
        for plane in range(count):
            store(scratch + plane * vector_size, within(p, source + plane * p.input_channel, 0, 0, all_of(_ONE)))
        value = combine_each(scratch)
        if averages:
            value = divide(value, all_of(float_at(p.row_counts) * float_at(p.column_counts)))
        write(output, value, count, p.output_channel, scratch)

    return pool_planes


def _combined_vectors(averages: bool, isa: Isa) -> Any:
    """The intrinsic of a vector whose lane is the sum, or the largest, of the lanes of a vector of memory: the first one's of the first."""
    simd, lanes = simd_of(isa), isa.lanes
    evens, odds = (ir.Constant(ir.VectorType(INDEX, lanes), list(range(first, 2 * lanes, 2))) for first in (0, 1))

    @intrinsic
    def combined(address: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            vectors = [simd.value_of(builder, arguments[0], number * lanes * FLOAT_BYTES) for number in range(lanes)]
            while len(vectors) > 1:
                pairs = zip(vectors[::2], vectors[1::2], strict=True)
                halves = [[builder.shuffle_vector(x, y, chosen) for chosen in (evens, odds)] for x, y in pairs]
                vectors = [builder.fadd(*pair) if averages else maximum(builder, *pair) for pair in halves]
            return vectors[0]

        return simd.kind(types.int64), generate

    return combined


# Regions


def _for_each_region(run: Any) -> TaskBody:
    """Calls run(p, region, scratch) for each region."""

    @jit
    def pool(p: RegionParameters, first: Any, last: Any, scratch: Any) -> None:
        for region in range(first, last):
            run(p, region, scratch)

    return share_units(RegionParameters, pool, own_scratch)


@jit
def image_of(p: RegionParameters, region: Any) -> Any:
    """The number of a region's image."""
    image = word_at(p.batches + 4 * region) & _WORD if p.batch_bytes == _WORD_BYTES else long_at(p.batches + 8 * region)
    return p.images - 1 if image < 0 else min(image, p.images - 1)  # numbers are unsigned


@jit
def sample_count(p: RegionParameters, extent: Any, outputs: Any) -> Any:
    """Samples of an output element along an axis: one for each pixel, within the bounds."""
    pixels = abs(extent) / np.float64(outputs)
    if pixels != pixels:
        return p.least
    if pixels >= np.float64(p.most):
        return p.most
    whole = int(pixels)
    return min(max(whole + 1 if np.float64(whole) < pixels else whole, p.least), p.most)


@jit
def place_samples(p: RegionParameters, table: Any, start: Any, end: Any, per_output: Any, outputs: Any, size: Any, step: Any) -> Any:
    """Writes the samples along an axis, those outside of the image with `_OUTSIDE`; returns whether all are inside."""
    count, extent, all_inside, none = outputs * per_output, end - start, True, np.float64(0.0)
    shift, divisor = p.output_offset, np.float64(count)
    if p.aligned != 0:  # the only sample is in the middle
        shift, divisor = (np.float64(0.0) if count > 1 else np.float64(-0.5)), np.float64(max(count - 1, 1))
    for number in range(count):
        # The product comes first: of whole numbers it is exact, which the rounding to a nearest pixel needs.
        place, at = (np.float64(number) - shift) * extent / divisor + start - p.input_offset, table + number * SAMPLE_BYTES
        if place >= -1.0 and place <= np.float64(size):
            lower, share = 0, none
            if p.nearest != 0:
                lower = int(place - 0.5)
                if np.float64(lower) < place - 0.5:
                    lower += 1
                lower = min(max(lower, 0), size - 1)
            elif place > 0.0:
                lower = min(int(place), size - 1)
                share = place - np.float64(lower) if lower < size - 1 else none
            set_long(at, lower * step)
            set_long(at + 8, (min(lower + 1, size - 1) if p.nearest == 0 else lower) * step)
            set_float(at + 16, np.float32(share))
        else:
            all_inside = False
            set_long(at, _OUTSIDE)
    return all_inside


def _reduction_of_samples(stored: Storage, isa: Isa) -> Any:
    """The kernel `reduce(largest, outside, inside, source, row, rows, column, columns)` of an output element's samples."""
    one = load_store_of(stored, isa).load_one

    @jit
    def along(line: Any, column: Any) -> Any:
        left, share = one(line + long_at(column)), float_at(column + 16)
        return left if share == _ZERO else left * (_ONE - share) + one(line + long_at(column + 8)) * share

    @jit
    def sample(source: Any, row: Any, column: Any) -> Any:
        above, share = along(source + long_at(row), column), float_at(row + 16)
        return above if share == _ZERO else above * (_ONE - share) + along(source + long_at(row + 8), column) * share

    @jit
    def reduce(largest: Any, outside: Any, inside: Any, source: Any, row: Any, rows: Any, column: Any, columns: Any) -> Any:
        total, others = _LOWEST if largest != 0 else _ZERO, 0
        for y in range(rows):
            at, of_row = row + y * SAMPLE_BYTES, _ZERO
            for x in range(columns):
                place = column + x * SAMPLE_BYTES
                if not inside and (long_at(at) < 0 or long_at(place) < 0):
                    others += 1
                    continue
                value = sample(source, at, place)
                if largest == 0:
                    of_row += value
                elif value > total or value != value:
                    total = value
            if largest == 0:
                total += of_row
        if largest != 0:
            return outside if others > 0 and outside > total else total
        if others > 0:
            total += np.float32(others) * outside
        return total / np.float32(np.float64(rows) * np.float64(columns))

    return reduce


def build_samples(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of means or maxima of samples, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    load_store, reduce = load_store_of(stored, isa), _reduction_of_samples(stored, isa)
    one, set_one, size = load_store.load_one, load_store.store_one, load_store.size

    @jit
    def run(p: RegionParameters, region: Any, scratch: Any) -> None:
        at, largest, outside = p.corners + 4 * region * size, p.largest, p.outside
        left, right = np.float64(one(at)) * p.scale_x, np.float64(one(at + 2 * size)) * p.scale_x
        top, bottom = np.float64(one(at + size)) * p.scale_y, np.float64(one(at + 3 * size)) * p.scale_y
        rows, columns = sample_count(p, bottom - top, p.out_height), sample_count(p, right - left, p.out_width)
        table = scratch + p.row_samples
        inside = place_samples(p, scratch, top, bottom, rows, p.out_height, p.height, p.input_row)
        inside = place_samples(p, table, left, right, columns, p.out_width, p.width, p.input_element) and inside
        image, height, width, element = image_of(p, region), p.out_height, p.out_width, p.output_element
        for channel in range(p.channels):
            source = p.input + image * p.input_image + channel * p.input_channel
            output = p.output + region * p.output_region + channel * p.output_channel
            for y in range(height):
                row, to = scratch + y * rows * SAMPLE_BYTES, output + y * p.output_row
                for x in range(width):
                    value = reduce(largest, outside, inside, source, row, rows, table + x * columns * SAMPLE_BYTES, columns)
                    set_one(to + x * element, value)

    return _for_each_region(run)


@jit
def _whole(x: Any) -> Any:
    """The nearest integer, halves away from 0; NaN is 0."""
    near = np.float64(x)
    if near != near:
        return 0
    magnitude = min(abs(near), _FARTHEST)
    nearest = int(magnitude + 0.5)
    return -nearest if near < 0.0 else nearest


@jit
def _bounds(part: Any, first: Any, extent: Any, count: Any, size: Any) -> Any:
    """The first pixel of a part of a region along an axis and the one behind its last, within the image."""
    start, end = first + part * extent // count, first + ((part + 1) * extent + count - 1) // count
    return min(max(start, 0), size), min(max(end, 0), size)


def build_maxima(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of maxima of parts, to be compiled. The arguments are those of `build_samples`."""
    load_store, lanes = load_store_of(stored, isa), isa.lanes
    one, set_one, read, size = load_store.load_one, load_store.store_one, load_store.load, load_store.size
    fewest = lanes // 4 if stored == "float32" else 1  # columns of a part that vectors pay for; single halves take longer to load
    combine, combine_lanes, select_first, all_of = maximum_of(isa), horizontal_maximum_or_nan(isa), lane_selector(isa), simd_of(isa).all_of
    write = load_store.store

    @jit
    def largest_of_channels(
        source: Any, top: Any, bottom: Any, row: Any, left: Any, right: Any, element: Any, channels: Any, output: Any
    ) -> None:
        """Vectors of contiguous channels, from two columns at a time."""
        is_empty, even = top >= bottom or left >= right, left + (right - left) // 2 * 2
        for channel in range(0, channels, lanes):
            count, a, b = channels - channel, all_of(_ZERO if is_empty else _LOWEST), all_of(_ZERO if is_empty else _LOWEST)
            for y in range(top, bottom):
                at = source + y * row + channel * size
                for x in range(left, even, 2):
                    a, b = combine(a, read(at + x * element, count)), combine(b, read(at + (x + 1) * element, count))
                if even < right:
                    a = combine(a, read(at + even * element, count))
            write(output + channel * size, combine(a, b), count)

    @jit
    def largest(source: Any, top: Any, bottom: Any, row: Any, left: Any, right: Any, element: Any) -> Any:
        maximum = _LOWEST
        for y in range(top, bottom):
            for x in range(left, right):
                value = one(source + y * row + x * element)
                if value > maximum or value != value:
                    maximum = value
        return maximum

    @jit
    def largest_of_rows(source: Any, top: Any, bottom: Any, row: Any, left: Any, right: Any, end: Any) -> Any:
        """By vectors of columns; what they have more is not beyond the tensor's end, where a few lanes would take longer to load."""
        nothing = all_of(_LOWEST)
        maxima = nothing
        for y in range(top, bottom):
            for x in range(left, right, lanes):
                at = source + y * row + x * size
                value = read(at, lanes if at + lanes * size <= end else right - x)
                maxima = combine(maxima, select_first(right - x, value, nothing))
        return combine_lanes(maxima)

    @jit
    def run(p: RegionParameters, region: Any, scratch: Any) -> None:
        at, scale = p.corners + 5 * region * size, np.float32(p.scale_x)
        image = min(max(_whole(one(at)), 0), p.images - 1)
        left, top = _whole(one(at + size) * scale), _whole(one(at + 2 * size) * scale)
        across, down = max(_whole(one(at + 3 * size) * scale) - left + 1, 1), max(_whole(one(at + 4 * size) * scale) - top + 1, 1)
        for y in range(p.out_height):
            first_row, last_row = _bounds(y, top, down, p.out_height, p.height)
            for x in range(p.out_width):
                first, last = _bounds(x, left, across, p.out_width, p.width)
                source, row, element = p.input + image * p.input_image, p.input_row, p.input_element
                output = p.output + region * p.output_region + y * p.output_row + x * p.output_element
                to_channel, of_channel = p.output_channel, p.input_channel
                if to_channel == size and of_channel == size:
                    largest_of_channels(source, first_row, last_row, row, first, last, element, p.channels, output)
                for channel in range(0 if to_channel == size and of_channel == size else p.channels):
                    plane, value = source + channel * of_channel, _ZERO
                    if first_row < last_row and first < last:
                        if element == size and last - first >= fewest:
                            value = largest_of_rows(plane, first_row, last_row, row, first, last, p.input_end)
                        else:
                            value = largest(plane, first_row, last_row, row, first, last, element)
                    set_one(output + channel * to_channel, value)

    return _for_each_region(run)
