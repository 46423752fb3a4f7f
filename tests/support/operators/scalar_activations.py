"""The activations of one number by Python's `math`: an oracle that shares nothing with dmlpy but the descs."""

from __future__ import annotations

import math
from typing import Any

from dmlpy.operators.activation import ActivationDesc


def _exp(x: float) -> float:
    return math.inf if x >= 709.0 else math.exp(x)


def activate(desc: ActivationDesc, x: float) -> float:
    """One value of an activation, by its definition."""
    name = desc.type_name.removeprefix("DML_OPERATOR_").removeprefix("ACTIVATION_")
    get: Any = desc
    match name:
        case "IDENTITY":
            return x
        case "LINEAR":
            return get.alpha * x + get.beta
        case "RELU":
            return x if math.isnan(x) else max(0.0, x)
        case "LEAKY_RELU":
            return x if x >= 0 else get.alpha * x
        case "THRESHOLDED_RELU":
            return x if x > get.alpha else 0.0
        case "ELU":
            return x if x >= 0 else get.alpha * math.expm1(x)
        case "CELU":
            if math.isnan(x):
                return x
            exponent = x / get.alpha
            return max(0.0, x) + min(0.0, get.alpha * (math.expm1(exponent) if exponent < 709.0 else math.inf))
        case "SCALED_ELU":
            return get.gamma * x if x > 0 else get.gamma * get.alpha * math.expm1(x)
        case "SIGMOID":
            return 1.0 / (1.0 + _exp(-x))
        case "HARD_SIGMOID":
            value = get.alpha * x + get.beta
            return value if math.isnan(value) else max(0.0, min(value, 1.0))
        case "TANH":
            return math.tanh(x)
        case "SCALED_TANH":
            return get.alpha * math.tanh(get.beta * x)
        case "SOFTSIGN":
            return math.copysign(1.0, x) if math.isinf(x) else x / (1.0 + abs(x))
        case "SOFTPLUS":
            # Past 40 the logarithm's 1 is beyond the last digit.
            return x if get.steepness * x > 40.0 else math.log1p(_exp(get.steepness * x)) / get.steepness
        case "PARAMETRIC_SOFTPLUS":
            exponent = get.beta * x
            return get.alpha * (exponent if exponent > 40.0 else math.log1p(_exp(exponent)))
        case "GELU":
            return 0.0 if x == -math.inf else 0.5 * x * math.erfc(-x / math.sqrt(2.0))
        case "SHRINK":
            if x > get.threshold:
                return x - get.bias
            return x + get.bias if x < -get.threshold else 0.0
    raise AssertionError(f"no definition of {name}")
