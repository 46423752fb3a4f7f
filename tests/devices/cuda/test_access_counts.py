"""The instrument that counts accesses to memory, tested on kernels whose accesses are known."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.support.cuda.binaries.access_counts import CountingRuntime, Counts, LineCounts
from tests.support.cuda.kernel_parameters import device, parameters, unset
from tests.support.folders import TESTS
from tests.support.tools import require

SOURCE = (TESTS / "kernels" / "accesses.cu").read_text().replace('#include "common/machine.cuh"\n', "\n")
SHARED_BYTES = 1 << 16


@cache
def image(entry: str) -> tuple[bytes, str]:
    """The kernel, compiled once."""
    require("g++")
    return CountingRuntime().compile(SOURCE, [entry], 90)[0]


def counted(
    entry: str, threads: int = 32, words: tuple[int, ...] = (), *, count: int = 0, blocks: int = 1, traced: int = 1, delay_us: int = 0
) -> Counts:
    """What the first `traced` blocks do. Blocks run at the same time."""
    runtime = CountingRuntime(blocks=traced, delay_us=delay_us)
    arrays = {"input": device(runtime, np.zeros(1 << 14, np.float32)), "output": unset(runtime, 1 << 14)}
    arrays["words"] = device(runtime, np.array(words or [0] * blocks, np.uint32))
    function = runtime.load(0, *image(entry), runtime.limits(0).shared_memory_per_block)
    runtime.launch(function, (blocks, 1, 1), threads, SHARED_BYTES, parameters(count, **arrays), 0, cooperative=True)
    runtime.check_guards()
    (counts,) = runtime.launches
    return counts


def at(counts: Counts, mark: str, space: str = "") -> LineCounts:
    """The one row, in a space or in any, of the line that a comment names so."""
    (found,) = (found for found in counts.lines if found.line == name_of(mark) and space in (found.space, ""))
    return found


def name_of(mark: str) -> str:
    """The line that a comment names so."""
    return f"kernel.cu:{SOURCE[: SOURCE.index(f'// {mark}' + chr(10))].count(chr(10)) + 1}"


FLOAT, TWO, FOUR = "float", "AlignedVector<float, 2>", "AlignedVector<float, 4>"

PLACES: list[tuple[str, tuple[int, int, int, int], int, int, int, int, int]] = [
    # type, (lanes of a place, places, stride, offset): wavefronts of a store, of a load, the least; sectors, the least
    (FLOAT, (1, 32, 1, 0), 1, 1, 1, 4, 4),
    (FLOAT, (1, 32, 1, 8), 1, 1, 1, 4, 4),
    (FLOAT, (1, 32, 1, 1), 1, 1, 1, 5, 4),
    (FLOAT, (1, 32, 2, 0), 2, 2, 1, 8, 4),
    (FLOAT, (1, 32, 3, 0), 1, 1, 1, 12, 4),
    (FLOAT, (1, 32, 8, 0), 8, 8, 1, 32, 4),
    (FLOAT, (1, 32, 32, 0), 32, 32, 1, 32, 4),
    (FLOAT, (1, 32, 33, 0), 1, 1, 1, 32, 4),
    (FLOAT, (1, 1, 1, 7), 1, 1, 1, 1, 1),  # one word for all
    (FLOAT, (1, 2, 32, 0), 2, 2, 1, 2, 1),  # two words of one bank
    (FLOAT, (1, 2, 1, 0), 1, 1, 1, 1, 1),
    (FLOAT, (8, 32, 1, 0), 1, 1, 1, 1, 1),
    ("unsigned short", (1, 32, 1, 0), 1, 1, 1, 2, 2),  # two lanes to a word
    ("unsigned short", (1, 32, 4, 0), 2, 2, 1, 8, 2),
    ("unsigned short", (1, 32, 16, 0), 8, 8, 1, 32, 2),
    (TWO, (1, 32, 1, 0), 2, 2, 2, 8, 8),
    (TWO, (1, 32, 2, 0), 4, 4, 2, 16, 8),
    (TWO, (1, 32, 16, 0), 32, 32, 2, 32, 8),
    (TWO, (1, 32, 17, 0), 2, 2, 2, 32, 8),
    (TWO, (1, 1, 1, 0), 2, 1, 1, 1, 1),  # a load that pairs of lanes share serves 32 of them together
    (TWO, (2, 32, 1, 0), 2, 1, 1, 4, 4),
    (TWO, (4, 32, 1, 0), 2, 1, 1, 2, 2),
    (TWO, (1, 4, 1, 0), 2, 2, 1, 1, 1),  # every fourth lane: no pairs
    (TWO, (1, 2, 1, 0), 2, 1, 1, 1, 1),  # lanes 0 and 2, 1 and 3: pairs
    (FOUR, (1, 32, 1, 0), 4, 4, 4, 16, 16),
    (FOUR, (1, 32, 2, 0), 8, 8, 4, 32, 16),
    (FOUR, (1, 32, 9, 0), 4, 4, 4, 32, 16),
    (FOUR, (1, 1, 1, 0), 4, 2, 1, 1, 1),
    (FOUR, (2, 32, 1, 0), 4, 2, 2, 8, 8),
    (FOUR, (8, 32, 1, 0), 4, 2, 1, 2, 2),
    (FOUR, (2, 32, 2, 0), 4, 4, 2, 16, 8),  # pairs, but two words of each bank
]


@pytest.mark.parametrize(("kind", "words", "stored", "loaded", "least", "sectors", "least_sectors"), PLACES)
def test_places(
    kind: str, words: tuple[int, int, int, int], stored: int, loaded: int, least: int, sectors: int, least_sectors: int
) -> None:
    counts = counted(f"strided<{kind}>", words=words)
    store, load = at(counts, "shared store"), at(counts, "both", "shared")
    assert (store.kind, store.accesses, store.lanes, store.wavefronts, store.least_wavefronts) == ("store", 1, 32, stored, least)
    assert (load.kind, load.accesses, load.lanes, load.wavefronts, load.least_wavefronts) == ("load", 1, 32, loaded, least)
    for kind, line in (("load", at(counts, "global load")), ("store", at(counts, "both", "global"))):
        assert (line.space, line.kind, line.accesses, line.lanes) == ("global", kind, 1, 32)
        assert (line.sectors, line.least_sectors) == (sectors, least_sectors)


@pytest.mark.parametrize(("row", "wavefronts"), [(32, 32), (33, 1), (36, 4), (48, 16)])
def test_transposes(row: int, wavefronts: int) -> None:
    """Static shared memory, in loops, by several warps."""
    counts = counted("transpose", 128, (row,))
    assert counts.warps == 4
    rows, columns = at(counts, "rows", "shared"), at(counts, "columns", "shared")
    assert (rows.accesses, rows.wavefronts, rows.least_wavefronts) == (32, 32, 32)
    assert (columns.accesses, columns.wavefronts, columns.least_wavefronts) == (32, 32 * wavefronts, 32)


def test_blocks_and_warps() -> None:
    """A block that is not a whole number of warps; of many blocks the first ones."""
    counts = counted("strided<float>", 40, (1, 64, 1, 0), blocks=5, traced=3)
    load = at(counts, "global load")
    assert (counts.warps, load.accesses, load.lanes, load.sectors) == (6, 6, 120, 15)


def test_lanes_part_and_meet() -> None:
    counts = counted("part", count=10)
    lengths, turns, callee, left, met = (
        at(counts, mark) for mark in ("different lengths", "every other turn", "callee", "some left", "met again")
    )
    assert (lengths.accesses, lengths.lanes, lengths.sectors) == (4, 32 + 24 + 16 + 8, 16)
    assert (turns.accesses, turns.lanes, turns.sectors) == (10, 160, 10)
    assert (callee.accesses, callee.lanes, callee.sectors) == (2, 32, 4)
    assert (left.accesses, left.lanes) == (1, 32 - 11)
    assert (met.accesses, met.lanes) == (1, 32)
    assert name_of("own memory") not in {line.line for line in counts.lines}


def test_values_that_lie_side_by_side() -> None:
    """Those of an aligned struct are one access; elsewhere the compiler of a GPU cannot know that they could be."""
    counts = counted("one_by_one", count=4)
    found = {mark: at(counts, mark, "shared") for mark in ("aligned struct", "row", "loop", "struct of floats")}
    assert {mark: (line.bytes, line.accesses, line.wavefronts) for mark, line in found.items()} == {
        "aligned struct": (16, 1, 4),
        "row": (4, 4, 4),
        "loop": (4, 4, 16),
        "struct of floats": (4, 3, 3),
    }


@pytest.mark.parametrize("ahead", [1, 4])
def test_rounds(ahead: int) -> None:
    counts = counted(f"rounds<{ahead}>", count=16)
    load, store, barrier = at(counts, "load"), at(counts, "store"), at(counts, "load before a barrier")
    assert (load.space, load.accesses, load.rounds) == ("global", 16, 16 // ahead)
    assert (store.space, store.accesses, store.rounds) == ("shared", 16, 0)
    assert (barrier.accesses, barrier.rounds) == (16, 16 if ahead == 1 else 5)


def test_polls_are_counted_once() -> None:
    """However long a block waits."""
    found = [counted("wait_for_all", blocks=6, traced=6, delay_us=delay_us) for delay_us in (0, 2000)]
    assert found[0] == found[1]
    rise, poll, then = (at(found[0], mark) for mark in ("raise", "poll", "then"))
    assert (rise.kind, rise.accesses, rise.lanes) == ("atomic store", 6, 6)
    assert (poll.kind, poll.accesses, poll.lanes) == ("atomic load", 6, 36)
    assert (then.accesses, then.sectors) == (6, 24)


def test_words_that_signal_their_arrival() -> None:
    """They are data, loaded 16 bytes at a time, and counted as if they had come at the first look."""
    found = [counted("hand_over", blocks=6, traced=6, delay_us=delay_us, words=(0,) * 768) for delay_us in (0, 2000)]
    assert found[0] == found[1]
    put, load = at(found[0], "put"), at(found[0], "begin")
    assert (put.kind, put.bytes, put.accesses, put.sectors) == ("store", 4, 24, 24 * 4)
    assert (load.kind, load.bytes, load.accesses, load.lanes, load.sectors) == ("load", 16, 36, 36 * 32, 36 * 16)
    assert name_of("again") not in {line.line for line in found[0].lines}


def test_differences_and_texts() -> None:
    longer, shorter = (counted("part", count=count) for count in (10, 7))
    (line,) = longer.without(shorter).lines
    assert (line.accesses, line.lanes, line.sectors) == (3, 48, 3)
    assert not longer.without(longer.without(shorter), 1).without(shorter).lines
    assert str(longer).splitlines()[0] == "part"
    assert any(text.split()[:4] == [line.line, "global", "load", "4"] for text in str(longer).splitlines())
    assert longer.sum("accesses") == 4 + 10 + 2 + 1 + 1
    assert not longer.where(lambda found: found.space == "shared").lines
