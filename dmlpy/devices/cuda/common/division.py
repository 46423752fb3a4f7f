"""Divides groups of entries among a grid, for every layout: `ThreadGroups` and `Splits` of raw_kernels/common/thread_groups.cuh."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.axes import Axis, element_count
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES, axes_type, axes_value
from dmlpy.devices.cuda.kernels import struct
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.runtime.interface import Limits

Value = np.ndarray[Any, Any]
"""One element of a struct, or of a field of one."""

FEW_THREADS = 256
"""Threads of a block if there are enough blocks: at least two of them fit a multiprocessor, within groups four."""

MOST_THREADS = 512
"""`most_block_threads`: those of a block if all blocks run at the same time anyway, one on a multiprocessor, within groups two."""

LANES = 32
"""The most lanes of a thread group: a warp then reads up to 512 contiguous bytes."""

BLOCKS_WITHIN, BLOCKS_ACROSS = 4, 6
"""Blocks for each multiprocessor that groups are split into. Four run on one at a time within groups, across them two or three: no last
few run alone."""

THREADS_WITHIN, THREADS_ACROSS = 1024, 512
"""The fewest resident threads of a multiprocessor that `resident_blocks` leaves registers for."""

SYSTEM_BYTES = 1024
"""Shared memory that the system reserves for each block, besides what the block requests, from compute capability 8.0 on."""

LEAST_KEPT = 0.5
"""The share of a group's vectors that must fit shared memory for any to be cached there; fewer do not justify the loss of occupancy."""

FREE_BLOCKS = 16
"""The blocks for each multiprocessor that groups are split into if blocks are independent."""

UNROLLED = 4
"""Vectors that a thread loads at a time: `unrolled` of raw_kernels/normalization."""

LINE_BYTES = 128
"""Bytes of a cache line."""

MERGING_LANES = 4
"""Groups of a block that merges splits."""

LEAST_VECTORS = 8
"""Vectors for each thread of a split, at least: with fewer, launches cost more than splits gain."""

MOST_VECTORS = 1024
"""Vectors for each thread of a split, at most: longer sums would lose digits of float32."""

NUMBERS = 2**32 - 2**12
"""An upper limit on all that kernels count: in 32 bits, with room for the excess of the last block or tile."""

TEAM_SIZE = struct(("lanes_log2", np.int32), ("slots_log2", np.int32))

SPLITS = struct(("partials", np.uint64), ("splits", np.uint32), ("groups", np.uint32), ("size", TEAM_SIZE))
"""`Splits<Part>`."""


@cache
def thread_groups_type(tensors: int) -> np.dtype[np.void]:
    """The struct type `ThreadGroups<tensors>`."""
    counts = ("vectors", "split_vectors", "row_vectors", "step_rows", "step_columns", "columns", "tiles", "count")
    return struct(
        ("outer", axes_type(tensors)),
        ("rows", axes_type(tensors)),
        ("vector_strides", np.int64, (tensors,)),
        *((name, np.uint32) for name in counts),
        ("size", TEAM_SIZE),
    )


