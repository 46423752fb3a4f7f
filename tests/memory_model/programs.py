"""Small programs of GPU threads, as litmus tests are: instructions that access memory or order such accesses, and nothing else.

What no kernel here uses is left out: atomic read-modify-write operations, scopes beyond one GPU, clusters, and all proxies but the
generic one. A vector access of PTX is written as several accesses, which is what it is to the memory model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

StoreOrder = Literal["weak", "relaxed", "release"]
LoadOrder = Literal["weak", "relaxed", "acquire"]
Scope = Literal["cta", "gpu"]


@dataclass(frozen=True)
class Store:
    """A write.

    Attributes:
        place: the name of what is written; several names if others access parts of it.
        value: what is written, to each part.
        needs: names of the thread's earlier loads on which it depends: by its value, its address or a branch.
    """

    place: str | tuple[str, ...]
    value: int
    order: StoreOrder = "weak"
    scope: Scope = "gpu"
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Load:
    """A read.

    Attributes:
        name: by which an execution names the value; no other load of the program has it.
        place: as in `Store`.
        until: makes it a poll, which ends with a value for which this is true. The load stands for the one that ends the poll. Earlier
            ones can be left out: an execution stays consistent without them.
        expected: the value that it reads if the program is right.
    """

    name: str
    place: str | tuple[str, ...]
    order: LoadOrder = "weak"
    scope: Scope = "gpu"
    until: Callable[[int], bool] | None = None
    expected: int | None = None


@dataclass(frozen=True)
class Fence:
    order: Literal["acq_rel", "sc"]
    scope: Scope = "gpu"


@dataclass(frozen=True)
class Barrier:
    """All threads of a block, or of a warp, wait for each other: each thread's n-th barrier is the n-th one of the others.

    The chapter on the memory model lists the barrier of a block among what synchronizes, but not `__syncwarp`. That it orders the memory
    accesses of its lanes is what the CUDA C++ programming guide says, and it is taken to do so in the same way.
    """

    of: Literal["block", "warp"] = "block"


Instruction = Store | Load | Fence | Barrier


@dataclass(frozen=True)
class Thread:
    block: int
    instructions: Sequence[Instruction]
    warp: int = 0


@dataclass(frozen=True)
class Program:
    """Threads on one GPU, and what memory holds before they start: 0 where `initial` has no value."""

    threads: Sequence[Thread]
    initial: Mapping[str, int] = field(default_factory=dict)


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Closure:
    """A transitive order of events: for each event a mask of those after it, and of those before it."""

    def __init__(self, after: list[int], before: list[int]) -> None:
        self.after = after
        self.before = before

    def copy(self) -> Closure:
        return Closure(self.after[:], self.before[:])

    def add(self, first: int, second: int) -> bool:
        """Puts one event before another; false if that contradicts the order."""
        if first == second or self.after[second] >> first & 1:
            return False
        if not self.after[first] >> second & 1:
            sources, targets = self.before[first] | 1 << first, self.after[second] | 1 << second
            for event in bits(sources):
                self.after[event] |= targets
            for event in bits(targets):
                self.before[event] |= sources
        return True


@dataclass(frozen=True)
class Event:
    """A node of a program's graph: an instruction of one thread, a barrier of several, or the write of an initial value by none."""

    instruction: Instruction
    thread: int
    name: str
    places: tuple[str, ...] = ()


NO_THREAD = -1


