"""How the work of a recurrent layer is arranged: the tiles of its steps, and its directions, one after the other or both at once.

A tile is some blocks of units for some samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.launches import Task, steal_timeout_of
from dmlpy.devices.cpu.thread_pool import shared_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.launches import HostCall, Work
    from dmlpy.operators.recurrent.layer import RecurrentGeometry

CONCURRENT_LAUNCH = Kernel("dmlpy.devices.cpu.thread_pool_kernels:build_concurrent_launch", 5)
"""The body that runs time loops at the same time, each on one thread."""

_TILE = 1 << 16
"""Multiplications of a tile, at least, unless the threads would have too few: half a microsecond or more."""
_TILE_ROWS = 64
"""Samples of a tile, at most."""
_TILE_BYTES = 1 << 14
"""Bytes of the sums of a tile, at most, unless a block has more: they stay in the first-level cache."""
_TILES = 8
"""About how many tiles a thread needs so that others can steal from a suspended one; each tile costs every thread a check."""

Array = np.ndarray[Any, np.dtype[Any]]
Copy = tuple[Array, Array | float]
"""The target and the source of a copy."""


@dataclass(frozen=True)
class Span:
    """The steps of one call of a time loop, and the copies around it."""

    before: Sequence[Copy]
    parameters: Array
    address: int
    """The address of the parameters."""
    stages: int
    after: Sequence[Copy]


@dataclass(frozen=True)
class Direction:
    """The work of a direction: before the first span, the spans, and after the last span."""

    begin: HostCall
    spans: Sequence[Span]
    end: HostCall


def copy(copies: Sequence[Copy]) -> None:
    """Executes copies in order."""
    for target, source in copies:
        target[...] = source


def schedule_direction(time_loop: int, direction: Direction, threads: int, tiles: int) -> list[Work]:
    """The work of a single direction, each step on so many threads; a stage has `tiles` tiles at most."""
    work: list[Work] = [direction.begin]
    for span in direction.spans:
        before: list[Work] = [partial(copy, span.before)] if span.before else []
        after: list[Work] = [partial(copy, span.after)] if span.after else []
        work += [*before, Task(time_loop, span.address, span.stages, tiles, threads, True, span), *after]
    return [*work, direction.end]


def schedule_concurrently(time_loop: int, directions: Sequence[Direction]) -> HostCall:
    """The work of two directions at once, with one thread each: they never wait for each other. `time_loop` is the time loop's address."""
    each, launches = CONCURRENT_LAUNCH(), []
    for spans in zip(*(direction.spans for direction in directions), strict=True):
        pairs = [number for span in spans for number in (time_loop, span.address)]
        launches.append((spans, np.array([0, 0, len(spans), *pairs], np.int64)))

    def run() -> None:
        for direction in directions:
            direction.begin()
        for spans, parameters in launches:
            for span in spans:
                copy(span.before)
            shared_pool().run(each, parameters.ctypes.data, 2, memory=(spans, parameters))
            for span in spans:
                copy(span.after)
        for direction in directions:
            direction.end()

    return run


def tile_groups(sizes: RecurrentGeometry, blocks: int, threads: int, isa: Isa) -> tuple[int, int]:
    """The division of the blocks and of the samples into tiles. That of the samples does not depend on the threads."""
    sample_groups = -(-sizes.batch_size // _TILE_ROWS)
    if threads == 1:
        return blocks, sample_groups
    rows = -(-sizes.batch_size // sample_groups)
    sums = FLOAT_BYTES * isa.lanes * sizes.gates * rows * blocks
    enough = min(sizes.gates * sizes.hidden_size * sizes.state_size * rows // _TILE, _TILES * threads)
    return min(blocks, max(enough, threads, -(-sums // _TILE_BYTES))), sample_groups


def tile_size(sizes: RecurrentGeometry, blocks: int, groups: tuple[int, int]) -> int:
    """The sums of one gate of a tile of a stage over so many blocks, at most, each of them a vector."""
    block_groups, sample_groups = groups
    return -(-blocks // block_groups) * -(-sizes.batch_size // sample_groups)


def recurrence_steal_timeout(sizes: RecurrentGeometry, groups: tuple[int, int], chunk_rows: int, isa: Isa) -> int:
    """The steal timeout in nanoseconds: a few times the time of a tile.

    Args:
        sizes: the sizes of the layer.
        groups: the result of `tile_groups`.
        chunk_rows: rows of an input product, whose tiles are blocks; 0 where there is none.
        isa: the instruction set that the time loop is compiled for.
    """
    step = sizes.gates * sizes.hidden_size * sizes.state_size * sizes.batch_size // prod(groups)
    product = sizes.gates * isa.lanes * sizes.input_size * chunk_rows
    return steal_timeout_of(max(step, product) // isa.lanes)
