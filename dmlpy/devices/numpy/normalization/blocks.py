"""Divides tensors into blocks that stay in a core's second-level cache while several calls work on them.

The axes are those of `dmlpy.devices.axes.merged`, so blocks follow the first tensor's memory whatever the layout is called. A block is a
range of each axis. Its view has the sizes (rows, fold, inner ...): the outermost axis that it takes more than one entry of is split in two,
and the axes outside that one are gone. All blocks of a range have the same groups; each leaves its sums in a separate row, so their
order, and with it every bit of the results, depends on the sizes and strides alone.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise, product
from math import ceil, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.devices.axes import Axis
from dmlpy.devices.plan import PlanPart

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK = 1 << 18
"""Entries of a block at most: 1 MiB of float32, a common second-level cache."""
TILE = 1 << 13
"""Entries of a block's row, at most, where a group has entries in several rows; a ufunc takes this many at once without a buffer."""
LONGEST = 1 << 13
"""The most entries of a single dot product. BLAS starts threads for more than 10,000."""
SHORT = 1 << 7
"""Entries of an innermost axis that are too few for a call of a ufunc's or BLAS's inner loop."""

Index = tuple[Any, ...]


class Block(NamedTuple):
    """A part of the tensors.

    Attributes:
        entries: index of its entries in a tensor whose dimensions are the axes of the `Blocking`.
        groups: index of its groups in a statistic, which has size 1 along reduced axes; gives as many dimensions as `shape` has.
        row: which of the blocks with these groups it is.
        shape: rows, fold, and the entries along each axis further in.
    """

    entries: Index
    groups: Index
    row: int
    shape: tuple[int, ...]


class Blocking(PlanPart):
    """The blocks of some axes.

    Attributes:
        axes: outermost first.
        statistics: sizes of a statistic: an axis' size, or 1 where it is reduced.
        group_size: entries of a group.
        expands: whether statistics are to be repeated in memory along all but a block's rows, because the innermost axis is too short to
            repeat them by strides.

    Args:
        axes: the axes of all tensors; none for a single entry.
        largest: entries of a block at most.
    """

    def __init__(self, axes: Sequence[Axis], largest: int = BLOCK) -> None:
        self.axes = tuple(axes) or (Axis(1, (), reduced=False),)
        self.statistics = tuple(1 if axis.reduced else axis.size for axis in self.axes)
        self.group_size = prod(axis.size for axis in self.axes if axis.reduced)
        extents = self._extents(largest)
        last = len(extents) - 1
        self._outer = next((at for at, extent in enumerate(extents) if extent > 1), last)
        reduced, inner = self.axes[self._outer].reduced, prod(extents[self._outer + 1 :])
        self.expands = reduced and self._outer < last and extents[last] < SHORT
        self._fold = 1
        if self.expands:
            self._fold = min(extents[self._outer], max(1, TILE // inner))
        elif reduced and self._outer == last:
            self._fold = extents[last] if extents[last] <= LONGEST else TILE
        extents[self._outer] -= extents[self._outer] % self._fold
        self._block = tuple(extents)

    def _extents(self, largest: int) -> list[int]:
        """The number of entries of a block along each axis."""
        extents, inside, reduced_inside = [1] * len(self.axes), 1, 1
        for at in reversed(range(len(self.axes))):
            axis, limited = self.axes[at], True
            if axis.reduced and at == len(self.axes) - 1 > 0:
                room = LONGEST
            elif not axis.reduced and reduced_inside < SHORT and any(outer.reduced for outer in self.axes[:at]):
                room = TILE // inside  # leaves room for rows: a block has as many sums as groups
            else:
                room, limited = largest // inside, False
            extents[at] = ceil(axis.size / ceil(axis.size / max(room, 1)))
            inside *= extents[at]
            reduced_inside *= extents[at] if axis.reduced else 1
            if extents[at] < axis.size and not limited:
                break
        return extents

    @cached_property
    def ranges(self) -> tuple[tuple[Block, ...], ...]:
        """The blocks, grouped by the groups that they share."""
        parts = [self._parts(at) for at in range(len(self.axes))]
        kept = [[slice(None)] if axis.reduced else axis_parts for axis, axis_parts in zip(self.axes, parts, strict=True)]
        reduced = [axis_parts if axis.reduced else [slice(None)] for axis, axis_parts in zip(self.axes, parts, strict=True)]
        return tuple(
            tuple(self._block_of(row, groups, entries) for row, entries in enumerate(product(*reduced))) for groups in product(*kept)
        )

    @cached_property
    def block_count(self) -> int:
        return sum(len(blocks) for blocks in self.ranges)

    @cached_property
    def rows(self) -> int:
        """The number of blocks that share the same groups."""
        return len(self.ranges[0])

    @cached_property
    def largest(self) -> tuple[int, ...]:
        """The shape of all blocks but those at the end of an axis."""
        return self.ranges[0][0].shape

    @cached_property
    def inner_reduced(self) -> tuple[int, ...]:
        """The dimensions of a block, without the rows, that groups extend over."""
        return tuple(1 + at for at, axis in enumerate(self.axes[self._outer :]) if axis.reduced)

    def _parts(self, at: int) -> list[slice]:
        """Divides an axis into ranges of the block's extent; on the folded axis the remainder of the last fold is a separate range."""
        size, extent = self.axes[at].size, self._block[at]
        edges = [*range(0, size, extent), size]
        if at == self._outer and edges[-2] < (whole := size - size % self._fold) < size:
            edges.insert(-1, whole)
        return [slice(start, stop) for start, stop in pairwise(edges)]

    def _block_of(self, row: int, groups: Sequence[slice], entries: Sequence[slice]) -> Block:
        outer = self._outer
        along = [part if axis.reduced else group_places for axis, group_places, part in zip(self.axes, groups, entries, strict=True)]
        first = along[outer].stop - along[outer].start
        fold = min(first, self._fold) if self.axes[outer].reduced else first
        group_places = [slice(0, 1) if axis.reduced else part for axis, part in zip(self.axes, groups, strict=True)]
        return Block(
            entries=(*(part.start for part in along[:outer]), *along[outer:]),
            groups=(*(part.start for part in group_places[:outer]), None, *group_places[outer:]),
            row=row,
            shape=(first // fold, fold, *(part.stop - part.start for part in along[outer + 1 :])),
        )
