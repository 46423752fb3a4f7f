"""The compiled element-wise operators between numbers and the bytes that stand for them. All arithmetic is that of float32, as defined.

Quotients by a scale of many elements are products with its reciprocal, unless one is so close to a tie that its rounding could matter.
"""

from __future__ import annotations

from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit, phis, unpacked
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.memory_kernels import fill, set_byte
from dmlpy.devices.cpu.quantized.linear import DynamicParameters, Element, ElementsParameters
from dmlpy.devices.cpu.quantized.result_kernels import LARGEST_FACTOR, LEAST_FACTOR, TIE_MARGIN
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, Loop, float_at, integer_at, repeated_index, set_float, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.quantized.products import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_BYTE = ir.IntType(8)
_GROUP = 4
"""Vectors whose results are rounded and packed at once."""
_RANGES = 4
"""Vectors of extremes that are in registers at once."""


class _Lanes:
    """Code on vectors of a number of lanes, one among them."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder, self.lanes, self.simd = builder, lanes, simd_of(Isa(lanes, 16))
        self.integers = ir.VectorType(INDEX, lanes)

    def unary(self, name: str, value: Any) -> Any:
        kind = ir.FunctionType(value.type, [value.type])
        return self.builder.call(declared(self.builder.module, kind, f"llvm.{name}.v{self.lanes}f32"), [value])

    def bits(self, value: Any) -> Any:
        """The bits of floats."""
        return self.builder.bitcast(value, self.integers)

    def larger(self, x: Any, y: Any) -> Any:
        """The larger ones of unsigned integers."""
        kind = ir.FunctionType(self.integers, [self.integers] * 2)
        return self.builder.call(declared(self.builder.module, kind, f"llvm.umax.v{self.lanes}i32"), [x, y])

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
        return phis(builder, (from_one, [of_one]), (from_each, [of_each]))[0]

    def of_integer(self, value: Any) -> Any:
        """An integer as a float in all lanes."""
        return self.simd.repeated(self.builder, self.builder.sitofp(value, FLOAT))

    def write_quantized(self, target: Any, values: Any, scale: Any, zero_point: Any, low: Any, high: Any) -> None:
        """Writes clamp(round(values / scale) + zero point); NaN counts as 0."""
        builder, simd = self.builder, self.simd
        steps = self.unary("rint", builder.fdiv(values, scale))
        steps = builder.select(builder.fcmp_unordered("uno", steps, steps), simd.all(0.0), steps)
        limits = (self.of_integer(limit) for limit in (low, high))
        self.write_bytes(target, [builder.fptosi(simd.clipped(builder, builder.fadd(steps, zero_point), *limits), self.integers)])

    def write_bytes(self, target: Any, vectors: Sequence[Any], offset: Any | None = None) -> None:
        """Writes the low 8 bits of integers, given as 1, 2 or 4 vectors, plus those of an offset."""
        while len(vectors) > 1:
            order = ir.Constant(ir.VectorType(INDEX, 2 * vectors[0].type.count), list(range(2 * vectors[0].type.count)))
            vectors = [self.builder.shuffle_vector(*pair, order) for pair in zip(vectors[::2], vectors[1::2], strict=True)]
        kind = ir.VectorType(_BYTE, vectors[0].type.count)
        result = self.builder.trunc(vectors[0], kind)
        if offset is not None:
            result = self.builder.add(result, self.builder.trunc(repeated_index(self.builder, offset, kind.count), kind))
        self.builder.store(result, self.builder.inttoptr(target, kind.as_pointer()), align=1)


class _Bytes:
    """An operand of bytes with one scale and zero point. What is the same for all elements is computed in the constructor.

    Attributes:
        scale: the scale.
        zero_point: the zero point.
        offset: the zero point of the bytes as unsigned ones.

    Args:
        lanes: the code on vectors.
        scale: the address of the scale.
        zero_point: the address of the zero point.
        flip: 128 if bytes are signed, else 0.
    """

    def __init__(self, lanes: _Lanes, scale: Any, zero_point: Any, flip: Any) -> None:
        self._lanes, builder = lanes, lanes.builder
        self.scale = builder.load(builder.inttoptr(scale, FLOAT.as_pointer()), align=FLOAT_BYTES)
        self.offset = builder.xor(builder.zext(builder.load(builder.inttoptr(zero_point, _BYTE.as_pointer()), align=1), ADDRESS), flip)
        self.zero_point = builder.sub(self.offset, flip)
        self._flips = builder.trunc(repeated_index(builder, flip, lanes.lanes), ir.VectorType(_BYTE, lanes.lanes))

    def unsigned(self, address: Any) -> Any:
        """The bytes at an address as floats, signed ones moved by 128."""
        builder, lanes = self._lanes.builder, self._lanes
        loaded = builder.load(builder.inttoptr(address, self._flips.type.as_pointer()), align=1)
        return builder.sitofp(builder.zext(builder.xor(loaded, self._flips), lanes.integers), lanes.simd.llvm_type)

    def numbers(self, unsigned: Any) -> Any:
        """The numbers that bytes represent."""
        builder, lanes = self._lanes.builder, self._lanes
        return builder.fmul(builder.fsub(unsigned, lanes.of_integer(self.offset)), lanes.simd.repeated(builder, self.scale))


class _Quantization:
    """The quantization of vectors of numbers with one scale and zero point.

    Args:
        lanes: the code on vectors.
        output: the scale and the zero point.
        low: the least result.
        high: the largest result.
    """

    def __init__(self, lanes: _Lanes, output: _Bytes, low: Any, high: Any) -> None:
        self._lanes, self._output, builder = lanes, output, lanes.builder
        self._limits = [lanes.of_integer(builder.sub(limit, output.zero_point)) for limit in (low, high)]

    def factor(self, *others: _Bytes) -> Any:
        """The scalar 1 / scale, or NaN if products with it or with other scales may have less than the precision of float32."""
        builder = self._lanes.builder
        is_normal = ir.IntType(1)(1)
        for operand in (self._output, *others):
            magnitude = _magnitude(builder, operand.scale)
            for sign, end in ((">=", LEAST_FACTOR), ("<=", LARGEST_FACTOR)):
                is_normal = builder.and_(is_normal, builder.fcmp_ordered(sign, magnitude, FLOAT(end)))
        return builder.select(is_normal, builder.fdiv(FLOAT(1.0), self._output.scale), _NAN)

    def write(self, target: Any, steps: Sequence[Any], margin: float, values: Sequence[Callable[[], Any]]) -> None:
        """Writes clamp(round(values / scale) + zero point); NaN counts as 0.

        Args:
            target: where the bytes are written.
            steps: about the quotients, or NaN, in vectors: 1, 2 or 4.
            margin: how far they may be off.
            values: the values, which are computed where that matters.
        """
        vectors, builder, simd = self._lanes, self._lanes.builder, self._lanes.simd
        # Limits are whole numbers: what is beyond them is as sure as they are.
        clipped = [simd.clipped(builder, each, *self._limits) for each in steps]
        whole = [vectors.unary("rint", each) for each in clipped]
        off = [vectors.bits(vectors.unary("fabs", builder.fsub(each, rounded))) for each, rounded in zip(clipped, whole, strict=True)]
        # The bits of positive floats are ordered as they are, NaN last.
        least = ir.Constant(vectors.integers, [int(np.float32(0.5 - margin).view(np.int32))] * vectors.lanes)
        unsure, lanes = builder.icmp_unsigned(">=", reduce(vectors.larger, off), least), ir.IntType(vectors.lanes)
        quick, before = [builder.fptosi(each, vectors.integers) for each in whole], builder.block
        with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(unsure, lanes), lanes(0)), likely=False):
            exact = [self._exact(of()) for of in values]
            after = builder.block
        vectors.write_bytes(target, phis(builder, (before, quick), (after, exact)), self._output.zero_point)

    def _exact(self, values: Any) -> Any:
        """The steps by the definition."""
        lanes, builder, simd = self._lanes, self._lanes.builder, self._lanes.simd
        quotients = builder.fdiv(values, simd.repeated(builder, self._output.scale))
        quotients = builder.select(builder.fcmp_unordered("uno", quotients, quotients), simd.all(0.0), quotients)
        return builder.fptosi(lanes.unary("rint", simd.clipped(builder, quotients, *self._limits)), lanes.integers)


class _Sum:
    """About the quotients of quantized sums by the output's scale: the operands' bytes times factors, plus a constant.

    With factors of up to 2.5 in all, no term is larger than 640, and no quotient is off by more than 2^-11: ten roundings by up to
    640 * 2^-24, those of the definition among them.
    """

    MARGIN = 2.0**-11

    def __init__(self, lanes: _Lanes, quantization: _Quantization, x: _Bytes, y: _Bytes) -> None:
        self._lanes, self._operands, builder = lanes, (x, y), lanes.builder
        factor = quantization.factor(x, y)
        factors = [builder.fmul(operand.scale, factor) for operand in (x, y)]
        total = builder.fadd(*(_magnitude(builder, value) for value in factors))
        is_exact = builder.fcmp_ordered("<=", total, FLOAT(2.5))
        factors = [builder.select(is_exact, value, _NAN) for value in factors]
        double = ir.DoubleType()
        of_zeros = [
            builder.fmul(builder.fpext(value, double), builder.sitofp(operand.offset, double))
            for value, operand in zip(factors, (x, y), strict=True)
        ]
        constant = builder.fptrunc(builder.fneg(builder.fadd(*of_zeros)), FLOAT)
        self._x, self._y, self._constant = (lanes.simd.repeated(builder, value) for value in (*factors, constant))

    def steps(self, x: Any, y: Any) -> Any:
        """The quotients of bytes, as floats."""
        simd, builder = self._lanes.simd, self._lanes.builder
        return simd.fused(builder, x, self._x, simd.fused(builder, y, self._y, self._constant))

    def exact(self, x: Any, y: Any) -> Any:
        """The sums of what bytes stand for, given as unsigned ones."""
        return self._lanes.builder.fadd(self._operands[0].numbers(x), self._operands[1].numbers(y))


class _Product:
    """About the quotients of quantized products by the output's scale: the product of two differences of bytes, times a factor.

    The difference and its product are exact, and no quotient of magnitude up to 409 is off by more than 2^-12: eight roundings by up to
    409 * 2^-24, four of the definition and four of the factor and its product. What is larger is beyond every type.
    """

    MARGIN = 2.0**-12

    def __init__(self, lanes: _Lanes, quantization: _Quantization, x: _Bytes, y: _Bytes) -> None:
        self._lanes, self._operands, builder = lanes, (x, y), lanes.builder
        factor = builder.fmul(builder.fmul(x.scale, quantization.factor(x, y)), y.scale)
        self._factor = lanes.simd.repeated(builder, factor)
        self._offsets = [lanes.of_integer(operand.offset) for operand in (x, y)]

    def steps(self, x: Any, y: Any) -> Any:
        """The quotients of bytes, as floats."""
        builder = self._lanes.builder
        differences = [builder.fsub(value, offset) for value, offset in zip((x, y), self._offsets, strict=True)]
        return builder.fmul(builder.fmul(*differences), self._factor)

    def exact(self, x: Any, y: Any) -> Any:
        """The products of what bytes stand for, given as unsigned ones."""
        return self._lanes.builder.fmul(self._operands[0].numbers(x), self._operands[1].numbers(y))


class _Others:
    """About the quotients of results of other operators by the output's scale: the results times a factor."""

    MARGIN = TIE_MARGIN

    def __init__(self, operation: Element, lanes: _Lanes, quantization: _Quantization, x: _Bytes, y: _Bytes) -> None:
        self._operation, self._lanes, self._operands = operation, lanes, (x, y)
        self._factor = lanes.simd.repeated(lanes.builder, quantization.factor())

    def steps(self, x: Any, y: Any) -> Any:
        """The quotients of bytes, as floats."""
        return self._lanes.builder.fmul(self.exact(x, y), self._factor)

    def exact(self, x: Any, y: Any) -> Any:
        """The results for what bytes stand for, given as unsigned ones."""
        return _result(self._lanes.builder, self._operation, self._operands[0].numbers(x), self._operands[1].numbers(y))


