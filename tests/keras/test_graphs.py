"""`Sequential.to_graph`: the graph computes what `predict` computes, for every kind of layer, and so does its ONNX model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import (
    GRU,
    LSTM,
    Activation,
    Bidirectional,
    Dense,
    Dropout,
    Embedding,
    Masking,
    Sequential,
    SimpleRNN,
    TimeDistributed,
)
from dmlpy.keras.activations import ACTIVATIONS
from dmlpy.keras.layer import Layer
from tests.support.keras.numbers import Array, draw
from tests.support.tolerance import assert_close
from tests.support.tools import missing

ROWS = draw(3, 5, 4)
ENDED = np.arange(5) < np.array([[3], [5], [0]])
"""The steps of three sequences: padded on the right, whole, and without a step."""
GAPS = np.array([[0, 1, 0, 1, 1], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0]], bool)


def padded(kept: Array) -> Array:
    return np.where(kept[..., None], ROWS, np.float32(2))


def symbols(kept: Array) -> Array:
    return (np.arange(1, 16).reshape(3, 5) * kept).astype(np.int32)


RECURRENT: dict[str, Callable[..., Any]] = {
    "SimpleRNN": SimpleRNN,
    "SimpleRNN relu": lambda units, **more: SimpleRNN(units, activation="relu", **more),
    "GRU": GRU,
    "GRU reset after": lambda units, **more: GRU(units, reset_after=True, **more),
    "LSTM": LSTM,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "last": {},
    "sequence": {"return_sequences": True},
    "backwards": {"go_backwards": True},
    "backwards sequence": {"go_backwards": True, "return_sequences": True},
}
MODELS: dict[str, tuple[Callable[[], list[Layer]], Array]] = {
    **{
        f"{kind} {option}": (lambda make=make, more=more: [make(3, **more, input_shape=(5, 4))], ROWS)  # type: ignore[misc]
        for kind, make in RECURRENT.items()
        for option, more in OPTIONS.items()
    },
    **{
        f"Bidirectional {mode} {option}": (
            lambda mode=mode, more=more: [Bidirectional(GRU(3, **more), mode, input_shape=(5, 4))],  # type: ignore[misc]
            ROWS,
        )
        for mode in ("concat", "sum", "mul", "ave")
        for option, more in list(OPTIONS.items())[:2]
    },
    **{
        f"Dense {name}": (lambda name=name: [Dense(3, activation=name, input_shape=(5, 4))], ROWS)  # type: ignore[misc]
        for name in ("linear", "softmax", "relu6")
    },
    "Dense without bias": (lambda: [Dense(3, bias=False, input_dim=4)], draw(3, 4)),
    **{
        f"Activation {name}": (lambda name=name: [Activation(name, input_shape=(5, 4))], ROWS)  # type: ignore[misc]
        for name in ACTIVATIONS
    },
    "softmax1": (lambda: [Activation(dml.ActivationSoftmax1Desc(axes=[1]), input_dim=4)], draw(3, 4)),
    "Dropout": (lambda: [Dropout(0.5, input_shape=(5, 4))], ROWS),
    "Masking": (lambda: [Masking(2.0, input_shape=(5, 4)), Dense(2)], padded(GAPS)),
    "Embedding": (lambda: [Embedding(16, 3, input_length=5), Dense(2)], symbols(ENDED)),
    "TimeDistributed": (lambda: [TimeDistributed(Dense(3, activation="tanh"), input_shape=(5, 4)), LSTM(2)], ROWS),
    "TimeDistributed GRU": (lambda: [TimeDistributed(GRU(2), batch_input_shape=(None, 2, 5, 4))], draw(3, 2, 5, 4)),
    "TimeDistributed Embedding": (lambda: [TimeDistributed(Embedding(16, 3), batch_input_shape=(None, 3, 5))], symbols(ENDED)[None]),
    "stack": (
        lambda: [
            Masking(9.0, input_shape=(5, 4)),
            Dropout(0.5),
            Bidirectional(LSTM(3, return_sequences=True)),
            TimeDistributed(Dense(4, activation="relu")),
            GRU(3),
            Dense(2, activation="softmax"),
        ],
        ROWS,
    ),
}
MASKED: dict[str, Callable[[], list[Layer]]] = {
    **{
        f"{kind} {option}": (lambda make=make, more=more: [Masking(2.0, input_shape=(5, 4)), make(3, **more)])  # type: ignore[misc]
        for kind, make in list(RECURRENT.items())[::2]
        for option, more in OPTIONS.items()
    },
    "zeros": lambda: [Masking(2.0, input_shape=(5, 4)), LSTM(3, return_sequences=True, zero_output_for_mask=True), Dense(2)],
    "zeros, last": lambda: [Masking(2.0, input_shape=(5, 4)), LSTM(3, zero_output_for_mask=True), Dense(2)],
    "zeros, backwards": lambda: [Masking(2.0, input_shape=(5, 4)), LSTM(3, zero_output_for_mask=True, go_backwards=True)],
    "Bidirectional": lambda: [Masking(2.0, input_shape=(5, 4)), Bidirectional(LSTM(3, return_sequences=True)), GRU(2)],
}


def model(layers: list[Layer]) -> Sequential:
    return Sequential(layers, device="numpy", seed=0)


def run(graph: dml.Graph, **arrays: Array) -> Any:
    assert dml.check(graph) == []
    return dml.compile(graph, "numpy")(**arrays)


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_computes_what_the_model_predicts_and_so_does_its_onnx_model(name: str) -> None:
    make, x = MODELS[name]
    made = model(make())
    graph = made.to_graph(x.shape, right_padded=name == "stack")  # where no step is masked
    expected = made.predict(x)
    assert_close(run(graph, x=x)["y"], expected, np.float32, terms=8)
    if missing("onnx") is None:
        from dmlpy import onnx

        found = onnx.load(onnx.export(graph).SerializeToString()).compile("numpy")(x=x)["y"]
        assert_close(found, expected, np.float32, terms=8)


@pytest.mark.parametrize("name", MASKED)
def test_masked_steps(name: str) -> None:
    """Anywhere, by step masks; at the end, by lengths, with which the outputs of masked steps are zeros."""
    for kept in (ENDED, GAPS):
        made, x = model(MASKED[name]()), padded(kept)
        graph = made.to_graph(x.shape)
        assert_close(run(graph, x=x)["y"], made.predict(x), np.float32, terms=8)
        described = [node.operator.tensors() for node in graph.nodes if isinstance(node, dml.OperatorNode)]
        assert not any("reserve_tensor" in tensors for tensors in described), "nothing reads a reserve"
    made, x = model(MASKED[name]()), padded(ENDED)
    graph, expected = made.to_graph(x.shape, right_padded=True), made.predict(x)
    assert not any(isinstance(node, dml.OperatorNode) and node.operator.is_extension for node in graph.nodes)
    found = run(graph, x=x)["y"]
    if expected.ndim == 3 and isinstance(made.layers[-1], SimpleRNN | GRU | LSTM):
        counts = ENDED[:, ::-1] if made.layers[-1].go_backwards else ENDED
        expected = expected * counts[..., None]
    assert_close(found, expected, np.float32, terms=8)


def test_masked_symbols() -> None:
    made, x = model([Embedding(16, 3, mask_zero=True, input_length=5), LSTM(3), Dense(2)]), symbols(GAPS)
    assert_close(run(made.to_graph((3, 5)), x=x)["y"], made.predict(x), np.float32, terms=8)


@pytest.mark.parametrize("right_padded", [False, True])
@pytest.mark.parametrize("make", [GRU, LSTM, lambda units, **more: Bidirectional(LSTM(units, **more))], ids=["GRU", "LSTM", "both"])
def test_states_are_inputs_and_outputs(make: Callable[..., Any], right_padded: bool) -> None:
    """Two batches of one sequence each in two parts; a sequence without a step keeps its state, and its output is zeros."""
    made = model([Masking(2.0, batch_input_shape=(3, 5, 4)), make(3, stateful=True)])
    op = dml.compile(made.to_graph(right_padded=right_padded), "numpy")
    states = {name: np.zeros(desc.sizes, np.float32) for name, desc in op.inputs.items() if name != "x"}
    assert len(states) == {"GRU": 1}.get(type(made.layers[1]).__name__, 2)
    assert {*op.outputs} == {"y", *(name.replace(".", ".next_") for name in states)}
    for kept in (np.ones_like(ENDED), ENDED):
        x = padded(kept)
        found = op(x=x, **states)
        assert_close(found["y"], made.predict(x, batch_size=3), np.float32, terms=8)
        states = {name: found[name.replace(".", ".next_")] for name in states}


class Doubled(Layer):
    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def forward(self, x: Any, mask: Any, *, training: bool) -> Any:
        return 2 * x, mask

    def backward(self, dy: Any) -> Any:
        return 2 * dy


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: model([]).to_graph(), r"layers is empty.*\[model\.empty\]"),
        (lambda: model([GRU(3, input_dim=4)]).to_graph(), r"input_shape is None(.|\n)*leaves size 1 open\n.*to_graph\(\(1, 10, 4\)\)"),
        (lambda: model([GRU(3, input_dim=4)]).to_graph((2, 5)), r"input_shape is \[2, 5\], expected \[any, any, 4\]"),
        (lambda: model([GRU(3, input_dim=4)]).to_graph((2, 5, 3)), r"input_shape is \[2, 5, 3\], expected \[any, any, 4\]"),
        (lambda: model([GRU(3, input_dim=4)]).to_graph((2, None, 4)), r"\(2, None, 4\), expected sizes of at least 1: \[any, any, 4\]"),
        (lambda: model([GRU(3, input_dim=4)]).to_graph("abc"), r"'abc', expected sizes of at least 1"),
        (lambda: model([GRU(3, input_dim=4)]).to_graph(5), r"input_shape is 5, expected sizes of at least 1"),
        (
            lambda: model([Doubled(input_dim=4), TimeDistributed(Doubled(input_dim=4))][:1]).to_graph((0, 4), right_padded=1),
            r"3 problems\n.*layers\[0\] is doubled_\d+, of the class Doubled, expected SimpleRNN(.|\n)*right_padded is 1(.|\n)*\(0, 4\)",
        ),
        (
            lambda: model([TimeDistributed(Doubled(), batch_input_shape=(None, 2, 4))]).to_graph(),
            r"layers\[0\]\.layer is doubled_\d+, of the class Doubled",
        ),
    ],
)
def test_what_has_no_graph(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.DescError, match=message):
        call()
