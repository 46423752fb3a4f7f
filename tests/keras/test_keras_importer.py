"""Models of Keras 3, and the layers around its recurrent ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import Bidirectional, Sequential, from_keras, load_model
from tests.support.keras.activation_formulas import FORMULAS
from tests.support.keras.cases import Array, case, keras_layer, like_keras
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(8)
KERNEL, BIAS = RNG.standard_normal((3, 4)).astype(np.float32), RNG.standard_normal(4).astype(np.float32)
ROWS = RNG.standard_normal((2, 5, 3)).astype(np.float32)
DENSE = {"units": 4, "activation": "linear", "use_bias": True}
softmax = FORMULAS["softmax"]
RELU = {"max_value": None, "negative_slope": 0.0, "threshold": 0.0}


def around(kind: str, config: dict[str, Any], *weights: Array) -> Any:
    return like_keras(kind, config, list(weights), (None, 5, 3))


def model_of(*layers: Any, shape: tuple[int | None, ...] = (None, 5, 3), built: bool = True) -> Any:
    return type("Sequential", (SimpleNamespace,), {})(layers=list(layers), input_shape=shape, built=built)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    **{name: FORMULAS[name] for name in ("softmax", "log_softmax", "silu", "gelu", "leaky_relu")},
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
}
LAYERS: dict[str, tuple[Any, Callable[[Array], Array]]] = {
    "Dense": (around("Dense", DENSE, KERNEL, BIAS), lambda x: x @ KERNEL + BIAS),
    "Dense without bias": (around("Dense", DENSE | {"use_bias": False}, KERNEL), lambda x: x @ KERNEL),
    "TimeDistributed": (
        type("TimeDistributed", (SimpleNamespace,), {})(layer=around("Dense", DENSE, KERNEL, BIAS)),
        lambda x: x @ KERNEL + BIAS,
    ),
    "Masking": (around("Masking", {"mask_value": 2.0}), lambda x: x),
    "Dropout": (around("Dropout", {"rate": 0.5, "noise_shape": None}), lambda x: x),
    "ELU": (around("ELU", {"alpha": 0.3}), lambda x: np.where(x > 0, x, 0.3 * np.expm1(x))),
    "LeakyReLU": (around("LeakyReLU", {"negative_slope": 0.3}), lambda x: np.where(x > 0, x, 0.3 * x)),
    "ReLU": (around("ReLU", RELU), lambda x: np.maximum(x, 0)),
    "ReLU with a slope": (around("ReLU", RELU | {"negative_slope": 0.1}), lambda x: np.where(x > 0, x, 0.1 * x)),
    "Softmax": (around("Softmax", {"axis": -1}), softmax),
    **{f"Activation {name}": (around("Activation", {"activation": name}), function) for name, function in ACTIVATIONS.items()},
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_around_recurrent_ones(name: str) -> None:
    """Alone, and as a model's first one."""
    theirs, function = LAYERS[name]
    expected = function(ROWS.astype(np.float64))
    assert_close(np.asarray(from_keras(theirs)(ROWS)), expected, np.float32, terms=9)
    assert_close(from_keras(model_of(theirs), device="numpy").predict(ROWS), expected, np.float32, terms=9)


def test_a_model_keeps_weights_options_and_files(tmp_path: Path) -> None:
    """Symbols, masked; a bidirectional layer whose results are stored; a softmax. It can be stored and trained."""
    stored = case("keras_import_bidirectional_gru_ave")
    x, y = stored.inputs["x0"], stored.outputs["y0"]
    units = y.shape[-1]
    kernel = RNG.standard_normal((units, 2)).astype(np.float32)
    regularized = DENSE | {"units": 2, "activation": "softmax", "kernel_regularizer": {"class_name": "L2", "config": {"l2": 0.5}}}
    assert stored.mask is not None
    symbols = np.where(stored.mask, 1 + np.arange(stored.mask.size).reshape(stored.mask.shape), 0)  # 0 masks a step
    rows = np.concatenate([np.full((1, x.shape[2]), 7.0), x.reshape(-1, x.shape[2])])
    embedding = around("Embedding", {"input_dim": len(rows), "output_dim": x.shape[2], "mask_zero": True}, rows)
    theirs = model_of(
        embedding, keras_layer(stored), around("Dense", regularized, kernel, np.zeros(2, np.float32)), shape=(None, x.shape[1])
    )
    mine = from_keras(theirs, device="numpy")
    assert isinstance(mine, Sequential)
    assert isinstance(mine.layers[1], Bidirectional)
    expected = softmax(y.astype(np.float64) @ kernel)
    assert_close(mine.predict(symbols), expected, np.float32, terms=x[0].size)
    assert mine.layers[2].weights[0].regularizer == dml.keras.l2(0.5)
    mine.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load_model(tmp_path / "model.safetensors", device="numpy").predict(symbols), mine.predict(symbols))


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_an_rnn_of_a_cell_is_the_layer(kind: str) -> None:
    stored = case({"GRU": "keras_import_gru", "LSTM": "keras_import_lstm_stateful"}[kind])
    whole = keras_layer(stored)
    config, weights = whole.get_config(), whole.get_weights()
    of_rnn = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "zero_output_for_mask", "activity_regularizer")
    rnn = like_keras("RNN", {name: config[name] for name in of_rnn if name in config}, weights, stored.inputs["x0"].shape)
    rnn.cell = like_keras(f"{kind}Cell", {name: value for name, value in config.items() if name not in of_rnn}, [], ())
    x = stored.inputs["x0"]
    np.testing.assert_array_equal(np.asarray(from_keras(rnn)(x)), np.asarray(from_keras(whole)(x)))


