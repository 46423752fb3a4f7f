"""Layers without weights that keep their input's shape: `Activation` and `Dropout`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.keras.activation_gradients import Passed, refuse_untrainable
from dmlpy.keras.activations import activation as find_activation
from dmlpy.keras.activations import of_rows
from dmlpy.keras.arguments import dropout_problems, found_argument
from dmlpy.keras.layer import Layer, Shape
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import ActivationIdentityDesc

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.backend import Array


class Activation(Layer):
    """Applies a function to each row of the input, of any shape [B, ..., n]. Masks pass through.

    Args:
        activation: a name or a desc. All but HARDMAX can be trained.
        **kwargs: as for `Layer`.

    Raises:
        DescError: the activation is unknown.
    """

    def __init__(self, activation: OperatorDesc | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        problems: list[Problem] = []
        self.activation: OperatorDesc = found_argument(find_activation, activation, "activation", problems)
        if problems:
            raise DescError(self.name, problems)
        self._descs: tuple[OperatorDesc, ...] = ()
        self._passed: Passed | None = None

    @property
    def descs(self) -> tuple[OperatorDesc, ...]:
        return self._descs

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if len(input_shape) < 2:
            raise DescError(self.name, [Problem("layer.input_shape", "input_shape", str(list(input_shape)), "[B, n] or [B, ..., n]")])
        return input_shape

    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        assert self.backend is not None
        assert self.input_shape is not None
        if training:
            refuse_untrainable(self.name, self.activation)
        self.refuse_shape(x, (None, *self.input_shape[1:]))
        rows = self.backend.xp.ascontiguousarray(x).reshape(-1, x.shape[-1])
        if isinstance(self.activation, ActivationIdentityDesc):
            y, self._descs = rows, ()
        else:
            desc = of_rows(self.activation, rows.shape)
            self._descs = (desc,)
            y = self.backend.run(desc, input_tensor=rows).output_tensor
        if training:
            self._passed = Passed(self.activation, rows, y, self.backend)
        return y.reshape(x.shape), mask

    def backward(self, dy: Array) -> Array | None:
        if self._passed is None:
            raise self.not_trained()
        return self._passed.gradient(dy.reshape(-1, dy.shape[-1])).reshape(dy.shape) if self.input_gradient else None


class Dropout(Layer):
    """Sets a share of the input's elements to zero in training passes, and scales the others by 1 / (1 - rate). Masks pass through.

    Args:
        rate: the share, at least 0 and below 1.
        **kwargs: as for `Layer`.

    Raises:
        DescError: the rate is out of range.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if problems := dropout_problems(rate=rate):
            raise DescError(self.name, problems)
        self.rate = float(rate)
        self._factors: Array | None = None

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        assert self.backend is not None
        assert self.input_shape is not None
        self.refuse_shape(x, (None, *self.input_shape[1:]))
        if not training:
            return x, mask
        kept = self.backend.random.random(x.shape, np.float32) >= self.rate
        self._factors = self.backend.array(kept / np.float32(1 - self.rate))
        return x * self._factors, mask

    def backward(self, dy: Array) -> Array | None:
        if self._factors is None:
            raise self.not_trained()
        return dy * self._factors if self.input_gradient else None
