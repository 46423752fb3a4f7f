"""`Layer`, the base of every layer: weights, a forward pass, and a backward pass that stores gradients with the weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.flags import check_flags
from dmlpy.keras.arguments import entries_of, found_array, found_arrays, size_problems
from dmlpy.keras.backend import Array, Backend
from dmlpy.keras.initializers import Initializer, Values, initial
from dmlpy.messages.naming import class_remedy, did_you_mean, plural
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.regularizers import Regularizer

_OTHER_NAMES = {
    "units": "output_dim",
    "kernel_initializer": "init",
    "recurrent_initializer": "inner_init",
    "embeddings_initializer": "init",
    "recurrent_activation": "inner_activation",
    "unit_forget_bias": "forget_bias_init",
    "use_bias": "bias",
    "kernel_regularizer": "W_regularizer",
    "recurrent_regularizer": "U_regularizer",
    "embeddings_regularizer": "W_regularizer",
    "bias_regularizer": "b_regularizer",
    "dropout": "dropout_W",
    "recurrent_dropout": "dropout_U",
    "implementation": "consume_less",
    "batch_shape": "batch_input_shape",
    **dict.fromkeys(("hidden_size", "out_features", "embedding_dim"), "output_dim"),
    **dict.fromkeys(("input_size", "in_features", "num_embeddings"), "input_dim"),
    "nonlinearity": "activation",
}
"""Arguments of later Keras versions and of torch.nn, each with its name in Keras 1."""

_REMEDIES = {
    "num_layers": "add as many layers, all but the last with return_sequences=True",
    "bidirectional": "wrap the layer: Bidirectional(layer)",
    "batch_first": "leave it out: arrays are [batch, steps, width]",
    "device": "Sequential takes it: Sequential(device=...)",
    "mask_zero": "only Embedding has it; Masking masks steps of other inputs",
}
"""Remedies for arguments that Keras 1 has under no name."""

Shape = tuple[int | None, ...]
"""Sizes of an array, the batch first; None for a size that may differ between calls."""


@dataclass
class Weight:
    """A trained array.

    Attributes:
        name: `W`, `U`, `b`, ...
        value: float32, in the device's memory; optimizers change it in place.
        gradient: the gradient of the loss, like `value`; None before the first backward pass.
        regularizer: its term of the loss; None adds nothing.
    """

    name: str
    value: Array
    gradient: Array | None = None
    regularizer: Regularizer | None = None


class Layer(ABC):
    """A step of a model.

    A layer is built once, for a device and an input's shape: by `Sequential.add`, or by its first call.

    Args:
        input_dim: the input's last size.
        input_length: steps of each sample.
        input_shape: sizes of a sample; in place of the two above.
        batch_input_shape: sizes of the input including the batch, each None if it may differ between calls.
        name: the layer's name; by default its class and a number.

    Raises:
        DescError: invalid sizes of the input.

    Attributes:
        name: the layer's name.
        input_shape: sizes of the input; None until the layer is built, unless the constructor received them.
        output_shape: sizes of the output; None until the layer is built.
        weights: the trained arrays.
        input_type: type of the input's elements in the device's memory.
        stateful: whether sample i of a batch starts from the last state of sample i of the previous batch.
        return_state: whether a call also returns states.
        input_gradient: whether `backward` computes the input's gradient; a model's first layer needs none.
        initializes: whether initializers set the weights; else they start as zeros, as in a model that is loaded from a file.
    """

    input_type: ClassVar[type[np.generic]] = np.float32
    stateful: bool = False
    return_state: bool = False
    input_gradient: bool = True
    initializes: bool = True
    _made: ClassVar[Counter[str]] = Counter()
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if kwargs and not _is_bound(cls, args, kwargs) and (others := kwargs.keys() - _arguments_of(cls)):
            # Python would report that `output_dim` is missing, which may be given by another name.
            raise DescError(cls.__name__, [unknown_argument(name, cls) for name in kwargs if name in others])
        # The layer is saved with the arguments that it was created with.
        self = super().__new__(cls)
        self._arguments = args, kwargs
        return self

    def __init__(
        self,
        *,
        input_dim: int | None = None,
        input_length: int | None = None,
        input_shape: Sequence[int | None] | None = None,
        batch_input_shape: Sequence[int | None] | None = None,
        name: str | None = None,
        **unknown: Any,
    ) -> None:
        kind = type(self).__name__.lower()
        Layer._made[kind] += 1
        self.name = name if isinstance(name, str) and name else f"{kind}_{Layer._made[kind]}"
        given = {member: size for member, size in {"input_dim": input_dim, "input_length": input_length}.items() if size is not None}
        problems = size_problems(**given)
        if name is not None and not isinstance(name, str):
            problems.append(Problem("field.form", "name", brief(name), "a text"))
        for member, shape in {"input_shape": input_shape, "batch_input_shape": batch_input_shape}.items():
            if shape is not None and not _is_shape(shape):
                problems.append(Problem("layer.input_shape", member, brief(shape), "sizes of at least 1, None where calls may choose"))
        problems += [unknown_argument(argument, type(self)) for argument in unknown]
        if problems:
            raise DescError(self.name, problems)
        self.input_shape: Shape | None = self._given_shape(input_dim, input_length, input_shape, batch_input_shape)
        self.output_shape: Shape | None = None
        self.weights: list[Weight] = []
        self.backend: Backend | None = None

    def _given_shape(
        self,
        input_dim: int | None,
        input_length: int | None,
        input_shape: Sequence[int | None] | None,
        batch_input_shape: Sequence[int | None] | None,
    ) -> Shape | None:
        """The input's shape as far as the constructor's arguments determine it; sequence layers put `input_length` before `input_dim`."""
        if batch_input_shape is not None:
            return tuple(batch_input_shape)
        if input_shape is not None:
            return (None, *input_shape)
        if input_dim is None:
            return None
        return (None, input_dim) if input_length is None else (None, input_length, input_dim)

    @property
    def built(self) -> bool:
        """Whether the layer has its weights."""
        return self.backend is not None

    @property
    def descs(self) -> tuple[OperatorDesc, ...]:
        """The operators of the last pass, in the order in which they ran: forward, then, after a training step, backward."""
        return ()

    def build(self, input_shape: Shape, backend: Backend) -> None:
        """Creates the weights for an input of this shape on a device; sets `input_shape` and `output_shape`.

        Raises:
            DescError: the layer does not accept such an input; the problem names what it accepts.
        """
        self.output_shape, before = self.compute_output_shape(input_shape), self.input_shape
        self.input_shape, self.backend = input_shape, backend
        try:
            with backend.current():
                self.make_weights(backend)
        except Exception:
            self.input_shape, self.output_shape, self.weights, self.backend = before, None, [], None
            raise

    @abstractmethod
    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """The output's shape for an input shape. Raises DescError for an input that the layer does not accept."""

    def make_weights(self, backend: Backend) -> None:
        """Fills `weights`, once `input_shape` is known."""
        return

    def weight_shapes(self, input_shape: Shape) -> dict[str, tuple[int, ...]] | None:
        """The shapes, by name, of the layer's weights for an input of this shape.

        None if only `make_weights` determines them: in a custom layer without this method.
        """
        return {} if type(self).make_weights is Layer.make_weights else None

    def first_values(self, initializer: Initializer, shape: tuple[int, ...], backend: Backend) -> Values:
        """The initial values of a weight, from its initializer, or zeros in a layer without one."""
        return initial(initializer, shape, backend.random) if self.initializes else np.zeros(shape, np.float32)

    @abstractmethod
    def forward(self, x: Array, mask: Array | None, *, training: bool) -> tuple[Array, Array | None]:
        """Computes the output, and the mask for later layers: [B, T], bool, False at steps to skip; None skips none.

        Args:
            x: an array in the device's memory, of the shape that the layer was built for.
            mask: the mask of the steps of x.
            training: whether dropout is applied and the values that `backward` needs are saved.
        """

    @abstractmethod
    def backward(self, dy: Array) -> Array | None:
        """Computes the input gradient of the last training pass from its output gradient; sets the weights' gradients.

        Returns None if the input has no gradient (class indices of an Embedding), or if `input_gradient` is False.
        """

    def not_trained(self) -> DescError:
        """The error that `backward` raises before a training pass."""
        expected = "a forward pass with training=True before it"
        return DescError(self.name, [Problem("layer.not_trained", "dy", "given before a training pass", expected)])

    def reset_states(self) -> None:
        """Clears the states that a stateful layer carries from batch to batch."""
        return

    @property
    def states(self) -> Mapping[str, Array]:
        """The states that a stateful layer carries to the next batch, by name; empty before the first. Passes do not modify them."""
        return {}

    @states.setter
    def states(self, states: Mapping[str, Array]) -> None:
        return

    def refuse_shape(self, x: Array, shape: Shape, mask: Array | None = None) -> None:
        """Raises DescError for an input of other sizes (None allows any), and for a mask that does not have its first two axes."""
        problems = []
        if x.ndim != len(shape) or any(size not in (None, length) for length, size in zip(x.shape, shape, strict=True)):
            expected = f"[{', '.join('any' if size is None else str(size) for size in shape)}]"
            problems.append(Problem("array.shape", "x", f"of shape {list(x.shape)}", expected))
        elif mask is not None and mask.shape != x.shape[:2]:
            problems.append(Problem("mask.shape", "mask", f"of shape {list(mask.shape)}", f"{list(x.shape[:2])}: batch, steps"))
        if problems:
            raise DescError(self.name, problems)

    def arguments(self) -> dict[str, Any]:
        """The constructor's arguments by parameter; they create an equal layer."""
        args, kwargs = self._arguments
        given = dict(signature(type(self)).bind(*args, **kwargs).arguments)
        more = given.pop("kwargs", {})
        return {**given, **more}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={brief(value)}' for name, value in self.arguments().items())})"

    def input_problems(self, x: Any) -> list[Problem]:
        """Problems of a model's input values if this is the first layer."""
        return []

    def get_weights(self) -> list[np.ndarray[Any, Any]]:
        """Returns copies of the weights in host memory."""
        return [] if self.backend is None else [np.array(self.backend.host(weight.value)) for weight in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replaces all weights; changes nothing if one does not fit.

        Args:
            weights: arrays in the order of `get_weights`.

        Raises:
            DescError: the layer is not built, another number of arrays, or other shapes.
        """
        arrays = self.fitted_weights(weights)
        assert self.backend is not None
        self.backend.fill([weight.value for weight in self.weights], arrays)

    def fitted_weights(self, weights: Sequence[Any]) -> list[Array]:
        """The values that `set_weights` assigns to each weight, in the device's memory.

        Raises:
            DescError: as for `set_weights`.
        """
        if self.backend is None:
            raise DescError(self.name, [Problem("layer.not_built", "weights", "given before the layer is built", "a layer of a model")])
        try:
            arrays = found_arrays(self.backend.values, weights, "weights")
        except DescError as error:
            raise DescError(self.name, error.problems) from None
        if len(arrays) != len(self.weights):
            expected = f"{len(self.weights)}: {', '.join(weight.name for weight in self.weights)}" if self.weights else "none"
            raise DescError(self.name, [Problem("weights.count", "weights", plural(len(arrays), "array"), expected)])
        problems = [
            Problem("weights.shape", f"weights[{index}]", f"of shape {list(given.shape)}", f"{list(weight.value.shape)}, as {weight.name}")
            for index, (weight, given) in enumerate(zip(self.weights, arrays, strict=True))
            if given.shape != weight.value.shape
        ]
        if problems:
            raise DescError(self.name, problems)
        return [self.backend.array(given) for given in arrays]

    @property
    def head(self) -> Layer:
        """The layer whose backward pass a loss may start from the logits: this one, or the one that it applies to each step."""
        return self

    @check_flags
    def __call__(self, x: Any, mask: Any = None, *, training: bool | None = False, **more: Any) -> Array:
        """Runs the layer outside a model; builds it on the default device if it is not built yet.

        Args:
            x: an array of the shape that the layer was built for.
            mask: the mask of its steps.
            training: whether dropout is applied and the values that `backward` needs are saved. None, Keras' default, is False.
            **more: further arguments of some layers, such as the `initial_state` of recurrent ones.

        Raises:
            DescError: an input that the layer does not accept.
        """
        backend = self.backend or Backend()
        problems: list[Problem] = []

        def read(given: Any) -> Array:
            return given if isinstance(given, backend.xp.ndarray) else np.asarray(given)

        values = found_array(read, x, "x", problems)
        steps = None if mask is None else found_array(read, mask, "mask", problems)
        if problems or values is None:
            raise DescError(self.name, problems)
        if self.backend is None:
            self.build(self.input_shape or (None, *values.shape[1:]), backend)
        if problems := self.input_problems(values):
            raise DescError(self.name, problems)
        with backend.current():
            given_mask = None if steps is None else backend.array(steps, np.bool_)
            return self.called(backend.array(values, self.input_type), given_mask, training=bool(training), **more)

    def called(self, x: Array, mask: Array | None, *, training: bool) -> Array:
        """The result of a call for arrays in the device's memory: the output of `forward`."""
        return self.forward(x, mask, training=training)[0]


def _is_shape(value: Any) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return not size_problems(**{str(axis): size for axis, size in enumerate(value) if size is not None})


def unknown_argument(name: str, kind: type[Layer]) -> Problem:
    """The problem of an argument that a layer does not have, perhaps since a later Keras version or torch.nn calls it so."""
    known = sorted(_arguments_of(kind))
    former = _OTHER_NAMES.get(name)
    remedy = f"Keras 1 calls it {former}" if former in known else _REMEDIES.get(name) or did_you_mean(name, known)
    why: tuple[str, ...] = ()
    if name == "dtype":
        why, remedy = ("layers compute in float32",), "dmlpy.nn and dmlpy.torch have recurrent layers of float16 and bfloat16"
    return Problem("field.unknown", name, "not an argument of this layer", f"one of {', '.join(known)}", why, remedy)


def _arguments_of(kind: type[Layer]) -> set[str]:
    """The names of the arguments that a layer's constructor has, with those of its bases."""
    names = {name for base in kind.__mro__ if issubclass(base, Layer) for name in signature(base.__init__).parameters}
    return names - {"self", "kwargs", "activations", "unknown"}


def _is_bound(kind: type[Layer], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a constructor receives all of the arguments that it needs."""
    try:
        signature(kind).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def listed_layers(layers: Any) -> tuple[Any, ...]:
    """The first layers of a model.

    Raises:
        DescError: they are no list.
    """
    if not isinstance(layers, Layer | type) and (found := entries_of(layers)) is not None:
        return found
    remedy = class_remedy(layers, Layer) if isinstance(layers, type) else "put it into a list: [...]"
    raise DescError("Sequential", [Problem("field.form", "layers", brief(layers), "a list of layers", remedy=remedy)])
