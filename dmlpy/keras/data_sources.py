"""Sources of an epoch's batches: arrays that are split and shuffled, or any iterable of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from dmlpy.description.coercion import brief
from dmlpy.keras.training import Data, DataReader
from dmlpy.messages.naming import with_article
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    import numpy as np

    from dmlpy.keras.training import Model


class DataSource(Protocol):
    """The batches of a run.

    Attributes:
        steps: the number of batches of an epoch, if known.
        ended: whether an iterator is exhausted, which ends the run.
    """

    steps: int | None
    ended: bool

    def epoch(self, number: int, skipped: int = 0) -> Iterator[Data]:
        """The batches of an epoch after the first `skipped`; call it for epochs in order. Random numbers are drawn immediately."""
        ...

    def forward(self, epochs: range) -> None:
        """Skips the batches of the epochs that a resumed run has completed."""
        ...


class ArraySource:
    """Samples that are split into batches, the last of which may be smaller.

    Args:
        data: all samples.
        batch_size: samples of a batch.
        random: the generator that shuffles the samples in each epoch; None keeps their order.
    """

    def __init__(self, data: Data, batch_size: int, random: np.random.Generator | None = None) -> None:
        self._data, self._size, self._random = data, batch_size, random
        self.steps: int | None = len(range(0, len(data), batch_size))
        self.ended = False

    def epoch(self, number: int, skipped: int = 0) -> Iterator[Data]:
        return self._cut(None if self._random is None else self._random.permutation(len(self._data)), skipped)

    def _cut(self, order: np.ndarray[Any, Any] | None, skipped: int) -> Iterator[Data]:
        for start in range(skipped * self._size, len(self._data), self._size):
            part = slice(start, start + self._size)
            yield self._data.part(part if order is None else order[part])

    def forward(self, epochs: range) -> None:
        pass


class BatchSource:
    """Batches from an iterable: (x, y) or (x, y, sample_weight), arrays or what NumPy accepts, including PyTorch tensors.

    Without `steps` an epoch is one pass over the iterable. With it an epoch is that many batches; the next epoch continues from there,
    and an iterable that can be restarted is restarted at its end. Before an epoch, `set_epoch(number)` of the iterable or its `sampler` is
    called, as for PyTorch's distributed samplers, and after it `on_epoch_end()`, as for Keras's sequences.

    Args:
        model: the model that takes them.
        given: the iterable, or an object with a length and items.
        steps: the number of batches of an epoch.
        method: the model's method, for messages.
        path: the argument's name, for messages.
    """

    def __init__(self, model: Model, given: Any, steps: int | None, method: str, path: str) -> None:
        self._model, self._given, self._method, self._path = model, given, method, path
        self._once = isinstance(given, Iterator)
        length = len(given) if isinstance(given, Sized) and not self._once else None
        self.steps = length if steps is None else steps
        self.ended = False
        self._whole = steps is None
        self._current: Iterator[Any] | None = None
        self._read = 0

    @staticmethod
    def problems(given: Any, steps: Any, epochs: int, path: str) -> Iterator[Problem]:
        """Problems of an argument that should supply the batches of a number of epochs."""
        if steps is None and epochs > 1 and isinstance(given, Iterator):
            why = ("an iterator is read once, so nothing tells where an epoch of it ends",)
            remedy = "pass the batches of an epoch, or an iterable that begins anew in each: a list, a DataLoader, a class with __iter__"
            yield Problem("data.steps", path, "None", f"a number, for {epochs} epochs of {with_article(type(given).__name__)}", why, remedy)

    @staticmethod
    def gives(value: Any) -> bool:
        """Whether a value is an iterable of batches, not an array."""
        if hasattr(value, "__array__") or isinstance(value, str | bytes | dict):
            return False
        return isinstance(value, Iterable) or (hasattr(value, "__getitem__") and hasattr(value, "__len__"))

    def epoch(self, number: int, skipped: int = 0) -> Iterator[Data]:
        count = 0
        for count, batch in enumerate(self._of_epoch(number), 1):
            if count > skipped:
                yield self._checked(batch)
        if not count and not (self.ended and self._once):
            raise DescError(self._subject, [Problem("data.form", self._path, "without batches", "one batch at least in each epoch")])
        if hasattr(self._given, "on_epoch_end"):
            self._given.on_epoch_end()

    def forward(self, epochs: range) -> None:
        if self._setter() is not None and self._whole:
            return  # the epoch's number determines its contents
        for number in epochs:
            for _ in self._of_epoch(number):
                pass
            if hasattr(self._given, "on_epoch_end"):
                self._given.on_epoch_end()

    @property
    def _subject(self) -> str:
        return f"{type(self._model).__name__}.{self._method}"

    def _setter(self) -> Any:
        setter = getattr(self._given, "set_epoch", None)
        return setter or getattr(getattr(self._given, "sampler", None), "set_epoch", None)

    def _of_epoch(self, number: int) -> Iterator[Any]:
        if (setter := self._setter()) is not None:
            setter(number)
        if self._whole:
            yield from self._begun()
            return
        assert self.steps is not None
        wanted = self.steps
        while wanted:
            begins = self._current is None
            if self._current is None:
                self._current = self._begun()
            before = wanted
            for batch in islice(self._current, wanted):
                wanted -= 1
                yield batch
            if wanted:
                self._current = None
                # An exhausted iterator yields nothing more; nor does an iterable without any batch.
                if self._once or (begins and wanted == before):
                    self.ended = True
                    return

    def _begun(self) -> Iterator[Any]:
        if not hasattr(self._given, "__iter__"):
            return (self._given[index] for index in range(len(self._given)))
        return iter(self._given)

    def _checked(self, batch: Any) -> Data:
        place = f"{self._path}[{self._read}]"
        self._read += 1
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            found = with_article(type(batch).__name__) + (f" of {len(batch)}" if isinstance(batch, tuple | list) else "")
            expected = "(x, y) or (x, y, sample_weight)"
            raise DescError(self._subject, [Problem("data.form", place, found, expected, (f"the batch is {brief(batch)}",))])
        reader = DataReader(self._model, self._method)
        data = reader.read(*batch, prefix=f"{place}.")
        reader.whole_batch(data, f"{place}.x")
        reader.raise_problems()
        assert data is not None
        return data
