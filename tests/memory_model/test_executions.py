"""The search for executions that the PTX memory model allows, on litmus tests whose verdicts are known, and against trying everything."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any, NamedTuple

import pytest

from tests.memory_model.axioms import all_executions
from tests.memory_model.executions import AXIOMS, Execution, executions
from tests.memory_model.programs import Barrier, Fence, Graph, Instruction, Load, Program, Store, Thread
from tests.support.tables import table

# litmus tests as text


def parse(text: str) -> Program:
    """A program of threads like `block: instruction; instruction`, separated by bars. Places joined by + are accessed at once.

    Instructions: `st.order.scope place value`, followed by the loads on which it depends; `ld.order.scope name place`, or a poll that ends
    with `until value`; `fence.acq_rel.scope`, `fence.sc.scope`, `bar`, `bar.warp`. Without order an access is weak.
    """
    threads = []
    for thread in text.split("|"):
        block, instructions = thread.split(":")
        threads.append(Thread(int(block), [instruction(words.split()) for words in instructions.split(";")]))
    return Program(threads)


def instruction(words: list[str]) -> Instruction:
    kind, *how = words[0].split(".")
    if kind == "bar":
        return Barrier("warp" if how else "block")
    if kind == "fence":
        return Fence(*how)
    place = tuple(words[1 if kind == "st" else 2].split("+"))
    if kind == "st":
        return Store(place, int(words[2]), *how, needs=tuple(words[3:]))  # type: ignore[misc]
    assert kind == "ld"
    assert words[3:4] in ([], ["until"])
    return Load(words[1], place, *how, until=int(words[4]).__eq__ if words[3:] else None)  # type: ignore[misc]


def shows(execution: Execution, outcome: str) -> bool:
    """Whether loads have these values, `r0=1`, and places these in the end, `x=1`."""
    for name, values in re.findall(r"(\w+)=([\d,]+)", outcome):
        wanted = tuple(map(int, values.split(",")))
        if execution.values[name] != wanted if name in execution.values else not {*wanted} <= execution.last[name]:
            return False
    return True


class Litmus(NamedTuple):
    """A program and an outcome.

    Attributes:
        forbidden_by: the axioms that forbid it, each alone; none if it is allowed.
    """

    name: str
    program: str
    outcome: str
    forbidden_by: tuple[str, ...] = ()


CAUSALITY = ("Causality",)
COHERENT_READS = ("Causality", "SC-per-Location")
STALE = "r0=1 r1=0"

LITMUS = [
    # Message passing. The PTX ISA has the one with fences.
    Litmus("MP, weak", "0: st x 1; st y 1 | 1: ld r0 y; ld r1 x", STALE),
    Litmus("MP, relaxed", "0: st x 1; st.relaxed.gpu y 1 | 1: ld.relaxed.gpu r0 y; ld r1 x", STALE),
    Litmus("MP, release alone", "0: st x 1; st.release.gpu y 1 | 1: ld.relaxed.gpu r0 y; ld r1 x", STALE),
    Litmus("MP, acquire alone", "0: st x 1; st.relaxed.gpu y 1 | 1: ld.acquire.gpu r0 y; ld r1 x", STALE),
    Litmus("MP", "0: st x 1; st.release.gpu y 1 | 1: ld.acquire.gpu r0 y; ld r1 x", STALE, CAUSALITY),
    Litmus("MP, relaxed data", "0: st.relaxed.gpu x 1; st.release.gpu y 1 | 1: ld.acquire.gpu r0 y; ld.relaxed.gpu r1 x", STALE, CAUSALITY),
    Litmus(
        "MP, fences",
        "0: st x 1; fence.acq_rel.gpu; st.relaxed.gpu y 1 | 1: ld.relaxed.gpu r0 y; fence.acq_rel.gpu; ld r1 x",
        STALE,
        CAUSALITY,
    ),
    Litmus(
        "MP, a fence of a block",
        "0: st x 1; fence.acq_rel.cta; st.relaxed.gpu y 1 | 1: ld.relaxed.gpu r0 y; fence.acq_rel.gpu; ld r1 x",
        STALE,
    ),
    Litmus("MP, fence and release", "0: st x 1; st.release.gpu y 1 | 1: ld.relaxed.gpu r0 y; fence.acq_rel.gpu; ld r1 x", STALE, CAUSALITY),
    Litmus("MP, weak flag", "0: st x 1; fence.acq_rel.gpu; st y 1 | 1: ld y0 y; fence.acq_rel.gpu; ld r1 x", "y0=1 r1=0"),
    Litmus("MP, poll", "0: st x 1; st.release.gpu y 1 | 1: ld.acquire.gpu r0 y until 1; ld r1 x", STALE, CAUSALITY),
    Litmus(
        "MP, poll and acquire",
        "0: st x 1; st.release.gpu y 1 | 1: ld.relaxed.gpu r0 y until 1; ld.acquire.gpu r2 y; ld r1 x",
        STALE,
        CAUSALITY,
    ),
    Litmus(
        "MP, a relaxed store after the release",
        "0: st x 1; st.release.gpu y 1; st.relaxed.gpu y 2 | 1: ld.acquire.gpu r0 y; ld r1 x",
        "r0=2 r1=0",
        CAUSALITY,
    ),
    Litmus("MP, a weak store after the release", "0: st x 1; st.release.gpu y 1; st y 2 | 1: ld.acquire.gpu r0 y; ld r1 x", "r0=2 r1=0"),
    Litmus("MP, data after the release", "0: st.release.gpu y 1; st x 1 | 1: ld.acquire.gpu r0 y; ld r1 x", STALE),
    Litmus("MP, data before the acquire", "0: st x 1; st.release.gpu y 1 | 1: ld r1 x; ld.acquire.gpu r0 y", STALE),
    # Scopes.
    Litmus("MP, cta between blocks", "0: st x 1; st.release.cta y 1 | 1: ld.acquire.cta r0 y; ld r1 x", STALE),
    Litmus("MP, release.cta between blocks", "0: st x 1; st.release.cta y 1 | 1: ld.acquire.gpu r0 y; ld r1 x", STALE),
    Litmus("MP, acquire.cta between blocks", "0: st x 1; st.release.gpu y 1 | 1: ld.acquire.cta r0 y; ld r1 x", STALE),
    Litmus("MP, cta in a block", "0: st x 1; st.release.cta y 1 | 0: ld.acquire.cta r0 y; ld r1 x", STALE, CAUSALITY),
    Litmus("MP, both scopes in a block", "0: st x 1; st.release.cta y 1 | 0: ld.acquire.gpu r0 y; ld r1 x", STALE, CAUSALITY),
    # Store buffering: release and acquire do not help, fence.sc does.
    Litmus("SB", "0: st.relaxed.gpu x 1; ld.relaxed.gpu r0 y | 1: st.relaxed.gpu y 1; ld.relaxed.gpu r1 x", "r0=0 r1=0"),
    Litmus(
        "SB, release and acquire", "0: st.release.gpu x 1; ld.acquire.gpu r0 y | 1: st.release.gpu y 1; ld.acquire.gpu r1 x", "r0=0 r1=0"
    ),
    Litmus("SB, fence.acq_rel", "0: st x 1; fence.acq_rel.gpu; ld r0 y | 1: st y 1; fence.acq_rel.gpu; ld r1 x", "r0=0 r1=0"),
    Litmus("SB, fence.sc", "0: st x 1; fence.sc.gpu; ld r0 y | 1: st y 1; fence.sc.gpu; ld r1 x", "r0=0 r1=0", CAUSALITY),
    Litmus("SB, fence.sc.cta between blocks", "0: st x 1; fence.sc.cta; ld r0 y | 1: st y 1; fence.sc.cta; ld r1 x", "r0=0 r1=0"),
    Litmus(
        "SB of three, fence.sc",
        "0: st x 1; fence.sc.gpu; ld r0 y | 1: st y 1; fence.sc.gpu; ld r1 z | 2: st z 1; fence.sc.gpu; ld r2 x",
        "r0=0 r1=0 r2=0",
        CAUSALITY,
    ),
    # Load buffering.
    Litmus("LB", "0: ld r0 x; st y 1 | 1: ld r1 y; st x 1", "r0=1 r1=1"),
    Litmus("LB, relaxed", "0: ld.relaxed.gpu r0 x; st.relaxed.gpu y 1 | 1: ld.relaxed.gpu r1 y; st.relaxed.gpu x 1", "r0=1 r1=1"),
    Litmus("LB, dependent", "0: ld r0 x; st y 1 r0 | 1: ld r1 y; st x 1 r1", "r0=1 r1=1", ("No-Thin-Air",)),
    Litmus("LB, one dependent", "0: ld r0 x; st y 1 r0 | 1: ld r1 y; st x 1", "r0=1 r1=1"),
    Litmus("LB, release", "0: ld r0 x; st.release.gpu y 1 | 1: ld.acquire.gpu r1 y; st x 1", "r0=1 r1=1", CAUSALITY),
    # One location.
    Litmus("CoRR", "0: st.relaxed.gpu x 1 | 1: ld.relaxed.gpu r0 x; ld.relaxed.gpu r1 x", STALE, COHERENT_READS),
    Litmus("CoRR, weak", "0: st.relaxed.gpu x 1 | 1: ld r0 x; ld r1 x", STALE),
    Litmus("CoRR, cta between blocks", "0: st.relaxed.cta x 1 | 1: ld.relaxed.cta r0 x; ld.relaxed.cta r1 x", STALE),
    Litmus("CoWW", "0: st x 1; st x 2", "x=1", ("Coherence", "SC-per-Location")),
    Litmus("CoWR", "0: st x 1; ld r0 x", "r0=0", COHERENT_READS),
    Litmus("CoRW", "0: ld r0 x; st x 1", "r0=1", COHERENT_READS),
    Litmus("CoWW, seen weakly", "0: st x 1; st x 2 | 1: ld r0 x; ld r1 x", "r0=2 r1=1"),
    Litmus(
        "one order of writes",
        "0: st.relaxed.gpu x 1 | 1: st.relaxed.gpu x 2"
        " | 2: ld.acquire.gpu r0 x; ld.acquire.gpu r1 x | 3: ld.acquire.gpu r2 x; ld.acquire.gpu r3 x",
        "r0=1 r1=2 r2=2 r3=1",
        COHERENT_READS,
    ),
    Litmus(
        "one order of writes, weak",
        "0: st x 1 | 1: st x 2 | 2: ld.acquire.gpu r0 x; ld.acquire.gpu r1 x | 3: ld.acquire.gpu r2 x; ld.acquire.gpu r3 x",
        "r0=1 r1=2 r2=2 r3=1",
    ),
    Litmus("a word whole", "0: st.relaxed.gpu x+y 1 | 1: ld.relaxed.gpu r0 x+y", "r0=1,0", ("Atomicity", "SC-per-Location")),
    Litmus("a word whole, weak", "0: st x+y 1 | 1: ld r0 x+y", "r0=1,0"),
    # Two locations, writes only.
    Litmus("2+2W", "0: st.release.gpu x 1; st.release.gpu y 2 | 1: st.release.gpu y 1; st.release.gpu x 2", "x=1 y=1"),
    Litmus("2+2W, fence.sc", "0: st x 1; fence.sc.gpu; st y 2 | 1: st y 1; fence.sc.gpu; st x 2", "x=1 y=1", ("Coherence",)),
    Litmus("S", "0: st x 2; st.release.gpu y 1 | 1: ld.acquire.gpu r0 y; st x 1", "r0=1 x=2", ("Coherence",)),
    # Cumulativity: through a third thread,
    Litmus(
        "WRC",
        "0: st.relaxed.gpu x 1 | 1: ld.relaxed.gpu r0 x; st.release.gpu y 1 | 2: ld.acquire.gpu r1 y; ld.relaxed.gpu r2 x",
        "r0=1 r1=1 r2=0",
        CAUSALITY,
    ),
    Litmus("WRC, weak", "0: st x 1 | 1: ld r0 x; st.release.gpu y 1 | 2: ld.acquire.gpu r1 y; ld r2 x", "r0=1 r1=1 r2=0"),
    Litmus(
        "ISA2",
        "0: st x 1; st.release.gpu y 1 | 1: ld.acquire.gpu r0 y; st.release.gpu z 1 | 2: ld.acquire.gpu r1 z; ld r2 x",
        "r0=1 r1=1 r2=0",
        CAUSALITY,
    ),
    Litmus(
        "ISA2, relaxed",
        "0: st x 1; st.release.gpu y 1 | 1: ld.relaxed.gpu r0 y; st.release.gpu z 1 | 2: ld.acquire.gpu r1 z; ld r2 x",
        "r0=1 r1=1 r2=0",
    ),
    Litmus(
        "ISA2, first in a block",
        "0: st x 1; st.release.cta y 1 | 0: ld.acquire.cta r0 y; st.release.gpu z 1 | 1: ld.acquire.gpu r1 z; ld r2 x",
        "r0=1 r1=1 r2=0",
        CAUSALITY,
    ),
    Litmus(
        "IRIW",
        "0: st.relaxed.gpu x 1 | 1: ld.acquire.gpu r0 x; ld.acquire.gpu r1 y"
        " | 2: st.relaxed.gpu y 1 | 3: ld.acquire.gpu r2 y; ld.acquire.gpu r3 x",
        "r0=1 r1=0 r2=1 r3=0",
    ),
    Litmus(
        "IRIW, fence.sc",
        "0: st.relaxed.gpu x 1 | 1: ld.relaxed.gpu r0 x; fence.sc.gpu; ld.relaxed.gpu r1 y"
        " | 2: st.relaxed.gpu y 1 | 3: ld.relaxed.gpu r2 y; fence.sc.gpu; ld.relaxed.gpu r3 x",
        "r0=1 r1=0 r2=1 r3=0",
        CAUSALITY,
    ),
    Litmus(
        "IRIW, one fence.sc.cta",
        "0: st.relaxed.gpu x 1 | 1: ld.relaxed.gpu r0 x; fence.sc.cta; ld.relaxed.gpu r1 y"
        " | 2: st.relaxed.gpu y 1 | 3: ld.relaxed.gpu r2 y; fence.sc.gpu; ld.relaxed.gpu r3 x",
        "r0=1 r1=0 r2=1 r3=0",
    ),
    # and through barriers of blocks.
    Litmus("barrier", "0: st x 1; bar | 0: bar; ld r0 x", "r0=0", CAUSALITY),
    Litmus("barrier, read before", "0: ld r0 x; bar | 0: bar; st x 1", "r0=1", CAUSALITY),
    Litmus("barrier of a warp", "0: st x 1; bar.warp | 0: bar.warp; ld r0 x", "r0=0", CAUSALITY),
    Litmus("barriers of two blocks", "0: st x 1; bar | 1: bar; ld r0 x", "r0=0"),
    Litmus(
        "MP between blocks, others put and read",
        "0: st x 1; bar | 0: bar; st.release.gpu y 1 | 1: ld.acquire.gpu r0 y; bar | 1: bar; ld r1 x",
        STALE,
        CAUSALITY,
    ),
    Litmus(
        "MP between blocks, others put and read, relaxed",
        "0: st x 1; bar | 0: bar; st.relaxed.gpu y 1 | 1: ld.relaxed.gpu r0 y; bar | 1: bar; ld r1 x",
        STALE,
    ),
    Litmus(
        "MP between blocks, put after the barrier",
        "0: bar; st x 1 | 0: bar; st.release.gpu y 1 | 1: ld.acquire.gpu r0 y; bar | 1: bar; ld r1 x",
        STALE,
    ),
    Litmus(
        "barrier between blocks, a block waiting for another",
        "0: st x 1; ld.relaxed.gpu r2 f until 1; bar; st.release.gpu g 1"
        " | 1: bar; st.relaxed.gpu f 1; ld.acquire.gpu r0 g until 1; bar; ld r1 x | 1: bar; bar",
        STALE,
        CAUSALITY,
    ),
]
"""Verdicts: the PTX ISA has MP and SB with fences, LB with and without dependences, and CoRR. NVIDIA's tests of its formal model
(NVlabs/mixedproxy) have the relaxed store after a release. The tests of the verifier Dartagnan (hernanponcedeleon/Dat3M, litmus/PTX) have
MP and ISA2 with two scopes, CoWW, CoRR and CoWW that are read weakly, the order of writes, the barrier with a read before it, and the
barrier between blocks. The others follow from the ASPLOS paper's formulas, which are in tests/memory_model/axioms.py."""


