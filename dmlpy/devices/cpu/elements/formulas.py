"""The instructions of element-wise programs as LLVM code on vectors: all that compute something are one function with a branch for each."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dmlpy.devices.cpu.elements.program import Code
from dmlpy.devices.cpu.registers import FLOAT_BYTES
from dmlpy.devices.cpu.vectors import ADDRESS, FLOAT, INDEX, vectors_of
from dmlpy.devices.cpu.walks.functions import TANH_ABOVE, TANH_BELOW, TANH_BOUND
from dmlpy.devices.numpy.activation.formulas import HALF_TAIL, HALF_TAIL_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.registers import Registers
    from dmlpy.devices.cpu.vectors import Vectors

_LARGEST = float(np.finfo(np.float32).max)
_ROUNDING = 1.5 * 2.0**23
"""A float added to one of at most 22 bits rounds it to an integer, which is then in the lowest bits."""
_LOG2_OF_E, _LN2_HIGH, _LN2_LOW = 1.442695041, 0.693145752, 1.42860677e-6
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""(exp(r) - 1 - r) / r^2 for |r| up to ln(2) / 2, the highest power first: Cephes's."""
_ERF_NEAR = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
"""erf(x) / x - 1 in powers of x^2 for |x| up to `_ERF_BOUND`, the highest first."""
_ERF_FAR = (-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1, -1.28717512e-1, 0.0)
"""ln(1 - erf(x)) + x in powers of x from that bound to `_ERF_END`, beyond which erf is 1 in float32."""
_ERF_BOUND, _ERF_END = 0.927734375, 4.0


