"""`LRUCache`: compiled forms by size, bounded by their bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Hashable

NODE_BYTES = 1 << 15
"""The bytes of a compiled node without tensors: its descs, its plan and its launch."""

WAITING_BYTES = 1 << 12
"""The bytes of a node that waits to be compiled: its proto, and the values that it reads."""


class LRUCache:
    """Compiled forms by key. Beyond its bytes, evicts the least recently used. Thread-safe.

    Attributes:
        max_bytes: the most bytes; the last used entry is always kept.
        used_bytes: the bytes of all entries.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._items: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = forks.lock()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: Hashable) -> Any:
        """The entry of a key; None if there is none."""
        with self._lock:
            entry = self._items.get(key)
            if entry is None:
                return None
            self._items.move_to_end(key)
            return entry[0]

    def discard(self, key: Hashable) -> None:
        """Removes the entry of a key, if there is one."""
        with self._lock:
            self.used_bytes -= self._items.pop(key, (None, 0))[1]

    def put(self, key: Hashable, item: Any, size: int) -> None:
        """Adds an entry that holds a number of bytes."""
        with self._lock:
            self.used_bytes += size - self._items.pop(key, (None, 0))[1]
            self._items[key] = item, size
            while self.used_bytes > self.max_bytes and len(self._items) > 1:
                _, (_, freed) = self._items.popitem(last=False)
                self.used_bytes -= freed
