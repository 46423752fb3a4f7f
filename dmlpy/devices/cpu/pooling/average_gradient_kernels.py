"""The compiled gradient of average pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, spread_writer
from dmlpy.devices.cpu.pooling.average_gradient_plan import AverageGradientParameters
from dmlpy.devices.cpu.simd import copy_float, float_at, set_float, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_ZERO = np.float32(0.0)


def build_average_gradient(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the gradient, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, lanes, write = simd_of(isa), isa.lanes, spread_writer(stored, isa)
    load, store, add, all_of = simd.load, simd.store, simd.add, simd.all_of
    divide_row, spread_windows, spread_taps = _divided_row(stored, isa), _spread_windows(isa), _spread_taps(isa)

    @jit
    def spread_plane(p: AverageGradientParameters, pooled: Any, scratch: Any) -> None:
        """Writes the lines of a plane: each row of positions, spread over the columns of its windows."""
        for z in range(p.out_depth):
            for y in range(p.out_height):
                divisor = float_at(p.slice_counts + z * FLOAT_BYTES) * float_at(p.row_counts + y * FLOAT_BYTES)
                line = scratch + p.lines + (z * p.out_height + y) * p.pitch * FLOAT_BYTES
                divide_row(p, pooled + z * p.pooled_slice + y * p.pooled_row, divisor, line if p.has_columns_alone != 0 else scratch)
                if p.has_columns_alone != 0:
                    continue
                if p.spreads_windows != 0:
                    spread_windows(p, scratch, line)
                else:
                    spread_taps(p, scratch, scratch + p.spaced, line)

    @jit
    def sum_lines(p: AverageGradientParameters, lines: Any, slices: Any, first: Any, last: Any, target: Any, scratch: Any) -> None:
        """Writes a row of the result: the sum of the lines of some slices whose windows have it."""
        row = p.pitch * FLOAT_BYTES
        slice_size = p.out_height * row
        for column in range(0, p.width, lanes):
            total, at = all_of(_ZERO), lines + column * FLOAT_BYTES
            for _ in range(slices):
                for line in range(at + first * row, at + last * row, row):
                    total = add(total, load(line))
                at += slice_size
            write(target + column * p.input_element, total, p.width - column, p.input_element, scratch)

    @jit
    def sum_plane(p: AverageGradientParameters, lines: Any, target: Any, scratch: Any) -> None:
        """Writes a plane of the result. The positions whose windows have an element follow from those of the element before."""
        first_z, last_z = 0, 0
        for z in range(p.depth):
            first_z, last_z = following(z + p.pad_z, p.window_z, p.stride_z, p.out_depth, first_z, last_z)
            first_y, last_y = 0, 0
            begin = lines + first_z * p.out_height * p.pitch * FLOAT_BYTES
            for y in range(p.height):
                first_y, last_y = following(y + p.pad_y, p.window_y, p.stride_y, p.out_height, first_y, last_y)
                to = target + z * p.input_slice + y * p.input_row
                sum_lines(p, begin, last_z - first_z, first_y, last_y, to, scratch)

    @jit
    def run(p: AverageGradientParameters, first: Any, last: Any, scratch: Any) -> None:
        for at in range(0, p.spaced_size, lanes):
            store(scratch + p.spaced + at * FLOAT_BYTES, all_of(_ZERO))
        for plane in range(first, last):
            image, channel = plane // p.channels, plane % p.channels
            spread_plane(p, p.pooled + image * p.pooled_image + channel * p.pooled_channel, scratch)
            sum_plane(p, scratch + p.lines, p.input + image * p.input_image + channel * p.input_channel, scratch)

    return share_units(AverageGradientParameters, run, own_scratch)


@jit
def following(place: Any, window: Any, stride: Any, positions: Any, first: Any, last: Any) -> Any:
    """The first position whose window has an element, and the one behind the last, from those of an element before.

    `place` counts from the start of the padding. There is no division, which takes longer than a short row.
    """
    while last < positions and last * stride <= place:
        last += 1
    while first < last and first * stride + window <= place:
        first += 1
    return first, last


def _divided_row(stored: Storage, isa: Isa) -> Any:
    """The kernel `divide_row(p, source, divisor, shares)`: divides each incoming element of a row by the divisor of its window."""
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, one, size = load_store.load, load_store.load_one, load_store.size
    load, store, divide, multiply, all_of = simd.load, simd.store, simd.divide, simd.multiply, simd.all_of

    @jit
    def divide_row(p: AverageGradientParameters, source: Any, divisor: Any, shares: Any) -> None:
        if p.pooled_element == size:
            for x in range(0, p.out_width, lanes):
                counts = multiply(all_of(divisor), load(p.column_counts + x * FLOAT_BYTES))
                store(shares + x * FLOAT_BYTES, divide(read(source + x * size, p.out_width - x), counts))
        else:
            for x in range(p.out_width):
                count = divisor * float_at(p.column_counts + x * FLOAT_BYTES)
                set_float(shares + x * FLOAT_BYTES, one(source + x * p.pooled_element) / count)

    return divide_row


def _spread_windows(isa: Isa) -> Any:
    """The kernel `spread(p, shares, line)`: adds each share of a row to all columns of its window, in vectors of these."""
    simd, floats, lanes = simd_of(isa), load_store_of("float32", isa), isa.lanes
    store, add, all_of, read, write = simd.store, simd.add, simd.all_of, floats.load, floats.store

    @jit
    def spread(p: AverageGradientParameters, shares: Any, line: Any) -> None:
        for column in range(0, p.pitch, lanes):
            store(line + column * FLOAT_BYTES, all_of(_ZERO))
        for x in range(p.out_width):
            left, share = x * p.stride_x - p.pad_x, all_of(float_at(shares + x * FLOAT_BYTES))
            low, high = max(0, left), min(p.width, left + p.window_x)
            for column in range(low, high, lanes):
                at = line + column * FLOAT_BYTES
                write(at, add(read(at, high - column), share), high - column)

    return spread


def _spread_taps(isa: Isa) -> Any:
    """The kernel `spread(p, shares, spaced, line)`: adds up the shares of a row whose windows have a column, for vectors of columns.

    `spaced` is a row of zeros, before each of which, and behind, there are those of a window.
    """
    simd, floats, lanes = simd_of(isa), load_store_of("float32", isa), isa.lanes
    load, store, add, read, write = simd.load, simd.store, simd.add, floats.load, floats.store

    @jit
    def spread(p: AverageGradientParameters, shares: Any, spaced: Any, line: Any) -> None:
        first = spaced + (p.window_x - 1) * FLOAT_BYTES
        if p.stride_x == 1:
            for x in range(0, p.out_width, lanes):
                write(first + x * FLOAT_BYTES, read(shares + x * FLOAT_BYTES, p.out_width - x), p.out_width - x)
        else:
            for x in range(p.out_width):
                copy_float(first + x * p.stride_x * FLOAT_BYTES, shares + x * FLOAT_BYTES)
        for column in range(0, p.width, lanes):
            at = spaced + (column + p.pad_x) * FLOAT_BYTES
            total = load(at)
            for tap in range(1, p.window_x):
                total = add(total, load(at + tap * FLOAT_BYTES))
            store(line + column * FLOAT_BYTES, total)

    return spread