def _result(builder: Any, operation: Element, x: Any, y: Any) -> Any:
    """The results of an operator of two operands."""
    if operation in (Element.MAX, Element.MIN):
        chosen = builder.fcmp_ordered(">" if operation is Element.MAX else "<", x, y)
        # NaN in y is chosen as it compares with nothing.
        return builder.select(builder.or_(chosen, builder.fcmp_unordered("uno", x, x)), x, y)
    if operation in (Element.SUBTRACT_FROM, Element.DIVIDE_INTO):
        x, y = y, x
    instructions = {
        Element.ADD: builder.fadd,
        Element.MULTIPLY: builder.fmul,
        Element.SUBTRACT: builder.fsub,
        Element.SUBTRACT_FROM: builder.fsub,
        Element.DIVIDE: builder.fdiv,
        Element.DIVIDE_INTO: builder.fdiv,
    }
    return instructions[operation](x, y)


_QUICK: dict[Element, Callable[..., _Sum | _Product]] = {Element.ADD: _Sum, Element.MULTIPLY: _Product}
"""The operators whose quotients are computed without those of the numbers."""


_NAN = FLOAT(float("nan"))


def _magnitude(builder: Any, value: Any) -> Any:
    return builder.call(declared(builder.module, ir.FunctionType(FLOAT, [FLOAT]), "llvm.fabs.f32"), [value])


