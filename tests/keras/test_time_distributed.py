"""`TimeDistributed`: each step by itself, forward and backward, in models and in files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, LSTM, Bidirectional, Dense, Embedding, Layer, Sequential, TimeDistributed, from_keras, load_model
from tests.support.keras.cases import DEVICES, Array, built, case, keras_layer, run, trained
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(12)
BATCH, STEPS = 3, 4
ROWS = RNG.standard_normal((BATCH, STEPS, 5)).astype(np.float32)
SEQUENCES = RNG.standard_normal((BATCH, STEPS, 6, 5)).astype(np.float32)
MAKERS: dict[str, tuple[Any, Array]] = {
    "Dense": (lambda: Dense(7, activation="tanh"), ROWS),
    "Dense of more axes": (lambda: Dense(7, activation="softmax"), SEQUENCES),
    "GRU": (lambda: GRU(7), SEQUENCES),
    "LSTM of sequences": (lambda: LSTM(7, return_sequences=True), SEQUENCES),
    "Bidirectional": (lambda: Bidirectional(GRU(4), "mul"), SEQUENCES),
    "TimeDistributed": (lambda: TimeDistributed(Dense(2, activation="relu")), SEQUENCES),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MAKERS)
def test_each_step_goes_through_the_layer_by_itself(name: str, device: str) -> None:
    make, x = MAKERS[name]
    mine = built(TimeDistributed(make()), None, *x.shape[1:], device=device)
    alone = built(make(), None, *x.shape[2:], device=device)
    alone.set_weights(mine.get_weights())
    mask = RNG.random((BATCH, STEPS)) > 0.3
    upstream = RNG.standard_normal(tuple(mine.compute_output_shape((BATCH, *x.shape[1:])))).astype(np.float32)
    found = trained(mine, x, mask, upstream)
    parts = [trained(alone, x[:, step], None, upstream[:, step]) for step in range(STEPS)]
    assert_close(found.output, np.stack([part.output for part in parts], 1), np.float32, terms=x[0, 0].size, what=name)
    assert_close(found.input_gradient, np.stack([part.input_gradient for part in parts], 1), np.float32, terms=x[0, 0].size, what=name)
    for weight, gradient in found.weight_gradients.items():
        total = np.sum([part.weight_gradients[weight].astype(np.float64) for part in parts], axis=0)
        assert_close(gradient, total.astype(np.float32), np.float32, terms=x.size, what=weight)
    assert found.mask is not None
    np.testing.assert_array_equal(found.mask, mask)
    assert_close(run(mine, x), found.output, np.float32, terms=x[0, 0].size)


def test_symbols_of_each_step() -> None:
    words = RNG.integers(0, 9, (BATCH, STEPS, 6))
    mine = built(TimeDistributed(Embedding(9, 3)), None, STEPS, 6)
    np.testing.assert_array_equal(run(mine, words), mine.get_weights()[0][words])


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_cross_entropies_of_steps_begin_with_the_logits(activation: str) -> None:
    """As of Dense, which takes all steps as it is: the same losses, step by step of training, even where probabilities round to 0."""
    loss = "categorical_crossentropy" if activation == "softmax" else "binary_crossentropy"
    y = np.eye(3, dtype=np.float32)[RNG.integers(0, 3, (BATCH, STEPS))]
    models = []
    for wrap in (lambda dense: dense, TimeDistributed):
        model = Sequential(device="numpy", seed=0)
        model.add(GRU(4, return_sequences=True, input_dim=5))
        model.add(wrap(Dense(3, activation=activation)))
        model.set_weights([array * np.float32(50) for array in model.get_weights()])
        model.compile("sgd", loss)
        models.append(model)
    for _ in range(3):
        losses = [model.train_on_batch(ROWS, y) for model in models]
        assert losses[0] == losses[1]
        assert np.isfinite(losses[0])
    for own, expected in zip(models[1].get_weights(), models[0].get_weights(), strict=True):
        np.testing.assert_array_equal(own, expected)


def test_models_are_saved_and_loaded(tmp_path: Path) -> None:
    model = Sequential(device="numpy", seed=1)
    model.add(TimeDistributed(LSTM(4), input_shape=(STEPS, 6, 5)))
    model.add(GRU(3, return_sequences=True))
    model.add(TimeDistributed(Dense(2)))
    assert model.output_shape == (None, STEPS, 2)
    model.save(tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors", device="numpy")
    np.testing.assert_array_equal(loaded.predict(SEQUENCES), model.predict(SEQUENCES))
    assert isinstance(loaded.layers[0], TimeDistributed)


def test_a_shape_of_the_inner_layer_leaves_the_steps_open() -> None:
    assert TimeDistributed(GRU(3, input_shape=(6, 5))).input_shape == (None, None, 6, 5)
    assert TimeDistributed(Dense(3), input_shape=(STEPS, 5)).input_shape == (None, STEPS, 5)


def test_from_keras() -> None:
    stored = case("keras_import_bidirectional_simplernn_mul")
    theirs = type("TimeDistributed", (SimpleNamespace,), {})(layer=keras_layer(stored))
    mine = built(from_keras(theirs), None, None, None, stored.inputs["x0"].shape[2])
    assert isinstance(mine, TimeDistributed)
    x, y = stored.inputs["x0"], stored.outputs["y0"]
    assert_close(run(mine, np.stack([x, x], 1)), np.stack([y, y], 1), np.float32, terms=x[0].size)
    theirs.layer = 3
    with pytest.raises(dml.DescError) as caught:
        from_keras(theirs)
    assert [problem.path for problem in caught.value.problems] == ["layer"]


def built_dense() -> Layer:
    made: Layer = built(Dense(2), None, 3)
    return made


@pytest.mark.parametrize(
    ("layer", "path"),
    [
        (lambda: 3, "layer"),
        (built_dense, "layer"),
        (lambda: GRU(2, stateful=True, batch_input_shape=(2, 3, 4)), "layer.stateful"),
        (lambda: GRU(2, return_state=True), "layer.return_state"),
    ],
)
def test_layers_that_have_no_place_in_a_step_are_refused(layer: Any, path: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        TimeDistributed(layer())
    assert [problem.path for problem in caught.value.problems] == [path]


@pytest.mark.parametrize("shape", [(BATCH,), (BATCH, STEPS, 6, 5)])
def test_inputs_of_other_axes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(dml.DescError):
        built(TimeDistributed(Dense(2)), None, STEPS, 5)(np.zeros(shape, np.float32))