@table("litmus", LITMUS, ids=[litmus.name for litmus in LITMUS])
def test_a_litmus_test_has_its_verdict(litmus: Litmus) -> None:
    program = parse(litmus.program)
    for all_allowed in (executions, all_executions):
        allowed = [*all_allowed(program)]
        assert allowed
        assert any(shows(execution, litmus.outcome) for execution in allowed) == (not litmus.forbidden_by)


@pytest.mark.parametrize("litmus", [litmus for litmus in LITMUS if litmus.forbidden_by], ids=lambda litmus: litmus.name)
def test_an_outcome_is_forbidden_by_these_axioms(litmus: Litmus) -> None:
    """Without them it is allowed, and with any of them it is not."""
    program = parse(litmus.program)
    for kept in ((), *litmus.forbidden_by):
        without = [axiom for axiom in litmus.forbidden_by if axiom != kept]
        assert any(shows(execution, litmus.outcome) for execution in executions(program, without=without)) == (kept == ())


def test_every_axiom_forbids_something() -> None:
    assert {axiom for litmus in LITMUS for axiom in litmus.forbidden_by} == {*AXIOMS}


def test_what_is_in_order_takes_nothing_from_the_future() -> None:
    program = parse("0: ld r0 x; st y 1 | 1: ld r1 y; st x 1")
    allowed = [execution.values for execution in executions(program, in_order=True)]
    assert {"r0": (1,), "r1": (1,)} not in allowed
    assert len(allowed) == 3


