"""Functions of vectors of floats as LLVM code: for element-wise operators, softmax and the gates of recurrent cells.

They need no library, whose functions LLVM's loader might not find. Each has a relative error of a few units in the last place over all
floats, including subnormal results, returns its limits at the infinities, and propagates NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, phis
from dmlpy.devices.cpu.isa import fuses_products, host_isa, scales_by_powers_of_two
from dmlpy.devices.cpu.simd import FLOAT, INDEX, simd_of
from dmlpy.devices.numpy.activation.formulas import HALF_TAIL, HALF_TAIL_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.simd import Simd

_LARGEST = float(np.finfo(np.float32).max)
_NORMAL_DENSITY = 1.0 / sqrt(2.0 * pi)
_ROUNDING = 1.5 * 2.0**23
"""A float added to one of at most 22 bits rounds it to an integer, which is then in the lowest bits."""
_LOG2_OF_E, _LN2_HIGH, _LN2_LOW = 1.442695041, 0.693145752, 1.42860677e-6
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
"""(exp(r) - 1 - r) / r^2 for |r| up to ln(2) / 2, the highest power first: Cephes's."""
_EXP_OF_NEGATIVE = (1.38367941661e-3, -8.37485704879e-3, 4.16682286799e-2, -1.66664196809e-1, 4.99999920561e-1, -1.0, 1.0)
"""exp(-r) for |r| up to ln(2) / 2, the highest power first: a fit whose largest relative error is 2e-9."""
_CURRENT_ROUNDING = 4
"""An instruction's operand: it rounds as the processor is set to."""
_FROM_THREE_QUARTERS = 3
"""An instruction's operand: mantissas are from 3 / 4 to 3 / 2."""
_HALF_EXP_END = 90.0
"""Beyond this argument exp(x) / 2 is infinite in float32."""
_EXP_END = 104.0
"""exp(-x) is 0 in float32 beyond this argument."""
_SIGMOID_SCALE = 24
"""Both terms of a sigmoid's quotient are scaled down by this power of two: where the sigmoid is subnormal, exp(-x) overflows."""
_SIGMOID_BOUNDS = (-104.5, 70.0)
"""Beyond these arguments the sigmoid is 0 and 1 in float32."""
_NORMAL_SIGMOID = -87.0
"""Below this argument the sigmoid is subnormal."""
_POWER_OF_TWO = (9.582843380e-3, 5.590642563e-2, 2.402409878e-1, 6.931241934e-1, 1.0)
"""2^r for |r| up to 1 / 2, the highest power first: a fit whose largest relative error is 2.8e-6."""
_HALF_SIGMOID_BOUNDS = (-89.0, 87.0)
"""Within these exponents of e powers of two are floats, or infinite at the lower one: their quotients are 0 there."""
_MINUS_ONE_END = 32.0
"""Beyond this argument exp(x) - 1 is exp(x) in float32."""
_AREA_TANGENT = tuple(1.0 / (2 * power + 1) for power in range(7, 0, -1))
"""(artanh(r) - r) / r^3 in powers of r^2 for |r| up to 1 / 3, the highest first: its series, truncated at 1e-9 of the sum."""
_ERF_NEAR = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)
"""erf(x) / x - 1 in powers of x^2 for |x| up to `_ERF_BOUND`, the highest first."""
_ERF_FAR = (-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1, -1.28717512e-1, 0.0)
"""ln(1 - erf(x)) + x in powers of x from that bound to `_ERF_END`, beyond which erf is 1 in float32."""
_ERF_BOUND, _ERF_END = 0.927734375, 4.0
_TANH_BOUND = 7.90531110763549805
"""Beyond this argument the quotient below is no closer to tanh than it is here: 2 units in the last place below 1."""
_TANH_END = 9.01091289520263672
"""Beyond this argument tanh is 1 in float32. A cell's derivative there must be 0: what it is multiplied by may be huge."""
_TANH_ABOVE = (
    *(-5.641676241e-14, 4.087417207e-11, -1.758378918e-08, 1.046749919e-05),
    *(0.003036098315, 0.1302255337, 0.9999998719),
)
_TANH_BELOW = (0.0002448660933, 0.024222764, 0.4635583851, 1.0)
"""tanh(x) is x times the quotient of these polynomials in x squared, the highest power first. Near 0 they are 1: x keeps its digits."""


