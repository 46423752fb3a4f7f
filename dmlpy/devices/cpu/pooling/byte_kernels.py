"""The compiled average pooling of bytes: sums of columns, of windows, and their means, which are quantized as they are defined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import byte_at, set_double, set_word, word_at
from dmlpy.devices.cpu.pooling.byte_plan import LANES, BytePoolingParameters
from dmlpy.devices.cpu.quantized.products import Output
from dmlpy.devices.cpu.quantized.result_kernels import run_writer
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, float_at, repeated, repeated_index
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_BYTES = 16
"""Bytes that are added to sums of columns at once."""


@intrinsic
def _add_bytes(source: Any, flip: Any, sums: Any) -> Any:
    """Adds bytes, changed by `flip`, to as many sums."""

    def generate(builder: Any, arguments: Any) -> None:
        source, flip, sums = arguments
        bytes_, words = ir.VectorType(ir.IntType(8), _BYTES), ir.VectorType(INDEX, _BYTES)
        taps = builder.zext(builder.load(builder.inttoptr(source, bytes_.as_pointer()), align=1), words)
        place = builder.inttoptr(sums, words.as_pointer())
        builder.store(builder.add(builder.load(place, align=4), builder.xor(taps, repeated_index(builder, flip, _BYTES))), place, align=4)

    return types.void(*[types.int64] * 3), generate


@intrinsic
def _sum_of_bytes(source: Any, count: Any, flip: Any) -> Any:
    """The sum of whole vectors of bytes, at least one, changed by `flip`."""

    def generate(builder: Any, arguments: Any) -> Any:
        source, count, flip = arguments
        bytes_, words = ir.VectorType(ir.IntType(8), _BYTES), ir.VectorType(INDEX, _BYTES)
        changed = repeated(builder, builder.trunc(flip, ir.IntType(8)), _BYTES)
        loop = Loop(builder, [ADDRESS(0), ir.Constant(words, [0] * _BYTES)])
        at, total = loop.values
        taps = builder.load(builder.inttoptr(builder.add(source, at), bytes_.as_pointer()), align=1)
        total = builder.add(total, builder.zext(builder.xor(taps, changed), words))
        following = builder.add(at, ADDRESS(_BYTES))
        loop.repeat_while(builder.icmp_signed("<", following, count), [following, total])
        reduce = declared(builder.module, ir.FunctionType(INDEX, [words]), f"llvm.vector.reduce.add.v{_BYTES}i32")
        return builder.zext(builder.call(reduce, [total]), ADDRESS)

    return types.int64(*[types.int64] * 3), generate


@intrinsic
def _write_means(
    sums: Any, divisors: Any, counts: Any, row: Any, zero: Any, scale: Any, other: Any, shift: Any, low: Any, high: Any, to: Any
) -> Any:
    """Writes a vector of results: of the sums less the zero points of as many elements, divided and scaled."""

    def generate(builder: Any, arguments: Any) -> None:
        sums, divisors, counts, row, zero, scale, other, shift, low, high, to = arguments
        doubles, words = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(INDEX, LANES)

        def vector(address: Any) -> Any:
            return builder.load(builder.inttoptr(address, doubles.as_pointer()), align=8)

        def everywhere(value: Any) -> Any:
            return repeated(builder, value, LANES)

        def of_row(offset: int) -> Any:
            pointer = builder.inttoptr(builder.add(row, ADDRESS(offset)), ir.DoubleType().as_pointer())
            return everywhere(builder.load(pointer, align=8))

        def called(name: str, *values: Any) -> Any:
            kind = ir.FunctionType(doubles, [doubles] * len(values))
            return builder.call(declared(builder.module, kind, f"llvm.{name}.v{LANES}f64"), values)

        zeros = builder.fmul(everywhere(zero), builder.fmul(of_row(8), vector(counts)))
        means = builder.fdiv(builder.fsub(vector(sums), zeros), builder.fmul(of_row(0), vector(divisors)))
        steps = called("rint", builder.fdiv(builder.fmul(means, everywhere(scale)), everywhere(other)))
        steps = builder.select(builder.fcmp_unordered("uno", steps, steps), ir.Constant(doubles, [0.0] * LANES), steps)
        steps = builder.fadd(steps, everywhere(shift))
        steps = called("minnum", called("maxnum", steps, everywhere(low)), everywhere(high))
        bytes_ = ir.VectorType(ir.IntType(8), LANES)
        builder.store(builder.trunc(builder.fptosi(steps, words), bytes_), builder.inttoptr(to, bytes_.as_pointer()), align=1)

    integer, double = types.int64, types.float64
    return types.void(*[integer] * 4, *[double] * 6, integer), generate


@jit
def _signed(value: Any, flip: Any) -> Any:
    """A byte as a number, signed if `flip` is 128."""
    return (value ^ flip) - flip


@jit
def _sum_columns(p: BytePoolingParameters, source: Any, front: Any, top: Any, sums: Any) -> None:
    """Sums the columns of the rows that windows from `front` and `top` on have. A signed byte counts 128 more."""
    width, element, flip = p.width, p.input_element, p.input_flip
    whole = width // _BYTES * _BYTES if element == 1 else 0
    for column in range(width):
        set_word(sums + 4 * column, 0)
    for tap in range(p.window_z * p.window_y):
        slice_at, row = front + tap // p.window_y * p.dilation_z, top + tap % p.window_y * p.dilation_y
        if 0 <= slice_at < p.depth and 0 <= row < p.height:
            at = source + slice_at * p.input_slice + row * p.input_row
            for column in range(0, whole, _BYTES):
                _add_bytes(at + column, flip, sums + 4 * column)
            for column in range(whole, width):
                place = sums + 4 * column
                set_word(place, word_at(place) + (byte_at(at + column * element) ^ flip))


@jit
def _sum_windows(p: BytePoolingParameters, columns: Any, sums: Any) -> None:
    stride, dilation, width = p.stride_x, p.dilation_x, p.width
    for x in range(p.out_width):
        left, total = x * stride - p.pad_x, 0
        first = (dilation - 1 - left) // dilation if left < 0 else 0
        last = min(p.window_x, (width - left + dilation - 1) // dilation)
        for tap in range(first, last):
            total += word_at(columns + 4 * (left + tap * dilation))
        set_double(sums + 8 * x, float(total))


@jit
def _sum_runs(p: BytePoolingParameters, source: Any, sums: Any) -> None:
    """Sums windows that are side by side. A signed byte counts 128 more."""
    count, flip = p.window_x, p.input_flip
    whole = count // _BYTES * _BYTES
    for x in range(p.out_width):
        first, total = source + x * count, 0
        if whole > 0:
            total = _sum_of_bytes(first, whole, flip)
        for at in range(whole, count):
            total += byte_at(first + at) ^ flip
        set_double(sums + 8 * x, float(total))


def build_means() -> TaskBody:
    """Builds a thread's part of a pooling, to be compiled."""
    write = run_writer(Output.BYTES)

    @jit
    def pool(p: BytePoolingParameters, plane: Any, columns: Any, sums: Any, results: Any) -> None:
        image, channel = plane // p.channels, plane % p.channels
        source = p.input + image * p.input_image + channel * p.input_channel
        output = p.pooled + image * p.pooled_image + channel * p.pooled_channel
        zero = float(_signed(byte_at(p.input_zero + channel * p.input_zero_step), p.input_flip) + p.input_flip)
        shift = float(_signed(byte_at(p.output_zero + channel * p.output_zero_step), p.output_flip))
        scale = float(float_at(p.input_scale + channel * p.input_scale_step))
        other = float(float_at(p.output_scale + channel * p.output_scale_step))
        low, high, divisors, counts, width = float(p.low), float(p.high), p.column_divisors, p.column_counts, p.out_width
        for position in range(p.out_depth * p.out_height):
            z, y = position // p.out_height, position % p.out_height
            if p.of_whole != 0:
                _sum_runs(p, source, sums)
            else:
                _sum_columns(p, source, z * p.stride_z - p.pad_z, y * p.stride_y - p.pad_y, columns)
                _sum_windows(p, columns, sums)
            for x in range(0, width, LANES):
                at, row = 8 * x, p.row_counts + 16 * position
                _write_means(sums + at, divisors + at, counts + at, row, zero, scale, other, shift, low, high, results + x)
            write(results, output + z * p.pooled_slice + y * p.pooled_row, width, p.pooled_element)

    @jit
    def run(p: BytePoolingParameters, tile: Any, columns: Any) -> Any:
        sums = columns + p.column_sums
        results = sums + (p.out_width + LANES - 1) // LANES * LANES * 8
        for plane in range(p.units * tile // p.tiles, p.units * (tile + 1) // p.tiles):
            pool(p, plane, columns, sums, results)
        return columns

    return share_tiles(BytePoolingParameters, run, own_scratch)
