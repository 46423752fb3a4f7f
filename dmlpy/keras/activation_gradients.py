"""The gradients of the layers' activations, in the device's memory.

At kinks they have the values of `reference.activation_derivatives`; a clipped element has none at its bounds.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.keras.activations import of_rows, rows_tensor
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators import activation as of
from dmlpy.operators.elementwise.math import ElementWiseErfDesc, ElementWiseExpDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc
from dmlpy.reference.activation_derivatives import derivative

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.backend import Array, Backend


class Passed:
    """A training pass of an activation, of which a backward pass needs the value or the argument.

    Args:
        desc: the activation; one that `refuse_untrainable` lets pass.
        z: its argument, [N, n].
        y: its value, [N, n].
        backend: the device of both.
    """

    def __init__(self, desc: OperatorDesc, z: Array, y: Array, backend: Backend) -> None:
        self.desc, self.backend = desc, backend
        self.known = y if type(desc) in _OF_VALUES else z

    def gradient(self, dy: Array) -> Array:
        """The gradient of the argument, from the value's, [N, n]."""
        if (function := _OF_VALUES.get(type(self.desc))) is not None:
            return function(self.desc, self.known, dy)
        return dy * _OF_ARGUMENTS[type(self.desc)](self.desc, self.known, self.backend)


def refuse_untrainable(layer: str, activation: OperatorDesc) -> None:
    """Raises DescError for an activation that has no gradient."""
    if type(activation) not in _OF_VALUES and type(activation) not in _OF_ARGUMENTS:
        names = {_name(kind) for kind in (*_OF_VALUES, *_OF_ARGUMENTS)}
        name = _name(type(activation))
        why = ("it is piecewise constant: its derivative is zero, so nothing is trained",) if "HARDMAX" in name else ()
        remedy = did_you_mean(name.replace("HARD", "SOFT"), names)
        raise DescError(layer, [Problem("activation.training", "activation", name, f"one of {', '.join(sorted(names))}", why, remedy)])


def _name(kind: type[OperatorDesc]) -> str:
    return kind.short_name().removeprefix("ACTIVATION_")


# From the value


def _softmax(desc: Any, y: Array, dy: Array) -> Array:
    product = y * dy
    product -= y * product.sum(axis=_axes(desc), keepdims=True)
    return product


def _log_softmax(desc: Any, y: Array, dy: Array) -> Array:
    return dy - np.exp(y) * dy.sum(axis=_axes(desc), keepdims=True)


def _axes(desc: Any) -> tuple[int, ...]:
    return tuple(sorted({*getattr(desc, "axes", (-1,))}))


def _scale(desc: Any) -> np.float32:
    return np.float32(1 if desc.scale_bias is None else desc.scale_bias.scale)


_OF_VALUES: Mapping[type[OperatorDesc], Callable[[Any, Array, Array], Array]] = {
    of.ActivationIdentityDesc: lambda desc, y, dy: dy,
    of.ActivationLinearDesc: lambda desc, y, dy: desc.alpha * dy,
    of.ActivationReluDesc: lambda desc, y, dy: dy * (y > 0),
    of.ActivationTanhDesc: lambda desc, y, dy: dy * (1 - y * y),
    of.ActivationSigmoidDesc: lambda desc, y, dy: dy * y * (1 - y),
    of.ActivationHardSigmoidDesc: lambda desc, y, dy: desc.alpha * dy * ((y > 0) & (y < 1)),
    of.ActivationSoftmaxDesc: _softmax,
    of.ActivationSoftmax1Desc: _softmax,
    of.ActivationLogSoftmaxDesc: _log_softmax,
    of.ActivationLogSoftmax1Desc: _log_softmax,
    ElementWiseExpDesc: lambda desc, y, dy: dy * y * _scale(desc),
    ElementWiseClipDesc: lambda desc, y, dy: dy * ((y > desc.min) & (y < desc.max)) * _scale(desc),
}
"""The gradients of the arguments of functions whose values determine their derivatives, from desc, value and the value's gradient."""


# From the argument


_LARGE = np.float32(40)
"""The normal distribution's density is 0 there in FLOAT32; the squares of much larger numbers overflow."""


def _gelu(desc: Any, z: Array, backend: Backend) -> Array:
    tensor = rows_tensor(z.shape)
    erf = ElementWiseErfDesc(input_tensor=tensor, output_tensor=tensor)
    below = 0.5 + 0.5 * backend.run(erf, input_tensor=z * np.float32(sqrt(0.5))).output_tensor
    density = np.exp(np.square(np.clip(z, -_LARGE, _LARGE)) * np.float32(-0.5))
    return below + np.where(density > 0, z, 0) * density * np.float32(1 / sqrt(2 * pi))  # infinity times 0 is 0 here


def _logistic(z: Array, scale: float, backend: Backend) -> Array:
    return backend.run(of_rows(of.ActivationSigmoidDesc(), z.shape), input_tensor=z * np.float32(scale)).output_tensor


def _swish(desc: Any, z: Array, backend: Backend) -> Array:
    scale = np.float32(desc.sigmoid_input_scale)
    y = _logistic(z, desc.sigmoid_input_scale, backend)
    slope = y * (1 - y)
    return y + np.where(slope > 0, z, 0) * slope * scale


def _hard_swish(desc: Any, z: Array, backend: Backend) -> Array:
    inner = desc.alpha * z + np.float32(desc.beta)
    factor = np.clip(inner, 0, 1)
    return factor + desc.alpha * np.where((inner > 0) & (inner < 1), z, 0)


def _derivative(desc: Any, z: Array, backend: Backend) -> Array:
    return derivative(desc, z)


_OF_ARGUMENTS: Mapping[type[OperatorDesc], Callable[[Any, Array, Backend], Array]] = {
    of.ActivationEluDesc: _derivative,
    of.ActivationCeluDesc: _derivative,
    of.ActivationScaledEluDesc: _derivative,
    of.ActivationLeakyReluDesc: _derivative,
    of.ActivationThresholdedReluDesc: _derivative,
    of.ActivationShrinkDesc: _derivative,
    of.ActivationSoftsignDesc: _derivative,
    of.ActivationScaledTanhDesc: _derivative,
    of.ActivationGeluDesc: _gelu,
    of.ActivationSwishDesc: _swish,
    of.ActivationHardSwishDesc: _hard_swish,
    of.ActivationSoftplusDesc: lambda desc, z, backend: _logistic(z, desc.steepness, backend),
    of.ActivationParametricSoftplusDesc: lambda desc, z, backend: desc.alpha * (desc.beta * _logistic(z, desc.beta, backend)),
}
"""The derivatives of the other functions, from desc, argument and device: the reference's, or of the device's operators where they are part
of it."""