# races


@pytest.mark.parametrize(
    ("text", "races", "mixed"),
    [
        ("0: st x 1 | 0: ld r0 x", 1, False),
        ("0: st x 1 | 0: st x 2", 1, False),
        ("0: ld r0 x | 1: ld r1 x", 0, False),
        ("0: st.relaxed.gpu x 1 | 1: ld.relaxed.gpu r0 x", 0, False),
        ("0: st.relaxed.gpu x 1 | 1: ld r0 x", 1, False),
        ("0: st.relaxed.cta x 1 | 1: ld.relaxed.gpu r0 x", 1, False),
        ("0: st.relaxed.cta x 1 | 0: ld.relaxed.cta r0 x", 0, False),
        ("0: st x 1; bar | 0: bar; ld r0 x", 0, False),
        ("0: st x 1; st.release.gpu y 1 | 1: ld.acquire.gpu r0 y until 1; ld r1 x", 0, False),
        ("0: st x 1; st.relaxed.gpu y 1 | 1: ld.acquire.gpu r0 y until 1; ld r1 x", 1, False),
        ("0: st.relaxed.gpu x 1 | 1: ld.relaxed.gpu r0 x+y", 1, True),
        ("0: st.relaxed.gpu x 1; st.release.gpu z 1 | 1: ld.acquire.gpu r1 z until 1; ld.relaxed.gpu r0 x+y", 0, False),
    ],
)
def test_data_races(text: str, races: int, mixed: bool) -> None:
    assert {(len(execution.races), execution.mixed) for execution in executions(parse(text))} == {(races, mixed)}