class _Lanes:
    """Arithmetic on vectors, added to a block of code.

    Args:
        builder: what adds instructions to the block.
        vectors: the operations.
    """

    def __init__(self, builder: Any, vectors: Vectors) -> None:
        self._builder, self._vectors = builder, vectors
        self.add, self.subtract, self.multiply, self.divide = builder.fadd, builder.fsub, builder.fmul, builder.fdiv
        self.select = builder.select

    def less(self, x: Any, y: Any) -> Any:
        return self._builder.fcmp_ordered("<", x, y)

    def constant(self, value: Any) -> Any:
        kind = ir.VectorType(FLOAT, self._vectors.lanes)
        return ir.Constant(kind, [float(np.float32(value))] * self._vectors.lanes)

    def fused(self, x: Any, y: Any, z: Any) -> Any:
        return self._vectors.fused(self._builder, x, y, z)

    def polynomial(self, x: Any, coefficients: Sequence[Any]) -> Any:
        """The highest power comes first."""
        total = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.fused(total, x, self.constant(coefficient))
        return total

    def built_in(self, name: str, *values: Any) -> Any:
        """A function of LLVM's that is an instruction of the processor, or a few."""
        kind = ir.FunctionType(values[0].type, [value.type for value in values])
        function = cgutils.get_or_insert_function(self._builder.module, kind, f"llvm.{name}.v{self._vectors.lanes}f32")
        return self._builder.call(function, values)

    def magnitude(self, x: Any) -> Any:
        return self.built_in("fabs", x)

    def at_least(self, x: Any, limit: Any) -> Any:
        """The limit where x is below it. NaN stays NaN."""
        return self.select(self.less(x, limit), limit, x)

    def at_most(self, x: Any, limit: Any) -> Any:
        return self.select(self.less(limit, x), limit, x)

    def larger(self, x: Any, y: Any) -> Any:
        """The larger number; NaN where either is."""
        found = self.select(self.less(x, y), y, x)
        return self.select(self._builder.fcmp_unordered("uno", y, y), y, found)

    def smaller(self, x: Any, y: Any) -> Any:
        found = self.select(self.less(y, x), y, x)
        return self.select(self._builder.fcmp_unordered("uno", y, y), y, found)

    def _power_of_two(self, exponent: Any) -> Any:
        """2 to the power of integers from -126 to 127."""
        whole = exponent.type
        lanes = self._vectors.lanes
        biased = self._builder.add(exponent, ir.Constant(whole, [127] * lanes))
        return self._builder.bitcast(self._builder.shl(biased, ir.Constant(whole, [23] * lanes)), ir.VectorType(FLOAT, lanes))

    def _reduced(self, x: Any) -> tuple[Any, Any, Any]:
        """exp(x) = (1 + p) * s * t: p, and the powers of two s and t, for x from -104 to 89."""
        builder, lanes = self._builder, self._vectors.lanes
        x = self.at_most(self.at_least(x, self.constant(-104.0)), self.constant(89.0))
        shifted = self.fused(x, self.constant(_LOG2_OF_E), self.constant(_ROUNDING))
        whole = self.subtract(shifted, self.constant(_ROUNDING))
        rest = self.fused(whole, self.constant(-_LN2_HIGH), x)
        rest = self.fused(whole, self.constant(-_LN2_LOW), rest)
        p = self.fused(self.multiply(rest, rest), self.polynomial(rest, _EXP), rest)
        kind = ir.VectorType(INDEX, lanes)
        exponent = builder.sub(builder.bitcast(shifted, kind), builder.bitcast(self.constant(_ROUNDING), kind))
        half = builder.ashr(exponent, ir.Constant(kind, [1] * lanes))
        return p, self._power_of_two(half), self._power_of_two(builder.sub(exponent, half))

    def exp(self, x: Any) -> Any:
        p, s, t = self._reduced(x)
        return self.multiply(self.multiply(self.add(p, self.constant(1.0)), s), t)

    def exp_minus_one(self, x: Any) -> Any:
        """exp(x) - 1 with all its digits, for x up to 88."""
        p, s, t = self._reduced(x)
        power = self.multiply(s, t)
        return self.fused(p, power, self.subtract(power, self.constant(1.0)))

    def erf(self, x: Any) -> Any:
        magnitude, square = self.magnitude(x), self.multiply(x, x)
        near = self.fused(self.polynomial(square, _ERF_NEAR), x, x)
        end = self.at_most(magnitude, self.constant(_ERF_END))
        exponent = self.subtract(self.polynomial(end, _ERF_FAR), end)
        far = self.built_in("copysign", self.subtract(self.constant(1.0), self.exp(exponent)), x)
        return self.select(self.less(self.constant(_ERF_BOUND), magnitude), far, near)

    def tanh(self, x: Any) -> Any:
        x = self.at_most(self.at_least(x, self.constant(-TANH_BOUND)), self.constant(TANH_BOUND))
        square = self.multiply(x, x)
        above, below = (self.polynomial(square, factors[::-1]) for factors in (TANH_ABOVE, TANH_BELOW))
        return self.divide(self.multiply(x, above), below)

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x)) for x >= 0, exp(x) / (1 + exp(x)) below: small values keep their digits, and none is infinite."""
        builder, one = self._builder, self.constant(1.0)
        power = self.exp(builder.fneg(self.magnitude(x)))
        above = self.select(self.less(x, self.constant(0.0)), power, one)
        return self.divide(above, self.add(one, power))

    def gate(self, x: Any, y: Any) -> Any:
        is_open = self._builder.fcmp_unordered("!=", y, self.constant(0.0))
        return self.select(is_open, self.multiply(x, y), self.constant(0.0))

    def gelu(self, x: Any) -> Any:
        """max(x, 0) - 0.5 |x| erfc(|x| / sqrt(2)), which keeps its digits below 0."""
        magnitude = self.at_most(self.magnitude(x), self.constant(40.0))
        fraction = self.divide(self.constant(1.0), self.add(magnitude, self.constant(HALF_TAIL_OFFSET)))
        tail = self.multiply(self.multiply(self.polynomial(fraction, HALF_TAIL), fraction), magnitude)
        power = self.exp(self.multiply(self.multiply(magnitude, self.constant(-0.5)), magnitude))
        return self.subtract(self.at_least(x, self.constant(0.0)), self.multiply(tail, power))

    def softsign(self, x: Any) -> Any:
        """Infinities give the limits."""
        bounded = self.at_most(self.at_least(x, self.constant(-_LARGEST)), self.constant(_LARGEST))
        return self.divide(bounded, self.add(self.magnitude(bounded), self.constant(1.0)))

    def shrink(self, x: Any, bias: Any, threshold: Any) -> Any:
        zero = self.constant(0.0)
        below = self.select(self.less(x, self._builder.fneg(threshold)), self.add(x, bias), zero)
        return self.select(self.less(threshold, x), self.subtract(x, bias), below)


def _formulas(lanes: _Lanes, builder: Any) -> dict[Code, Callable[[Any, Any, Any, Any], Any]]:
    """The function of each instruction: of x, y, a and b."""
    zero = lanes.constant(0.0)
    one = lanes.constant(1.0)
    return {
        Code.MOVE: lambda x, y, a, b: x,
        Code.LINEAR: lambda x, y, a, b: lanes.add(lanes.multiply(x, a), b),
        Code.CLIP: lambda x, y, a, b: lanes.at_most(lanes.at_least(x, a), b),
        Code.ABS: lambda x, y, a, b: lanes.magnitude(x),
        Code.NEGATE: lambda x, y, a, b: builder.fneg(x),
        Code.SQRT: lambda x, y, a, b: lanes.built_in("sqrt", x),
        Code.FLOOR: lambda x, y, a, b: lanes.built_in("floor", x),
        Code.CEIL: lambda x, y, a, b: lanes.built_in("ceil", x),
        Code.ROUND: lambda x, y, a, b: lanes.built_in("rint", x),
        Code.RECIP: lambda x, y, a, b: lanes.divide(one, x),
        Code.EXP: lambda x, y, a, b: lanes.exp(x),
        Code.ERF: lambda x, y, a, b: lanes.erf(x),
        Code.TANH: lambda x, y, a, b: lanes.tanh(x),
        Code.SIGMOID: lambda x, y, a, b: lanes.sigmoid(x),
        Code.SWISH: lambda x, y, a, b: lanes.gate(x, lanes.sigmoid(lanes.multiply(x, a))),
        Code.GELU: lambda x, y, a, b: lanes.gelu(x),
        Code.SOFTSIGN: lambda x, y, a, b: lanes.softsign(x),
        Code.LEAKY_RELU: lambda x, y, a, b: lanes.select(lanes.less(x, zero), lanes.multiply(x, a), x),
        Code.THRESHOLDED_RELU: lambda x, y, a, b: lanes.select(lanes.less(a, x), x, zero),
        Code.ELU: lambda x, y, a, b: lanes.select(lanes.less(x, zero), lanes.multiply(lanes.exp_minus_one(lanes.divide(x, b)), a), x),
        Code.SHRINK: lambda x, y, a, b: lanes.shrink(x, a, b),
        Code.ADD: lambda x, y, a, b: lanes.add(x, y),
        Code.SUBTRACT: lambda x, y, a, b: lanes.subtract(x, y),
        Code.MULTIPLY: lambda x, y, a, b: lanes.multiply(x, y),
        Code.DIVIDE: lambda x, y, a, b: lanes.divide(x, y),
        Code.MAX: lambda x, y, a, b: lanes.larger(x, y),
        Code.MIN: lambda x, y, a, b: lanes.smaller(x, y),
        Code.GATE: lambda x, y, a, b: lanes.gate(x, y),
        Code.PARAMETERIZED_RELU: lambda x, y, a, b: lanes.select(lanes.less(x, zero), lanes.multiply(x, y), x),
        Code.RELU_GRADIENT: lambda x, y, a, b: lanes.select(lanes.less(zero, x), y, zero),
    }


@cache
def exponential(registers: Registers) -> Any:
    """The intrinsic of a vector that gives the powers of e."""
    vectors = vectors_of(registers)

    @intrinsic
    def exp(context: Any, x: Any) -> Any:
        return vectors.kind(vectors.kind), lambda context, builder, signature, arguments: _Lanes(builder, vectors).exp(*arguments)

    return exp


def computation(registers: Registers) -> Any:
    """The intrinsic `compute(code, result, x, y, count, a, b)`: an instruction on `count` elements at addresses."""
    vectors = vectors_of(registers)

    @intrinsic
    def compute(context: Any, code: Any, result: Any, x: Any, y: Any, count: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            code, result, x, y, count, a, b = arguments
            constants = vectors.repeated(builder, a), vectors.repeated(builder, b)
            end = builder.append_basic_block("computed")
            choice = builder.switch(code, end)
            for number, formula in _formulas(_Lanes(builder, vectors), builder).items():
                block = builder.append_basic_block(number.name)
                choice.add_case(ADDRESS(number), block)
                builder.position_at_end(block)
                _loop(builder, vectors, (result, x, y), count, formula, constants)
                builder.branch(end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5, types.float32, types.float32), generate

    return compute


def _loop(
    builder: Any, vectors: Vectors, addresses: tuple[Any, Any, Any], count: Any, formula: Callable[..., Any], constants: tuple[Any, Any]
) -> None:
    """Code that goes over elements by vectors; the last one may be a part of a vector."""
    before, head, body, whole, part, join, put, put_some, following, after = (
        builder.block,
        *(builder.append_basic_block(name) for name in ("head", "body", "whole", "part", "join", "put", "put_some", "next", "after")),
    )
    builder.branch(head)
    builder.position_at_end(head)
    at = builder.phi(ADDRESS)
    at.add_incoming(ADDRESS(0), before)
    builder.cbranch(builder.icmp_signed("<", at, count), body, after)
    builder.position_at_end(body)
    result, x, y = (builder.add(address, builder.mul(at, ADDRESS(FLOAT_BYTES))) for address in addresses)
    left = builder.sub(count, at)
    is_whole = builder.icmp_signed(">=", left, ADDRESS(vectors.lanes))
    builder.cbranch(is_whole, whole, part)
    builder.position_at_end(whole)
    full = [vectors.value_of(builder, address) for address in (x, y)]
    builder.branch(join)
    builder.position_at_end(part)
    some = [vectors.first_of(builder, address, left) for address in (x, y)]
    builder.branch(join)
    builder.position_at_end(join)
    values = []
    for of_whole, of_part in zip(full, some, strict=True):
        value = builder.phi(of_whole.type)
        value.add_incoming(of_whole, whole)
        value.add_incoming(of_part, part)
        values.append(value)
    computed = formula(*values, *constants)
    builder.cbranch(is_whole, put, put_some)
    builder.position_at_end(put)
    vectors.write(builder, computed, result)
    builder.branch(following)
    builder.position_at_end(put_some)
    vectors.write_first(builder, computed, result, left)
    builder.branch(following)
    builder.position_at_end(following)
    at.add_incoming(builder.add(at, ADDRESS(vectors.lanes)), following)
    builder.branch(head)
    builder.position_at_end(after)
