"""Stream capture as CUDA and CuPy do it, for the CuPy of `fake_cupy`.

It follows the text of cuda.h (13.0) and the sources of CuPy 14.2:

- A capture has the mode that `begin_capture` is given, by default the relaxed one, in which its thread may do what CUDA calls potentially
  unsafe: so CuPy's pool may grow.
- What is potentially unsafe fails in a thread of the default mode while another thread captures in the global mode, and, but for threads in
  the relaxed mode, while the thread itself captures in another mode than the relaxed one. It invalidates those captures. CUDA names
  cudaMalloc and cudaEventQuery; here whatever allocates, loads or waits is potentially unsafe.
- `Event.done` is False where cudaEventQuery fails: CuPy does not look at the status.
- Into the stream of an invalidated capture nothing can be issued, `streamIsCapturing` raises CuPy's RuntimeError, and `end_capture` fails.
- Waiting for a stream that is being captured, or for an event that was recorded in one, fails and invalidates the capture.
- A stream that is made to wait for an event of a capture takes part in it from then on, until it ends. A captured stream that is made to
  wait for another event fails, and its capture is invalidated.
- The legacy stream can neither be used nor asked whether it captures while a stream captures that it would wait for, which are those that
  were not created as non-blocking. CuPy refuses to capture the legacy stream itself.
- A graph holds user objects. Their destructors are called when it is destroyed and its last launch is done.
- A stream-ordered allocator adds a node to a capture for each allocation and for its end.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_ISOLATION = 900, 901, 905
CAPTURE_IMPLICIT, CAPTURED_EVENT, CAPTURE_WRONG_THREAD = 906, 907, 908
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
LEGACY, PER_THREAD = (0, 1), 2


class CUDARuntimeError(RuntimeError):
    """As CuPy's: the code, and the name in the text."""

    def __init__(self, status: int, name: str) -> None:
        super().__init__(name)
        self.status = status


class Capture:
    """A capture, and later the graph that it made.

    Attributes:
        number: no other capture has it.
        mode: `GLOBAL`, `THREAD_LOCAL` or `RELAXED`.
        thread: the one that began it.
        is_blocking: whether the legacy stream would wait for its stream.
        is_valid: False once something was done that it does not allow.
        work: its nodes.
        launched: the streams that its graph was launched into.
        is_destroyed: whether its graph is.
    """

    _numbers = itertools.count(1)

    def __init__(self, mode: int, is_blocking: bool) -> None:
        self.number, self.mode, self.thread, self.is_blocking = next(self._numbers), mode, threading.get_ident(), is_blocking
        self.is_valid, self.is_destroyed = True, False
        self.work: list[Callable[[], object]] = []
        self.launched: set[int] = set()


class Captures:
    """The captures of all threads.

    Attributes:
        recordings: those that are under way, by their streams.
        local: each thread's own: `mode`, the device, the context.
    """

    def __init__(self) -> None:
        self.recordings: dict[int, Capture] = {}
        self.local = threading.local()

    def not_capturing(self, stream: int) -> None:
        if stream in self.recordings:
            self.recordings[stream].is_valid = False
            raise CUDARuntimeError(CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported")

    def query(self) -> int:
        """The status of a call that is potentially unsafe: it invalidates the captures that forbid it to this thread."""
        mode, here = getattr(self.local, "mode", GLOBAL), threading.get_ident()
        forbidding = [
            capture
            for capture in self.recordings.values()
            if (capture.mode != RELAXED if capture.thread == here else capture.mode == mode == GLOBAL) and mode != RELAXED
        ]
        for capture in forbidding:
            capture.is_valid = False
        return CAPTURE_UNSUPPORTED if forbidding else 0

    def unsafe(self, name: str) -> None:
        """What a potentially unsafe call does first."""
        if self.query():
            raise CUDARuntimeError(CAPTURE_UNSUPPORTED, f"cudaErrorStreamCaptureUnsupported: {name}")

    def legacy_use(self, stream: int) -> None:
        """What a use of the legacy stream does first."""
        waited_for = [capture for capture in self.recordings.values() if capture.is_blocking] if stream in LEGACY else []
        for capture in waited_for:
            capture.is_valid = False
        if waited_for:
            raise CUDARuntimeError(CAPTURE_IMPLICIT, "cudaErrorStreamCaptureImplicit")

    def begin_capture(self, stream: int, mode: int, *, is_blocking: bool) -> None:
        """Records what is issued into a stream from now on."""
        if stream in LEGACY:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        self.recordings[stream] = Capture(mode, is_blocking)

    def join(self, stream: int, other: Capture | None) -> bool:
        """What a wait for an event that was recorded in another capture, or in none, does first.

        Returns whether the stream is outside of captures, so that it waits when it comes to the event.
        """
        self.legacy_use(stream)
        own = self.recordings.get(stream)
        if own is not None and not own.is_valid:
            raise CUDARuntimeError(CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated")
        if own is not None and own is not other:
            own.is_valid = False
            raise CUDARuntimeError(CAPTURE_ISOLATION, "cudaErrorStreamCaptureIsolation")
        if other is None:
            return True
        if other not in self.recordings.values():
            raise CUDARuntimeError(CAPTURED_EVENT, "cudaErrorCapturedEvent")
        self.recordings[stream] = other
        return False

    def end_capture(self, stream: int) -> Capture:
        """The graph of what was recorded."""
        capture = self.recordings.pop(stream)
        for joined in [joined for joined, other in self.recordings.items() if other is capture]:
            del self.recordings[joined]
        if capture.mode != RELAXED and capture.thread != threading.get_ident():
            raise CUDARuntimeError(CAPTURE_WRONG_THREAD, "cudaErrorStreamCaptureWrongThread")
        if not capture.is_valid:
            capture.is_destroyed = True
            raise CUDARuntimeError(CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated")
        return capture
