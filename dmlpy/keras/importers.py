"""Recurrent layers of Keras 3 and PyTorch as layers of this package; neither library is imported.

Options that cannot be expressed are rejected by name. The layers are unbuilt and hold their initial weights: add them to a model, or
call them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.descs import show_attribute
from dmlpy.description.gate_order import Cell, GateOrder, reorder
from dmlpy.keras.activations import ACTIVATIONS, COMPOSED, fusable
from dmlpy.keras.bidirectional import Bidirectional
from dmlpy.keras.recurrent_layers import GRU, LSTM, SimpleRNN
from dmlpy.keras.regularizers import Regularizer
from dmlpy.messages.naming import did_you_mean, plural, with_article
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import (
    ActivationHardSigmoidDesc,
    ActivationReluDesc,
    ActivationSigmoidDesc,
    ActivationTanhDesc,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.keras.recurrent import Recurrent

LAYERS: dict[Cell, type[Recurrent]] = {"RNN": SimpleRNN, "GRU": GRU, "LSTM": LSTM}
_CELLS: dict[str, Cell] = {"SimpleRNN": "RNN", "GRU": "GRU", "LSTM": "LSTM"}

KERAS_3_ACTIVATIONS: dict[str, OperatorDesc] = {
    **ACTIVATIONS,
    "hard_sigmoid": ActivationHardSigmoidDesc(alpha=1 / 6, beta=0.5),
    "sparse_sigmoid": ActivationHardSigmoidDesc(alpha=0.5, beta=0.5),
}
"""Keras 3's activation names."""

_CELL_ACTIVATIONS = fusable(KERAS_3_ACTIVATIONS)
"""Keras 3's names of the activations that a cell can apply."""

_NOT_FUSED = (KERAS_3_ACTIVATIONS.keys() | COMPOSED) - _CELL_ACTIVATIONS.keys()
"""Keras 3's activation names that no activation expresses of those that DirectML fuses into recurrent layers."""

_REQUIRED = {
    "activity_regularizer": None,
    "kernel_constraint": None,
    "recurrent_constraint": None,
    "bias_constraint": None,
}
"""Options of Keras 3, each with the only supported value."""

_SAME = ("return_sequences", "return_state", "stateful", "go_backwards", "unroll", "zero_output_for_mask", "reset_after")
"""Options that have the same name in Keras 3 and in these layers."""

_RENAMED = {"activation": "activation", "recurrent_activation": "inner_activation"}
_REGULARIZERS = {"kernel_regularizer": "W_regularizer", "recurrent_regularizer": "U_regularizer", "bias_regularizer": "b_regularizer"}


def cell_from_keras(layer: Any, others: Sequence[str]) -> Recurrent | Bidirectional:
    """Creates a layer like a built SimpleRNN, GRU or LSTM of Keras 3, an RNN of one of their cells, or a Bidirectional of these.

    Args:
        layer: a live layer; its config and weights are read.
        others: the kinds of other layers that can be imported, for the message.

    Raises:
        DescError: a layer of another kind, one that is not built, or options that cannot be expressed; all problems at once.
    """
    problems: list[Problem] = []
    directions = {"": layer}
    if type(layer).__name__ == "Bidirectional":
        directions = {"forward_layer": layer.forward_layer, "backward_layer": layer.backward_layer}
        if layer.merge_mode is None:
            remedy = "take both outputs from merge_mode='concat'"
            problems.append(Problem("import.option", "merge_mode", "None", "'concat', 'sum', 'mul' or 'ave'", remedy=remedy))
    read = []
    for path, direction in directions.items():
        arguments, wrong = _keras_arguments(direction, others)
        problems += [problem.under(path) for problem in wrong]
        read.append(arguments)
    kinds = [_kind_and_config(direction)[0] for direction in directions.values()]
    if not problems and len(set(kinds)) > 1:
        problems.append(Problem("import.option", "backward_layer", with_article(kinds[1]), f"{with_article(kinds[0])}, as forward_layer"))
    elif not problems and len(read) == 2:
        problems += _backward_problems(*read)
    if problems:
        raise DescError("from_keras", problems)
    recurrent: Recurrent | Bidirectional = LAYERS[_CELLS[kinds[0]]](**read[0])
    if len(read) == 2:
        recurrent = Bidirectional(recurrent, layer.merge_mode)  # type: ignore[arg-type]
    recurrent.begin_with([array for direction in directions.values() for array in _keras_weights(direction)], "keras3")
    return recurrent


