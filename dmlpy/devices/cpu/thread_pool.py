"""Threads that share the work of a launch: started when first needed, asleep between launches."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from dmlpy.devices.threads import Helper

_CACHE_LINE = 64
OPENED, INSIDE, LATEST = 8, 16, 24
"""Offsets in bytes on a team's board: of the number that tells helpers that the first thread has begun, and two that `phases` explains."""
BOARD_CELLS, BOARD_CELL = _CACHE_LINE, _CACHE_LINE
"""The offset of the items' cells on the board, and the bytes of each: threads that write to different ones do not disturb each other."""

Share = Callable[[Any, int, int, int, int], None]
"""share(parameters, thread, threads, board, met): a thread's part of the work, free of the interpreter's lock.

Thread 0 is the caller's. It begins alone, and the others join it when they are awake, or never. Numbers on the board that this launch
writes are above `met`; an opening number above it tells those who wait to join that they may, or that the launch is over. See `phases`
and `sharing`.
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

    Numbers go on from launch to launch: a thread may leave one launch, or wake up for it, after the next one has begun, and tells from the
    numbers on the board that its launch is over.
    """

    def __init__(self) -> None:
        self._helpers: list[_Helper] = []
        self._board = _board(0)
        self._met = 0
        self._user: dict[str, object] = {}

    def run(self, share: Share, parameters: int, threads: int, numbers: int = 1, items: int = 0, memory: object = None) -> None:
        """Does the work and returns when all of it is done.

        Args:
            share: the function that each thread runs.
            parameters: the argument of the function.
            threads: the most threads to use.
            numbers: how many numbers the launch needs: one for each of its phases.
            items: the items of a phase, at most, if it has phases.
            memory: what holds the parameters: threads that come late still read them.
        """
        has_team, me = False, object()
        try:
            try:
                if threads > 1 and (has_team := self._user.setdefault("launch", me) is me):
                    self._run(share, parameters, threads, numbers, items, memory)
            finally:
                self._release(me)
        finally:
            self._release(me)  # again, if an interrupt came between
        if not has_team:
            share(parameters, 0, 1, 0, 0)

    def _run(self, share: Share, parameters: int, threads: int, numbers: int, items: int, memory: object) -> None:
        met = self._met
        self._met += numbers
        if 8 * len(self._board) < BOARD_CELLS + items * BOARD_CELL:
            self._board = _board(items)
        while len(self._helpers) < threads - 1:
            self._helpers.append(_Helper())
        board, here = self._board, _current()
        # On a busy machine the system may keep all threads on one processor for much longer than a launch takes.
        if not all(helper.avoid(here) for helper in self._helpers[: threads - 1]):
            threads = 1
        for thread, helper in enumerate(self._helpers[: threads - 1], 1):
            helper.begin(_help, (memory, board), share, parameters, thread, threads, board.ctypes.data, met)
        share(parameters, 0, threads, board.ctypes.data, met)

    def _release(self, user: object) -> None:
        """Ends a launch if it still holds the threads; threads that come late, or that an interrupt left waiting, then find it over.

        They touch nothing of a launch that they have not joined, and one that they have joined ends when all of them are done.
        """
        if self._user.get("launch") is user:
            self._board[OPENED // 8] = self._met
            del self._user["launch"]


def _board(items: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A new board, which begins at a cache line's address."""
    size = BOARD_CELLS + items * BOARD_CELL
    memory = np.zeros(size + _CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + size].view(np.int64)


def _help(memory: object, share: Share, *arguments: int) -> None:
    """A helper's part of a launch. Until it ends it holds the memory of the parameters and the board: it may come late."""
    share(*arguments)


_team = Team()


def team() -> Team:
    """The team of this process."""
    return _team


class Call:
    """A launch of a compiled share alone. Several of them that follow each other can be one call: see `runs`.

    Attributes:
        share: the share.
        parameters: the address of its parameters.
        threads: the most threads to use.
        memory: what holds the parameters.
    """

    def __init__(self, share: Share, parameters: int, threads: int, memory: object) -> None:
        self.share, self.parameters, self.threads, self.memory = share, parameters, threads, memory

    def __call__(self, stream: int) -> None:
        if self.threads == 1:
            self.share(self.parameters, 0, 1, 0, 0)
        else:
            _team.run(self.share, self.parameters, self.threads, memory=self.memory)


def _renew() -> None:
    global _team
    _team = Team()


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_renew)
