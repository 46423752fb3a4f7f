"""`Turn`: launches with copies between them, which a loop repeats; and `Repetition`, which a device may make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from dmlpy.devices.plan import Launch

    Array = np.ndarray[Any, np.dtype[Any]]


class ArrayCopy(NamedTuple):
    """A copy between arrays of one type and of the same sizes.

    Attributes:
        target: the array that is written.
        source: the array whose elements it is given.
    """

    target: Array
    source: Array


@dataclass(frozen=True)
class Turn:
    """One turn of a loop, in this order.

    Attributes:
        counter: the number of the turn, which is written first; None if nothing reads it.
        scanned: arrays that are each given an entry of what is scanned.
        before: copies that the first turn does not make.
        work: launches, which read and write memory that stays where it is, and copies.
        kept: arrays whose elements are kept for each turn.
        goes_on: a Boolean, whether there is another turn; None if nothing but their number ends the loop.
    """

    counter: Array | None
    scanned: Sequence[Array]
    before: Sequence[ArrayCopy]
    work: Sequence[Launch | ArrayCopy]
    kept: Sequence[Array]
    goes_on: Array | None


class Repetition(Protocol):
    """A turn in a form that is repeated without Python between the turns."""

    def __call__(self, number: int, count: int, scanned: Sequence[Array], kept: Sequence[Array], *, is_first: bool) -> int:
        """Runs turns; returns how many, until one ended the loop.

        Args:
            number: that of the next turn.
            count: how many turns, at most.
            scanned: the entries for these turns, of each array that is scanned: packed.
            kept: receives the elements of each array that is kept: packed, with room for these turns.
            is_first: whether the next turn is the first.
        """
