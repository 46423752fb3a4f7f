"""Threads that share the work of a launch: started when first needed, asleep between launches."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.host.threads import Helper
from dmlpy.devices.plan import PlanPart
from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.structs import Parameters, Relocation

_CACHE_LINE = 64
EPOCH, ACTIVE_WORKERS, CURRENT_STAGE = 8, 16, 24
"""Offsets in bytes in a pool's synchronization state: of the epoch, which shows that the first thread has begun a launch, and of two fields
that `thread_pool_kernels` explains."""
TILE_STATES, TILE_STATE_SIZE = _CACHE_LINE, _CACHE_LINE
"""The offset of the tiles' states in the synchronization state, and the bytes of each: threads that write to different ones do not disturb
each other."""

TaskBody = Callable[[Any, int, int, int, int], None]
"""body(parameters, thread, threads, sync, epoch): a thread's part of the work, without the GIL.

Thread 0 is the caller's. It begins alone, and the others join it when they are awake, or never. `sync` is the address of the
synchronization state. The stages of this launch have numbers above `epoch`; an epoch above it in the synchronization state means that
waiting threads may join, or that the launch is over. See `thread_pool_kernels`.
"""


if sys.platform == "linux":
    _current_processor: Callable[[], int] = ctypes.CDLL(None).sched_getcpu

    def _processors() -> set[int]:
        return os.sched_getaffinity(0)

    def _set_processors(thread: int, processors: set[int]) -> None:
        with suppress(OSError):  # the process may have lost these processors meanwhile; the thread then stays where it is
            os.sched_setaffinity(thread, processors)

else:

    def _current_processor() -> int:
        return -1

    def _processors() -> set[int]:
        return {0}

    def _set_processors(thread: int, processors: set[int]) -> None:
        pass


class _Worker(Helper):
    """A worker thread of the pool."""

    def __init__(self) -> None:
        super().__init__("dmlpy-cpu")
        self._avoided = -1

    def avoid(self, processor: int) -> bool:
        """Excludes a processor for this thread; returns False if no other one is available to it."""
        if processor != self._avoided:
            others = _processors() - {processor}
            if not others:
                return False
            _set_processors(self._thread.native_id or 0, others)
            self._avoided = processor
        return True


class ThreadPool:
    """The worker threads of a process. They serve one launch at a time; a concurrent launch runs only on its calling thread.

    Epochs grow from launch to launch, by the stages of each: a thread may leave one launch, or wake up for it, after the next one has
    begun, and sees by the epoch that its launch is over.
    """

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._sync = _sync(0)
        self._epoch = 0
        self._user: dict[str, object] = {}

    def run(self, body: TaskBody, parameters: int, threads: int, stages: int = 1, tiles: int = 0, memory: object = None) -> None:
        """Runs a launch and returns when it is done.

        Args:
            body: the function that each thread runs.
            parameters: the argument of the function.
            threads: the most threads to use.
            stages: the number of stages of the launch.
            tiles: the tiles of a stage, at most, where threads acquire them.
            memory: the owner of the parameters: late threads still read them.
        """
        if threads == 1:
            body(ctypes.c_int64(parameters), *ALONE)
            return
        has_pool, me = False, object()
        try:
            try:
                if has_pool := self._user.setdefault("launch", me) is me:
                    self._run(body, parameters, threads, stages, tiles, memory)
            finally:
                self._release(me)
        finally:
            self._release(me)  # again, if an interrupt came between
        if not has_pool:
            body(parameters, 0, 1, 0, 0)

    def _run(self, body: TaskBody, parameters: int, threads: int, stages: int, tiles: int, memory: object) -> None:
        epoch = self._epoch
        self._epoch += stages
        if 8 * len(self._sync) < TILE_STATES + tiles * TILE_STATE_SIZE:
            self._sync = _sync(tiles)
        while len(self._workers) < threads - 1:
            self._workers.append(_Worker())
        sync, here = self._sync, _current_processor()
        # On a busy machine the system may keep all threads on one processor for much longer than a launch takes.
        if not all(worker.avoid(here) for worker in self._workers[: threads - 1]):
            threads = 1
        for thread, worker in enumerate(self._workers[: threads - 1], 1):
            worker.begin(_run_body, (memory, sync), body, parameters, thread, threads, sync.ctypes.data, epoch)
        body(parameters, 0, threads, sync.ctypes.data, epoch)

    def _release(self, user: object) -> None:
        """Ends a launch if it still holds the threads; late threads, or threads that an interrupt left waiting, then see that it is over.

        Threads touch no memory of a launch that they have not joined; a launch ends when all that have joined are done.
        """
        if self._user.get("launch") is user:
            self._sync[EPOCH // 8] = self._epoch
            del self._user["launch"]


def _sync(tiles: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A new synchronization state, which begins at a cache line's address."""
    size = TILE_STATES + tiles * TILE_STATE_SIZE
    memory = np.zeros(size + _CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + size].view(np.int64)


