"""The element-wise activations in NumPy: in place or from one array to another, in the arrays' type, without temporaries.

A formula takes `(x, out, work, mask, *constants)`: `out` is `x` itself or shares no memory with it; `work` (rows like `x`) and `mask`
(bools like `x`) are scratch. Every formula is right from the smallest to the largest number and for infinities, also where the plain
expression overflows or divides infinity by infinity. NaN stays NaN, except where the definition itself makes it 0 (THRESHOLDED_RELU,
SHRINK).

Callers suppress floating-point warnings (`numpy.errstate`): lanes that a selection then discards may overflow on the way. A selection is
arithmetic on the elements' bits: NumPy's masked copies take one element after the other, ten times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from dmlpy.operators.activation import (
    ActivationCeluDesc,
    ActivationDesc,
    ActivationEluDesc,
    ActivationGeluDesc,
    ActivationHardSigmoidDesc,
    ActivationHardSwishDesc,
    ActivationIdentityDesc,
    ActivationLeakyReluDesc,
    ActivationLinearDesc,
    ActivationParametricSoftplusDesc,
    ActivationReluDesc,
    ActivationScaledEluDesc,
    ActivationScaledTanhDesc,
    ActivationShrinkDesc,
    ActivationSigmoidDesc,
    ActivationSoftplusDesc,
    ActivationSoftsignDesc,
    ActivationSwishDesc,
    ActivationTanhDesc,
    ActivationThresholdedReluDesc,
)
from dmlpy.reference.special import ERF_NEAR, ERFC_FAR, ERFC_MIDDLE

Array = np.ndarray[Any, np.dtype[Any]]
Formula = Callable[..., None]

_MINUS_ONE = np.array(-1.0, np.float32)
"""Used instead of `numpy.negative`, which NumPy 2.4 computes wrongly in place on elements with a stride of 16 or 64 bytes."""


@dataclass(frozen=True)
class ElementWise:
    """A formula prepared for arrays of one type. Each subclass has its own formulas."""

    formulas: ClassVar[dict[type[ActivationDesc], tuple[Formula, tuple[str | float, ...], int]]]
    """The formula of each operator, its constants and how many rows of `work` it needs."""

    formula: Formula
    constants: tuple[Array, ...]
    """Zero-dimensional arrays: NumPy handles them faster than Python numbers."""
    work: int
    """Rows of scratch that a call needs."""

    @classmethod
    def define(cls, kind: type[ActivationDesc], *constants: str | float, work: int = 0) -> Callable[[Formula], Formula]:
        """Registers the formula of an operator: its constants (fields of the desc, or numbers) and how many rows of `work` it needs."""

        def register(formula: Formula) -> Formula:
            cls.formulas[kind] = (formula, constants, work)
            return formula

        return register

    @classmethod
    def of(cls, desc: ActivationDesc, dtype: np.dtype[Any]) -> Self:
        """The formula of the activation that a desc describes.

        Raises:
            TypeError: the desc is of no element-wise activation known here.
        """
        if type(desc) not in cls.formulas:
            raise TypeError(f"{type(desc).__name__} has no element-wise formula")
        formula, constants, work = cls.formulas[type(desc)]
        with np.errstate(over="ignore"):
            values = (getattr(desc, constant) if isinstance(constant, str) else constant for constant in constants)
            return cls(formula, tuple(np.array(value, dtype) for value in values), work)

    def bind(self, x: Array, out: Array, work: Array, mask: Array) -> Callable[[], None]:
        """Makes a call that computes `out` from `x`, both one-dimensional; `work` is [at least self.work, at least x.size]."""
        return partial(self.formula, x, out, work[: self.work, : x.size], mask[: x.size], *self.constants)


class Activation(ElementWise):
    """An activation prepared for arrays of one type."""

    formulas = {}


_formula = Activation.define


_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
"""The integer types as wide as an element."""


def _replace(x: Array, out: Array, mask: Array, values: Array) -> None:
    """Writes `values` where the mask is set and `x` elsewhere. It overwrites `values`; `out` may be either of the two."""
    bits = _BITS[x.itemsize]
    x_bits, differing = x.view(bits), values.view(bits)
    np.bitwise_xor(x_bits, differing, differing)
    np.multiply(differing, mask.view(np.int8), differing)
    np.bitwise_xor(x_bits, differing, out.view(bits))


def _keep(x: Array, out: Array, mask: Array) -> None:
    """Writes `x` where the mask is set and 0 elsewhere."""
    bits = _BITS[x.itemsize]
    np.multiply(x.view(bits), mask.view(np.int8), out.view(bits))


_LONG = 1 << 12
"""Elements from which the faster loop of `numpy.clip` outweighs its slower call."""


def _at_least(x: Array, least: Array | float, out: Array) -> None:
    """Computes max(x, least)."""
    if x.dtype.kind != "f" or x.size < _LONG:
        np.maximum(x, least, out=out)
    else:
        np.clip(x, least, np.inf, out=out)  # takes a third of maximum's time, which has no vector loop for a scalar operand


def _positive(x: Array, zero: Array, out: Array) -> None:
    """Computes max(x, 0), which is +0 of either zero: NumPy's functions return one or the other."""
    _at_least(x, zero, out)
    if x.dtype.kind == "f":
        np.add(out, zero, out=out)


