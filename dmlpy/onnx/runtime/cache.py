"""`LRUCache`: what is compiled for sizes, bounded by the bytes that it holds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

NODE_BYTES = 1 << 15
"""What a compiled node holds beside tensors: its descs, its plan and its launch."""


class LRUCache:
    """What was compiled, by what it was compiled for. If it holds too many bytes, what was used longest ago goes. Threads may share it.

    Attributes:
        max_bytes: the most bytes; what was used last stays in any case.
        used_bytes: the bytes of all that is kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._items: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: Hashable) -> Any:
        """What is kept for a key; None if nothing is."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, item: Any, size: int) -> None:
        """Keeps something that holds a number of bytes."""
        with self._lock:
            self.used_bytes += size - self._items.pop(key, (None, 0))[1]
            self._items[key] = item, size
            while self.used_bytes > self.max_bytes and len(self._items) > 1:
                _, (_, freed) = self._items.popitem(last=False)
                self.used_bytes -= freed
