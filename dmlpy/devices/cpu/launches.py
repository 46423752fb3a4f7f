"""Joined launches: stages of several tasks as one fused launch, consecutive launches as one batched launch, iterations of a loop as one."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_int64
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from dmlpy.description.arrays import address_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Count, Flag, KernelStruct, field
from dmlpy.devices.cpu.thread_pool import ALONE, TaskLaunch, shared_pool
from dmlpy.devices.host.threads import apart_from_forks
from dmlpy.devices.loops import ArrayCopy
from dmlpy.devices.plan import InOrder, Launch, LaunchSequence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.loops import Array, LoopBody


FUSED_LAUNCH = Kernel("dmlpy.devices.cpu.launch_kernels:build_fused_launch", 5)
"""The body of a fused launch."""
BATCHED_LAUNCH = Kernel("dmlpy.devices.cpu.launch_kernels:build_batched_launch", 5)
"""The body of a batched launch."""
RELOCATION = Kernel("dmlpy.devices.cpu.launch_kernels:build_relocation", 3)
"""Writes addresses into the parameters of launches."""
_LEAST_STEAL_TIMEOUT_NS = 10_000
_WORTH_WAKING = 8
"""Launches of a batch that are worth waking threads for together: of each an eighth of the work that is worth it alone."""

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


def load_joining_kernels() -> None:
    """Loads the kernels that join launches, which graphs and loops need whatever they compute."""
    for kernel in (BATCHED_LAUNCH, RELOCATION, LOOP):
        kernel()


def steal_timeout_of(tile_ns: int) -> int:
    """The steal timeout in nanoseconds: after it a thread recomputes a tile that another has begun.

    Args:
        tile_ns: the time of a tile, with a margin for slow machines.
    """
    return _LEAST_STEAL_TIMEOUT_NS + tile_ns


def fuse_launches(work: Sequence[Work]) -> list[HostCall]:
    """The work in order, with consecutive tasks joined to one launch if they run on the same number of threads."""
    fused: list[HostCall] = []
    waiting: list[Task] = []

    def end() -> None:
        if waiting:
            fused.append(_FusedLaunch(tuple(waiting), _threads_of(waiting)))
            waiting.clear()

    for each in work:
        if not isinstance(each, Task):
            end()
            fused.append(each)
        else:
            if any(task.exact and task.threads < _threads_of([*waiting, each]) for task in (*waiting, each)):
                end()
            waiting.append(each)
    end()
    return fused


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
        threads: the threads that it wakes.
    """

    def __init__(self, launches: Sequence[TaskLaunch]) -> None:
        self._launches = list(launches)
        shared = [launch.most for launch in launches if launch.most > 1]
        # Many launches are worth waking threads for if each is worth sharing with threads that are awake.
        self.threads = max(shared) if len(shared) >= _WORTH_WAKING else max(launch.threads for launch in launches)
        self._entries = np.array([entry_of(launch) for launch in launches], np.int64)
        self._parameters = np.array([len(launches), self._entries.ctypes.data], np.int64)
        self.body, self.parameters = BATCHED_LAUNCH(), self._parameters.ctypes.data
        self._alone: tuple[Any, ...] = (c_int64(self.parameters), *ALONE)

    def __call__(self, stream: int) -> None:
        if self.threads == 1:
            self.body(*self._alone)
        else:
            memory = (self._parameters, self._entries, *self._launches)
            shared_pool().run(self.body, self.parameters, self.threads, len(self._launches), memory=memory)

    def replace(self, at: int, launch: TaskLaunch) -> None:
        """Adds another launch, which uses as many threads."""
        self._launches[at], self._entries[at] = launch, entry_of(launch)


class BatchedLaunches(LaunchSequence):
    """The launches, with consecutive compiled ones joined."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._places: list[tuple[BatchedLaunch | None, int]] = []
        """For each launch its batch and the index of its first task launch there, or None and the launch itself."""
        self._tasks = [_task_launches(launch) for launch in launches]
        self._table: _RelocationTable | None = None
        self.relocatable = frozenset(at for at, group in enumerate(self._tasks) if group is not None and _are_relocatable(group))
        parts: list[tuple[Launch, int]] = []
        waiting: list[list[TaskLaunch]] = []

        def end() -> None:
            if len(waiting) == len(tasks := [task for group in waiting for task in group]) == 1:
                self._places.append((None, len(parts)))
                parts.append((tasks[0], 1))
            elif waiting:
                batch, first = BatchedLaunch(tasks), 0
                for group in waiting:
                    self._places.append((batch, first))
                    first += len(group)
                parts.append((batch, len(waiting)))
            waiting.clear()

        for launch, tasks_of_launch in zip(launches, self._tasks, strict=True):
            if tasks_of_launch is None:
                end()
                self._places.append((None, len(parts)))
                parts.append((launch, 1))
            else:
                waiting.append(tasks_of_launch)
        end()
        super().__init__(parts)

    def relocate(self, addresses: Mapping[str, int]) -> None:
        if self._table is None:
            self._table = _RelocationTable([task for at in sorted(self.relocatable) for task in self._tasks[at] or ()])
        self._table.write(addresses)

    def replaced(self, launches: Mapping[int, Launch]) -> LaunchSequence:
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
        arguments = len(relocations), self._words.ctypes.data, addressof(self._addresses)
        self._write = partial(RELOCATION(), *map(c_int64, arguments))

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
    tasks: list[TaskLaunch] = []
    for part in launch.work:
        launches = _task_launches(part)
        if launches is None:
            return None
        tasks += launches
    return tasks


def entry_of(launch: TaskLaunch | BatchedLaunch) -> tuple[int, int, int]:
    """The addresses of a launch's body and of its parameters, and the most threads that it uses."""
    function: Any = launch.body
    return function.address, launch.parameters, launch.most if isinstance(launch, TaskLaunch) else launch.threads


