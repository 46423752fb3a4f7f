"""Functions of FLOAT16 as LLVM code: vectors of their values as floats, with errors far below what the rounding to FLOAT16 makes.

They rely on the range of halves: no finite argument is above 65504, and none but 0 is subnormal as a float.
"""

from __future__ import annotations

from math import log, pi
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.elementwise.function_kernels import LOGARITHM, Functions
from dmlpy.devices.cpu.elementwise.program import Code
from dmlpy.devices.cpu.isa import fuses_products

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDING = 1.5 * 2.0**23
"""A float added to one of at most 22 bits rounds it to an integer, which is then in the lowest bits."""
_QUARTER_TURN = (1.5703125, 4.8351287841796875e-4, 3.1385570764541626e-7, 6.0771005065061922e-11)
"""Parts of pi / 2, of which the first three have few bits: their products with numbers of quarter turns of halves are exact."""
_ERF = (
    *(-5.39147614e-9, 2.63320419e-7, -5.81444033e-6, 7.78483996e-5, -7.18798585e-4),
    *(4.94404491e-3, -2.65208263e-2, 1.12613532e-1, -3.76067653e-1, 1.12837650),
)
"""erf(x) / x in powers of x^2 for |x| up to `_ERF_END`, the highest first: a fit whose largest relative error is 1e-5 in FLOAT32."""
_ERF_END = 2.875
"""Beyond this argument erf is 1 in FLOAT16."""
_POWER_END = 200.0
"""Beyond this exponent of e powers are infinite, or 0."""


class HalfFunctions(Functions):
    """The functions of `Functions`, some by shorter polynomials or without steps that FLOAT16 does not show.

    Args:
        math: the arithmetic.
        builder: adds instructions to a block of code.
    """

    def formulas(self) -> dict[Code, Callable[[Any, Any, Any, Any], Any]]:
        """The function of x, y, a and b that each instruction computes."""
        return super().formulas() | {
            Code.ERF: lambda x, y, a, b: self._erf(x),
            Code.SIGMOID: lambda x, y, a, b: self._math.half_sigmoid(x),
            Code.SWISH: lambda x, y, a, b: self._math.half_swish(x, self._math.multiply(x, a)),
        }

    def _reduce_to_quarter_turns(self, x: Any) -> tuple[Any, Any]:
        if not fuses_products():
            return super()._reduce_to_quarter_turns(x)  # the differences below have more bits than floats
        math = self._math
        shifted = math.fused(x, math.constant(2.0 / pi), math.constant(_ROUNDING))
        turns = math.subtract(shifted, math.constant(_ROUNDING))
        rest = x
        for part in _QUARTER_TURN:
            rest = math.fused(turns, math.constant(-part), rest)
        return self._integers(shifted), rest

    def _frexp_of_finite(self, x: Any) -> tuple[Any, Any]:
        return self._frexp_of_normal(x)

    def _log(self, x: Any) -> Any:
        math, (exponent, fraction) = self._math, self._frexp(x)
        square = math.multiply(fraction, fraction)
        rest = math.multiply(math.multiply(fraction, square), math.polynomial(fraction, LOGARITHM))
        rest = math.add(math.fused(square, math.constant(-0.5), rest), fraction)
        return self._unless_negative(x, math.fused(exponent, math.constant(log(2.0)), rest))

    def _erf(self, x: Any) -> Any:
        math = self._math
        x = math.at_most(math.at_least(x, math.constant(-_ERF_END)), math.constant(_ERF_END))
        return math.multiply(x, math.polynomial(math.multiply(x, x), _ERF))

    def _power_of_magnitude(self, magnitude: Any, exponent: Any) -> Any:
        if self._math.scales_at_once:
            return super()._power_of_magnitude(magnitude, exponent)
        math = self._math
        product = math.multiply(exponent, self._log(magnitude))
        product = math.at_most(math.at_least(product, math.constant(-_POWER_END)), math.constant(_POWER_END))
        return math.exp(product)
