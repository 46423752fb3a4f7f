"""Threads that share the work of a launch: started when first needed, asleep between launches."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.threads import Helper

if TYPE_CHECKING:
    from dmlpy.devices.plan import Launch

CACHE_LINE = 64
"""Bytes of a cache line. A flag that one thread writes and others poll has a line to itself."""
PROCESSOR = 24
"""The offset in bytes, in a thread's line, of the processor that it runs on."""
WAITED = 32
"""The offset of the nanoseconds that it has waited for others, beyond what it spins."""
PARTED = 48
"""The offset, in the first thread's line, of the number of the meeting after which the first thread goes on alone."""
_REST = 20
"""After threads had to part, launches run on one thread for so many times what the first thread waited. So waiting costs a twentieth."""
_LONGEST_REST_S = 2.0
_ITEMS = 2
"""The most numbers of a launch whose threads take items and do not meet in between."""

Share = Callable[[Any, int, int, int, int], None]
"""share(parameters, thread, threads, flags, met): a thread's part of the work, free of the interpreter's lock.

Thread 0 is the caller's. It begins alone, and the others join it when all of them are awake, or never. They meet by raising their flags,
a line each at the address `flags`, to numbers above `met`; the second number in thread 0's line tells those who wait to join whether they
may, the third with what. The fourth in each line is the thread's processor. All parts end when the work has been done, or when the first
thread goes on alone because the others keep it waiting.
"""


if sys.platform == "linux":
    _current: Callable[[], int] = ctypes.CDLL(None).sched_getcpu

    def _processors() -> set[int]:
        return os.sched_getaffinity(0)

    def _move(thread: int, processors: set[int]) -> None:
        with suppress(OSError):  # the process may have lost these processors meanwhile; the thread then stays where it is
            os.sched_setaffinity(thread, processors)

else:

    def _current() -> int:
        return -1

    def _processors() -> set[int]:
        return {0}

    def _move(thread: int, processors: set[int]) -> None:
        pass


class _Helper(Helper):
    """A worker thread of the team."""

    def __init__(self) -> None:
        super().__init__("dmlpy-cpu")
        self._avoided = -1

    def avoid(self, processor: int) -> bool:
        """Keeps this thread off a processor; returns False if no other processor is available to it."""
        if processor != self._avoided:
            others = _processors() - {processor}
            if not others:
                return False
            _move(self._thread.native_id or 0, others)
            self._avoided = processor
        return True


class Team:
    """The worker threads of a process. They serve one launch at a time; a launch that comes meanwhile runs on its calling thread alone.

    Numbers of meetings go on from launch to launch: a thread may leave the last meeting of one launch, or wake up for it, after the next
    one has begun, and tells from the number that its launch is over.
    """

    def __init__(self) -> None:
        self._helpers: list[_Helper] = []
        self._flags = [np.zeros((1, CACHE_LINE // 8), np.int64)]
        self._met = 0
        self._user: dict[str, object] = {}
        self._rest_s = 0.0
        self._rests_until = 0.0

    def run(self, share: Share, parameters: int, threads: int, meetings: int, memory: object = None) -> None:
        """Does the work and returns when all of it is done.

        Args:
            share: the function that each thread runs.
            parameters: the argument of the function.
            threads: the most threads to use.
            meetings: numbers that one launch needs.
            memory: what holds the parameters: threads that come late still read them.
        """
        has_team, me = False, object()
        try:
            try:
                if threads > 1 and not self._rests(meetings) and (has_team := self._user.setdefault("launch", me) is me):
                    self._run(share, parameters, threads, meetings, memory)
            finally:
                self._release(me)
        finally:
            self._release(me)  # again, if an interrupt came between
        if not has_team:
            share(parameters, 0, 1, 0, 0)

    def _run(self, share: Share, parameters: int, threads: int, meetings: int, memory: object) -> None:
        met = self._met
        self._met += meetings
        if len(self._flags[-1]) < threads:
            # Threads that wake up late still read the flags that they were given.
            self._flags.append(np.full((threads, CACHE_LINE // 8), met, np.int64))
        while len(self._helpers) < threads - 1:
            self._helpers.append(_Helper())
        flags, here = self._flags[-1].ctypes.data, _current()
        # On a busy machine the system may keep all threads on one processor for much longer than a launch takes.
        if not all(helper.avoid(here) for helper in self._helpers[: threads - 1]):
            threads = 1
        for thread, helper in enumerate(self._helpers[: threads - 1], 1):
            helper.begin(_help, memory, share, parameters, thread, threads, flags, met)
        share(parameters, 0, threads, flags, met)
        if threads > 1 and meetings > _ITEMS:
            self._learn(met)

    def _rests(self, meetings: int) -> bool:
        """Returns whether a launch runs on one thread because threads that meet were kept waiting a short while ago."""
        return meetings > _ITEMS and time.monotonic() < self._rests_until

    def _learn(self, met: int) -> None:
        """Lets the next launches rest if the threads of this one had to part."""
        line = self._flags[-1][0]
        if line[PARTED // 8] > met:
            self._rest_s = min(max(2 * self._rest_s, _REST * 1e-9 * float(line[WAITED // 8])), _LONGEST_REST_S)
            self._rests_until = time.monotonic() + self._rest_s
        else:
            self._rest_s = 0.0

    def _release(self, user: object) -> None:
        """Ends a launch if it still holds the threads; threads that come late, or that an interrupt left waiting, then find it over.

        They touch nothing of a launch that they have not joined, and one that they have joined ends when all of them are done.
        """
        if self._user.get("launch") is user:
            self._flags[-1][0, 1] = self._met
            del self._user["launch"]


def _help(memory: object, share: Share, *arguments: int) -> None:
    """A helper's part of a launch, which holds the memory of the parameters until it ends."""
    share(*arguments)


_team = Team()


def team() -> Team:
    """The team of this process."""
    return _team


class Call:
    """A launch on the calling thread alone: a compiled function and its parameters.

    Attributes:
        function: the function, a share of the work that is all of it.
        parameters: their address.
        memory: what holds the parameters.
    """

    def __init__(self, function: Share, parameters: int, memory: object) -> None:
        self.function, self.parameters, self.memory = function, parameters, memory

    def __call__(self, stream: int) -> None:
        self.function(self.parameters, 0, 1, 0, 0)


def launch(share: Share, parameters: int, threads: int, meetings: int, memory: object) -> Launch:
    """What does the work that `Team.run` does with these arguments, at each call."""
    if threads == 1:
        return Call(share, parameters, memory)
    return lambda stream: _team.run(share, parameters, threads, meetings, memory)


def _renew() -> None:
    global _team
    _team = Team()


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_renew)
