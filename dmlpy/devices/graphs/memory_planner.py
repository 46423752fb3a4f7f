"""Plans where the tensors of a graph lie in one block of memory, so that tensors that are never needed at the same time share it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

ALIGNMENT = 256
"""Every item begins at a multiple of this many bytes, as DirectML's temporary resources do."""


def aligned(size: int) -> int:
    """The size, rounded up to a multiple of `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Item(NamedTuple):
    """Memory that is needed for consecutive steps.

    Attributes:
        name: its contents, for reports.
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
        items: the items.
        offsets: where each item begins, in bytes; multiples of `ALIGNMENT`.
        method: the method that chose the places.
        placed: the order in which it placed the items; empty if it was that of execution by itself.
    """

    items: tuple[Item, ...]
    offsets: tuple[int, ...]
    method: str
    placed: tuple[int, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def size(self) -> int:
        """Bytes of the block."""
        return max((offset + aligned(item.size) for item, offset in zip(self.items, self.offsets, strict=True)), default=0)

    @cached_property
    def live_bytes(self) -> tuple[int, ...]:
        """Bytes of the items that are needed at each step, each rounded up to a multiple of `ALIGNMENT`."""
        changes = [0] * (max((item.last for item in self.items), default=-1) + 2)
        for item in self.items:
            size = aligned(item.size)
            changes[item.first] += size
            changes[item.last + 1] -= size
        return tuple(accumulate(changes[:-1]))

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
_MOST_PAIRS = 2**20
"""The most pairs of items that are needed at once: each method visits each pair. A thousand items may all be needed at once."""
_FEW = 16
"""Up to this many neighbours of an item, lists are faster than arrays, each of whose functions takes some microseconds."""
_IN_ORDER = "in order of execution"

Neighbours = Sequence[Sequence[int]] | Sequence[np.ndarray[Any, np.dtype[np.int64]]]
"""For each item the numbers of those that are needed at the same time: lists if they are few, arrays if they are many."""


def plan_memory(items: Iterable[Item], like: MemoryPlan | None = None) -> MemoryPlan:
    """Chooses places by several greedy methods and takes the smallest block; of equals the first.

    Each method goes through the items in another order, and puts each into the smallest gap that holds it, between the items that are
    needed at the same time and have their places already. "by size" is the method of arXiv 2001.03288; "in order of execution" places items
    as an allocator that knows when they are freed; "by duration" suits graphs in which large items live briefly next to small ones that
    live long. A plan above the lower bound is improved by attempts in which the item with the highest end is placed earlier. If too many
    items are needed at once to compare them all, they are placed in order of execution only.

    Args:
        items: the items.
        like: a plan of items of other sizes. If they are needed at the same steps as these, these are placed in its order: no other is
            tried.
    """
    given = tuple(items)
    if len(given) < 2:
        return MemoryPlan(given, (0,) * len(given), "by size")
    neighbours = _neighbours(given)
    if neighbours is None:
        return MemoryPlan(given, _places_in_order(given), _IN_ORDER)
    if like is not None and like.placed and _steps(like.items) == _steps(given):
        return MemoryPlan(given, _places(given, like.placed, neighbours), like.method, like.placed)
    numbers = range(len(given))
    orders = {
        "by size": sorted(numbers, key=lambda at: (-given[at].size, given[at].first)),
        _IN_ORDER: _by_first_use(given),
        "by duration": sorted(numbers, key=lambda at: (given[at].first - given[at].last, -given[at].size)),
    }
    plans = {}
    for method, order in orders.items():
        plans[method] = MemoryPlan(given, _places(given, order, neighbours), method, tuple(order))
        if plans[method].size == plans[method].lower_bound:
            return plans[method]
    improved = [_improve(plan, orders[method], neighbours, _MOST_PLACEMENTS // len(plans)) for method, plan in plans.items()]
    return min(improved, key=lambda plan: plan.size)


def _improve(plan: MemoryPlan, order: Sequence[int], neighbours: Neighbours, placements: int) -> MemoryPlan:
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
        method = f"{best.method.removesuffix(', improved')}, improved"
        plan = MemoryPlan(items, _places(items, current, neighbours), method, tuple(current))
        best = min(best, plan, key=lambda some: some.size)
        if best.size == best.lower_bound:
            break
    return best


def _steps(items: Sequence[Item]) -> list[tuple[int, int]]:
    """The first and last step that needs each item."""
    return [(item.first, item.last) for item in items]


def _by_first_use(items: Sequence[Item]) -> list[int]:
    """The items in the order in which they are written, the largest first of those that one step writes."""
    return sorted(range(len(items)), key=lambda at: (items[at].first, -items[at].size))


def _neighbours(items: Sequence[Item]) -> Neighbours | None:
    """The items that are needed at the same time as each; None if there are too many pairs."""
    if len(items) <= _FEW:
        return [
            [at for at, other in enumerate(items) if other is not item and other.first <= item.last and item.first <= other.last]
            for item in items
        ]
    firsts = np.array([item.first for item in items], np.int64)
    lasts = np.array([item.last for item in items], np.int64)
    order = np.argsort(firsts, kind="stable")
    places = np.arange(len(items))
    # Each pair is found by the one that begins first: the other one begins before it ends.
    counts = np.searchsorted(firsts[order], lasts[order], side="right") - places - 1
    if 2 * int(counts.sum()) > _MOST_PAIRS:
        return None
    earlier = np.repeat(places, counts)
    later = np.arange(len(earlier)) - np.repeat(np.cumsum(counts) - counts, counts) + earlier + 1
    pairs = np.concatenate((order[earlier], order[later])), np.concatenate((order[later], order[earlier]))
    by_item = np.lexsort(pairs[::-1])
    neighbours = np.split(pairs[1][by_item], np.searchsorted(pairs[0][by_item], places[1:]))
    return [of_item.tolist() for of_item in neighbours] if len(by_item) <= _FEW * len(items) else neighbours


def _places(items: Sequence[Item], order: Iterable[int], neighbours: Neighbours) -> tuple[int, ...]:
    """The offsets of items that are placed in this order, each in the smallest gap that holds it."""
    if isinstance(neighbours[0], list):
        return _places_among_few(items, order, neighbours)
    offsets = np.full(len(items), -1, np.int64)
    ends = np.zeros(len(items), np.int64)
    for at in order:
        size = aligned(items[at].size)
        near = np.asarray(neighbours[at])
        placed = near[offsets[near] >= 0]
        starts, stops = offsets[placed], ends[placed]
        by_offset = np.argsort(starts, kind="stable")
        starts = starts[by_offset]
        # Between the highest end so far and the next start lies a gap, which may be empty or negative; behind the last one is room for all.
        behind = np.concatenate(([0], np.maximum.accumulate(stops[by_offset]))) if len(starts) else np.zeros(1, np.int64)
        gaps = starts - behind[:-1]
        fitting = np.flatnonzero(gaps >= size)
        place = behind[fitting[np.argmin(gaps[fitting])]] if len(fitting) else behind[-1]
        offsets[at], ends[at] = place, place + size
    return tuple(int(offset) for offset in offsets)


def _places_among_few(items: Sequence[Item], order: Iterable[int], neighbours: Neighbours) -> tuple[int, ...]:
    """The result of `_places`, without arrays."""
    placed: dict[int, tuple[int, int]] = {}
    for at in order:
        size, behind = aligned(items[at].size), 0
        place, room = -1, 0
        for start, stop in sorted(placed[other] for other in neighbours[at] if other in placed):
            gap = start - behind
            if gap >= size and (place < 0 or gap < room):
                place, room = behind, gap
            behind = max(behind, stop)
        if place < 0:
            place = behind
        placed[at] = place, place + size
    return tuple(placed[at][0] for at in range(len(items)))


def _places_in_order(items: Sequence[Item]) -> tuple[int, ...]:
    """The result of `_places` for the items in order of execution, with a list of the gaps."""
    offsets = [0] * len(items)
    gaps: list[tuple[int, int]] = []
    """Size and start of each, sorted."""
    starts, ends = dict[int, int](), dict[int, int]()
    """The end of each gap by its start, and the start by its end."""
    top = 0
    live: list[tuple[int, int, int]] = []
    """Last step, start and end of each item that has its place."""

    def cut(start: int, end: int) -> None:
        del gaps[bisect_left(gaps, (end - start, start))], starts[start], ends[end]

    def add(start: int, end: int) -> None:
        insort(gaps, (end - start, start))
        starts[start], ends[end] = end, start

    for at in _by_first_use(items):
        while live and live[0][0] < items[at].first:
            _, start, end = heappop(live)
            if (before := ends.get(start)) is not None:
                cut(before, start)
                start = before
            if (after := starts.get(end)) is not None:
                cut(end, after)
                end = after
            if end == top:
                top = start
            else:
                add(start, end)
        size = aligned(items[at].size)
        gap_index = bisect_left(gaps, (size, 0))
        if gap_index < len(gaps):
            room, place = gaps[gap_index]
            cut(place, place + room)
            if room > size:
                add(place + size, place + room)
        else:
            place, top = top, top + size
        offsets[at] = place
        heappush(live, (items[at].last, place, place + size))
    return tuple(offsets)