class Graph:
    """A program's events, which are numbers here, and what they are to each other in all executions. Sets of events are bit masks.

    Attributes:
        base: program order, with barriers, and with the initial values before all else.
        threads: for each thread its events in order; a barrier is one event of several threads.
        initial: the writes of initial values.
        writes_of: for each place the writes to it.
        groups: accesses that overlap, directly or through others: the writes among them, and all.

    Raises:
        ValueError: not all threads reach a barrier, or the program is inconsistent in another way.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.events: list[Event] = []
        self.base = Closure([], [])
        self.threads: list[list[int]] = []
        self._barriers: dict[tuple[object, ...], int] = {}
        instructions = [instruction for thread in program.threads for instruction in thread.instructions]
        for place in sorted({place for instruction in instructions for place in places_of(instruction)}):
            self._new(Event(Store(place, program.initial.get(place, 0)), NO_THREAD, f"initial {place}", (place,)))
        self.initial = (1 << len(self.events)) - 1
        for number in range(len(program.threads)):
            self._add_thread(number)
        self._check()
        self.writes = self._of_type(Store)
        self.reads = self._of_type(Load)
        self.all_writes = sum(1 << write for write in self.writes)
        self.writes_of: dict[str, int] = {}
        for write in self.writes:
            for place in self.events[write].places:
                self.writes_of[place] = self.writes_of.get(place, 0) | 1 << write
        self.groups = self._groups()

    # making

    def _new(self, event: Event) -> int:
        self.events.append(event)
        self.base.after.append(0)
        self.base.before.append(0)
        return len(self.events) - 1

    def _add_thread(self, number: int) -> None:
        thread = self.program.threads[number]
        counts = {"block": 0, "warp": 0}
        events: list[int] = []
        for instruction in thread.instructions:
            if isinstance(instruction, Barrier):
                counts[instruction.of] += 1
                events.append(self._barrier(instruction, thread, counts[instruction.of]))
            else:
                name = instruction.name if isinstance(instruction, Load) else f"thread {number}, {len(events)}: {instruction}"
                events.append(self._new(Event(instruction, number, name, places_of(instruction))))
        for first, second in pairwise(events):
            if not self.base.add(first, second):
                raise ValueError(f"{self.events[first].name} and {self.events[second].name} wait for each other")
        for start in bits(self.initial if events else 0):
            self.base.add(start, events[0])
        self.threads.append(events)

    def _barrier(self, barrier: Barrier, thread: Thread, count: int) -> int:
        key = (barrier.of, thread.block, thread.warp if barrier.of == "warp" else None, count)
        if key not in self._barriers:
            self._barriers[key] = self._new(Event(barrier, NO_THREAD, f"barrier {count} of {barrier.of}, block {thread.block}"))
        return self._barriers[key]

    def _check(self) -> None:
        for (_, block, warp, _), event in self._barriers.items():
            for thread, events in zip(self.program.threads, self.threads, strict=True):
                if thread.block == block and warp in (None, thread.warp) and event not in events:
                    raise ValueError(f"not all threads reach {self.events[event].name}")
        names = [self.events[read].name for read in self._of_type(Load)]
        if len(set(names)) < len(names):
            raise ValueError("two loads have one name")

    def _of_type(self, kind: type[Store] | type[Load]) -> list[int]:
        return [number for number, event in enumerate(self.events) if isinstance(event.instruction, kind)]

    def _groups(self) -> list[tuple[int, int]]:
        groups: list[tuple[set[str], int]] = []
        for number, event in enumerate(self.events):
            if event.places:
                joined = [group for group in groups if group[0] & set(event.places)]
                groups = [group for group in groups if group not in joined]
                groups.append((set(event.places).union(*(places for places, _ in joined)), sum(mask for _, mask in joined) | 1 << number))
        return [(mask & self.all_writes, mask) for _, mask in groups]

    def needs(self) -> Closure:
        """What depends on what, by the stores."""
        order = Closure([0] * len(self.events), [0] * len(self.events))
        number_of = {self.events[read].name: read for read in self.reads}
        for write in self.writes:
            instruction = self.events[write].instruction
            for name in instruction.needs if isinstance(instruction, Store) else ():
                if not self.in_program_order(number_of[name], write):
                    raise ValueError(f"{self.events[write].name} needs {name}, which is no earlier load of its thread")
                order.add(number_of[name], write)
        return order

    # relations

    def value(self, write: int) -> int:
        instruction = self.events[write].instruction
        assert isinstance(instruction, Store)
        return instruction.value

    def load(self, read: int) -> Load:
        instruction = self.events[read].instruction
        assert isinstance(instruction, Load)
        return instruction

    def overlap(self, first: int, second: int) -> bool:
        return not set(self.events[first].places).isdisjoint(self.events[second].places)

    def in_program_order(self, first: int, second: int) -> bool:
        return self.events[first].thread == self.events[second].thread != NO_THREAD and bool(self.base.after[first] >> second & 1)

    def is_strong(self, event: int) -> bool:
        instruction = self.events[event].instruction
        return isinstance(instruction, Fence) or (isinstance(instruction, Store | Load) and instruction.order != "weak")

    def morally_strong(self, first: int, second: int) -> bool:
        """Of one thread, or both strong and each in the other's scope; if both access memory, then exactly the same."""
        a, b = self.events[first], self.events[second]
        if NO_THREAD in (a.thread, b.thread) or (a.places and b.places and set(a.places) != set(b.places)):
            return False
        if a.thread == b.thread:
            return True
        one_block = self.program.threads[a.thread].block == self.program.threads[b.thread].block
        return self.is_strong(first) and self.is_strong(second) and (one_block or scope_of(a) == scope_of(b) == "gpu")

    def release_heads(self, write: int) -> list[int]:
        """The first operations of the release patterns whose write this is."""
        return self._ends_of_patterns(write, "release", lambda other: self.in_program_order(other, write))

    def acquire_tails(self, read: int) -> list[int]:
        """The last operations of the acquire patterns whose read this is."""
        return self._ends_of_patterns(read, "acquire", lambda other: self.in_program_order(read, other))

    def _ends_of_patterns(self, access: int, order: Literal["release", "acquire"], beyond: Callable[[int], bool]) -> list[int]:
        """The access itself if it has the order, and accesses to the same place that have it, and fences, beyond it in its thread."""
        event = self.events[access]
        if event.thread == NO_THREAD or not self.is_strong(access):
            return []

        def orders(other: int) -> bool:
            instruction = self.events[other].instruction
            same = isinstance(instruction, Store | Load) and instruction.order == order and self.events[other].places == event.places
            return (same and other == access) or (beyond(other) and (same or isinstance(instruction, Fence)))

        return [other for other in self.threads[event.thread] if orders(other)]

    # one execution, in order

    def run(self) -> tuple[list[int], list[int]]:
        """An execution in which the threads take turns and each access takes effect at once: the events in order, and those at which a
        thread stays for ever.
        """
        memory = {place: self.program.initial.get(place, 0) for place in self.writes_of}
        order: list[int] = []
        left = [events[:] for events in self.threads]
        while sum(self._advance(events, left, memory, order) for events in left):
            pass
        return order, [events[0] for events in left if events]

    def _advance(self, events: list[int], left: list[list[int]], memory: dict[str, int], order: list[int]) -> bool:
        """Lets a thread run as far as it can; whether it could at all."""
        count = len(events)
        while events:
            event, instruction = self.events[events[0]], self.events[events[0]].instruction
            if isinstance(instruction, Load) and instruction.until and not all(instruction.until(memory[place]) for place in event.places):
                break
            if isinstance(instruction, Barrier) and any(events[0] in others[1:] for others in left):
                break
            if isinstance(instruction, Store):
                memory.update(dict.fromkeys(event.places, instruction.value))
            if events[0] not in order:
                order.append(events[0])
            del events[0]
        return len(events) < count

    def endless(self) -> list[str]:
        """Waits that may never end.

        One execution tells: where each polled place has one writer, and a value that ends a poll is followed only by others that do, a
        thread that gets past a wait in one order of things gets past it in every order. A poll and the writes that end it have to be
        morally strong, too: no other write is sure to be seen some day.

        Raises:
            ValueError: several threads write a place that is polled.
        """
        order, stuck = self.run()
        found = [f"{self.events[event].name} is waited at for ever" for event in stuck]
        for read in order:
            instruction = self.events[read].instruction
            if isinstance(instruction, Load) and instruction.until:
                found += [
                    f"{self.events[read].name} {what}" for place in self.events[read].places for what in self._doubts(read, place, order)
                ]
        return found

    def _doubts(self, read: int, place: str, order: list[int]) -> Iterator[str]:
        until = self.load(read).until
        assert until
        writes = [write for write in (*bits(self.initial), *order) if self.writes_of[place] >> write & 1]
        if len({self.events[write].thread for write in writes} - {NO_THREAD}) > 1:
            raise ValueError(f"{place} is polled, and several threads write it")
        ends = [until(self.value(write)) for write in writes]
        if ends != sorted(ends):
            yield "may miss what it waits for"
        if not all(self.morally_strong(read, write) or self.base.after[write] >> read & 1 for write in writes[ends.index(True) :]):
            yield "may never see what it waits for"


def places_of(instruction: Instruction) -> tuple[str, ...]:
    if isinstance(instruction, Store | Load):
        return (instruction.place,) if isinstance(instruction.place, str) else instruction.place
    return ()


def scope_of(event: Event) -> Scope | None:
    return None if isinstance(event.instruction, Barrier) else event.instruction.scope
