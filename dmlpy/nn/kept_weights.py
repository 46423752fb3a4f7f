"""`KeptWeights`: whether weights are those that were packed last.

Weights are usually those of the call before, but a caller may change them in place, and no library counts all changes. They are compared
with a copy, bit by bit, which takes a fraction of the time of packing them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_WORD = np.dtype(np.int64).itemsize
_MOST_HELD_BYTES = 1 << 20
"""The largest array that is compared while no other thread of Python runs, which takes half of the time."""
_LONGEST_PAUSE = 64
"""The calls with other weights of which one is remembered, at most. It is one of each where the weights stay the same after a change."""

Native = Any
"""An array of NumPy, or of CuPy for a GPU."""


class _Copy:
    """A copy of an array, to compare others with."""

    def __init__(self, array: Native) -> None:
        self.nbytes = int(array.nbytes)
        self._memory = bytearray(self.nbytes)
        self._array = np.ndarray(array.shape, array.dtype, self._memory)
        self._array[...] = array
        self._is_words = self.nbytes > _MOST_HELD_BYTES and self.nbytes % _WORD == 0

    def has_bits_of(self, array: Native) -> bool:
        """Whether an array of NumPy has the same sizes, type and bits."""
        kept = self._array
        if array.shape != kept.shape or array.dtype != kept.dtype:
            return False
        if not array.flags.c_contiguous:
            bits = f"i{kept.itemsize}"
            return not np.count_nonzero(array.view(bits) != kept.view(bits))  # half of the time of `all`
        if self._is_words:
            return not np.count_nonzero(array.reshape(-1).view(np.int64) != kept.reshape(-1).view(np.int64))
        return bool(self._memory == array.reshape(-1).view(np.uint8))  # of memory with memory, without an array of its results


class _Weights(NamedTuple):
    """Copies of the arrays that weights were packed from.

    Attributes:
        form: what else they were packed by, such as the order of their gates.
        copies: the arrays.
        bytes: the size of the copies.
    """

    form: Hashable
    copies: list[_Copy]
    bytes: int

    def are(self, form: Hashable, sources: Sequence[Native]) -> bool:
        """Whether these arrays have the same bits."""
        return form == self.form and len(sources) == len(self.copies) and all(map(_Copy.has_bits_of, self.copies, sources))


class KeptWeights:
    """The weights that are packed in a memory, if they are known. A call that packs others calls `note` before and `settle` after."""

    def __init__(self) -> None:
        self._weights: _Weights | None = None
        self._new: _Weights | None = None
        """The weights that the next run packs, if they are remembered."""
        self._pause = self._left = 0
        """The changes of weights of which one is remembered, and how many of them are left."""

    @property
    def bytes(self) -> int:
        """The size of the copies."""
        return 0 if self._weights is None else self._weights.bytes

    def are(self, form: Hashable, sources: Sequence[Native]) -> bool:
        """Whether the weights of these arrays are packed; if not, it is not known any more what is.

        Args:
            form: what else they are packed by.
            sources: all arrays that they depend on.
        """
        self._new = None
        if self._weights is not None and self._weights.are(form, sources):
            self._pause = self._left = 0
            return True
        self._weights = None
        return False

    def note(self, form: Hashable, sources: Sequence[Native]) -> None:
        """Remembers what is packed next, unless the weights have changed in each call of late: the next ones will probably do so, too."""
        self._left -= 1
        if self._left < 0:
            self._pause = min(2 * self._pause + 1, _LONGEST_PAUSE)
            self._left = self._pause - 1
            copies = [_Copy(source) for source in sources]
            self._new = _Weights(form, copies, sum(copy.nbytes for copy in copies))

    def settle(self) -> None:
        """Records that the noted weights are packed."""
        self._weights, self._new = self._new, None