class SimdMath:
    """Arithmetic on vectors, added to a block of code.

    Args:
        builder: adds instructions to the block.
        simd: the operations.
    """

    def __init__(self, builder: Any, simd: Simd) -> None:
        self._builder, self._simd = builder, simd
        self.add, self.subtract, self.multiply, self.divide = builder.fadd, builder.fsub, builder.fmul, builder.fdiv
        self.select = builder.select

    def less(self, x: Any, y: Any) -> Any:
        return self._builder.fcmp_ordered("<", x, y)

    def constant(self, value: Any) -> Any:
        kind = ir.VectorType(FLOAT, self._simd.lanes)
        return ir.Constant(kind, [float(np.float32(value))] * self._simd.lanes)

    def fused(self, x: Any, y: Any, z: Any) -> Any:
        return self._simd.fused(self._builder, x, y, z)

    def fused_once(self, x: Any, y: Any, z: Any) -> Any:
        """x * y + z without the product's rounding, also where the processor does not fuse: doubles hold the product of two floats."""
        if fuses_products():
            return self.fused(x, y, z)
        doubles = ir.VectorType(ir.DoubleType(), self._simd.lanes)
        x, y, wide = (self._builder.fpext(value, doubles) for value in (x, y, z))
        return self._builder.fptrunc(self.add(self.multiply(x, y), wide), z.type)

    def polynomial(self, x: Any, coefficients: Sequence[Any]) -> Any:
        """The highest power comes first."""
        total = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.fused(total, x, self.constant(coefficient))
        return total

    def built_in(self, name: str, *values: Any) -> Any:
        """An LLVM intrinsic that is one or a few instructions."""
        kind = ir.FunctionType(values[0].type, [value.type for value in values])
        function = declared(self._builder.module, kind, f"llvm.{name}.v{self._simd.lanes}f32")
        return self._builder.call(function, values)

    def square_root(self, x: Any) -> Any:
        return self.built_in("sqrt", x)

    def magnitude(self, x: Any) -> Any:
        return self.built_in("fabs", x)

    def at_least(self, x: Any, limit: Any) -> Any:
        """The limit where x is below it. NaN stays NaN."""
        return self.select(self.less(x, limit), limit, x)

    def at_most(self, x: Any, limit: Any) -> Any:
        return self.select(self.less(limit, x), limit, x)

    def clipped(self, x: Any, low: Any, high: Any) -> Any:
        return self._simd.clipped(self._builder, x, low, high)

    def larger(self, x: Any, y: Any) -> Any:
        """The larger number, +0 being larger than -0; NaN where either is."""
        return self._extreme(x, y, self.less(x, y), self._builder.and_)

    def smaller(self, x: Any, y: Any) -> Any:
        return self._extreme(x, y, self.less(y, x), self._builder.or_)

    def _extreme(self, x: Any, y: Any, takes_y: Any, of_signs: Any) -> Any:
        """y where it is taken or NaN, else x; of equal numbers, which differ in the sign of zero only, their bits are merged."""
        builder, integers = self._builder, ir.VectorType(INDEX, self._simd.lanes)
        merged = builder.bitcast(of_signs(builder.bitcast(x, integers), builder.bitcast(y, integers)), x.type)
        result = self.select(builder.fcmp_ordered("==", x, y), merged, self.select(takes_y, y, x))
        return self.select(builder.fcmp_unordered("uno", y, y), y, result)

    @property
    def scales_at_once(self) -> bool:
        """Whether a vector is scaled by powers of two, and split into mantissas and exponents, by one instruction each."""
        return self._simd.lanes == host_isa().lanes and scales_by_powers_of_two()

    def _avx512(self, name: str, *operands: Any) -> Any:
        """An instruction of AVX-512 on all lanes of vectors of floats, and of constants that choose a form of it."""
        kind, mask = ir.VectorType(FLOAT, self._simd.lanes), ir.IntType(self._simd.lanes)
        given = [*operands, ir.Constant(kind, None), mask(-1), INDEX(_CURRENT_ROUNDING)]
        function = ir.FunctionType(kind, [value.type for value in given])
        return self._builder.call(declared(self._builder.module, function, f"llvm.x86.avx512.mask.{name}.ps.512"), given)

    def exponent(self, x: Any) -> Any:
        """The exponents of 2 of floats whose mantissas are from 1 to 2, where `scales_at_once`; of 0 minus infinity."""
        return self._avx512("getexp", x)

    def mantissa(self, x: Any) -> Any:
        """The mantissas from 3 / 4 to 3 / 2 with the signs of floats, where `scales_at_once`; 1 of 0 and infinity."""
        return self._avx512("getmant", x, INDEX(_FROM_THREE_QUARTERS))

    def _power_of_two(self, exponent: Any) -> Any:
        """2 to the power of integers from -126 to 127."""
        whole = exponent.type
        lanes = self._simd.lanes
        biased = self._builder.add(exponent, ir.Constant(whole, [127] * lanes))
        return self._builder.bitcast(self._builder.shl(biased, ir.Constant(whole, [23] * lanes)), ir.VectorType(FLOAT, lanes))

    def _scaled(self, x: Any, shifted: Any) -> Any:
        """x times 2 to the power of integers from -150 to 128, given with `_ROUNDING` added; rounded once if the result is subnormal."""
        builder, lanes, shift = self._builder, self._simd.lanes, self.constant(_ROUNDING)
        if self.scales_at_once:
            return self._avx512("scalef", x, self.subtract(shifted, shift))
        integers = ir.VectorType(INDEX, lanes)
        exponent = builder.sub(builder.bitcast(shifted, integers), builder.bitcast(shift, integers))
        half = builder.ashr(exponent, ir.Constant(integers, [1] * lanes))
        return self.multiply(self.multiply(x, self._power_of_two(half)), self._power_of_two(builder.sub(exponent, half)))

    def _reduced(self, x: Any, most: float = 89.0) -> tuple[Any, Any]:
        """exp(x) = (1 + p) * 2^whole by Cody and Waite's range reduction, for x from -104 to `most`: p, and whole plus `_ROUNDING`."""
        x = self.at_most(self.at_least(x, self.constant(-104.0)), self.constant(most))
        shifted = self.fused(x, self.constant(_LOG2_OF_E), self.constant(_ROUNDING))
        whole = self.subtract(shifted, self.constant(_ROUNDING))
        rest = self.fused(whole, self.constant(-_LN2_HIGH), x)
        rest = self.fused(whole, self.constant(-_LN2_LOW), rest)
        return self.fused(self.multiply(rest, rest), self.polynomial(rest, _EXP), rest), shifted

    def exp(self, x: Any) -> Any:
        p, shifted = self._reduced(x)
        return self._scaled(self.add(p, self.constant(1.0)), shifted)

    def exp_of_sum(self, x: Any, rest: Any, coefficients: Sequence[Any]) -> Any:
        """e to the power of the sum of a number from -105 to 89 and a rest, by the polynomial that is it for |r| up to ln(2) / 2."""
        shifted = self.fused(x, self.constant(_LOG2_OF_E), self.constant(_ROUNDING))
        whole = self.subtract(shifted, self.constant(_ROUNDING))
        rest = self.fused(whole, self.constant(-_LN2_LOW), self.add(self.fused(whole, self.constant(-_LN2_HIGH), x), rest))
        return self._scaled(self.polynomial(rest, coefficients), shifted)

    def half_exp(self, x: Any) -> Any:
        """exp(x) / 2, which is infinite only where it is not a float itself."""
        p, shifted = self._reduced(x, _HALF_EXP_END)
        return self._scaled(self.add(p, self.constant(1.0)), self.subtract(shifted, self.constant(1.0)))

    def exp_of_negative(self, x: Any) -> Any:
        """exp(x) for x up to 0, in fewer instructions."""
        x = self.at_least(x, self.constant(-_EXP_END))
        shifted = self.fused(x, self.constant(_LOG2_OF_E), self.constant(_ROUNDING))
        whole = self.subtract(shifted, self.constant(_ROUNDING))
        rest = self.fused(whole, self.constant(_LN2_LOW), self.fused(whole, self.constant(_LN2_HIGH), self._builder.fneg(x)))
        return self._scaled(self.polynomial(rest, _EXP_OF_NEGATIVE), shifted)

    def exp_minus_one(self, x: Any) -> Any:
        """exp(x) - 1 with all its digits."""
        p, shifted = self._reduced(x)
        power = self._scaled(self.constant(1.0), shifted)
        near = self.fused(p, power, self.subtract(power, self.constant(1.0)))
        # The power of two may overflow where p < 0, and give infinity minus infinity.
        return self.select(self.less(self.constant(_MINUS_ONE_END), x), self._scaled(self.add(p, self.constant(1.0)), shifted), near)

    def log_one_plus(self, x: Any) -> Any:
        """log(1 + x) with all its digits, for x from 0 to 1: 2 artanh(x / (2 + x))."""
        ratio = self.divide(x, self.add(x, self.constant(2.0)))
        square = self.multiply(ratio, ratio)
        double = self.add(ratio, ratio)
        return self.fused(self.multiply(double, square), self.polynomial(square, _AREA_TANGENT), double)

    def _erf_near(self, x: Any) -> Any:
        return self.fused(self.polynomial(self.multiply(x, x), _ERF_NEAR), x, x)

    def erf(self, x: Any) -> Any:
        magnitude, near = self.magnitude(x), self._erf_near(x)
        end = self.at_most(magnitude, self.constant(_ERF_END))
        exponent = self.subtract(self.polynomial(end, _ERF_FAR), end)
        far = self.built_in("copysign", self.subtract(self.constant(1.0), self.exp(exponent)), x)
        return self.select(self.less(self.constant(_ERF_BOUND), magnitude), far, near)

    def tanh(self, x: Any) -> Any:
        near = self.at_most(self.at_least(x, self.constant(-_TANH_BOUND)), self.constant(_TANH_BOUND))
        square = self.multiply(near, near)
        above, below = (self.polynomial(square, coefficients) for coefficients in (_TANH_ABOVE, _TANH_BELOW))
        quotient = self.divide(self.multiply(near, above), below)
        end = self.built_in("copysign", self.constant(1.0), x)
        return self.select(self.less(self.constant(_TANH_END), self.magnitude(x)), end, quotient)

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x)) as s / (s + s exp(-x)) for a small power of two: one division rounds the result, also if it is subnormal."""
        builder, lanes = self._builder, self._simd.lanes
        low, high = _SIGMOID_BOUNDS
        x = self.at_least(self.at_most(x, self.constant(high)), self.constant(low))
        # The lowest bits of such a sum are an integer, here the biased exponent of a power of two.
        offset = self.constant(_ROUNDING + 127 - _SIGMOID_SCALE)
        shifted = self.fused(x, self.constant(-_LOG2_OF_E), offset)
        whole = self.subtract(shifted, offset)
        rest = self.fused(whole, self.constant(_LN2_LOW), self.fused(whole, self.constant(_LN2_HIGH), x))
        kind = ir.VectorType(INDEX, lanes)
        power = builder.bitcast(builder.shl(builder.bitcast(shifted, kind), ir.Constant(kind, [23] * lanes)), rest.type)
        scale = self.constant(2.0**-_SIGMOID_SCALE)
        return self.divide(scale, self.fused(self.polynomial(rest, _EXP_OF_NEGATIVE), power, scale))

    def _one_plus_exp(self, x: Any) -> Any:
        """1 + exp(-x) with a relative error of 3e-6, which FLOAT16 does not show; infinite for x below -89."""
        builder, (low, high) = self._builder, _HALF_SIGMOID_BOUNDS
        x = self.at_least(self.at_most(x, self.constant(high)), self.constant(low))
        offset = self.constant(_ROUNDING + 127)  # as in `sigmoid`
        shifted = self.fused(x, self.constant(-_LOG2_OF_E), offset)
        rest = self.fused(x, self.constant(-_LOG2_OF_E), self.subtract(offset, shifted))
        kind = ir.VectorType(INDEX, self._simd.lanes)
        power = builder.bitcast(builder.shl(builder.bitcast(shifted, kind), ir.Constant(kind, [23] * self._simd.lanes)), rest.type)
        return self.fused(self.polynomial(rest, _POWER_OF_TWO), power, self.constant(1.0))

    def half_sigmoid(self, x: Any) -> Any:
        """The sigmoid, to be rounded to FLOAT16."""
        return self.divide(self.constant(1.0), self._one_plus_exp(x))

    def half_silu(self, x: Any) -> Any:
        """x times its sigmoid, to be rounded to FLOAT16: a quotient, since the divider is idle while others multiply."""
        return self.divide(x, self._one_plus_exp(x))

    def half_swish(self, x: Any, scaled: Any) -> Any:
        """`swish` to be rounded to FLOAT16."""
        is_far = self.less(scaled, self.constant(-2.0 * _EXP_END))  # where exp(-|scaled|) has no root
        return self.select(is_far, self.constant(0.0), self.divide(x, self._one_plus_exp(scaled)))

    def rest_of_sigmoid(self, x: Any) -> Any:
        """1 minus the sigmoid, with all its digits."""
        return self.sigmoid(self._builder.fneg(x))

    def swish(self, x: Any, scaled: Any) -> Any:
        """x times the sigmoid of `scaled`, and 0 where exp(-|scaled|) has no root."""
        builder, near = self._builder, self.multiply(x, self.sigmoid(scaled))
        lanes = ir.IntType(self._simd.lanes)
        are_far = self.less(scaled, self.constant(_NORMAL_SIGMOID))
        before = builder.block
        with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(are_far, lanes), lanes(0)), likely=False):
            # Only these: the digits of the others must not depend on their neighbours.
            far, after = self.select(are_far, self._swish_by_root(x, scaled), near), builder.block
        return phis(builder, (before, [near]), (after, [far]))[0]

    def _swish_by_root(self, x: Any, scaled: Any) -> Any:
        """By the root of exp(-|scaled|), which has all its digits where the power and the sigmoid have none."""
        zero, one = self.constant(0.0), self.constant(1.0)
        root = self.exp(self.multiply(self.magnitude(scaled), self.constant(-0.5)))
        above = self.select(self.less(scaled, zero), root, one)
        value = self.divide(self.multiply(self.multiply(x, above), above), self.fused(root, root, one))
        return self.select(self._builder.fcmp_unordered("!=", above, zero), value, zero)

    def gate(self, x: Any, y: Any) -> Any:
        is_open = self._builder.fcmp_unordered("!=", y, self.constant(0.0))
        return self.select(is_open, self.multiply(x, y), self.constant(0.0))

    def within(self, x: Any, y: Any, low: Any, high: Any) -> Any:
        """y where x is between the limits or NaN, 0 elsewhere."""
        above, below = self._builder.fcmp_unordered(">", x, low), self._builder.fcmp_unordered("<", x, high)
        return self.select(self._builder.and_(above, below), y, self.constant(0.0))

    def sign(self, x: Any) -> Any:
        """-1, 0 or 1; 0 where x is NaN."""
        zero = self.constant(0.0)
        above = self.select(self.less(zero, x), self.constant(1.0), zero)
        return self.select(self.less(x, zero), self.constant(-1.0), above)

    def linear(self, x: Any, a: Any, b: Any) -> Any:
        """a x + b, rounded twice."""
        return self.add(self.multiply(x, a), b)

    def leaky_relu(self, x: Any, slope: Any) -> Any:
        return self.select(self.less(x, self.constant(0.0)), self.multiply(x, slope), x)

    def thresholded_relu(self, x: Any, threshold: Any) -> Any:
        return self.select(self.less(threshold, x), x, self.constant(0.0))

    def elu(self, x: Any, factor: Any, divisor: Any) -> Any:
        """factor (exp(x / divisor) - 1) where x < 0."""
        below = self.multiply(self.exp_minus_one(self.divide(x, divisor)), factor)
        return self.select(self.less(x, self.constant(0.0)), below, x)

    def elu_slope(self, x: Any, factor: Any, divisor: Any) -> Any:
        """factor exp(x / divisor) where x < 0, else 1."""
        below = self.multiply(self.exp(self.divide(x, divisor)), factor)
        return self.select(self._builder.fcmp_ordered(">=", x, self.constant(0.0)), self.constant(1.0), below)

    def scaled_elu_slope(self, x: Any, alpha: Any, gamma: Any) -> Any:
        below = self.multiply(self.exp(x), self.multiply(alpha, gamma))
        return self.select(self.less(self.constant(0.0), x), gamma, below)

    def scaled_tanh_slope(self, x: Any, alpha: Any, beta: Any) -> Any:
        """4 e / (1 + e)^2 for e = exp(-2 |beta x|), times both factors: it keeps its digits where tanh is nearly 1 or -1."""
        power = self.exp(self.multiply(self.magnitude(self.multiply(x, beta)), self.constant(-2.0)))
        quotient = self.divide(self.constant(1.0), self.add(power, self.constant(1.0)))
        value = self.multiply(self.multiply(self.multiply(power, self.constant(4.0)), quotient), quotient)
        return self.multiply(self.multiply(value, alpha), beta)

    def softplus(self, x: Any, steepness: Any) -> tuple[Any, Any]:
        """max(v, 0) and log(1 + exp(-|v|)) of v = steepness x: their sum is the softplus of v. Where v < 0 the second keeps its digits."""
        zero, product = self.constant(0.0), self.multiply(x, steepness)
        magnitude = self.magnitude(product)
        lost = self.fused_once(x, steepness, self._builder.fneg(product))  # by the product's rounding
        lost = self.select(self.less(product, zero), lost, self._builder.fneg(lost))
        lost = self.select(self.less(magnitude, self.constant(_EXP_END)), lost, zero)
        power = self.exp(self._builder.fneg(magnitude))
        power = self.fused(power, lost, power)
        return self.at_least(product, zero), self.log_one_plus(power)

    def divided_softplus(self, x: Any, steepness: Any) -> Any:
        """The softplus of steepness x, divided by the steepness. Where it is x plus a small term, x is not rounded."""
        _, rest = self.softplus(x, steepness)
        return self.add(self.at_least(x, self.constant(0.0)), self.divide(rest, steepness))

    def normal_tail(self, x: Any) -> tuple[Any, Any, Any]:
        """|x|, at most 40, and the normal distribution's tail beyond it: as two factors, of which the second is exp(-x^2 / 2)."""
        magnitude = self.at_most(self.magnitude(x), self.constant(40.0))
        fraction = self.divide(self.constant(1.0), self.add(magnitude, self.constant(HALF_TAIL_OFFSET)))
        tail = self.multiply(self.polynomial(fraction, HALF_TAIL), fraction)
        half = self.multiply(magnitude, self.constant(-0.5))
        exponent = self.multiply(half, magnitude)
        lost = self.fused_once(half, magnitude, self._builder.fneg(exponent))  # by the product's rounding
        power = self.exp(exponent)
        return magnitude, tail, self.fused(power, lost, power)

    def gelu(self, x: Any) -> Any:
        """max(x, 0) - 0.5 |x| erfc(|x| / sqrt(2)), which keeps its digits below 0."""
        magnitude, tail, power = self.normal_tail(x)
        return self.subtract(self.at_least(x, self.constant(0.0)), self.multiply(self.multiply(tail, magnitude), power))

    def gelu_slope(self, x: Any) -> Any:
        """For large |x| the tail beyond |x| minus |x| times the density there, or 1 minus that; near 0 from erf, which is exact at 0."""
        magnitude, tail, power = self.normal_tail(x)
        density = self.multiply(power, self.constant(_NORMAL_DENSITY))
        below = self.subtract(self.multiply(tail, power), self.multiply(magnitude, density))
        far = self.select(self.less(x, self.constant(0.0)), below, self.subtract(self.constant(1.0), below))
        half = self.constant(0.5)
        near = self.fused(x, density, self.fused(self._erf_near(self.multiply(x, self.constant(sqrt(0.5)))), half, half))
        return self.select(self.less(magnitude, self.constant(sqrt(2.0) * _ERF_BOUND)), near, far)

    def softsign(self, x: Any) -> Any:
        """Infinities return the limits."""
        bounded = self.at_most(self.at_least(x, self.constant(-_LARGEST)), self.constant(_LARGEST))
        return self.divide(bounded, self.add(self.magnitude(bounded), self.constant(1.0)))

    def softsign_slope(self, x: Any) -> Any:
        """The square of a reciprocal: the square of 1 + |x| would overflow long before the result underflows."""
        quotient = self.divide(self.constant(1.0), self.add(self.magnitude(x), self.constant(1.0)))
        return self.multiply(quotient, quotient)

    def nan_or(self, x: Any, value: Any) -> Any:
        """NaN where x is, else the value."""
        return self.select(self._builder.fcmp_unordered("uno", x, x), x, value)

    def shrink(self, x: Any, bias: Any, threshold: Any) -> Any:
        zero = self.constant(0.0)
        below = self.select(self.less(x, self._builder.fneg(threshold)), self.add(x, bias), zero)
        return self.select(self.less(threshold, x), self.subtract(x, bias), below)


