"""The compiled max pooling with indices, and the gradient of max pooling: the first largest element of one window after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.pooling.index_plan import IndexedPoolingParameters
from dmlpy.devices.cpu.simd import float_at, set_float
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_WORD_BYTES = 4
_LOWEST, _ZERO = np.float32(-np.inf), np.float32(0.0)


def _set_index(bits: int) -> Any:
    """The intrinsic `set_index(address, value)`, which stores the low bits of an index."""
    kind = ir.IntType(bits)

    @intrinsic
    def set_index(address: Any, value: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            address, value = arguments
            value = value if bits == value.type.width else builder.trunc(value, kind)
            builder.store(value, builder.inttoptr(address, kind.as_pointer()), align=bits // 8)

        return types.void(types.int64, types.int64), generate

    return set_index


def _largest_of_window(stored: Storage, isa: Isa) -> Any:
    """The kernel `find(p, source, y, x)`: the largest element of the window at a position, and its number in the plane or -1.

    NaN counts as larger than any number; of equal elements it is the first.
    """
    one = load_store_of(stored, isa).load_one

    @jit
    def find(p: IndexedPoolingParameters, source: Any, y: Any, x: Any) -> Any:
        top, left = y * p.stride_y - p.pad_y, x * p.stride_x - p.pad_x
        first = (-left + p.dilation_x - 1) // p.dilation_x if left < 0 else 0
        last = min(p.window_x, (p.width - left + p.dilation_x - 1) // p.dilation_x)
        largest, number = _LOWEST, -1
        for tap_y in range(p.window_y):
            row = top + tap_y * p.dilation_y
            if 0 <= row < p.height and first < last:
                of_row, step = source + row * p.input_row + left * p.input_element, p.dilation_x * p.input_element
                numbers, tap_step = row * p.width + left, p.dilation_x
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
    find, set_one, set_word, set_long = (
        _largest_of_window(stored, isa),
        load_store_of(stored, isa).store_one,
        _set_index(32),
        _set_index(64),
    )

    @jit
    def pool_plane(p: IndexedPoolingParameters, plane: Any, source: Any, pooled: Any, indices: Any, scratch: Any) -> None:
        for y in range(p.out_height):
            for x in range(p.out_width):
                value, number = find(p, source, y, x)
                set_one(pooled + y * p.pooled_row + x * p.pooled_element, value)
                index = number + plane * p.height * p.width if number >= 0 else 0
                to = indices + y * p.other_row + x * p.other_element
                if p.index_bytes == _WORD_BYTES:
                    set_word(to, index)
                else:
                    set_long(to, index)

    return _for_each_plane(pool_plane)


def build_pooling_gradient(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the gradient of a pooling, to be compiled. The arguments are those of `build_indexed_pooling`."""
    find, load_store = _largest_of_window(stored, isa), load_store_of(stored, isa)
    one, set_one = load_store.load_one, load_store.store_one

    @jit
    def spread_plane(p: IndexedPoolingParameters, plane: Any, source: Any, pooled: Any, target: Any, sums: Any) -> None:
        for number in range(p.height * p.width):
            set_float(sums + number * FLOAT_BYTES, _ZERO)
        for y in range(p.out_height):
            for x in range(p.out_width):
                number = find(p, source, y, x)[1]
                if number >= 0:
                    at = sums + number * FLOAT_BYTES
                    set_float(at, float_at(at) + one(pooled + y * p.pooled_row + x * p.pooled_element))
        for y in range(p.height):
            for x in range(p.width):
                set_one(target + y * p.other_row + x * p.other_element, float_at(sums + (y * p.width + x) * FLOAT_BYTES))

    return _for_each_plane(spread_plane)