def _at_most(x: Array, most: Array | float, out: Array) -> None:
    """Computes min(x, most)."""
    if x.dtype.kind != "f" or x.size < _LONG:
        np.minimum(x, most, out=out)
    else:
        np.clip(x, -np.inf, most, out=out)


@_formula(ActivationIdentityDesc)
def _identity(x: Array, out: Array, work: Array, mask: Array) -> None:
    if out is not x:
        out[...] = x


@_formula(ActivationLinearDesc, "alpha", "beta")
def _linear(x: Array, out: Array, work: Array, mask: Array, alpha: Array, beta: Array) -> None:
    np.multiply(x, alpha, out)
    np.add(out, beta, out)


@_formula(ActivationReluDesc, 0.0)
def _relu(x: Array, out: Array, work: Array, mask: Array, zero: Array) -> None:
    _positive(x, zero, out)


@_formula(ActivationLeakyReluDesc, 0.0, "alpha", work=1)
def _leaky_relu(x: Array, out: Array, work: Array, mask: Array, zero: Array, alpha: Array) -> None:
    scaled = work[0]
    np.less(x, zero, mask)
    np.multiply(x, alpha, scaled)
    _replace(x, out, mask, scaled)


@_formula(ActivationThresholdedReluDesc, "alpha")
def _thresholded_relu(x: Array, out: Array, work: Array, mask: Array, alpha: Array) -> None:
    np.greater(x, alpha, mask)
    _keep(x, out, mask)


@_formula(ActivationEluDesc, 0.0, "alpha", work=1)
def _elu(x: Array, out: Array, work: Array, mask: Array, zero: Array, alpha: Array) -> None:
    below = work[0]
    np.less(x, zero, mask)
    np.expm1(x, below)
    np.multiply(below, alpha, below)
    _replace(x, out, mask, below)


@_formula(ActivationCeluDesc, 0.0, "alpha", work=1)
def _celu(x: Array, out: Array, work: Array, mask: Array, zero: Array, alpha: Array) -> None:
    # For either sign of alpha max(0, x) + min(0, alpha * (exp(x / alpha) - 1)) has one term that is zero, chosen by x's sign.
    below = work[0]
    np.less(x, zero, mask)
    np.divide(x, alpha, below)
    np.expm1(below, below)
    np.multiply(below, alpha, below)
    _replace(x, out, mask, below)


@_formula(ActivationScaledEluDesc, 0.0, "alpha", "gamma", work=1)
def _scaled_elu(x: Array, out: Array, work: Array, mask: Array, zero: Array, alpha: Array, gamma: Array) -> None:
    below = work[0]
    np.less_equal(x, zero, mask)
    np.expm1(x, below)
    np.multiply(below, alpha, below)
    _replace(x, out, mask, below)
    np.multiply(out, gamma, out)


@_formula(ActivationHardSigmoidDesc, 0.0, 1.0, "alpha", "beta")
def _hard_sigmoid(x: Array, out: Array, work: Array, mask: Array, zero: Array, one: Array, alpha: Array, beta: Array) -> None:
    np.multiply(x, alpha, out)
    np.add(out, beta, out)
    _at_most(out, one, out)
    _positive(out, zero, out)


