"""Operators and graphs over chunked arrays, for the tests of `dmlpy.dask`."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.dask.resizing import resize
from tests.support.tensors import tensor

Array = np.ndarray[Any, np.dtype[Any]]

STEPS, BATCH, INPUTS, UNITS = 6, 2, 3, 4
CONSTANTS = ("weight_tensor", "recurrence_tensor", "bias_tensor")


def lstm(direction: str = "BIDIRECTIONAL", *outputs: str, **members: Any) -> dml.LSTMDesc:
    """An LSTM over ragged sequences, with all outputs if none is named; it describes batches of 2."""
    count = 2 if direction == "BIDIRECTIONAL" else 1
    activations = [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()]
    return dml.LSTMDesc(
        input_tensor=tensor(1, STEPS, BATCH, INPUTS),
        weight_tensor=tensor(1, count, 4 * UNITS, INPUTS),
        recurrence_tensor=tensor(1, count, 4 * UNITS, UNITS),
        bias_tensor=tensor(1, 1, count, 8 * UNITS),
        sequence_lengths_tensor=tensor(1, 1, 1, BATCH, data_type="UINT32"),
        activation_descs=activations * count,
        direction=direction,
    ).with_outputs(*outputs)


def values(desc: dml.OperatorDesc, steps: int = STEPS, batch: int = 11) -> dict[str, Array]:
    """Random inputs of an LSTM over `steps` and `batch`."""
    rng = np.random.default_rng(5)
    given = {name: rng.standard_normal(desc.tensors()[name].sizes, np.float32) for name in CONSTANTS}
    given["input_tensor"] = rng.standard_normal((1, steps, batch, INPUTS), np.float32)
    given["sequence_lengths_tensor"] = rng.integers(0, steps + 1, (1, 1, 1, batch)).astype(np.uint32)
    return given


def at_once(described: Any, given: dict[str, Array], device: Any = "numpy") -> list[Array]:
    """What the operator or graph gives for the whole arrays."""
    whole = resize(described, {name: dict(enumerate(array.shape)) for name, array in given.items()}).described
    return list(dml.compile(whole, device)(**given))


def network() -> dml.Graph:
    """Two recurrent layers, the second one over a view of what the first gives, a product with a constant matrix, and an activation."""
    g = dml.GraphBuilder("network")
    x = g.input("x", tensor(1, STEPS, BATCH, INPUTS))
    lengths = g.input("lengths", tensor(1, 1, 1, BATCH, data_type="UINT32"))
    rng = np.random.default_rng(2)
    for layer in range(2):
        size = x.tensor.sizes[3]
        sequence = g.add(
            dml.GRUDesc,
            f"layer {layer}",
            outputs=["output_sequence_tensor"],
            input_tensor=x,
            sequence_lengths_tensor=lengths,
            weight_tensor=g.input(f"w{layer}", tensor(1, 1, 3 * UNITS, size)),
            recurrence_tensor=g.input(f"r{layer}", tensor(1, 1, 3 * UNITS, UNITS)),
            activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()],
            direction="FORWARD",
        )
        x = sequence.viewed(tensor(1, STEPS, BATCH, UNITS))
    rows = sequence.viewed(tensor(1, STEPS, BATCH, UNITS))
    matrix = g.constant("matrix", rng.standard_normal((1, 1, UNITS, 5)).astype(np.float32))
    wide = matrix.viewed(tensor(1, STEPS, UNITS, 5, strides=(0, 0, 5, 1)))
    y = g.add(dml.GEMMDesc, "project", a_tensor=rows, b_tensor=wide, outputs=["output_tensor"], alpha=1.0, beta=0.0)
    g.output("y", g.add(dml.ActivationReluDesc, "relu", input_tensor=y))
    return g.build()


def network_values(batch: int = 11) -> dict[str, Array]:
    """Random inputs of `network`."""
    rng = np.random.default_rng(7)
    given = {"x": rng.standard_normal((1, STEPS, batch, INPUTS), np.float32)}
    given["lengths"] = rng.integers(0, STEPS + 1, (1, 1, 1, batch)).astype(np.uint32)
    for layer, size in enumerate((INPUTS, UNITS)):
        given[f"w{layer}"] = rng.standard_normal((1, 1, 3 * UNITS, size), np.float32)
        given[f"r{layer}"] = rng.standard_normal((1, 1, 3 * UNITS, UNITS), np.float32)
    return given
