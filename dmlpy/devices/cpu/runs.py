"""Runs of compiled launches as one call: their threads go from one to the next without returning to Python.

The launches keep their numbers on the team's board, so a helper that comes late to one finds it over and goes on to the next.
"""

from __future__ import annotations

from ctypes import c_void_p, cast
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.thread_pool import Call, team
from dmlpy.devices.plan import InOrder, Joined, Launch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUN = Kernel("dmlpy.devices.cpu.run_kernels:run_of", 5)
"""What goes through launches one after the other."""


class Run:
    """Calls as one call."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = list(calls)
        self._threads = max(call.threads for call in calls)
        self._entries = np.array([_entry(call) for call in calls], np.int64)
        self._parameters = np.array([len(calls), self._entries.ctypes.data], np.int64)
        self._share, self._address = RUN(), self._parameters.ctypes.data

    def __call__(self, stream: int) -> None:
        if self._threads == 1:
            self._share(self._address, 0, 1, 0, 0)
        else:
            team().run(self._share, self._address, self._threads, len(self._calls), memory=(self._parameters, self._entries, *self._calls))

    def replace(self, at: int, call: Call) -> None:
        """Makes another call one of these; it uses as many threads."""
        self._calls[at], self._entries[at] = call, _entry(call)


class JoinedRuns(Joined):
    """Launches, of which those that follow each other and are calls are one."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._places: list[tuple[Run | None, int]] = []
        """For each launch the run that it belongs to and its first call there, or no run and its part."""
        parts: list[tuple[Launch, int]] = []
        waiting: list[list[Call]] = []

        def end() -> None:
            if waiting:
                run, first = Run([call for own in waiting for call in own]), 0
                for own in waiting:
                    self._places.append((run, first))
                    first += len(own)
                parts.append((run, len(waiting)))
                waiting.clear()

        for launch in launches:
            found = _calls(launch)
            if found is None:
                end()
                self._places.append((None, len(parts)))
                parts.append((launch, 1))
            else:
                waiting.append(found)
        end()
        super().__init__(parts)

    def changed(self, launches: Mapping[int, Launch]) -> Joined:
        for at, launch in launches.items():
            run, first = self._places[at]
            if run is None:
                self.parts[first] = launch, 1
            else:
                for number, call in enumerate(_calls(launch) or (), first):
                    run.replace(number, call)
        return self


def _calls(launch: Launch) -> list[Call] | None:
    """The calls that a launch consists of, None if it has other parts."""
    if isinstance(launch, Call):
        return [launch]
    if not isinstance(launch, InOrder):
        return None
    found: list[Call] = []
    for part in launch.work:
        calls = _calls(part)
        if calls is None:
            return None
        found += calls
    return found


def _entry(call: Call) -> tuple[int, int, int]:
    function: Any = call.share
    return cast(function.func, c_void_p).value or 0, call.parameters, call.threads