_SIGMOID_IS_ONE = 40.0
"""From this argument on the sigmoid is 1, in either type."""


def logistic(x: Array, out: Array, work: Array, one: Array) -> None:
    """Computes exp(x) / (1 + exp(x)), which has all its digits for negative x; `out` may be `x`, and `work` is like it."""
    _at_most(x, _SIGMOID_IS_ONE, out)
    np.exp(out, out)
    np.add(out, one, work)
    np.divide(out, work, out)


@_formula(ActivationSigmoidDesc, 1.0, work=1)
def _sigmoid(x: Array, out: Array, work: Array, mask: Array, one: Array) -> None:
    logistic(x, out, work[0], one)


@_formula(ActivationTanhDesc)
def _tanh(x: Array, out: Array, work: Array, mask: Array) -> None:
    np.tanh(x, out)


@_formula(ActivationScaledTanhDesc, "alpha", "beta")
def _scaled_tanh(x: Array, out: Array, work: Array, mask: Array, alpha: Array, beta: Array) -> None:
    np.multiply(x, beta, out)
    np.tanh(out, out)
    np.multiply(out, alpha, out)


@_formula(ActivationSoftsignDesc, 1.0, work=1)
def _softsign(x: Array, out: Array, work: Array, mask: Array, one: Array) -> None:
    # Infinities give the limits -1 and 1, as the largest finite number already does.
    denominator = work[0]
    largest = np.finfo(x.dtype).max
    np.clip(x, -largest, largest, out=out)
    np.absolute(out, denominator)
    np.add(denominator, one, denominator)
    np.divide(out, denominator, out)


@_formula(ActivationSwishDesc, 0.0, 1.0, "sigmoid_input_scale", work=2)
def _swish(x: Array, out: Array, work: Array, mask: Array, zero: Array, one: Array, scale: Array) -> None:
    # sigmoid(v) = min(q, 1)^2 / (1 + min(q, 1 / q)^2) for q = exp(v / 2), which has its digits where the sigmoid is subnormal.
    root, denominator = work
    np.multiply(x, scale, root)
    np.multiply(root, 0.5, root)
    np.exp(root, root)
    np.divide(one, root, denominator)
    np.minimum(root, denominator, out=denominator)
    np.multiply(denominator, denominator, denominator)
    np.add(denominator, one, denominator)
    _at_most(root, one, root)
    np.not_equal(root, zero, mask)
    np.multiply(x, root, out)
    np.multiply(out, root, out)
    np.divide(out, denominator, out)
    _keep(out, out, mask)


@_formula(ActivationHardSwishDesc, 0.0, 1.0, "alpha", "beta", work=1)
def _hard_swish(x: Array, out: Array, work: Array, mask: Array, zero: Array, one: Array, alpha: Array, beta: Array) -> None:
    gate = work[0]
    _hard_sigmoid(x, gate, work, mask, zero, one, alpha, beta)
    _gated(x, gate, out, mask, zero)


def _gated(x: Array, gate: Array, out: Array, mask: Array, zero: Array) -> None:
    """Computes the gate times x, and 0 where the gate is closed, even if x is infinite."""
    np.not_equal(gate, zero, mask)
    np.multiply(x, gate, out)
    _keep(out, out, mask)


def _log1p_exp_minus_abs(x: Array, out: Array) -> None:
    """Computes ln(1 + exp(-|x|)) accurately and without overflow."""
    np.absolute(x, out)
    np.multiply(out, _MINUS_ONE, out)
    np.exp(out, out)
    np.log1p(out, out)


@_formula(ActivationSoftplusDesc, 0.0, "steepness", work=1)
def _softplus(x: Array, out: Array, work: Array, mask: Array, zero: Array, steepness: Array) -> None:
    # ln(1 + exp(s x)) / s = max(x, 0) + ln(1 + exp(-s |x|)) / s for s > 0.
    bend = work[0]
    np.multiply(x, steepness, bend)
    _log1p_exp_minus_abs(bend, bend)
    np.divide(bend, steepness, bend)
    _at_least(x, zero, out)
    np.add(out, bend, out)


