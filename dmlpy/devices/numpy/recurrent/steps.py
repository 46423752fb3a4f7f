"""Selects the samples that take a step and the outputs that show a state, and records what the gradient needs of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dmlpy.devices.numpy.recurrent.reserve import ReserveViews

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]


class Selection:
    """The samples that take each step of a walk: sequences end before T, and a step mask lets samples skip steps.

    Attributes:
        skipped: for each t, bool [B], whether the sample keeps its states.
        blank: for each t, bool [B], whether its output is zero: past its end, or before the first step that it takes.

    Args:
        lengths: [B], or None.
        mask: [T, B], 0 where a step is skipped, or None.
        backward: whether the walk goes from the last step to the first.
        scratch: the arrays that `scratch` names.
        steps: T.
        batch: B.
    """

    def __init__(self, lengths: Array | None, mask: Array | None, backward: bool, scratch: Arrays, steps: int, batch: int) -> None:
        self._lengths, self._mask = lengths, mask
        self._order = slice(None, None, -1 if backward else 1)
        self._times = np.arange(steps, dtype=np.uint32)[:, None]
        none = np.zeros((steps, batch), np.bool_)
        self._skipped = scratch.get("skipped", none)
        self._blank = scratch.get("blank", self._skipped)
        self._ended = scratch.get("ended", self._skipped)
        self.skipped, self.blank = list(self._skipped), list(self._blank)
        self._nobody = [0] * steps

    @staticmethod
    def scratch(steps: int, batch: int, *, lengths: bool, mask: bool) -> dict[str, tuple[int, ...]]:
        """The arrays of bools that a selection needs, by name."""
        names = (["skipped"] if lengths or mask else []) + (["blank"] if mask else []) + (["ended"] if lengths and mask else [])
        return dict.fromkeys(names, (steps, batch))

    def update(self) -> tuple[Sequence[int], Sequence[int], int]:
        """Reads the lengths and the mask.

        Returns:
            For each t how many samples skip the step, for each t how many outputs are blank, and the number of steps after which all are.
        """
        longest = len(self._times)
        if self._lengths is not None:
            np.less_equal(self._lengths, self._times, self._ended)
            longest = min(int(self._lengths.max()), longest)
        if self._mask is None:
            counts = self._nobody if self._lengths is None else _count(self._skipped)
            return counts, counts, longest
        np.equal(self._mask, 0, self._skipped)
        if self._lengths is not None:
            np.logical_or(self._skipped, self._ended, self._skipped)
        np.logical_and.accumulate(self._skipped[self._order], 0, None, self._blank[self._order])
        if self._lengths is not None:
            np.logical_or(self._blank, self._ended, self._blank)
        return _count(self._skipped), _count(self._blank), longest


def _count(mask: Array) -> list[int]:
    counts: list[int] = np.add.reduce(mask, axis=1, dtype=np.intp).tolist()
    return counts


def _flat(*arrays: Array) -> list[Array]:
    """Flattens arrays of the same sizes, which NumPy copies fastest, if all are contiguous."""
    contiguous = all(array.flags.c_contiguous for array in arrays)
    return [array.reshape(-1) if contiguous else array for array in arrays]


@dataclass(frozen=True)
class Record:
    """The record of what the gradient needs from one walk: copies of whole arrays, a few per step.

    Attributes:
        sums: the gate values that a step leaves.
        kept: the target of those at each t.
        unused: the places of gates that the walk does not compute, [T, places, H, B].
        first: (slot, state) before the walk.
        after: for each t, (slot, state) of each state after the step.
    """

    sums: Array
    kept: Sequence[Array]
    unused: Array
    first: Sequence[tuple[Array, Array]]
    after: Sequence[Sequence[tuple[Array, Array]]]

    @classmethod
    def of(cls, reserve: ReserveViews, direction: int, backward: bool, sums: Array, states: Iterable[Array]) -> Record:
        """The record of a direction. `sums` [K or less, H, B] and the `states` (h, then c) are the walk's arrays."""
        kept, unused = list(reserve.kept[direction][:, : len(sums)]), reserve.kept[direction][:, len(sums) :]
        sums, *kept = _flat(sums, *kept)
        first, after = [], []
        for slots, state in zip((reserve.hidden, reserve.memory), states, strict=False):
            assert slots is not None, "a cell state has its part in the reserve"
            source, *rows = _flat(state, *slots[direction])
            first.append((rows[-1 if backward else 0], source))
            after.append([(row, source) for row in (rows[:-1] if backward else rows[1:])])
        return cls(sums, kept, unused, first, list(zip(*after, strict=True)))

    def begin(self) -> None:
        """Keeps the states before the walk, and zeros where nothing is ever written: a reserve may be stored or compared as a whole."""
        self.unused.fill(0.0)
        for slot, state in self.first:
            slot[...] = state

    def keep_gates(self, t: int) -> None:
        """Keeps the gates' values that the step has left in the sums."""
        np.copyto(self.kept[t], self.sums)

    def keep_nothing(self, t: int) -> None:
        """Keeps zeros for a step that no sample takes."""
        self.kept[t].fill(0.0)

    def keep_states(self, t: int) -> None:
        """Keeps the states after the step."""
        for slot, state in self.after[t]:
            slot[...] = state
