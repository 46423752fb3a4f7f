"""The compiled depthwise convolution of small planes of bytes: a permutation gives the quads of 16 positions, in whichever rows they are.

Positions are numbered through a plane, so that all results of a vector are written side by side.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.code import declared
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.quantized.byte_product_kernels import (
    all_of,
    byte_at,
    copy_bytes,
    dot,
    integers,
    repeated_quad,
    set_quad,
    store,
)
from dmlpy.devices.cpu.quantized.depthwise_planes import REGISTER, VECTORS, WINDOW
from dmlpy.devices.cpu.quantized.parameters import DepthwisePlaneParameters, Output
from dmlpy.devices.cpu.quantized.result_kernels import ROW_SIZE, row_results, row_terms_at
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, each_count, integer_at, repeated_index, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.quantized.byte_isa import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_BYTES = ir.VectorType(ir.IntType(8), REGISTER)
_OFFSET, _INSIDE = (WINDOW.fields[name][1] for name in ("offset", "inside")) if WINDOW.fields else (0, 0)
_WINDOW = WINDOW.itemsize


def _permuted(builder: Any, address: Any, window: int, order: Any) -> Any:
    """The bytes of a window in an order."""
    if window < REGISTER:
        half = _load(builder, address, ir.VectorType(ir.IntType(8), window))
        parts = [builder.shuffle_vector(half, half, ir.Constant(ir.VectorType(INDEX, REGISTER), [at % window for at in range(REGISTER)]))]
    else:
        parts = [_load(builder, builder.add(address, ADDRESS(at)), _BYTES) for at in range(0, window, REGISTER)]
    operands = [parts[0], order, *parts[1:]]
    name = "permvar" if len(parts) == 1 else "vpermi2var"
    function = declared(builder.module, ir.FunctionType(_BYTES, [_BYTES] * len(operands)), f"llvm.x86.avx512.{name}.qi.512")
    return builder.call(function, operands)


def _load(builder: Any, address: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


@cache
def window_product(window: int, isa: ByteIsa) -> Any:
    """The kernel `multiply(count, source, windows, step, quads, weights, padding, flip, sums)`, for 1 to `VECTORS` vectors of positions.

    It sums the products of the quads of a plane at `source`, whose windows are `step` bytes apart from one vector to the next. `padding` is
    repeated in the quads that it is in, and `flip` changes the bytes of the plane.

    Args:
        window: bytes of a window.
        isa: the instruction set that it is compiled for.
    """

    @intrinsic
    def multiply(count: Any, source: Any, windows: Any, step: Any, quads: Any, weights: Any, padding: Any, flip: Any, sums: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            count, source, windows, step, quads, weights, padding, flip, sums = arguments
            pad, flips = (builder.bitcast(repeated_index(builder, value, isa.lanes), _BYTES) for value in (padding, flip))
            for number in each_count(builder, count, VECTORS):
                loop = Loop(builder, [ADDRESS(0), windows, weights, *[all_of(isa, 0)] * number])
                quad, place_of_window, factor, *totals = loop.values
                signed = repeated_quad(builder, isa, factor)
                for vector, total in enumerate(totals):
                    at = builder.add(place_of_window, builder.mul(step, ADDRESS(vector)))
                    place = builder.add(source, _load(builder, builder.add(at, ADDRESS(_OFFSET)), ADDRESS))
                    inside = builder.bitcast(
                        _load(builder, builder.add(at, ADDRESS(_INSIDE)), ADDRESS), ir.VectorType(ir.IntType(1), REGISTER)
                    )
                    found = builder.xor(_permuted(builder, place, window, _load(builder, at, _BYTES)), flips)
                    unsigned = builder.bitcast(builder.select(inside, found, pad), integers(isa))
                    totals[vector] = dot(builder, isa, total, unsigned, signed)
                following = builder.add(quad, ADDRESS(1))
                onward = [following, builder.add(place_of_window, ADDRESS(_WINDOW)), builder.add(factor, ADDRESS(4)), *totals]
                loop.repeat_while(builder.icmp_signed("<", following, quads), onward)
                for vector, total in enumerate(totals):
                    store(builder, total, builder.add(sums, ADDRESS(vector * REGISTER)))

        return types.void(*[types.int64] * 9), generate

    return multiply


def build_depthwise_planes(output: Output, window: int, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of a convolution, to be compiled.

    Args:
        output: what becomes of the sums.
        window: bytes of a window of a plane.
        isa: the instruction set that it is compiled for.
    """
    lanes, element = isa.lanes, 1 if output is Output.BYTES else 4
    multiply, finish = window_product(window, isa), row_results(output, True, isa)
    parameters_at = struct_view(DepthwisePlaneParameters)

    @jit
    def multiply_plane(p: DepthwisePlaneParameters, plane: Any, scratch: Any, channel: Any, padding: Any, target: Any) -> None:
        """Computes all positions of a plane and a filter."""
        sums, bytes_of = scratch, scratch + VECTORS * REGISTER
        of_row, uses_second = p.row_terms + channel * ROW_SIZE, integer_at(p.uses_second) != 0
        second, step, windows, quads, flip = row_terms_at(of_row).second, p.quads * _WINDOW, p.windows, p.quads, p.input_flip
        weights, ones, vectors, last = p.weights + channel * quads * 4, p.ones, p.vectors, p.positions - lanes
        columns = (p.column_first, bytes_of if uses_second else p.column_first, p.column_factor, p.column_scale)
        for vector in range(0, vectors, VECTORS):
            count = min(VECTORS, vectors - vector)
            multiply(count, plane, windows + vector * step, step, quads, weights, padding, flip, sums)
            if uses_second:
                multiply(count, plane, windows + vector * step, step, quads, ones, padding, flip, bytes_of)
            whole = count if (vector + count - 1) * lanes <= last else count - 1
            if whole > 0:
                finish(p, of_row, second, sums, columns, whole, 0, target + vector * lanes * element)
            if whole < count:
                of_last = (columns[0], columns[1] + whole * REGISTER if uses_second else columns[1], columns[2], columns[3])
                finish(p, of_row, second, sums + whole * REGISTER, of_last, 1, 0, target + last * element)

    def convolve(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        scratch = p.scratch + thread * p.scratch_size
        copied = scratch + 2 * VECTORS * REGISTER
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        padding, end = 0, p.input + p.input_size
        if tile < p.tiles:
            padding = ((byte_at(p.input_zero) if p.input_zero != 0 else 0) ^ (p.input_flip & 255)) * 0x01010101
            for at in range(0, p.scratch_size - 2 * VECTORS * REGISTER, 4):
                set_quad(copied + at, 0)
        while tile < p.tiles:
            unit, last, filters, groups = p.units * tile // p.tiles, p.units * (tile + 1) // p.tiles, p.filters, p.groups
            filter_number, group, image = unit % filters, unit // filters % groups, unit // filters // groups
            while unit < last:
                plane, channel = p.input + image * p.input_image + group * p.input_channel, group * filters + filter_number
                if plane + p.reach > end:  # its windows reach behind the last plane
                    copy_bytes(plane, copied, p.plane, 0)
                    plane = copied
                multiply_plane(p, plane, scratch, channel, padding, p.output + image * p.output_image + channel * p.output_channel)
                unit, filter_number = unit + 1, filter_number + 1
                if filter_number == filters:
                    filter_number, group = 0, group + 1
                    if group == groups:
                        group, image = 0, image + 1
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return convolve
