"""`from_keras`: layers and models of Keras 3 as those of this package; Keras is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, overload

from dmlpy.description.coercion import brief
from dmlpy.keras.importers import KERAS_3_ACTIVATIONS, cell_from_keras, config_problems, regularizer_from_keras
from dmlpy.keras.models import Sequential
from dmlpy.keras.pointwise import Activation, Dropout
from dmlpy.keras.simple import Dense, Embedding, Masking
from dmlpy.keras.time_distributed import TimeDistributed
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import (
    ActivationEluDesc,
    ActivationLeakyReluDesc,
    ActivationReluDesc,
    ActivationSoftmaxDesc,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices import Device
    from dmlpy.keras.layer import Layer, Shape


class _KerasModel(Protocol):
    @property
    def layers(self) -> list[Any]: ...


@overload
def from_keras(layer: _KerasModel, *, device: Device | str | None = None) -> Sequential: ...
@overload
def from_keras(layer: object) -> Any: ...
def from_keras(layer: Any, *, device: Device | str | None = None) -> Layer | Sequential:
    """Creates a layer or a model like one of Keras 3, with its weights.

    A built SimpleRNN, GRU or LSTM, an RNN of one of their cells, Bidirectional, TimeDistributed, Embedding, Masking, Dense, Dropout,
    Activation, ELU, LeakyReLU, ReLU or Softmax becomes an unbuilt layer. A Sequential of such layers becomes a `Sequential`, and so does a
    functional model in which each layer has the output of the one before.

    A recurrent layer without bias becomes one whose bias is zeros, which training changes. Activations are Keras 3's (its hard_sigmoid
    differs from Keras 1's), and `zero_output_for_mask` is set where it is, as Keras's Bidirectional does. Dropout has the same rates and,
    as there, one mask for all gates unless the state is dropped too.

    Args:
        layer: a live layer or model; its config and weights are read.
        device: as for `Sequential`, for a model.

    Raises:
        DescError: a layer of another kind, one that is not built, or options that cannot be expressed; all problems at once.
    """
    if type(layer).__name__ not in ("Sequential", "Functional") or not hasattr(layer, "layers"):
        if device is not None:
            expected = "None: a layer is on the device of the model that it is added to"
            raise DescError("from_keras", [Problem("field.form", "device", brief(device), expected)])
        return _layer(layer, None)
    if not layer.built:
        remedy = "call it on data, or build(shape)"
        raise DescError("from_keras", [Problem("layer.not_built", "", "not built", "a model with weights", remedy=remedy)])
    problems: list[Problem] = []
    layers: list[Layer] = []
    for index, keras_layer in enumerate(_chain(layer)):
        try:
            _refuse_masked(keras_layer)
            layers.append(_layer(keras_layer, tuple(layer.input_shape) if index == 0 else None))
        except DescError as error:
            problems += [problem.under(f"layers[{index}]") for problem in error.problems]
    if problems:
        raise DescError("from_keras", problems)
    return Sequential(layers, device=device)


def _chain(model: Any) -> list[Any]:
    """The layers of a model, each of which has the output of the one before.

    Raises:
        DescError: they are not a chain.
    """
    if type(model).__name__ == "Sequential":
        return list(model.layers)
    ends: list[Any] = list(model.layers)
    others = ends[1:]
    linked = all(_follows(following, before.output) for before, following in zip(ends, others, strict=False))
    if not linked or not others or model.output is not ends[-1].output:
        remedy = "take the layers one by one by from_keras(layer), and call them"
        expected = "a chain: each layer with the output of the one before"
        raise DescError("from_keras", [Problem("import.kind", "", "a functional model with branches", expected, remedy=remedy)])
    return others


def _follows(layer: Any, output: Any) -> bool:
    """Whether a layer has the output of the one before alone, or with the mask that Keras hands on with it."""
    given = layer.input if isinstance(layer.input, list | tuple) else [layer.input]
    handed_on = [output, getattr(output, "_keras_mask", None)]
    return bool(given) and len(given) <= 2 and all(own is one for own, one in zip(given, handed_on, strict=False))


def _refuse_masked(layer: Any) -> None:
    """Raises DescError for a Softmax that Keras hands a mask of steps: it takes it for one of places, and few sizes fit."""
    inner = layer.layer if type(layer).__name__ == "TimeDistributed" and hasattr(layer, "layer") else layer
    if type(inner).__name__ == "Softmax" and isinstance(getattr(layer, "input", None), list | tuple) and len(layer.input) > 1:
        expected, remedy = "one without a mask of its input", "use Activation('softmax'), which leaves the mask to the layers behind it"
        raise DescError("from_keras", [Problem("import.option", "", "a Softmax behind a mask", expected, remedy=remedy)])


def _layer(layer: Any, shape: Shape | None) -> Layer:
    """A layer, and the shape of its input if it is a model's first one."""
    kind = type(layer).__name__
    if kind == "TimeDistributed" and hasattr(layer, "layer"):
        try:
            return TimeDistributed(_layer(layer.layer, None), batch_input_shape=shape)
        except DescError as error:
            raise DescError("from_keras", [problem.under("layer") for problem in error.problems]) from None
    if kind not in _KINDS or not hasattr(layer, "get_config"):
        return cell_from_keras(layer, (*_KINDS, "TimeDistributed"))
    config = layer.get_config()
    problems = config_problems(layer, config)
    options = _Options(config, problems)
    layer_class, read = _KINDS[kind]
    arguments = read(options)
    weights = layer.get_weights() if layer.built else []
    if layer_class in (Dense, Embedding) and not layer.built:
        remedy = "call it on data, or build(shape)"
        problems.append(Problem("layer.not_built", "", "not built", "a layer with weights", remedy=remedy))
    if problems:
        raise DescError("from_keras", problems)
    result: Layer = layer_class(**arguments, batch_input_shape=shape)
    if isinstance(result, Dense | Embedding):
        result.begin_with(weights)
    return result


