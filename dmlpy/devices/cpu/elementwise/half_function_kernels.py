"""Functions of FLOAT16 as LLVM code: vectors of their values as floats, with errors far below what the rounding to FLOAT16 makes.

They rely on the range of halves: no finite argument is above 65504, and none but 0 is subnormal as a float. Of FLOAT32 NumPy has them.
"""

from __future__ import annotations

from math import cos, inf, log, nan, pi, sin
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.elementwise.program import Code
from dmlpy.devices.cpu.simd import INDEX

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.simd_math import SimdMath

_ROUNDING = 1.5 * 2.0**23
"""A float added to one of at most 22 bits rounds it to an integer, which is then in the lowest bits."""
_QUARTER_TURN = (1.5703125, 4.8351287841796875e-4, 3.1385570764541626e-7, 6.0771005065061922e-11)
"""Parts of pi / 2, of which the first three have few bits: their products with numbers of quarter turns of halves are exact."""
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
"""(sin(r) / r - 1) / r^2 in powers of r^2 for |r| up to pi / 4, the highest first: Cephes's, as those below."""
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5)
"""(cos(r) - 1) / r^2."""
_LOGARITHM = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
"""(ln(1 + f) - f + f^2 / 2) / f^3 for 1 + f from the root of 1 / 2 to that of 2."""
_ROOT_OF_HALF = 0.70710678
_ARCSINE = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
"""(asin(r) / r - 1) / r^2 in powers of r^2 for |r| up to 1 / 2."""
_ARCTANGENT = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
"""(atan(r) / r - 1) / r^2 in powers of r^2 for |r| up to tan(pi / 8)."""
_EIGHTH, _THREE_EIGHTHS = sin(pi / 8) / cos(pi / 8), sin(3 * pi / 8) / cos(3 * pi / 8)
"""The tangents of pi / 8 and of three times that."""
_ERF = (
    *(-5.39147614e-9, 2.63320419e-7, -5.81444033e-6, 7.78483996e-5, -7.18798585e-4),
    *(4.94404491e-3, -2.65208263e-2, 1.12613532e-1, -3.76067653e-1, 1.12837650),
)
"""erf(x) / x in powers of x^2 for |x| up to `_ERF_END`, the highest first: a fit whose largest relative error is 1e-5 in FLOAT32."""
_ERF_END = 2.875
"""Beyond this argument erf is 1 in FLOAT16."""
_HYPERBOLIC_END = 30.0
"""Beyond this argument hyperbolic functions are infinite in FLOAT16."""
_POWER_END = 200.0
"""Beyond this exponent of e powers are infinite, or 0."""


