"""The abstract `Recurrent`, the base of SimpleRNN, GRU and LSTM.

A layer computes nothing itself: it describes its tensors to RNN, GRU or LSTM and runs the operator. A pass without mask, dropout or
training runs DirectML's struct; any other runs dmlpy's training form of it, followed by its gradient in `backward`. Print
`layer.descs` after a call to see them. Arrays are [batch, steps, size], the structs' tensors [1, steps, batch, size]: the strides express
this, and nothing is transposed or copied.

Descs hold sizes, so each combination of batch, steps, mask and training has its desc, which the first such pass compiles and later
passes reuse.
"""

from __future__ import annotations

from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.enums import RecurrentDirection
from dmlpy.description.flags import check_flags, option_problems
from dmlpy.description.gate_order import Cell, GateOrder
from dmlpy.keras.activations import ACTIVATIONS, fusable
from dmlpy.keras.activations import activation as find_activation
from dmlpy.keras.arguments import dropout_problems, found_argument, found_array, found_arrays, size_problems
from dmlpy.keras.gate_layouts import GateLayout, WeightArrays, WeightList
from dmlpy.keras.initializers import Initializer, initial
from dmlpy.keras.initializers import initializer as find_initializer
from dmlpy.keras.layer import Layer, Shape, Weight, unknown_argument
from dmlpy.keras.recurrent_passes import Kind, RecurrentPasses
from dmlpy.keras.regularizers import Regularizer
from dmlpy.keras.regularizers import regularizer as find_regularizer
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import ActivationDesc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.backend import Array, Backend
    from dmlpy.operators.recurrent.layer import RecurrentDesc
    from dmlpy.operators.recurrent.training import RecurrentTrainingDesc

ConsumeLess = Literal["cpu", "mem", "gpu"]

_STATE_FIELDS = ("hidden_init_tensor", "cell_mem_init_tensor")
"""The fields of the initial states, in the order in which Keras lists states."""