def _kind_and_config(layer: Any) -> tuple[str, dict[str, Any]]:
    """The class of a layer and its config: those of the cell, for an RNN of a cell."""
    kind, config = type(layer).__name__, layer.get_config() if hasattr(layer, "get_config") else {}
    cell = type(getattr(layer, "cell", None)).__name__
    if kind == "RNN" and cell.removesuffix("Cell") in _CELLS:
        return cell.removesuffix("Cell"), {**config, **layer.cell.get_config()}
    return kind, config


def _keras_weights(layer: Any) -> list[Any]:
    """A layer's kernel, recurrent kernel and bias; zeros if it has no bias."""
    weights = list(layer.get_weights())
    _, config = _kind_and_config(layer)
    if not config.get("use_bias", True):
        width = np.asarray(weights[1]).shape[1]
        weights.append(np.zeros((2, width) if config.get("reset_after") else width, np.float32))
    return weights


def config_problems(layer: Any, config: Mapping[str, Any]) -> list[Problem]:
    """Problems with what layers of all kinds have."""
    problems = [
        Problem("import.option", option, brief(config[option]), repr(value))
        for option, value in _REQUIRED.items()
        if config.get(option, value) != value
    ]
    if layer.compute_dtype != "float32":
        remedy = "build the layer with dtype='float32', and set the same weights"
        problems.append(Problem("type.support", "dtype", layer.compute_dtype, "float32", remedy=remedy))
    return problems


def regularizer_from_keras(option: str, given: Any, problems: list[Problem]) -> Regularizer | None:
    """A regularizer from its config; a problem is added for one that cannot be expressed."""
    if given is None:
        return None
    if given["class_name"] not in ("L1", "L2", "L1L2"):
        problems.append(Problem("import.option", option, given["class_name"], "L1, L2, L1L2 or None"))
    return Regularizer(**_floats(given["config"]))


def _keras_arguments(layer: Any, others: Sequence[str]) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments that reproduce a Keras layer, and the problems with it."""
    name, config = _kind_and_config(layer)
    if name not in _CELLS or not hasattr(layer, "get_config"):
        cell = getattr(layer, "cell", None)
        if name == "RNN" and cell is not None:
            kinds = ", ".join(f"{kind}Cell" for kind in _CELLS)
            remedy = "one RNN for each cell, all but the last with return_sequences=True" if hasattr(cell, "cells") else None
            return {}, [Problem("import.kind", "cell", with_article(type(cell).__name__), kinds, remedy=remedy)]
        kinds = ", ".join(dict.fromkeys((*_CELLS, "RNN", "Bidirectional", *others)))
        expected = f"a layer of Keras 3 that dmlpy has, or a Sequential of them: {kinds}"
        remedy = "load the file: from_keras(keras.saving.load_model(path))" if isinstance(layer, str | PathLike) else None
        return {}, [Problem("import.kind", "", with_article(name), expected, remedy=remedy)]
    if not layer.built:
        return {}, [Problem("layer.not_built", "", "not built", "a layer with weights", remedy="call it on data, or build(shape)")]
    if "time_major" in config:
        return {}, [Problem("import.kind", "", f"{with_article(name)} of Keras 2", "one of Keras 3")]
    problems = config_problems(layer, config)
    shape = layer.get_build_config()["input_shape"]
    arguments: dict[str, Any] = {name: config[name] for name in _SAME if name in config}
    arguments |= {
        "output_dim": config["units"],
        "dropout_W": config["dropout"],
        "dropout_U": config["recurrent_dropout"],
        "consume_less": "cpu" if config["recurrent_dropout"] else "gpu",
        "batch_input_shape": (shape[0] if config["stateful"] else None, None, shape[2]),
    }
    for option, argument in _RENAMED.items():
        if option in config:
            arguments[argument] = _CELL_ACTIVATIONS.get(config[option]) if isinstance(config[option], str) else None
            if arguments[argument] is None:
                problems.append(_activation_problem(option, config[option]))
    for option, argument in _REGULARIZERS.items():
        arguments[argument] = regularizer_from_keras(option, config[option], problems)
    return arguments, problems


def _activation_problem(option: str, given: Any) -> Problem:
    """The problem of an activation that no cell can apply, or that is unknown."""
    expected = f"one of {', '.join(_CELL_ACTIVATIONS)}"
    if not isinstance(given, str) or given not in _NOT_FUSED:
        return Problem("import.option", option, brief(given), expected, remedy=did_you_mean(given, _CELL_ACTIVATIONS))
    why = f"no activation that DirectML fuses into a recurrent layer computes {given}"
    remedy = "export the model of Keras as ONNX, with a loop over its steps, which dmlpy.onnx runs"
    return Problem("import.option", option, brief(given), expected, (why,), remedy)


def _floats(config: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(config[name]) for name in ("l1", "l2") if name in config}


def _backward_problems(forward: Mapping[str, Any], backward: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems that prevent two layers from being the directions of one layer."""
    if forward["go_backwards"]:
        yield Problem("import.option", "forward_layer.go_backwards", "True", "False", remedy="exchange the layers")
    for name in {**forward, **backward}:
        if name != "go_backwards" and forward.get(name) != backward.get(name):
            expected = f"{show_attribute(forward.get(name))}, as of forward_layer"
            yield Problem("import.option", f"backward_layer.{name}", show_attribute(backward.get(name)), expected)


