"""The loops over batches and epochs: `fit` and `evaluate` after the data were checked."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dmlpy.keras.callbacks import Callback, History, TrainedModel
from dmlpy.keras.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dmlpy.keras.data_sources import DataSource


class Averages:
    """Averages over batches, weighted by their numbers of samples."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.sums = [0.0] * len(names)
        self.samples = 0

    def add(self, values: Sequence[float], samples: int) -> None:
        """Adds a batch's metrics."""
        self.sums = [total + value * samples for total, value in zip(self.sums, values, strict=True)]
        self.samples += samples

    def restore(self, names: Sequence[str], sums: Sequence[float], samples: int) -> None:
        """Restores earlier sums."""
        self._names, self.sums, self.samples = names, list(sums), samples

    def values(self) -> dict[str, float]:
        """The averages so far, by name."""
        return {name: total / max(self.samples, 1) for name, total in zip(self._names, self.sums, strict=True)}


@dataclass
class Run:
    """A run of `fit`, from which callbacks read its position.

    Attributes:
        model: the model that is trained.
        source: the batches to train on.
        validation: the batches to evaluate after each epoch, or None.
        epochs: the number of the last epoch.
        verbose: as for `fit`.
        epoch: the current epoch's number, from 0.
        batch: batches of the epoch that were trained on.
        averages: the epoch's metrics so far.
        drawn: the state of the model's generator when the epoch began.
        history: the metrics of the previous epochs.
        callbacks: all callbacks, in the order in which they are called.
    """

    model: TrainedModel
    source: DataSource
    validation: DataSource | None
    epochs: int
    verbose: int
    epoch: int
    batch: int = 0
    averages: Averages = field(default_factory=lambda: Averages(()))
    drawn: dict[str, Any] = field(default_factory=dict)
    history: History = field(default_factory=History)
    callbacks: list[Callback] = field(default_factory=list)

    def train(self, callbacks: Iterable[Callback]) -> History:
        """Trains until the last epoch, or until a callback sets the model's `stop_training`."""
        given = list(callbacks)
        # A backup comes last: it stores the other callbacks' state after the batch or the epoch.
        self.callbacks = [*(each for each in given if not each.saves_run), self.history, *(each for each in given if each.saves_run)]
        self.model.stop_training = False
        first = self.epoch
        params = {"epochs": self.epochs, "steps": self.source.steps, "verbose": self.verbose}
        for callback in self.callbacks:
            callback.run = self
            callback.set_params(params)
            callback.set_model(self.model)
        total = None if self.source.steps is None else (self.epochs - first) * self.source.steps
        with progress_bar(total, shown=self.verbose == 1) as advance:
            self._tell("on_train_begin")
            for source in (self.source, self.validation):
                if source is not None:  # a run that is resumed begins with a later epoch
                    source.forward(range(first, self.epoch))
            while self.epoch < self.epochs and not self.model.stop_training:
                self._train_epoch(advance)
            self._tell("on_train_end")
        for callback in self.callbacks:
            callback.run = None
        return self.history

    def _train_epoch(self, advance: Any) -> None:
        start = time.perf_counter()
        model, names = self.model, self.model.objective.names
        random = model.backend.random.bit_generator
        if not self.batch:
            self.averages, self.drawn = Averages(names), dict(random.state)
        # In a resumed epoch, the order of the samples is drawn from the state at its start; then the later state is restored.
        since, random.state = random.state, self.drawn
        batches = self.source.epoch(self.epoch, self.batch)
        if self.batch:
            random.state = since
        self._tell("on_epoch_begin", self.epoch)
        for data in batches:
            self._tell("on_train_batch_begin", self.batch)
            self.averages.add(model.train_step(data), len(data))
            number, self.batch = self.batch, self.batch + 1
            figures = self.averages.values()
            self._tell("on_train_batch_end", number, figures)
            advance(f"epoch {self.epoch + 1}/{self.epochs}: {_figures(figures)}")
            if model.stop_training:
                break
        if self.source.ended:
            warnings.warn(f"the batches have ended in epoch {self.epoch + 1} of {self.epochs}; the run ends with them", stacklevel=5)
            model.stop_training = True
            if not self.batch:
                return
        figures = self.averages.values()
        if self.validation is not None:
            validated = evaluate(model, self.validation, self.epoch, self.callbacks)
            figures |= {f"val_{name}": value for name, value in validated.items()}
        number, self.epoch, self.batch = self.epoch, self.epoch + 1, 0
        self._tell("on_epoch_end", number, figures)
        if self.verbose:
            print(f"epoch {number + 1}/{self.epochs}: {_figures(figures)} ({time.perf_counter() - start:.1f} s)")

    def _tell(self, event: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(*arguments)


def evaluate(model: TrainedModel, source: DataSource, epoch: int = 0, callbacks: Sequence[Callback] = ()) -> dict[str, float]:
    """The loss and the metrics of a model over the batches."""
    averages = Averages(model.objective.names)
    for callback in callbacks:
        callback.on_test_begin()
    for number, batch in enumerate(source.epoch(epoch)):
        for callback in callbacks:
            callback.on_test_batch_begin(number)
        averages.add(model.test_step(batch), len(batch))
        for callback in callbacks:
            callback.on_test_batch_end(number, averages.values())
    for callback in callbacks:
        callback.on_test_end(averages.values())
    return averages.values()


def _figures(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in values.items())
