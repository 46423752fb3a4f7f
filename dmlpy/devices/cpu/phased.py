"""Work in phases (see `phases`): parts of it that follow each other are one launch, at whose end alone a thread waits for all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.thread_pool import team

if TYPE_CHECKING:
    from collections.abc import Sequence

PHASED = Kernel("dmlpy.devices.cpu.thread_pool_kernels:launch_of", 5)
"""What goes through the parts of a launch."""
_LEAST_PATIENCE_NS = 10_000

Call = Callable[[], object]


class Part(NamedTuple):
    """A compiled part of a launch.

    Attributes:
        function: the address of its function.
        parameters: that of the function's parameters.
        phases: how many phases it has.
        items: the items of a phase, at most.
        threads: the threads that it has work for.
        exact: whether it runs on no more threads than that: its steps are too short to be shared by others. Other parts share
            launches of more threads, which are awake by then.
        memory: what holds the parameters and what they refer to.
    """

    function: int
    parameters: int
    phases: int
    items: int
    threads: int
    exact: bool
    memory: object


Work = Call | Part


def patience_of(item_ns: int) -> int:
    """The nanoseconds that a thread waits before it does again what another has begun.

    Args:
        item_ns: what an item takes, with room for a slow machine.
    """
    return _LEAST_PATIENCE_NS + item_ns


def launches_of(work: Sequence[Work]) -> list[Call]:
    """Work in its order, in which parts that follow each other are one launch where they run on as many threads."""
    found: list[Call] = []
    waiting: list[Part] = []

    def end() -> None:
        if waiting:
            found.append(_Launch(tuple(waiting), _threads_of(waiting)))
            waiting.clear()

    for each in work:
        if not isinstance(each, Part):
            end()
            found.append(each)
        else:
            if any(part.exact and part.threads < _threads_of([*waiting, each]) for part in (*waiting, each)):
                end()
            waiting.append(each)
    end()
    return found


def _threads_of(parts: Sequence[Part]) -> int:
    return max(part.threads for part in parts)


class _Launch:
    """A launch of parts."""

    def __init__(self, parts: Sequence[Part], threads: int) -> None:
        self._parts, self._threads = parts, threads
        self._entries = np.array([(part.function, part.parameters) for part in parts], np.int64)
        self._parameters = np.array([len(parts), self._entries.ctypes.data], np.int64)
        self._phases, self._items = sum(part.phases for part in parts), max(part.items for part in parts)
        self._share, self._address = PHASED(), self._parameters.ctypes.data

    def __call__(self) -> None:
        team().run(self._share, self._address, self._threads, self._phases, self._items, self)
