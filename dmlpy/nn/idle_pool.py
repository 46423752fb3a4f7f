"""`IDLE`: memory that calls keep for the next ones of the same sizes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Hashable

MOST_IDLE_BYTES = 256 << 20
"""The memory that is kept for later calls; what was used least recently goes first."""
DISPATCH_BYTES = 24 << 10
"""About what a bound dispatch takes besides tensors and scratch, as Python's objects and kernels' parameters: more than a small call's
tensors do."""


class Kept(Protocol):
    """Memory that one call at a time uses."""

    @property
    def bytes(self) -> int:
        """Its size, which changes only in a call: it is read when the memory is put back."""


class IdlePool:
    """The memory that no call uses, by what it is for; the most recently used comes last."""

    def __init__(self) -> None:
        self._lock = forks.reentrant_lock()  # a finalizer may run within `take`
        self._idle: OrderedDict[Hashable, list[tuple[Any, int]]] = OrderedDict()  # of `Kept`, and its size then
        self._bytes = 0

    def take(self, key: Hashable) -> Any:
        """Memory for a key, for exclusive use; None if none is idle."""
        with self._lock:
            if not (idle := self._idle.get(key)):
                return None
            kept, size = idle.pop()
            self._bytes -= size
            if not idle:
                del self._idle[key]
            return kept

    def put(self, key: Hashable, kept: Kept) -> None:
        """Keeps memory for later, and frees other until the limit is kept."""
        size = kept.bytes
        with self._lock:
            self._idle.setdefault(key, []).append((kept, size))
            self._idle.move_to_end(key)
            self._bytes += size
            while self._bytes > MOST_IDLE_BYTES:
                oldest, idle = next(iter(self._idle.items()))
                self._bytes -= idle.pop(0)[1]
                if not idle:
                    del self._idle[oldest]

    def clear(self) -> None:
        """Frees all of it."""
        with self._lock:
            self._idle.clear()
            self._bytes = 0

    @property
    def bytes(self) -> int:
        """The size of all of it."""
        return self._bytes


IDLE = IdlePool()
"""The pool of this process."""
