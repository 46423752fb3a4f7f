"""The activation functions as formulas in float64, and the descs, arguments and limits that devices are compared at."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np

from dmlpy.devices.numpy.activation.formulas import Activation
from dmlpy.operators import activation as descs
from dmlpy.operators.activation import ActivationDesc
from tests.support.operators.scalar_activations import activate as activate_number

Array = np.ndarray[Any, np.dtype[Any]]


INF, NAN = float("inf"), float("nan")


M = float(np.finfo(np.float32).max)


# desc, then its values at 0, -0, inf, -inf, nan, and the largest number of float32 with either sign.
LIMITS: list[tuple[ActivationDesc, list[float]]] = [
    (descs.ActivationIdentityDesc(), [0, 0, INF, -INF, NAN, M, -M]),
    (descs.ActivationLinearDesc(alpha=0.5, beta=0.25), [0.25, 0.25, INF, -INF, NAN, M / 2, -M / 2]),
    (descs.ActivationReluDesc(), [0, 0, INF, 0, NAN, M, 0]),
    (descs.ActivationLeakyReluDesc(alpha=0.5), [0, 0, INF, -INF, NAN, M, -M / 2]),
    (descs.ActivationLeakyReluDesc(alpha=0.0), [0, 0, INF, NAN, NAN, M, 0]),
    (descs.ActivationThresholdedReluDesc(alpha=1.0), [0, 0, INF, 0, 0, M, 0]),
    (descs.ActivationThresholdedReluDesc(alpha=-1.0), [0, 0, INF, 0, 0, M, 0]),
    (descs.ActivationEluDesc(alpha=1.5), [0, 0, INF, -1.5, NAN, M, -1.5]),
    (descs.ActivationCeluDesc(alpha=0.5), [0, 0, INF, -0.5, NAN, M, -0.5]),
    (descs.ActivationCeluDesc(alpha=-0.5), [0, 0, INF, -INF, NAN, M, -INF]),
    (descs.ActivationScaledEluDesc(alpha=2.0, gamma=0.5), [0, 0, INF, -1, NAN, M / 2, -1]),
    (descs.ActivationSigmoidDesc(), [0.5, 0.5, 1, 0, NAN, 1, 0]),
    (descs.ActivationHardSigmoidDesc(alpha=0.25, beta=0.5), [0.5, 0.5, 1, 0, NAN, 1, 0]),
    (descs.ActivationTanhDesc(), [0, 0, 1, -1, NAN, 1, -1]),
    (descs.ActivationScaledTanhDesc(alpha=1.5, beta=0.5), [0, 0, 1.5, -1.5, NAN, 1.5, -1.5]),
    (descs.ActivationSoftsignDesc(), [0, 0, 1, -1, NAN, 1, -1]),
    (descs.ActivationSoftplusDesc(steepness=2.0), [np.log(2) / 2, np.log(2) / 2, INF, 0, NAN, M, 0]),
    (descs.ActivationParametricSoftplusDesc(alpha=2.0, beta=0.5), [np.log(4), np.log(4), INF, 0, NAN, M, 0]),
    (descs.ActivationGeluDesc(), [0, 0, INF, 0, NAN, M, 0]),
    (descs.ActivationShrinkDesc(bias=0.25, threshold=0.5), [0, 0, INF, -INF, 0, M, -M]),
    (descs.ActivationShrinkDesc(bias=0.25, threshold=-0.5), [-0.25, -0.25, INF, -INF, 0, M, -M]),
]


ALL = [desc for desc, _ in LIMITS]


VALUE_KEEPERS = (
    descs.ActivationIdentityDesc,
    descs.ActivationLinearDesc,
    descs.ActivationReluDesc,
    descs.ActivationTanhDesc,
    descs.ActivationSigmoidDesc,
    descs.ActivationHardSigmoidDesc,
)


def keeps_value(desc: ActivationDesc) -> bool:
    """Returns whether kernels save a gate's value in the reserve, from which its derivative follows; else its argument."""
    return isinstance(desc, VALUE_KEEPERS)


