"""Functions of FLOAT32 as LLVM code that programs with `FUNCTIONS` have: trigonometric and hyperbolic ones, their inverses, log and pow.

They hold for all floats, subnormal ones among them. Where a step in FLOAT32 would lose digits that the result shows, it is in FLOAT64.
The polynomials are Cephes's where nothing else is said.
"""

from __future__ import annotations

from math import e as euler
from math import inf, log, log2, nan, pi
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler.functions import declared, phis
from dmlpy.devices.cpu.elementwise.program import Code
from dmlpy.devices.cpu.simd import ADDRESS, INDEX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.simd_math import SimdMath

_ROUNDING_OF_DOUBLES = 1.5 * 2.0**52
"""A double added to one of at most 51 bits rounds it to an integer, which is then in the lowest bits."""
_EXPONENT_OF_DOUBLES = 52
"""The bits of a double below its exponent."""
_QUARTER_TURN_HIGH, _QUARTER_TURN_LOW = 1.5707963267341256, 6.077100506506192e-11
"""pi / 2 as a number of 33 bits, whose products with numbers of quarter turns below `_MANY_TURNS` are exact, and the rest."""
_MANY_TURNS = 2.0**20
"""The arguments, in radians, beyond which quarter turns are counted by integers."""
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041
"""The first 192 bits of 2 / pi behind the point."""
_WINDOWS = 24
"""The numbers of 32 bits in it that begin at a byte, with zeros before the first byte."""
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
"""(sin(r) / r - 1) / r^2 in powers of r^2 for |r| up to pi / 4, the highest first."""
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5)
"""(cos(r) - 1) / r^2."""
LOGARITHM = (
    *(3.7673004e-2, -9.1162108e-2, 1.1700675e-1, -1.2727781e-1, 1.4276238e-1),
    *(-1.6655296e-1, 1.9999605e-1, -2.5000164e-1, 3.3333340e-1),
)
"""(ln(1 + f) - f + f^2 / 2) / f^3 for 1 + f from 3 / 4 to 3 / 2: a fit by which logarithms are 1e-9 of them off, at most."""
_LEAST_MANTISSA, _ROOT_OF_HALF = 0.75, 0.70710678
_LN2_HIGH, _LN2_LOW = 0.693145752, 1.42860677e-6
"""ln(2) as a number of 16 bits and the rest: both positive, so that products with infinite exponents have one sign."""
_SUBNORMAL, _TO_NORMAL = 2.0**-126, 23
"""The least normal float, and the power of two that makes subnormal ones normal."""
_FACTORS = tuple(part / 32 for part in (32, 30, 28, 27, 26, 24, 23, 22, 42, 40, 39, 38, 36, 35, 34, 32))
"""For each sixteenth of a mantissa's range the factor that brings it near 1: the product less 1 is a float, of which |r| is below 0.067."""
_NEAR_LOGARITHM = (-1.6617529e-1, 2.0081200e-1, -2.5000261e-1, 3.3333233e-1)
"""(ln(1 + r) - r + r^2 / 2) / r^3 for these: a fit by which logarithms are 4e-10 of them off, at most."""
_SIXTEENTH = 19
"""The bits of a float below the four highest of its mantissa."""
_LOGARITHM_BITS = 16
"""The bits behind the point of `_LN2_HIGH`, and of logarithms whose sums with its products are floats."""
_POWER_OF_E = (1.3958361e-3, 8.3774775e-3, 4.1666057e-2, 1.6666387e-1, 0.5, 1.0, 1.0)
"""e^r for |r| up to ln(2) / 2, and a bit more, the highest power first: a fit whose largest relative error is 2e-9."""
_POWER_BOUNDS = (-105.0, 89.0)
"""Beyond these exponents of e powers are 0, or infinite, as floats."""
_LOGARITHM_OF_DOUBLES = (0.23618336693142486, 0.28534935751007584, 0.4000038677246069, 0.6666666523524986, 2.0000000000084692)
"""2 artanh(s) / s in powers of s^2 for |s| up to 0.172, the highest first: a fit whose largest relative error is 4e-12."""
_POWER_OF_TWO_OF_DOUBLES = (
    *(0.0001547802219450562, 0.001340043183395201, 0.009617994514449266, 0.05550327215349891),
    *(0.24022651505052178, 0.6931472067098412, 0.999999999919068),
)
"""2^r for |r| up to 1 / 2, the highest power first: a fit whose largest relative error is 2e-9."""
_END_OF_DOUBLES = 1000.0
"""Beyond this exponent of 2 powers are infinite, or 0, as floats; within it they are normal doubles."""
_ARCSINE = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
"""(asin(r) / r - 1) / r^2 in powers of r^2 for |r| up to 1 / 2."""
_ARCTANGENT = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
"""(atan(r) / r - 1) / r^2 in powers of r^2 for |r| up to tan(pi / 8)."""
_EIGHTH, _THREE_EIGHTHS = 0.41421356237309503, 2.414213562373095
"""The tangents of pi / 8 and of three times that."""
_SINH = (2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1)
"""(sinh(x) / x - 1) / x^2 in powers of x^2 for |x| up to 1."""
_AREA_TANGENT = (1.81740078349e-1, 8.24370301058e-2, 1.46691431730e-1, 1.99782164500e-1, 3.33337300303e-1)
"""(artanh(x) / x - 1) / x^2 in powers of x^2 for |x| up to 1 / 2."""
_HYPERBOLIC_END = 90.0
"""Beyond this argument hyperbolic functions are infinite."""
_FAR_AREA = 4096.0
"""Beyond this argument arsinh and arcosh are the logarithm of twice the argument."""
_LEAST_DIVISOR = 1e-30
_PI_LOW = -8.742277657347586e-8
"""Pi less the float next to it."""