def functional(*layers: Any) -> Any:
    """A functional model of these layers: each has the output of the one before."""
    first = like_keras("InputLayer", {}, [], ())
    for before, own in zip((first, *layers), layers, strict=False):
        before.output = own.input = object()
    layers[-1].output = object()
    made = model_of(first, *layers)
    return type("Functional", (SimpleNamespace,), {})(**vars(made), output=layers[-1].output)


@pytest.mark.parametrize("other", ["input", "mask", "state"])
def test_a_functional_model_may_be_a_chain(other: str) -> None:
    theirs = functional(around("Dense", DENSE, KERNEL, BIAS), around("Softmax", {"axis": -1}))
    expected = softmax(ROWS.astype(np.float64) @ KERNEL + BIAS)
    assert_close(from_keras(theirs, device="numpy").predict(ROWS), expected, np.float32, terms=9)
    theirs = functional(around("Dense", DENSE, KERNEL, BIAS), around("Activation", {"activation": "softmax"}))
    output = SimpleNamespace(_keras_mask=object())
    theirs.layers[1].output, theirs.layers[2].input = output, [output, output._keras_mask]  # Keras hands masks on
    assert_close(from_keras(theirs, device="numpy").predict(ROWS), expected, np.float32, terms=9)
    others = {"input": theirs.layers[0].output, "mask": [output, object()], "state": [output, output._keras_mask, object()]}
    theirs.layers[2].input = others[other]
    with pytest.raises(dml.DescError, match="a functional model with branches, expected a chain"):
        from_keras(theirs)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_softmax_behind_a_mask_is_refused(wrapped: bool) -> None:
    """Keras takes the mask of steps for one of the places that sum to 1."""
    theirs = around("Softmax", {"axis": -1})
    if wrapped:
        theirs = type("TimeDistributed", (SimpleNamespace,), {})(layer=theirs)
    whole = functional(around("Dense", DENSE, KERNEL, BIAS), theirs)
    output = SimpleNamespace(_keras_mask=object())
    whole.layers[1].output, whole.layers[2].input = output, [output, output._keras_mask]
    with pytest.raises(dml.DescError, match=r"layers\[1\] is a Softmax behind a mask(.|\n)*Activation\('softmax'\)"):
        from_keras(whole)


STACKED = type("StackedRNNCells", (SimpleNamespace,), {})(cells=[])


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (
            model_of(around("Dense", DENSE, KERNEL, BIAS), around("Conv1D", {}), around("Flatten", {})),
            [
                "layers[1] is a Conv1D, expected a layer of Keras 3 that dmlpy has, or a Sequential of them: SimpleRNN",
                "layers[2] is a Flatten",
            ],
        ),
        (model_of(built=False), ["not built, expected a model with weights"]),
        (model_of(around("Dense", DENSE | {"activation": "custom"}, KERNEL, BIAS)), ["layers[0].activation is 'custom', expected one of"]),
        (around("Dense", DENSE | {"kernel_constraint": "max_norm", "lora_rank": 2}, KERNEL), ["kernel_constraint is", "lora_rank is 2"]),
        (around("Embedding", {"input_dim": 2, "output_dim": 3, "mask_zero": False, "lora_rank": 4}), ["lora_rank is 4"]),
        (around("Dropout", {"rate": 0.5, "noise_shape": [None, 1]}), ["noise_shape is [None, 1], expected None"]),
        (around("ReLU", RELU | {"max_value": 6.0}), ["max_value is 6.0, expected None"]),
        (around("Softmax", {"axis": 1}), ["axis is 1, expected -1"]),
        (around("RNN", {"stateful": False}), ["an RNN, expected"]),
        (type("RNN", (SimpleNamespace,), {})(cell=STACKED, get_config=dict), ["cell is a StackedRNNCells", "one RNN for each cell"]),
    ],
)
def test_what_cannot_be_expressed_is_named(theirs: Any, expected: list[str]) -> None:
    with pytest.raises(dml.DescError) as caught:
        from_keras(theirs)
    for text in expected:
        assert text in str(caught.value)


def test_half_precision_and_layers_without_weights_are_refused() -> None:
    theirs = around("Dense", DENSE, KERNEL, BIAS)
    theirs.built, theirs.compute_dtype = False, "float16"
    with pytest.raises(dml.DescError) as caught:
        from_keras(theirs)
    assert [problem.code for problem in caught.value.problems] == ["type.support", "layer.not_built"]
    with pytest.raises(dml.DescError, match="device is 'numpy', expected None"):
        from_keras(around("Softmax", {"axis": -1}), device="numpy")
