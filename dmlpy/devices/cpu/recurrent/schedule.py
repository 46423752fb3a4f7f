"""How the work of a recurrent layer is arranged: its threads, the tiles of its steps, and its directions, in turn or both at once.

A tile is some blocks of units for some samples. Both passes use these rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.jit import ACQUIRE, Kernel
from dmlpy.devices.cpu.launches import Task, fuse_launches, steal_timeout_of
from dmlpy.devices.cpu.structs import ConcurrentParameters
from dmlpy.devices.host.floating_point import in_order
from dmlpy.devices.host.threads import available_threads

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.launches import HostCall, Work
    from dmlpy.devices.plan import Launch
    from dmlpy.operators.recurrent.layer import RecurrentCell, RecurrentGeometry

CONCURRENT_TASK = Kernel("dmlpy.devices.cpu.launch_kernels:build_concurrent_task", 5, returns=True)
"""The task that runs time loops at the same time, each on one thread."""

_NEVER_NS = 1 << 62
"""The steal timeout of work that cannot be computed twice: 146 years."""

_STEP_WORK = 1 << 15
"""Multiplications of a step's recurrent product that justify a thread despite the barriers. Two threads need twice as many: an
LSTM of 128 units and one sample, whose weights are 256 KB. Below, two threads were measured to gain nothing or to be slower."""
_DIRECTION_WORK = 1 << 21
"""Multiplications of a direction that are worth waking a thread for: some tens of microseconds."""

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


def step_threads(sizes: RecurrentGeometry, blocks: int) -> int:
    """The number of threads that share the steps of a layer with this many blocks of units."""
    if multiplications(sizes) < _DIRECTION_WORK:
        return 1
    recurrent = sizes.gates * sizes.hidden_size * sizes.state_size * sizes.batch_size
    return max(1, min(available_threads(), blocks, recurrent // _STEP_WORK))


def are_concurrent(sizes: RecurrentGeometry, threads: int) -> bool:
    """Returns whether both directions run at once, on a thread each: they never wait for each other.

    Args:
        sizes: the sizes of the layer.
        threads: those that share a step otherwise.
    """
    return sizes.num_directions == 2 <= available_threads() and threads <= 2 and multiplications(sizes) >= _DIRECTION_WORK


def described_order(threads: int, *, concurrent: bool) -> str:
    """The words of a plan's description for how its time loops run."""
    return "both at once, on a thread each" if concurrent else f"one after the other; {threads} thread(s)"


def has_second_stage(cell: RecurrentCell) -> bool:
    """Returns whether a step has a second stage, whose product reads the results of all units in the first one."""
    return cell.resets_first or cell.projection


def multiplications(sizes: RecurrentGeometry) -> int:
    """The multiplications of a direction, over all steps."""
    return sizes.gates * sizes.hidden_size * sizes.batch_size * (sizes.state_size + sizes.input_size) * sizes.seq_length


def described_options(cell: RecurrentCell, sizes: RecurrentGeometry, tensors: Collection[str]) -> list[str]:
    """Lines of a plan's description about dropout and the projection, by the names of the tensors that are present."""
    dropped = [name for name, tensor in (("x", "input_dropout_tensor"), ("h", "state_dropout_tensor")) if tensor in tensors]
    lines = [f"dropout of {' and '.join(dropped)}: the gates' products one after the other"] if dropped else []
    return [*lines, f"projection: {sizes.state_size} entries of h, a second product in each step"] if cell.projection else lines


def make_launch(work: Sequence[Work], *, ignores: bool = False) -> Launch:
    """Work as one launch, which can ignore NumPy's warnings of overflow and invalid values."""
    return in_order(fuse_launches(work), ignores=ignores)


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
    """The sums of one gate of a tile of a stage over this many blocks, at most, each of them a vector."""
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
