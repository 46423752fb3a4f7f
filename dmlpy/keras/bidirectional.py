"""`Bidirectional`: a recurrent layer that runs in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dmlpy.description.coercion import brief, is_among
from dmlpy.description.enums import RecurrentDirection
from dmlpy.description.flags import check_flags
from dmlpy.keras.layer import Layer, Shape
from dmlpy.keras.recurrent import Recurrent
from dmlpy.messages.naming import class_remedy, did_you_mean
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.backend import Array, Backend
    from dmlpy.keras.gate_layouts import GateLayout

MergeMode = Literal["concat", "sum", "mul", "ave"]
_MODES = ("concat", "sum", "mul", "ave")
_OTHER_MODES = {"add": "sum", "plus": "sum", "multiply": "mul", "mean": "ave", "cat": "concat"}
"""Modes by other names."""


class Bidirectional(Layer):
    """Runs a copy of a recurrent layer in each direction, as one desc of direction BIDIRECTIONAL, and merges the outputs.

    The backward layer reads the last step first; its output is merged in time order. Without `return_sequences` each returns the
    output of the step that it reads last. Weights are listed forward, then backward. Masks pass through as in the layer.

    Args:
        layer: SimpleRNN, GRU or LSTM with the arguments of both directions; the wrapper copies them and the input shape.
        merge_mode: `concat`: [..., 2 H], forward first; `sum`, `mul` or `ave`: of the two, element by element.
        weights: initial values: Keras 1's list of the forward layer, then that of the backward one.
        input_dim: see `Layer`, also for the other arguments.

    Raises:
        DescError: invalid arguments; all problems at once.
    """

    def __init__(
        self,
        layer: Recurrent,
        merge_mode: MergeMode = "concat",
        weights: Sequence[Any] | None = None,
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
        if problems := self._argument_problems(layer, merge_mode):
            raise DescError(self.name, problems)
        self.merge_mode = merge_mode
        self.layer = type(layer)(**layer.arguments() | {"weights": weights, "name": self.name})
        self.layer.direction = RecurrentDirection.BIDIRECTIONAL
        # As in later versions of Keras; Keras 1 does not have this argument.
        self.layer.zero_output_for_mask = layer.zero_output_for_mask and layer.return_sequences
        self.stateful = layer.stateful
        self.return_state = layer.return_state
        if self.input_shape is None:
            self.input_shape = layer.input_shape
        self._outputs: Array | None = None

    def _argument_problems(self, layer: Any, merge_mode: Any) -> list[Problem]:
        problems: list[Problem] = []
        if not isinstance(layer, Recurrent):
            problems.append(Problem("field.form", "layer", brief(layer), "SimpleRNN, GRU or LSTM", remedy=class_remedy(layer, Recurrent)))
        else:
            if layer.go_backwards:
                why = ("the layer runs in both directions",)
                problems.append(Problem("layer.direction", "layer.go_backwards", "True", "False", why, "leave it out"))
            if layer.has_first_weights:
                remedy = "pass them to Bidirectional: the forward layer's, then the backward layer's"
                problems.append(Problem("weights.count", "layer.weights", "given", "None: there are two layers", remedy=remedy))
        if not is_among(merge_mode, _MODES):
            suggestion = did_you_mean(_OTHER_MODES.get(merge_mode, merge_mode) if isinstance(merge_mode, str) else None, _MODES)
            if merge_mode is None:
                suggestion = "a layer has one output: take both from merge_mode='concat'"
            problems.append(Problem("field.form", "merge_mode", brief(merge_mode), f"one of {', '.join(_MODES)}", remedy=suggestion))
        return problems

    # building

    def weight_shapes(self, input_shape: Shape) -> dict[str, tuple[int, ...]]:
        return self.layer.weight_shapes(input_shape)

    def build(self, input_shape: Shape, backend: Backend) -> None:
        self.layer.initializes = self.initializes
        self.layer.build(input_shape, backend)
        super().build(input_shape, backend)

    def make_weights(self, backend: Backend) -> None:
        self.weights = self.layer.weights

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        *outer, units = self.layer.compute_output_shape(input_shape)
        assert units is not None
        return (*outer, 2 * units if self.merge_mode == "concat" else units)

    def get_weights(self, order: GateLayout = "keras1") -> list[np.ndarray[Any, Any]]:
        """Returns copies of the weights in host memory, as `Recurrent.get_weights` lists them: forward layer first, then backward."""
        return self.layer.get_weights(order)

    def set_weights(self, weights: Sequence[Any], order: GateLayout = "keras1") -> None:
        """Replaces all weights, as `Recurrent.set_weights` does: the forward layer's, then the backward layer's."""
        self.layer.set_weights(weights, order)

    def fitted_weights(self, weights: Sequence[Any], order: GateLayout = "keras1") -> list[Array]:
        """The values that `set_weights` assigns to each weight, in the device's memory."""
        return self.layer.fitted_weights(weights, order)

    def begin_with(self, weights: Sequence[Any], order: GateLayout = "keras1") -> None:
        """Sets the initial weights of an unbuilt layer, as `Recurrent.begin_with` does."""
        self.layer.begin_with(weights, order)

    # passes

    @property
    def descs(self) -> tuple[OperatorDesc, ...]:
        return self.layer.descs

    @check_flags
    def __call__(self, x: Any, mask: Any = None, *, initial_state: Any = None, training: bool | None = False, **more: Any) -> Any:
        """Runs the layer outside a model, as `Recurrent` does; states are the forward direction's, then the backward one's."""
        return super().__call__(x, mask, training=training, initial_state=initial_state, **more)

    def called(self, x: Array, mask: Array | None, *, training: bool, initial_state: Any = None) -> Any:
        y = self._run_directions(x, mask, training=training, initial_state=initial_state)
        return [y, *self.layer.final_states()] if self.layer.return_state else y

    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        return self._run_directions(x, mask, training=training), mask if self.layer.return_sequences else None

    def _run_directions(self, x: Array, mask: Array | None, *, training: bool, initial_state: Any = None) -> Array:
        both = self.layer.run_recurrence(x, mask, training=training, initial_state=initial_state)
        if training:
            self._outputs = both if self.merge_mode == "mul" else None
        return self._merged(both)

    def backward(self, dy: Array, state_gradients: Any = None) -> Array | None:
        """Computes the gradients, as `Recurrent.backward` does."""
        self.layer.input_gradient = self.input_gradient
        return self.layer.run_backward(self._split(dy), state_gradients)

    @property
    def initial_state_gradients(self) -> list[Array]:
        """The gradients of the last backward pass, in the order in which `initial_state` lists the states."""
        return self.layer.initial_state_gradients

    def reset_states(self) -> None:
        self.layer.reset_states()

    @property
    def states(self) -> Mapping[str, Array]:
        return self.layer.states

    @states.setter
    def states(self, states: Mapping[str, Array]) -> None:
        self.layer.states = states

    def _merged(self, both: Array) -> Array:
        """Merges [..., 2, H] into one output."""
        if self.merge_mode == "concat":
            return both.reshape(*both.shape[:-2], -1)
        forward, backward = both[..., 0, :], both[..., 1, :]
        if self.merge_mode == "mul":
            return forward * backward
        total = forward + backward
        return total if self.merge_mode == "sum" else total * np.float32(0.5)

    def _split(self, dy: Array) -> Array:
        """The gradient of both outputs, [..., 2, H], from that of the merged one."""
        if self.merge_mode == "concat":
            return dy.reshape(*dy.shape[:-1], 2, -1)
        if self.merge_mode == "mul":
            if self._outputs is None:
                raise self.not_trained()
            return dy[..., None, :] * self._outputs[..., ::-1, :]
        each = dy if self.merge_mode == "sum" else dy * np.float32(0.5)
        assert self.backend is not None
        return self.backend.xp.stack((each, each), axis=-2)
