"""`RecurrentPasses`: the arrays of a built recurrent layer, and its passes through the operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.description.tensors import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.backend import Array, Backend
    from dmlpy.operators.recurrent.layer import RecurrentDesc
    from dmlpy.operators.recurrent.training import RecurrentTrainingDesc

_STATES = {"output_single_tensor": "hidden_init_tensor", "output_cell_single_tensor": "cell_mem_init_tensor"}
"""The fields of a pass's final states, each with the field of the initial state of a stateful layer's next pass."""


class Kind(NamedTuple):
    """The operators and attributes of a kind of recurrent layer.

    Attributes:
        plain: DirectML's struct.
        training: its training form.
        attributes: activations of all directions, direction, and the struct's other attributes.
        return_sequences: whether to return all steps, or the last one only.
        stateful: whether a pass begins with the final states of the previous one.
        return_state: whether to return a pass's final states.
        zero_output_for_mask: whether outputs at masked steps are zero instead of repeated.
    """

    plain: type[RecurrentDesc]
    training: type[RecurrentTrainingDesc]
    attributes: Mapping[str, Any]
    return_sequences: bool
    stateful: bool
    return_state: bool
    zero_output_for_mask: bool

    @property
    def keeps_states(self) -> bool:
        """Whether each pass returns its final states."""
        return self.stateful or self.return_state


class _Kept(NamedTuple):
    """A training pass: the key of its desc, the desc, the arrays that it read with its reserve, and the outputs that count.

    `initial` has the fields of the initial states that it was given.
    """

    key: tuple[Any, ...]
    desc: RecurrentTrainingDesc
    tensors: dict[str, Any]
    output_mask: Array | None
    initial: tuple[str, ...]


@dataclass
class RecurrentPasses:
    """The arrays of a built layer and its passes: B samples, T steps, I input_dim, H output_dim, D directions, G gates.

    Attributes:
        backend: the device with its arrays.
        kind: the layer.
        input_dim: I.
        output_dim: H.
        constants: weights, recurrence and bias as the desc has them: [1, D, G H, I], [1, D, G H, H], [1, 1, D, 2 G H].
        descs: the descs of the last pass: the forward operator's, then, after a training step, the gradient's.
        states: the final states of a stateful layer's last pass, by the fields of the next one's initial states; empty for zeros. Each pass
            creates new ones.
        ended: the final states of the last pass, in the same form, if they are saved.
    """

    backend: Backend
    kind: Kind
    input_dim: int
    output_dim: int
    constants: dict[str, Array] = field(init=False)
    descs: tuple[OperatorDesc, ...] = field(default=(), init=False)
    states: dict[str, Array] = field(default_factory=dict, init=False)
    ended: dict[str, Array] = field(default_factory=dict, init=False)
    _known: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False)
    _kept: _Kept | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        rows, ways = self.gates * self.output_dim, self.directions
        shapes = {
            "weight_tensor": (1, ways, rows, self.input_dim),
            "recurrence_tensor": (1, ways, rows, self.output_dim),
            "bias_tensor": (1, 1, ways, 2 * rows),
        }
        self.constants = {name: self.backend.xp.zeros(shape, np.float32) for name, shape in shapes.items()}

    def __getstate__(self) -> dict[str, Any]:
        # A copy can be trained, but cannot run the backward pass of the original's last pass; its descs are created again.
        return vars(self) | {"_kept": None, "_known": {}, "ended": {}}

    @property
    def gates(self) -> int:
        """The number of gates, G."""
        return len(self.kind.plain.gate_names)

    @property
    def directions(self) -> int:
        """The number of directions, D."""
        count: int = self.kind.attributes["direction"].count
        return count

    @property
    def trained(self) -> bool:
        """Whether there was a training pass for a backward pass."""
        return self._kept is not None

    def run(
        self, x: Array, mask: Array | None, dropout: Mapping[str, Array], *, training: bool, initial: Mapping[str, Array] | None = None
    ) -> Array:
        """Computes all outputs, [B, T, D, H] in time order, or the last ones, [B, D, H].

        Args:
            x: [B, T, I].
            mask: [B, T], bool; None, all steps count.
            dropout: multipliers of x and h, [D, G, B, I] and [D, G, B, H], by field.
            training: whether `gradients` will follow.
            initial: the initial states of the pass, [1, D, B, H], in the form of `states`; None: those, or zeros.
        """
        xp = self.backend.xp
        batch, steps, _ = x.shape
        inputs = {"input_tensor": _steps_first(_packed(xp, x)), **self.constants, **dropout}
        if mask is not None:
            # Packed, so that the sizes, which are a desc's key, determine the strides.
            inputs["step_mask_tensor"] = _packed(xp, mask, np.bool_).view(np.uint8).T[None, None]
        outputs, shown = self._outputs(batch, steps)
        if initial is not None:
            inputs |= initial
        elif self.kind.stateful:
            for output, state in _STATES.items():
                if output in outputs:
                    inputs[state] = self.states[state] if self.states else xp.zeros(outputs[output].shape, np.float32)
        form = self.kind.training if training or dropout or mask is not None else self.kind.plain
        key = (form, batch, steps, training, *inputs)
        if key not in self._known:
            tensors: dict[str, Any] = {name: TensorDesc.of(array) for name, array in (inputs | outputs).items()}
            desc = form(**tensors, **self.kind.attributes)
            self._known[key] = desc.with_outputs("reserve_tensor") if training else desc
        desc = self._known[key]
        results = self.backend.run(desc, **inputs, **outputs)
        self.descs = (desc,)
        if self.kind.keeps_states:
            # Packed copies, since the caller may write into its output.
            self.ended = {state: outputs[output].copy() for output, state in _STATES.items() if output in outputs}
            self.states = self.ended if self.kind.stateful else {}
        output_mask = None if mask is None else self._output_mask(mask, carried=self.kind.stateful or initial is not None)
        if training:
            self._kept = _Kept(key, desc, inputs | {"reserve_tensor": results.reserve_tensor}, output_mask, tuple(initial or ()))
        if output_mask is not None:
            shown *= output_mask
        return shown

    def gradients(
        self, upstream: Array, *, wants_input: bool, ended: Mapping[str, Array] | None = None
    ) -> tuple[dict[str, Array], Array | None]:
        """Computes gradients of the last training pass: by field those of the constants and given initial states, and that of x.

        Args:
            upstream: the gradient of the result of `run`, of its shape.
            wants_input: whether to compute that of x; else it is None.
            ended: the gradients of the final states, in the form of that attribute, if the layer keeps states.
        """
        assert self._kept is not None
        forward, desc, tensors, output_mask, initial = self._kept
        xp = self.backend.xp
        upstream = _packed(xp, upstream if output_mask is None else upstream * output_mask)
        name = "output_sequence" if self.kind.return_sequences else "output_single"
        given = {f"{name}_gradient_tensor": _steps_first_outputs(upstream)}
        for output, state in _STATES.items():
            if ended and state in ended:
                other = given.get(_gradient_of(output))
                given[_gradient_of(output)] = ended[state] if other is None else _packed(xp, other + ended[state])
        x = tensors["input_tensor"]
        outputs = {}
        if wants_input:
            _, steps, batch, size = x.shape
            outputs["input_gradient_tensor"] = _steps_first(xp.empty((batch, steps, size), np.float32))
        key = (*forward, wants_input, initial, *given)
        if key not in self._known:
            wanted = [*self.constants, *initial, *(["input_tensor"] if wants_input else [])]
            self._known[key] = self._gradient_desc(desc, given | outputs, wanted)
        gradient = self._known[key]
        described = gradient.tensors()
        read = {name: array for name, array in tensors.items() if name in described}
        results = self.backend.run(gradient, **read, **given, **outputs)
        self.descs = (desc, gradient)
        gradients = {name: getattr(results, _gradient_of(name)) for name in (*self.constants, *initial)}
        return gradients, outputs["input_gradient_tensor"][0].swapaxes(0, 1) if wants_input else None

    def _outputs(self, batch: int, steps: int) -> tuple[dict[str, Array], Array]:
        """Allocates the outputs of a pass, by field, and selects the part that the layer returns."""
        xp, ways, units = self.backend.xp, self.directions, self.output_dim
        shape = (batch, steps, ways, units) if self.kind.return_sequences else (batch, ways, units)
        shown = xp.empty(shape, np.float32)
        fields = self.kind.plain.model_fields
        outputs = {"output_sequence_tensor" if self.kind.return_sequences else "output_single_tensor": _steps_first_outputs(shown)}
        if self.kind.keeps_states:
            for name in _STATES:
                if name in fields and name not in outputs:
                    outputs[name] = _steps_first_outputs(xp.empty((batch, ways, units), np.float32))
        return outputs, shown

    def _output_mask(self, mask: Array, *, carried: bool) -> Array | None:
        """The mask that multiplies the outputs; None if all outputs count. A pass may have begun with states that are carried."""
        if self.kind.return_sequences:
            return mask[:, :, None, None] if self.kind.zero_output_for_mask else None
        if self.kind.zero_output_for_mask:
            last = 0 if self.kind.attributes["direction"] is RecurrentDirection.BACKWARD else -1
            return mask[:, last, None, None]
        # The operator returns the carried state; if no step counted, there is no output to repeat.
        return mask.any(axis=1)[:, None, None] if carried else None

    def _gradient_desc(self, desc: RecurrentTrainingDesc, arrays: Mapping[str, Array], wanted: Iterable[str]) -> OperatorDesc:
        gradient = desc.gradient(*(_gradient_of(name) for name in wanted))
        # Other described outputs, like carried states, have no upstream gradient.
        upstream = {field.name: None for field in gradient.inputs() if field.name.endswith("_gradient_tensor")}
        return gradient.replace(**upstream | {name: TensorDesc.of(array) for name, array in arrays.items()})


def _gradient_of(name: str) -> str:
    return f"{name.removesuffix('_tensor')}_gradient_tensor"


def _packed(xp: Any, array: Array, dtype: Any = np.float32) -> Array:
    """Packs the values; a packed array is not copied."""
    # A contiguous array may have any stride, even a negative one, along an axis of one entry; flattening normalizes them.
    return xp.ascontiguousarray(array, dtype).reshape(-1).reshape(array.shape)


def _steps_first(array: Array) -> Array:
    """Views [B, T, I] as [1, T, B, I]."""
    return array.swapaxes(0, 1)[None]


def _steps_first_outputs(array: Array) -> Array:
    """Views [B, T, D, H] as [T, D, B, H], and [B, D, H] as [1, D, B, H]."""
    return array.transpose(1, 2, 0, 3) if array.ndim == 4 else array.swapaxes(0, 1)[None]