class _Options:
    """The options of a layer of Keras, and the problems with them.

    Args:
        config: the layer's.
        problems: where problems are added.
    """

    def __init__(self, config: Mapping[str, Any], problems: list[Problem]) -> None:
        self.config = config
        self.problems = problems

    def require(self, **wanted: Any) -> None:
        """Adds problems for options that have another value than the only one that can be expressed."""
        for name, value in wanted.items():
            if self.config.get(name, value) != value:
                self.problems.append(Problem("import.option", name, brief(self.config[name]), repr(value)))

    def activation(self) -> OperatorDesc | None:
        name = self.config["activation"]
        activation = KERAS_3_ACTIVATIONS.get(name) if isinstance(name, str) else None
        if activation is None:
            self.problems.append(Problem("import.option", "activation", brief(name), f"one of {', '.join(KERAS_3_ACTIVATIONS)}"))
        return activation

    def regularizer(self, option: str) -> Any:
        return regularizer_from_keras(option, self.config.get(option), self.problems)


def _embedding(options: _Options) -> dict[str, Any]:
    config = options.config
    options.require(embeddings_constraint=None, lora_rank=None, quantization_config=None)
    named = {"input_dim": config["input_dim"], "output_dim": config["output_dim"], "mask_zero": config["mask_zero"]}
    return {**named, "W_regularizer": options.regularizer("embeddings_regularizer")}


def _dense(options: _Options) -> dict[str, Any]:
    config = options.config
    options.require(kernel_constraint=None, bias_constraint=None, lora_rank=None, quantization_config=None)
    regularizers = {f"{name}_regularizer": options.regularizer(f"{of}_regularizer") for name, of in (("W", "kernel"), ("b", "bias"))}
    return {"output_dim": config["units"], "activation": options.activation(), "bias": config["use_bias"], **regularizers}


def _dropout(options: _Options) -> dict[str, Any]:
    options.require(noise_shape=None)
    return {"rate": options.config["rate"]}


def _relu(options: _Options) -> dict[str, Any]:
    options.require(max_value=None, threshold=0.0)
    slope = float(options.config["negative_slope"])
    return {"activation": ActivationLeakyReluDesc(alpha=slope) if slope else ActivationReluDesc()}


def _softmax(options: _Options) -> dict[str, Any]:
    options.require(axis=-1)
    return {"activation": ActivationSoftmaxDesc()}


_KINDS: dict[str, tuple[Callable[..., Layer], Callable[[_Options], dict[str, Any]]]] = {
    "Embedding": (Embedding, _embedding),
    "Masking": (Masking, lambda options: {"mask_value": options.config["mask_value"]}),
    "Dense": (Dense, _dense),
    "Activation": (Activation, lambda options: {"activation": options.activation()}),
    "ELU": (Activation, lambda options: {"activation": ActivationEluDesc(alpha=float(options.config["alpha"]))}),
    "LeakyReLU": (Activation, lambda options: {"activation": ActivationLeakyReluDesc(alpha=float(options.config["negative_slope"]))}),
    "ReLU": (Activation, _relu),
    "Softmax": (Activation, _softmax),
    "Dropout": (Dropout, _dropout),
}
"""The layers of Keras 3 that are not recurrent ones: what each becomes, and with which arguments."""
