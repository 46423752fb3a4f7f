"""The rows that the mark `pairwise` selects have every pair of values, and are few."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Hashable, Sequence
from itertools import combinations, product
from pathlib import Path

import pytest

from tests.support.folders import ROOT
from tests.support.pairwise import covering_rows

Rows = Sequence[Sequence[Hashable]]

TABLES: dict[str, tuple[Rows, int]] = {
    "four columns of three": (list(product(range(3), repeat=4)), 15),  # 9 would do
    "a long column": (list(product(range(20), "ab", [None, 1.5])), 40),
    "columns of two": (list(product([False, True], repeat=8)), 12),
    "one column": ([(value,) for value in "abc"], 3),
    "no full product": ([(a, b, (a + b) % 4) for a, b in product(range(4), repeat=2)], 16),
    "two columns": (list(product("ab", range(5))), 10),
    "none": ([], 0),
    "one row without columns": ([()], 0),
}
"""Rows, and how many of them are selected at most."""


def pairs_of(rows: Rows) -> set[tuple[int, Hashable, int, Hashable]]:
    return {(*first, *second) for row in rows for first, second in combinations(enumerate(row), 2)}


@pytest.mark.parametrize("name", TABLES)
def test_every_pair_is_covered(name: str) -> None:
    rows, most = TABLES[name]
    chosen = covering_rows(rows)
    kept = [rows[number] for number in chosen]
    assert chosen == sorted(set(chosen)) == covering_rows(rows)
    assert pairs_of(kept) == pairs_of(rows)
    assert [set(column) for column in zip(*kept, strict=True)] == [set(column) for column in zip(*rows, strict=True)]
    assert len(kept) <= most


@pytest.mark.parametrize("name", TABLES)
def test_every_value_is_kept(name: str) -> None:
    rows, _ = TABLES[name]
    kept = [rows[number] for number in covering_rows(rows, pairwise=False)]
    assert [set(column) for column in zip(*kept, strict=True)] == [set(column) for column in zip(*rows, strict=True)]
    longest = max((len(set(column)) for column in zip(*rows, strict=True)), default=0)
    assert len(kept) <= 1.25 * longest  # the greedy choice has 5 rows where 4 of "no full product" would do


@pytest.mark.parametrize("seed", range(20))
def test_any_rows(seed: int) -> None:
    rng = random.Random(seed)
    rows = [tuple(rng.randrange(4) for _ in range(5)) for _ in range(rng.randrange(1, 60))]
    kept = [rows[number] for number in covering_rows(rows)]
    assert pairs_of(kept) == pairs_of(rows)
    assert len(kept) <= len(set(rows))


TEST = """
import pytest

@pytest.fixture(params=["numpy", "cpu"])
def any_device(request): return request.param

@pytest.mark.pairwise
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 1), (2, 2)])
@pytest.mark.parametrize("d", range(3))
def test_product(any_device, a, b, c, d): print(f"<{any_device} {a} {b} {c} {d}>")

@pytest.mark.each_value
@pytest.mark.parametrize("a", [0, pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("b", "xyz")
def test_values(any_device, a, b): print(f"({any_device} {a} {b})")

@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(3))
@pytest.mark.parametrize("c", range(3))
def test_unmarked(a, b, c): pass
"""


PROGRAM = """
import sys, pytest

class Left:
    names = []
    def pytest_deselected(self, items): self.names += [item.nodeid for item in items if "test_product[numpy" in item.nodeid]

options, runs = {options}, {runs}
for run in runs:
    assert pytest.main(options + run, plugins=[Left()]) == 0
    print("END")
assert pytest.main(options + Left.names[:1]) == 0
"""


def outcomes(folder: Path, *runs: list[str]) -> list[str]:
    """What pytest prints with the arguments of each run, one after the other in a process, and with the first product that was left out."""
    (folder / "test_these.py").write_text(TEST)
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    options = ["-q", "-s", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}"]
    program = PROGRAM.format(options=options, runs=runs)
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("END\n")


def test_the_mark_selects_the_same_rows_for_each_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    unnamed = ["test_these.py"]
    more = [[*unnamed, "-m", "quick"], [*unnamed, "--device", "cpu"], [*unnamed, "-m", "quick", "--device", "cpu,cuda"]]
    told, slow, quick, cpu, both, alone = outcomes(tmp_path, unnamed, [*unnamed, "-m", "slow"], *more)
    ran = [tuple(row.split()) for row in re.findall("<(.+?)>", told)]
    rows = {device: {row[1:] for row in ran if row[0] == device} for device in ("numpy", "cpu")}
    assert rows["numpy"] == rows["cpu"]
    assert {(a, b) for a, b, _, _ in rows["numpy"]} == {(b, d) for _, b, _, d in rows["numpy"]} == set(product("012", repeat=2))
    assert f"{27 + 2 * len(rows['numpy']) + 2 * 3} passed, {2 * (27 - len(rows['numpy'])) + 2 * 6} deselected" in told
    assert 9 <= len(rows["numpy"]) <= 12
    assert f"{2 * 27 - 2 * len(rows['numpy']) + 2 * 6} passed" in slow
    # Of the rows that are not slow by themselves, each value stands in one, and no more than that are kept.
    values = [tuple(row.split()) for row in re.findall(r"\((\w+ \d \w)\)", told)]
    for device in ("numpy", "cpu"):
        assert [sorted({row[column] for row in values if row[0] == device}) for column in (1, 2)] == [["0", "2"], ["x", "y", "z"]]
    # The first row of each test is quick; of the devices one is taken.
    assert re.findall(r"<(\w+) ", quick) == ["numpy"]
    assert "3 passed" in quick
    assert {*re.findall(r"<(\w+) ", cpu)} == {*re.findall(r"<(\w+) ", both)} == {"cpu"}
    assert f"{27 + len(rows['cpu']) + 3} passed" in cpu
    assert "3 passed" in both
    # An item that is named alone is run, though it is slow among others.
    (row,) = re.findall("<(.+?)>", alone)
    assert row.startswith("numpy ")
    assert tuple(row.split())[1:] not in rows["numpy"]
    assert "1 passed" in alone
