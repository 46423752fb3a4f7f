"""Callbacks that monitor a metric: `EarlyStopping`, `ModelCheckpoint` and `ReduceLROnPlateau`."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief, is_among
from dmlpy.description.flags import check_flags
from dmlpy.keras.callbacks import Callback, FilePath, Logs
from dmlpy.keras.saving import check_path
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping


def reported_name(monitor: str) -> str:
    """The name under which a metric is reported: `val_acc` for `val_accuracy`."""
    return monitor.removesuffix("uracy") if monitor.endswith("accuracy") else monitor


class MetricCallback(Callback):
    """The base of the callbacks that monitor a metric.

    Args:
        monitor: the metric's name in the logs.
        mode: whether `min` or `max` is better; `auto`: larger for an accuracy, else smaller.
        min_delta: the least difference that counts as better.
        verbose: 1 to print what the callback does, 0 for nothing.

    Raises:
        DescError: the mode is unknown.
    """

    def __init__(self, monitor: str, mode: str, min_delta: float, verbose: int) -> None:
        super().__init__()
        problems = []
        if not isinstance(monitor, str):
            problems.append(Problem("field.form", "monitor", brief(monitor), "a metric's name"))
        if not is_among(mode, ("auto", "min", "max")):
            problems.append(Problem("field.form", "mode", brief(mode), "auto, min or max"))
        if not isinstance(min_delta, int | float | np.number):
            problems.append(Problem("field.form", "min_delta", brief(min_delta), "a number"))
        if problems:
            raise DescError(type(self).__name__, problems)
        self.monitor = monitor
        self.mode = mode
        self.verbose = verbose
        self._sign = 1 if mode == "max" or (mode == "auto" and monitor.endswith(("acc", "accuracy"))) else -1
        self.min_delta = abs(min_delta)
        self.best = -self._sign * math.inf

    def better(self, value: float, than: float) -> bool:
        """Whether a value is better than another by `min_delta`."""
        return self._sign * (value - than) > self.min_delta

    def watched(self, logs: Logs | None) -> float | None:
        """The metric's value; None, with a warning, if the logs do not have it."""
        value = (logs or {}).get(self.monitor, (logs or {}).get(reported_name(self.monitor)))
        if value is None:
            names = ", ".join(logs or {})
            warnings.warn(f"{type(self).__name__}: the epoch has no figure {self.monitor}; it has {names}", stacklevel=2)
        return value

    def _say(self, text: str) -> None:
        if self.verbose:
            print(text)


