"""Regularizers, the parts of the loss that depend on weights alone: l1 * sum(|w|) + l2 * sum(w^2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import DescError, Problem


@dataclass(frozen=True)
class Regularizer:
    """The penalty l1 * sum(|w|) + l2 * sum(w^2).

    Attributes:
        l1: weight of the sum of magnitudes.
        l2: weight of the sum of squares.
    """

    l1: float = 0.0
    l2: float = 0.0

    def loss(self, weight: Any) -> float:
        """The part of the loss for an array of any library."""
        return float(self.l1 * abs(weight).sum() + self.l2 * (weight * weight).sum())

    def gradient(self, weight: Any) -> Any:
        """The gradient of `loss`, with the array's shape; that of |w| at 0 is 0."""
        sign = (weight > 0).astype(weight.dtype) - (weight < 0).astype(weight.dtype)
        return weight.dtype.type(self.l1) * sign + weight.dtype.type(2 * self.l2) * weight


def l1(l: float = 0.01) -> Regularizer:  # noqa: E741  (Keras's name)
    """Returns the penalty l * sum(|w|)."""
    return Regularizer(l1=l)


def l2(l: float = 0.01) -> Regularizer:  # noqa: E741  (Keras's name)
    """Returns the penalty l * sum(w^2)."""
    return Regularizer(l2=l)


def l1l2(l1: float = 0.01, l2: float = 0.01) -> Regularizer:
    """Returns the penalty l1 * sum(|w|) + l2 * sum(w^2)."""
    return Regularizer(l1, l2)


def regularizer(value: Regularizer | str | None) -> Regularizer | None:
    """Returns a regularizer as it is, or the one of a Keras name (`l1`, `l2`, `l1l2`) with its default weights.

    Raises:
        DescError: no such name.
    """
    named = {"l1": l1(), "l2": l2(), "l1l2": l1l2()}
    if value is None or isinstance(value, Regularizer):
        return value
    if not isinstance(value, str) or value not in named:
        problem = Problem("field.form", "", brief(value), f"one of {', '.join(named)}", remedy=did_you_mean(value, named))
        raise DescError("regularizer", [problem])
    return named[value]
