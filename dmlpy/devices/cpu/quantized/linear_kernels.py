"""The compiled element-wise operators between numbers and the bytes that stand for them. All arithmetic is that of float32, as defined."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.code import declared, unpacked
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.quantized.byte_product_kernels import set_byte
from dmlpy.devices.cpu.quantized.linear import DynamicParameters, Element, ElementsParameters
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, float_at, integer_at, repeated_index, set_float, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.quantized.byte_isa import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_BYTE = ir.IntType(8)


class _Lanes:
    """Code on vectors of a number of lanes, one among them."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder, self.lanes, self.simd = builder, lanes, simd_of(Isa(lanes, 16))
        self.integers = ir.VectorType(INDEX, lanes)

    def unary(self, name: str, value: Any) -> Any:
        kind = ir.FunctionType(value.type, [value.type])
        return self.builder.call(declared(self.builder.module, kind, f"llvm.{name}.v{self.lanes}f32"), [value])

    def floats(self, address: Any, step: Any | None = None) -> Any:
        """The floats at an address; the same in all lanes if a step is 0."""
        return self._each_or_one(
            step, lambda: self.simd.value_of(self.builder, address), lambda: self.simd.repeated_at(self.builder, address)
        )

    def bytes(self, address: Any, flip: Any, step: Any | None = None) -> Any:
        """Bytes as floats, signed ones if `flip` is 128 rather than 0."""
        builder, vector = self.builder, ir.VectorType(_BYTE, self.lanes)

        def of(kind: Any) -> Any:
            return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)

        def converted(value: Any) -> Any:
            flips = repeated_index(builder, flip, self.lanes)
            return builder.sitofp(builder.sub(builder.xor(value, flips), flips), self.simd.llvm_type)

        return self._each_or_one(
            step,
            lambda: converted(builder.zext(of(vector), self.integers)),
            lambda: converted(repeated_index(builder, builder.zext(of(_BYTE), ADDRESS), self.lanes)),
        )

    def _each_or_one(self, step: Any | None, each: Any, one: Any) -> Any:
        if step is None:
            return each()
        builder = self.builder
        with builder.if_else(builder.icmp_signed("==", step, ADDRESS(0))) as (single, several):
            with single:
                of_one, from_one = one(), builder.block
            with several:
                of_each, from_each = each(), builder.block
        found = builder.phi(of_one.type)
        found.add_incoming(of_one, from_one)
        found.add_incoming(of_each, from_each)
        return found

    def write_quantized(self, target: Any, values: Any, scale: Any, zero_point: Any, low: Any, high: Any) -> None:
        """Writes clamp(round(values / scale) + zero point); NaN counts as 0."""
        builder, simd = self.builder, self.simd
        steps = self.unary("rint", builder.fdiv(values, scale))
        steps = builder.select(builder.fcmp_unordered("uno", steps, steps), simd.all(0.0), steps)
        limits = (simd.repeated(builder, builder.sitofp(limit, ir.FloatType())) for limit in (low, high))
        whole = builder.fptosi(simd.clipped(builder, builder.fadd(steps, zero_point), *limits), self.integers)
        place = builder.inttoptr(target, ir.VectorType(_BYTE, self.lanes).as_pointer())
        builder.store(builder.trunc(whole, ir.VectorType(_BYTE, self.lanes)), place, align=1)