@cache
def _step(operation: Element, lanes: int) -> Any:
    """The intrinsic `compute(p, target, x, y, scale, zero, steps, flips, limits)` on as many elements, side by side."""

    @intrinsic
    def compute(target: Any, x: Any, y: Any, scales: Any, zeros: Any, steps: Any, flips: Any, limits: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            target, x, y, *tuples = arguments
            scales, zeros, steps, flips, limits = (unpacked(builder, packed) for packed in tuples)
            vectors = _Lanes(builder, lanes)

            def number(place: Any, which: int) -> Any:
                """The numbers that the bytes of an operand represent."""
                zero = vectors.bytes(zeros[which], flips[which], steps[2 * which + 1])
                difference = builder.fsub(vectors.bytes(place, flips[which]), zero)
                return builder.fmul(difference, vectors.floats(scales[which], steps[2 * which]))

            if operation is Element.DEQUANTIZE:
                vectors.simd.write(builder, number(x, 0), target)
                return
            values = _result(builder, operation, number(x, 0), number(y, 1)) if operation.has_y else vectors.floats(x)
            last = 2 if operation.has_y else 0
            scale, zero = vectors.floats(scales[last], steps[2 * last]), vectors.bytes(zeros[last], flips[last], steps[2 * last + 1])
            vectors.write_quantized(target, values, scale, zero, *limits)

        integer = types.int64
        three, six, two = (types.UniTuple(integer, count) for count in (3, 6, 2))
        return types.void(integer, integer, integer, three, three, six, three, two), generate

    return compute


@cache
def _run(operation: Element, lanes: int, group: int) -> Any:
    """The intrinsic `compute(target, x, y, groups, scales, zeros, flips, limits)`, with one scale and zero point, on one group or more.

    A group is 1, 2 or 4 vectors.
    """
    result, element = (FLOAT_BYTES if operation is kind else 1 for kind in (Element.DEQUANTIZE, Element.QUANTIZE))

    @intrinsic
    def compute(target: Any, x: Any, y: Any, groups: Any, scales: Any, zeros: Any, flips: Any, limits: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            target, x, y, groups, *tuples = arguments
            scales, zeros, flips, limits = (unpacked(builder, packed) for packed in tuples)
            vectors = _Lanes(builder, lanes)
            of_x, of_y, of_output = (_Bytes(vectors, *parts) for parts in zip(scales, zeros, flips, strict=True))
            quantization = factor = None
            both: _Sum | _Product | _Others | None = None
            if operation is not Element.DEQUANTIZE:
                quantization = _Quantization(vectors, of_output if operation.has_y else of_x, *limits)
                if operation.has_y:
                    of_both = _QUICK.get(operation, partial(_Others, operation))
                    both = of_both(vectors, quantization, of_x, of_y)
                else:
                    factor = vectors.simd.repeated(builder, quantization.factor())
            loop = Loop(builder, [ADDRESS(0)])
            at = builder.mul(loop.values[0], ADDRESS(group * lanes))
            to, source = (builder.add(base, builder.mul(at, ADDRESS(size))) for base, size in ((target, result), (x, element)))
            places = [builder.add(source, ADDRESS(vector * lanes * element)) for vector in range(group)]
            if quantization is None:
                for vector, place in enumerate(places):
                    vectors.simd.write(builder, of_x.numbers(of_x.unsigned(place)), to, vector * lanes * FLOAT_BYTES)
            elif both is not None:
                others = (builder.add(builder.add(y, at), ADDRESS(vector * lanes)) for vector in range(group))
                pairs = [(of_x.unsigned(place), of_y.unsigned(other)) for place, other in zip(places, others, strict=True)]
                exact = [partial(both.exact, *pair) for pair in pairs]
                quantization.write(to, [both.steps(*pair) for pair in pairs], both.MARGIN, exact)
            else:
                values = [vectors.floats(place) for place in places]
                steps = [builder.fmul(each, factor) for each in values]
                quantization.write(to, steps, TIE_MARGIN, [partial(_same, each) for each in values])
            following = builder.add(loop.values[0], ADDRESS(1))
            loop.repeat_while(builder.icmp_signed("<", following, groups), [following])

        integer = types.int64
        three = types.UniTuple(integer, 3)
        return types.void(integer, integer, integer, integer, three, three, three, types.UniTuple(integer, 2)), generate

    return compute


def _same(values: Any) -> Any:
    return values


@cache
def _runs(operation: Element, lanes: int) -> Any:
    """The kernel `compute(target, x, y, count, scales, zeros, flips, limits)` on whole vectors. It returns how many elements they have."""
    of_groups, of_vectors = (_run(operation, lanes, group) for group in (_GROUP, 1))
    result, element = (FLOAT_BYTES if operation is kind else 1 for kind in (Element.DEQUANTIZE, Element.QUANTIZE))
    size = _GROUP * lanes

    @jit
    def compute(target: Any, x: Any, y: Any, count: Any, scales: Any, zeros: Any, flips: Any, limits: Any) -> Any:
        whole, vectors = count // size, count % size // lanes
        if whole > 0:
            of_groups(target, x, y, whole, scales, zeros, flips, limits)
        if vectors > 0:
            at = whole * size
            of_vectors(target + at * result, x + at * element, y + at, vectors, scales, zeros, flips, limits)
        return whole * size + vectors * lanes

    return compute


def build_elements(operation: Element, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of an element-wise operator, to be compiled.

    Args:
        operation: what it computes.
        isa: the instruction set that it is compiled for.
    """
    lanes, of_run, of_many, of_one = isa.lanes, _runs(operation, isa.lanes), _step(operation, isa.lanes), _step(operation, 1)
    result = FLOAT_BYTES if operation is Element.DEQUANTIZE else 1
    element = FLOAT_BYTES if operation is Element.QUANTIZE else 1

    @jit
    def place(p: ElementsParameters, tensor: Any, run: Any, first: Any) -> Any:
        """The address of a tensor's element `first` of a run."""
        at, rest = integer_at(p.bases + 8 * tensor) + first * integer_at(p.inner + 8 * tensor), run
        for axis in range(p.axes):
            size = integer_at(p.sizes + 8 * axis)
            at += rest % size * integer_at(p.strides + 8 * (tensor * p.axes + axis))
            rest //= size
        return at

    @jit
    def run(p: ElementsParameters, first_unit: Any, last_unit: Any, state: Any) -> None:
        inner = p.inner
        steps = (
            integer_at(inner + 24), integer_at(inner + 48), integer_at(inner + 32),
            integer_at(inner + 56), integer_at(inner + 40), integer_at(inner + 64),
        )  # fmt: skip
        flips, limits = (p.x_flip, p.y_flip, p.output_flip), (p.low, p.high)
        to, of_x, of_y = integer_at(inner), integer_at(inner + 8), integer_at(inner + 16)
        if p.repeats_y != 0:
            of_y = 1
        together = to == result and of_x == element and (of_y == element or (of_y == 0 and p.has_y == 0))
        for at in range(3):
            together &= integer_at(inner + 24 + 8 * at) in (0, 4) and integer_at(inner + 48 + 8 * at) in (0, 1)
        is_run = together and (steps[0] | steps[1] | steps[2] | steps[3] | steps[4] | steps[5]) == 0
        for unit in range(first_unit, last_unit):
            number, first = unit // p.pieces, unit % p.pieces * p.piece
            count = min(p.piece, p.count - first)
            target, x, y = place(p, 0, number, first), place(p, 1, number, first), place(p, 2, number, first)
            scales = place(p, 3, number, first), place(p, 4, number, first), place(p, 5, number, first)
            zeros = place(p, 6, number, first), place(p, 7, number, first), place(p, 8, number, first)
            if p.repeats_y != 0:
                fill(state, y, 1, count)
                y = state
            at = 0
            if is_run:
                at = of_run(target, x, y, count, scales, zeros, flips, limits)
            while at < count:
                width = lanes if together and at + lanes <= count else 1
                own_scales = scales[0] + at * steps[0], scales[1] + at * steps[2], scales[2] + at * steps[4]
                own_zeros = zeros[0] + at * steps[1], zeros[1] + at * steps[3], zeros[2] + at * steps[5]
                if width > 1:
                    of_many(target + at * to, x + at * of_x, y + at * of_y, own_scales, own_zeros, steps, flips, limits)
                else:
                    of_one(target + at * to, x + at * of_x, y + at * of_y, own_scales, own_zeros, steps, flips, limits)
                at += width

    return share_units(ElementsParameters, run, own_scratch)


@cache
def _range_of(lanes: int) -> Any:
    """The intrinsic `extend(x, vectors, low, high, nan)`, which widens the ranges in memory by `_RANGES` vectors at a time from x on.

    `vectors` is a multiple of `_RANGES` and not 0. Lanes with NaN are marked with it.
    """

    @intrinsic
    def extend(x: Any, vectors: Any, low: Any, high: Any, nan: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            simd, size = simd_of(Isa(lanes, 16)), lanes * FLOAT_BYTES
            x, vectors, *places = arguments
            first = [simd.value_of(builder, place) for place in places]
            loop = Loop(builder, [ADDRESS(0), *first * _RANGES])
            at, extremes = builder.add(x, builder.mul(loop.values[0], ADDRESS(size))), []
            for part in range(_RANGES):
                value = simd.value_of(builder, at, part * size)
                extremes += _extended(builder, value, value, value, loop.values[1 + 3 * part : 4 + 3 * part])
            following = builder.add(loop.values[0], ADDRESS(_RANGES))
            loop.repeat_while(builder.icmp_signed("<", following, vectors), [following, *extremes])
            total = extremes[:3]
            for part in range(1, _RANGES):
                low, high, nan = extremes[3 * part : 3 * part + 3]
                total = _extended(builder, low, high, nan, total)
            for place, value in zip(places, total, strict=True):
                simd.write(builder, value, place)

        return types.void(*[types.int64] * 5), generate

    return extend


def _extended(builder: Any, low: Any, high: Any, nan: Any, extremes: list[Any]) -> list[Any]:
    """The least, the largest and the marked lanes of these extremes and of more vectors. NaN is neither less nor more."""
    least, most, marked = extremes
    return [
        builder.select(builder.fcmp_ordered("<", low, least), low, least),
        builder.select(builder.fcmp_ordered(">", high, most), high, most),
        builder.select(builder.fcmp_unordered("uno", nan, nan), nan, marked),
    ]


def build_dynamic(isa: ByteIsa) -> TaskBody:
    """Builds the quantization with the range of the input, to be compiled. It runs on one thread.

    Args:
        isa: the instruction set that it is compiled for.
    """
    lanes, parameters_at = isa.lanes, struct_view(DynamicParameters)
    of_run, of_one = _runs(Element.QUANTIZE, lanes), _step(Element.QUANTIZE, 1)
    extend, size, zero, block = _range_of(lanes), lanes * FLOAT_BYTES, np.float32(0.0), _RANGES * lanes

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
        least, most, is_nan, blocks = zero, zero, False, p.count // block
        if blocks > 0:
            extend(p.input, blocks * _RANGES, low, high, nan)
        for at in range(blocks * block, p.count):
            value = float_at(p.input + at * FLOAT_BYTES)
            least, most, is_nan = min(least, value), max(most, value), is_nan or value != value
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
        whole = of_run(p.output, p.input, 0, p.count, scales, zeros, flips, limits)
        for at in range(whole, p.count):
            of_one(p.output + at, p.input + at * FLOAT_BYTES, 0, scales, zeros, steps, flips, limits)

    return quantize
