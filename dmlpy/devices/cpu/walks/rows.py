"""Which samples take which step where sequences end early or steps are masked: the first rows are of those that take most steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Array = np.ndarray[Any, np.dtype[Any]]

_INDEX = np.dtype(np.int64)
_TENSORS = ("sequence_lengths_tensor", "step_mask_tensor")

REPEATS, BLANK = 1, 2
"""What the output of a sample that skips a step shows: the output before, or zeros. 0 marks samples that take the step."""


def selects(tensors: Collection[str]) -> bool:
    """Returns whether samples may skip steps, by the names of the tensors that there are."""
    return any(name in tensors for name in _TENSORS)


class ActiveRows:
    """The order of the samples, and the rows of all steps, one step after the other.

    A step has the rows up to the last one that takes it. Where sequences end early, or begin late, the same number of rows take all steps
    up to their ends, so there is no other row among them; masks with holes leave some, which are skipped one by one.

    Attributes:
        order: the sample of each row of a state, [B].
        bases: the number of rows before each step, [T + 1].
        rows: t * B + sample of each row, of which there are bases[T]; None where every sample takes all steps.
        skips: 0, REPEATS or BLANK of each step and sample, [T, B]; None without a mask.

    Args:
        steps: T.
        batch: B.
        tensors: the arrays by field; of these it reads the lengths, which may exceed T, and the step mask, if they are there.
        backward: whether the walk goes from the last step to the first.
        scratch: what `scratch` names.
    """

    def __init__(self, steps: int, batch: int, tensors: Mapping[str, Array], backward: bool, scratch: Mapping[str, Array]) -> None:
        lengths, mask = (tensors.get(name) for name in _TENSORS)
        self._batch, self._times = batch, np.arange(steps, dtype=_INDEX)[:, None]
        self._lengths, self._mask = None if lengths is None else lengths.reshape(-1), None if mask is None else mask[0, 0]
        self._walk = slice(None, None, -1 if backward else 1)
        if selects(tensors):
            self.order, self.bases = scratch["order"], scratch["bases"]
        else:
            self.order, self.bases = np.arange(batch, dtype=_INDEX), batch * np.arange(steps + 1, dtype=_INDEX)
        self.rows = scratch.get("rows")
        self.skips = scratch.get("skips")
        self._idle: Array | None = None

    @staticmethod
    def scratch(steps: int, batch: int, tensors: Collection[str]) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The arrays of a launch: name, sizes and type of each."""
        shapes: dict[str, tuple[int, ...]] = {}
        if selects(tensors):
            shapes = {"order": (batch,), "bases": (steps + 1,), "rows": (steps * batch,)}
        if "step_mask_tensor" in tensors:
            shapes["skips"] = (steps, batch)
        return [(name, sizes, _INDEX) for name, sizes in shapes.items()]

    def update(self) -> None:
        """Reads the lengths and the mask."""
        if self.rows is None:
            return
        takes = np.ones((len(self._times), self._batch), np.bool_) if self._lengths is None else self._times < self._lengths
        ended = ~takes
        if self._mask is not None:
            takes &= self._mask != 0
        self.order[...] = np.argsort(-takes.sum(0), kind="stable")
        by_row, numbers = takes[:, self.order], np.arange(1, self._batch + 1)
        counts = (by_row * numbers).max(1)
        self.bases[0] = 0
        np.cumsum(counts, out=self.bases[1:])
        within = numbers <= counts[:, None]
        found = (self._batch * self._times + self.order)[within]
        self.rows[: found.size] = found
        if self.skips is not None:
            blank = np.logical_and.accumulate(~takes[self._walk], 0)[self._walk] | ended
            self.skips[...] = np.where(takes, 0, np.where(blank, BLANK, REPEATS))
            self._idle = ~by_row[within]

    def fill_idle(self, values: Array, begin: int, value: float) -> None:
        """Sets a value for those of some rows [rows, ...] that skip their step; the first is row `begin` of all."""
        if self._idle is not None:
            values[self._idle[begin : begin + len(values)]] = value