class Division:
    """The division of an operator's groups among a grid, for one width of vectors.

    Attributes:
        width: entries of a vector.
        across: whether a vector's entries are of different groups: the innermost axis counts groups.
        vectors: the vectors of a group; across groups its entries.
        entries: the entries of a group.
        groups: the number of groups.
        side_by_side: groups along the innermost axis; 1 unless `across`.
        lanes: neighbouring threads of a thread group, on different groups.
        slots: threads of a thread group on the same groups.
        threads: the threads of a block.
        splits: parts of each group, in different blocks.
        grid: blocks of thread groups, and splits.
        cached: vectors of each tensor that a thread holds in shared memory for the second pass, instead of reading them again.
        part_bytes: the bytes of a thread's partial result of a group.

    Args:
        axes: the axes of data and statistics, as `merged` gives them; at least one.
        tensors: the number of the axes' tensors that are data, the first ones; the others are statistics.
        width: entries of a vector.
        item_size: bytes of an entry.
        limits: the device's limits.
        reduces: whether a group's threads need each other's sums; else any split is allowed.
        part_bytes: the bytes of a thread's partial result of a group.
        again: the number of tensors that a second pass rereads.

    Raises:
        DeviceError: there are more groups, or entries of a group, than kernels can index.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        tensors: int,
        width: int,
        item_size: int,
        limits: Limits,
        reduces: bool,
        part_bytes: int,
        again: int = 0,
    ) -> None:
        inner = axes[-1]
        self.width = width
        self.across = not inner.reduced
        self.part_bytes = part_bytes
        self._tensors = tensors
        self._limits = limits
        self._inner = inner
        self._vector_bytes = again * width * item_size
        self._outer = [axis for axis in axes[:-1] if not axis.reduced]
        self._rows = [axis for axis in axes[:-1] if axis.reduced]
        self._columns, self._row_vectors = (inner.size // width, 1) if self.across else (1, inner.size // width)
        self.vectors = element_count(self._rows) * self._row_vectors
        self.entries = self.vectors * (1 if self.across else width)
        self.side_by_side = inner.size if self.across else 1
        self.groups = element_count(self._outer) * self.side_by_side
        for count, what in ((self.entries, "entries of a group"), (self.groups, "groups")):
            if count >= NUMBERS:
                raise DeviceError(f"{count} {what}: at most {NUMBERS - 1}")
        multiprocessors = limits.multiprocessors
        self.lanes, self.splits = self._lanes_and_splits(width * item_size, multiprocessors, reduces)
        thread_groups = self._thread_groups(self.lanes)
        alone = thread_groups <= multiprocessors * (1 if self.across else 2)
        self.threads = MOST_THREADS if reduces and self.splits == 1 and (alone or self._crowds_out()) else FEW_THREADS
        # enough neighbours for a whole warp, then a few vectors per thread
        few = power_of_two(-(-self.vectors // self.splits) // UNROLLED)
        self.slots = min(self.threads // self.lanes, max(few, min(LANES // self.lanes, power_of_two(self.vectors))))
        size = self.lanes * self.slots
        self._block_thread_groups = max(1, min(FEW_THREADS // size, power_of_two(thread_groups // multiprocessors)))
        self.threads = size * self._block_thread_groups
        self._split_vectors = -(-self.vectors // (self.splits * self.slots)) * self.slots
        self.splits = -(-self.vectors // self._split_vectors)
        self.grid = (-(-thread_groups // self._block_thread_groups), self.splits)
        self.cached = self._vectors_to_cache(again) if again and self.splits == 1 else 0

    def _lanes_and_splits(self, vector_bytes: int, multiprocessors: int, reduces: bool) -> tuple[int, int]:
        all_columns = min(LANES, power_of_two(self._columns))
        # partial cache lines cost little if there is little to read, or if lanes would lack columns
        narrower = [1 << power for power in reversed(range(all_columns.bit_length()))]
        parts = [lanes for lanes in narrower if lanes == all_columns or lanes * vector_bytes >= LINE_BYTES // 2]
        widest = max(parts, key=lambda lanes: (min(self._columns / (lanes * -(-self._columns // lanes)), 0.75), lanes))
        if not reduces:
            return widest, self._splits(widest, FREE_BLOCKS * multiprocessors)
        parts = [lanes for lanes in parts if lanes <= widest]
        enough, blocks = 3 * multiprocessors // 4, multiprocessors * (BLOCKS_ACROSS if self.across else BLOCKS_WITHIN)
        for lanes in parts:
            if self._thread_groups(lanes) >= enough and (lanes == widest or lanes * vector_bytes >= LINE_BYTES):
                return lanes, self._least_splits(lanes)
        lanes = next((lanes for lanes in parts if self._thread_groups(lanes) >= enough), parts[-1])
        if self._splits(lanes, blocks) == 1:
            return lanes, 1
        return widest, max(self._splits(widest, blocks), self._least_splits(widest))

    def _thread_groups(self, lanes: int) -> int:
        """ThreadGroups of this many lanes."""
        return element_count(self._outer) * -(-self._columns // lanes)

    def _splits(self, lanes: int, blocks: int) -> int:
        """Splits for this many blocks in total, fewer if threads would not have enough to do."""
        return max(1, min(blocks // self._thread_groups(lanes), self.vectors * lanes // (LEAST_VECTORS * FEW_THREADS)))

    def _least_splits(self, lanes: int) -> int:
        """The fewest splits that leave no thread too many terms to sum in sequence."""
        return -(-self.vectors * lanes // (MOST_VECTORS * FEW_THREADS))

    def _crowds_out(self) -> bool:
        """Returns whether blocks that cache a thread group's vectors limit occupancy by shared memory below that by registers."""
        size, room = self.vectors * self.lanes * self._vector_bytes, self._limits.shared_memory_per_block
        return LEAST_KEPT * size <= room < size * self._most_threads // FEW_THREADS

    def _vectors_to_cache(self, again: int) -> int:
        """The vectors that a thread caches: all of them, or as many as fit shared memory; none if caching takes longer.

        Time is counted in passes over one tensor: each reread tensor is read once, one is written, and data that is not cached
        is read twice. It grows if blocks with so much shared memory run in rounds of which the last one leaves multiprocessors idle.
        """
        room = self._limits.shared_memory_per_block - self._shared_bytes(0)
        kept = max(0, min(self._thread_vectors, room // (self.threads * self._vector_bytes)))
        share = kept / self._thread_vectors
        if share < LEAST_KEPT:
            return 0
        passes = again + 1
        keeping = (passes + (1 - share) * again) * self._idling(self._resident_blocks(kept))
        return kept if keeping < (passes + again) * self._idling(self._resident_blocks(0)) else 0

    def _idling(self, resident_blocks: int) -> float:
        """The factor by which blocks take longer because some multiprocessors idle in the last round; 1 for a single round."""
        rounds = self.grid[0] / (self._limits.multiprocessors * resident_blocks)
        return ceil(rounds) / rounds if rounds > 1 else 1.0

    def _resident_blocks(self, kept: int) -> int:
        """The number of blocks that run together on a multiprocessor if each thread caches this many vectors of each tensor."""
        by_memory = (self._limits.shared_memory_per_block + SYSTEM_BYTES) // (self._shared_bytes(kept) + SYSTEM_BYTES)
        return max(1, min(by_memory, self._most_threads // self.threads))

    @property
    def _most_threads(self) -> int:
        """The most threads that a multiprocessor runs at a time."""
        return THREADS_ACROSS if self.across else THREADS_WITHIN

    @property
    def _thread_vectors(self) -> int:
        """The largest number of vectors that a thread processes."""
        return self._split_vectors // self.slots

    @property
    def kept_share(self) -> float:
        """The share of a group that the second pass finds in shared memory."""
        return min(1.0, self.cached * self.slots / self.vectors)

    def resident_groups(self) -> int:
        """The number of groups in flight: those of the blocks that run together, or all if groups are split."""
        if self.splits > 1:
            return self.groups
        thread_groups = self._limits.multiprocessors * self._resident_blocks(self.cached) * self._block_thread_groups
        return min(self.groups, thread_groups * self.lanes * (self.width if self.across else 1))

    @property
    def partial_bytes(self) -> int:
        """Bytes of the partial results of all groups in all splits."""
        return self.splits * self.groups * self.part_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for a block's partial sums and for its cached vectors."""
        return self._shared_bytes(self.cached)

    def _shared_bytes(self, kept: int) -> int:
        parts = self.threads * (self.width if self.across else 1) * self.part_bytes
        return -(-parts // VECTOR_BYTES) * VECTOR_BYTES + kept * self.threads * self._vector_bytes

    def thread_groups(self) -> Value:
        """The value of a `ThreadGroups` field."""
        value = np.zeros((), thread_groups_type(self._tensors))
        value["outer"] = axes_value(of_tensors(self._outer, slice(0, self._tensors)), self._tensors)
        value["rows"] = axes_value(of_tensors(self._rows, slice(0, self._tensors)), self._tensors)
        # a vector spans `width` elements, or a single repeated one
        value["vector_strides"] = [self.width * stride for stride in self._inner.strides[: self._tensors]]
        value["vectors"], value["split_vectors"], value["row_vectors"] = self.vectors, self._split_vectors, self._row_vectors
        value["step_rows"], value["step_columns"] = divmod(self.slots, self._row_vectors)
        value["columns"], value["tiles"] = self._columns, -(-self._columns // self.lanes)
        value["count"] = self._thread_groups(self.lanes)
        value["size"] = (self.lanes.bit_length() - 1, self.slots.bit_length() - 1)
        return value

    def statistics(self) -> tuple[Value, tuple[int, ...]]:
        """The outer axes of the statistics, and their strides along the innermost axis."""
        count = len(self._inner.strides) - self._tensors
        strides = self._inner.strides[self._tensors :] if self.across else (0,) * count
        return axes_value(of_tensors(self._outer, slice(self._tensors, None)), count), strides

    def merging(self) -> MergingDivision:
        """The division of the grid that merges the splits."""
        lanes = min(MERGING_LANES, power_of_two(self.groups))
        slots = min(MOST_THREADS // lanes, power_of_two(self.splits))
        return MergingDivision(lanes, slots, -(-self.groups // lanes), self.part_bytes)

    def describe(self) -> str:
        """Describes the division in words."""
        where = "across groups" if self.across else "within a group"
        owned = self.lanes * (self.width if self.across else 1)
        thread_groups = (
            f"{self._thread_groups(self.lanes)} thread groups of {self.lanes} x {self.slots} threads, each on {owned} groups at a time"
        )
        splits = f"each group in {self.splits} splits, to share the work out to more blocks" if self.splits > 1 else "no group is split"
        text = f"{self.groups} groups of {self.entries} entries; vectors of {self.width} {where}; {thread_groups}; {splits}"
        if self.cached:
            share = "all" if self.kept_share == 1 else f"{self.kept_share:.0%}"
            text += f"; {share} of a group stays in shared memory between the passes, {self.shared_bytes} bytes a block"
        return text


@dataclass(frozen=True)
class MergingDivision:
    """The division of a grid that merges splits: a block has `lanes` groups with `slots` threads each."""

    lanes: int
    slots: int
    blocks: int
    part_bytes: int

    @property
    def threads(self) -> int:
        return self.lanes * self.slots

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for a block's partial sums."""
        return self.threads * self.part_bytes

    def splits(self, division: Division, partials: int) -> tuple[Any, ...]:
        """The value of a `SPLITS` field."""
        return partials, division.splits, division.groups, (self.lanes.bit_length() - 1, self.slots.bit_length() - 1)


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below this number."""
    return 1 << max(0, number - 1).bit_length()


def of_tensors(axes: Sequence[Axis], tensors: slice) -> list[Axis]:
    """The axes restricted to some of the tensors."""
    return [Axis(axis.size, axis.strides[tensors], axis.reduced) for axis in axes]
