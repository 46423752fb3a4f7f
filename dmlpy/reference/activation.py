"""The definitions of the activations, alone or fused into other operators: of one element, and of groups of elements.

Every function is right from the smallest to the largest number and for infinities, where it has its limit. NaN stays NaN, except where
the definition itself makes it 0 (THRESHOLDED_RELU, SHRINK). Integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from dmlpy.operators.activation import (
    ActivationCeluDesc,
    ActivationDesc,
    ActivationEluDesc,
    ActivationGeluDesc,
    ActivationHardmax1Desc,
    ActivationHardmaxDesc,
    ActivationHardSigmoidDesc,
    ActivationHardSwishDesc,
    ActivationIdentityDesc,
    ActivationLeakyReluDesc,
    ActivationLinearDesc,
    ActivationLogSoftmax1Desc,
    ActivationLogSoftmaxDesc,
    ActivationParameterizedReluDesc,
    ActivationParametricSoftplusDesc,
    ActivationReluDesc,
    ActivationReluGradDesc,
    ActivationScaledEluDesc,
    ActivationScaledTanhDesc,
    ActivationShrinkDesc,
    ActivationSigmoidDesc,
    ActivationSoftmax1Desc,
    ActivationSoftmaxDesc,
    ActivationSoftplusDesc,
    ActivationSoftsignDesc,
    ActivationSwishDesc,
    ActivationTanhDesc,
    ActivationThresholdedReluDesc,
    AxesActivationDesc,
)
from dmlpy.reference.conversion import as_integers
from dmlpy.reference.limits import at_least, at_most
from dmlpy.reference.registry import Array, Inputs, defines, definition
from dmlpy.reference.special import normal_tail

Function = Callable[[Any, Array], Array]
"""A function of a desc's attributes and of its only input."""


def activate(desc: ActivationDesc, x: Array) -> Array:
    """Applies an activation to every element, or to every row, in the array's type; the desc may be a fused one, without tensors."""
    function = definition(type(desc))
    assert function is not None
    result = function(desc, {"input_tensor": x})
    assert isinstance(result, np.ndarray)
    return result


def _of_input(*kinds: type[ActivationDesc]) -> Callable[[Function], Function]:
    """Attaches a function of the attributes and of `input_tensor`."""

    def attach(function: Function) -> Function:
        defines(*kinds)(lambda desc, inputs: function(desc, inputs["input_tensor"]))
        return function

    return attach


# piecewise linear


@_of_input(ActivationIdentityDesc)
def identity(desc: ActivationIdentityDesc, x: Array) -> Array:
    return x


@_of_input(ActivationLinearDesc)
def linear(desc: ActivationLinearDesc, x: Array) -> Array:
    return np.add(desc.alpha * x, desc.beta)


@_of_input(ActivationReluDesc)
def relu(desc: ActivationReluDesc, x: Array) -> Array:
    return at_least(x, 0.0)


@_of_input(ActivationLeakyReluDesc)
def leaky_relu(desc: ActivationLeakyReluDesc, x: Array) -> Array:
    return np.where(x < 0, desc.alpha * x, x)


@_of_input(ActivationThresholdedReluDesc)
def thresholded_relu(desc: ActivationThresholdedReluDesc, x: Array) -> Array:
    return np.where(x > desc.alpha, x, x.dtype.type(0))


@_of_input(ActivationHardSigmoidDesc)
def hard_sigmoid(desc: ActivationHardSigmoidDesc | ActivationHardSwishDesc, x: Array) -> Array:
    return at_least(at_most(desc.alpha * x + desc.beta, 1.0), 0.0)


@_of_input(ActivationShrinkDesc)
def shrink(desc: ActivationShrinkDesc, x: Array) -> Array:
    if x.dtype.kind in "iu":
        return _shrink_integers(desc, x)
    below = np.where(x < -desc.threshold, x + desc.bias, x.dtype.type(0))
    return np.where(x > desc.threshold, x - desc.bias, below)


def _shrink_integers(desc: ActivationShrinkDesc, x: Array) -> Array:
    """SHRINK in float64, rounded toward zero and clamped to the type's range."""
    # NaN, which only an attribute brings, becomes the smallest integer.
    return as_integers(np.fmax(shrink(desc, x.astype(np.float64)), np.iinfo(x.dtype).min), x.dtype)


# exponentials


@_of_input(ActivationEluDesc)
def elu(desc: ActivationEluDesc, x: Array) -> Array:
    return np.where(x < 0, desc.alpha * np.expm1(x), x)


@_of_input(ActivationCeluDesc)
def celu(desc: ActivationCeluDesc, x: Array) -> Array:
    # For either sign of alpha max(0, x) + min(0, alpha * (exp(x / alpha) - 1)) has one term that is zero, chosen by x's sign.
    return np.where(x < 0, desc.alpha * np.expm1(x / desc.alpha), x)


@_of_input(ActivationScaledEluDesc)
def scaled_elu(desc: ActivationScaledEluDesc, x: Array) -> Array:
    return desc.gamma * np.where(x > 0, x, desc.alpha * np.expm1(x))