class EarlyStopping(MetricCallback):
    """Stops the run when a metric has stopped improving.

    Args:
        monitor: the figure's name.
        min_delta: the least difference that counts as better.
        patience: epochs without improvement after which the run ends.
        verbose: 1 to print the epoch in which the run ends.
        mode: `min`, `max` or `auto`.
        baseline: a value that an epoch must surpass to count as better; None for none.
        restore_best_weights: whether to restore the weights of the best epoch when the run ends.
        start_from_epoch: epochs before monitoring starts.

    Attributes:
        best: the best value.
        best_epoch: its epoch.
        stopped_epoch: the epoch after which this callback stopped the run; 0 if it did not.
        wait: epochs since the best one.
    """

    @check_flags
    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta, verbose)
        self.patience = patience
        self.baseline = baseline
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = start_from_epoch
        self.best_weights: list[np.ndarray[Any, Any]] = []
        self.best_epoch = self.stopped_epoch = self.wait = 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.best = -self._sign * math.inf
        self.best_weights = []
        self.best_epoch = self.stopped_epoch = self.wait = 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        value = self.watched(logs)
        if value is None or epoch < self.start_from_epoch:
            return
        self.wait += 1
        if self.better(value, self.best):
            self.best, self.best_epoch = value, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.better(value, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.stopped_epoch:
            self._say(f"epoch {self.stopped_epoch + 1}: {self.monitor} was best in epoch {self.best_epoch + 1}; the run ends")
        if self.restore_best_weights and self.best_weights:
            self.model.set_weights(self.best_weights)

    def state(self) -> dict[str, Any]:
        names = ("best", "best_epoch", "stopped_epoch", "wait", "best_weights")
        return {name: getattr(self, name) for name in names}

    def load_state(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)


class ModelCheckpoint(MetricCallback):
    """Saves the model, or its weights, after each epoch or after a number of batches.

    Args:
        filepath: the file, in which `{epoch}`, from 1, and the metrics' names are replaced by their values:
            `model.{epoch:02d}-{val_loss:.2f}.safetensors`. A file is replaced atomically.
        monitor: the metric that determines the best epoch.
        verbose: 1 to print each file's name.
        save_best_only: whether to save only epochs that improve on all before.
        save_weights_only: whether `save_weights` writes the file instead of `save`.
        mode: `min`, `max` or `auto`.
        save_freq: `epoch`, or the number of batches after which it saves.
        initial_value_threshold: the value that the first epoch must surpass; None for none.

    Raises:
        DescError: `mode` or `save_freq` is invalid, or the file's name says that it is Keras's.
    """

    @check_flags
    def __init__(
        self,
        filepath: FilePath,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        super().__init__(monitor, mode, 0.0, verbose)
        self.save_freq = check_frequency("ModelCheckpoint", save_freq)
        check_path("ModelCheckpoint", "filepath", filepath)  # here, and not after the first epoch
        self.filepath = os.fspath(filepath)
        self.save_best_only = save_best_only
        self.save_weights_only = save_weights_only
        self._batches = 0
        if initial_value_threshold is not None:
            self.best = initial_value_threshold

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._batches += 1
        if self.save_freq != "epoch" and self._batches % int(self.save_freq) == 0:
            self._save(self.run.epoch if self.run is not None else 0, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_freq == "epoch":
            self._save(epoch, logs)

    def _save(self, epoch: int, logs: Logs | None) -> None:
        if self.save_best_only:
            value = self.watched(logs)
            if value is None or not self.better(value, self.best):
                return
            self.best = value
        path = Path(self.filepath.format(epoch=epoch + 1, **(logs or {})))
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.model.save_weights if self.save_weights_only else self.model.save)(path)
        self._say(f"epoch {epoch + 1}: saved {path}")

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "batches": self._batches}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.best, self._batches = state["best"], state["batches"]


def check_frequency(owner: str, given: Any) -> str | int:
    """`save_freq` as it was given; DescError unless it is `epoch` or a number of batches."""
    if is_among(given, ("epoch",)) or (isinstance(given, int) and not isinstance(given, bool) and given >= 1):
        return given  # type: ignore[no-any-return]
    raise DescError(owner, [Problem("field.form", "save_freq", brief(given), "epoch, or a number of batches, 1 or more")])


class ReduceLROnPlateau(MetricCallback):
    """Lowers the optimizer's `lr` when a metric has stopped improving.

    Args:
        monitor: the figure's name.
        factor: what the rate is multiplied by, below 1.
        patience: epochs without improvement after which it is lowered.
        verbose: 1 to print it.
        mode: `min`, `max` or `auto`.
        min_delta: the least difference that counts as better.
        cooldown: epochs after a reduction that do not count.
        min_lr: the lowest rate.

    Raises:
        DescError: the mode is unknown, or the factor does not lower the rate.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        super().__init__(monitor, mode, min_delta, verbose)
        if not isinstance(factor, int | float | np.number) or not 0 <= factor < 1:
            raise DescError("ReduceLROnPlateau", [Problem("field.form", "factor", brief(factor), "a number of at least 0, below 1")])
        self.factor = factor
        self.patience = patience
        self.cooldown = cooldown
        self.min_lr = min_lr
        self._wait = self._cooling = 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.best, self._wait, self._cooling = -self._sign * math.inf, 0, 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        optimizer = self.model.optimizer
        if logs is not None:
            logs["learning_rate"] = optimizer.lr
        value = self.watched(logs)
        if value is None:
            return
        if self._cooling:
            self._cooling, self._wait = self._cooling - 1, 0
        if self.better(value, self.best):
            self.best, self._wait = value, 0
        elif not self._cooling:
            self._wait += 1
            if self._wait >= self.patience and optimizer.lr > self.min_lr:
                optimizer.lr = max(optimizer.lr * self.factor, self.min_lr)
                self._cooling, self._wait = self.cooldown, 0
                self._say(f"epoch {epoch + 1}: the learning rate is lowered to {optimizer.lr:g}")

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "wait": self._wait, "cooling": self._cooling}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.best, self._wait, self._cooling = state["best"], state["wait"], state["cooling"]