@cache
def function_of(name: str, isa: Isa) -> Any:
    """The intrinsic of one vector that is the method of this name of `SimdMath`."""
    simd = simd_of(isa)

    @intrinsic
    def function(x: Any) -> Any:
        return simd.kind(simd.kind), lambda builder, arguments: getattr(SimdMath(builder, simd), name)(*arguments)

    return function


Formula = Callable[[SimdMath, Any, Any, Any], Any]
"""formula(math, x, a, b): the code of a function of a vector, whose constants are vectors, too."""


def switched_function(formulas: tuple[Formula, ...], isa: Isa) -> Any:
    """The intrinsic `function(number, a, b, x)`, which computes the formula with a number that is known only at run time.

    Args:
        formulas: the formulas.
        isa: the instruction set that it is compiled for.
    """
    simd = simd_of(isa)

    @intrinsic
    def function(number: Any, a: Any, b: Any, x: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            number, *constants, x = arguments
            a, b = (simd.repeated(builder, constant) for constant in constants)
            end, before = builder.append_basic_block("computed"), builder.block
            choice = builder.switch(builder.fptosi(number, INDEX), end)
            paths = [(before, [x])]
            for place, formula in enumerate(formulas):
                block = builder.append_basic_block(f"formula{place}")
                choice.add_case(INDEX(place), block)
                builder.position_at_end(block)
                value = formula(SimdMath(builder, simd), x, a, b)
                paths.append((builder.block, [value]))
                builder.branch(end)
            builder.position_at_end(end)
            return phis(builder, *paths)[0]

        return simd.kind(types.float32, types.float32, types.float32, simd.kind), generate

    return function
