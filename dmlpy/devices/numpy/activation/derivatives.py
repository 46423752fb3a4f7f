"""The derivatives of the element-wise activations in NumPy, computed from the value or argument that a training pass keeps.

A function whose derivative follows exactly from its value y keeps y, so that the array of values serves twice; any other keeps its
argument x. Where a derivative is one-sided, or a function jumps, one value is taken:

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

The formulas take what those of `formulas` take, with the kept array for `x`, which they leave as it is; `out`
shares no memory with it. Callers suppress floating-point warnings here too.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from dmlpy.devices.numpy.activation.formulas import NORMAL_TAIL_WORK, Array, ElementWise, logistic, normal_tail
from dmlpy.operators.activation import (
    ActivationCeluDesc,
    ActivationDesc,
    ActivationEluDesc,
    ActivationGeluDesc,
    ActivationHardSigmoidDesc,
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
    ActivationTanhDesc,
    ActivationThresholdedReluDesc,
)

_VALUE_KEEPERS = (
    ActivationIdentityDesc,
    ActivationLinearDesc,
    ActivationReluDesc,
    ActivationTanhDesc,
    ActivationSigmoidDesc,
    ActivationHardSigmoidDesc,
)


def keeps_value(desc: ActivationDesc) -> bool:
    """Returns whether the derivative is computed from the activation's value, not from its argument."""
    return isinstance(desc, _VALUE_KEEPERS)


class Derivative(ElementWise):
    """The derivative of an activation, prepared for arrays of one type.

    The call that `bind` gives computes it from the kept array (`keeps_value` says what that is). The module's table says which
    derivative is taken where it is one-sided.
    """

    formulas = {}


_derivative = Derivative.define


# from the value


@_derivative(ActivationIdentityDesc, 1.0)
def _identity(y: Array, out: Array, work: Array, mask: Array, one: Array) -> None:
    out[...] = one


@_derivative(ActivationLinearDesc, "alpha")
def _linear(y: Array, out: Array, work: Array, mask: Array, alpha: Array) -> None:
    out[...] = alpha


@_derivative(ActivationReluDesc)
def _relu(y: Array, out: Array, work: Array, mask: Array) -> None:
    np.sign(y, out)


@_derivative(ActivationTanhDesc, 1.0, work=1)
def _tanh(y: Array, out: Array, work: Array, mask: Array, one: Array) -> None:
    # 1 - y * y would lose digits where y is near 1.
    np.subtract(one, y, out)
    np.add(one, y, work[0])
    np.multiply(out, work[0], out)


@_derivative(ActivationSigmoidDesc, 1.0)
def _sigmoid(y: Array, out: Array, work: Array, mask: Array, one: Array) -> None:
    np.subtract(one, y, out)
    np.multiply(out, y, out)


@_derivative(ActivationHardSigmoidDesc, "alpha", work=1)
def _hard_sigmoid(y: Array, out: Array, work: Array, mask: Array, alpha: Array) -> None:
    # y is within [0, 1]: rounded up and down it differs by 1 inside, by 0 at the corners.
    below = work[0]
    np.floor(y, below)
    np.ceil(y, out)
    np.subtract(out, below, out)
    np.multiply(out, alpha, out)


# from the argument


@_derivative(ActivationLeakyReluDesc, 0.0, 1.0, "alpha")
def _leaky_relu(x: Array, out: Array, work: Array, mask: Array, zero: Array, one: Array, alpha: Array) -> None:
    out[...] = x  # keeps NaN, which is on neither side of zero
    np.greater_equal(x, zero, mask)
    np.copyto(out, one, where=mask)
    np.less(x, zero, mask)
    np.copyto(out, alpha, where=mask)


@_derivative(ActivationThresholdedReluDesc, "alpha")
def _thresholded_relu(x: Array, out: Array, work: Array, mask: Array, alpha: Array) -> None:
    np.greater(x, alpha, mask)
    np.copyto(out, mask)


