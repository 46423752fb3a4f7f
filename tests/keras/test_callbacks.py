"""Callbacks: the hooks of a run, and what Keras's callbacks do in it."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import (
    SGD,
    BackupAndRestore,
    CSVLogger,
    Dense,
    EarlyStopping,
    History,
    LambdaCallback,
    LearningRateScheduler,
    ModelCheckpoint,
    ReduceLROnPlateau,
    Sequential,
    TerminateOnNaN,
    load_model,
)
from dmlpy.keras.callbacks import Callback
from tests.support.keras.model_losses import compiled
from tests.support.keras.numbers import draw

X, Y = draw(10, 4), draw(10, 1, seed=1)


def line(rate: float = 0.1) -> Sequential:
    return compiled(Dense(1, input_dim=4), rule=SGD(lr=rate))


class Told(Callback):
    """Gives epochs figures that were written down, before other callbacks read them."""

    def __init__(self, name: str, *values: float) -> None:
        super().__init__()
        self.name, self.values = name, values

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs[self.name] = self.values[epoch]


class Watched(Callback):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda *given: self.seen.append((name.removeprefix("on_"), *(each for each in given if isinstance(each, int))))


def test_the_hooks_of_a_run() -> None:
    watched = Watched()
    line().fit(X, Y, batch_size=5, epochs=3, initial_epoch=1, verbose=0, validation_split=0.2, callbacks=[watched])
    batches = [(f"train_batch_{end}", batch) for batch in (0, 1) for end in ("begin", "end")]
    test = [("test_begin",), ("test_batch_begin", 0), ("test_batch_end", 0), ("test_end",)]
    epochs = [[("epoch_begin", epoch), *batches, *test, ("epoch_end", epoch)] for epoch in (1, 2)]
    assert watched.seen == [("train_begin",), *epochs[0], *epochs[1], ("train_end",)]
    assert watched.params == {"epochs": 3, "steps": 2, "verbose": 0}
    assert watched.run is None


def test_figures_of_callbacks_are_recorded() -> None:
    history = line().fit(X, Y, epochs=3, initial_epoch=1, verbose=0, callbacks=[Told("mine", 0, 5, 6)])
    assert history.epoch == [1, 2]
    assert history.history["mine"] == [5, 6]
    assert list(history.history) == ["loss", "mine"]
    assert isinstance(history, History)


def test_a_callback_ends_the_run_within_an_epoch() -> None:
    made = line()

    def stop(batch: int, logs: Any) -> None:
        made.stop_training = batch == 1

    history = made.fit(X, Y, batch_size=2, epochs=9, verbose=0, callbacks=[LambdaCallback(on_train_batch_end=stop)])
    assert (made.optimizer.iterations, history.epoch) == (2, [0])
    made.fit(X, Y, batch_size=2, epochs=1, verbose=0)
    assert made.optimizer.iterations == 7, "the next run begins anew"


STOPS: list[tuple[dict[str, Any], tuple[float, ...], int]] = [
    ({}, (5, 4, 4, 9, 9), 3),
    ({"patience": 2}, (5, 4, 6, 6, 3), 4),
    ({"patience": 2}, (5, 4, 6, 3, 9, 9, 9), 6),
    ({"min_delta": 0.5}, (5, 4.6, 3, 9, 9), 2),
    ({"mode": "max"}, (1, 2, 3, 2, 9), 4),
    ({"monitor": "val_acc"}, (0.1, 0.2, 0.2, 0.9), 3),
    ({"baseline": 1.0, "patience": 2}, (5, 4, 5, 0.5), 3),
    ({"baseline": 4.5, "patience": 2}, (5, 4, 5, 4.2), 4),
    ({"start_from_epoch": 2}, (1, 2, 3, 2, 3, 9), 5),
]


@pytest.mark.parametrize(("arguments", "figures", "epochs"), STOPS, ids=str)
def test_early_stopping(arguments: dict[str, Any], figures: tuple[float, ...], epochs: int) -> None:
    stopping = EarlyStopping(**{"monitor": "val_loss"} | arguments)
    history = line().fit(X, Y, epochs=len(figures), verbose=0, callbacks=[Told(stopping.monitor, *figures), stopping])
    assert len(history.epoch) == epochs
    assert stopping.stopped_epoch == epochs - 1


def test_early_stopping_gives_the_best_weights_back(capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[Any] = []
    made = line()
    keep = LambdaCallback(on_epoch_end=lambda epoch, logs: kept.append(made.get_weights()))
    stopping = EarlyStopping("mine", patience=2, restore_best_weights=True, verbose=1)
    made.fit(X, Y, epochs=9, verbose=0, callbacks=[Told("mine", 5, 3, 4, 4, 0), keep, stopping])
    assert len(kept) == 4
    np.testing.assert_array_equal(made.get_weights()[0], kept[1][0])
    assert "epoch 4: mine was best in epoch 2" in capsys.readouterr().out


def test_a_figure_that_there_is_not() -> None:
    with pytest.warns(UserWarning, match="EarlyStopping: the epoch has no figure val_loss; it has loss"):
        line().fit(X, Y, epochs=1, verbose=0, callbacks=[LambdaCallback(), EarlyStopping()])  # which might have added it


def test_checkpoints(tmp_path: Path) -> None:
    made = line()
    figures = Told("val_loss", 5, 3, 4, 2)
    every = ModelCheckpoint(tmp_path / "{epoch:02d}-{val_loss:.1f}.safetensors")
    best = ModelCheckpoint(tmp_path / "deeper" / "best.safetensors", save_best_only=True, verbose=1)
    weights = ModelCheckpoint(tmp_path / "weights.safetensors", save_weights_only=True, save_freq=3)
    made.fit(X, Y, batch_size=5, epochs=3, verbose=0, callbacks=[figures, every, best, weights])
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "01-5.0.safetensors",
        "02-3.0.safetensors",
        "03-4.0.safetensors",
        "weights.safetensors",
    ]
    loaded, third = load_model(tmp_path / "deeper" / "best.safetensors"), load_model(tmp_path / "03-4.0.safetensors")
    second = load_model(tmp_path / "02-3.0.safetensors")
    np.testing.assert_array_equal(loaded.get_weights()[0], second.get_weights()[0])
    np.testing.assert_array_equal(made.get_weights()[0], third.get_weights()[0])
    third.load_weights(tmp_path / "weights.safetensors")
    np.testing.assert_array_equal(made.get_weights()[0], third.get_weights()[0])
    assert not list(tmp_path.rglob("*.unfinished"))


def test_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for append, first in ((False, 0), (False, 0), (True, 2)):
        history = line().fit(
            X, Y, epochs=first + 2, initial_epoch=first, verbose=0, validation_split=0.5, callbacks=[CSVLogger(path, ";", append)]
        )
    rows = list(csv.DictReader(path.read_text().splitlines(), delimiter=";"))
    assert list(rows[0]) == ["epoch", "loss", "val_loss"]
    assert [row["epoch"] for row in rows] == ["0", "1", "2", "3"]
    assert [float(row["loss"]) for row in rows[2:]] == history.history["loss"]


SCHEDULES: list[Callable[..., float]] = [
    lambda epoch: 0.1 / (epoch + 1),
    lambda epoch, rate: rate if epoch == 0 else rate * epoch / (epoch + 1),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=["of the epoch", "of the rate"])
def test_a_schedule_of_rates(schedule: Callable[..., float], capsys: pytest.CaptureFixture[str]) -> None:
    made = line()
    history = made.fit(X, Y, epochs=3, verbose=0, callbacks=[LearningRateScheduler(schedule, verbose=1)])
    np.testing.assert_allclose(history.history["learning_rate"], [0.1, 0.05, 0.1 / 3])
    assert made.optimizer.lr == history.history["learning_rate"][-1]
    assert "epoch 3: the learning rate is 0.0333333" in capsys.readouterr().out


PLATEAUS: list[tuple[dict[str, Any], tuple[float, ...], list[float]]] = [
    ({"patience": 1}, (5, 5, 5, 4), [0.1, 0.1, 0.05, 0.025]),
    ({"patience": 2}, (5, 5, 5, 5, 5), [0.1, 0.1, 0.1, 0.05, 0.05]),
    ({"patience": 1, "cooldown": 2}, (5, 5, 5, 5, 5), [0.1, 0.1, 0.05, 0.05, 0.025]),
    ({"patience": 1, "min_lr": 0.04}, (5, 5, 5, 5), [0.1, 0.1, 0.05, 0.04]),
    ({"patience": 1, "mode": "max"}, (1, 2, 2, 3), [0.1, 0.1, 0.1, 0.05]),
]


@pytest.mark.parametrize(("arguments", "figures", "rates"), PLATEAUS, ids=str)
def test_plateaus(arguments: dict[str, Any], figures: tuple[float, ...], rates: list[float]) -> None:
    lowering = ReduceLROnPlateau("mine", factor=0.5, **arguments)
    history = line().fit(X, Y, epochs=len(figures), verbose=0, callbacks=[Told("mine", *figures), lowering])
    np.testing.assert_allclose(history.history["learning_rate"], rates)


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    history = line(1e30).fit(X, Y, batch_size=2, epochs=9, verbose=0, callbacks=[TerminateOnNaN()])
    assert len(history.epoch) == 1
    assert not math.isfinite(history.history["loss"][0])


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "mode": (lambda: EarlyStopping(mode="least"), r"EarlyStopping(.|\n)*mode is 'least', expected auto, min or max"),
    "save_freq": (lambda: ModelCheckpoint("x", save_freq=0), r"save_freq is 0, expected epoch, or a number of batches"),
    "save_freq of a backup": (lambda: BackupAndRestore("x", "batch"), r"save_freq is 'batch'"),
    "factor": (lambda: ReduceLROnPlateau(factor=1.0), r"factor is 1\.0, expected a number of at least 0, below 1"),
    "hook": (lambda: LambdaCallback(on_epoch=print), r"on_epoch is not a callback's method, expected one of on_epoch_begin"),
    "rate": (
        lambda: line().fit(X, Y, verbose=0, callbacks=[LearningRateScheduler(lambda epoch: -1.0)]),
        r"schedule is giving -1\.0, expected a finite number",
    ),
    "no callback": (lambda: line().fit(X, Y, callbacks=[print]), r"callbacks\[0\] is a builtin_function_or_method, expected a callback"),
    "initial epoch": (lambda: line().fit(X, Y, initial_epoch=-1), r"initial_epoch is -1, expected 0 or more"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    call, message = ERRORS[case]
    with pytest.raises(dml.DescError, match=message):
        call()


def test_batches_of_the_validation_data_reach_callbacks() -> None:
    seen: list[tuple[str, int, dict[str, float]]] = []
    told = LambdaCallback(
        on_test_batch_begin=lambda batch: seen.append(("begin", batch, {})),
        on_test_batch_end=lambda batch, logs: seen.append(("end", batch, logs)),
    )
    made = compiled(Dense(1, input_dim=X.shape[1]))
    history = made.fit(X, Y, batch_size=len(X), epochs=1, verbose=0, validation_data=[(X[:2], Y[:2]), (X[2:], Y[2:])], callbacks=[told])
    assert [(event, batch) for event, batch, _ in seen] == [("begin", 0), ("end", 0), ("begin", 1), ("end", 1)]
    assert seen[-1][2]["loss"] == history.history["val_loss"][0] != seen[1][2]["loss"]
