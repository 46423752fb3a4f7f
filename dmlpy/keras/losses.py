"""Losses: a score per sample, or per step of each sample, and the gradient of the sum of the scores.

A cross-entropy of a layer that ends in the matching function (softmax, or sigmoid for the binary one) is computed from the logits: accurate
for arbitrarily small probabilities, which Keras clips at 1e-7. The output of any other layer, which may be 0 or 1, is clipped to
[1e-7, 1 - 1e-7] as in Keras; outside of these bounds the gradient is 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.flags import option_problems
from dmlpy.keras.activations import of_rows
from dmlpy.messages.naming import class_remedy, did_you_mean
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import (
    ActivationDesc,
    ActivationLogSoftmaxDesc,
    ActivationSigmoidDesc,
    ActivationSoftmaxDesc,
    ActivationSoftplusDesc,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.keras.backend import Array, Backend
    from dmlpy.keras.layer import Shape

_EPSILON = 1e-7
_LOG_SOFTMAX, _SOFTPLUS = ActivationLogSoftmaxDesc(), ActivationSoftplusDesc()


class Loss(ABC):
    """The base of all losses.

    Attributes:
        name: Keras's name.
        target_type: type of the targets' elements in the device's memory.
    """

    name: ClassVar[str]
    target_type: ClassVar[type[np.generic]] = np.float32

    def target_shape(self, output_shape: Shape) -> Shape:
        """The sizes of the targets for an output's sizes."""
        return output_shape

    def target_problems(self, targets: np.ndarray[Any, Any], output_shape: Shape) -> list[Problem]:
        """Problems of the values of targets in host memory that have the right shape."""
        return []

    @abstractmethod
    def of_values(self, targets: Array, values: Array, backend: Backend) -> tuple[Array, Array]:
        """The scores, of the values' shape without its last axis, and the gradient of their sum with respect to the values."""


class Crossentropy(Loss):
    """The base of the cross-entropies, which can be computed from logits, so that extreme values lose no accuracy.

    Attributes:
        link: the activation.

    Args:
        from_logits: Keras's argument, which must be False here.

    Raises:
        DescError: `from_logits` is True.
    """

    link: ClassVar[type[ActivationDesc]]

    def __init__(self, from_logits: bool = False) -> None:
        if problems := option_problems(from_logits=from_logits):
            raise DescError(type(self).__name__, problems)
        if from_logits:
            function = "sigmoid" if self.link is ActivationSigmoidDesc else "softmax"
            why = (f"the loss of a model that ends in {function} is computed from its logits",)
            remedy = f"leave it out, and end the model in Dense(..., activation={function!r})"
            raise DescError(type(self).__name__, [Problem("field.form", "from_logits", "True", "False", why, remedy)])

    @abstractmethod
    def of_logits(self, targets: Array, values: Array, logits: Array, backend: Backend) -> tuple[Array, Array]:
        """The scores, and the gradient of their sum with respect to the logits; the values are `link` of the logits."""


class MeanSquaredError(Loss):
    """The mean of (y - t)^2 over the last axis."""

    name = "mean_squared_error"

    def of_values(self, targets: Array, values: Array, backend: Backend) -> tuple[Array, Array]:
        difference = values - targets
        scores = (difference * difference).mean(axis=-1)
        difference *= 2 / values.shape[-1]
        return scores, difference


class MeanAbsoluteError(Loss):
    """The mean of |y - t| over the last axis. Its gradient is 0 where they are equal."""

    name = "mean_absolute_error"

    def of_values(self, targets: Array, values: Array, backend: Backend) -> tuple[Array, Array]:
        difference = values - targets
        gradient = backend.xp.sign(difference)
        gradient /= values.shape[-1]
        return abs(difference).mean(axis=-1), gradient


class BinaryCrossentropy(Crossentropy):
    """The mean of -t * ln(y) - (1 - t) * ln(1 - y) over the last axis."""

    name = "binary_crossentropy"
    link = ActivationSigmoidDesc

    def of_values(self, targets: Array, values: Array, backend: Backend) -> tuple[Array, Array]:
        xp = backend.xp
        clipped = xp.clip(values, _EPSILON, 1 - _EPSILON)
        scores = -(targets * xp.log(clipped) + (1 - targets) * xp.log1p(-clipped)).mean(axis=-1)
        gradient = (clipped - targets) / (clipped * (1 - clipped)) * (clipped == values)
        gradient /= values.shape[-1]
        return scores, gradient

    def of_logits(self, targets: Array, values: Array, logits: Array, backend: Backend) -> tuple[Array, Array]:
        # softplus(z) - t * z, split so that nothing cancels: softplus(z) = max(z, 0) + softplus(-|z|).
        xp = backend.xp
        scores = _apply(_SOFTPLUS, -abs(logits), backend)
        scores += xp.maximum(logits, 0) - targets * logits
        gradient = values - targets
        gradient /= values.shape[-1]
        return scores.mean(axis=-1), gradient