@_formula(ActivationParametricSoftplusDesc, 0.0, "alpha", "beta", work=1)
def _parametric_softplus(x: Array, out: Array, work: Array, mask: Array, zero: Array, alpha: Array, beta: Array) -> None:
    bend = work[0]
    np.multiply(x, beta, out)
    _log1p_exp_minus_abs(out, bend)
    _at_least(out, zero, out)
    np.add(out, bend, out)
    np.multiply(out, alpha, out)


@_formula(ActivationShrinkDesc, "bias", "threshold", work=1)
def _shrink(x: Array, out: Array, work: Array, mask: Array, bias: Array, threshold: Array) -> None:
    below = work[0]
    np.less(x, -threshold, mask)
    np.add(x, bias, below)
    _keep(below, below, mask)
    # Written last: this branch wins where a negative threshold makes both conditions true.
    np.greater(x, threshold, mask)
    np.subtract(x, bias, out)
    _replace(below, out, mask, out)


# 0.5 erfcx(|x| / sqrt(2)) / t for t = 1 / (|x| + 3.25), with erfcx(y) = erfc(y) exp(y^2): a fit whose largest relative error is 1.3e-7, for
# |x| up to 14, beyond which erfc is subnormal in float32; the highest power first.
HALF_TAIL_OFFSET = 3.25
HALF_TAIL = (451.46066, -562.67413, 199.20677, -9.135899, 12.820007, 3.6336892, 1.3024598, 0.39886254)


def _polynomial(x: Array, coefficients: Sequence[float], out: Array) -> None:
    """Evaluates a polynomial by Horner's scheme, the highest power first."""
    np.multiply(x, coefficients[0], out)
    for coefficient in coefficients[1:-1]:
        np.add(out, coefficient, out)
        np.multiply(out, x, out)
    np.add(out, coefficients[-1], out)


def _rational(x: Array, coefficients: tuple[Sequence[float], Sequence[float]], out: Array, denominator: Array) -> None:
    """Evaluates the quotient of two polynomials; the denominator's leading coefficient is 1."""
    upper, lower = coefficients
    _polynomial(x, upper, out)
    np.add(x, lower[1], denominator)
    for coefficient in lower[2:]:
        np.multiply(denominator, x, denominator)
        np.add(denominator, coefficient, denominator)
    np.divide(out, denominator, out)


NORMAL_TAIL_WORK = 6
"""Rows of scratch that `normal_tail` needs."""


def normal_tail(x: Array, work: Array, mask: Array) -> tuple[Array, Array, tuple[Array, Array]]:
    """Computes erfc(|x| / sqrt(2)), twice the normal distribution's tail beyond |x|, accurate to a few units in the last place.

    Returns rows of `work`: |x|, clipped at 40, where the tail is 0 in either type, so that infinity has its limit; the tail; and two
    factors whose product is exp(-x^2 / 2).
    """
    magnitude, scaled, argument, ratio, denominator, erfc = work
    np.absolute(x, magnitude)
    _at_most(magnitude, 40.0, magnitude)
    _tail_by_parts(magnitude, (scaled, argument, ratio, denominator), erfc, mask)

    # exp(-x^2 / 2) in two factors, the exponent of the second exact: an absolute error in an exponent is a relative one in the result
    np.multiply(magnitude, 16.0, ratio)
    np.trunc(ratio, ratio)
    np.multiply(ratio, 0.0625, ratio)
    np.subtract(magnitude, ratio, argument)
    np.add(magnitude, ratio, denominator)
    np.multiply(argument, denominator, argument)
    np.multiply(ratio, ratio, ratio)
    for exponent in (argument, ratio):
        np.multiply(exponent, -0.5, exponent)
        np.exp(exponent, exponent)
        np.multiply(erfc, exponent, erfc)

    _replace(erfc, erfc, mask, scaled)
    return magnitude, erfc, (argument, ratio)


