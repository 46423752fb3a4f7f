"""The compiled max pooling of bytes: of columns, then of windows, as if all positions of a padded slice were next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import byte_at, set_byte
from dmlpy.devices.cpu.pooling.byte_maximum_plan import VECTOR, VECTORS, ByteMaximumParameters
from dmlpy.devices.cpu.simd import ADDRESS, Loop, repeated
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_PART = 8
"""Bytes of a part of a vector, for rows that have no whole one."""
_BYTE = ir.IntType(8)


def _at(builder: Any, address: Any, count: int) -> Any:
    return builder.inttoptr(address, ir.VectorType(_BYTE, count).as_pointer())


def _flipped(builder: Any, value: Any, flip: Any) -> Any:
    """Bytes whose highest bit is changed if `flip` is 128."""
    return builder.xor(value, repeated(builder, builder.trunc(flip, _BYTE), value.type.count))


def _copying(count: int) -> Any:
    """The intrinsic `copy(source, flip, to)` of bytes, changed by `flip`."""

    @intrinsic
    def copy(source: Any, flip: Any, to: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            source, flip, to = arguments
            vector = builder.load(_at(builder, source, count), align=1)
            builder.store(_flipped(builder, vector, flip), _at(builder, to, count), align=1)

        return types.void(*[types.int64] * 3), generate

    return copy


_copy_vector, _copy_part = _copying(VECTOR), _copying(_PART)


@intrinsic
def _clear(address: Any) -> Any:
    """Writes a vector of zeros."""

    def generate(builder: Any, arguments: Any) -> None:
        builder.store(ir.Constant(ir.VectorType(_BYTE, VECTOR), [0] * VECTOR), _at(builder, arguments[0], VECTOR), align=1)

    return types.void(types.int64), generate


def _finding(vectors: int) -> Any:
    """The intrinsic `find(source, offsets, taps, flip, to)`: writes vectors of the largest bytes at some offsets, changed by `flip`."""

    @intrinsic
    def find(source: Any, offsets: Any, taps: Any, flip: Any, to: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            source, offsets, taps, flip, to = arguments
            parts = [ADDRESS(VECTOR * part) for part in range(vectors)]
            loop = Loop(builder, [ADDRESS(0), *[ir.Constant(ir.VectorType(_BYTE, VECTOR), [0] * VECTOR)] * vectors])
            tap, *largest = loop.values
            place = builder.inttoptr(builder.add(offsets, builder.shl(tap, ADDRESS(3))), ADDRESS.as_pointer())
            first = builder.add(source, builder.load(place, align=8))
            loaded = [builder.load(_at(builder, builder.add(first, part), VECTOR), align=1) for part in parts]
            largest = [builder.select(builder.icmp_unsigned(">", x, y), x, y) for x, y in zip(loaded, largest, strict=True)]
            following = builder.add(tap, ADDRESS(1))
            loop.repeat_while(builder.icmp_signed("<", following, taps), [following, *largest])
            for value, part in zip(largest, parts, strict=True):
                builder.store(_flipped(builder, value, flip), _at(builder, builder.add(to, part), VECTOR), align=1)

        return types.void(*[types.int64] * 5), generate

    return find


_find_vectors, _find_vector = _finding(VECTORS), _finding(1)


@intrinsic
def _every_second(source: Any, to: Any) -> Any:
    """Copies every second byte of two vectors."""
    pairs = ir.VectorType(ir.IntType(16), VECTOR)

    def generate(builder: Any, arguments: Any) -> None:
        source, to = arguments
        vector = builder.load(builder.inttoptr(source, pairs.as_pointer()), align=1)
        builder.store(builder.trunc(vector, ir.VectorType(_BYTE, VECTOR)), _at(builder, to, VECTOR), align=1)

    return types.void(types.int64, types.int64), generate


@jit
def _copy_row(source: Any, step: Any, count: Any, flip: Any, to: Any, to_step: Any) -> None:
    """Copies bytes, changed by `flip`. What is left of a vector is copied with bytes before."""
    if step != 1 or to_step != 1 or count < _PART:
        for at in range(count):
            set_byte(to + at * to_step, byte_at(source + at * step) ^ flip)
    elif count < VECTOR:
        for at in range(0, count - _PART, _PART):
            _copy_part(source + at, flip, to + at)
        _copy_part(source + count - _PART, flip, to + count - _PART)
    else:
        for at in range(0, count - VECTOR, VECTOR):
            _copy_vector(source + at, flip, to + at)
        _copy_vector(source + count - VECTOR, flip, to + count - VECTOR)


@jit
def _find(source: Any, offsets: Any, taps: Any, flip: Any, size: Any, to: Any) -> None:
    """Writes the largest bytes at some offsets from each position, and of up to a vector more."""
    whole = size // (VECTORS * VECTOR) * (VECTORS * VECTOR)
    for at in range(0, whole, VECTORS * VECTOR):
        _find_vectors(source + at, offsets, taps, flip, to + at)
    for at in range(whole, size, VECTOR):
        _find_vector(source + at, offsets, taps, flip, to + at)


@jit
def _pad(p: ByteMaximumParameters, source: Any, padded: Any) -> None:
    """Copies a plane into its place among the padding, as far as windows reach."""
    rows = min(p.height, p.padded_slice // p.pitch - p.pad_y)
    for piece in range(p.depth):
        from_, to = source + piece * p.input_slice, padded + (piece + p.pad_z) * p.padded_slice + p.pad_y * p.pitch + p.pad_x
        if (piece + p.pad_z + 1) * p.padded_slice <= p.padded_size:
            if p.pitch == p.width and p.input_row == p.width and p.input_element == 1:
                _copy_row(from_, 1, rows * p.width, p.flip, to, 1)
            else:
                for row in range(rows):
                    _copy_row(from_ + row * p.input_row, p.input_element, p.width, p.flip, to + row * p.pitch, 1)


@jit
def _write_row(p: ByteMaximumParameters, maxima: Any, results: Any, target: Any) -> None:
    """Writes the results of a row of positions, of which every `stride_x`th is one."""
    source = maxima
    if p.stride_x != 1:
        source = results
        if p.stride_x == 2:
            for at in range(0, p.out_width, VECTOR):
                _every_second(maxima + 2 * at, results + at)
        else:
            for at in range(p.out_width):
                set_byte(results + at, byte_at(maxima + at * p.stride_x))
    _copy_row(source, 1, p.out_width, 0, target, p.pooled_element)


@jit
def _pool_plane(p: ByteMaximumParameters, source: Any, target: Any, padded: Any) -> None:
    _pad(p, source, padded)
    columns = padded + p.padded_size
    maxima, results = columns + p.maxima, columns + 2 * p.maxima
    for z in range(p.out_depth):
        first = padded + z * p.stride_z * p.padded_slice
        for run in range(p.runs):
            _find(first + run * p.run_step, p.column_offsets, p.column_taps, 0, p.run_size, columns + run * p.run_size)
        _find(columns, p.row_offsets, p.window_x, p.flip, p.runs * p.run_size, maxima)
        for y in range(p.out_height):
            _write_row(p, maxima + y * p.row_step, results, target + z * p.pooled_slice + y * p.pooled_row)


def build_maxima() -> TaskBody:
    """Builds a thread's part of a pooling, to be compiled."""

    @jit
    def pool(p: ByteMaximumParameters, first: Any, last: Any, padded: Any) -> None:
        for at in range(0, p.padded_size, VECTOR):
            _clear(padded + at)
        for plane in range(first, last):
            image, channel = plane // p.channels, plane % p.channels
            source = p.input + image * p.input_image + channel * p.input_channel
            _pool_plane(p, source, p.pooled + image * p.pooled_image + channel * p.pooled_channel, padded)

    return share_units(ByteMaximumParameters, pool, own_scratch)
