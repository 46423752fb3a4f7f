"""What scripts written for Keras expect: layers, optimizers, losses, arguments and names of metrics."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import keras as dml_keras
from dmlpy.keras import (
    GRU,
    Activation,
    AdamW,
    BinaryCrossentropy,
    CategoricalCrossentropy,
    Dense,
    Dropout,
    EarlyStopping,
    History,
    LambdaCallback,
    MeanAbsoluteError,
    ModelCheckpoint,
    ReduceLROnPlateau,
    RMSprop,
    Sequential,
    TensorBoard,
    TimeDistributed,
    load_model,
    unknown_names,
)
from dmlpy.keras.backend import Backend
from dmlpy.keras.layer import Weight
from tests.support.keras.numbers import differences, draw
from tests.support.tolerance import assert_close

X, Y = draw(12, 5, 3), (draw(12, 2, seed=1) > 0).astype(np.float32)


def model(*, metrics: tuple[str, ...] = ("accuracy",), optimizer: Any = "rmsprop") -> Sequential:
    layers = [GRU(4, input_shape=(5, 3)), Dropout(0.25), Dense(2), Activation("sigmoid")]
    made = Sequential(layers, device="numpy", seed=0)
    made.compile(optimizer, "mae", list(metrics))
    return made


# Layers


@pytest.mark.parametrize("shape", [(4, 3), (4, 5, 3)], ids=str)
@pytest.mark.parametrize("name", ["linear", "relu", "tanh", "sigmoid", "softmax"])
def test_an_activation_and_its_gradient(name: str, shape: tuple[int, ...]) -> None:
    functions: dict[str, Callable[[Any], Any]] = {
        "linear": lambda z: z,
        "relu": lambda z: np.maximum(z, 0),
        "tanh": np.tanh,
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "softmax": lambda z: np.exp(z) / np.exp(z).sum(-1, keepdims=True),
    }
    layer, x, upstream = Activation(name), draw(*shape), draw(*shape, seed=1)
    layer.build((None, *shape[1:]), Backend("numpy"))
    y, _ = layer.forward(x, None, training=True)
    assert_close(y, functions[name](x.astype(np.float64)), np.float32, terms=4)
    gradient = layer.backward(upstream)
    assert gradient is not None
    expected = differences(lambda moved: float((functions[name](moved) * upstream).sum()), x)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


def test_dropout_drops_in_training_only() -> None:
    layer, x = Dropout(0.25), np.ones((40, 50), np.float32)
    layer.build((None, 50), Backend("numpy", 0))
    np.testing.assert_array_equal(layer.forward(x, None, training=False)[0], x)
    np.testing.assert_array_equal(layer(x, training=None), x)
    y, _ = layer.forward(x, None, training=True)
    assert {*np.unique(y)} == {0, np.float32(1 / 0.75)}
    assert 0.2 < (y == 0).mean() < 0.3
    np.testing.assert_array_equal(layer.backward(x), y)  # what was dropped has no gradient
    with pytest.raises(dml.DescError, match="rate is 1, expected a number of at least 0, below 1"):
        Dropout(1)


def test_new_layers_are_applied_to_steps_saved_and_loaded(tmp_path: Path) -> None:
    layers = [GRU(4, return_sequences=True, input_shape=(5, 3)), TimeDistributed(Dense(2)), Activation("tanh"), Dropout(0.5)]
    made = Sequential(layers, device="numpy", seed=0)
    made.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load_model(tmp_path / "model.safetensors", device="numpy").predict(X), made.predict(X))


# Optimizers and losses


def updated(optimizer: Any, gradients: list[Any]) -> Any:
    weight = Weight("W", draw(3, 2))
    for gradient in gradients:
        weight.gradient = gradient.copy()
        optimizer.update([weight], Backend("numpy"))
    return weight.value


@pytest.mark.parametrize("name", ["RMSprop", "AdamW"])
def test_optimizers_follow_their_formulas(name: str) -> None:
    """PyTorch's AdamW is this one; RMSprop is Keras's, whose epsilon is within the root."""
    gradients = [draw(3, 2, seed=seed) for seed in range(1, 5)]
    w = draw(3, 2).astype(np.float64)
    if name == "RMSprop":
        square = np.zeros_like(w)
        for gradient in gradients:
            square = 0.9 * square + 0.1 * gradient.astype(np.float64) ** 2
            w -= 0.01 * gradient / np.sqrt(square + 1e-7)
        found = updated(RMSprop(0.01), gradients)
    else:
        first, second = np.zeros_like(w), np.zeros_like(w)
        for step, gradient in enumerate(gradients, 1):
            w -= 0.01 * 0.1 * w
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient.astype(np.float64) ** 2
            w -= 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * first / (np.sqrt(second) + 1e-7)
        found = updated(AdamW(0.01, weight_decay=0.1), gradients)
    np.testing.assert_allclose(found, w, rtol=1e-5, atol=1e-6)


def test_mean_absolute_error_and_its_gradient() -> None:
    values, targets = draw(4, 3), draw(4, 3, seed=1)
    scores, gradient = MeanAbsoluteError().of_values(targets, values, Backend("numpy"))
    assert_close(scores, abs(values.astype(np.float64) - targets).mean(-1), np.float32, terms=3)
    np.testing.assert_allclose(gradient, differences(lambda moved: float(abs(moved - targets).mean(-1).sum()), values), atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdamW(weight_decay=-1), "weight_decay is -1"),
        (lambda: AdamW(lr=-2, weight_decay=-1), "2 problems\n 1. lr is -2.*\n 2. weight_decay is -1"),
        (lambda: RMSprop(rho=1), "rho is 1"),
    ],
)
def test_arguments_out_of_range(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.DescError, match=message):
        make()


# Arguments and names


def test_evaluate_and_predict_take_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    made = model()
    silent = made.evaluate(X, Y, verbose=0), made.predict(X, verbose=0)
    assert capsys.readouterr().out == ""
    loss, accuracy = made.evaluate(X, Y, verbose=1)  # type: ignore[misc]
    assert [loss, accuracy] == silent[0]
    assert capsys.readouterr().out == f"loss: {loss:.4f} - acc: {accuracy:.4f}\n"
    np.testing.assert_array_equal(made.predict(X, verbose=1), silent[1])
    assert capsys.readouterr().out == "predicted 12 samples\n"


@pytest.mark.parametrize("monitor", ["val_accuracy", "val_acc", "accuracy", "loss"])
def test_a_metric_is_watched_by_either_name(monitor: str, recwarn: pytest.WarningsRecorder) -> None:
    stopping = EarlyStopping(monitor, patience=0, mode="max" if "acc" in monitor else "min", min_delta=1e9)
    history = model().fit(X, Y, epochs=5, verbose=0, validation_split=0.5, callbacks=[stopping])
    assert len(history.epoch) == 2  # no epoch is so much better
    assert not recwarn.list


REFUSED = [
    (EarlyStopping("val_loss"), {}, "remedy: pass validation_data or validation_split"),
    (EarlyStopping("val_los"), {"validation_split": 0.5}, "remedy: did you mean val_loss?"),
    (ReduceLROnPlateau("val_mse"), {"validation_split": 0.5}, "expected one of loss, acc, val_loss, val_acc, learning_rate"),
]


@pytest.mark.parametrize(("callback", "options", "message"), REFUSED)
def test_a_metric_that_no_epoch_has_is_refused_before_training(callback: Any, options: dict[str, Any], message: str) -> None:
    made = model()
    before = made.get_weights()
    with pytest.raises(dml.DescError, match=r"callbacks\[1\]\.monitor is ") as caught:
        made.fit(X, Y, epochs=1, verbose=0, callbacks=[History(), callback], **options)
    assert message in str(caught.value)
    assert all(map(np.array_equal, before, made.get_weights()))


def test_a_callback_of_the_callers_may_add_a_metric() -> None:
    added = LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(score=float(epoch)))
    history = model().fit(X, Y, epochs=6, verbose=0, callbacks=[added, EarlyStopping("score", patience=1, mode="min")])
    assert len(history.epoch) == 2


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model.weights.h5"])
@pytest.mark.parametrize("write", [Sequential.save, Sequential.save_weights, lambda _, path: ModelCheckpoint(path)])
def test_a_file_of_keras_is_not_imitated(write: Callable[[Sequential, Path], Any], name: str, tmp_path: Path) -> None:
    with pytest.raises(dml.DescError, match=r"expected a name that ends in \.safetensors, or without an extension"):
        write(model(), tmp_path / name)
    assert not [*tmp_path.iterdir()]


def test_metrics_by_name_and_a_callback_by_itself() -> None:
    made, stop = model(), EarlyStopping("loss")
    made.fit(X, Y, epochs=1, verbose=0, callbacks=stop)
    assert stop.best < np.inf, "it has seen a loss"
    assert made.evaluate(X, Y, return_dict=True) == dict(zip(("loss", "acc"), made.evaluate(X, Y), strict=True))
    assert made.evaluate([(X, Y)], return_dict=True) == made.evaluate(X, Y, return_dict=True)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: Sequential([Dense]), "remedy: call the class: Dense(...)"),
        (lambda: model(optimizer=AdamW), "remedy: call the class: AdamW(...)"),
        (lambda: Sequential([Dense(1, input_dim=2)]).compile("sgd", MeanAbsoluteError), "remedy: call the class: MeanAbsoluteError(...)"),
        (lambda: model().fit(X, Y, callbacks=[EarlyStopping]), "remedy: call the class: EarlyStopping(...)"),
        (lambda: model().fit(X, Y, callbacks=EarlyStopping), "remedy: call the class: EarlyStopping(...)"),
        (lambda: model().fit(X, Y, callbacks=3), "callbacks is 3, expected a callback, or a list of them"),
        (lambda: Sequential([Dense(1, "relu", input_dim=2)]), "remedy: write activation='relu': an activation is given by name"),
        (lambda: BinaryCrossentropy(from_logits=True), "end the model in Dense(..., activation='sigmoid')"),
        (lambda: CategoricalCrossentropy(from_logits=True), "end the model in Dense(..., activation='softmax')"),
    ],
)
def test_mistakes_of_scripts_for_keras_are_told_their_remedy(mistake: Callable[[], Any], message: str) -> None:
    with pytest.raises(dml.DescError, match=re.escape(message)):
        mistake()


def test_a_history_is_drawn() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    history = model().fit(X, Y, epochs=3, verbose=0, validation_split=0.5)
    lines = {line.get_label(): line for line in history.plot().get_lines()}
    assert {*lines} == {"loss", "acc", "val_loss", "val_acc"}
    for name, line in lines.items():
        np.testing.assert_array_equal(line.get_data(), [history.epoch, history.history[name]])
        assert line.get_linestyle() == ("--" if name.startswith("val_") else "-")
    axes = history.plot()
    assert history.plot(axes) is axes


class Writer:
    """A writer of tensorboardX that notes what it is given."""

    made: list[Writer] = []

    def __init__(self, folder: str) -> None:
        self.folder, self.scalars, self.is_closed = folder, list[Any](), False
        self.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def flush(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


def test_tensorboard_writes_what_the_history_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tensorboardX")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    monkeypatch.setattr(Writer, "made", [])
    history = model().fit(X, Y, epochs=2, verbose=0, callbacks=[TensorBoard("runs")])
    (writer,) = Writer.made
    assert (writer.folder, writer.is_closed) == ("runs", True)
    assert sorted(writer.scalars) == sorted((name, values[epoch], epoch) for name, values in history.history.items() for epoch in range(2))


def test_tensorboard_without_its_package_names_the_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(dml.DescError, match="pip install tensorboardX, or use CSVLogger"):
        TensorBoard()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Input", "input_shape"),
        ("layers", "dmlpy.keras.LSTM"),
        ("Lstm", "did you mean dmlpy.keras.LSTM?"),
        ("Conv2D", "dmlpy.eager.convolution"),
        ("BatchNormalization", "dmlpy.nn.batch_norm "),
        ("Lambda3", "dir(dmlpy.keras) lists its names"),
    ],
)
def test_names_that_only_keras_has(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(dml_keras, name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("export", r": dmlpy\.onnx\.export\(model\.to_graph\(\)\) makes"), ("to_json", ": save writes"), ("qqqqqq", "$"), ("__qqq__", "$")],
)
def test_an_unknown_method_of_a_model(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=f"^'Sequential' object has no attribute '{name}'{hint}"):
        getattr(model(), name)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("scaled_tanh", r"remedy: pass its desc: dmlpy\.ActivationScaledTanhDesc\(\.\.\.\)"),
        ("mish", "no single operator computes it"),
        ("tanhh", "did you mean tanh"),
        (np.tanh, "pass its name: 'tanh'"),
        (dml.ActivationReluDesc, r"call the class: ActivationReluDesc\(\.\.\.\)"),
    ],
)
def test_an_unknown_activation(name: Any, remedy: str) -> None:
    found = repr(name) if isinstance(name, str) else "<"
    with pytest.raises(dml.DescError, match=rf"activation is {found}.*, expected an activation desc(.*\n)+.*{remedy}"):
        GRU(4, activation=name)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: model().add(model()), "make one Sequential of the layers of both"),
        (lambda: model().add(lambda x: x), r"Activation\(name\) applies a known function"),
        (lambda: model().add("relu"), r"such as Dense\(10\) or Activation\('relu'\)"),
        (lambda: model().fit(X, epoch=2), r"did you mean epochs\?"),
        (lambda: model().compile(optimiser="adam", loss="mse"), r"did you mean optimizer\?"),
        (lambda: model().compile("adam", "mse", device="cpu"), r"Sequential\(device=\.\.\.\)"),
        (lambda: model().predict(X, workers=2), "give a loader"),
        (lambda: model().predict(X[0]), r"a single sample is a batch of one: x\[None\]"),
    ],
)
def test_what_a_model_does_not_take(call: Callable[[], Any], remedy: str) -> None:
    with pytest.raises(dml.DescError, match=rf"remedy: .*{remedy}"):
        call()


def test_the_names_that_hints_name_exist() -> None:
    hints = " ".join(unknown_names._HINTS.values())
    named = [(module, member) for module, member in re.findall(r"dmlpy\.(\w+)(?:\.(\w+))?", hints)]
    assert named
    for module, member in named:
        imported = import_module(f"dmlpy.{module}")
        assert not member or hasattr(imported, member)
