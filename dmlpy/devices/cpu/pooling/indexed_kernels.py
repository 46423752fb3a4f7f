"""The compiled poolings with indices, and their gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.convolution.gather_kernels import input_tile_gather
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, spread_writer
from dmlpy.devices.cpu.memory_kernels import ordered_integer, set_index, word_at
from dmlpy.devices.cpu.pooling.plan import IndexedPoolingParameters, PoolingParameters
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, float_at, repeated_index, set_float, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


_LOWEST, _ZERO = np.float32(-np.inf), np.float32(0.0)


def _largest_of_slice(one: Any) -> Any:
    """The kernel `find(p, source, y, x, begin, largest, number)`: the largest element so far, and its number in the plane or -1.

    It continues with the elements of a slice, whose numbers begin with `begin`, in the window at a position. NaN counts as larger than any
    number; of equal elements it is the first.

    Args:
        one: the operation that loads an element.
    """

    @jit
    def find(p: IndexedPoolingParameters, source: Any, y: Any, x: Any, begin: Any, largest: Any, number: Any) -> Any:
        top, left = y * p.stride_y - p.pad_y, x * p.stride_x - p.pad_x
        first = (-left + p.dilation_x - 1) // p.dilation_x if left < 0 else 0
        last = min(p.window_x, (p.width - left + p.dilation_x - 1) // p.dilation_x)
        for tap_y in range(p.window_y):
            row = top + tap_y * p.dilation_y
            if 0 <= row < p.height and first < last:
                of_row, step = source + row * p.input_row + left * p.input_element, p.dilation_x * p.input_element
                numbers, tap_step = begin + row * p.width + left, p.dilation_x
                if number < 0:  # so that infinities and NaN have a number, too
                    largest, number = one(of_row + first * step), numbers + first * tap_step
                for tap_x in range(first, last):
                    value = one(of_row + tap_x * step)
                    # Without a branch, which would depend on the values.
                    is_larger = (value > largest) | ((value != value) & (largest == largest))
                    largest = value if is_larger else largest
                    number = numbers + tap_x * tap_step if is_larger else number
        return largest, number

    return find


def _largest_of_window(one: Any, lowest: Any) -> Any:
    """The kernel `find(p, source, z, y, x)`: the largest element of the window at a position, and its number in the plane or -1.

    Args:
        one: the operation that loads an element.
        lowest: what an empty window gives.
    """
    find_in_slice = _largest_of_slice(one)

    @jit
    def find(p: IndexedPoolingParameters, source: Any, z: Any, y: Any, x: Any) -> Any:
        largest, number = lowest, -1
        for tap_z in range(p.window_z):
            in_z = z * p.stride_z - p.pad_z + tap_z * p.dilation_z
            if 0 <= in_z < p.depth:
                largest, number = find_in_slice(p, source + in_z * p.input_slice, y, x, in_z * p.height * p.width, largest, number)
        return largest, number

    return find


def _largest_of_taps(isa: Isa) -> Any:
    """The intrinsic `find(at, offsets, numbers, taps, found)`: the largest of what the taps read for a vector of positions.

    Behind the largest elements it stores, in words, the first taps' numbers that have them, or -1 where nothing is above -infinity. NaN
    counts as larger than any number.
    """
    simd, words = simd_of(isa), ir.VectorType(INDEX, isa.lanes)

    @intrinsic
    def find(at: Any, offsets: Any, numbers: Any, taps: Any, results: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            at, offsets, numbers, taps, results = arguments

            def number_at(table: Any, tap: Any) -> Any:
                place = builder.add(table, builder.shl(tap, ADDRESS(3)))
                return builder.load(builder.inttoptr(place, ADDRESS.as_pointer()), align=8)

            loop = Loop(builder, [ADDRESS(0), simd.all(-np.inf), ir.Constant(words, [-1] * isa.lanes)])
            tap, largest, number = loop.values
            address = builder.add(at, number_at(offsets, tap))
            value = builder.load(builder.inttoptr(address, simd.llvm_type.as_pointer()), align=FLOAT_BYTES)
            index = repeated_index(builder, number_at(numbers, tap), isa.lanes)
            wins = builder.and_(builder.fcmp_unordered(">", value, largest), builder.fcmp_ordered("ord", largest, largest))
            largest, number = builder.select(wins, value, largest), builder.select(wins, index, number)
            following = builder.add(tap, ADDRESS(1))
            loop.repeat_while(builder.icmp_signed("<", following, taps), [following, largest, number])
            behind = builder.add(results, ADDRESS(isa.lanes * FLOAT_BYTES))
            for vector, place in ((largest, results), (number, behind)):
                builder.store(vector, builder.inttoptr(place, vector.type.as_pointer()), align=FLOAT_BYTES)

        return types.void(*[types.int64] * 5), generate

    return find


def build_indexed_positions(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a pooling with indices by vectors of positions, to be compiled.

    The arguments are those of `build_indexed_pooling`.
    """
    gather, find, lanes = input_tile_gather(stored, isa), _largest_of_taps(isa), isa.lanes
    find_one = _largest_of_slice(load_store_of(stored, isa).load_one)
    load, write, size = simd_of(isa).load, spread_writer(stored, isa), isa.lanes * FLOAT_BYTES

    @jit
    def pool_vector(p: PoolingParameters, at: Any, source: Any, plane: Any, y: Any, x: Any, output: Any, indices: Any, room: Any) -> None:
        results, left = room + 2 * size, min(lanes, p.out_width - x)
        find(at, p.offsets, p.numbers, p.taps, results)
        write(output + x * p.output_element, load(results), left, p.output_element, room)
        first = plane * p.height * p.width
        position = first + (y * p.stride_y - p.pad_y) * p.width + x * p.stride_x - p.pad_x
        for lane in range(left):
            number = word_at(results + size + lane * FLOAT_BYTES)
            index = position + lane * p.stride_x + number
            if number < 0:  # padding alone, or -infinity as padding is
                number = find_one(p, source, y, x + lane, 0, _LOWEST, -1)[1]
                index = first + number if number >= 0 else 0
            set_index(indices + (x + lane) * p.indices_element, index, p.index_bytes)

    @jit
    def pool(p: PoolingParameters, first: Any, last: Any, scratch: Any) -> None:
        for number in range(first, last):
            plane, row_split = number // p.row_splits, number % p.row_splits
            image, channel, first_row = plane // p.image_planes, plane % p.image_planes, row_split * p.rows
            source = p.input + image * p.input_image + channel * p.input_channel
            output = p.output + image * p.output_image + channel * p.output_channel
            indices = p.indices + image * p.indices_image + channel * p.indices_channel
            gather(p, scratch, source, 0, first_row)
            for row in range(min(p.rows, p.out_height - first_row)):
                y = first_row + row
                to, of_row, room = output + y * p.output_row, indices + y * p.indices_row, scratch + p.plane
                for x in range(0, p.out_width, lanes):
                    pool_vector(p, scratch + (row * p.pitch + x) * FLOAT_BYTES, source, plane, y, x, to, of_row, room)

    return share_units(PoolingParameters, pool, own_scratch)


