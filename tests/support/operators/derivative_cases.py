"""Derivatives of the activations: at the limits, where functions are not smooth, and by closed forms, within units in the last place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dmlpy.devices.cuda.common.functors import ATTRIBUTES
from dmlpy.operators import activation as descs
from dmlpy.operators.activation import ActivationDesc
from tests.support.operators.activation_cases import INF, NAN, Array, label

# desc, then its derivatives at 0, -0, inf, -inf, nan, and the largest number of float32 with either sign.
LIMITS: list[tuple[ActivationDesc, list[float]]] = [
    (descs.ActivationIdentityDesc(), [1, 1, 1, 1, 1, 1, 1]),
    (descs.ActivationLinearDesc(alpha=0.5, beta=0.25), [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
    (descs.ActivationReluDesc(), [0, 0, 1, 0, NAN, 1, 0]),
    (descs.ActivationLeakyReluDesc(alpha=0.5), [1, 1, 1, 0.5, NAN, 1, 0.5]),
    (descs.ActivationLeakyReluDesc(alpha=0.0), [1, 1, 1, 0, NAN, 1, 0]),
    (descs.ActivationThresholdedReluDesc(alpha=1.0), [0, 0, 1, 0, 0, 1, 0]),
    (descs.ActivationThresholdedReluDesc(alpha=-1.0), [1, 1, 1, 0, 0, 1, 0]),
    (descs.ActivationEluDesc(alpha=1.5), [1, 1, 1, 0, NAN, 1, 0]),
    (descs.ActivationCeluDesc(alpha=0.5), [1, 1, 1, 0, NAN, 1, 0]),
    (descs.ActivationCeluDesc(alpha=-0.5), [1, 1, 1, INF, NAN, 1, INF]),
    (descs.ActivationScaledEluDesc(alpha=2.0, gamma=0.5), [1, 1, 0.5, 0, NAN, 0.5, 0]),
    (descs.ActivationSigmoidDesc(), [0.25, 0.25, 0, 0, NAN, 0, 0]),
    (descs.ActivationHardSigmoidDesc(alpha=0.25, beta=0.5), [0.25, 0.25, 0, 0, NAN, 0, 0]),
    (descs.ActivationHardSigmoidDesc(alpha=-0.25, beta=0.5), [-0.25, -0.25, 0, 0, NAN, 0, 0]),
    (descs.ActivationTanhDesc(), [1, 1, 0, 0, NAN, 0, 0]),
    (descs.ActivationScaledTanhDesc(alpha=1.5, beta=0.5), [0.75, 0.75, 0, 0, NAN, 0, 0]),
    (descs.ActivationScaledTanhDesc(alpha=1e30, beta=-1e30), [-1e60, -1e60, 0, 0, NAN, 0, 0]),
    (descs.ActivationSoftsignDesc(), [1, 1, 0, 0, NAN, 0, 0]),
    (descs.ActivationSoftplusDesc(steepness=2.0), [0.5, 0.5, 1, 0, NAN, 1, 0]),
    (descs.ActivationParametricSoftplusDesc(alpha=2.0, beta=0.5), [0.5, 0.5, 1, 0, NAN, 1, 0]),
    (descs.ActivationParametricSoftplusDesc(alpha=2.0, beta=-0.5), [-0.5, -0.5, 0, -1, NAN, 0, -1]),
    (descs.ActivationParametricSoftplusDesc(alpha=1e30, beta=1e30), [5e59, 5e59, 1e60, 0, NAN, 1e60, 0]),
    (descs.ActivationGeluDesc(), [0.5, 0.5, 1, 0, NAN, 1, 0]),
    (descs.ActivationShrinkDesc(bias=0.25, threshold=0.5), [0, 0, 1, 1, 0, 1, 1]),
    (descs.ActivationShrinkDesc(bias=0.25, threshold=-0.5), [1, 1, 1, 1, 0, 1, 1]),
]

# desc, then arguments and their derivatives: where the function is not smooth, and the numbers of float32 next to that.
BELOW_ONE, ABOVE_ONE = 1.0 - 2.0**-24, 1.0 + 2.0**-23
KINKS: list[tuple[ActivationDesc, dict[float, float]]] = [
    (descs.ActivationReluDesc(), {-1e-38: 0, 0.0: 0, 1e-38: 1}),
    (descs.ActivationLeakyReluDesc(alpha=-0.5), {-1e-38: -0.5, 0.0: 1, 1e-38: 1}),
    (descs.ActivationThresholdedReluDesc(alpha=1.0), {BELOW_ONE: 0, 1.0: 0, ABOVE_ONE: 1}),
    (descs.ActivationThresholdedReluDesc(alpha=0.0), {-1e-38: 0, 0.0: 0, 1e-38: 1}),
    (descs.ActivationThresholdedReluDesc(alpha=-1.0), {-ABOVE_ONE: 0, -1.0: 0, -BELOW_ONE: 1, 0.0: 1}),
    (descs.ActivationEluDesc(alpha=1.5), {-1e-38: 1.5, 0.0: 1, 1e-38: 1}),
    (descs.ActivationCeluDesc(alpha=2.0), {-1e-38: 1, 0.0: 1, 1e-38: 1}),
    (descs.ActivationScaledEluDesc(alpha=2.0, gamma=3.0), {-1e-38: 6, 0.0: 6, 1e-38: 3}),
    (descs.ActivationHardSigmoidDesc(alpha=0.5, beta=0.5), {-ABOVE_ONE: 0, -1.0: 0, -BELOW_ONE: 0.5, 1.0 - 2.0**-23: 0.5, 1.0: 0, 2.0: 0}),
    (descs.ActivationShrinkDesc(bias=0.5, threshold=1.0), {BELOW_ONE: 0, 1.0: 0, ABOVE_ONE: 1, -BELOW_ONE: 0, -1.0: 0, -ABOVE_ONE: 1}),
    (descs.ActivationShrinkDesc(bias=0.5, threshold=0.0), {-1e-38: 1, 0.0: 0, 1e-38: 1}),
]


def closed_form(desc: ActivationDesc, x: Array) -> Array:
    """The derivative from the argument, in the widest type there is (Gelu in float64), for finite `x` that are not kinks."""
    get: Any = desc
    v = x.astype(np.longdouble)
    with np.errstate(over="ignore", under="ignore"):
        match label(desc):
            case "Identity":
                return np.ones_like(v)
            case "Linear":
                return np.full_like(v, get.alpha)
            case "Relu":
                return np.where(v > 0, 1.0, 0.0)
            case "LeakyRelu":
                return np.where(v > 0, 1.0, get.alpha)
            case "ThresholdedRelu":
                return np.where(v > get.alpha, 1.0, 0.0)
            case "Elu":
                return np.where(v > 0, 1, get.alpha * np.exp(v))
            case "Celu":
                return np.where(v > 0, 1, np.exp(v / get.alpha))
            case "ScaledElu":
                return get.gamma * np.where(v > 0, 1, get.alpha * np.exp(v))
            case "Tanh":
                return np.cosh(v) ** -2
            case "ScaledTanh":
                return get.alpha * np.longdouble(get.beta) * np.cosh(get.beta * v) ** -2
            case "Sigmoid":
                return 1 / (2 * np.cosh(v / 2)) ** 2
            case "HardSigmoid":
                return np.where(np.abs(get.alpha * v + get.beta - 0.5) < 0.5, get.alpha, 0.0)
            case "Softplus":
                return 1 / (1 + np.exp(-get.steepness * v))
            case "ParametricSoftplus":
                return get.alpha * np.longdouble(get.beta) / (1 + np.exp(-get.beta * v))
            case "Softsign":
                return (1 + np.abs(v)) ** -2
            case "Gelu":
                root = math.sqrt(2.0)
                return np.array([0.5 * math.erfc(-t / root) + t * math.exp(-t * t / 2) / math.sqrt(2 * math.pi) for t in x.tolist()])
            case "Shrink":
                return np.where((v > get.threshold) | (v < -get.threshold), 1.0, 0.0)
    raise AssertionError(f"no derivative of {label(desc)}")


def kinks(desc: ActivationDesc) -> list[float]:
    """Arguments at which some activation with the desc's attributes is not smooth."""
    alpha, beta, threshold = (getattr(desc, name, 0.0) for name in ("alpha", "beta", "threshold"))
    corners = [-beta / alpha, (1.0 - beta) / alpha] if label(desc) == "HardSigmoid" else []
    return [0.0, alpha, threshold, -threshold, *corners]


