"""Which samples take which step where sequences end early: the longest first, so that they are the first rows of every state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = np.ndarray[Any, np.dtype[Any]]

_INDEX = np.dtype(np.int64)


class ActiveRows:
    """The order of the samples, and the rows of all steps that are taken, one step after the other.

    Attributes:
        order: the sample of each row of a state, [B].
        bases: the number of rows before each step, [T + 1].
        rows: t * B + sample of each row, of which there are bases[T]; None where every sample takes all steps.

    Args:
        steps: T.
        batch: B.
        lengths: the lengths [B], which may exceed T; None if there are none.
        scratch: what `scratch` names.
    """

    def __init__(self, steps: int, batch: int, lengths: Array | None, scratch: Mapping[str, Array]) -> None:
        self._steps, self._batch, self._lengths = steps, batch, lengths
        if lengths is None:
            self.order, self.bases = np.arange(batch, dtype=_INDEX), batch * np.arange(steps + 1, dtype=_INDEX)
        else:
            self.order, self.bases = scratch["order"], scratch["bases"]
        self.rows = None if lengths is None else scratch["rows"]

    @staticmethod
    def scratch(steps: int, batch: int, ragged: bool) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The arrays of a launch: name, sizes and type of each."""
        shapes = {"order": (batch,), "bases": (steps + 1,), "rows": (steps * batch,)} if ragged else {}
        return [(name, sizes, _INDEX) for name, sizes in shapes.items()]

    def update(self) -> None:
        """Reads the lengths."""
        if self._lengths is None:
            return
        lengths = np.minimum(self._lengths, self._steps).astype(_INDEX)
        self.order[...] = np.argsort(-lengths, kind="stable")
        taken = lengths[self.order] > np.arange(self._steps, dtype=_INDEX)[:, None]
        self.bases[0] = 0
        np.cumsum(taken.sum(1), out=self.bases[1:])
        assert self.rows is not None
        found = (self._batch * np.arange(self._steps, dtype=_INDEX)[:, None] + self.order)[taken]
        self.rows[: found.size] = found
