"""Joined launches: stages of several tasks as one fused launch, and consecutive launches as one batched launch.

Launches whose parameters are known to the word are relocated: compiled code writes the addresses of other memory into the parameters.

A fused launch (see `thread_pool_kernels`) has one wait for all threads, at its end. The launches of a batch store their epochs in the
synchronization state, so a worker that is late for one sees that it is over and continues with the next without returning to Python.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_int64
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.thread_pool import TaskLaunch, shared_pool
from dmlpy.devices.plan import InOrder, Joined, Launch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FUSED_LAUNCH = Kernel("dmlpy.devices.cpu.thread_pool_kernels:build_fused_launch", 5)
"""The body of a fused launch."""
BATCHED_LAUNCH = Kernel("dmlpy.devices.cpu.thread_pool_kernels:build_batched_launch", 5)
"""The body of a batched launch."""
RELOCATION = Kernel("dmlpy.devices.cpu.thread_pool_kernels:build_relocation", 3)
"""Writes addresses into the parameters of launches."""
_LEAST_STEAL_TIMEOUT_NS = 10_000

HostCall = Callable[[], object]


class Task(NamedTuple):
    """A compiled task of a fused launch.

    Attributes:
        function: the address of its function.
        parameters: the address of its parameters.
        stages: the number of stages.
        tiles: the tiles of a stage, at most.
        threads: the number of threads that it has work for.
        exact: whether it runs on no more threads: its steps are too short for more. Other tasks share
            launches with more threads, which are awake by then.
        memory: the owner of the parameters and of what they refer to.
    """

    function: int
    parameters: int
    stages: int
    tiles: int
    threads: int
    exact: bool
    memory: object


Work = HostCall | Task


def steal_timeout_of(tile_ns: int) -> int:
    """The steal timeout in nanoseconds: after it a thread recomputes a tile that another has begun.

    Args:
        tile_ns: the time of a tile, with a margin for slow machines.
    """
    return _LEAST_STEAL_TIMEOUT_NS + tile_ns


def fuse_launches(work: Sequence[Work]) -> list[HostCall]:
    """The work in order, with consecutive tasks joined to one launch if they run on the same number of threads."""
    found: list[HostCall] = []
    waiting: list[Task] = []

    def end() -> None:
        if waiting:
            found.append(_FusedLaunch(tuple(waiting), _threads_of(waiting)))
            waiting.clear()

    for each in work:
        if not isinstance(each, Task):
            end()
            found.append(each)
        else:
            if any(task.exact and task.threads < _threads_of([*waiting, each]) for task in (*waiting, each)):
                end()
            waiting.append(each)
    end()
    return found


def _threads_of(tasks: Sequence[Task]) -> int:
    return max(task.threads for task in tasks)


class _FusedLaunch:
    """A launch of tasks."""

    def __init__(self, tasks: Sequence[Task], threads: int) -> None:
        self._tasks, self._threads = tasks, threads
        self._entries = np.array([(task.function, task.parameters) for task in tasks], np.int64)
        self._parameters = np.array([len(tasks), self._entries.ctypes.data], np.int64)
        self._stages, self._tiles = sum(task.stages for task in tasks), max(task.tiles for task in tasks)
        self._body, self._address = FUSED_LAUNCH(), self._parameters.ctypes.data

    def __call__(self) -> None:
        shared_pool().run(self._body, self._address, self._threads, self._stages, self._tiles, self)


class BatchedLaunch:
    """Several task launches as one.

    Attributes:
        body: the task body.
        parameters: the address of its parameters.
        threads: the most threads to use.
    """

    def __init__(self, launches: Sequence[TaskLaunch]) -> None:
        self._launches = list(launches)
        self.threads = max(launch.threads for launch in launches)
        self._entries = np.array([entry_of(launch) for launch in launches], np.int64)
        self._parameters = np.array([len(launches), self._entries.ctypes.data], np.int64)
        self.body, self.parameters = BATCHED_LAUNCH(), self._parameters.ctypes.data

    def __call__(self, stream: int) -> None:
        if self.threads == 1:
            self.body(self.parameters, 0, 1, 0, 0)
        else:
            memory = (self._parameters, self._entries, *self._launches)
            shared_pool().run(self.body, self.parameters, self.threads, len(self._launches), memory=memory)

    def replace(self, at: int, launch: TaskLaunch) -> None:
        """Adds another launch, which uses as many threads."""
        self._launches[at], self._entries[at] = launch, entry_of(launch)


class BatchedLaunches(Joined):
    """The launches, with consecutive compiled ones joined."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._places: list[tuple[BatchedLaunch | None, int]] = []
        """For each launch its batch and the index of its first task launch there, or None and the launch itself."""
        self._tasks = [_task_launches(launch) for launch in launches]
        self._table: _RelocationTable | None = None
        self.relocatable = frozenset(at for at, own in enumerate(self._tasks) if own is not None and _are_relocatable(own))
        parts: list[tuple[Launch, int]] = []
        waiting: list[list[TaskLaunch]] = []

        def end() -> None:
            if len(waiting) == len(tasks := [task for own in waiting for task in own]) == 1:
                self._places.append((None, len(parts)))
                parts.append((tasks[0], 1))
            elif waiting:
                batch, first = BatchedLaunch(tasks), 0
                for own in waiting:
                    self._places.append((batch, first))
                    first += len(own)
                parts.append((batch, len(waiting)))
            waiting.clear()

        for launch, found in zip(launches, self._tasks, strict=True):
            if found is None:
                end()
                self._places.append((None, len(parts)))
                parts.append((launch, 1))
            else:
                waiting.append(found)
        end()
        super().__init__(parts)

    def relocate(self, addresses: Mapping[str, int]) -> None:
        if self._table is None:
            self._table = _RelocationTable([task for at in sorted(self.relocatable) for task in self._tasks[at] or ()])
        self._table.write(addresses)

    def changed(self, launches: Mapping[int, Launch]) -> Joined:
        for at, launch in launches.items():
            batch, first = self._places[at]
            if batch is None:
                self.parts[first] = launch, 1
            else:
                for place, task_launch in enumerate(_task_launches(launch) or (), first):
                    batch.replace(place, task_launch)
        return self