class Recurrent(Layer):
    """The base of SimpleRNN, GRU and LSTM; it cannot be instantiated itself.

    Input [B, T, I]; output [B, T, H] with `return_sequences`, else the last one, [B, H]. B samples, T steps, I = input_dim, H = output_dim.

    A mask [B, T] selects the steps that count. A masked step keeps a sample's state and repeats its previous output, or zero if there is
    none. With `return_sequences` the mask is passed to the next layer unchanged, as in Keras (also with `go_backwards`, where the output's
    steps are reversed); without, there is no mask after this layer.

    Args:
        output_dim: H.
        activations: the cell's activations by argument, in the order of the desc's `activation_descs`.
        init: initializer of the input's matrix of each gate, [I, H]: a Keras name, or a function of a shape and a generator.
        inner_init: initializer of the state's matrix of each gate, [H, H].
        W_regularizer: regularizer of the input's matrices: `l2(0.01)`, a name, or None.
        U_regularizer: regularizer of the state's matrices.
        b_regularizer: regularizer of the biases.
        dropout_W: share p of the inputs that is dropped in training, at least 0 and below 1; the rest is multiplied by 1 / (1 - p).
            The mask is drawn for each sample and gate and is the same for all steps.
        dropout_U: the same for the state that enters the products.
        weights: initial values, as `set_weights` takes them in Keras 1's order.
        return_sequences: whether the output has all steps, or the last one that runs.
        return_state: whether a call also returns the final states: [y, h], of LSTM [y, h, c], each state [B, H].
            A layer of a model has one output, and so no `return_state`.
        go_backwards: whether the last step is read first; with `return_sequences` the output is in reading order.
        stateful: whether sample i of a batch starts from the final state of sample i of the previous batch. Needs a fixed batch size:
            `batch_input_shape`. Gradients do not flow into the previous batch.
        unroll: accepted and ignored: Keras unrolls its graph; here there is none.
        consume_less: accepted; the device decides how to split products, which never changes the result. As in Keras, `gpu` drops the same
            inputs and states for all gates, `cpu` and `mem` different ones for each.
        zero_output_for_mask: whether outputs at masked steps are zero instead of repeated, as later versions of Keras offer.
        input_dim: I.
        input_length: T, if it is fixed.
        input_shape: (T, I), in place of the two above.
        batch_input_shape: (B, T, I); B and T are None if they may differ between calls.
        name: the layer's name.

    Raises:
        DescError: invalid arguments; all problems at once.
    """

    cell: ClassVar[Cell]
    """The cell of the recurrence."""

    forms: ClassVar[tuple[type[RecurrentDesc], type[RecurrentTrainingDesc]]]
    """The struct of DirectML and its training form."""

    bias_parts = 1
    """Biases of each gate."""

    attributes: Mapping[str, Any] = {}
    """Attributes of the desc other than activations and direction."""

    direction: RecurrentDirection
    """The desc's direction; `Bidirectional` sets its layer's to both."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls is Recurrent:
            problem = Problem("layer.abstract", "", "a base class", "a layer", remedy="use SimpleRNN, GRU or LSTM")
            raise DescError("Recurrent", [problem])
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        output_dim: int,
        activations: Mapping[str, ActivationDesc | str | None],
        init: Initializer | str = "glorot_uniform",
        inner_init: Initializer | str = "orthogonal",
        W_regularizer: Regularizer | str | None = None,
        U_regularizer: Regularizer | str | None = None,
        b_regularizer: Regularizer | str | None = None,
        dropout_W: float = 0.0,
        dropout_U: float = 0.0,
        *,
        weights: Sequence[Any] | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        consume_less: ConsumeLess = "cpu",
        zero_output_for_mask: bool = False,
        input_dim: int | None = None,
        input_length: int | None = None,
        input_shape: Sequence[int | None] | None = None,
        batch_input_shape: Sequence[int | None] | None = None,
        name: str | None = None,
        **unknown: Any,
    ) -> None:
        super().__init__(
            input_dim=input_dim, input_length=input_length, input_shape=input_shape, batch_input_shape=batch_input_shape, name=name
        )
        self.output_dim = output_dim
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.go_backwards = go_backwards
        self.stateful = stateful
        self.unroll = unroll
        self.consume_less: ConsumeLess = consume_less
        self.zero_output_for_mask = zero_output_for_mask
        self.dropout_W, self.dropout_U = dropout_W, dropout_U
        self.direction = RecurrentDirection.BACKWARD if go_backwards else RecurrentDirection.FORWARD
        problems: list[Problem] = []
        self.init: Initializer = found_argument(find_initializer, init, "init", problems)
        self.inner_init: Initializer = found_argument(find_initializer, inner_init, "inner_init", problems)
        self._regularizers: list[Regularizer | None] = [
            found_argument(find_regularizer, value, argument, problems)
            for argument, value in zip(
                ("W_regularizer", "U_regularizer", "b_regularizer"), (W_regularizer, U_regularizer, b_regularizer), strict=True
            )
        ]
        self.activations: list[ActivationDesc] = [
            found_argument(_cell_activation, value, argument, problems) for argument, value in activations.items()
        ]
        problems += self._argument_problems(unknown)
        if problems:
            raise DescError(self.name, problems)
        self._first_weights: tuple[Sequence[Any], GateLayout] | None = None if weights is None else (weights, "keras1")
        self._passes: RecurrentPasses | None = None
        self.initial_state_gradients: list[Array] = []
        """The gradients of the initial states by the last `backward`, as `initial_state` lists these; empty if the pass was given none."""

    def _given_shape(
        self,
        input_dim: int | None,
        input_length: int | None,
        input_shape: Sequence[int | None] | None,
        batch_input_shape: Sequence[int | None] | None,
    ) -> Shape | None:
        given = super()._given_shape(input_dim, input_length, input_shape, batch_input_shape)
        # With `input_dim` alone, the number of steps may differ between calls.
        return (None, None, input_dim) if given == (None, input_dim) and input_shape is None and batch_input_shape is None else given

    def _argument_problems(self, unknown: Mapping[str, Any]) -> list[Problem]:
        problems = size_problems(output_dim=self.output_dim) + dropout_problems(dropout_W=self.dropout_W, dropout_U=self.dropout_U)
        flags = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "zero_output_for_mask")
        problems += option_problems(**{name: getattr(self, name) for name in flags})
        if self.consume_less not in ("cpu", "mem", "gpu"):
            problems.append(Problem("field.form", "consume_less", brief(self.consume_less), "'cpu', 'mem' or 'gpu'"))
        if self.input_shape is not None:
            problems += _sequence_problems(self.input_shape)
        return problems + [unknown_argument(name, type(self)) for name in unknown]

    # building

    @property
    def has_first_weights(self) -> bool:
        """Whether the constructor received initial weights."""
        return self._first_weights is not None

    @property
    def directions(self) -> int:
        """The number of directions, D."""
        return self.direction.count

    @property
    def constants(self) -> Mapping[str, Array]:
        """The weights of a built layer as its desc has them, by field: [1, D, G H, I], [1, D, G H, H] and [1, 1, D, 2 G H]."""
        assert self._passes is not None
        return self._passes.constants

    @property
    def operator_attributes(self) -> Mapping[str, Any]:
        """The desc's members that are not tensors: activations of all directions, the direction, and the struct's other attributes."""
        return {"activation_descs": self.activations * self.directions, "direction": self.direction, **self.attributes}

    @property
    def input_dim(self) -> int:
        """The input size I of a built layer."""
        assert self.input_shape is not None
        size = self.input_shape[-1]
        assert size is not None
        return size

    @property
    def weight_list(self) -> WeightList:
        """The weights that `get_weights` and `set_weights` list."""
        return WeightList(self.cell, self.input_dim, self.output_dim, self.bias_parts, self.directions)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        problems = _sequence_problems(input_shape, "the layer before it needs return_sequences=True" if len(input_shape) == 2 else None)
        if not problems and input_shape[2] is None:
            remedy = "pass input_dim, or input_shape=(steps, size)"
            problems.append(Problem("layer.input_size", "input_shape[2]", "None", "the input's size", remedy=remedy))
        if not problems and self.stateful and input_shape[0] is None:
            remedy = "pass batch_input_shape=(batch, steps, size) to the first layer"
            why = ("the state of sample i is kept for sample i of the next batch",)
            problems.append(Problem("layer.batch_size", "input_shape[0]", "None", "a fixed batch size: stateful is True", why, remedy))
        if problems:
            raise DescError(self.name, problems)
        batch, steps, _ = input_shape
        return (batch, steps, self.output_dim) if self.return_sequences else (batch, self.output_dim)

    def weight_shapes(self, input_shape: Shape) -> dict[str, tuple[int, ...]]:
        size = input_shape[-1]
        assert size is not None
        gates, units = len(GateOrder.DIRECTML.gates(self.cell)), self.output_dim
        shapes = {"W": (gates * units, size), "U": (gates * units, units), "b": (self.bias_parts * gates * units,)}
        return {f"{way}{name}": shape for way in self._ways for name, shape in shapes.items()}

    @property
    def _ways(self) -> tuple[str, ...]:
        """The prefixes of the names of each direction's weights."""
        return ("",) if self.directions == 1 else ("forward_", "backward_")

    def make_weights(self, backend: Backend) -> None:
        """Creates `weights` as views of the desc's tensors; if a gate has one bias, Rb is not among them and stays zero."""
        options = (self.return_sequences, self.stateful, self.return_state, self.zero_output_for_mask)
        kind = Kind(*self.forms, self.operator_attributes, *options)
        self._passes = RecurrentPasses(backend, kind, self.input_dim, self.output_dim)
        names = [f"{way}{name}" for way in self._ways for name in "WUb"]
        regularizers = self._regularizers * self.directions
        self.weights = [
            Weight(name, part, regularizer=chosen)
            for name, part, chosen in zip(names, self._parts(self._passes.constants), regularizers, strict=True)
        ]
        if self.initializes or self._first_weights:
            weights, order = self._first_weights or (self._initial_weights(backend.random), "keras1")
            self.set_weights(weights, order)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._passes is not None:
            # Copied arrays do not share memory, so the weights are made views of the tensors again.
            for weight, part in zip(self.weights, self._parts(self._passes.constants), strict=True):
                weight.value = part

    def _parts(self, constants: Mapping[str, Array]) -> list[Array]:
        """The W, U and b of each direction, as packed views of the desc's tensors or of their gradients."""
        weight, recurrence, bias = (constants[name] for name in ("weight_tensor", "recurrence_tensor", "bias_tensor"))
        used = self.bias_parts * bias.shape[3] // 2
        return [part for way in range(self.directions) for part in (weight[0, way], recurrence[0, way], bias[0, 0, way, :used])]

    def _initial_weights(self, random: np.random.Generator) -> list[Any]:
        """Draws the weights of Keras 1's list in its order, each gate's arrays separately."""
        shapes = self.weight_list.shapes("keras1").values()
        gates = GateOrder.KERAS_1.gates(self.cell)
        drawn: list[Any] = []
        for _ in range(self.directions):
            for gate, start in zip(gates, range(0, 3 * len(gates), 3), strict=True):
                W, U, b = list(shapes)[start : start + 3]
                drawn += [initial(self.init, W, random), initial(self.inner_init, U, random), self._initial_bias(gate, b, random)]
        return drawn

    def _initial_bias(self, gate: str, shape: tuple[int, ...], random: np.random.Generator) -> Any:
        return np.zeros(shape, np.float32)

    def get_weights(self, order: GateLayout = "keras1") -> list[np.ndarray[Any, Any]]:
        """Returns copies of the weights in host memory; none before the layer is built.

        Args:
            order: `keras1`: W, U and b of each gate, [I, H], [H, H] and [H], gates as in Keras 1 (LSTM i, c, f, o; GRU z, r, h).
                `keras3`: kernel, recurrent_kernel and bias as in later versions, the gates side by side (LSTM i, f, c, o; GRU z, r, h).
                Where a gate has two biases, b is [2, ...]. A layer of two directions lists the forward one's, then the backward one's.

        Raises:
            DescError: no such order.
        """
        if self.backend is None:
            return []
        hosts = [self.backend.host(weight.value) for weight in self.weights]
        directions = [WeightArrays(*hosts[start : start + 3]) for start in range(0, len(hosts), 3)]
        try:
            return self.weight_list.to_keras(directions, order)
        except DescError as error:
            raise DescError(self.name, error.problems) from None

    def set_weights(self, weights: Sequence[Any], order: GateLayout = "keras1") -> None:
        """Replaces all weights; changes nothing if one does not fit.

        Args:
            weights: arrays as `get_weights` lists them.
            order: `keras1` or `keras3`, as for `get_weights`.

        Raises:
            DescError: the layer is not built, no such order, another number of arrays, or other shapes.
        """
        arrays = self.fitted_weights(weights, order)
        self._built_backend("weights").fill([weight.value for weight in self.weights], arrays)

    def fitted_weights(self, weights: Sequence[Any], order: GateLayout = "keras1") -> list[Array]:
        """The values that `set_weights` assigns to each weight, in the device's memory.

        Raises:
            DescError: as for `set_weights`.
        """
        backend = self._built_backend("weights")
        try:
            directions = self.weight_list.from_keras(found_arrays(backend.values, weights, "weights"), order)
        except DescError as error:
            raise DescError(self.name, error.problems) from None
        return [backend.array(array) for array in chain.from_iterable(directions)]

    def begin_with(self, weights: Sequence[Any], order: GateLayout = "keras1") -> None:
        """Sets the initial weights of an unbuilt layer, in the form of `set_weights`; they are checked when it is built."""
        self._first_weights = (weights, order)

    def _built_backend(self, what: str) -> Backend:
        if self.backend is None:
            remedy = "add it to a model, or call it once"
            raise DescError(
                self.name, [Problem("layer.not_built", what, "given to a layer that is not built", "a built one", remedy=remedy)]
            )
        return self.backend

    # passes

    @property
    def descs(self) -> tuple[OperatorDesc, ...]:
        return () if self._passes is None else self._passes.descs

    @check_flags
    def __call__(self, x: Any, mask: Any = None, *, initial_state: Any = None, training: bool | None = False, **more: Any) -> Any:
        """Runs the layer outside a model; builds it on the default device if it is not built yet.

        Args:
            x: [B, T, I].
            mask: [B, T], the steps that count.
            initial_state: the initial states, as `return_state` returns them: a list of one array [B, H] or of LSTM's two, or that
                one array. None: zeros, or the last states of a stateful layer.
            training: whether dropout is applied and the values that `backward` needs are saved. After it `initial_state_gradients` has
                the gradients of the initial states. None is False.
            **more: nothing.

        Returns:
            The output; with `return_state` a list of it and the states.

        Raises:
            DescError: an input, a mask or states that the layer does not accept.
        """
        return super().__call__(x, mask, training=training, initial_state=initial_state, **more)

    def called(self, x: Array, mask: Array | None, *, training: bool, initial_state: Any = None) -> Any:
        y = self._as_read(self.run_recurrence(x, mask, training=training, initial_state=initial_state)[..., 0, :])
        return [y, *self.final_states()] if self.return_state else y

    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        y = self.run_recurrence(x, mask, training=training)[..., 0, :]
        return self._as_read(y), mask if self.return_sequences else None

    def backward(self, dy: Array, state_gradients: Any = None) -> Array | None:
        """Computes the gradients, and sets `initial_state_gradients`.

        Args:
            dy: the gradient of the output.
            state_gradients: the gradients of the final states that `return_state` returns, in their order; None for zeros.

        Raises:
            DescError: there was no training pass, or the gradients do not fit.
        """
        return self.run_backward(self._as_read(dy)[..., None, :], state_gradients)

    def _as_read(self, y: Array) -> Array:
        """Converts steps from time order to reading order, or back."""
        if not (self.return_sequences and self.go_backwards):
            return y
        return y[:, ::-1].copy()

    def run_recurrence(self, x: Array, mask: Array | None, *, training: bool, initial_state: Any = None) -> Array:
        """Computes the outputs of each direction in time order, [B, T, D, H], or the last ones, [B, D, H].

        Raises:
            DescError: an input, a mask or initial states of other sizes.
        """
        backend, passes = self._built_backend("x"), self._passes
        assert passes is not None
        if problems := self._call_problems(x, mask):
            raise DescError(self.name, problems)
        initial = None if initial_state is None else self._of_states(initial_state, "initial_state", x.shape[0], backend)
        dropout = self._dropout(x.shape[0], backend) if training else {}
        return passes.run(x, mask, dropout, training=training, initial=initial)

    def final_states(self) -> list[Array]:
        """The final states of the last pass, [B, H]: h, of LSTM h and c; of two directions the forward one's first."""
        ended = {} if self._passes is None else self._passes.ended
        return [array[0, way].copy() for way in range(self.directions) for array in ended.values()]

    def _of_states(self, given: Any, name: str, batch: int, backend: Backend) -> dict[str, Array]:
        """Arrays of states, or of their gradients, as an argument lists them: [1, D, B, H] by the desc's fields of initial states.

        Raises:
            DescError: another number of arrays, or other sizes.
        """
        fields = _STATE_FIELDS if self.cell == "LSTM" else _STATE_FIELDS[:1]
        listed = list(given) if isinstance(given, list | tuple) else [given]
        wanted = len(fields) * self.directions
        if len(listed) != wanted:
            names = "h and c" if len(fields) == 2 else "h"
            expected = f"{wanted}: {names} of {'each direction, forward first' if self.directions == 2 else 'the layer'}"
            raise DescError(self.name, [Problem("weights.count", name, plural(len(listed), "array"), expected)])
        problems: list[Problem] = []
        arrays = [found_array(backend.values, state, f"{name}[{place}]", problems) for place, state in enumerate(listed)]
        for place, array in enumerate(arrays):
            if array is not None and array.shape != (batch, self.output_dim):
                expected = f"{[batch, self.output_dim]}: batch, units"
                problems.append(Problem("array.shape", f"{name}[{place}]", f"of shape {list(array.shape)}", expected))
        if problems:
            raise DescError(self.name, problems)
        whole = [backend.array(array, np.float32) for array in arrays if array is not None]
        return {name: backend.xp.stack(whole[place :: len(fields)])[None] for place, name in enumerate(fields)}

    def run_backward(self, dy: Array, state_gradients: Any = None) -> Array | None:
        """Computes the input's gradient from that of `run_recurrence`'s result; sets the weights' and initial states' gradients."""
        if self._passes is None or not self._passes.trained:
            raise self.not_trained()
        ended = None
        if state_gradients is not None:
            if not self.return_state:
                expected = "None, since the layer has no return_state"
                raise DescError(self.name, [Problem("field.form", "state_gradients", brief(state_gradients), expected)])
            ended = self._of_states(state_gradients, "state_gradients", dy.shape[0], self._built_backend("dy"))
        gradients, dx = self._passes.gradients(dy, wants_input=self.input_gradient, ended=ended)
        self.initial_state_gradients = [
            gradients[name][0, way].copy() for way in range(self.directions) for name in _STATE_FIELDS if name in gradients
        ]
        for weight, gradient in zip(self.weights, self._parts(gradients), strict=True):
            weight.gradient = gradient
        return dx

    def reset_states(self) -> None:
        self.states = {}

    @property
    def states(self) -> Mapping[str, Array]:
        return {} if self._passes is None else self._passes.states

    @states.setter
    def states(self, states: Mapping[str, Array]) -> None:
        if self._passes is not None:
            self._passes.states = dict(states)

    def _call_problems(self, x: Array, mask: Array | None) -> list[Problem]:
        assert self.input_shape is not None
        batch = self.input_shape[0] if self.stateful else None
        wanted = f"[{batch or 'batch'}, steps, {self.input_dim}]"
        if 0 in x.shape:
            wanted += ", each at least 1"
        if x.ndim != 3 or x.shape[2] != self.input_dim or 0 in x.shape:
            return [Problem("array.shape", "x", f"of shape {list(x.shape)}", wanted)]
        problems = []
        if batch is not None and x.shape[0] != batch:
            why = ("the layer is stateful: it keeps a state for each sample of a batch of the size that it was built for",)
            problems.append(Problem("layer.batch_size", "x", f"a batch of {x.shape[0]}", str(batch), why))
        if mask is not None and mask.shape != x.shape[:2]:
            problems.append(Problem("mask.shape", "mask", f"of shape {list(mask.shape)}", f"{list(x.shape[:2])}: batch, steps"))
        return problems

    def _dropout(self, batch: int, backend: Backend) -> dict[str, Array]:
        """Draws the dropout multipliers of a batch: 0 for dropped values, else 1 / (1 - p)."""
        gates = len(self.forms[0].gate_names)
        drawn = 1 if self.consume_less == "gpu" else gates
        by_name = {}
        for name, rate, size in (
            ("input_dropout_tensor", self.dropout_W, self.input_dim),
            ("state_dropout_tensor", self.dropout_U, self.output_dim),
        ):
            if rate:
                kept = backend.random.random((self.directions, drawn, batch, size), np.float32) >= rate
                multipliers = backend.array(kept * np.float32(1 / (1 - rate)))
                # Gates that share one mask read the same memory: a stride of 0.
                by_name[name] = backend.xp.broadcast_to(multipliers, (self.directions, gates, batch, size))
        return by_name


def _cell_activation(value: Any) -> ActivationDesc:
    activation = find_activation(value)
    if isinstance(activation, ActivationDesc) and activation.fusable:
        return activation
    expected = f"an element-wise activation that DirectML fuses: {', '.join(fusable(ACTIVATIONS))}, or another's desc"
    raise DescError(
        "activation", [Problem("activation_kind", "", activation.type_name, expected, ("a cell applies it to single elements",))]
    )


def _sequence_problems(shape: Shape, remedy: str | None = None) -> list[Problem]:
    sizes_fit = all(size is None or (isinstance(size, Integral) and not isinstance(size, bool) and size >= 1) for size in shape)
    if len(shape) == 3 and sizes_fit:
        return []
    return [
        Problem(
            "layer.input_shape", "input_shape", brief(shape), "(batch, steps, size), each at least 1, or None for any number", remedy=remedy
        )
    ]