@cache
def _step(operation: Element, lanes: int) -> Any:
    """The intrinsic `compute(p, target, x, y, scale, zero, steps, flips, limits)` on as many elements, side by side."""

    @intrinsic
    def compute(target: Any, x: Any, y: Any, scales: Any, zeros: Any, steps: Any, flips: Any, limits: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            target, x, y, *tuples = arguments
            scales, zeros, steps, flips, limits = (unpacked(builder, packed) for packed in tuples)
            own = _Lanes(builder, lanes)

            def number(place: Any, which: int) -> Any:
                """What the bytes of an operand stand for."""
                zero = own.bytes(zeros[which], flips[which], steps[2 * which + 1])
                difference = builder.fsub(own.bytes(place, flips[which]), zero)
                return builder.fmul(difference, own.floats(scales[which], steps[2 * which]))

            if operation is Element.DEQUANTIZE:
                own.simd.write(builder, number(x, 0), target)
                return
            values = own.floats(x) if operation is Element.QUANTIZE else builder.fadd(number(x, 0), number(y, 1))
            last = 0 if operation is Element.QUANTIZE else 2
            scale, zero = own.floats(scales[last], steps[2 * last]), own.bytes(zeros[last], flips[last], steps[2 * last + 1])
            own.write_quantized(target, values, scale, zero, *limits)

        integer = types.int64
        three, six, two = (types.UniTuple(integer, count) for count in (3, 6, 2))
        return types.void(integer, integer, integer, three, three, six, three, two), generate

    return compute


def build_elements(operation: Element, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of an element-wise operator, to be compiled.

    Args:
        operation: what it computes.
        isa: the instruction set that it is compiled for.
    """
    lanes, parameters_at = isa.lanes, struct_view(ElementsParameters)
    of_many, of_one = _step(operation, lanes), _step(operation, 1)
    result = FLOAT_BYTES if operation is Element.DEQUANTIZE else 1
    element = FLOAT_BYTES if operation is Element.QUANTIZE else 1

    @jit
    def place(p: ElementsParameters, tensor: Any, run: Any, first: Any) -> Any:
        """Where a tensor's elements of a run begin, from its element `first` on."""
        at, rest = integer_at(p.bases + 8 * tensor) + first * integer_at(p.inner + 8 * tensor), run
        for axis in range(p.axes):
            size = integer_at(p.sizes + 8 * axis)
            at += rest % size * integer_at(p.strides + 8 * (tensor * p.axes + axis))
            rest //= size
        return at

    def compute(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        inner = p.inner
        steps = (
            integer_at(inner + 24), integer_at(inner + 48), integer_at(inner + 32),
            integer_at(inner + 56), integer_at(inner + 40), integer_at(inner + 64),
        )  # fmt: skip
        flips, limits = (p.x_flip, p.y_flip, p.output_flip), (p.low, p.high)
        to, of_x, of_y = integer_at(inner), integer_at(inner + 8), integer_at(inner + 16)
        together = to == result and of_x == element and (of_y == element or (of_y == 0 and p.has_y == 0))
        for at in range(3):
            together &= integer_at(inner + 24 + 8 * at) in (0, 4) and integer_at(inner + 48 + 8 * at) in (0, 1)
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            for unit in range(p.units * tile // p.tiles, p.units * (tile + 1) // p.tiles):
                run, first = unit // p.pieces, unit % p.pieces * p.piece
                count = min(p.piece, p.count - first)
                target, x, y = place(p, 0, run, first), place(p, 1, run, first), place(p, 2, run, first)
                scales = place(p, 3, run, first), place(p, 4, run, first), place(p, 5, run, first)
                zeros = place(p, 6, run, first), place(p, 7, run, first), place(p, 8, run, first)
                at = 0
                while at < count:
                    width = lanes if together and at + lanes <= count else 1
                    own = scales[0] + at * steps[0], scales[1] + at * steps[2], scales[2] + at * steps[4]
                    none = zeros[0] + at * steps[1], zeros[1] + at * steps[3], zeros[2] + at * steps[5]
                    if width > 1:
                        of_many(target + at * to, x + at * of_x, y + at * of_y, own, none, steps, flips, limits)
                    else:
                        of_one(target + at * to, x + at * of_x, y + at * of_y, own, none, steps, flips, limits)
                    at += width
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return compute


@cache
def _range_of(lanes: int) -> Any:
    """The intrinsic `extend(x, low, high, nan)`, which widens the ranges in memory by the vector at x, and marks lanes with NaN."""

    @intrinsic
    def extend(x: Any, low: Any, high: Any, nan: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            simd = simd_of(Isa(lanes, 16))
            x, *places = arguments
            value, (least, most, marked) = simd.value_of(builder, x), (simd.value_of(builder, place) for place in places)
            simd.write(builder, builder.select(builder.fcmp_ordered("<", value, least), value, least), places[0])
            simd.write(builder, builder.select(builder.fcmp_ordered(">", value, most), value, most), places[1])
            simd.write(builder, builder.select(builder.fcmp_unordered("uno", value, value), value, marked), places[2])

        return types.void(*[types.int64] * 4), generate

    return extend


def build_dynamic(isa: ByteIsa) -> TaskBody:
    """Builds the quantization with the range of the input, to be compiled. It runs on one thread.

    Args:
        isa: the instruction set that it is compiled for.
    """
    lanes, parameters_at = isa.lanes, struct_view(DynamicParameters)
    of_many, of_one = _step(Element.QUANTIZE, lanes), _step(Element.QUANTIZE, 1)
    many, one, size, zero = _range_of(lanes), _range_of(1), lanes * FLOAT_BYTES, np.float32(0.0)

    @jit
    def zero_point_of(least: Any, scale: Any, low: Any, high: Any) -> Any:
        steps = np.float32(np.float32(-least) / scale)
        if steps != steps:
            return low
        return int(min(max(np.rint(steps) + low, low), high))

    def quantize(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        low, high, nan = p.scratch, p.scratch + size, p.scratch + 2 * size
        for lane in range(3 * lanes):
            set_float(p.scratch + lane * FLOAT_BYTES, zero)  # the range holds 0
        whole = p.count // lanes * lanes
        for at in range(0, whole, lanes):
            many(p.input + at * FLOAT_BYTES, low, high, nan)
        for at in range(whole, p.count):
            one(p.input + at * FLOAT_BYTES, low, high, nan)
        least, most, is_nan = zero, zero, False
        for lane in range(lanes):
            four = lane * FLOAT_BYTES
            least, most = min(least, float_at(low + four)), max(most, float_at(high + four))
            is_nan |= float_at(nan + four) != zero
        if is_nan:
            least, most = np.float32(np.nan), np.float32(np.nan)
        scale = np.float32(np.float32(most - least) / np.float32(p.high - p.low))
        zero_point = zero_point_of(least, scale, p.low, p.high)
        set_float(p.scale, scale)
        set_byte(p.zero_point, zero_point)
        scales, zeros = (p.scale, p.scale, p.scale), (p.zero_point, p.zero_point, p.zero_point)
        steps, flips, limits = (0, 0, 0, 0, 0, 0), (p.flip, p.flip, p.flip), (p.low, p.high)
        for at in range(0, whole, lanes):
            of_many(p.output + at, p.input + at * FLOAT_BYTES, 0, scales, zeros, steps, flips, limits)
        for at in range(whole, p.count):
            of_one(p.output + at, p.input + at * FLOAT_BYTES, 0, scales, zeros, steps, flips, limits)

    return quantize
