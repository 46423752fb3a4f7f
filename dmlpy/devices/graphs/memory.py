"""Plans where the tensors of a graph lie in one block of memory, so that those that are never needed at once share it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ALIGNMENT = 256
"""Every item begins at a multiple of this many bytes, as DirectML's temporary resources do."""


def aligned(size: int) -> int:
    """The size, rounded up to a multiple of `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Item:
    """Memory that is needed for some steps in a row.

    Attributes:
        name: what it holds, for people.
        size: bytes, at least one.
        first: the step that writes it first.
        last: the last step that uses it.
    """

    name: str
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """The places of items in one block.

    Attributes:
        items: what has a place.
        offsets: where each item begins, in bytes; multiples of `ALIGNMENT`.
        method: how the places were chosen.
    """

    items: tuple[Item, ...]
    offsets: tuple[int, ...]
    method: str

    @cached_property
    def size(self) -> int:
        """Bytes of the block."""
        return max((offset + aligned(item.size) for item, offset in zip(self.items, self.offsets, strict=True)), default=0)

    @cached_property
    def live_bytes(self) -> tuple[int, ...]:
        """Bytes of the items that are needed at each step, each rounded up to a multiple of `ALIGNMENT`."""
        changes = np.zeros(max((item.last for item in self.items), default=-1) + 2, np.int64)
        for item in self.items:
            changes[item.first] += aligned(item.size)
            changes[item.last + 1] -= aligned(item.size)
        return tuple(int(size) for size in np.cumsum(changes)[:-1])

    @property
    def lower_bound(self) -> int:
        """The largest sum of live bytes at a step: no plan of the same items in the same order needs less."""
        return max(self.live_bytes, default=0)

    @property
    def separate_size(self) -> int:
        """Bytes of all items if none shared memory with another."""
        return sum(aligned(item.size) for item in self.items)


_MOST_PLACEMENTS = 10_000
"""Items that are placed in attempts to improve a plan: each takes some 20 microseconds."""


def plan_memory(items: Iterable[Item]) -> MemoryPlan:
    """Chooses places by several greedy methods and takes the smallest block; of equals the first.

    Each method goes through the items in another order, and puts each into the smallest gap that holds it, between the items that are
    needed at the same time and have their places already. "by size" is the method of arXiv 2001.03288; "in order of execution" places items
    as an allocator that knows when they are freed; "by duration" serves graphs in which large items live shortly beside small ones that
    live long. A plan above the lower bound is improved by attempts in which the item that ends highest is placed earlier.
    """
    given = tuple(items)
    numbers = range(len(given))
    orders = {
        "by size": sorted(numbers, key=lambda at: (-given[at].size, given[at].first)),
        "in order of execution": sorted(numbers, key=lambda at: (given[at].first, -given[at].size)),
        "by duration": sorted(numbers, key=lambda at: (given[at].first - given[at].last, -given[at].size)),
    }
    plans = {}
    for method, order in orders.items():
        plans[method] = MemoryPlan(given, _places(given, order), method)
        if plans[method].size == plans[method].lower_bound:
            return plans[method]
    improved = [_improved(plan, orders[method], _MOST_PLACEMENTS // len(plans)) for method, plan in plans.items()]
    return min(improved, key=lambda plan: plan.size)


def _improved(plan: MemoryPlan, order: Sequence[int], placements: int) -> MemoryPlan:
    """The best plan of some attempts, each of which places the items at the top of the last one earlier."""
    best, items, current, tried = plan, plan.items, list(order), {tuple(order)}
    for _ in range(placements // len(items)):
        ends = [offset + aligned(item.size) for item, offset in zip(items, plan.offsets, strict=True)]
        top = max(ends)
        for at in [number for number in current if ends[number] == top]:
            place = current.index(at)
            current.remove(at)
            current.insert(place // 2, at)
        if tuple(current) in tried:
            break
        tried.add(tuple(current))
        plan = MemoryPlan(items, _places(items, current), f"{best.method.removesuffix(', improved')}, improved")
        best = min(best, plan, key=lambda some: some.size)
        if best.size == best.lower_bound:
            break
    return best


def _places(items: Sequence[Item], order: Iterable[int]) -> tuple[int, ...]:
    """The offsets of items that are placed in this order, each in the smallest gap that holds it."""
    firsts = np.array([item.first for item in items], np.int64)
    lasts = np.array([item.last for item in items], np.int64)
    offsets = np.full(len(items), -1, np.int64)
    ends = np.zeros(len(items), np.int64)
    for at in order:
        size = aligned(items[at].size)
        beside = (offsets >= 0) & (firsts <= lasts[at]) & (lasts >= firsts[at])
        starts, stops = offsets[beside], ends[beside]
        by_offset = np.argsort(starts, kind="stable")
        starts = starts[by_offset]
        # Between the highest end so far and the next start lies a gap, which may be empty or negative; behind the last one is room for all.
        behind = np.concatenate(([0], np.maximum.accumulate(stops[by_offset]))) if len(starts) else np.zeros(1, np.int64)
        gaps = starts - behind[:-1]
        fitting = np.flatnonzero(gaps >= size)
        place = behind[fitting[np.argmin(gaps[fitting])]] if len(fitting) else behind[-1]
        offsets[at], ends[at] = place, place + size
    return tuple(int(offset) for offset in offsets)
