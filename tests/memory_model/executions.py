"""Every execution of a small program that the PTX memory model allows: the axioms, and an exhaustive search.

The rules are those of the PTX ISA's chapter "Memory Consistency Model", in the form that it has had since version 7.5, where base causality
order contains program order. What the text leaves open is taken from the formal version: Lustig, Sahasrabuddhe and Giroux, "A Formal
Analysis of the NVIDIA PTX Memory Consistency Model", ASPLOS 2019.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from tests.memory_model.programs import Closure, Fence, Graph, Program, bits

AXIOMS = ("Coherence", "Atomicity", "No-Thin-Air", "SC-per-Location", "Causality")
"""All but Fence-SC, without which no program would show more: it defines the possible orders of fences, and the search tries no others."""


Fault = Literal["value", "race"]


@dataclass(frozen=True)
class Execution:
    """What an allowed execution shows.

    Attributes:
        values: what each load read, a value for each of its places.
        last: for each place the values that may remain: those of the writes that no other one follows in coherence order.
        races: pairs of conflicting accesses that are neither morally strong nor ordered by causality.
        mixed: whether the accesses of such a pair overlap in part only: the model promises nothing for such a program.
    """

    values: Mapping[str, tuple[int, ...]]
    last: Mapping[str, frozenset[int]]
    races: frozenset[tuple[str, str]]
    mixed: bool


def executions(
    program: Program, *, fault: Fault | None = None, without: Collection[str] = (), in_order: bool = False
) -> Iterator[Execution]:
    """All executions that are consistent.

    Args:
        fault: only those in which some load reads something else than it is expected to, or in which some accesses race.
        without: axioms that are not asked for.
        in_order: leaves out those in which a read takes a value from its own future: those for which the instructions cannot be put into
            one order that keeps the program's and has each write before the reads of its value.
    """
    search = Search(program, without, in_order)
    states = [search.start()]
    while states:
        state = states.pop()
        if search.settle(state) and not (fault and search.excludes(fault, state)):
            choices = search.choices(state)
            if choices:
                states += choices
            else:
                yield search.execution(state)


Place = tuple[int, str]
"""A read, and one of its places."""


class State:
    """An execution in the making.

    Attributes:
        base: base causality order.
        dependence: what cannot be known before what.
        sources: for each place of each read a mask of the writes that its value can still come from.
        open: those places of reads whose source is not decided.
        observers: for each write a mask of the reads that observe it, which are those of its value that are morally strong with it.
        decided: for each write a mask of writes that follow it in coherence order by decision.
        fences: how many pairs of fences are ordered.
        causes: for each write a mask of what it precedes in causality order, addresses aside.
        coherence: for each write a mask of the overlapping writes known to follow it in coherence order.
    """

    def __init__(self, base: Closure, dependence: Closure, sources: dict[Place, int], decided: dict[int, int]) -> None:
        self.base = base
        self.dependence = dependence
        self.sources = sources
        self.open = [*sources]
        self.observers = dict.fromkeys(decided, 0)
        self.decided = decided
        self.fences = 0
        self.causes: dict[int, int] = {}
        self.coherence: dict[int, int] = {}

    def copy(self) -> State:
        other = State(self.base.copy(), self.dependence.copy(), self.sources.copy(), self.decided.copy())
        other.open, other.observers, other.fences = self.open[:], self.observers.copy(), self.fences
        return other


class Search:
    """Chooses for each read the write that its value comes from, and gives up what an axiom forbids.

    A choice only adds to the orders, so what is forbidden stays so.
    """

    def __init__(self, program: Program, without: Collection[str], in_order: bool) -> None:
        if unknown := {*without} - {*AXIOMS}:
            raise ValueError(f"these are not axioms: {unknown}")
        self.graph = graph = Graph(program)
        self.without = without
        self.in_order = in_order
        self.strong = {access: 0 for _, accesses in graph.groups for access in bits(accesses)}
        self.overlapping = self.strong.copy()
        self.po_loc = self.strong.copy()
        self.conflicts: list[tuple[int, int]] = []
        for _, accesses in graph.groups:
            for first, second in combinations(bits(accesses), 2):
                if graph.overlap(first, second):
                    self._relate(first, second)
        heads = {write: graph.release_heads(write) for write in graph.writes}
        self.patterns = {read: patterns for read in graph.reads if (patterns := self._patterns(read, heads))}
        self.expected = {read: value for read in graph.reads if (value := graph.load(read).expected) is not None}
        sc_fences = [e for e, event in enumerate(graph.events) if isinstance(event.instruction, Fence) and event.instruction.order == "sc"]
        self.fences = [pair for pair in combinations(sc_fences, 2) if graph.morally_strong(*pair)]

    def _relate(self, first: int, second: int) -> None:
        """What two overlapping accesses are to each other in all executions."""
        graph = self.graph
        for one, other in ((first, second), (second, first)):
            self.overlapping[one] |= 1 << other
            if graph.in_program_order(one, other):
                self.po_loc[one] |= 1 << other
        if graph.morally_strong(first, second):
            self.strong[first] |= 1 << second
            self.strong[second] |= 1 << first
        elif (1 << first | 1 << second) & graph.all_writes and not (1 << first | 1 << second) & graph.initial:
            self.conflicts.append((first, second))

    def _patterns(self, read: int, heads: Mapping[int, list[int]]) -> list[tuple[int, dict[int, list[int]]]]:
        """The ends of the acquire patterns that begin with a read; for each write of its place the heads that synchronize with that end."""
        writes = [write for write in heads if self.strong[write] >> read & 1]
        return [
            (tail, {write: [head for head in heads[write] if self.graph.morally_strong(head, tail)] for write in writes})
            for tail in self.graph.acquire_tails(read)
        ]

    def start(self) -> State:
        graph = self.graph
        sources = {}
        for read in graph.reads:
            until = graph.load(read).until
            for place in graph.events[read].places:
                possible = (write for write in bits(graph.writes_of[place]) if until is None or until(graph.value(write)))
                sources[read, place] = sum(1 << write for write in possible)
        later = graph.all_writes & ~graph.initial
        decided = {write: self.overlapping[write] & later if graph.initial >> write & 1 else 0 for write in graph.writes}
        return State(graph.base.copy(), graph.base.copy() if self.in_order else graph.needs(), sources, decided)

    # choices

    def choices(self, state: State) -> list[State]:
        """The state with one choice more, made in each way; none if all are made."""
        if state.fences < len(self.fences):
            first, second = self.fences[state.fences]
            return [made for pair in ((first, second), (second, first)) if (made := self._with_fences(state, *pair))]
        if state.open:
            read = min(state.open, key=lambda place: state.sources[place].bit_count())
            return [self._with_source(state, read, write) for write in bits(state.sources[read])]
        for writes, _ in self.graph.groups:
            for first, second in combinations(bits(writes), 2):
                if self.strong[first] >> second & 1 and not (state.coherence[first] >> second | state.coherence[second] >> first) & 1:
                    return [self._with_coherence(state, *pair) for pair in ((first, second), (second, first))]
        return []

    def _with_fences(self, state: State, first: int, second: int) -> State | None:
        """The Fence-SC order of a pair, unless it contradicts causality order: the axiom Fence-SC."""
        made = state.copy()
        made.fences += 1
        return made if made.base.add(first, second) else None

    def _with_source(self, state: State, read: Place, write: int) -> State:
        made = state.copy()
        made.sources[read] = 1 << write
        return made

    def _with_coherence(self, state: State, first: int, second: int) -> State:
        made = state.copy()
        made.decided[first] |= 1 << second
        return made

    # axioms

    def settle(self, state: State) -> bool:
        """Draws the conclusions from what is chosen, among them the sources that are left for a read; false if an axiom forbids it."""
        settled = False
        while not settled:
            if not self._order_writes(state) or not all(self._narrow(state, *read) for read in state.sources):
                return False
            only = [read for read in state.open if state.sources[read].bit_count() == 1]
            state.open = [read for read in state.open if state.sources[read].bit_count() > 1]
            if not all(self._take(state, read, state.sources[read, place].bit_length() - 1) for read, place in only):
                return False
            before = state.base.before[:]
            if not all(self._synchronize(state, *read) for read in state.sources if read[0] in self.patterns):
                return False
            settled = not only and before == state.base.before
        return self._keeps_atomicity(state) and all(self._keeps_order(state, *group) for group in self.graph.groups)

    def _order_writes(self, state: State) -> bool:
        """Coherence order, with the axiom Coherence; false if it contradicts itself."""
        after = state.base.after
        order = state.coherence = state.decided.copy()
        for write, observers in state.observers.items():
            causes = after[write]
            for read in bits(observers):
                causes |= after[read]
            state.causes[write] = causes
            if "Coherence" not in self.without:
                order[write] |= causes & self.overlapping[write] & self.graph.all_writes
        for writes, _ in self.graph.groups:
            members = [*bits(writes)]
            for middle in members:
                for write in members:
                    if order[write] >> middle & 1:
                        order[write] |= order[middle]
            if any(order[write] >> write & 1 for write in members):
                return False
        return True

    def _narrow(self, state: State, read: int, place: str) -> bool:
        """Takes away sources by the axioms Causality and No-Thin-Air; false if none is left."""
        forbidden = 0 if "No-Thin-Air" in self.without else state.dependence.after[read]
        sources = state.sources[read, place]
        if "Causality" not in self.without:
            forbidden |= state.base.after[read]
            known = 0
            for write in bits(self.graph.writes_of[place]):
                known |= (state.causes[write] >> read & 1) << write
            for write in bits(sources):
                if state.coherence[write] & known:
                    forbidden |= 1 << write
        state.sources[read, place] = sources & ~forbidden
        return bool(sources & ~forbidden)

    def _take(self, state: State, read: int, write: int) -> bool:
        """Adds to the orders what follows from the source of a read; false if that contradicts them."""
        if not state.dependence.add(write, read) and "No-Thin-Air" not in self.without:
            return False
        if self.strong[write] >> read & 1:
            state.observers[write] |= 1 << read
        return True

    def _synchronize(self, state: State, read: int, place: str) -> bool:
        """Puts before the end of an acquire pattern what synchronizes with it, or precedes what does, whichever source the read has; false
        if that contradicts base causality order. With the end before that the read would come before its source, which the axiom
        Causality forbids.
        """
        base = state.base
        for tail, heads in self.patterns[read]:
            common = -1
            for write in bits(state.sources[read, place]):
                by_write = 0
                for head in heads.get(write, ()):
                    by_write |= base.before[head] | 1 << head
                common &= by_write
            for event in bits(common & ~base.before[tail]):
                if not base.add(event, tail) and "Causality" not in self.without:
                    return False
        return True

    def _keeps_atomicity(self, state: State) -> bool:
        """Single-copy atomicity, the half of the axiom that does not concern read-modify-write operations."""
        if "Atomicity" in self.without:
            return True
        for read in self.graph.reads:
            places = self.graph.events[read].places
            taken = [state.sources[read, place] for place in places if (read, place) not in state.open] if len(places) > 1 else []
            for source in taken:
                if source & self.strong[read] and any(state.coherence[other.bit_length() - 1] & source for other in taken):
                    return False
        return True

    def _keeps_order(self, state: State, writes: int, accesses: int) -> bool:
        """The axiom SC-per-Location, for accesses that overlap."""
        if "SC-per-Location" in self.without:
            return True
        edges = {access: self.po_loc[access] for access in bits(accesses)}
        for write in bits(writes):
            edges[write] |= state.observers[write] | state.coherence[write] & self.strong[write]
        for read in bits(accesses & ~writes):
            for place in self.graph.events[read].places:
                source = state.sources[read, place]
                if source.bit_count() == 1:
                    edges[read] |= state.coherence[source.bit_length() - 1] & self.strong[read]
        left = accesses
        while left:
            ends = [access for access in bits(left) if not edges[access] & left]
            if not ends:
                return False
            for access in ends:
                left ^= 1 << access
        return True

    # results

    def excludes(self, fault: Fault, state: State) -> bool:
        """Whether no execution that comes of this one has the fault: sources are decided for good, and order only grows."""
        if fault == "race":
            return not self._races(state)
        return all(
            state.sources[read, place].bit_count() == 1 and self.graph.value(state.sources[read, place].bit_length() - 1) == value
            for read, value in self.expected.items()
            for place in self.graph.events[read].places
        )

    def _races(self, state: State) -> list[tuple[int, int]]:
        def causes(first: int, second: int) -> bool:
            return bool(state.causes.get(first, state.base.after[first]) >> second & 1)

        return [(first, second) for first, second in self.conflicts if not causes(first, second) and not causes(second, first)]

    def execution(self, state: State) -> Execution:
        graph, events = self.graph, self.graph.events
        values = {
            events[read].name: tuple(graph.value(state.sources[read, place].bit_length() - 1) for place in events[read].places)
            for read in graph.reads
        }
        last = {
            place: frozenset(graph.value(write) for write in bits(writes) if not state.coherence[write] & writes)
            for place, writes in graph.writes_of.items()
        }

        races = self._races(state)
        return Execution(
            values,
            last,
            frozenset((events[first].name, events[second].name) for first, second in races),
            any(set(events[first].places) != set(events[second].places) for first, second in races),
        )