class _RelocationTable:
    """The words of launches' parameters that hold addresses in bound memory."""

    def __init__(self, launches: Sequence[TaskLaunch]) -> None:
        relocations = [each for launch in launches for each in launch.relocations or ()]
        self._memories = list(dict.fromkeys(each.memory for each in relocations))
        numbers = {memory: number for number, memory in enumerate(self._memories)}
        self._launches = launches  # the owners of the words
        self._words = np.array([(each.word, numbers[each.memory], each.offset) for each in relocations], np.int64)
        self._addresses = (c_int64 * len(self._memories))()  # NumPy takes longer to write a few numbers
        self._write = partial(RELOCATION(), len(relocations), self._words.ctypes.data, addressof(self._addresses))

    def write(self, addresses: Mapping[str, int]) -> None:
        """Writes the addresses for the first address of each memory."""
        if self._memories:
            self._addresses[:] = [addresses[memory] for memory in self._memories]
            self._write()


def _are_relocatable(launches: Sequence[TaskLaunch]) -> bool:
    return all(launch.relocations is not None for launch in launches)


def _task_launches(launch: Launch) -> list[TaskLaunch] | None:
    """The task launches that a launch consists of; None if it has other parts."""
    if isinstance(launch, TaskLaunch):
        return [launch]
    if not isinstance(launch, InOrder):
        return None
    found: list[TaskLaunch] = []
    for part in launch.work:
        launches = _task_launches(part)
        if launches is None:
            return None
        found += launches
    return found


def entry_of(launch: TaskLaunch | BatchedLaunch) -> tuple[int, int, int]:
    """The addresses of a launch's body and of its parameters, and the most threads that it uses."""
    function: Any = launch.body
    return function.address, launch.parameters, launch.threads
