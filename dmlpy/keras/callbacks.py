"""Callbacks, with Keras's names: what `Sequential.fit` calls while it trains."""

from __future__ import annotations

import csv
import math
import os
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dmlpy.description.coercion import brief, given_path
from dmlpy.description.flags import check_flags
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.keras.backend import Backend
    from dmlpy.keras.layer import Layer, Shape, Weight
    from dmlpy.keras.optimizers import Optimizer
    from dmlpy.keras.training import Data, Objective

Logs = dict[str, Any]
FilePath = str | os.PathLike[str]


class TrainedModel(Protocol):
    """The part of the trained model, a `Sequential`, that callbacks and loops use."""

    layers: list[Layer]
    backend: Backend
    stop_training: bool

    @property
    def input_shape(self) -> Shape: ...

    @property
    def output_shape(self) -> Shape: ...

    @property
    def weights(self) -> list[Weight]: ...

    @property
    def objective(self) -> Objective: ...

    @property
    def optimizer(self) -> Optimizer: ...

    def get_weights(self) -> list[np.ndarray[Any, Any]]: ...

    def set_weights(self, weights: Sequence[Any]) -> None: ...

    def reset_states(self) -> None: ...

    def summary(self) -> None: ...

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        *,
        steps: int | None = None,
        verbose: int = 0,
    ) -> float | list[float]: ...

    def predict(self, x: Any, batch_size: int | None = None, *, verbose: int = 0) -> np.ndarray[Any, Any]: ...

    def save_weights(self, path: FilePath) -> None: ...

    def load_weights(self, path: FilePath) -> None: ...

    def save(self, path: FilePath) -> None: ...

    def train_step(self, batch: Data) -> list[float]: ...

    def test_step(self, batch: Data) -> list[float]: ...


class TrainingRun(Protocol):
    """The position of a run of `fit`; `Run` implements it."""

    epochs: int
    verbose: int
    epoch: int
    batch: int

    @property
    def model(self) -> TrainedModel: ...

    @property
    def callbacks(self) -> Sequence[Callback]: ...


class Callback:
    """The base of all callbacks; a subclass overrides what it needs.

    `logs` has the metrics by name: averages over the epoch's batches so far, and at an epoch's end also those of the validation data. All
    callbacks receive the same dict at an epoch's end; the history records its contents after the last callback.

    Attributes:
        model: the model that is trained.
        params: `epochs`, `steps` of an epoch (None where unknown) and `verbose` of the run.
        run: the run that calls it; None outside of one.
        saves_run: whether it is called after all others, since it stores their state.
    """

    model: TrainedModel
    saves_run: bool = False

    def __init__(self) -> None:
        self.params: Mapping[str, Any] = {}
        self.run: TrainingRun | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Receives the run's parameters."""
        self.params = params

    def set_model(self, model: TrainedModel) -> None:
        """Receives the model."""
        self.model = model

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Called before the first epoch."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Called after the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Called before an epoch, and again when one is resumed in the middle."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Called after an epoch, counted from 0, and its evaluation."""

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a batch, counted from 0 in each epoch."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a batch's update."""

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Called before the validation data are evaluated."""

    def on_test_end(self, logs: Logs | None = None) -> None:
        """Called after the validation data were evaluated."""

    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Called before a batch of the validation data, counted from 0, is evaluated."""

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Called after a batch of the validation data, with the averages over the batches so far."""

    def state(self) -> dict[str, Any]:
        """The state that the callback needs to resume a run: JSON values, and lists of arrays."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `state` returned."""


