"""The axioms of the PTX memory model as relations between events, and executions by trying everything: slow, and as plain as the paper.

It is there to judge the search of executions.py, with which it shares the events, program order, moral strength and the ends
of release and acquire patterns, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from tests.memory_model.executions import Execution
from tests.memory_model.programs import Fence, Graph, Program, bits

Relation = frozenset[tuple[int, int]]


def compose(first: Relation, second: Relation) -> Relation:
    return frozenset((a, d) for a, b in first for c, d in second if b == c)


def transitive(relation: Relation) -> Relation:
    while not (more := compose(relation, relation)) <= relation:
        relation |= more
    return relation


def acyclic(relation: Relation) -> bool:
    return all(first != second for first, second in transitive(relation))


def all_executions(program: Program) -> Iterator[Execution]:
    """All consistent executions: each source of each read, each order of fences and of writes, judged when all is chosen."""
    graph = Graph(program)
    reads = [(read, place) for read in graph.reads for place in graph.events[read].places]
    fences = [event for event, node in enumerate(graph.events) if isinstance(node.instruction, Fence) and node.instruction.order == "sc"]
    strong_pairs = [pair for pair in combinations(graph.writes, 2) if graph.overlap(*pair) and graph.morally_strong(*pair)]
    sources = [[write for write in bits(graph.writes_of[place]) if ends(graph, read, write)] for read, place in reads]
    fence_orders = [(pair, pair[::-1]) for pair in combinations(fences, 2) if graph.morally_strong(*pair)]
    write_orders = [(pair, pair[::-1]) for pair in strong_pairs]
    for chosen in product(*sources):
        for fence_order in product(*fence_orders):
            for write_order in product(*write_orders):
                taken = dict(zip(reads, chosen, strict=True))
                found = judge(graph, taken, frozenset(fence_order), frozenset(write_order))
                if found:
                    yield found


def ends(graph: Graph, read: int, write: int) -> bool:
    until = graph.load(read).until
    return until is None or until(graph.value(write))


def judge(graph: Graph, sources: dict[tuple[int, str], int], fence_sc: Relation, write_order: Relation) -> Execution | None:
    """The execution, if it is consistent. Names and formulas are the paper's."""
    every = range(len(graph.events))
    po_and_barriers: Relation = frozenset((first, second) for first in every for second in bits(graph.base.after[first]))
    overlapping: Relation = frozenset(
        (first, second) for first in every for second in every if first != second and graph.overlap(first, second)
    )
    morally_strong: Relation = frozenset(
        (first, second) for first in every for second in every if first != second and graph.morally_strong(first, second)
    )
    po_loc: Relation = frozenset(pair for pair in overlapping if graph.in_program_order(*pair))
    rf: Relation = frozenset((write, read) for (read, _), write in sources.items())
    obs = rf & morally_strong
    heads: Relation = frozenset((head, write) for write in graph.writes for head in graph.release_heads(write))
    tails: Relation = frozenset((read, tail) for read in graph.reads for tail in graph.acquire_tails(read))
    sync = compose(compose(heads, obs), tails) & morally_strong
    base = transitive(po_and_barriers | sync | fence_sc)
    cause = base | compose(obs, base)

    of_writes: Relation = frozenset((first, second) for first, second in overlapping if {first, second} <= {*graph.writes})
    initial = frozenset((first, second) for first, second in of_writes if graph.initial >> first & 1)
    co = transitive(write_order | initial | (cause & of_writes))
    fr: Relation = frozenset(
        (read, later)
        for (read, place), write in sources.items()
        for earlier, later in co
        if earlier == write and graph.writes_of[place] >> later & 1
    )
    needs: Relation = frozenset((first, second) for first in every for second in bits(graph.needs().after[first]))
    torn = any(
        (sources[read, one], read) in morally_strong and (sources[read, other], sources[read, one]) in co
        for read in graph.reads
        for one, other in product(graph.events[read].places, repeat=2)
    )
    consistent = (
        acyclic(co)  # Coherence
        and not any((second, first) in base for first, second in fence_sc)  # Fence-SC
        and not torn  # Atomicity
        and acyclic(rf | needs)  # No-Thin-Air
        and acyclic(morally_strong & (rf | co | fr) | po_loc)  # SC-per-Location
        and all(first != second for first, second in compose(rf | fr, cause & overlapping))  # Causality
    )
    if not consistent:
        return None
    races = [
        (first, second)
        for first, second in overlapping - morally_strong - cause
        if first < second and (second, first) not in cause and not {first, second}.isdisjoint(graph.writes)
    ]
    return Execution(
        {graph.events[read].name: tuple(graph.value(sources[read, place]) for place in graph.events[read].places) for read in graph.reads},
        {
            place: frozenset(graph.value(write) for write in bits(writes) if not any((write, later) in co for later in bits(writes)))
            for place, writes in graph.writes_of.items()
        },
        frozenset((graph.events[first].name, graph.events[second].name) for first, second in races),
        any(set(graph.events[first].places) != set(graph.events[second].places) for first, second in races),
    )