class CategoricalCrossentropy(Crossentropy):
    """The loss -sum(t * ln(y)) over the last axis. Values that are not a softmax's output are first divided by their sum."""

    name = "categorical_crossentropy"
    link = ActivationSoftmaxDesc

    def of_values(self, targets: Array, values: Array, backend: Backend) -> tuple[Array, Array]:
        xp = backend.xp
        sums = values.sum(axis=-1, keepdims=True)
        shares = values / sums
        clipped = xp.clip(shares, _EPSILON, 1 - _EPSILON)
        scores = -(targets * xp.log(clipped)).sum(axis=-1)
        gradient = -targets / clipped * (clipped == shares)
        gradient -= (gradient * shares).sum(axis=-1, keepdims=True)
        gradient /= sums
        return scores, gradient

    def of_logits(self, targets: Array, values: Array, logits: Array, backend: Backend) -> tuple[Array, Array]:
        logarithms = _apply(_LOG_SOFTMAX, logits, backend)
        scores = -(targets * logarithms).sum(axis=-1)
        return scores, targets.sum(axis=-1, keepdims=True) * values - targets


class SparseCategoricalCrossentropy(Crossentropy):
    """The loss -ln(y[t]) for a class t: the categorical cross-entropy without one-hot targets."""

    name = "sparse_categorical_crossentropy"
    link = ActivationSoftmaxDesc
    target_type = np.int32

    def target_shape(self, output_shape: Shape) -> Shape:
        return (*output_shape[:-1], 1)

    def target_problems(self, targets: np.ndarray[Any, Any], output_shape: Shape) -> list[Problem]:
        classes = output_shape[-1]
        assert classes is not None
        wrong = ~((targets >= 0) & (targets < classes) & (np.floor(targets) == targets))
        if not wrong.any():
            return []
        place = tuple(int(index) for index in np.argwhere(wrong)[0])
        return [Problem("targets.class", f"y{list(place)}", str(targets[place]), f"a whole number from 0 to {classes - 1}")]

    def of_values(self, targets: Array, values: Array, backend: Backend) -> tuple[Array, Array]:
        one_hot = (targets == backend.xp.arange(values.shape[-1], dtype=np.int32)).astype(np.float32)
        return CategoricalCrossentropy().of_values(one_hot, values, backend)

    def of_logits(self, targets: Array, values: Array, logits: Array, backend: Backend) -> tuple[Array, Array]:
        logarithms = _apply(_LOG_SOFTMAX, logits, backend)
        scores = -backend.xp.take_along_axis(logarithms, targets, axis=-1)[..., 0]
        gradient = values.copy()
        rows, columns = backend.xp.arange(targets.size), targets.reshape(-1)
        gradient.reshape(targets.size, -1)[rows, columns] -= 1  # one entry in each row: none is written twice
        return scores, gradient


def _apply(desc: ActivationDesc, x: Array, backend: Backend) -> Array:
    """Applies an activation to each row of an array."""
    rows = backend.xp.ascontiguousarray(x).reshape(-1, x.shape[-1])
    return backend.run(of_rows(desc, rows.shape), input_tensor=rows).output_tensor.reshape(x.shape)


LOSSES: Mapping[str, type[Loss]] = {
    "mse": MeanSquaredError,
    "mae": MeanAbsoluteError,
    **{kind.name: kind for kind in (MeanSquaredError, MeanAbsoluteError, BinaryCrossentropy)},
    **{kind.name: kind for kind in (CategoricalCrossentropy, SparseCategoricalCrossentropy)},
}


def loss(value: Loss | str) -> Loss:
    """Returns a loss as it is, or the one of a name.

    The names are `mse`, `mean_squared_error`, `mae`, `mean_absolute_error`, `binary_crossentropy`, `categorical_crossentropy` and
    `sparse_categorical_crossentropy`.

    Raises:
        DescError: the name is unknown.
    """
    if isinstance(value, Loss):
        return value
    kind = LOSSES.get(value) if isinstance(value, str) else None
    if kind is None:
        expected = f"a loss, or one of {', '.join(LOSSES)}"
        remedy = class_remedy(value, Loss) or did_you_mean(value, LOSSES)
        raise DescError("loss", [Problem("loss.unknown", "", brief(value), expected, remedy=remedy)])
    return kind()


def score_weights(shape: tuple[int, ...], mask: Array | None, sample_weight: Array | None, xp: Any) -> Array:
    """The weight of each score in the loss.

    Masked steps have weight 0; the other weights are scaled so that they sum to 1 over the batch, not over each sample. Scores are
    multiplied by the weights of their samples and divided by the share of samples whose weight is not 0. If everything is masked, or all
    weights are 0, the loss is 0.

    Args:
        shape: sizes of the scores, [B] or [B, T].
        mask: like the scores.
        sample_weight: [B].
        xp: the arrays' library, NumPy or CuPy.
    """
    weights = xp.ones(shape, xp.float32)
    if mask is not None:
        weights *= mask
        weights /= xp.maximum(mask.sum(), 1)
    else:
        weights /= weights.size
    if sample_weight is not None:
        share = xp.maximum((sample_weight != 0).sum(), 1) / sample_weight.size
        weights *= (sample_weight / share).astype(xp.float32).reshape(-1, *[1] * (weights.ndim - 1))
    return weights
