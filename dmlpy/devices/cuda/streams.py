"""Which stream a handle means, and streams that wait for each other."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

LEGACY_STREAMS = (0, 1)
"""Handles of the default stream that orders itself with all others; it cannot be captured."""
PER_THREAD_STREAM = 2
"""The handle by which each thread means a default stream of its own."""
_threads, _numbers = threading.local(), itertools.count(-1, -1)
_INVALID_HANDLE = 400
"""cudaError_t: an event is recorded in the stream of another GPU."""


def arena(stream: int) -> int:
    """The handle by which CuPy's memory pool finds the memory of a stream; the pool would take 0 and 1 for two streams."""
    return 0 if stream == LEGACY_STREAMS[1] else stream


def identity(stream: int) -> int:
    """A number that no other stream has: where one handle means a stream of each thread, that of the calling thread."""
    if stream != PER_THREAD_STREAM:
        return arena(stream)
    if not hasattr(_threads, "number"):
        _threads.number = next(_numbers)  # the system gives a thread's own number to later threads again
    return int(_threads.number)


class Events(Protocol):
    """What `Wait` asks of a seam."""

    def use(self, device: int) -> AbstractContextManager[None]: ...
    def is_capturing(self, stream: int) -> bool: ...
    def synchronize(self, stream: int) -> None: ...
    def record(self, device: int, stream: int) -> Any:
        """Records an event after all work that is now on the stream."""

    def wait_event(self, stream: int, event: Any) -> None:
        """Makes the stream wait for the event."""


class Wait:
    """Makes streams wait for the work that is on the stream `producer` when this is made: see `Seam.wait_for`."""

    def __init__(self, seam: Events, device: int, producer: int) -> None:
        self._seam, self._device, self._producer = seam, device, identity(producer)
        with seam.use(device):
            self._is_captured = seam.is_capturing(producer)
            try:
                self._event = seam.record(device, producer)
            except Exception as error:
                if getattr(error, "status", None) != _INVALID_HANDLE:
                    raise
                # Another GPU's stream fills memory that all GPUs can use. The host can wait for it whichever device is current, but for a
                # capture nobody can wait.
                if not self._is_captured:
                    seam.synchronize(producer)
                self._event = None

    def __call__(self, stream: int) -> bool:
        if identity(stream) == self._producer:
            return True
        if self._event is None:
            return not self._is_captured
        with self._seam.use(self._device):
            if self._seam.is_capturing(stream) != self._is_captured:
                return False
            self._seam.wait_event(stream, self._event)
        return True