def _tail_by_parts(magnitude: Array, work: tuple[Array, Array, Array, Array], erfc: Array, mask: Array) -> None:
    """Evaluates Cody's approximations for y = magnitude / sqrt(2).

    Leaves erfc(y) exp(y^2) in `erfc`; and where `mask` is set, up to 0.46875, erfc(y) itself in the first row of `work`.
    """
    scaled, argument, ratio, denominator = work
    np.multiply(magnitude, sqrt(0.5), scaled)
    np.multiply(scaled, scaled, argument)
    np.divide(1.0, argument, argument)

    # erfc(y) exp(y^2) for y = |x| / sqrt(2) from 0.46875 to 4, and beyond
    _rational(scaled, ERFC_MIDDLE, erfc, denominator)
    _rational(argument, ERFC_FAR, ratio, denominator)
    np.multiply(ratio, argument, ratio)
    np.subtract(1.0 / sqrt(pi), ratio, ratio)
    np.divide(ratio, scaled, ratio)
    np.greater(scaled, 4.0, mask)
    _replace(erfc, erfc, mask, ratio)

    # erfc(y) up to 0.46875
    near = scaled
    np.less(scaled, 0.46875, mask)
    np.multiply(scaled, scaled, argument)
    _rational(argument, ERF_NEAR, ratio, denominator)
    np.multiply(ratio, scaled, near)
    np.subtract(1.0, near, near)


@_formula(ActivationGeluDesc, 0.0, work=NORMAL_TAIL_WORK)
def _gelu(x: Array, out: Array, work: Array, mask: Array, zero: Array) -> None:
    # 0.5 x (1 + erf(x / sqrt(2))) = max(x, 0) - 0.5 |x| erfc(|x| / sqrt(2)), which keeps its digits for negative x.
    if x.dtype == np.float32:
        tail = _tail_of_floats(x, work)
    else:
        magnitude, tail, _ = normal_tail(x, work, mask)
        np.multiply(tail, magnitude, tail)
        np.multiply(tail, 0.5, tail)
    np.equal(x, zero, mask)
    signs = np.signbit(x) if mask.any() else None
    _at_least(x, zero, out)
    np.subtract(out, tail, out)
    if signs is not None:
        np.logical_and(mask, signs, mask)
        np.copyto(out, -zero, where=mask)


def _tail_of_floats(x: Array, work: Array) -> Array:
    """Computes 0.5 |x| erfc(|x| / sqrt(2)) of float32 in a row of `work`.

    The relative error is at most 1e-6, and besides x^2 times half a unit in the last place: what the exponent loses, and no more than the
    rounding of x changes the result by.
    """
    tail: Array
    magnitude, fraction, tail = work[:3]
    np.absolute(x, magnitude)
    if not magnitude.max() <= 40.0:  # infinity has its limit: the tail is 0 from there on
        _at_most(magnitude, 40.0, magnitude)
    np.add(magnitude, HALF_TAIL_OFFSET, fraction)
    np.divide(1.0, fraction, fraction)
    _polynomial(fraction, HALF_TAIL, tail)
    np.multiply(tail, fraction, tail)
    np.multiply(tail, magnitude, tail)
    np.multiply(magnitude, -0.5, fraction)
    np.multiply(fraction, magnitude, fraction)
    np.exp(fraction, fraction)
    np.multiply(tail, fraction, tail)
    return tail


# functions of stored elements: of two tensors, of integers, of float16 where nothing is rounded


def parameterized_relu(x: Array, slope: Array, out: Array, work: Array, mask: Array, zero: Array) -> None:
    """Computes x where x >= 0, else slope * x, which wraps around in integers. `work` is one row; `out` may be `x` or `slope`."""
    np.less(x, zero, mask)
    np.multiply(x, slope, work)
    _replace(x, out, mask, work)


_HALF_INFINITY = 0x7C00
"""The bits of float16's infinity: those of a number above 0 are from 1 to these, with the sign before them if it is below 0."""


def relu_of_halves(x: Array, out: Array, work: Array, mask: Array) -> None:
    """Computes max(0, x) of float16 from the elements' bits: NumPy compares float16 without SIMD. `work` is one row of float16."""
    distance = work.view(np.uint16)
    np.subtract(x.view(np.uint16), 0x8000, distance)
    np.greater(distance, _HALF_INFINITY, mask)  # all but -0 to minus infinity
    _keep(x, out, mask)


def relu_gradient(x: Array, gradient: Array, out: Array, work: Array, mask: Array, zero: Array) -> None:
    """Passes the gradient where x > 0, else 0. `work` is one row, which float16 needs."""
    if x.dtype == np.float16:
        distance = work.view(np.uint16)
        np.subtract(x.view(np.uint16), 1, distance)
        np.less(distance, _HALF_INFINITY, mask)
    else:
        np.greater(x, zero, mask)
    _keep(gradient, out, mask)
