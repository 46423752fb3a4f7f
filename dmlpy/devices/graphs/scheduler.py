"""Searches for an order of a graph's nodes that needs less memory at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

MOST_TASKS = 2000
"""Tasks of a graph whose order is searched, at most."""
_MOST_BEGUN = 16
"""The beam width: the most partial orders. With more tasks there are fewer: the search takes some 30 microseconds a task and
order."""
_MOST_STEPS = 800
"""The most tasks of all partial orders, if there are several."""
_MOST_COMPARED = 32
"""Tasks that could run next and are compared, at most: the lowest numbers, and those that became ready last."""


class Task(NamedTuple):
    """Work that needs memory.

    Attributes:
        after: the tasks that come before it.
        blocks: the memory that it reads or writes. A block is needed from the first task that has it to the last one.
        scratch: bytes that it needs by itself.
        in_place: for a block that it writes first those in whose memory that one may lie, if they are not needed any more.
    """

    after: frozenset[int]
    blocks: frozenset[Hashable]
    scratch: int
    in_place: Mapping[Hashable, Sequence[Hashable]]


class TaskGraph:
    """The tasks of a graph.

    Args:
        tasks: by number.
        sizes: bytes of each block.
        kept: blocks that are needed after all tasks.
    """

    def __init__(self, tasks: Mapping[int, Task], sizes: Mapping[Hashable, int], kept: Iterable[Hashable] = ()) -> None:
        self.tasks, self.sizes = tasks, sizes
        self.users: dict[Hashable, int] = dict.fromkeys(kept, 1)
        self._behind: dict[int, list[int]] = {number: [] for number in tasks}
        for number, task in tasks.items():
            for block in task.blocks:
                self.users[block] = self.users.get(block, 0) + 1
            for other in task.after:
                self._behind[other].append(number)

    def peak(self, order: Iterable[int]) -> int:
        """The most bytes that are needed at once."""
        memory = _Memory(self)
        return max((memory.run(number) for number in order), default=0)

    def order(self, given: Sequence[int]) -> tuple[int, ...]:
        """The order of several that needs the least memory; of equals the given one."""
        least = max((self._alone(task) for task in self.tasks.values()), default=0)
        if len(given) > MOST_TASKS or self.peak(given) == least:
            return tuple(given)
        width = max(1, min(_MOST_BEGUN, _MOST_STEPS // len(given)))
        orders = [tuple(given), self._beam(width), *(self._depth_first(given, light_first=first) for first in (False, True))]
        return min(orders, key=self.peak)

    def _alone(self, task: Task) -> int:
        """A cheap lower bound of the bytes that a task needs in any order: blocks that may share memory count once."""
        merged = sum(max((self.sizes[other] for other in others), default=0) for others in task.in_place.values())
        return sum(self.sizes[block] for block in task.blocks) + task.scratch - merged

    def _beam(self, width: int) -> tuple[int, ...]:
        """A beam search: of all orders extended by one task those survive that needed the least, and then need the least."""
        numbers = {number: 1 << at for at, number in enumerate(self.tasks)}
        waits = {number: sum(numbers[other] for other in task.after) for number, task in self.tasks.items()}
        first = sorted(number for number, mask in waits.items() if not mask)
        begun: list[tuple[int, int, _Memory, tuple[int, ...], list[int]]] = [(0, 0, _Memory(self), (), first)]
        for _ in numbers:
            options: dict[int, tuple[int, int, int, int]] = {}
            for at, (peak, done, memory, _, ready) in enumerate(begun):
                compared = ready if len(ready) <= _MOST_COMPARED else ready[: _MOST_COMPARED // 2] + ready[-_MOST_COMPARED // 2 :]
                for number in compared:
                    after, during = memory.forecast(number)
                    option = max(peak, during), after, at, number
                    mask = done | numbers[number]
                    if mask not in options or option < options[mask]:
                        options[mask] = option
            kept = sorted((option, mask) for mask, option in options.items())[:width]
            following = list[tuple[int, int, _Memory, tuple[int, ...], list[int]]]()
            for (peak, _, at, number), mask in kept:
                _, _, memory, order, ready = begun[at]
                memory = memory.copy()
                memory.run(number)
                new = [other for other in self._behind[number] if not waits[other] & ~mask]
                following.append((peak, mask, memory, (*order, number), [other for other in ready if other != number] + new))
            begun = following
        return begun[0][3]

    def _depth_first(self, given: Sequence[int], *, light_first: bool) -> tuple[int, ...]:
        """Depth first: before each task its predecessors, those that leave the least memory in use first, or last."""
        weights = {}
        for number in given:
            task = self.tasks[number]
            weights[number] = sum(self.sizes[block] for block in task.blocks) + task.scratch
        order: dict[int, None] = {}
        for last in (number for number in given if not self._behind[number]):
            stack = [last]
            while stack:
                number = stack[-1]
                waiting = [other for other in self.tasks[number].after if other not in order]
                if waiting:
                    waiting.sort(key=lambda other: (weights[other] if light_first else -weights[other], other), reverse=True)
                    stack += waiting
                else:
                    order[stack.pop()] = None
        return tuple(order)


class _Memory:
    """The memory that is needed while tasks run."""

    def __init__(self, work: TaskGraph) -> None:
        self._tasks, self._sizes = work.tasks, work.sizes
        self._left = dict(work.users)
        self._live: set[Hashable] = set()
        self._bytes = 0

    def copy(self) -> _Memory:
        """A copy, to continue in another way."""
        other = object.__new__(_Memory)
        other._tasks, other._sizes = self._tasks, self._sizes
        other._left, other._live, other._bytes = dict(self._left), set(self._live), self._bytes
        return other

    def forecast(self, number: int) -> tuple[int, int]:
        """The bytes that would be needed after a task, and while it runs."""
        task, left, sizes = self._tasks[number], self._left, self._sizes
        new = freed = 0
        for block in task.blocks:
            size = sizes[block]
            if block not in self._live:
                new += size
            if left[block] == 1:
                freed += size
        shared = sum(sizes[block] for block in task.in_place if block not in self._live and self._replaced(task, block) is not None)
        return self._bytes + new - freed, self._bytes + new + task.scratch - shared

    def _replaced(self, task: Task, block: Hashable) -> Hashable | None:
        return next((other for other in task.in_place[block] if self._left[other] == 1), None)

    def run(self, number: int) -> int:
        """Runs a task and returns the bytes that are needed meanwhile."""
        after, during = self.forecast(number)
        task = self._tasks[number]
        for block in task.blocks:
            self._left[block] -= 1
            (self._live.add if self._left[block] else self._live.discard)(block)
        self._bytes = after
        return during