def random_desc(kind: type[ActivationDesc], rng: np.random.Generator) -> ActivationDesc:
    """Attributes from 0.25 to 2 of either sign, exact in float32."""

    def attribute(name: str) -> float:
        sign = 1.0 if name == "steepness" else rng.choice([-1.0, 1.0])
        return float(np.float32(sign * rng.uniform(0.25, 2.0)))

    return kind(**{name: attribute(name) for name in ATTRIBUTES[kind]})


def random_arguments(desc: ActivationDesc, rng: np.random.Generator, dtype: Any, widest: float) -> Array:
    """Near zero, far out and tiny, none of them at a kink."""
    near, wide = rng.normal(0.0, 1.0, 1001), rng.uniform(-widest, widest, 1001)
    tiny = rng.normal(0.0, 1.0, 201) * 10.0 ** rng.uniform(-30.0, -3.0, 201)
    x = np.concatenate([near, wide, tiny]).astype(dtype)
    # No closer to a kink than 8 units of its last place: on which side of it an argument lies is then no matter of rounding.
    for kink in kinks(desc):
        x = x[(np.abs(x - kink) > 8 * np.finfo(dtype).eps * abs(kink)) & (x != kink)]
    return x


def units(desc: ActivationDesc, x: Array, found: Array, expected: Array) -> Array:
    """The error in units of the last place, times what f' itself makes of a last place of x: |v| for e^v, x^2 for erfc.

    A derivative from the value of TANH or SIGMOID has the value's error, units of a number near 1; GELU's has a zero, where two terms
    near 0.23 cancel. Numbers too small for all their digits are right if they are too small in both.
    """
    get: Any = desc
    name, tiny = label(desc), float(np.finfo(found.dtype).tiny)
    exponent = x.astype(np.float64)
    match name:
        case "Celu":
            exponent /= get.alpha
        case "ScaledTanh":
            exponent *= 2 * get.beta
        case "Softplus":
            exponent *= get.steepness
        case "ParametricSoftplus":
            exponent *= get.beta
        case "Gelu":
            exponent *= exponent
    smallest_unit = {"Tanh": 1.0, "Sigmoid": 1.0, "Gelu": 0.23}.get(name, tiny)
    with np.errstate(over="ignore", invalid="ignore"):
        right = (np.abs(found) < tiny) & (np.abs(expected) < tiny) | (found == expected.astype(found.dtype))
        unit = np.spacing(np.maximum(np.abs(expected), smallest_unit).astype(found.dtype)).astype(np.float64)
        error = np.abs(found - expected).astype(np.float64) / unit / np.maximum(1.0, np.abs(exponent) / 2)
    return np.where(right, 0.0, error)


def assert_within(limit: float, desc: ActivationDesc, x: Array, found: Array, expected: Array) -> None:
    error = units(desc, x, found, expected)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, f"{error[worst]:.2f} units at x = {x[worst]!r}: {found[worst]!r}, not {expected[worst]!r}; {desc!r}"