# The same of the functions that no operator fuses.
LIMITS_ALONE: list[tuple[ActivationDesc, list[float]]] = [
    (descs.ActivationSwishDesc(sigmoid_input_scale=1.0), [0, 0, INF, 0, NAN, M, 0]),
    (descs.ActivationSwishDesc(sigmoid_input_scale=-0.5), [0, 0, 0, -INF, NAN, 0, -M]),
    (descs.ActivationHardSwishDesc(alpha=0.25, beta=0.5), [0, 0, INF, 0, NAN, M, 0]),
    (descs.ActivationHardSwishDesc(alpha=-0.25, beta=0.5), [0, 0, 0, -INF, NAN, 0, -M]),
]


ALONE = [desc for desc, _ in LIMITS_ALONE]


CANCELLING = (descs.ActivationLinearDesc, descs.ActivationHardSigmoidDesc, descs.ActivationHardSwishDesc)


def label(desc: ActivationDesc) -> str:
    return type(desc).__name__.removeprefix("Activation").removesuffix("Desc")


def evaluate(desc: ActivationDesc, x: Array) -> Array:
    """The NumPy device's formula of every element, in a new array of x's type."""
    activation = Activation.of(desc, x.dtype)
    flat = np.ascontiguousarray(x).reshape(-1)
    out = np.empty_like(flat)
    with np.errstate(all="ignore"):
        activation.bind(flat, out, np.empty((activation.work, flat.size), x.dtype), np.empty(flat.size, np.bool_))()
    return out.reshape(x.shape)


def definition(desc: ActivationDesc, x: float) -> float:
    """One value of an activation of one argument. NaN stays NaN, except where a comparison with it decides that the value is 0."""
    if math.isnan(x) and not isinstance(desc, descs.ActivationThresholdedReluDesc | descs.ActivationShrinkDesc):
        return x
    if isinstance(desc, descs.ActivationSwishDesc):
        exponent = -desc.sigmoid_input_scale * x
        gate = 1.0 / (1.0 + math.exp(exponent)) if exponent < 709.0 else 0.0
    elif isinstance(desc, descs.ActivationHardSwishDesc):
        gate = max(0.0, min(desc.alpha * x + desc.beta, 1.0))
    else:
        return activate_number(desc, x)
    return 0.0 if gate == 0.0 else gate * x


@cache
def exact_gelu(x: float) -> tuple[float, float]:
    """0.5 x (1 + erf(x / sqrt(2))) and its derivative, from the Taylor series of erf with digits enough for its cancellation.

    Terms grow to exp(x^2 / 2), and what is left of 1 + erf shrinks to its reciprocal: x^2 log10(e) digits are lost.
    """
    digits = 60 + min(740, int(0.44 * x * x))
    with localcontext() as context:
        context.prec = digits
        value = Decimal(x)
        square = value * value / 2
        term = total = value
        n = 0
        while abs(term) > Decimal(10) ** -digits:
            n += 1
            term *= -square / n
            total += term / (2 * n + 1)
        pi = _pi()
        distribution = (1 + total * (2 / pi).sqrt()) / 2
        density = (-square).exp() / (2 * pi).sqrt()
        return float(value * distribution), float(distribution + value * density)


@cache
def _pi() -> Decimal:
    """By Machin's formula."""
    with localcontext() as context:
        context.prec = 810

        def arctan_of_inverse(n: int) -> Decimal:
            power = total = Decimal(1) / n
            k = 1
            while abs(power) > Decimal(10) ** -808:
                power /= -n * n
                total += power / (2 * k + 1)
                k += 1
            return total

        return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))


def gelu_points(dtype: Any) -> Array:
    """Arguments in each of the three ranges of the approximation, at their borders (0.46875 and 4, times sqrt(2)), and far out."""
    x = np.array([1e-30, 1e-3, 0.1, 0.5, 0.66291, 0.66292, 1.0, 2.0, 3.3, 5.0, 5.6568, 5.6569, 7.7, 12.5, 20.1, 30.0, 36.9], dtype)
    x = np.concatenate([x, -x])
    return x[x > -12.9] if dtype == np.float32 else x  # beyond, the result is not a normal number of float32