# polls that do not end


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0: st.relaxed.gpu x 1 | 1: ld.relaxed.gpu r0 x until 1", []),
        ("0: st.relaxed.gpu x 1 | 1: ld.relaxed.gpu r0 x until 2", ["r0 is waited at for ever"]),
        ("0: st.relaxed.gpu x 1; bar | 0: bar; ld r0 x until 1", []),
        ("0: st.relaxed.gpu x 1 | 1: ld r0 x until 1", ["r0 may never see what it waits for"]),
        ("0: st.relaxed.cta x 1 | 1: ld.relaxed.gpu r0 x until 1", ["r0 may never see what it waits for"]),
        ("0: st.relaxed.gpu x 1; st.relaxed.gpu x 2 | 1: ld.relaxed.gpu r0 x until 1", ["r0 is waited at for ever"]),
        (
            "0: ld.relaxed.gpu r0 x until 1"
            " | 1: st.relaxed.gpu x 1; ld.relaxed.gpu r1 y until 1; st.relaxed.gpu x 2 | 1: st.relaxed.gpu y 1",
            ["r0 may miss what it waits for"],
        ),
        (
            "0: ld.relaxed.gpu r0 x until 1; st.relaxed.gpu y 1 | 1: ld.relaxed.gpu r1 y until 1; st.relaxed.gpu x 1",
            ["r0 is waited at for ever", "r1 is waited at for ever"],
        ),
        (
            "0: ld.relaxed.gpu r0 x until 1; bar | 0: bar; st.relaxed.gpu x 1",
            ["r0 is waited at for ever", "barrier 1 of block, block 0 is waited at for ever"],
        ),
    ],
)
def test_polls_that_do_not_end(text: str, said: list[str]) -> None:
    assert Graph(parse(text)).endless() == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0: bar | 0: st x 1", "not all threads reach barrier 1 of block, block 0"),
        ("0: bar; bar.warp | 0: bar.warp; bar", "wait for each other"),
        ("0: ld r0 x | 0: ld r0 y", "two loads have one name"),
        ("0: st y 1 r0; ld r0 x", "needs r0, which is no earlier load"),
        ("0: st y 1 r0 | 0: ld r0 x", "needs r0, which is no earlier load"),
    ],
)
def test_a_program_without_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        next(executions(parse(text)))