def _run_body(memory: object, body: TaskBody, *arguments: int) -> None:
    """A worker's part of a launch. It holds the memory of the parameters and the synchronization state until it ends, as it may be late."""
    body(*arguments)


_pool = ThreadPool()


def shared_pool() -> ThreadPool:
    """The thread pool of this process."""
    return _pool


TILES_PER_THREAD = 4
"""A thread that the system suspends, or that wakes late, leaves so many parts of its work to the others."""


def tiles_for(threads: int, per_thread: int = TILES_PER_THREAD) -> int:
    """The tiles that some threads share, a number of them for each thread."""
    return per_thread * threads if threads > 1 else 1


_AWAKE = 8
"""How many times less work is worth sharing with threads that are awake: they join within a microsecond, and wake up within some tens."""


class Threads(NamedTuple):
    """How many threads share a launch.

    Attributes:
        most: those that it has work for where they are awake, as in a batch.
        woken: those that are worth waking for it alone.
    """

    most: int = 1
    woken: int = 1

    @classmethod
    def of(cls, available: int, work: int, of_a_thread: int) -> Threads:
        """Those for some work.

        Args:
            available: the threads that there are.
            work: the work, in any unit.
            of_a_thread: the work that is worth waking another thread for.
        """
        least = max(1, of_a_thread // _AWAKE)
        return cls(_threads_for(available, work // least), _threads_for(available, work // of_a_thread))

    def tiles(self, per_thread: int = TILES_PER_THREAD) -> int:
        """The tiles that they share: see `tiles_for`."""
        return tiles_for(self.most, per_thread)

    def __str__(self) -> str:
        threads = plural(self.woken, "thread")
        return threads if self.most == self.woken else f"{threads}, {self.most} within a graph"


def _threads_for(available: int, shares: int) -> int:
    """The threads for some shares of work; symbolic ones are compared only where the outcome matters."""
    return 1 if available == 1 or shares < 2 else min(available, shares)


class WorkShares(PlanPart):
    """How threads share the units of a launch.

    Attributes:
        units: the units.
        threads: the threads, of which each has one at least.
        values: the parameters `tiles` and `units` of `structs.UnitParameters`.

    Args:
        threads: the most threads.
    """

    def __init__(self, units: int, threads: Threads) -> None:
        self.units, self.threads = units, Threads(*(max(1, min(most, units)) for most in threads))
        self.values = {"tiles": min(units, self.threads.tiles()), "units": units}

    def __str__(self) -> str:
        return str(self.threads)


ALONE: tuple[Any, ...] = tuple(map(ctypes.c_int64, (0, 1, 0, 0)))
"""The arguments of a task body behind its parameters, for a single thread. To convert integers, ctypes takes longer than small kernels."""


class TaskLaunch:
    """A launch of one task body. Consecutive ones can form one batched launch: see `launches`.

    Attributes:
        body: the task body.
        parameters: the address of its parameters.
        threads: the threads that it wakes if it is launched alone.
        most: the most threads that run it in a batch.
        memory: the owner of the parameters.
        relocations: the words of the parameters that hold addresses in bound memory; None if some are not known.
    """

    def __init__(
        self, body: TaskBody, parameters: int, threads: Threads | int, memory: object, relocations: Sequence[Relocation] | None = None
    ) -> None:
        self.body, self.parameters, self.memory, self.relocations = body, parameters, memory, relocations
        self._alone: tuple[Any, ...] = (ctypes.c_int64(parameters), *ALONE)
        self.most, self.threads = threads if isinstance(threads, Threads) else (threads, threads)

    @classmethod
    def of(cls, body: TaskBody, parameters: Parameters, threads: Threads | int, memory: object = None) -> TaskLaunch:
        """A launch with parameters that can be relocated; `memory` is what they refer to besides their own memory.

        A number of threads means as many whether they are awake or not.
        """
        return cls(body, parameters.address, threads, (parameters.memory, memory), parameters.relocations)

    def __call__(self, stream: int) -> None:
        if self.threads == 1:
            self.body(*self._alone)
        else:
            _pool.run(self.body, self.parameters, self.threads, memory=self.memory)


def _renew() -> None:
    global _pool
    _pool = ThreadPool()


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_renew)