def _for_each_plane(run: Any) -> TaskBody:
    """Calls run(p, plane, the address of its input, of its positions, and of its part of the other tensor, scratch) for each plane."""

    @jit
    def pool(p: IndexedPoolingParameters, first: Any, last: Any, scratch: Any) -> None:
        for plane in range(first, last):
            image, channel = plane // p.channels, plane % p.channels
            source = p.input + image * p.input_image + channel * p.input_channel
            pooled = p.pooled + image * p.pooled_image + channel * p.pooled_channel
            run(p, plane, source, pooled, p.other + image * p.other_image + channel * p.other_channel, scratch)

    return share_units(IndexedPoolingParameters, pool, own_scratch)


def build_indexed_pooling(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a pooling, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    load_store = load_store_of(stored, isa)
    return _windows_one_by_one(_largest_of_window(load_store.load_one, _LOWEST), load_store.store_one)


def build_indexed_integers(kind: str) -> TaskBody:
    """Builds a thread's part of a pooling of integers, to be compiled.

    Args:
        kind: NumPy's name of their type.
    """
    load_one, store_one, least = ordered_integer(np.dtype(kind))
    return _windows_one_by_one(_largest_of_window(load_one, least), store_one)


def _windows_one_by_one(find: Any, set_one: Any) -> TaskBody:
    """A thread's part of a pooling, with the kernel of `_largest_of_window` and the operation that stores an element."""

    @jit
    def pool_plane(p: IndexedPoolingParameters, plane: Any, source: Any, pooled: Any, indices: Any, scratch: Any) -> None:
        for z in range(p.out_depth):
            for y in range(p.out_height):
                for x in range(p.out_width):
                    value, number = find(p, source, z, y, x)
                    set_one(pooled + z * p.pooled_slice + y * p.pooled_row + x * p.pooled_element, value)
                    index = number + plane * p.depth * p.height * p.width if number >= 0 else 0
                    set_index(indices + z * p.other_slice + y * p.other_row + x * p.other_element, index, p.index_bytes)

    return _for_each_plane(pool_plane)


def build_pooling_gradient(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the gradient of a pooling, to be compiled. The arguments are those of `build_indexed_pooling`."""
    load_store = load_store_of(stored, isa)
    find, one, set_one = _largest_of_window(load_store.load_one, _LOWEST), load_store.load_one, load_store.store_one

    @jit
    def spread_plane(p: IndexedPoolingParameters, plane: Any, source: Any, pooled: Any, target: Any, sums: Any) -> None:
        for number in range(p.depth * p.height * p.width):
            set_float(sums + number * FLOAT_BYTES, _ZERO)
        for z in range(p.out_depth):
            for y in range(p.out_height):
                for x in range(p.out_width):
                    number = find(p, source, z, y, x)[1]
                    if number >= 0:
                        at = sums + number * FLOAT_BYTES
                        incoming = one(pooled + z * p.pooled_slice + y * p.pooled_row + x * p.pooled_element)
                        set_float(at, float_at(at) + incoming)
        for z in range(p.depth):
            for y in range(p.height):
                to, of_row = target + z * p.other_slice + y * p.other_row, sums + (z * p.height + y) * p.width * FLOAT_BYTES
                for x in range(p.width):
                    set_one(to + x * p.other_element, float_at(of_row + x * FLOAT_BYTES))

    return _for_each_plane(spread_plane)