# PyTorch


def from_torch(
    source: Any,
    *,
    layer: int | None = None,
    prefix: str = "",
    nonlinearity: str = "tanh",
    return_sequences: bool = True,
    stateful: bool = False,
    batch_size: int | None = None,
) -> Recurrent | Bidirectional:
    """Creates a layer from PyTorch's nn.RNN, nn.GRU or nn.LSTM, with its parameters; a bidirectional one becomes Bidirectional.

    PyTorch's GRU is one with `reset_after`; the two biases of the others become their sum. A module without biases becomes a layer whose
    biases are zeros, which training changes. Input and output are batch first here.

    Args:
        source: the module, or a state dict that holds its parameters.
        layer: which of the stacked layers, from 0; None if there is only one. Dropout between layers is not imported.
        prefix: the prefix of the module's entries in a state dict: `"encoder."`.
        nonlinearity: the activation of an RNN in a state dict, which does not hold it: `tanh` or `relu`.
        return_sequences: whether the output has all steps, as in PyTorch.
        stateful: as for the layer; needs `batch_size`.
        batch_size: B, if it is fixed.

    Raises:
        DescError: an unsupported module, missing entries, or options that cannot be expressed.
    """
    if hasattr(source, "state_dict"):
        entries = {str(name): value for name, value in source.state_dict().items()}
        mode = getattr(source, "mode", type(source).__name__)
        if mode not in ("RNN_TANH", "RNN_RELU", "GRU", "LSTM"):
            raise DescError(
                "from_torch", [Problem("import.kind", "source", with_article(type(source).__name__), "nn.RNN, nn.GRU or nn.LSTM")]
            )
        nonlinearity = "relu" if mode == "RNN_RELU" else "tanh"
    elif isinstance(source, Mapping):
        entries = {name.removeprefix(prefix): value for name, value in source.items() if str(name).startswith(prefix)}
    else:
        raise DescError("from_torch", [Problem("import.kind", "source", brief(source), "a module or a state dict of PyTorch")])
    ways, cell = _torch_parameters(entries, layer)
    arguments: dict[str, Any] = {"return_sequences": return_sequences, "stateful": stateful}
    if cell == "RNN":
        if nonlinearity not in ("tanh", "relu"):
            raise DescError("from_torch", [Problem("field.form", "nonlinearity", brief(nonlinearity), "'tanh' or 'relu'")])
        arguments["activation"] = ActivationReluDesc() if nonlinearity == "relu" else ActivationTanhDesc()
    else:
        arguments |= {"inner_activation": ActivationSigmoidDesc()}
    if cell == "GRU":
        arguments |= {"reset_after": True}
    size = ways[0]["weight_ih"].shape[1]
    units = ways[0]["weight_hh"].shape[1]
    recurrent: Recurrent | Bidirectional = LAYERS[cell](units, batch_input_shape=(batch_size, None, size), **arguments)
    if len(ways) == 2:
        recurrent = Bidirectional(recurrent)  # type: ignore[arg-type]
    recurrent.begin_with([array for way in ways for array in _torch_weights(way, cell)], "keras3")
    return recurrent


