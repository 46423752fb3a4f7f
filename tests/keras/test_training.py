"""Training: whole models against PyTorch, losses in models, the loop over epochs, and what it refuses."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras.backend import Backend
from dmlpy.keras.bidirectional import Bidirectional
from dmlpy.keras.layer import Layer
from dmlpy.keras.models import Sequential
from dmlpy.keras.optimizers import SGD, Adam
from dmlpy.keras.recurrent_layers import GRU, LSTM, SimpleRNN
from dmlpy.keras.regularizers import Regularizer, l2
from dmlpy.keras.simple import Dense, Embedding, Masking
from tests.support.keras.model_losses import CASES, Array, check_loss_and_gradients, compiled, model
from tests.support.keras.numbers import draw

BACKEND = Backend("numpy", 0)


def line(seed: int = 0, **options: Any) -> Sequential:
    """A linear model of four inputs."""
    return compiled(Dense(1, input_dim=4), seed=seed, **options)


# Whole models


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_of_whole_models_are_pytorchs(case: str) -> None:
    check_loss_and_gradients(case)


def test_there_are_cases_of_masks_dropout_and_regularizers() -> None:
    text = json.dumps([entry["attributes"] for entry in CASES.values()])
    assert len(CASES) == 3
    assert all(word in text for word in ("mask_zero", "Masking", "dropout_W", "dropout_U", "W_regularizer", "crossentropy", "mse"))


# Losses in models


@pytest.mark.parametrize(
    ("name", "activation", "targets"),
    [
        ("binary_crossentropy", "sigmoid", [[1.0], [0.0], [1.0], [0.0]]),
        ("categorical_crossentropy", "softmax", [[1.0, 0.0], [0.0, 1.0]] * 2),
        ("sparse_categorical_crossentropy", "softmax", [0, 1, 0, 1]),
    ],
)
def test_a_cross_entropy_after_its_function_is_exact_far_out(name: str, activation: str, targets: Any) -> None:
    """Probabilities of exp(-200) are 0 in float32: their logarithms, and what is learned from them, are not lost."""
    size = np.asarray(targets).reshape(4, -1).shape[1] if name != "sparse_categorical_crossentropy" else 2
    weights = [np.array([[200.0]]) if size == 1 else np.array([[100.0, -100.0]]), np.zeros(size)]
    m = compiled(Dense(size, input_dim=1, activation=activation, weights=weights), loss=name)
    x = np.array([[1.0], [1.0], [-1.0], [-1.0]])  # right, wrong, wrong, right
    assert m.test_on_batch(x, targets) == pytest.approx(100, rel=1e-6)
    assert m.train_on_batch(x, targets) == pytest.approx(100, rel=1e-6)
    gradient = m.weights[0].gradient
    np.testing.assert_allclose(gradient, [[0.5]] if size == 1 else [[0.5, -0.5]], rtol=1e-6)


def test_values_of_no_such_function_are_held_as_in_keras() -> None:
    """Within [1e-7, 1 - 1e-7]; the gradient is 0 beyond."""
    m = compiled(Dense(1, input_dim=1, weights=[[[1.0]], [0.0]]), loss="binary_crossentropy")
    assert m.test_on_batch([[2.0], [0.5]], [[0.0], [1.0]]) == pytest.approx((-math.log(2**-23) - math.log(0.5)) / 2, rel=1e-3)
    m.train_on_batch([[2.0]], [[0.0]])
    np.testing.assert_array_equal(m.weights[0].gradient, [[0]])
    m = compiled(Dense(2, input_dim=1, weights=[[[2.0, 0.0]], [0.0, 0.0]]), loss="categorical_crossentropy")
    assert m.train_on_batch([[1.0]], [[0.0, 1.0]]) == pytest.approx(-math.log(1e-7), rel=1e-6)
    np.testing.assert_array_equal(m.weights[0].gradient, [[0, 0]])


def test_masked_steps_teach_nothing() -> None:
    m = compiled(Masking(input_dim=2), Dense(3), loss="mse", metrics=["accuracy"])
    x, y = draw(2, 4, 2), draw(2, 4, 3, seed=1)
    x[0, 1] = x[1, 2:] = 0
    first = m.train_on_batch(x, y)
    assert m.weights[0].gradient is not None
    gradient = m.weights[0].gradient.copy()
    y[0, 1] = y[1, 2:] = 100
    m = compiled(Masking(input_dim=2), Dense(3), loss="mse", metrics=["accuracy"])
    assert m.train_on_batch(x, y) == first
    np.testing.assert_array_equal(m.weights[0].gradient, gradient)


def test_regularizers_are_part_of_the_loss() -> None:
    x, y = draw(8, 4), draw(8, 1, seed=1)
    weights = [draw(4, 1, seed=2), draw(1, seed=3)]
    plain = line()
    m = compiled(Dense(1, input_dim=4, W_regularizer=l2(0.5), b_regularizer=Regularizer(l1=0.25)))
    plain.set_weights(weights)
    m.set_weights(weights)
    penalty = 0.5 * (weights[0].astype(np.float64) ** 2).sum() + 0.25 * abs(weights[1].astype(np.float64)).sum()
    for call in ("test_on_batch", "evaluate", "train_on_batch"):
        assert getattr(m, call)(x, y) == pytest.approx(getattr(plain, call)(x, y) + penalty, rel=1e-6)
    of_penalties = (weights[0], 0.25 * np.sign(weights[1]))
    for weight, plain_weight, of_penalty in zip(m.weights, plain.weights, of_penalties, strict=True):
        assert plain_weight.gradient is not None
        np.testing.assert_allclose(weight.gradient, plain_weight.gradient + of_penalty, rtol=1e-5)


ACCURACIES: list[tuple[str, Any, Any, float]] = [
    ("sparse_categorical_crossentropy", [0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]], 2 / 3),
    ("categorical_crossentropy", [[1, 0], [0, 1], [0, 1]], [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]], 2 / 3),
    ("binary_crossentropy", [[1, 0], [0, 1], [0, 1]], [[0.9, 0.1], [0.6, 0.6], [0.7, 0.3]], 0.5),
    ("binary_crossentropy", [1, 0, 0], [[0.9], [0.4], [0.7]], 2 / 3),
    ("mse", [[1, 0], [0, 1], [0, 1]], [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]], 2 / 3),
]


@pytest.mark.parametrize(("name", "targets", "values", "expected"), ACCURACIES)
def test_accuracy(name: str, targets: Any, values: Any, expected: float) -> None:
    size = len(values[0])
    m = compiled(Dense(size, input_dim=size, weights=[np.eye(size), np.zeros(size)]), loss=name, metrics=["accuracy"])
    assert m.evaluate(values, targets)[1] == pytest.approx(expected)  # type: ignore[index]


def test_weights_of_samples_count_in_the_loss_alone() -> None:
    m = Sequential([Dense(1, input_dim=1, weights=[[[1.0]], [0.0]])], device="numpy")
    m.compile("sgd", "mse", ["accuracy"])
    x, y = np.array([[0.0], [1.0], [1.0], [1.0]]), np.array([0, 1, 1, 0])
    assert m.test_on_batch(x, y) == [0.25, 0.75]
    assert m.test_on_batch(x, y, sample_weight=[1, 4, 1, 8]) == [2.0, 0.75]


def test_a_model_is_compiled_again_after_a_new_layer() -> None:
    m = line()
    m.add(Dense(2))
    with pytest.raises(dml.DescError, match=r"model\.not_compiled"):
        m.train_on_batch(draw(8, 4), draw(8, 2))


def test_compile_begins_an_optimizer_anew() -> None:
    x, y = draw(8, 4), draw(8, 1, seed=1)
    rule = Adam()
    first = line(rule=rule)
    first.fit(x, y, verbose=0, nb_epoch=3)
    assert rule.iterations == 3
    second = compiled(Dense(2, input_dim=4), rule=rule)
    assert rule.iterations == 0
    second.train_on_batch(x, draw(8, 2))
    with pytest.raises(dml.DescError, match=r"weights is of the shapes .*expected .*\n.*a separate optimizer"):
        first.train_on_batch(x, y)


# The loop


def test_a_straight_line_is_found() -> None:
    x = draw(256, 4)
    y = x @ np.array([1, -2, 3, 0.5], np.float32) + 0.25
    m = line(rule=SGD(lr=0.1))
    history = m.fit(x, y, nb_epoch=30, verbose=0)
    assert history.history["loss"][-1] < 1e-5 < history.history["loss"][0]
    np.testing.assert_allclose(m.get_weights()[0].ravel(), [1, -2, 3, 0.5], atol=1e-3)


@pytest.mark.parametrize(
    "layer", [lambda: GRU(12), lambda: LSTM(12), lambda: Bidirectional(SimpleRNN(8))], ids=["GRU", "LSTM", "both ways"]
)
def test_sequences_are_distinguished(layer: Callable[[], Layer]) -> None:
    """Whether a 1 comes before the first 2, in sequences padded with 0."""
    random = np.random.default_rng(3)
    x = random.integers(1, 5, (512, 8))
    x[np.arange(8) >= random.integers(4, 9, (512, 1))] = 0
    first = [np.argmax(np.concatenate([x == symbol, np.ones((512, 1), bool)], axis=1), axis=1) for symbol in (1, 2)]
    y = first[0] < first[1]
    layers = (Embedding(5, 6, mask_zero=True), layer(), Dense(1, activation="sigmoid"))
    m = compiled(*layers, loss="binary_crossentropy", rule=Adam(0.02), metrics=["accuracy"])
    history = m.fit(x, y, nb_epoch=12, verbose=0, validation_split=0.2)
    assert history.history["val_acc"][-1] > 0.95


def seeded_run(seed: int, device: str = "numpy") -> tuple[dict[str, list[float]], list[Array]]:
    """A run with everything that is random in it: its history, and the weights at its end."""
    m = Sequential(device=device, seed=seed)
    m.add(Embedding(9, 4, mask_zero=True, dropout=0.1))
    m.add(GRU(5, dropout_W=0.2, dropout_U=0.3))
    m.add(Dense(3, activation="softmax"))
    m.compile("adam", "sparse_categorical_crossentropy", "accuracy")
    x = np.random.default_rng(0).integers(0, 9, (50, 6))
    history = m.fit(x, x.sum(axis=1) % 3, nb_epoch=3, batch_size=16, validation_split=0.2, verbose=0)
    return history.history, m.get_weights()


@pytest.mark.parametrize("device", ["numpy", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.cupy])])
def test_the_same_seed_gives_the_same_run(device: str) -> None:
    (first, weights), (second, same), (other, different) = (seeded_run(seed, device) for seed in (7, 7, 8))
    assert first == second
    assert first != other
    for one, two, three in zip(weights, same, different, strict=True):
        assert one.tobytes() == two.tobytes() != three.tobytes()


@pytest.mark.gpu
@pytest.mark.cupy
def test_a_seed_means_the_same_on_each_device() -> None:
    (first, weights), (second, same) = (seeded_run(7, device) for device in ("numpy", "cuda"))
    for name, figures in first.items():
        np.testing.assert_allclose(second[name], figures, rtol=1e-4)
    for one, two in zip(weights, same, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-4)


def test_history_is_what_the_batches_gave() -> None:
    x, y = draw(10, 4), draw(10, 1, seed=1)
    m, twin = line(seed=3, rule="adam", metrics=["accuracy"]), line(seed=3, rule="adam", metrics=["accuracy"])
    history = m.fit(x, y, 4, 2, verbose=0, shuffle=False, validation_data=(x[:3], y[:3]))
    expected: dict[str, list[float]] = {"loss": [], "acc": [], "val_loss": [], "val_acc": []}
    for _ in range(2):
        figures = np.array([twin.train_on_batch(x[start : start + 4], y[start : start + 4]) for start in (0, 4, 8)])
        means = np.array([4, 4, 2]) @ figures / 10
        for name, value in zip(expected, [*means, *twin.evaluate(x[:3], y[:3])], strict=True):  # type: ignore[misc]
            expected[name].append(value)
    assert history.epoch == [0, 1]
    assert history.history.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(history.history[name], values, rtol=1e-12)


def test_a_split_holds_the_last_samples_out() -> None:
    x, y = draw(10, 4), draw(10, 1, seed=1)
    split, given = line(seed=3), line(seed=3)
    first = split.fit(x, y, nb_epoch=2, validation_split=0.25, verbose=0)
    second = given.fit(x[:7], y[:7], epochs=2, validation_data=[x[7:], y[7:]], verbose=0)
    assert first == second


def test_shuffling_sees_each_sample_once_in_an_epoch() -> None:
    seen: list[Array] = []

    class Watched(Dense):
        def forward(self, x: Any, mask: Any, *, training: bool) -> Any:
            seen.append(x[:, 0].copy())
            return super().forward(x, mask, training=training)

    m = compiled(Watched(1, input_dim=1))
    x = np.arange(10, dtype=np.float32)[:, None]
    m.fit(x, x, batch_size=4, nb_epoch=2, verbose=0)
    assert [len(batch) for batch in seen] == [4, 4, 2] * 2
    epochs = [np.concatenate(seen[:3]), np.concatenate(seen[3:])]
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), x[:, 0])
        assert (epoch != x[:, 0]).any()
    assert (epochs[0] != epochs[1]).any()


def test_weights_of_samples_go_with_their_samples() -> None:
    x, y = draw(10, 4), draw(10, 1, seed=1)
    weights = np.zeros(10)
    weights[:5] = 1
    some, all_of_some = line(seed=3), line(seed=3)
    some.fit(x, y, batch_size=10, nb_epoch=3, verbose=0, sample_weight=weights)
    all_of_some.fit(x[:5], y[:5], batch_size=10, nb_epoch=3, verbose=0)
    np.testing.assert_allclose(some.get_weights()[0], all_of_some.get_weights()[0], rtol=1e-5)


def test_a_stateful_model_in_order() -> None:
    m = compiled(LSTM(3, stateful=True, batch_input_shape=(2, 5, 1)), Dense(1))
    x, y = draw(6, 5, 1), draw(6, 1, seed=1)
    history = m.fit(x, y, shuffle=False, nb_epoch=2, verbose=0)
    twin = compiled(LSTM(3, stateful=True, batch_input_shape=(2, 5, 1)), Dense(1))
    losses = [np.mean([twin.train_on_batch(x[start : start + 2], y[start : start + 2]) for start in (0, 2, 4)]) for _ in range(2)]
    np.testing.assert_allclose(history.history["loss"], losses, rtol=1e-12)


def test_epochs_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = draw(10, 4), draw(10, 1, seed=1)
    for verbose, lines in ((0, 0), (1, 2), (2, 2)):
        line(metrics=["accuracy"]).fit(x, y, nb_epoch=2, verbose=verbose, validation_split=0.5)
        told = capsys.readouterr().out.splitlines()
        assert len(told) == lines
        assert all(text.startswith(f"epoch {number}/2: loss ") for number, text in enumerate(told, 1))
        assert all(name in text for text in told for name in (", acc ", ", val_loss ", ", val_acc "))


def test_a_bar_is_drawn_in_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    line().fit(draw(10, 4), draw(10, 1), batch_size=5, nb_epoch=2, verbose=1)
    text = capsys.readouterr().out
    assert "4/4" in text
    assert "epoch 2/2: loss " in text


def test_a_loss_that_is_not_finite_does_not_end_the_run() -> None:
    history = line(rule=SGD(lr=1e30)).fit(draw(10, 4), draw(10, 1), nb_epoch=4, verbose=0)
    assert not np.isfinite(history.history["loss"][-1])
    assert len(history.epoch) == 4


# What it refuses


def stateful() -> Sequential:
    return compiled(GRU(3, stateful=True, batch_input_shape=(2, 5, 1)), Dense(1))


def classes(name: str = "sparse_categorical_crossentropy") -> Sequential:
    return compiled(Dense(3, input_dim=4, activation="softmax"), loss=name)


class Stray(Dense):
    """Gives a mask where there are no steps."""

    def forward(self, x: Any, mask: Any, *, training: bool) -> Any:
        return super().forward(x, mask, training=training)[0], np.ones((len(x), 5), bool)


X, Y = draw(8, 4), draw(8, 1)
FIT: list[tuple[str, Callable[[], Any], str]] = [
    (
        "loss",
        lambda: line(loss="mean_square_error"),
        r"loss is 'mean_square_error', expected a loss, or one of mse(.|\n)*mean mean_squared_error\?",
    ),
    (
        "optimizer",
        lambda: line(rule="adan"),
        r"optimizer is 'adan', expected an optimizer, or one of sgd, adam, adamw, rmsprop .*(.|\n)*mean adam\?",
    ),
    ("metric", lambda: line(metrics=["acuracy"]), r"metrics\[0\] is 'acuracy', expected accuracy(.|\n)*did you mean accuracy\?"),
    ("all names", lambda: line(rule="x", loss="y", metrics=["z"]), "Sequential.compile: 3 problems"),
    ("no numbers", lambda: line(rule=3, loss=4), "2 problems"),
    ("rate", lambda: SGD(lr=-1), r"lr is -1, expected a finite number, 0 or larger  \[optimizer\.range\]"),
    ("all rates", lambda: Adam(lr=math.nan, beta_1=1, beta_2=-1, decay=-1, clipnorm=0, clipvalue=-1), "Adam: 6 problems"),
    ("momentum", lambda: SGD(momentum=1), r"momentum is 1, expected a number of at least 0 and less than 1"),
    ("not compiled", lambda: model(Dense(1, input_dim=4)).fit(X, Y), r"not compiled, expected an optimizer and a loss"),
    ("evaluated before compiling", lambda: model(Dense(1, input_dim=4)).evaluate(X, Y), r"\[model\.not_compiled\]"),
    ("lengths", lambda: line().fit(X, Y[:7]), r"y is of 7 samples, expected 8, as many as x has  \[data\.length\]"),
    ("shape of y", lambda: line().fit(X, draw(8, 2)), r"y is of shape \[8, 2\], expected \[None, 1\](.|\n)*mean_squared_error"),
    ("classes as one-hot", lambda: classes().fit(X, np.eye(3)[[0] * 8]), r"y is of shape \[8, 3\], expected \[None, 1\]"),
    ("one-hot as classes", lambda: classes("categorical_crossentropy").fit(X, [0] * 8), r"y is of shape \[8\], expected \[None, 3\]"),
    ("class", lambda: classes().fit(X, [0, 1, 2, 3, 0, 0, 0, 0]), r"y\[3, 0\] is 3, expected a whole number from 0 to 2"),
    ("half a class", lambda: classes().train_on_batch(X, [0, 0.5, 0, 0, 0, 0, 0, 0]), r"y\[1, 0\] is 0\.5"),
    ("weights of samples", lambda: line().fit(X, Y, sample_weight=[1.0] * 7), r"sample_weight is of 7 samples, expected 8"),
    ("weights of steps", lambda: line().fit(X, Y, sample_weight=np.ones((8, 2))), r"sample_weight is of shape \[8, 2\], expected \[None\]"),
    ("split", lambda: line().fit(X, Y, validation_split=1.0), r"validation_split is 1\.0, expected at least 0 and less than 1"),
    ("split of nothing", lambda: line().fit(X[:1], Y[:1], validation_split=0.5), r"expected at least one sample on either side"),
    ("split beside data", lambda: line().fit(X, Y, validation_split=0.5, validation_data=(X, Y)), r"expected 0 beside validation_data"),
    ("validation of x", lambda: line().fit(X, Y, validation_data=X), r"validation_data is an ndarray, expected \(x, y\) or"),
    ("validation of one", lambda: line().fit(X, Y, validation_data=(X,)), r"validation_data is a tuple of 1, expected"),
    ("validation data", lambda: line().fit(X, Y, validation_data=(X[:, :3], Y)), r"validation_data\.x is of shape \[8, 3\], expected"),
    ("epochs", lambda: line().fit(X, Y, nb_epoch=-1), r"nb_epoch is -1, expected 0 or more"),
    ("stateful and shuffled", lambda: stateful().fit(draw(4, 5, 1), draw(4, 1)), r"shuffle is True, expected False  \[data\.shuffle\]"),
    (
        "stateful and uneven",
        lambda: stateful().fit(draw(5, 5, 1), draw(5, 1), shuffle=False),
        r"x is of 5 samples, expected a multiple of 2(.|\n)*batches of 2: batch_input_shape",
    ),
    (
        "stateful validation",
        lambda: stateful().fit(draw(4, 5, 1), draw(4, 1), shuffle=False, validation_split=0.25),
        "x is of 3 samples(.|\n)*validation_data is of 1 sample",
    ),
    ("a stateful batch", lambda: stateful().train_on_batch(draw(4, 5, 1), draw(4, 1)), r"x is of 4 samples, expected 2"),
    ("stray mask", lambda: compiled(Stray(1, input_dim=4)).train_on_batch(X, Y), r"mask is of shape \[8, 5\], expected no mask, or one of"),
    (
        "steps of y",
        lambda: compiled(GRU(1, input_dim=1, return_sequences=True)).train_on_batch(draw(2, 5, 1), draw(2, 4, 1)),
        r"y is of shape \[2, 4, 1\], expected \[2, 5, 1\]",
    ),
    (
        "derivative",
        lambda: compiled(Dense(1, input_dim=4, activation=dml.ActivationHardmaxDesc())).fit(X, Y),
        r"activation is HARDMAX, expected one of CELU, (.|\n)*its derivative is zero, so nothing is trained",
    ),
    ("all problems", lambda: line().fit(X[:, :3], draw(7, 2), 0, -1, validation_split=2), "Sequential.fit: 6 problems"),
]


def test_lists_are_any_that_have_an_order() -> None:
    def broken() -> Iterator[Any]:
        yield Dense(2, input_dim=3)
        raise TypeError("the caller's")

    for listed in (("accuracy",), deque(["accuracy"]), np.array(["accuracy"]), {"accuracy": None}.keys(), iter(["accuracy"])):
        assert len(line(metrics=listed).test_on_batch(X, Y)) == 2
    with pytest.raises(dml.DescError, match="output_dim is 'x'"):
        Sequential(Dense(size, input_dim=4) for size in (2, "x"))
    with pytest.raises(TypeError, match="the caller's"):
        Sequential(broken())


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in FIT], ids=[row[0] for row in FIT])
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.DescError, match=message):
        call()


def test_later_steps_build_no_descs(monkeypatch: pytest.MonkeyPatch) -> None:
    m = compiled(Embedding(5, 4), GRU(3), Dense(3, activation="softmax"), loss="sparse_categorical_crossentropy", rule="adam")
    x, y = np.arange(12).reshape(4, 3) % 5, [0, 1, 2, 0]
    m.train_on_batch(x, y)

    def refuse(self: Any, **members: Any) -> None:
        raise AssertionError(f"{type(self).__name__} is built again")

    monkeypatch.setattr(dml.OperatorDesc, "__init__", refuse)
    monkeypatch.setattr(dml.TensorDesc, "__init__", refuse)
    m.train_on_batch(x, y)
    with pytest.raises(AssertionError, match="is built again"):
        m.train_on_batch(x[:3], y[:3])
