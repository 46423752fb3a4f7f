"""Streams, captures and events that the CPU plays. Work is done when it is enqueued, or recorded where its stream is being captured."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dmlpy.devices.cuda.emulation.memory import CpuMemory

DEFAULT_STREAMS = (0, 1, 2)
"""CUDA's handles: the legacy default stream under two numbers, and each thread's default stream."""


@dataclass
class Graph:
    """The operations issued into a stream while it was captured, and the memory that is kept alive for them."""

    thread: int
    operations: list[Callable[[], object]] = field(default_factory=list)
    retained: list[CpuMemory] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.operations)

    def __iter__(self) -> Iterator[Callable[[], object]]:
        return iter(self.operations)


class CpuStreams:
    """The part of the runtime that orders work.

    Attributes:
        counts: how often each of the runtime's functions was called, by name.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._streams = set(DEFAULT_STREAMS)
        self._new_handles = itertools.count(0x1000, 0x10)
        self._recordings: dict[int, Graph] = {}

    def new_stream(self) -> int:
        """A handle that no other stream has."""
        handle = next(self._new_handles)
        self._streams.add(handle)
        return handle

    def synchronize(self, stream: int) -> None:
        self._count_outside_capture("synchronize")
        self._check_stream(stream)

    def is_capturing(self, stream: int) -> bool:
        return stream in self._recordings

    def begin_capture(self) -> int:
        """A new stream, and what is issued into it from now on is recorded and not executed."""
        if self._captures_here():
            raise DeviceError("this thread captures already")
        stream = self.new_stream()
        self._recordings[stream] = Graph(threading.get_ident())
        return stream

    def end_capture(self, stream: int) -> Graph:
        """The graph of what was issued since `begin_capture`."""
        return self._recordings.pop(stream)

    def record_event(self, stream: int) -> Any:
        self.counts["record_event"] += 1
        event: list[float] = []
        self._issue(stream, lambda: event.append(time.perf_counter()))
        return event

    def elapsed_ms(self, start: Any, end: Any) -> float:
        self._count_outside_capture("elapsed_ms")
        if not (start and end):
            raise DeviceError("an event was not recorded")
        return 1e3 * float(end[-1] - start[-1])

    def _captures_here(self) -> bool:
        here = threading.get_ident()
        return any(recording.thread == here for recording in self._recordings.values())

    def _count_outside_capture(self, kind: str) -> None:
        self.counts[kind] += 1
        if self._recordings and self._captures_here():
            raise DeviceError(f"`{kind}` is not allowed while a stream captures")

    def _refuse_capture(self, name: str, stream: int) -> None:
        if stream in self._recordings:
            raise DeviceError(f"`{name}` waits for its stream, which is being captured")

    def _check_stream(self, stream: int) -> None:
        if stream not in self._streams:
            raise DeviceError(f"there is no stream {stream:#x}")

    def _issue(self, stream: int, operation: Callable[[], object]) -> None:
        recording = self._recordings.get(stream)
        if recording is not None:
            recording.operations.append(operation)
            return
        self._check_stream(stream)
        if stream in DEFAULT_STREAMS and self._captures_here():
            raise DeviceError("the default stream cannot be used while another stream captures")
        operation()
