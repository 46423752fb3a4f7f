"""The compiled poolings of regions: means or maxima of samples, and maxima of all pixels of the parts of a region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.movement.kernels import long_at, set_long, word_at
from dmlpy.devices.cpu.pooling.region_plan import SAMPLE_BYTES, RegionParameters
from dmlpy.devices.cpu.simd import float_at, set_float
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.thread_pool import TaskBody

_WORD_BYTES, _WORD = 4, 0xFFFFFFFF
_LOWEST, _ZERO, _ONE = np.float32(-np.inf), np.float32(0.0), np.float32(1.0)
_FARTHEST = float(1 << 31)
"""Coordinates beyond it lie outside every image."""
_OUTSIDE = -1


def _for_each_region(run: Any) -> TaskBody:
    """Calls run(p, region, scratch) for each region."""

    @jit
    def pool(p: RegionParameters, first: Any, last: Any, scratch: Any) -> None:
        for region in range(first, last):
            run(p, region, scratch)

    return share_units(RegionParameters, pool, own_scratch)


@jit
def _sample_count(p: RegionParameters, extent: Any, outputs: Any) -> Any:
    """Samples of an output element along an axis: one for each pixel, within the bounds."""
    pixels = abs(extent) / np.float64(outputs)
    if pixels != pixels:
        return p.least
    if pixels >= np.float64(p.most):
        return p.most
    whole = int(pixels)
    return min(max(whole + 1 if np.float64(whole) < pixels else whole, p.least), p.most)


@jit
def _place_samples(p: RegionParameters, table: Any, start: Any, end: Any, per_output: Any, outputs: Any, size: Any, step: Any) -> Any:
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


def build_samples(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of means or maxima of samples, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    load_store = load_store_of(stored, isa)
    one, set_one, size = load_store.load_one, load_store.store_one, load_store.size

    @jit
    def sample(source: Any, row: Any, column: Any) -> Any:
        left, right, across = long_at(column), long_at(column + 8), float_at(column + 16)
        upper, lower, down = source + long_at(row), source + long_at(row + 8), float_at(row + 16)
        above = one(upper + left) * (_ONE - across) + one(upper + right) * across
        below = one(lower + left) * (_ONE - across) + one(lower + right) * across
        return above * (_ONE - down) + below * down

    @jit
    def reduce(largest: Any, outside: Any, inside: Any, source: Any, row: Any, rows: Any, column: Any, columns: Any) -> Any:
        """Of an output element's samples."""
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

    @jit
    def run(p: RegionParameters, region: Any, scratch: Any) -> None:
        at, largest, outside = p.corners + 4 * region * size, p.largest, p.outside
        left, right = np.float64(one(at)) * p.scale_x, np.float64(one(at + 2 * size)) * p.scale_x
        top, bottom = np.float64(one(at + size)) * p.scale_y, np.float64(one(at + 3 * size)) * p.scale_y
        rows, columns = _sample_count(p, bottom - top, p.out_height), _sample_count(p, right - left, p.out_width)
        table = scratch + p.row_samples
        inside = _place_samples(p, scratch, top, bottom, rows, p.out_height, p.height, p.input_row)
        inside = _place_samples(p, table, left, right, columns, p.out_width, p.width, p.input_element) and inside
        image = word_at(p.batches + 4 * region) & _WORD if p.batch_bytes == _WORD_BYTES else long_at(p.batches + 8 * region)
        image = p.images - 1 if image < 0 else min(image, p.images - 1)  # numbers are unsigned
        height, width, element = p.out_height, p.out_width, p.output_element
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
    load_store = load_store_of(stored, isa)
    one, set_one, size = load_store.load_one, load_store.store_one, load_store.size

    @jit
    def largest(source: Any, top: Any, bottom: Any, row: Any, left: Any, right: Any, element: Any) -> Any:
        found = _LOWEST
        for y in range(top, bottom):
            for x in range(left, right):
                value = one(source + y * row + x * element)
                if value > found or value != value:
                    found = value
        return found if top < bottom and left < right else _ZERO

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
                for channel in range(p.channels):
                    value = largest(source + channel * of_channel, first_row, last_row, row, first, last, element)
                    set_one(output + channel * to_channel, value)

    return _for_each_region(run)