def _torch_parameters(entries: Mapping[str, Any], layer: int | None) -> tuple[list[dict[str, Any]], Cell]:
    """The parameters of each direction of one layer, by kind, and the cell that they belong to."""
    count = sum(name.startswith("weight_ih_l") and not name.endswith("_reverse") for name in entries)
    problems = []
    if not count:
        expected = "weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0"
        problems.append(Problem("import.missing", "source", f"entries {brief(list(entries))}", expected, remedy="pass their prefix"))
    elif layer is None and count > 1:
        remedy = f"take them one by one, layer=0 to layer={count - 1}, and add them to a model in this order"
        problems.append(Problem("import.option", "num_layers", str(count), "1", remedy=remedy))
    elif not 0 <= (layer or 0) < count:
        problems.append(Problem("field.form", "layer", brief(layer), f"0 to {count - 1}: there are {plural(count, 'layer')}"))
    if problems:
        raise DescError("from_torch", problems)
    index = layer or 0
    suffixes = [f"_l{index}", f"_l{index}_reverse"][: 2 if f"weight_ih_l{index}_reverse" in entries else 1]
    for suffix in suffixes:
        if f"weight_hr{suffix}" in entries:
            problems.append(Problem("import.option", f"weight_hr{suffix}", "given", "nothing: a layer has no projection (proj_size)"))
        biases = [kind for kind in ("bias_ih", "bias_hh") if kind + suffix in entries]
        for kind in ("weight_hh", *(("bias_ih", "bias_hh") if biases else ())):
            if kind + suffix not in entries:
                why = (f"{biases[0]}{suffix} is there: a module has both biases, or none",) if kind.startswith("bias") else ()
                problems.append(Problem("import.missing", kind + suffix, "missing", "a parameter", why))
    if problems:
        raise DescError("from_torch", problems)
    ways = [_torch_direction(entries, suffix) for suffix in suffixes]
    rows, units = ways[0]["weight_hh"].shape
    cells: dict[int, Cell] = {1: "RNN", 3: "GRU", 4: "LSTM"}
    if rows % units or rows // units not in cells:
        raise DescError(
            "from_torch", [Problem("weights.shape", f"weight_hh{suffixes[0]}", f"of shape {[rows, units]}", "1, 3 or 4 gates of H rows")]
        )
    return ways, cells[rows // units]


def _torch_direction(entries: Mapping[str, Any], suffix: str) -> dict[str, np.ndarray[Any, Any]]:
    """The parameters of one direction by kind; zeros for the biases of a module without them."""
    way = {kind: _host(entries[kind + suffix]) for kind in ("weight_ih", "weight_hh")}
    none = np.zeros(way["weight_hh"].shape[:1], np.float32)
    return way | {kind: _host(entries[kind + suffix]) if kind + suffix in entries else none for kind in ("bias_ih", "bias_hh")}


def _torch_weights(way: Mapping[str, Any], cell: Cell) -> list[Any]:
    """A direction's kernel, recurrent kernel and bias in Keras 3's order."""
    weights = {name: reorder(array, cell, GateOrder.CUDNN, GateOrder.KERAS, axis=0) for name, array in way.items()}
    biases = (weights["bias_ih"], weights["bias_hh"])
    return [weights["weight_ih"].T, weights["weight_hh"].T, np.stack(biases) if cell == "GRU" else biases[0] + biases[1]]


def _host(value: Any) -> np.ndarray[Any, Any]:
    """A parameter as a float32 array in host memory."""
    if hasattr(value, "detach"):
        value = value.detach().float().cpu().numpy()
    return np.asarray(value, np.float32)
