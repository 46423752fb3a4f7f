"""The error function and the tail of the normal distribution, in the arrays' type; NumPy has neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dmlpy.reference.registry import Array

Rational = tuple[Sequence[float], Sequence[float]]
"""The coefficients of two polynomials, the highest power first."""

# W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969), 631-637, with the coefficients
# of his CALERF (1990): erf on [0, 0.46875] in x^2, erfc on [0.46875, 4] in x, erfc beyond in 1 / x^2.
ERF_NEAR: Rational = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
ERFC_MIDDLE: Rational = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1, 2.98635138197400131e2),
        *(8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3),
        *(3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
    ),
)
ERFC_FAR: Rational = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1),
        *(1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
)


# erf(x) / x in x^2, for float32: a fit whose largest relative error up to |x| = 3.92, beyond which erf is 1 in float32, is 2e-9.
_ERF_FLOAT32: Rational = (
    (
        *(-1.2799908519e-8, 4.6092551862e-6, 3.7675977509e-4, 3.8386257817e-3),
        *(5.4244005324e-2, 1.8513530999e-1, 1.1283791691),
    ),
    (6.2399377646e-5, 1.3015266247e-3, 1.5430057277e-2, 1.1387378584e-1, 4.9740530285e-1, 1.0),
)
_ERF_IS_ONE = 3.92

_BLOCK = 1 << 15
"""Elements computed at a time: the temporaries of this many stay in a core's cache."""


def erf(x: Array) -> Array:
    """The Gauss error function of every element."""
    return _erf_of_floats(x) if x.dtype == np.float32 else _in_blocks(_erf, x)


def _erf_of_floats(x: Array) -> Array:
    erf = np.empty(x.shape, x.dtype)
    values, results = x.reshape(-1), erf.reshape(-1)
    work = np.empty((3, min(values.size, _BLOCK)), x.dtype)
    for start in range(0, values.size, _BLOCK):
        value, result = (array[start : start + _BLOCK] for array in (values, results))
        clipped, square, denominator = work[:, : value.size]
        np.clip(value, -_ERF_IS_ONE, _ERF_IS_ONE, out=clipped)
        np.multiply(clipped, clipped, out=square)
        for coefficients, polynomial in zip(_ERF_FLOAT32, (result, denominator), strict=True):
            np.multiply(square, coefficients[0], out=polynomial)
            for coefficient in coefficients[1:-1]:
                polynomial += coefficient
                polynomial *= square
            polynomial += coefficients[-1]
        result /= denominator
        result *= clipped
        np.clip(result, -1.0, 1.0, out=result)
    return erf


def normal_tail(x: Array) -> Array:
    """erfc(|x| / sqrt(2)) of every element: twice the tail of the standard normal distribution beyond |x|."""
    return _in_blocks(_normal_tail, x)


def _in_blocks(function: Callable[[Array], Array], x: Array) -> Array:
    """A function of every element."""
    result = np.empty(x.shape, x.dtype)
    values, results = x.reshape(-1), result.reshape(-1)
    for start in range(0, values.size, _BLOCK):
        results[start : start + _BLOCK] = function(values[start : start + _BLOCK])
    return result


def _erf(x: Array) -> Array:
    # Next to 0 the tail is next to 1, and 1 - tail would lose erf's digits.
    return np.where(np.abs(x) < 0.46875, x * _quotient(x * x, ERF_NEAR), np.copysign(1.0 - _normal_tail(x * sqrt(2.0)), x))


def _normal_tail(x: Array) -> Array:
    magnitude = np.minimum(np.abs(x), 40.0)  # where the tail is 0 in float32 and float64
    y = magnitude * sqrt(0.5)
    near = 1.0 - y * _quotient(y * y, ERF_NEAR)
    beyond, is_far = _quotient(y, ERFC_MIDDLE), y > 4.0
    if is_far.any():
        far = (1.0 / sqrt(pi) - _quotient(1.0 / (y * y), ERFC_FAR) / (y * y)) / y
        beyond = np.where(is_far, far, beyond)
    return np.where(y < 0.46875, near, beyond * gaussian(magnitude))


def gaussian(magnitude: Array) -> Array:
    """exp(-x^2 / 2) of magnitudes |x|."""
    # In two factors, the exponent of one exact: an absolute error in an exponent is a relative one in the result.
    exact = np.trunc(magnitude * 16.0) / 16.0
    density: Array = np.exp(-0.5 * (magnitude - exact) * (magnitude + exact)) * np.exp(-0.5 * exact * exact)
    return density


def _quotient(x: Array, coefficients: Rational) -> Array:
    numerator, denominator = (_polynomial(x, polynomial) for polynomial in coefficients)
    numerator /= denominator
    return numerator


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= x
        value += coefficient
    return value