@dataclass
class History(Callback):
    """The losses and metrics that `fit` recorded.

    Attributes:
        epoch: the epochs' numbers, from 0.
        history: a list with one value per epoch, by metric name: `loss`, `acc`, `val_loss`, `val_acc` of the validation data, and what
            callbacks add. Loss and accuracy of an epoch are averages over its batches, each before the batch's update; losses include
            the regularizers.
    """

    epoch: list[int] = field(default_factory=list)
    history: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)

    def plot(self, axes: Any = None) -> Any:
        """Draws each metric over the epochs, the validation data's in dashes, by Matplotlib, and returns its axes.

        Args:
            axes: axes of Matplotlib to draw on; None makes a figure.

        Raises:
            ImportError: Matplotlib is not installed.
        """
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.figure().add_subplot()
        for name, values in self.history.items():
            axes.plot(self.epoch[-len(values) :], values, label=name, linestyle="--" if name.startswith("val_") else "-")
        axes.set_xlabel("epoch")
        axes.locator_params(axis="x", integer=True)
        axes.legend()
        return axes

    def state(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "history": self.history}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.epoch = list(state["epoch"])
        self.history = {name: list(values) for name, values in state["history"].items()}


class LambdaCallback(Callback):
    """Calls functions: `LambdaCallback(on_epoch_end=lambda epoch, logs: ...)`.

    Args:
        **functions: functions by the names of `Callback`'s methods.

    Raises:
        DescError: a name is unknown.
    """

    def __init__(self, **functions: Callable[..., Any]) -> None:
        super().__init__()
        known = [name for name in dir(Callback) if name.startswith("on_")]
        problems = [
            Problem("field.unknown", name, "not a callback's method", f"one of {', '.join(known)}")
            for name in functions
            if name not in known
        ]
        if problems:
            raise DescError("LambdaCallback", problems)
        for name, function in functions.items():
            setattr(self, name, function)


class TerminateOnNaN(Callback):
    """Stops the run after a batch whose loss is not finite."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if logs is not None and not math.isfinite(logs["loss"]):
            print(f"batch {batch}: the loss is {logs['loss']}; the run ends")
            self.model.stop_training = True


class CSVLogger(Callback):
    """Writes the metrics of each epoch to a file, with their names in its first line.

    Args:
        filename: the file.
        separator: the text between values.
        append: whether to append to an existing file instead of replacing it.
    """

    @check_flags
    def __init__(self, filename: FilePath, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename = given_path("CSVLogger", "filename", filename)
        if not isinstance(separator, str) or len(separator) != 1:
            raise DescError("CSVLogger", [Problem("field.form", "separator", brief(separator), "one character")])
        self.separator = separator
        self.append = append
        self._length: int | None = None
        self._names: list[str] = []

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._length, self._names = None, []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        figures = {"epoch": epoch, **(logs or {})}
        if self._length is None:  # the first epoch of the run
            with self.filename.open("a" if self.append else "w", encoding="utf-8", newline="") as file:
                self._length = file.tell()
        else:  # lines that an interrupted run wrote after its last backup are written again
            os.truncate(self.filename, self._length)
        with self.filename.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=self.separator)
            if not self._names:
                self._names = list(figures)
                if not self._length:
                    writer.writerow(self._names)
            writer.writerow(figures.get(name, "NA") for name in self._names)
            file.flush()
            self._length = file.tell()

    def state(self) -> dict[str, Any]:
        return {"length": self._length, "names": self._names}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._length, self._names = state["length"], list(state["names"])


class LearningRateScheduler(Callback):
    """Sets the optimizer's `lr` before each epoch.

    Args:
        schedule: a function of the epoch, from 0, or of the epoch and the current rate, that returns the rate.
        verbose: 1 to print it.
    """

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        try:
            self._takes_rate = len(signature(schedule).parameters) > 1
        except (TypeError, ValueError):  # no function, or one without a signature
            expected = "a function of the epoch, or of the epoch and the rate"
            raise DescError("LearningRateScheduler", [Problem("field.form", "schedule", brief(schedule), expected)]) from None
        self.schedule = schedule
        self.verbose = verbose

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        optimizer = self.model.optimizer
        rate = self.schedule(epoch, optimizer.lr) if self._takes_rate else self.schedule(epoch)
        if not isinstance(rate, int | float | np.floating) or not 0 <= rate < math.inf:
            raise DescError(
                "LearningRateScheduler", [Problem("optimizer.range", "schedule", f"giving {brief(rate)}", "a finite number, 0 or larger")]
            )
        optimizer.lr = float(rate)
        if self.verbose:
            print(f"epoch {epoch + 1}: the learning rate is {optimizer.lr:g}")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = self.model.optimizer.lr
