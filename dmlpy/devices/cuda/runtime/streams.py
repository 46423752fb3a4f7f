"""The identity of stream handles, and streams that wait for each other."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, Protocol

from dmlpy.devices.cuda.runtime.cupy_errors import device_error

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

LEGACY_STREAMS = (0, 1)
"""Handles of the default stream that synchronizes with all others; it cannot be captured."""
PER_THREAD_STREAM = 2
"""The handle of the calling thread's own default stream."""
_threads, _numbers = threading.local(), itertools.count(-1, -1)
_INVALID_HANDLE = 400
"""cudaError_t: an event is recorded in the stream of another GPU."""


def arena(stream: int) -> int:
    """The handle by which CuPy's memory pool finds the memory of a stream; the pool treats 0 and 1 as two streams."""
    return 0 if stream == LEGACY_STREAMS[1] else stream


def identity(stream: int) -> int:
    """A unique number of a stream; for the handle of per-thread default streams that of the calling thread's."""
    if stream != PER_THREAD_STREAM:
        return arena(stream)
    if not hasattr(_threads, "number"):
        _threads.number = next(_numbers)  # the system reuses thread ids
    return int(_threads.number)


class Events(Protocol):
    """The part of a runtime that `Wait` uses."""

    def use(self, device: int) -> AbstractContextManager[None]: ...
    def is_capturing(self, stream: int) -> bool: ...
    def synchronize(self, stream: int) -> None: ...
    def record(self, device: int, stream: int) -> Any:
        """Records an event after all work that is now on the stream."""

    def wait_event(self, stream: int, event: Any) -> None:
        """Makes the stream wait for the event."""


class Wait:
    """Makes streams wait for the work that is on the stream `producer` when this is made: see `CudaRuntime.wait_for`.

    For the legacy default stream it is the work that is there when the first stream waits: an event in it would invalidate captures of
    streams that it synchronizes with, also where nothing ever waits for it.
    """

    def __init__(self, runtime: Events, device: int, producer: int) -> None:
        self._runtime, self._device, self._handle, self._producer = runtime, device, producer, identity(producer)
        self._is_legacy, self._is_captured, self._event = producer in LEGACY_STREAMS, False, None
        if self._is_legacy:
            return
        with runtime.use(device):
            self._is_captured = runtime.is_capturing(producer)
            try:
                self._event = runtime.record(device, producer)
            except Exception as error:
                if getattr(error, "status", None) != _INVALID_HANDLE:
                    raise
                # Another GPU's stream fills memory that all GPUs can use. The host can wait for it with any current device, but for a
                # capture no wait is possible.
                if not self._is_captured:
                    runtime.synchronize(producer)

    def __call__(self, stream: int) -> bool:
        if identity(stream) == self._producer:
            return True
        if self._event is None and not self._is_legacy:
            return not self._is_captured
        with self._runtime.use(self._device):
            if self._runtime.is_capturing(stream) != self._is_captured:
                return False
            if self._event is None:
                try:
                    self._event = self._runtime.record(self._device, self._handle)
                except Exception as error:
                    raise device_error("wait_for", error) from error
            self._runtime.wait_event(stream, self._event)
        return True
