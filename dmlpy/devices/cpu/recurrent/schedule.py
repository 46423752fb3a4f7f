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
from dmlpy.devices.cpu.jit import ACQUIRE, Kernel
from dmlpy.devices.cpu.launches import Task, steal_timeout_of
from dmlpy.devices.cpu.structs import ConcurrentParameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.launches import HostCall, Work
    from dmlpy.operators.recurrent.layer import RecurrentGeometry

CONCURRENT_TASK = Kernel("dmlpy.devices.cpu.launch_kernels:build_concurrent_task", 5, returns=True)
"""The task that runs time loops at the same time, each on one thread."""

_NEVER_NS = 1 << 62
"""The steal timeout of what nobody computes again: 146 years."""

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


def schedule_in_turn(time_loop: int, directions: Sequence[Direction], packing: Sequence[Task], threads: int, tiles: int) -> list[Work]:
    """The work of directions, one after the other.

    Args:
        time_loop: the time loop's address.
        directions: the directions.
        packing: what precedes the first time loop, in one launch with it.
        threads: those that share each step.
        tiles: the tiles of a stage, at most.
    """
    work: list[Work] = []
    for direction in directions:
        work.append(direction.begin)
        for span in direction.spans:
            before, after = _copies([span.before]), _copies([span.after])
            work += [*before, *packing, Task(time_loop, span.parameters.ctypes.data, span.stages, tiles, threads, True, span), *after]
            packing = ()
        work.append(direction.end)
    return work


def schedule_concurrently(time_loop: int, directions: Sequence[Direction], packing: Sequence[Task]) -> list[Work]:
    """The work of both directions at once, with one thread each: they never wait for each other.

    Args:
        time_loop: the time loop's address.
        directions: the directions.
        packing: what precedes the first time loops, in one launch with them.
    """
    work: list[Work] = [direction.begin for direction in directions]
    for spans in zip(*(direction.spans for direction in directions), strict=True):
        before, after = _copies([span.before for span in spans]), _copies([span.after for span in spans])
        work += [*before, *packing, concurrent_task(time_loop, [span.parameters for span in spans]), *after]
        packing = ()
    return [*work, *(direction.end for direction in directions)]


def _copies(copies: Sequence[Sequence[Copy]]) -> list[Work]:
    return [partial(copy, each) for each in copies if each]


def concurrent_task(time_loop: int, loops: Sequence[Array]) -> Task:
    """A task that runs time loops at the same time.

    Args:
        time_loop: the time loop's address.
        loops: the parameters of each.
    """
    entries = np.array([(time_loop, parameters.ctypes.data) for parameters in loops], np.int64)
    values = {"acquire": ACQUIRE.address(), "steal_timeout": _NEVER_NS, "tasks": len(loops), "entries": entries.ctypes.data}
    parameters = ConcurrentParameters.make(values)
    return Task(CONCURRENT_TASK.address(), parameters.ctypes.data, 1, len(loops), len(loops), True, (parameters, entries, loops))


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
