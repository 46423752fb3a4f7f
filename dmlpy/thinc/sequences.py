"""Batches of sequences in any of Thinc's forms, copied into and out of padded buffers [steps, batch, width]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from thinc.types import Padded, Ragged

from dmlpy.description.coercion import brief
from dmlpy.messages.problems import DescError, Problem

Native = Any
_FLOAT32 = np.dtype(np.float32)
_FORMS = "a Padded, a Ragged, a list of arrays [steps, width], or an array [steps, batch, width]"


def _rounded(size: int) -> int:
    """The size of a buffer that also serves batches that are a little smaller: few sizes have to be compiled."""
    step = max(1, 1 << max(0, size.bit_length() - 3)) if size > 8 else 1
    return -(-size // step) * step


class Batch(ABC):
    """A batch of sequences, which a layer reads and returns in one form.

    Attributes:
        xp: the array library.
        lengths: the steps of each sequence.
        steps: the longest one's.
        buffer: the steps and sequences of the buffers. Steps that no sequence has, and sequences without steps, are not computed.
        is_ragged: whether the buffers have steps that some sequence lacks.
        is_empty: whether there is nothing to compute.
    """

    def __init__(self, xp: Any, lengths: list[int]) -> None:
        self.xp, self.lengths = xp, lengths
        batch, self.steps = len(lengths), max(lengths, default=0)
        is_even = batch > 0 and min(lengths) == self.steps
        self.buffer = (self.steps, batch) if batch > 1 and is_even else (_rounded(self.steps), _rounded(batch))
        self.is_ragged = not is_even or self.buffer != (self.steps, batch)
        self.is_empty = self.steps == 0

    def buffer_lengths(self) -> Native:
        """The lengths of all sequences of the buffers."""
        padded = np.zeros(self.buffer[1], np.uint32)
        padded[: len(self.lengths)] = self.lengths
        return self.xp.asarray(padded)

    @abstractmethod
    def data(self, value: Any, width: int, name: str) -> Any:
        """The arrays of a value of this form; `put` takes them.

        Args:
            value: the batch, or a gradient of its form.
            width: the entries of each step.
            name: its name in messages.

        Raises:
            DescError: another form, other lengths, another width or type, or arrays of another library.
        """

    @abstractmethod
    def put(self, data: Any, buffer: Native) -> None:
        """Copies what `data` returned into a buffer, whose other elements become zeros."""

    @abstractmethod
    def get(self, buffer: Native | None, width: int, *, takes: bool = False) -> Any:
        """A value of this form with a buffer's values.

        Args:
            buffer: the buffer; None for zeros.
            width: the entries of each step.
            takes: whether the value may be the buffer itself.
        """

    def _array(self, array: Any, shape: tuple[int | None, ...], name: str) -> Native:
        if isinstance(array, self.xp.ndarray) and array.shape == shape and array.dtype == _FLOAT32:
            return array
        if not isinstance(array, self.xp.ndarray):
            raise _error(Problem("array.kind", name, brief(array), f"an array of {self.xp.__name__}", ("the model's ops have them",)))
        if len(array.shape) != len(shape) or any(size not in (None, given) for given, size in zip(array.shape, shape, strict=True)):
            expected = "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"
            raise _error(Problem("array.shape", name, str(list(array.shape)), expected))
        if array.dtype != np.float32:
            remedy = f"convert it: {name}.astype('float32')"
            raise _error(Problem("type.support", name, str(array.dtype), "float32", remedy=remedy))
        return array


class _Flat(Batch):
    """Sequences whose steps follow each other in one array [all steps, width]."""

    def __init__(self, xp: Any, lengths: list[int]) -> None:
        super().__init__(xp, lengths)
        self._places: Native = None

    def _rows(self, buffer: Native) -> tuple[Native, Native]:
        """A buffer as rows, and the number of the row of each step of each sequence."""
        batch = buffer.shape[1]
        if self._places is None:
            lengths = np.array(self.lengths)
            ends = np.cumsum(lengths)
            within = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
            self._places = self.xp.asarray(within * batch + np.repeat(np.arange(len(lengths)), lengths))
        return buffer.reshape(-1, buffer.shape[2]), self._places

    def put(self, data: Any, buffer: Native) -> None:
        if self.is_ragged:
            buffer[...] = 0
        rows, places = self._rows(buffer)
        rows[places] = data

    def _values(self, buffer: Native | None, width: int) -> Native:
        if buffer is None:
            return self.xp.zeros((sum(self.lengths), width), np.float32)
        rows, places = self._rows(buffer)
        return rows.take(places, axis=0)


class _RaggedBatch(_Flat):
    def __init__(self, xp: Any, given: Ragged) -> None:
        super().__init__(xp, _on_host(given.lengths, "X.lengths"))
        self._lengths = given.lengths

    def data(self, value: Any, width: int, name: str) -> Any:
        if not isinstance(value, Ragged):
            raise _error(Problem("field.form", name, brief(value), "a Ragged, as X is"))
        self._check_lengths(_on_host(value.lengths, f"{name}.lengths"), len(value.data), name)
        return value.data if self.is_empty else self._array(value.data, (None, width), f"{name}.data")

    def _check_lengths(self, lengths: list[int], rows: int, name: str) -> None:
        if lengths != self.lengths:
            raise _error(Problem("array.shape", f"{name}.lengths", brief(lengths), brief(self.lengths), ("X has them",)))
        if sum(lengths) != rows:
            why = (f"the sum of {name}.lengths is {sum(lengths)}",)
            raise _error(Problem("array.shape", f"{name}.data", f"{rows} rows", f"{sum(lengths)} rows", why))

    def get(self, buffer: Native | None, width: int, *, takes: bool = False) -> Any:
        return Ragged(self._values(buffer, width), self._lengths)


class _ListBatch(_Flat):
    def __init__(self, xp: Any, given: list[Any]) -> None:
        shapes: list[tuple[int, ...]] = [getattr(array, "shape", ()) for array in given]
        counts = [shape[0] for shape in shapes if len(shape) == 2]
        if len(counts) != len(shapes):
            wrong = next(at for at, shape in enumerate(shapes) if len(shape) != 2)
            raise _error(Problem("field.form", f"X[{wrong}]", brief(given[wrong]), "an array [steps, width]"))
        super().__init__(xp, counts)

    def data(self, value: Any, width: int, name: str) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(self.lengths):
            found = f"a list of {len(value)}" if isinstance(value, list | tuple) else brief(value)
            raise _error(Problem("field.form", name, found, f"a list of {len(self.lengths)} arrays, as X is"))
        if self.is_empty:
            return None
        kind = self.xp.ndarray
        for at, (array, steps) in enumerate(zip(value, self.lengths, strict=True)):
            if not isinstance(array, kind) or array.shape != (steps, width) or array.dtype != _FLOAT32:
                self._array(array, (steps, width), f"{name}[{at}]")
        return value[0] if len(value) == 1 else self.xp.concatenate(value)

    def get(self, buffer: Native | None, width: int, *, takes: bool = False) -> Any:
        values = self._values(buffer, width)
        return [values[start:end] for start, end in pairwise(accumulate(self.lengths, initial=0))]


class _Square(Batch):
    """Sequences in one array [steps, batch, width], with zeros after their ends."""

    def __init__(self, xp: Any, lengths: list[int], shape: tuple[int, ...]) -> None:
        super().__init__(xp, lengths)
        self._shape = shape[:2]

    def put(self, data: Any, buffer: Native) -> None:
        if self.is_ragged:
            buffer[...] = 0
        buffer[: self.steps, : len(self.lengths)] = data[: self.steps]

    def _values(self, buffer: Native | None, width: int, *, takes: bool) -> Native:
        if buffer is not None and buffer.shape[:2] == self._shape:
            return buffer if takes else buffer.copy()
        values = self.xp.zeros((*self._shape, width), np.float32)
        if buffer is not None:
            values[: self.steps] = buffer[: self.steps, : len(self.lengths)]
        return values


class _ArrayBatch(_Square):
    def __init__(self, xp: Any, given: Native) -> None:
        super().__init__(xp, [given.shape[0]] * given.shape[1], given.shape)

    def data(self, value: Any, width: int, name: str) -> Any:
        return self._array(value, (*self._shape, width), name)

    def get(self, buffer: Native | None, width: int, *, takes: bool = False) -> Any:
        return self._values(buffer, width, takes=takes)


class _PaddedBatch(_Square):
    def __init__(self, xp: Any, given: Padded) -> None:
        lengths, shape = _on_host(given.lengths, "X.lengths"), given.data.shape
        if len(shape) != 3:
            raise _error(Problem("dims.support", "X.data", f"{len(shape)}-D {list(shape)}", "[steps, batch, width]"))
        if len(lengths) != shape[1] or max(lengths, default=0) > shape[0]:
            why = (f"X.data has {shape[1]} sequences of {shape[0]} steps",)
            raise _error(Problem("array.shape", "X.lengths", brief(lengths), f"{shape[1]} integers from 0 to {shape[0]}", why))
        counted = sum(_on_host(given.size_at_t, "X.size_at_t"))
        if counted != sum(lengths):
            found = f"sum {counted}"
            raise _error(Problem("array.shape", "X.size_at_t", found, f"sum {sum(lengths)}", ("X.lengths have this sum",)))
        super().__init__(xp, lengths, shape)
        self._given = given

    def data(self, value: Any, width: int, name: str) -> Any:
        if not isinstance(value, Padded):
            raise _error(Problem("field.form", name, brief(value), "a Padded, as X is"))
        lengths = self.lengths if value.lengths is self._given.lengths else _on_host(value.lengths, f"{name}.lengths")
        if lengths != self.lengths:
            raise _error(Problem("array.shape", f"{name}.lengths", brief(lengths), brief(self.lengths), ("X has them",)))
        return self._array(value.data, (*self._shape, width), f"{name}.data")

    def get(self, buffer: Native | None, width: int, *, takes: bool = False) -> Any:
        given = self._given
        return Padded(self._values(buffer, width, takes=takes), given.size_at_t, given.lengths, given.indices)


def _on_host(lengths: Any, name: str) -> list[int]:
    found = np.asarray(lengths.get() if hasattr(lengths, "get") else lengths)
    counts: list[int] = found.tolist() if found.ndim == 1 else []
    if found.ndim != 1 or (counts and (found.dtype.kind not in "iu" or min(counts) < 0)):
        raise _error(Problem("array.type", name, f"{found.dtype} {list(found.shape)}", "integers of at least 0, one for each sequence"))
    return counts


def _error(problem: Problem) -> DescError:
    return DescError("dmlpy.thinc", [problem])


def batch_of(xp: Any, value: Any) -> Batch:
    """The batch that a value is.

    Raises:
        DescError: none of the forms that there are, or lengths that do not fit the data.
    """
    if isinstance(value, Ragged):
        return _RaggedBatch(xp, value)
    if isinstance(value, Padded):
        return _PaddedBatch(xp, value)
    if isinstance(value, list):
        return _ListBatch(xp, value)
    if len(getattr(value, "shape", ())) == 3:
        return _ArrayBatch(xp, value)
    remedy = None
    if isinstance(value, tuple):
        remedy = "make it a list: list(X)"
    elif len(getattr(value, "shape", ())) == 2:
        remedy = "one sequence is a list of one array: [X]; within with_array a layer sees no sequences, so put it outside"
    raise _error(Problem("field.form", "X", brief(value), _FORMS, remedy=remedy))
