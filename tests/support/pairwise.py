"""Rows of a table such that every two values of different columns that stand together in some row stand together in one of those chosen.

A test whose parameters are a product of several tables has a row for each combination, most of which repeat what others show: faults
that need three values at once are rare. The mark `pairwise` selects such a subset for the usual run; the others are `slow`. Where a row
takes seconds and no value changes what another one does, the mark `each_value` keeps fewer: every value of each column stands in one of
them.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence, Set
from itertools import combinations
from typing import Any, TypeVar

import pytest

_Row = TypeVar("_Row", bound=Sequence[Hashable])


def _pairs(row: Sequence[Hashable]) -> set[tuple[int, Hashable, int, Hashable]]:
    """Each value of the row with each of another column; the value alone where there is one column."""
    cells = list(enumerate(row))
    return {(*first, *second) for first, second in combinations(cells, 2)} or {(*cell, *cell) for cell in cells}


def _values(row: Sequence[Hashable]) -> set[tuple[int, Hashable, int, Hashable]]:
    """Each value of the row alone, in the form of `_pairs`."""
    return {(*cell, *cell) for cell in enumerate(row)}


def cover(sets: Sequence[Set[Hashable]]) -> list[int]:
    """Numbers of sets, ascending, that together have every element of all of them.

    The choice is greedy and the same in every run: always the set with the most elements that no chosen one has, the first of these.
    """
    missing = set().union(*sets)
    chosen = []
    # A set's count of missing elements only falls, so one whose count is still right when it comes to the top has the most.
    queue = [(-len(own), number) for number, own in enumerate(sets)]
    heapq.heapify(queue)
    while missing:
        count, number = heapq.heappop(queue)
        now = len(sets[number] & missing)
        if now == -count:
            chosen.append(number)
            missing -= sets[number]
        elif now:
            heapq.heappush(queue, (-now, number))
    return sorted(chosen)


def covering_rows(rows: Sequence[Sequence[Hashable]], *, pairwise: bool = True) -> list[int]:
    """Numbers of rows, ascending, that together have every pair of values of two columns that occurs in `rows`; see `cover`.

    With `pairwise=False` they have every value of each column.
    """
    return cover([_pairs(row) if pairwise else _values(row) for row in rows])


PAIRS_OR_ALL = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["pairs", "all"])
"""Of a test whose rows go into one pass: it takes `chosen` ones."""


def chosen(rows: Iterable[_Row], every: bool) -> list[_Row]:
    """All rows, or those that together have every pair of values."""
    table = list(rows)
    return table if every else [table[number] for number in covering_rows(table)]


def first_few(values: Sequence[Any], count: int) -> list[Any]:
    """All values, as those of a parameter; those behind the first `count` are slow: random cases of which a few are enough in most runs."""
    return [
        *values[:count],
        *(pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow) for value in values[count:]),
    ]


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Of each test that is marked `pairwise` or `each_value`, the items beyond a covering set are marked `slow`.

    The columns are what the test is parametrized with. Each device, a fixture's parameter, has the same rows. Of `each_value`, rows that
    are slow by themselves are left out: the values of the usual ones stay in usual rows.
    """
    tables: dict[tuple[str, tuple[Hashable, ...], bool], list[tuple[pytest.Item, tuple[Hashable, ...]]]] = {}
    for item in items:
        pairwise = item.get_closest_marker("pairwise") is not None
        if not pairwise and (item.get_closest_marker("each_value") is None or item.get_closest_marker("slow") is not None):
            continue
        # Values need not be hashable; each is one object in all rows that have it.
        parameters = sorted((name, id(value)) for name, value in item.callspec.params.items())  # type: ignore[attr-defined]
        devices = tuple(value for name, value in parameters if name.endswith(("_device", "_runtime")))
        row = tuple(value for name, value in parameters if not name.endswith(("_device", "_runtime")))
        test = item.nodeid.partition("[")[0]
        tables.setdefault((test, devices, pairwise), []).append((item, row))
    for (_, _, pairwise), table in tables.items():
        covering = set(covering_rows([row for _, row in table], pairwise=pairwise))
        for number, (item, _) in enumerate(table):
            if number not in covering:
                item.add_marker(pytest.mark.slow)