def test_a_place_of_several_writers_is_not_polled() -> None:
    with pytest.raises(ValueError, match="several threads write it"):
        Graph(parse("0: st.relaxed.gpu x 1 | 0: st.relaxed.gpu x 2 | 0: ld.relaxed.gpu r0 x until 2")).endless()


def test_an_unknown_axiom_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not axioms: \{'Causalty'\}"):
        next(executions(parse("0: st x 1"), without=["Causalty"]))


# against trying everything


def some_program(rng: random.Random) -> Program:
    """Two or three threads in one block or two, with six instructions or fewer, on two places and the word that both make."""
    threads = []
    for number, length in enumerate(rng.choice([(3, 3), (2, 3), (2, 2, 2), (1, 2, 3), (1, 1, 2)])):
        instructions: list[Instruction] = []
        loads: list[str] = []
        for place in range(length):
            value = 10 * number + place + 1
            where, scope = rng.choice(["x", "x", "y", "y", ("x", "y")]), rng.choice(["cta", "gpu", "gpu"])
            how: Any = (rng.choice(["weak", "relaxed", "strongest"]), scope)
            made = rng.random()
            if made < 0.42:
                order = "release" if how[0] == "strongest" else how[0]
                instructions.append(Store(where, value, order, scope, tuple(load for load in loads if rng.random() < 0.3)))
            elif made < 0.84:
                order = "acquire" if how[0] == "strongest" else how[0]
                loads.append(f"r{value}")
                until, expected = rng.choice([None, None, None, None, bool]), rng.choice([None, None, 0, value % 10])
                instructions.append(Load(loads[-1], where, order, scope, until, expected))
            else:
                instructions.append(Fence(rng.choice(["acq_rel", "sc"]), scope))
        threads.append((rng.choice([0, 0, 1]), instructions))
    if rng.random() < 0.4:
        for block, instructions in threads:
            if block == 0:
                instructions.insert(rng.randrange(len(instructions) + 1), Barrier())
    return Program([Thread(block, instructions) for block, instructions in threads], {"y": rng.choice([0, 0, 7])})


def counted(found: Any) -> Counter[Any]:
    return Counter((*sorted(each.values.items()), *sorted(each.last.items()), each.races, each.mixed) for each in found)


def reads_wrong(program: Program, execution: Execution) -> bool:
    loads = [load for thread in program.threads for load in thread.instructions if isinstance(load, Load) and load.expected is not None]
    return any({*execution.values[load.name]} != {load.expected} for load in loads)


def check_search(seeds: range) -> None:
    sizes = []
    for seed in seeds:
        program = some_program(random.Random(seed))
        everything = [*all_executions(program)]
        assert counted(executions(program)) == counted(everything), seed
        assert counted(executions(program, fault="value")) == counted(each for each in everything if reads_wrong(program, each)), seed
        assert counted(executions(program, fault="race")) == counted(each for each in everything if each.races), seed
        sizes.append(len(everything))
    assert sum(size > 1 for size in sizes) > len(sizes) / 2  # else it would mean little that they agree


def test_the_search_finds_what_trying_everything_finds() -> None:
    check_search(range(100))


@pytest.mark.slow
def test_the_search_finds_what_trying_everything_finds_at_length() -> None:
    check_search(range(100, 10_000))