class HalfFunctions:
    """The functions.

    Args:
        math: the arithmetic.
        builder: adds instructions to a block of code.
    """

    def __init__(self, math: SimdMath, builder: Any) -> None:
        self._math, self._builder = math, builder

    def formulas(self) -> dict[Code, Callable[[Any, Any, Any, Any], Any]]:
        """The function of x, y, a and b that each instruction computes."""
        return {
            Code.SIN: lambda x, y, a, b: self._turned(x, 0),
            Code.COS: lambda x, y, a, b: self._turned(x, 1),
            Code.TAN: lambda x, y, a, b: self._tan(x),
            Code.ASIN: lambda x, y, a, b: self._asin(x),
            Code.ACOS: lambda x, y, a, b: self._acos(x),
            Code.ATAN: lambda x, y, a, b: self._atan(x),
            Code.SINH: lambda x, y, a, b: self._sinh(x),
            Code.COSH: lambda x, y, a, b: self._cosh(x),
            Code.ASINH: lambda x, y, a, b: self._asinh(x),
            Code.ACOSH: lambda x, y, a, b: self._acosh(x),
            Code.ATANH: lambda x, y, a, b: self._atanh(x),
            Code.LOG: lambda x, y, a, b: self._log(x),
            Code.POWER: lambda x, y, a, b: self._power(x, y),
            Code.ERF: lambda x, y, a, b: self._erf(x),
            Code.SIGMOID: lambda x, y, a, b: self._math.half_sigmoid(x),
            Code.SWISH: lambda x, y, a, b: self._math.half_swish(x, self._math.multiply(x, a)),
            Code.CONSTANT_POWER: lambda x, y, a, b: self._constant_power(x, a),
        }

    def _integers(self, x: Any) -> Any:
        return self._builder.bitcast(x, ir.VectorType(INDEX, x.type.count))

    def _quarters(self, x: Any) -> tuple[Any, Any, Any]:
        """x as a number of quarter turns and what is left: the number as integers, and the sine and the cosine of the rest."""
        math = self._math
        shifted = math.fused(x, math.constant(2.0 / pi), math.constant(_ROUNDING))
        turns = math.subtract(shifted, math.constant(_ROUNDING))
        rest = x
        for part in _QUARTER_TURN:
            rest = math.fused(turns, math.constant(-part), rest)
        square = math.multiply(rest, rest)
        one = math.constant(1.0)
        sine = math.multiply(rest, math.fused(square, math.polynomial(square, _SINE), one))  # keeps the sign of a zero
        cosine = math.fused(square, math.polynomial(square, _COSINE), one)
        return self._integers(shifted), sine, cosine

    def _bit(self, integers: Any, bit: int) -> Any:
        constant = ir.Constant(integers.type, [bit] * integers.type.count)
        return self._builder.icmp_signed("==", self._builder.and_(integers, constant), constant)

    def _turned(self, x: Any, quarters: int) -> Any:
        """The sine of x and some quarter turns."""
        number, sine, cosine = self._quarters(x)
        number = self._builder.add(number, ir.Constant(number.type, [quarters] * number.type.count))
        value = self._math.select(self._bit(number, 1), cosine, sine)
        return self._math.select(self._bit(number, 2), self._builder.fneg(value), value)

    def _tan(self, x: Any) -> Any:
        math, (number, sine, cosine) = self._math, self._quarters(x)
        is_odd = self._bit(number, 1)
        return math.divide(math.select(is_odd, self._builder.fneg(cosine), sine), math.select(is_odd, sine, cosine))

    def _log(self, x: Any) -> Any:
        math, builder = self._math, self._builder
        bits = self._integers(x)
        root = self._integers(math.constant(_ROOT_OF_HALF))
        # The exponent for which the rest is between the roots of 1 / 2 and 2.
        exponent = builder.ashr(builder.sub(bits, root), ir.Constant(bits.type, [23] * bits.type.count))
        scaled = builder.sub(bits, builder.shl(exponent, ir.Constant(bits.type, [23] * bits.type.count)))
        fraction = math.subtract(builder.bitcast(scaled, x.type), math.constant(1.0))
        square = math.multiply(fraction, fraction)
        rest = math.multiply(math.multiply(fraction, square), math.polynomial(fraction, _LOGARITHM))
        rest = math.fused(square, math.constant(-0.5), rest)
        value = math.fused(builder.sitofp(exponent, x.type), math.constant(log(2.0)), math.add(rest, fraction))
        zero = math.constant(0.0)
        value = math.select(builder.fcmp_ordered("==", x, zero), math.constant(-inf), value)
        value = math.select(builder.fcmp_ordered("==", x, math.constant(inf)), x, value)
        return math.select(builder.fcmp_ordered(">=", x, zero), value, math.constant(nan))

    def _erf(self, x: Any) -> Any:
        math = self._math
        x = math.at_most(math.at_least(x, math.constant(-_ERF_END)), math.constant(_ERF_END))
        return math.multiply(x, math.polynomial(math.multiply(x, x), _ERF))

    def _arcsine(self, x: Any) -> Any:
        """For |x| up to 1 / 2."""
        math = self._math
        square = math.multiply(x, x)
        return math.multiply(x, math.fused(square, math.polynomial(square, _ARCSINE), math.constant(1.0)))

    def _halved(self, x: Any) -> tuple[Any, Any, Any]:
        """Whether |x| is above 1 / 2, and the arc sine of the root of (1 - |x|) / 2 there, of |x| elsewhere; and |x|."""
        math, half = self._math, self._math.constant(0.5)
        size = math.magnitude(x)
        is_far = math.less(half, size)
        root = math.built_in("sqrt", math.multiply(math.subtract(math.constant(1.0), size), half))
        return is_far, self._arcsine(math.select(is_far, root, size)), size

    def _asin(self, x: Any) -> Any:
        math, (is_far, found, _) = self._math, self._halved(x)
        far = math.fused(found, math.constant(-2.0), math.constant(pi / 2))
        return math.built_in("copysign", math.select(is_far, far, found), x)

    def _acos(self, x: Any) -> Any:
        math, (is_far, found, _) = self._math, self._halved(x)
        twice = math.add(found, found)
        far = math.select(math.less(x, math.constant(0.0)), math.subtract(math.constant(pi), twice), twice)
        near = math.subtract(math.constant(pi / 2), math.built_in("copysign", found, x))
        return math.select(is_far, far, near)

    def _atan(self, x: Any) -> Any:
        math, one = self._math, self._math.constant(1.0)
        size = math.magnitude(x)
        is_far, is_near = math.less(math.constant(_THREE_EIGHTHS), size), math.less(size, math.constant(_EIGHTH))
        above = math.select(is_near, size, math.subtract(size, one))
        below = math.select(is_near, one, math.add(size, one))
        ratio = math.divide(math.select(is_far, math.constant(-1.0), above), math.select(is_far, size, below))
        start = math.select(is_far, math.constant(pi / 2), math.select(is_near, math.constant(0.0), math.constant(pi / 4)))
        square = math.multiply(ratio, ratio)
        rest = math.fused(math.multiply(square, ratio), math.polynomial(square, _ARCTANGENT), ratio)
        return math.built_in("copysign", math.add(start, rest), x)

    def _sinh(self, x: Any) -> Any:
        math = self._math
        power = math.exp_minus_one(math.at_most(math.magnitude(x), math.constant(_HYPERBOLIC_END)))
        twice = math.add(power, math.divide(power, math.add(power, math.constant(1.0))))
        return math.built_in("copysign", math.multiply(twice, math.constant(0.5)), x)

    def _cosh(self, x: Any) -> Any:
        math = self._math
        power = math.exp(math.at_most(math.magnitude(x), math.constant(_HYPERBOLIC_END)))
        return math.multiply(math.add(power, math.divide(math.constant(1.0), power)), math.constant(0.5))

    def _log_of_more(self, x: Any, whole: Any) -> Any:
        """ln(1 + x), where `whole` is 1 + x: with all its digits also where x is small. NaN where x is negative."""
        math = self._math
        return math.select(math.less(x, math.constant(1.0)), math.log_one_plus(x), self._log(whole))

    def _asinh(self, x: Any) -> Any:
        math, one, size = self._math, self._math.constant(1.0), self._math.magnitude(x)
        square = math.multiply(size, size)
        root = math.built_in("sqrt", math.add(square, one))
        more = math.add(size, math.divide(square, math.add(root, one)))
        more = math.select(math.less(size, math.constant(inf)), more, size)
        return math.built_in("copysign", self._log_of_more(more, math.add(size, root)), x)

    def _acosh(self, x: Any) -> Any:
        math, one = self._math, self._math.constant(1.0)
        above = math.subtract(x, one)
        # The root of a negative number is NaN.
        more = math.fused(math.built_in("sqrt", above), math.built_in("sqrt", math.add(x, one)), above)
        return self._log_of_more(more, math.add(more, one))

    def _atanh(self, x: Any) -> Any:
        math, one, size = self._math, self._math.constant(1.0), self._math.magnitude(x)
        left = math.subtract(one, size)
        more = math.divide(math.add(size, size), left)
        # Beyond 1 the quotient is negative, and so is the logarithm's argument below.
        is_near = math.less(size, math.constant(1.0 / 3.0))
        value = math.select(is_near, math.log_one_plus(more), self._log(math.divide(math.add(one, size), left)))
        return math.built_in("copysign", math.multiply(value, math.constant(0.5)), x)

    def _power(self, x: Any, y: Any) -> Any:
        """As C's pow: 1 to any power and any number to the power 0 are 1, and -1 to an infinite one."""
        math, builder, one, zero = self._math, self._builder, self._math.constant(1.0), self._math.constant(0.0)
        size = math.magnitude(x)
        product = math.multiply(y, self._log(size))
        product = math.at_most(math.at_least(product, math.constant(-_POWER_END)), math.constant(_POWER_END))
        value = math.exp(product)
        half = math.multiply(y, math.constant(0.5))
        is_whole = builder.fcmp_ordered("==", math.built_in("floor", y), y)
        is_even = builder.fcmp_ordered("==", math.built_in("floor", half), half)
        is_one = builder.and_(builder.fcmp_ordered("==", size, one), builder.fcmp_ordered("==", y, y))
        value = math.select(is_one, one, value)
        is_odd = builder.and_(is_whole, builder.not_(is_even))
        value = math.select(is_odd, math.built_in("copysign", value, x), value)
        # Negative bases have real powers of whole numbers only; minus infinity is one of the others.
        lacks = builder.and_(builder.and_(math.less(x, zero), math.less(size, math.constant(inf))), builder.not_(is_whole))
        value = math.select(builder.and_(lacks, builder.fcmp_ordered("==", y, y)), math.constant(nan), value)
        is_unit = builder.or_(builder.fcmp_ordered("==", x, one), builder.fcmp_ordered("==", y, zero))
        return math.select(is_unit, one, value)

    def _constant_power(self, x: Any, exponent: Any) -> Any:
        """As the operator with one exponent is defined: minus infinity is like other negative bases."""
        math, builder = self._math, self._builder
        is_part = builder.fcmp_ordered("!=", math.built_in("floor", exponent), exponent)
        lacks = builder.and_(math.less(x, math.constant(0.0)), is_part)
        return math.select(lacks, math.constant(nan), self._power(x, exponent))