@_derivative(ActivationEluDesc, 0.0, 1.0, "alpha")
def _elu(x: Array, out: Array, work: Array, mask: Array, zero: Array, one: Array, alpha: Array) -> None:
    np.exp(x, out)
    np.multiply(out, alpha, out)
    np.greater_equal(x, zero, mask)
    np.copyto(out, one, where=mask)


@_derivative(ActivationCeluDesc, 0.0, 1.0, "alpha")
def _celu(x: Array, out: Array, work: Array, mask: Array, zero: Array, one: Array, alpha: Array) -> None:
    # x's sign alone tells the branch, for either sign of alpha; for a negative one the derivative grows without bound towards -infinity.
    np.divide(x, alpha, out)
    np.exp(out, out)
    np.greater_equal(x, zero, mask)
    np.copyto(out, one, where=mask)


@_derivative(ActivationScaledEluDesc, 0.0, "alpha", "gamma")
def _scaled_elu(x: Array, out: Array, work: Array, mask: Array, zero: Array, alpha: Array, gamma: Array) -> None:
    np.exp(x, out)
    np.multiply(out, alpha, out)
    np.multiply(out, gamma, out)
    np.greater(x, zero, mask)
    np.copyto(out, gamma, where=mask)


@_derivative(ActivationScaledTanhDesc, 1.0, "alpha", "beta", work=1)
def _scaled_tanh(x: Array, out: Array, work: Array, mask: Array, one: Array, alpha: Array, beta: Array) -> None:
    # 1 - tanh(v)^2 = 4 e / (1 + e)^2 for e = exp(-2 |v|), which keeps its digits where tanh is nearly 1 or -1.
    quotient = work[0]
    np.multiply(x, beta, out)
    np.absolute(out, out)
    np.multiply(out, -2.0, out)
    np.exp(out, out)
    np.add(out, one, quotient)
    np.divide(out, quotient, out)
    np.divide(out, quotient, out)
    for factor in (4.0, alpha, beta):
        np.multiply(out, factor, out)


@_derivative(ActivationSoftsignDesc, 1.0)
def _softsign(x: Array, out: Array, work: Array, mask: Array, one: Array) -> None:
    # The square of the reciprocal: that of 1 + |x| would overflow long before the result is too small.
    np.absolute(x, out)
    np.add(out, one, out)
    np.divide(one, out, out)
    np.multiply(out, out, out)


@_derivative(ActivationSoftplusDesc, 1.0, "steepness", work=1)
def _softplus(x: Array, out: Array, work: Array, mask: Array, one: Array, steepness: Array) -> None:
    np.multiply(x, steepness, out)
    logistic(out, out, work[0], one)


@_derivative(ActivationParametricSoftplusDesc, 1.0, "alpha", "beta", work=1)
def _parametric_softplus(x: Array, out: Array, work: Array, mask: Array, one: Array, alpha: Array, beta: Array) -> None:
    np.multiply(x, beta, out)
    logistic(out, out, work[0], one)
    np.multiply(out, alpha, out)
    np.multiply(out, beta, out)


@_derivative(ActivationShrinkDesc, "threshold")
def _shrink(x: Array, out: Array, work: Array, mask: Array, threshold: Array) -> None:
    # The condition x < -threshold or x > threshold also holds for a negative threshold, where one of the two is always true.
    np.absolute(x, out)
    np.greater(out, threshold, mask)
    np.copyto(out, mask)


@_derivative(ActivationGeluDesc, 0.0, 1.0, work=NORMAL_TAIL_WORK)
def _gelu(x: Array, out: Array, work: Array, mask: Array, zero: Array, one: Array) -> None:
    # Phi(x) + x phi(x) is 0.5 erfc(|x| / sqrt(2)) - |x| phi(x) for negative x, and 1 less that for positive x.
    magnitude, tail, factors = normal_tail(x, work, mask)
    np.multiply(magnitude, 1.0 / sqrt(2.0 * pi), out)
    for factor in factors:
        np.multiply(out, factor, out)
    np.multiply(tail, 0.5, tail)
    np.subtract(tail, out, tail)
    np.subtract(one, tail, out)
    np.less(x, zero, mask)
    np.copyto(out, tail, where=mask)