class _Doubles:
    """Arithmetic on vectors of doubles, as `SimdMath` has of floats."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self._builder, self.lanes = builder, lanes
        self.kind, self.integers = ir.VectorType(ir.DoubleType(), lanes), ir.VectorType(ADDRESS, lanes)
        self.add, self.subtract, self.multiply, self.divide = builder.fadd, builder.fsub, builder.fmul, builder.fdiv

    def of(self, x: Any) -> Any:
        return self._builder.fpext(x, self.kind)

    def constant(self, value: float) -> Any:
        return ir.Constant(self.kind, [value] * self.lanes)

    def integer(self, value: int) -> Any:
        return ir.Constant(self.integers, [value] * self.lanes)

    def fused(self, x: Any, y: Any, z: Any) -> Any:
        kind = ir.FunctionType(self.kind, [self.kind] * 3)
        return self._builder.call(declared(self._builder.module, kind, f"llvm.fmuladd.v{self.lanes}f64"), [x, y, z])

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        """The highest power comes first."""
        total = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.fused(total, x, self.constant(coefficient))
        return total

    def limited(self, x: Any, end: float) -> Any:
        """x from -end to end; NaN stays NaN."""
        builder, low, high = self._builder, self.constant(-end), self.constant(end)
        x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
        return builder.select(builder.fcmp_ordered(">", x, high), high, x)

    def log(self, x: Any) -> Any:
        """The natural logarithm of normal numbers from 2^-512 to 2^512, and of 0 and infinity."""
        builder, bits = self._builder, self._builder.bitcast(x, self.integers)
        root = builder.bitcast(self.constant(_ROOT_OF_HALF), self.integers)
        # The exponent for which the rest is between the roots of 1 / 2 and 2, plus 512: few processors shift 64 bits with their sign.
        bias, place = 512, self.integer(_EXPONENT_OF_DOUBLES)
        biased = builder.lshr(builder.add(builder.sub(bits, root), self.integer(bias << _EXPONENT_OF_DOUBLES)), place)
        rest = builder.bitcast(builder.sub(bits, builder.shl(builder.sub(biased, self.integer(bias)), place)), self.kind)
        exponent = builder.bitcast(builder.or_(biased, builder.bitcast(self.constant(2.0**52), self.integers)), self.kind)
        exponent = self.subtract(exponent, self.constant(2.0**52 + bias))
        one = self.constant(1.0)
        ratio = self.divide(self.subtract(rest, one), self.add(rest, one))
        of_rest = self.multiply(ratio, self.polynomial(self.multiply(ratio, ratio), _LOGARITHM_OF_DOUBLES))
        result = self.fused(exponent, self.constant(log(2.0)), of_rest)
        result = builder.select(builder.fcmp_ordered("==", x, self.constant(0.0)), self.constant(-inf), result)
        result = builder.select(builder.fcmp_ordered("==", x, self.constant(inf)), x, result)
        return builder.select(builder.fcmp_ordered(">=", x, self.constant(0.0)), result, self.constant(nan))

    def exp(self, x: Any) -> Any:
        """e to the power of x, with a relative error of 2e-9."""
        builder, shift = self._builder, self.constant(_ROUNDING_OF_DOUBLES)
        x = self.limited(self.multiply(x, self.constant(log2(euler))), _END_OF_DOUBLES)
        shifted = self.add(x, shift)
        power = self.polynomial(self.subtract(x, self.subtract(shifted, shift)), _POWER_OF_TWO_OF_DOUBLES)
        exponent = builder.shl(builder.bitcast(shifted, self.integers), self.integer(_EXPONENT_OF_DOUBLES))
        return builder.bitcast(builder.add(builder.bitcast(power, self.integers), exponent), self.kind)


class Functions:
    """The functions that `formulas` lists, each of vectors of floats.

    Args:
        math: the arithmetic.
        builder: adds instructions to a block of code.
    """

    def __init__(self, math: SimdMath, builder: Any) -> None:
        self._math, self._builder = math, builder
        self._doubles = _Doubles(builder, math.constant(0.0).type.count)

    def formulas(self) -> dict[Code, Callable[[Any, Any, Any, Any], Any]]:
        """The function of x, y, a and b that each instruction computes."""
        return {
            Code.SIN: lambda x, y, a, b: self._sine_of_turned(x, 0),
            Code.COS: lambda x, y, a, b: self._sine_of_turned(x, 1),
            Code.TAN: lambda x, y, a, b: self._tan(x),
            Code.ASIN: lambda x, y, a, b: self._asin(x),
            Code.ACOS: lambda x, y, a, b: self._acos(x),
            Code.ATAN: lambda x, y, a, b: self._atan(x),
            Code.ATAN_YX: lambda x, y, a, b: self._atan_yx(x, y),
            Code.SINH: lambda x, y, a, b: self._sinh(x),
            Code.COSH: lambda x, y, a, b: self._cosh(x),
            Code.ASINH: lambda x, y, a, b: self._asinh(x),
            Code.ACOSH: lambda x, y, a, b: self._acosh(x),
            Code.ATANH: lambda x, y, a, b: self._atanh(x),
            Code.LOG: lambda x, y, a, b: self._log(x),
            Code.POWER: lambda x, y, a, b: self._power(x, y),
            Code.CONSTANT_POWER: lambda x, y, a, b: self._constant_power(x, a),
        }

    def _integers(self, x: Any) -> Any:
        return self._builder.bitcast(x, ir.VectorType(INDEX, x.type.count))

    def _float(self, x: Any) -> Any:
        return self._builder.fptrunc(x, self._math.constant(0.0).type)

    # Sines and cosines

    def _reduce_to_quarter_turns(self, x: Any) -> tuple[Any, Any]:
        """Range reduction: x as a number of quarter turns, of which the two lowest bits are right, and the rest, up to pi / 4.

        By Cody and Waite's method in FLOAT64; from `_MANY_TURNS` on by Payne and Hanek's.
        """
        math, builder, doubles = self._math, self._builder, self._doubles
        wide, shift = doubles.of(x), doubles.constant(_ROUNDING_OF_DOUBLES)
        shifted = doubles.fused(wide, doubles.constant(2.0 / pi), shift)
        turns = doubles.subtract(shifted, shift)
        rest = doubles.fused(turns, doubles.constant(-_QUARTER_TURN_HIGH), wide)
        rest = self._float(doubles.fused(turns, doubles.constant(-_QUARTER_TURN_LOW), rest))
        indices = ir.VectorType(INDEX, doubles.lanes)
        number = builder.trunc(builder.bitcast(shifted, doubles.integers), indices)
        are_many, mask = builder.fcmp_unordered(">=", math.magnitude(x), math.constant(_MANY_TURNS)), ir.IntType(doubles.lanes)
        before = builder.block
        with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(are_many, mask), mask(0)), likely=False):
            many, left = self._payne_hanek(x)
            many, left = builder.select(are_many, many, number), math.select(are_many, left, rest)
            after = builder.block
        number, rest = phis(builder, (before, [number, rest]), (after, [many, left]))
        return number, rest

    def _payne_hanek(self, x: Any) -> tuple[Any, Any]:
        """`_reduce_to_quarter_turns` by Payne and Hanek's method, for |x| from 2 on; the rest of infinities and NaN is NaN.

        x is a whole number times a power of two. Its product with 2 / pi, of which the bits before the power's place are left out, is
        computed modulo 4 with 62 bits behind the point.
        """
        math, builder, doubles = self._math, self._builder, self._doubles
        bits, indices = self._integers(x), ir.VectorType(INDEX, doubles.lanes)

        def index(value: int) -> Any:
            return ir.Constant(indices, [value] * doubles.lanes)

        whole = builder.or_(builder.and_(bits, index(0x7FFFFF)), index(0x800000))
        whole = builder.zext(builder.shl(whole, builder.and_(builder.lshr(bits, index(23)), index(7))), doubles.integers)
        first = builder.and_(builder.lshr(bits, index(26)), index(15))
        windows = [_TWO_OVER_PI >> 8 * (_WINDOWS - 1 - at) & 0xFFFFFFFF for at in range(_WINDOWS)]
        parts = [index(windows[part]) for part in (0, 4, 8)]
        for number in range(1, 16):
            is_first = builder.icmp_signed("==", first, index(number))
            parts = [builder.select(is_first, index(windows[number + at]), part) for at, part in zip((0, 4, 8), parts, strict=True)]
        high, middle, low = (builder.mul(whole, builder.zext(part, doubles.integers)) for part in parts)
        product = builder.or_(builder.lshr(low, doubles.integer(32)), builder.shl(high, doubles.integer(32)))
        product = builder.add(product, middle)
        turns = builder.lshr(builder.add(product, doubles.integer(1 << 61)), doubles.integer(62))
        rest = builder.sitofp(builder.sub(product, builder.shl(turns, doubles.integer(62))), doubles.kind)
        rest = self._float(doubles.multiply(rest, doubles.constant(pi / 2 * 2.0**-62)))
        number, is_below = builder.trunc(turns, indices), math.less(x, math.constant(0.0))
        number = builder.select(is_below, builder.sub(index(0), number), number)
        rest = math.select(is_below, builder.fneg(rest), rest)
        return number, math.select(math.less(math.magnitude(x), math.constant(inf)), rest, math.constant(nan))

    def _sine_and_cosine(self, x: Any) -> tuple[Any, Any, Any]:
        """The number of quarter turns in x, and the sine and the cosine of the rest, which range reduction leaves."""
        math, (number, rest) = self._math, self._reduce_to_quarter_turns(x)
        square = math.multiply(rest, rest)
        sine = math.fused(math.multiply(rest, square), math.polynomial(square, _SINE), rest)
        sine = math.built_in("copysign", sine, rest)  # that of -0
        return number, sine, math.fused(square, math.polynomial(square, _COSINE), math.constant(1.0))

    def _bit(self, integers: Any, bit: int) -> Any:
        constant = ir.Constant(integers.type, [bit] * integers.type.count)
        return self._builder.icmp_signed("==", self._builder.and_(integers, constant), constant)

    def _sine_of_turned(self, x: Any, quarters: int) -> Any:
        """The sine of x and some quarter turns."""
        number, sine, cosine = self._sine_and_cosine(x)
        number = self._builder.add(number, ir.Constant(number.type, [quarters] * number.type.count))
        value = self._math.select(self._bit(number, 1), cosine, sine)
        return self._math.select(self._bit(number, 2), self._builder.fneg(value), value)

    def _tan(self, x: Any) -> Any:
        math, (number, sine, cosine) = self._math, self._sine_and_cosine(x)
        is_odd = self._bit(number, 1)
        return math.divide(math.select(is_odd, self._builder.fneg(cosine), sine), math.select(is_odd, sine, cosine))

    # Their inverses

    def _arcsine(self, x: Any) -> Any:
        """For |x| up to 1 / 2."""
        math = self._math
        square = math.multiply(x, x)
        return math.fused(math.multiply(x, square), math.polynomial(square, _ARCSINE), x)

    def _half_angle_arcsine(self, x: Any) -> tuple[Any, Any]:
        """Whether |x| is above 1 / 2, and the arc sine of the root of (1 - |x|) / 2 there, of |x| elsewhere."""
        math, half = self._math, self._math.constant(0.5)
        magnitude = math.magnitude(x)
        is_far = math.less(half, magnitude)
        root = math.square_root(math.multiply(math.subtract(math.constant(1.0), magnitude), half))
        return is_far, self._arcsine(math.select(is_far, root, magnitude))

    def _asin(self, x: Any) -> Any:
        math, (is_far, arcsine) = self._math, self._half_angle_arcsine(x)
        far = math.add(math.fused(arcsine, math.constant(-2.0), math.constant(pi / 2)), math.constant(_PI_LOW / 2))
        return math.built_in("copysign", math.select(is_far, far, arcsine), x)

    def _acos(self, x: Any) -> Any:
        math, (is_far, arcsine) = self._math, self._half_angle_arcsine(x)
        twice = math.add(arcsine, arcsine)
        beyond = math.subtract(math.constant(pi), math.subtract(twice, math.constant(_PI_LOW)))
        far = math.select(math.less(x, math.constant(0.0)), beyond, twice)
        near = math.subtract(math.constant(pi / 2), math.subtract(math.built_in("copysign", arcsine, x), math.constant(_PI_LOW / 2)))
        return math.select(is_far, far, near)

    def _atan(self, x: Any) -> Any:
        math, one = self._math, self._math.constant(1.0)
        magnitude = math.magnitude(x)
        is_far, is_near = math.less(math.constant(_THREE_EIGHTHS), magnitude), math.less(magnitude, math.constant(_EIGHTH))
        above = math.select(is_near, magnitude, math.subtract(magnitude, one))
        below = math.select(is_near, one, math.add(magnitude, one))
        ratio = math.divide(math.select(is_far, math.constant(-1.0), above), math.select(is_far, magnitude, below))
        start = math.select(is_far, math.constant(pi / 2), math.select(is_near, math.constant(0.0), math.constant(pi / 4)))
        square = math.multiply(ratio, ratio)
        rest = math.fused(math.multiply(square, ratio), math.polynomial(square, _ARCTANGENT), ratio)
        return math.built_in("copysign", math.add(start, rest), x)

    def _atan_yx(self, y: Any, x: Any) -> Any:
        """The angle of (x, y), as C's atan2: also of zeros, by their signs, and of infinities."""
        math, builder, zero = self._math, self._builder, self._math.constant(0.0)
        of_x, of_y = math.magnitude(x), math.magnitude(y)
        ratio = math.divide(of_y, of_x)
        are_infinite = builder.and_(builder.fcmp_ordered("==", of_x, of_y), builder.fcmp_ordered("==", of_x, math.constant(inf)))
        ratio = math.select(are_infinite, math.constant(1.0), ratio)
        ratio = math.select(builder.and_(builder.fcmp_ordered("==", y, zero), builder.fcmp_ordered("==", x, x)), zero, ratio)
        angle, bits = self._atan(ratio), self._integers(x)
        is_left = builder.icmp_signed("<", bits, ir.Constant(bits.type, [0] * bits.type.count))
        beyond = math.subtract(math.constant(pi), math.subtract(angle, math.constant(_PI_LOW)))
        return math.built_in("copysign", math.select(is_left, beyond, angle), y)

    # Hyperbolic functions and their inverses

    def _half_exp(self, magnitude: Any) -> Any:
        """exp(magnitude) / 2 and exp(-magnitude) / 2."""
        math, quarter = self._math, self._math.constant(0.25)
        power = math.half_exp(math.at_most(magnitude, math.constant(_HYPERBOLIC_END)))
        return power, math.divide(quarter, power)

    def _sinh(self, x: Any) -> Any:
        math, magnitude = self._math, self._math.magnitude(x)
        square = math.multiply(x, x)
        near = math.fused(math.multiply(x, square), math.polynomial(square, _SINH), x)
        far = math.subtract(*self._half_exp(magnitude))
        return math.built_in("copysign", math.select(math.less(math.constant(1.0), magnitude), far, near), x)

    def _cosh(self, x: Any) -> Any:
        return self._math.add(*self._half_exp(self._math.magnitude(x)))

    def _asinh(self, x: Any) -> Any:
        math, one, magnitude = self._math, self._math.constant(1.0), self._math.magnitude(x)
        square = math.fused_once(magnitude, magnitude, one)
        lost = math.fused_once(magnitude, magnitude, math.subtract(one, square))
        root = math.square_root(square)
        return math.built_in("copysign", self._log_of_sum_with_root(magnitude, (root, magnitude), (square, lost, root)), x)

    def _acosh(self, x: Any) -> Any:
        math, one = self._math, self._math.constant(1.0)
        above = math.subtract(x, one)
        twice = math.add(above, above)
        square = math.fused_once(above, above, twice)
        lost = math.fused_once(above, above, math.subtract(twice, square))
        root = math.square_root(square)
        return math.select(math.less(x, one), math.constant(nan), self._log_of_sum_with_root(x, (x, root), (square, lost, root)))

    def _log_of_sum_with_root(self, number: Any, terms: tuple[Any, Any], radicand: tuple[Any, Any, Any]) -> Any:
        """The logarithm of the sum of a number and a root.

        Args:
            number: the number.
            terms: the larger and the smaller one of both: their difference is the sum's reciprocal.
            radicand: of what the root is, what was lost when that was rounded, and the root.
        """
        math, (larger, smaller), (square, lost, root) = self._math, terms, radicand
        total = math.add(larger, smaller)
        # What the root and the sum lost, as parts of the sum.
        rest = math.add(math.fused_once(self._builder.fneg(root), root, square), lost)
        divisor = math.multiply(math.add(root, root), total)
        rest = math.divide(rest, math.select(math.less(divisor, math.constant(_LEAST_DIVISOR)), math.constant(_LEAST_DIVISOR), divisor))
        rest = math.fused(math.add(math.subtract(larger, total), smaller), math.subtract(larger, smaller), rest)
        is_far, zero = math.less(math.constant(_FAR_AREA), number), math.constant(0.0)
        exponent, fraction = self._frexp_of_normal(math.select(is_far, number, total))
        exponent = math.add(exponent, math.select(is_far, math.constant(1.0), zero))
        value = self._logarithm(exponent, fraction, math.select(is_far, zero, rest))
        return math.select(self._builder.fcmp_ordered("==", number, math.constant(inf)), number, value)

    def _atanh(self, x: Any) -> Any:
        """Far from 0 by a quotient that is negative beyond 1, whose logarithm is NaN."""
        math, one, half = self._math, self._math.constant(1.0), self._math.constant(0.5)
        magnitude, square = math.magnitude(x), math.multiply(x, x)
        near = math.fused(math.multiply(x, square), math.polynomial(square, _AREA_TANGENT), x)
        far = math.multiply(self._log(math.divide(math.add(one, magnitude), math.subtract(one, magnitude))), half)
        return math.built_in("copysign", math.select(math.less(half, magnitude), far, near), x)

    # Logarithms and powers

    def _frexp_of_normal(self, x: Any) -> tuple[Any, Any]:
        """The exponent, as a float, and f of positive normal x = (1 + f) 2^exponent, with 1 + f from 3 / 4 to 3 / 2."""
        math, builder = self._math, self._builder
        if math.scales_at_once:
            mantissa = math.mantissa(x)
            return math.subtract(math.exponent(x), math.exponent(mantissa)), math.subtract(mantissa, math.constant(1.0))
        bits, least = self._integers(x), self._integers(math.constant(_LEAST_MANTISSA))
        place = ir.Constant(bits.type, [23] * bits.type.count)
        exponent = builder.ashr(builder.sub(bits, least), place)
        fraction = math.subtract(builder.bitcast(builder.sub(bits, builder.shl(exponent, place)), x.type), math.constant(1.0))
        return builder.sitofp(exponent, x.type), fraction

    def _frexp(self, x: Any) -> tuple[Any, Any]:
        """The same of any number that is not negative: minus infinity and infinity are the exponents of 0 and infinity."""
        math, builder = self._math, self._builder
        if math.scales_at_once:
            return self._frexp_of_normal(x)
        exponent, fraction = self._frexp_of_finite(x)
        exponent = math.select(builder.fcmp_ordered("==", x, math.constant(0.0)), math.constant(-inf), exponent)
        return math.select(builder.fcmp_ordered("==", x, math.constant(inf)), x, exponent), fraction

    def _frexp_of_finite(self, x: Any) -> tuple[Any, Any]:
        math = self._math
        is_subnormal = math.less(x, math.constant(_SUBNORMAL))
        exponent, fraction = self._frexp_of_normal(math.select(is_subnormal, math.multiply(x, math.constant(2.0**_TO_NORMAL)), x))
        return math.select(is_subnormal, math.subtract(exponent, math.constant(float(_TO_NORMAL))), exponent), fraction

    def _logarithm(self, exponent: Any, fraction: Any, more: Any = None) -> Any:
        """ln(1 + fraction) and ln(2) times the exponent, and a small term."""
        math = self._math
        square = math.multiply(fraction, fraction)
        cube = math.multiply(fraction, square)
        polynomial = math.polynomial(fraction, LOGARITHM)
        rest = math.multiply(cube, polynomial) if more is None else math.fused(cube, polynomial, more)
        rest = math.fused(exponent, math.constant(_LN2_LOW), rest)
        rest = math.add(math.fused(square, math.constant(-0.5), rest), fraction)
        return math.fused(exponent, math.constant(_LN2_HIGH), rest)

    def _log(self, x: Any) -> Any:
        return self._unless_negative(x, self._logarithm(*self._frexp(x)))

    def _unless_negative(self, x: Any, value: Any) -> Any:
        math = self._math
        return math.select(self._builder.fcmp_unordered("<", x, math.constant(0.0)), math.constant(nan), value)

    def _look_up(self, number: Any, values: Sequence[float]) -> Any:
        """Looks up each lane in a table of 16 values, by the four lowest bits of an integer, where `scales_at_once`."""
        kind, table = self._math.constant(0.0).type, [float(np.float32(value)) for value in values]
        function = declared(self._builder.module, ir.FunctionType(kind, [kind, number.type]), "llvm.x86.avx512.permvar.sf.512")
        return self._builder.call(function, [ir.Constant(kind, table), number])

    def _log_in_two_floats(self, x: Any) -> tuple[Any, Any]:
        """The logarithm of a number that is not negative, as the sum of two floats, of which the second is NaN at 0 and infinity.

        That of 1 + r is r - r^2 / 2, also as two floats, and a small term.
        """
        math, builder = self._math, self._builder
        mantissa = math.mantissa(x)
        exponent, bits = math.subtract(math.exponent(x), math.exponent(mantissa)), self._integers(mantissa)
        sixteenth = builder.lshr(bits, ir.Constant(bits.type, [_SIXTEENTH] * bits.type.count))
        logarithms = [-log(factor) for factor in _FACTORS]
        parts = [round(number * 2**_LOGARITHM_BITS) / 2**_LOGARITHM_BITS for number in logarithms]
        start = math.fused(exponent, math.constant(_LN2_HIGH), self._look_up(sixteenth, parts))
        rests = self._look_up(sixteenth, [number - part for number, part in zip(logarithms, parts, strict=True)])
        fraction = math.fused(mantissa, self._look_up(sixteenth, _FACTORS), math.constant(-1.0))
        square, half = math.multiply(fraction, fraction), math.multiply(fraction, math.constant(-0.5))
        high = math.fused(half, fraction, fraction)
        low = math.fused(half, fraction, math.subtract(fraction, high))
        rests = math.fused(exponent, math.constant(_LN2_LOW), rests)
        rests = math.fused(math.multiply(fraction, square), math.polynomial(fraction, _NEAR_LOGARITHM), rests)
        total = math.add(start, high)
        return total, math.add(math.add(low, rests), math.add(math.subtract(start, total), high))

    def _power_of_magnitude(self, magnitude: Any, exponent: Any) -> Any:
        """A number that is not negative to some power; any number where special cases of ones and zeros hold."""
        if not self._math.scales_at_once:
            doubles = self._doubles
            return self._float(doubles.exp(doubles.multiply(doubles.of(exponent), doubles.log(doubles.of(magnitude)))))
        math, builder, (least, most) = self._math, self._builder, map(self._math.constant, _POWER_BOUNDS)
        high, low = self._log_in_two_floats(magnitude)
        product = math.multiply(exponent, high)
        bounded = math.at_most(math.at_least(product, least), most)
        rest = math.fused(exponent, low, math.fused(exponent, high, builder.fneg(product)))
        rest = math.select(builder.fcmp_ordered("==", product, bounded), rest, math.constant(0.0))
        return math.exp_of_sum(bounded, rest, _POWER_OF_E)

    def _power(self, x: Any, y: Any) -> Any:
        """The power as C's pow defines it: 1 to any power and any number to the power 0 are 1, and -1 to an infinite one."""
        math, builder, infinite = self._math, self._builder, self._math.constant(inf)
        value = self._power_of_magnitude(math.magnitude(x), y)
        is_usual = builder.and_(math.less(math.constant(0.0), x), math.less(x, infinite))
        is_usual = builder.and_(is_usual, math.less(math.magnitude(y), infinite))
        mask, before = ir.IntType(self._doubles.lanes), builder.block
        with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(is_usual, mask), mask(-1)), likely=False):
            ruled, after = self._with_special_cases(x, y, value), builder.block
        return phis(builder, (before, [value]), (after, [ruled]))[0]

    def _with_special_cases(self, x: Any, y: Any, value: Any) -> Any:
        """x to the power y by the special cases of C's pow, else `value`, which is |x| to the power y, with the right sign."""
        math, builder, one, zero = self._math, self._builder, self._math.constant(1.0), self._math.constant(0.0)
        magnitude = math.magnitude(x)
        half = math.multiply(y, math.constant(0.5))
        is_whole = builder.fcmp_ordered("==", math.built_in("floor", y), y)
        is_even = builder.fcmp_ordered("==", math.built_in("floor", half), half)
        is_one = builder.and_(builder.fcmp_ordered("==", magnitude, one), builder.fcmp_ordered("==", y, y))
        value = math.select(is_one, one, value)
        is_odd = builder.and_(is_whole, builder.not_(is_even))
        value = math.select(is_odd, math.built_in("copysign", value, x), value)
        # Negative bases have real powers of whole numbers only; minus infinity is one of the others.
        is_undefined = builder.and_(builder.and_(math.less(x, zero), math.less(magnitude, math.constant(inf))), builder.not_(is_whole))
        value = math.select(builder.and_(is_undefined, builder.fcmp_ordered("==", y, y)), math.constant(nan), value)
        is_unit = builder.or_(builder.fcmp_ordered("==", x, one), builder.fcmp_ordered("==", y, zero))
        return math.select(is_unit, one, value)

    def _constant_power(self, x: Any, exponent: Any) -> Any:
        """The power as the operator with one exponent defines it: minus infinity is like other negative bases."""
        math, builder = self._math, self._builder
        is_fractional = builder.fcmp_ordered("!=", math.built_in("floor", exponent), exponent)
        is_undefined = builder.and_(math.less(x, math.constant(0.0)), is_fractional)
        return math.select(is_undefined, math.constant(nan), self._power(x, exponent))