LOOP = Kernel("dmlpy.devices.cpu.launch_kernels:build_loop", 1)
"""The loop over iterations."""

CALL, COPY, NUMBER = range(3)
"""The kinds of actions."""

Action: TypeAlias = tuple[int, int, int, int, int, int]
"""An action as `LoopParameters.table` has it."""

ACTION_SIZE = 6 * np.dtype(np.int64).itemsize
"""The bytes of an action."""


class LoopParameters(KernelStruct):
    """The parameters of the loop."""

    number: Count = field("the number of the next iteration")
    iterations: Count = field("how many iterations, at most")
    first_action: Count = field("the first of the actions that the first iteration leaves out")
    last_action: Count = field("the one after the last of them")
    is_first: Flag = field("whether the next iteration is the first")
    actions: Count = field("the actions of an iteration")
    table: Address = field(
        "the actions, int64 [actions, 6]: the kind; of a call the addresses of the body and of its parameters; of a number where it is "
        "written; of a copy target, source, bytes, and the bytes from the target and the source to those of the next iteration"
    )
    goes_on: Address = field("the byte that is 0 after the last iteration, if there is one")
    done: Count = field("receives how many iterations have run")


class CompiledLoop:
    """A loop of launches on one thread.

    Args:
        body: the body of the loop.
        actions: its actions but for `before`, `scanned` and `kept`.
    """

    def __init__(self, body: LoopBody, actions: Sequence[Action]) -> None:
        self._body = body  # the owner of all memory
        first: list[Action] = [] if body.counter is None else [(NUMBER, address_of(body.counter), 0, 0, 0, 0)]
        self._scanned = range(len(first), len(first) + len(body.scanned))
        first += [(COPY, address_of(array), 0, array.nbytes, 0, array.nbytes) for array in body.scanned]
        before = _copies(body.before)
        last: list[Action] = [(COPY, 0, address_of(array), array.nbytes, array.nbytes, 0) for array in body.kept]
        self._table = np.array([*first, *before, *actions, *last], np.int64).reshape(-1, 6)
        self._kept = range(len(self._table) - len(last), len(self._table))
        values = {"first_action": len(first), "last_action": len(first) + len(before), "actions": len(self._table)}
        goes_on = 0 if body.goes_on is None else address_of(body.goes_on)
        self._parameters = LoopParameters.make({**values, "table": address_of(self._table), "goes_on": goes_on})
        kernel, address = LOOP(), address_of(self._parameters)
        self._run = apart_from_forks(lambda stream: kernel(address))

    def __call__(self, number: int, count: int, scanned: Sequence[Array], kept: Sequence[Array], *, is_first: bool) -> int:
        for at, array in zip(self._scanned, scanned, strict=True):
            self._table[at, 2] = address_of(array)
        for at, array in zip(self._kept, kept, strict=True):
            self._table[at, 1] = address_of(array)
        parameters = self._parameters[0]
        parameters["number"], parameters["iterations"], parameters["is_first"] = number, count, is_first
        self._run(0)
        return int(parameters["done"])


def compiled_loop(body: LoopBody) -> CompiledLoop | None:
    """The loop in compiled code; None if a launch is not compiled or uses several threads, or an array is not packed or holds strings."""
    copies = [each for each in body.work if isinstance(each, ArrayCopy)]
    arrays = [array for copy in (*body.before, *copies) for array in copy]
    arrays += [array for array in (body.counter, body.goes_on, *body.scanned, *body.kept) if array is not None]
    # Strings are Python's objects: a copy of bytes would not count the references to them.
    if any(array.dtype.hasobject or not array.flags.c_contiguous for array in arrays):
        return None
    actions: list[Action] = []
    for each in body.work:
        if isinstance(each, ArrayCopy):
            actions += _copies([each])
        elif isinstance(each, TaskLaunch | BatchedLaunch) and each.threads == 1:
            function, parameters, _ = entry_of(each)
            actions.append((CALL, function, parameters, 0, 0, 0))
        else:
            return None
    return CompiledLoop(body, actions)


def _copies(copies: Sequence[ArrayCopy]) -> list[Action]:
    moves = [(address_of(target), address_of(source), target.nbytes) for target, source in copies]
    return [(COPY, target, source, size, 0, 0) for target, source, size in moves if target != source]
