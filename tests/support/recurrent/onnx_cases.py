"""The stored results of ONNX Runtime's RNN, LSTM and GRU as dmlpy's descs and arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.folders import STORED_CASES

DESCS: dict[str, type[dml.RecurrentDesc]] = {"rnn": dml.RNNDesc, "lstm": dml.LSTMDesc, "gru": dml.GRUDesc}
DEFAULT_ACTIVATIONS = {"rnn": ["Tanh"], "lstm": ["Sigmoid", "Tanh", "Tanh"], "gru": ["Sigmoid", "Tanh"]}
DIRECTIONS = {"forward": "FORWARD", "reverse": "BACKWARD", "bidirectional": "BIDIRECTIONAL"}
# ONNX's names, with the attributes that take its alpha and beta and their ONNX defaults.
ACTIVATIONS: dict[str, tuple[type[dml.ActivationDesc], dict[str, float]]] = {
    "Tanh": (dml.ActivationTanhDesc, {}),
    "Sigmoid": (dml.ActivationSigmoidDesc, {}),
    "Relu": (dml.ActivationReluDesc, {}),
    "Softsign": (dml.ActivationSoftsignDesc, {}),
    "Softplus": (dml.ActivationSoftplusDesc, {"steepness": 1.0}),
    "Elu": (dml.ActivationEluDesc, {"alpha": 1.0}),
    "LeakyRelu": (dml.ActivationLeakyReluDesc, {"alpha": 0.01}),
    "ThresholdedRelu": (dml.ActivationThresholdedReluDesc, {"alpha": 1.0}),
    "HardSigmoid": (dml.ActivationHardSigmoidDesc, {"alpha": 0.2, "beta": 0.5}),
    "ScaledTanh": (dml.ActivationScaledTanhDesc, {"alpha": 1.0, "beta": 1.0}),
    "Affine": (dml.ActivationLinearDesc, {"alpha": 1.0, "beta": 0.0}),
}


@dataclass(frozen=True)
class OnnxCase:
    """A desc with its inputs and ONNX Runtime's outputs, by dmlpy's field names."""

    name: str
    desc: dml.RecurrentDesc
    inputs: dict[str, np.ndarray[Any, Any]]
    outputs: dict[str, np.ndarray[Any, Any]]


def _activations(cell: str, attributes: dict[str, Any], directions: int) -> list[dml.ActivationDesc]:
    names = attributes.get("activations", DEFAULT_ACTIVATIONS[cell] * directions)
    given = {"alpha": list(attributes.get("activation_alpha", [])), "beta": list(attributes.get("activation_beta", []))}
    descs = []
    for name in names:
        kind, defaults = ACTIVATIONS[name]
        # ONNX lists alphas and betas only for the activations that have them, in order.
        descs.append(kind(**{item: given[item].pop(0) if given.get(item) else value for item, value in defaults.items()}))
    return descs


def load(entry: dict[str, Any]) -> OnnxCase:
    """One case of the index, as described in its `attributes`."""
    cell = entry["case"].split("_")[1]
    attributes = entry["attributes"]
    with np.load(STORED_CASES / f"{entry['case']}.npz") as data:
        source = {name: data[name] for name in data.files}
    take = {name.split(".", 1)[1]: array for name, array in source.items()}
    directions = take["W"].shape[0]
    lengths = take.get("sequence_lens")
    inputs = {
        "input_tensor": take["X"][None],
        "weight_tensor": take["W"][None],
        "recurrence_tensor": take["R"][None],
        "bias_tensor": take["B"][None, None] if "B" in take else None,
        "hidden_init_tensor": take["initial_h"][None] if "initial_h" in take else None,
        "cell_mem_init_tensor": take["initial_c"][None] if "initial_c" in take else None,
        "sequence_lengths_tensor": None if lengths is None else lengths.astype(np.uint32)[None, None, None],
        "peephole_tensor": take["P"][None, None] if "P" in take else None,
    }
    outputs = {"output_sequence_tensor": take["Y"], "output_single_tensor": take["Y_h"][None]}
    if cell == "lstm":
        outputs["output_cell_single_tensor"] = take["Y_c"][None]
    extra: dict[str, Any] = {}
    if cell == "lstm":
        extra = {
            "clip_threshold": attributes.get("clip", 0.0),
            "use_clip_threshold": "clip" in attributes,
            "couple_input_forget": bool(attributes.get("input_forget", 0)),
        }
    elif cell == "gru":
        extra = {"linear_before_reset": bool(attributes.get("linear_before_reset", 0))}
    present = {name: np.ascontiguousarray(array) for name, array in inputs.items() if array is not None}
    desc = DESCS[cell](
        **{name: dml.TensorDesc.of(array) for name, array in present.items()},
        activation_descs=_activations(cell, attributes, directions),
        direction=DIRECTIONS[attributes["direction"]],
        **extra,
    ).with_outputs(*outputs)
    return OnnxCase(entry["case"], desc, present, outputs)


def entries() -> list[dict[str, Any]]:
    """The index of these cases."""
    found: list[dict[str, Any]] = json.loads((STORED_CASES / "index.json").read_text())
    return [entry for entry in found if entry["case"].startswith(tuple(f"onnx_{cell}_" for cell in DESCS))]
