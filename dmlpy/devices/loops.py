"""`LoopBody`: the launches and copies of one iteration of a loop; and `LoopRunner`, the compiled loop that a device may make of it."""

from __future__ import annotations

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


class LoopBody(NamedTuple):
    """One iteration of a loop, in this order.

    Attributes:
        counter: the number of the iteration, which is written first; None if nothing reads it.
        scanned: arrays that are each given an entry of what is scanned.
        before: copies that the first iteration does not make.
        work: launches, which read and write memory that stays where it is, and copies.
        kept: arrays whose elements are kept for each iteration.
        goes_on: a Boolean, whether there is another iteration; None if nothing but their number ends the loop.
    """

    counter: Array | None
    scanned: Sequence[Array]
    before: Sequence[ArrayCopy]
    work: Sequence[Launch | ArrayCopy]
    kept: Sequence[Array]
    goes_on: Array | None


class LoopRunner(Protocol):
    """A loop that runs without Python between its iterations."""

    def __call__(self, number: int, count: int, scanned: Sequence[Array], kept: Sequence[Array], *, is_first: bool) -> int:
        """Runs iterations; returns how many, until one ended the loop.

        Args:
            number: that of the next iteration.
            count: how many iterations, at most.
            scanned: the entries for these iterations, of each array that is scanned: packed.
            kept: receives the elements of each array that is kept: packed, with room for these iterations.
            is_first: whether the next iteration is the first.
        """
