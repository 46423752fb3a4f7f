"""Conversion to and from Thinc's `PyTorchLSTM`, and other networks of torch.nn in its wrapper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from thinc.api import Model

from dmlpy.description.coercion import brief
from dmlpy.description.gate_order import GateOrder
from dmlpy.messages.problems import DescError, Problem
from dmlpy.nn.gates import copy_gates
from dmlpy.thinc.layers import GRU, LSTM, RNN, shape_of
from dmlpy.thinc.weights import split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.description.gate_order import Cell

_KINDS = "with_padded(PyTorchRNNWrapper(...)) of a torch.nn.LSTM, GRU or RNN, such as PyTorchLSTM"
_CELLS: tuple[Cell, ...] = ("LSTM", "GRU", "RNN")
_PARTS = {"weight_ih": "w", "weight_hh": "r", "bias_ih": "bw", "bias_hh": "br"}


def from_pytorch(model: Model[Any, Any], *, dropout: float = 0.0) -> Model[Any, Any]:
    """Creates the layers that compute what a model with a network of torch.nn does, with a copy of its weights.

    Args:
        model: a `PyTorchLSTM`, or a `PyTorchRNNWrapper` of a torch.nn.LSTM, GRU or RNN, also within `with_padded`.
        dropout: as for `LSTM`. Networks of torch.nn set outputs to zero in place of weights, so theirs is not taken over.

    Raises:
        DescError: there is no such network in the model, or it has a projection.
    """
    import torch

    if not isinstance(model, Model):
        raise DescError("from_pytorch", [Problem("field.form", "model", brief(model), _KINDS)])
    wrapped = [getattr(shim, "_model", None) for node in nodes_of(model) for shim in node.shims]
    networks = [network for network in wrapped if isinstance(network, torch.nn.RNNBase)]
    if len(networks) != 1:
        raise DescError("from_pytorch", [Problem("field.form", "model", brief(model.name), _KINDS)])
    network: Any = networks[0]
    if network.proj_size:
        raise DescError("from_pytorch", [Problem("num_proj_range", "proj_size", str(network.proj_size), "0")])
    cell: Cell = cast("Cell", network.mode.split("_")[0])
    outputs = network.hidden_size * (1 + network.bidirectional)
    given: dict[str, Any] = {"bi": network.bidirectional, "depth": network.num_layers, "dropout": dropout}
    if cell == "RNN":
        given["activation"] = network.nonlinearity
    converted: Model[Any, Any] = {"LSTM": LSTM, "GRU": GRU, "RNN": RNN}[cell](outputs, network.input_size, **given)
    converted.ops = model.ops
    converted.initialize()
    flat = np.zeros(shape_of(cell, converted).size, np.float32)
    for layer, weights in enumerate(split(flat, shape_of(cell, converted))):
        for name, part in _PARTS.items():
            for direction, suffix in enumerate(("", "_reverse")[: 1 + network.bidirectional]):
                if (source := getattr(network, f"{name}_l{layer}{suffix}", None)) is not None:
                    target = getattr(weights, part)[direction : direction + 1]
                    copy_gates(target, source.detach().cpu().numpy()[None], cell, GateOrder.CUDNN, GateOrder.THINC)
    converted.set_param(cell, converted.ops.asarray1f(cast("Any", flat)))
    return converted


def to_pytorch(model: Model[Any, Any]) -> Model[Any, Any]:
    """Creates `with_padded(PyTorchRNNWrapper(...))` of the network of torch.nn that computes what a model's layers do, without dropout.

    Raises:
        DescError: not a model of `dmlpy.thinc` or Thinc's `LSTM`, or one whose first states are not zero.
    """
    import torch
    from thinc.api import PyTorchRNNWrapper, with_padded

    cell = next((cell for cell in _CELLS if cell in model.param_names), None) if isinstance(model, Model) else None
    if cell is None or model.has_param(cell) is not True:
        found = brief(model.name if isinstance(model, Model) else model)
        raise DescError("to_pytorch", [Problem("field.form", "model", found, "an initialized LSTM, GRU or RNN")])
    if np.any(_on_host(model.get_param("HC0" if cell == "LSTM" else "H0"))):
        problem = Problem("field.form", "model", "one whose first states are not zero", "one that begins with zeros, as torch.nn's do")
        raise DescError("to_pytorch", [problem])
    shape = shape_of(cell, model)
    given: dict[str, Any] = {"bidirectional": shape.directions == 2}
    if cell == "RNN":
        given["nonlinearity"] = model.attrs["activation"]
    network = getattr(torch.nn, cell)(shape.inputs, shape.units, shape.depth, **given)
    state: dict[str, Any] = {}
    for layer, weights in enumerate(split(_on_host(model.get_param(cell)), shape)):
        for name, part in _PARTS.items():
            source = getattr(weights, part)
            target = np.empty_like(source)
            copy_gates(target, source, cell, GateOrder.THINC, GateOrder.CUDNN)
            for direction, suffix in enumerate(("", "_reverse")[: shape.directions]):
                state[f"{name}_l{layer}{suffix}"] = torch.from_numpy(target[direction].copy())
    network.load_state_dict(state)
    wrapped: Any = PyTorchRNNWrapper(network)
    wrapped.set_dim("nO", model.get_dim("nO"))
    wrapped.set_dim("nI", model.get_dim("nI"))
    return with_padded(wrapped)


def nodes_of(model: Model[Any, Any]) -> Iterator[Model[Any, Any]]:
    """A model and all models within it."""
    yield model
    for layer in model.layers:
        yield from nodes_of(layer)


def _on_host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array