def logistic(x: Array) -> Array:
    """Computes the sigmoid function 1 / (1 + exp(-x)) with all its digits, also where exp(-x) overflows."""
    value: Array = np.exp(np.minimum(x, 0.0)) / (1.0 + np.exp(-np.abs(x)))
    return value


@_of_input(ActivationSigmoidDesc)
def sigmoid(desc: ActivationSigmoidDesc, x: Array) -> Array:
    return logistic(x)


@_of_input(ActivationTanhDesc)
def tanh(desc: ActivationTanhDesc, x: Array) -> Array:
    return np.tanh(x)


@_of_input(ActivationScaledTanhDesc)
def scaled_tanh(desc: ActivationScaledTanhDesc, x: Array) -> Array:
    return desc.alpha * np.tanh(desc.beta * x)


@_of_input(ActivationSoftsignDesc)
def softsign(desc: ActivationSoftsignDesc, x: Array) -> Array:
    return np.where(np.isinf(x), np.sign(x), x / (1.0 + np.abs(x)))


def _log1p_exp(x: Array) -> Array:
    """Computes ln(1 + exp(x)) without overflow."""
    value: Array = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return value


@_of_input(ActivationSoftplusDesc)
def softplus(desc: ActivationSoftplusDesc, x: Array) -> Array:
    # ln(1 + exp(s x)) / s, where s x may overflow though x does not.
    bend = np.log1p(np.exp(-np.abs(desc.steepness * x))) / desc.steepness
    return np.add(np.maximum(x, 0.0), bend)


@_of_input(ActivationParametricSoftplusDesc)
def parametric_softplus(desc: ActivationParametricSoftplusDesc, x: Array) -> Array:
    return desc.alpha * _log1p_exp(desc.beta * x)


@_of_input(ActivationGeluDesc)
def gelu(desc: ActivationGeluDesc, x: Array) -> Array:
    # 0.5 x (1 + erf(x / sqrt(2))) as max(x, 0) less a tail, which stays accurate for negative x.
    result = np.maximum(x, 0.0) - 0.5 * np.minimum(np.abs(x), 40.0) * normal_tail(x)
    return np.where(x == 0, x, result)


@_of_input(ActivationSwishDesc)
def swish(desc: ActivationSwishDesc, x: Array) -> Array:
    return _gated(x, logistic(desc.sigmoid_input_scale * x))


@_of_input(ActivationHardSwishDesc)
def hard_swish(desc: ActivationHardSwishDesc, x: Array) -> Array:
    return _gated(x, hard_sigmoid(desc, x))


def _gated(x: Array, gate: Array) -> Array:
    """Computes x * gate, and 0 where the gate is closed, even if x is infinite."""
    return np.where(gate != 0, x * gate, x.dtype.type(0))


# functions of two tensors


@defines(ActivationParameterizedReluDesc)
def parameterized_relu(desc: ActivationParameterizedReluDesc, inputs: Inputs) -> Array:
    x: Array = inputs["input_tensor"]
    slope: Array = inputs["slope_tensor"]
    return np.where(x < 0, x * slope, x)


@defines(ActivationReluGradDesc)
def relu_gradient(desc: ActivationReluGradDesc, inputs: Inputs) -> Array:
    gradient: Array = inputs["input_gradient_tensor"]
    return np.where(inputs["input_tensor"] > 0, gradient, gradient.dtype.type(0))


# functions of groups: of the rows along the last dimension, or along the axes of the desc


def _axes(desc: ActivationDesc, x: Array) -> tuple[int, ...]:
    """The dimensions that the elements of one group extend along, in ascending order."""
    return tuple(sorted(set(desc.axes))) if isinstance(desc, AxesActivationDesc) else (x.ndim - 1,)


@_of_input(ActivationSoftmaxDesc, ActivationSoftmax1Desc)
def softmax_of_groups(desc: ActivationDesc, x: Array) -> Array:
    return softmax(x, _axes(desc, x))


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """Computes exp(x) divided by its sum along the axes; the largest element is subtracted first, so nothing overflows."""
    powers = np.exp(x - np.max(x, axis=axes, keepdims=True))
    shares: Array = powers / np.sum(powers, axis=axes, keepdims=True)
    return shares


@_of_input(ActivationLogSoftmaxDesc, ActivationLogSoftmax1Desc)
def log_softmax(desc: ActivationDesc, x: Array) -> Array:
    axes = _axes(desc, x)
    shifted = x - np.max(x, axis=axes, keepdims=True)
    result: Array = shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True))
    return result


@_of_input(ActivationHardmaxDesc, ActivationHardmax1Desc)
def hardmax(desc: ActivationDesc, x: Array) -> Array:
    """Writes 1 at the first largest element of each group and 0 elsewhere; NaN counts as larger than any number."""
    axes = _axes(desc, x)
    order = [axis for axis in range(x.ndim) if axis not in axes] + list(axes)
    kept, group = x.ndim - len(axes), [x.shape[axis] for axis in axes]
    rows = x.transpose(order).reshape(*(x.shape[axis] for axis in order[:kept]), prod(group))
    winners: Array = np.zeros(rows.shape, x.dtype)
    np.put_along_axis(winners, np.argmax(rows, axis=-1, keepdims=True), 1, axis=-1)
    return winners.reshape(*rows.shape[:-1], *group).transpose(np.argsort(order))
