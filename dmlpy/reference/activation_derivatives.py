"""The derivatives, by their argument, of the element-wise activations that a recurrent cell may have.

Where a derivative is one-sided, or a function jumps, one value is taken:

| activation       | at                 | derivative    |
|------------------|--------------------|---------------|
| RELU             | x = 0              | 0             |
| LEAKY_RELU       | x = 0              | 1             |
| THRESHOLDED_RELU | x = alpha          | 0             |
| ELU, CELU        | x = 0              | 1             |
| SCALED_ELU       | x = 0              | gamma * alpha |
| HARD_SIGMOID     | y = 0 and y = 1    | 0             |
| SHRINK           | x = ±threshold     | 0             |

At an infinity the derivative is its limit. NaN stays NaN, except where the derivative is a constant (IDENTITY, LINEAR) and where the
function itself makes NaN 0 (THRESHOLDED_RELU, SHRINK).
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.operators import activation as of
from dmlpy.reference.activation import activate, logistic
from dmlpy.reference.special import gaussian, normal_tail

if TYPE_CHECKING:
    from dmlpy.reference.registry import Array


def derivative(desc: of.ActivationDesc, x: Array) -> Array:
    """The derivative at every element, in the array's type and kind: of NumPy, or one that its functions take.

    Raises:
        TypeError: the activation is none that a recurrent cell may have.
    """
    slopes: Array = _derivative(desc, x).astype(x.dtype, copy=False)
    return slopes


def _derivative(desc: Any, x: Array) -> Any:
    match desc:
        case of.ActivationIdentityDesc():
            return np.ones_like(x)
        case of.ActivationLinearDesc():
            return np.full_like(x, desc.alpha)
        case of.ActivationReluDesc():
            return np.sign(np.maximum(x, 0.0))
        case of.ActivationLeakyReluDesc():
            return np.where(x >= 0, 1.0, np.where(x < 0, desc.alpha, x))
        case of.ActivationThresholdedReluDesc():
            return x > desc.alpha
        case of.ActivationHardSigmoidDesc():
            y = activate(desc, x)
            return desc.alpha * (np.ceil(y) - np.floor(y))  # y is in [0, 1]: the difference is 1 inside, and 0 at both corners
        case of.ActivationShrinkDesc():
            return np.abs(x) > desc.threshold
        case of.ActivationEluDesc():
            return np.where(x >= 0, 1.0, desc.alpha * np.exp(np.minimum(x, 0.0)))
        case of.ActivationCeluDesc():
            return np.where(x >= 0, 1.0, np.exp(np.minimum(x, 0.0) / desc.alpha))
        case of.ActivationScaledEluDesc():
            return desc.gamma * np.where(x > 0, 1.0, desc.alpha * np.exp(np.minimum(x, 0.0)))
        case of.ActivationSigmoidDesc():
            return _logistic(x)
        case of.ActivationTanhDesc():
            return _tanh(x)
        case of.ActivationScaledTanhDesc():
            return desc.alpha * (desc.beta * _tanh(desc.beta * x))  # alpha * beta may overflow
        case of.ActivationSoftsignDesc():
            return (1.0 / (1.0 + np.abs(x))) ** 2
        case of.ActivationSoftplusDesc():
            return logistic(desc.steepness * x)
        case of.ActivationParametricSoftplusDesc():
            return desc.alpha * (desc.beta * logistic(desc.beta * x))
        case of.ActivationGeluDesc():
            return _gelu(x)
    raise TypeError(f"{desc.type_name} is not an activation of a recurrent cell")


def _logistic(x: Array) -> Array:
    """Computes y (1 - y) of y = 1 / (1 + exp(-x)) accurately where y is nearly 1."""
    power = np.exp(-np.abs(x))
    slope: Array = power / (1.0 + power) ** 2
    return slope


def _tanh(x: Array) -> Array:
    """Computes 1 - tanh(x)^2 accurately where tanh is nearly 1 or -1."""
    power = np.exp(-2.0 * np.abs(x))
    slope: Array = 4.0 * power / (1.0 + power) ** 2
    return slope


def _gelu(x: Array) -> Array:
    """Computes Phi(x) + x phi(x), with the standard normal distribution function Phi and density phi."""
    magnitude = np.minimum(np.abs(x), 40.0)  # so that infinity times a density of 0 has its limit
    below = 0.5 * normal_tail(x) - magnitude * gaussian(magnitude) / sqrt(2.0 * pi)
    return np.where(x < 0, below, 1.0 - below)
