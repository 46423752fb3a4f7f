"""`TimeDistributed`: a layer that is applied to each step separately."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.coercion import brief
from dmlpy.keras.layer import Layer, Shape
from dmlpy.keras.simple import Dense
from dmlpy.messages.naming import class_remedy
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.backend import Array, Backend


class TimeDistributed(Layer):
    """Applies a layer to each step of [B, T, ...] separately, with the same weights: output [B, T, ...].

    The layer runs once, on all steps as a batch of B T samples. Masks pass through.

    Args:
        layer: a layer of samples without steps, or of sequences if each step is a sequence. It becomes part of this layer.
        input_dim: see `Layer`, also for the other arguments.

    Raises:
        DescError: the layer is built, carries states, or returns them; all problems at once.
    """

    def __init__(
        self,
        layer: Layer,
        *,
        input_dim: int | None = None,
        input_length: int | None = None,
        input_shape: Sequence[int | None] | None = None,
        batch_input_shape: Sequence[int | None] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            input_dim=input_dim, input_length=input_length, input_shape=input_shape, batch_input_shape=batch_input_shape, name=name
        )
        if problems := _layer_problems(layer):
            raise DescError(self.name, problems)
        self.layer = layer
        self.input_type = layer.input_type  # type: ignore[misc]  # that of the layer in place of the class's
        if self.input_shape is None and layer.input_shape is not None:
            self.input_shape = (layer.input_shape[0], None, *layer.input_shape[1:])
        self._sizes: tuple[int, ...] = ()

    # building

    def _of_a_step(self, input_shape: Shape) -> Shape:
        """The shape of the layer's input: all steps are samples."""
        if len(input_shape) < 2:
            expected = "[B, T, ...]: batch, steps, and what the layer takes"
            raise DescError(self.name, [Problem("layer.input_shape", "input_shape", str(list(input_shape)), expected)])
        return (None, *input_shape[2:])

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:2], *self.layer.compute_output_shape(self._of_a_step(input_shape))[1:])

    def weight_shapes(self, input_shape: Shape) -> dict[str, tuple[int, ...]] | None:
        return self.layer.weight_shapes(self._of_a_step(input_shape))

    def build(self, input_shape: Shape, backend: Backend) -> None:
        self.layer.initializes = self.initializes
        self.layer.build(self._of_a_step(input_shape), backend)
        super().build(input_shape, backend)

    def make_weights(self, backend: Backend) -> None:
        self.weights = self.layer.weights

    def get_weights(self, *order: Any) -> list[np.ndarray[Any, Any]]:
        """Returns copies of the layer's weights in host memory, in the layer's orders."""
        return self.layer.get_weights(*order)

    def set_weights(self, weights: Sequence[Any], *order: Any) -> None:
        """Replaces all weights of the layer, as its `set_weights` does."""
        self.layer.set_weights(weights, *order)

    def fitted_weights(self, weights: Sequence[Any], *order: Any) -> list[Array]:
        """The values that `set_weights` assigns to each weight, in the device's memory."""
        return self.layer.fitted_weights(weights, *order)

    def input_problems(self, x: Any) -> list[Problem]:
        return self.layer.input_problems(x)

    # passes

    @property
    def descs(self) -> tuple[OperatorDesc, ...]:
        return self.layer.descs

    @property
    def head(self) -> Layer:
        return self.layer if isinstance(self.layer, Dense) else self

    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        assert self.input_shape is not None
        self.refuse_shape(x, (None, None, *[None] * (len(self.input_shape) - 2)), mask)
        if isinstance(self.layer, Dense):  # which takes the last axis of an array of any number of them
            return self.layer.forward(x, None, training=training)[0], mask
        self._sizes = x.shape[:2]
        y, _ = self.layer.forward(x.reshape(-1, *x.shape[2:]), None, training=training)
        return y.reshape(*self._sizes, *y.shape[1:]), mask

    def backward(self, dy: Array) -> Array | None:
        self.layer.input_gradient = self.input_gradient
        if isinstance(self.layer, Dense):
            return self.layer.backward(dy)
        dx = self.layer.backward(dy.reshape(-1, *dy.shape[2:]))
        return None if dx is None else dx.reshape(*self._sizes, *dx.shape[1:])


def _layer_problems(layer: Any) -> list[Problem]:
    if not isinstance(layer, Layer):
        return [Problem("field.form", "layer", brief(layer), "a layer", remedy=class_remedy(layer, Layer))]
    problems = []
    if layer.built:
        problems.append(Problem("layer.built", "layer", "part of a model already", "a new layer"))
    for option, why in (("stateful", "steps are samples, which have no place in the next batch"), ("return_state", "it has one output")):
        if getattr(layer, option):
            problems.append(Problem("field.form", f"layer.{option}", "True", "False", (why,)))
    return problems
