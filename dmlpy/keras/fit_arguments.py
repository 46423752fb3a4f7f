"""Checks the arguments of `Sequential.fit` together and makes its data sources."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.description.coercion import brief
from dmlpy.description.flags import flag_problems, is_set
from dmlpy.keras.callbacks import Callback, LambdaCallback
from dmlpy.keras.data_sources import ArraySource, BatchSource, DataSource
from dmlpy.keras.metric_callbacks import EarlyStopping, ReduceLROnPlateau, reported_name
from dmlpy.keras.training import Data, DataReader
from dmlpy.messages.naming import class_remedy, did_you_mean, plural, with_article
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from dmlpy.keras.training import Model


class FitArguments(NamedTuple):
    """The arguments of `Sequential.fit`, by name."""

    x: Any
    y: Any
    batch_size: int | None
    epochs: int
    validation_split: float
    validation_data: Any
    shuffle: bool
    sample_weight: Any
    callbacks: Iterable[Callback] | None
    initial_epoch: int
    steps_per_epoch: int | None
    validation_steps: int | None

    def sources(self, model: Model, epochs_name: str) -> tuple[DataSource, DataSource | None]:
        """The batches to train on, and those to evaluate after each epoch.

        Args:
            model: the model that is trained.
            epochs_name: the name by which `epochs` was passed.

        Raises:
            DescError: invalid arguments; all problems at once.
        """
        reader = DataReader(model, "fit")
        self._check_numbers(reader, epochs_name)
        size = reader.batch_size(self.batch_size)
        count = self.epochs - self.initial_epoch if isinstance(self.epochs, Integral) and isinstance(self.initial_epoch, Integral) else 0
        training: DataSource | None
        kept: Data | None = None
        if self.y is None and BatchSource.gives(self.x):
            training = self._batches(reader, count)
        else:
            data = reader.read(self.x, self.y, self.sample_weight)
            data, kept = self._split(reader, data)
            training = self._arrays(reader, data, size)
        validation = self._validation(reader, kept, size, count)
        reader.raise_problems()
        assert training is not None
        return training, validation

    def _check_numbers(self, reader: DataReader, epochs_name: str) -> None:
        for name, value in {epochs_name: self.epochs, "initial_epoch": self.initial_epoch}.items():
            if not isinstance(value, Integral) or value < 0:
                reader.problems.append(Problem("data.epochs", name, brief(value), "0 or more"))
        for name, steps in {"steps_per_epoch": self.steps_per_epoch, "validation_steps": self.validation_steps}.items():
            if steps is not None and (not isinstance(steps, Integral) or steps < 1):
                reader.problems.append(Problem("data.steps", name, brief(steps), "1 or more"))
        reader.problems += flag_problems(shuffle=self.shuffle)
        for index, callback in enumerate(self.callbacks or ()):
            if not isinstance(callback, Callback):
                found = brief(callback) if isinstance(callback, type) else with_article(type(callback).__name__)
                expected, remedy = "a callback: an object of a class derived from dmlpy.keras.Callback", class_remedy(callback, Callback)
                reader.problems.append(Problem("callback.kind", f"callbacks[{index}]", found, expected, remedy=remedy))
        self._check_monitors(reader)

    def _check_monitors(self, reader: DataReader) -> None:
        """Reports callbacks that would wait for ever for a metric that no epoch has, unless a callback of the caller's may add it."""
        callbacks = tuple(self.callbacks or ())
        if any(type(callback) is LambdaCallback or not type(callback).__module__.startswith("dmlpy.keras.") for callback in callbacks):
            return
        is_validated = self.validation_data is not None or self.validation_split
        names = reader.model.objective.names
        known = [*names, *(f"val_{name}" for name in names if is_validated), "learning_rate"]
        for index, callback in enumerate(callbacks):
            if isinstance(callback, EarlyStopping | ReduceLROnPlateau) and reported_name(callback.monitor) not in known:
                is_missing = callback.monitor.startswith("val_") and not is_validated
                remedy = "pass validation_data or validation_split" if is_missing else did_you_mean(callback.monitor, known)
                expected = f"one of {', '.join(known)}"
                reader.problems.append(
                    Problem("callback.monitor", f"callbacks[{index}].monitor", brief(callback.monitor), expected, remedy=remedy)
                )

    def _batches(self, reader: DataReader, epochs: int) -> DataSource:
        for name, value in {"sample_weight": self.sample_weight, "batch_size": self.batch_size}.items():
            if value is not None:
                why = ("x gives batches, which have their own",)
                reader.problems.append(Problem("data.form", name, "given", "None", why))
        if self.validation_split:
            why = ("x gives batches, of which none can be kept back",)
            reader.problems.append(Problem("data.split", "validation_split", brief(self.validation_split), "0", why))
        reader.problems += BatchSource.problems(self.x, self.steps_per_epoch, epochs, "steps_per_epoch")
        return BatchSource(reader.model, self.x, self.steps_per_epoch, "fit", "x")

    def _split(self, reader: DataReader, data: Data | None) -> tuple[Data | None, Data | None]:
        """Splits the samples into those to train on and those held out for validation."""
        if self.validation_data is not None:
            return data, None
        if not isinstance(self.validation_split, Real) or not 0 <= self.validation_split < 1:
            found, expected = brief(self.validation_split), "at least 0 and less than 1"
            reader.problems.append(Problem("data.split", "validation_split", found, expected))
            return data, None
        if data is None or not self.validation_split:
            return data, None
        count = int(len(data) * (1 - self.validation_split))
        data, kept = data.part(slice(count)), data.part(slice(count, None))
        if not len(data) or not len(kept):
            found = f"{self.validation_split:g} of {plural(len(data) + len(kept), 'sample')}"
            reader.problems.append(Problem("data.split", "validation_split", found, "at least one sample on either side"))
        return data, kept

    def _arrays(self, reader: DataReader, data: Data | None, size: int) -> DataSource | None:
        if is_set(self.shuffle) and reader.model.stateful:
            why = ("a stateful layer carries the state of sample i to sample i of the next batch",)
            reader.problems.append(Problem("data.shuffle", "shuffle", "True", "False", why))
        if self.steps_per_epoch is not None:
            why = ("x and y are arrays: an epoch is a pass over all samples",)
            reader.problems.append(Problem("data.steps", "steps_per_epoch", brief(self.steps_per_epoch), "None", why))
        reader.whole_batches(data)
        return None if data is None else ArraySource(data, size, reader.model.backend.random if is_set(self.shuffle) else None)

    def _validation(self, reader: DataReader, kept: Data | None, size: int, epochs: int) -> DataSource | None:
        given = self.validation_data
        if given is None:
            reader.whole_batches(kept, "validation_data")
            return None if kept is None else ArraySource(kept, size)
        if self.validation_split:
            reader.problems.append(Problem("data.split", "validation_split", brief(self.validation_split), "0 beside validation_data"))
        pairs = isinstance(given, list) and bool(given) and all(isinstance(each, tuple) for each in given)
        if pairs or (not isinstance(given, tuple | list) and BatchSource.gives(given)):
            reader.problems += BatchSource.problems(given, self.validation_steps, epochs, "validation_steps")
            return BatchSource(reader.model, given, self.validation_steps, "fit", "validation_data")
        if not isinstance(given, tuple | list) or len(given) not in (2, 3):
            found = with_article(type(given).__name__) + (f" of {len(given)}" if isinstance(given, tuple | list) else "")
            expected = "(x, y) or (x, y, sample_weight), or an iterable of batches"
            reader.problems.append(Problem("data.form", "validation_data", found, expected))
            return None
        data = reader.read(*given, prefix="validation_data.")
        reader.whole_batches(data, "validation_data")
        return None if data is None else ArraySource(data, size)


def given_callbacks(callbacks: Callback | Iterable[Callback] | None) -> tuple[Callback, ...]:
    """The callbacks of `fit`, of which there may be one without a list.

    Raises:
        DescError: it is neither a callback nor several of them.
    """
    if callbacks is None or isinstance(callbacks, Callback):
        return () if callbacks is None else (callbacks,)
    if isinstance(callbacks, type) or not isinstance(callbacks, Iterable):
        remedy = class_remedy(callbacks, Callback)
        raise DescError(
            "Sequential.fit", [Problem("callback.kind", "callbacks", brief(callbacks), "a callback, or a list of them", remedy=remedy)]
        )
    return tuple(callbacks)
