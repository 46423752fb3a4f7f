"""How the threads of a pool share compiled work: tiles of stages with barriers between them, or tiles from a shared counter.

**Stages** begin when all tiles of the previous stage are done. A thread computes a tile in private memory; then it
commits the tile, and only the thread that has committed it writes and publishes its results. A tile that a thread has acquired
before the system suspended it is recomputed by another thread after a steal timeout: only the end of the launch waits for the thread.
Threads acquire their own part of the tiles first, in the reverse order of the previous stage, since data of the latest tiles is still in
their caches. A fused launch consists of tasks (see `launches`), whose stages follow each other without a wait for the end of a task.

The synchronization state has a cache line with the epoch, the active workers and the current stage, then two integers for each tile: the
latest stage in which a thread has acquired it, and twice the latest stage in which it was committed, plus 1 if its results are published.
Stage numbers grow from launch to launch, so values from earlier launches mean that a tile has not been acquired.

**Counted tiles** have no order and no barrier. The parameters begin with two integers: the ticket, made of the launch's epoch and how many
tiles have been taken from either end, and the number of finished tiles. A thread that wakes after its launch is over finds another epoch
there and does nothing. Threads with odd numbers begin at the last tile, the others at the first one: neighbouring tiles, and those at the
same place in the next launch, are mostly computed by the same thread, whose caches have what they read and write. Kernels leave all that
to `share_tiles` and `share_units`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.memory_kernels import long_at
from dmlpy.devices.cpu.runtime_kernels import add_integer, exchange_integer, indirect_call, nanoseconds, wait_between
from dmlpy.devices.cpu.simd import integer_at, set_integer, struct_view
from dmlpy.devices.cpu.thread_pool import ACTIVE_WORKERS, CURRENT_STAGE, EPOCH, TILE_STATE_SIZE, TILE_STATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.structs import CountedParameters, StagedParameters, UnitParameters
    from dmlpy.devices.cpu.thread_pool import TaskBody

_CLOSED = 1 << 15
"""The bit of the active workers that closes the launch; the bits below count them, those above are the launch's epoch."""
_EPOCH_SHIFT = 16
_COMMITTED = 8
"""The offset of the second integer of a tile's state."""
_LOOKS = 16
"""Polls for the end of a stage between two reads of the clock."""

NOTHING = -1
"""No tile."""

_END_BITS = 20
"""The bits of a ticket that count the tiles taken from one end: the first ones from the beginning, the next ones from the end."""
_TAKEN_BITS = 2 * _END_BITS
"""The bits of a ticket that count tiles. Launches of more tiles than one end counts take all from the beginning, with all these bits."""
_EPOCHS = (1 << 63 - _TAKEN_BITS) - 1
"""How many epochs tickets tell apart."""

_call_acquire = indirect_call(6)


# Stages


@jit
def enter(sync: Any, thread: Any, threads: Any, epoch: Any) -> Any:
    """Opens a launch, as the first thread, or enters it; returns whether the launch is still running. Whoever enters must leave.

    Args:
        sync: the address of the pool's synchronization state.
        thread: as for a task body, like the others.
        threads: the number of threads.
        epoch: stage numbers of the launch are above it.
    """
    if threads == 1:
        return True
    if thread == 0:
        set_integer(sync + ACTIVE_WORKERS, epoch + 1 << _EPOCH_SHIFT)
        set_integer(sync + CURRENT_STAGE, epoch + 1)
        set_integer(sync + EPOCH, epoch + 1)
        return True
    _wait_for_epoch(sync, epoch)
    while True:
        observed = integer_at(sync + ACTIVE_WORKERS)
        if observed >> _EPOCH_SHIFT != epoch + 1 or observed & _CLOSED:
            return False
        if exchange_integer(sync + ACTIVE_WORKERS, observed, observed + 1) == observed:
            return True


@jit
def _wait_for_epoch(sync: Any, epoch: Any) -> None:
    """Waits until the first thread has begun, or the launch is over: the pool raises the epoch then, too."""
    looks = 0
    while integer_at(sync + EPOCH) <= epoch:
        looks += 1
        wait_between(looks)


@jit
def leave(sync: Any, thread: Any, threads: Any) -> None:
    """Leaves a launch; the first thread waits until the others have left, too."""
    if threads == 1:
        return
    if thread > 0:
        add_integer(sync + ACTIVE_WORKERS, -1)
        return
    add_integer(sync + ACTIVE_WORKERS, _CLOSED)
    looks = 0
    while integer_at(sync + ACTIVE_WORKERS) & (_CLOSED - 1) > 0:
        looks += 1
        wait_between(looks)


@jit
def acquire(p: StagedParameters, sync: Any, thread: Any, threads: Any, stage: Any, tiles: Any, last: Any) -> Any:
    """Returns a tile of a stage that no thread has acquired, or one to recompute; -1 when all tiles are done.

    Args:
        p: the parameters: `acquire` is the address of the kernel of `build_acquire`, `steal_timeout` the nanoseconds that a thread waits
            for others before it recomputes a tile.
        sync: the address of the pool's synchronization state.
        thread: the number of this thread.
        threads: the number of threads.
        stage: the number of the stage.
        tiles: the number of tiles.
        last: the tile that this thread acquired last, NOTHING at first.
    """
    if threads > 1:
        return _call_acquire(p.acquire, (sync, thread, threads, stage, tiles, p.steal_timeout))
    if stage & 1 != 0:
        return last + 1 if last + 1 < tiles else NOTHING
    return last - 1 if last >= 0 else tiles - 1


def build_acquire() -> Callable[..., int]:
    """Acquires a tile, to be compiled: as `acquire`, for several threads."""
    return _acquire_shared


def _acquire_shared(sync: Any, thread: Any, threads: Any, stage: Any, tiles: Any, steal_timeout: Any) -> Any:
    ascending = stage & 1 != 0
    if integer_at(sync + CURRENT_STAGE) > stage:
        return -1
    for turn in range(threads):
        owner = (thread + turn) % threads
        first, end = tiles * owner // threads, tiles * (owner + 1) // threads
        for place in range(end - first):
            # Tiles of another thread are stolen in reverse order: it acquires those last.
            tile = first + place if ascending == (turn == 0) else end - 1 - place
            state = sync + TILE_STATES + TILE_STATE_SIZE * tile
            if integer_at(state) < stage:
                set_integer(state, stage)  # two threads may do so at once: both compute the tile, and one commits it
                return tile
    looks, until = 0, 0
    while True:
        again, waits = -1, False
        for place in range(tiles):
            tile = (tiles * thread // threads + place) % tiles
            committed = integer_at(sync + TILE_STATES + TILE_STATE_SIZE * tile + _COMMITTED)
            if committed <= 2 * stage:
                waits = True
                if committed < 2 * stage and again < 0:
                    again = tile
        if not waits:
            if integer_at(sync + CURRENT_STAGE) <= stage:
                set_integer(sync + CURRENT_STAGE, stage + 1)
            return -1
        looks += 1
        if looks % _LOOKS == 0:
            now = nanoseconds()
            if until == 0:
                until = now + steal_timeout
            if now > until and again >= 0:
                return again
        wait_between(looks)


@jit
def commit(sync: Any, threads: Any, stage: Any, tile: Any) -> Any:
    """Returns whether this thread has to write a tile's results and publish them."""
    if threads == 1:
        return True
    committed = sync + TILE_STATES + TILE_STATE_SIZE * tile + _COMMITTED
    observed = integer_at(committed)
    return observed < 2 * stage and exchange_integer(committed, observed, 2 * stage) == observed


@jit
def publish(sync: Any, threads: Any, stage: Any, tile: Any) -> None:
    """Marks the results of a tile that this thread has committed as written."""
    if threads > 1:
        set_integer(sync + TILE_STATES + TILE_STATE_SIZE * tile + _COMMITTED, 2 * stage + 1)


# Counted tiles


@jit
def _nothing(p: CountedParameters, thread: Any) -> None:
    """Prepares nothing, for threads that need no scratch."""


def share_tiles(kind: type[CountedParameters], run: Any, begin: Any = _nothing) -> TaskBody:
    """A thread's part of a launch of counted tiles, to be compiled.

    Args:
        kind: its parameters.
        run: run(p, tile, state), which computes a tile and returns the state for the thread's next one.
        begin: begin(p, thread), which returns the first state, such as the address of its scratch. Only a thread that has a tile calls it:
            the scratch of one that comes late may be in use.
    """
    parameters_at = struct_view(kind)

    def compute(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        tile = _first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        if tile < p.tiles:
            state = begin(p, thread)
            while tile < p.tiles:
                state = run(p, tile, state)
                finished += 1
                tile = _next_tile(parameters, tile, p.tiles, thread, threads, epoch)
        _wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return compute


def share_units(kind: type[UnitParameters], run: Any, begin: Any = _nothing) -> TaskBody:
    """A thread's part of a launch whose tiles are equal parts of many units, to be compiled.

    Args:
        kind: its parameters.
        run: run(p, first, last, state), which computes the units from `first` to before `last`.
        begin: begin(p, thread), which returns `state`, as for `share_tiles`.
    """

    @jit
    def run_tile(p: UnitParameters, tile: Any, state: Any) -> Any:
        run(p, p.units * tile // p.tiles, p.units * (tile + 1) // p.tiles, state)
        return state

    return share_tiles(kind, run_tile, begin)


@jit
def unit_addresses(axes: Any, table: Any, number: Any, first: Any, second: Any, third: Any) -> Any:
    """The addresses in three tensors at the unit of a number.

    Args:
        axes: the axes of the units.
        table: the address of the axes, innermost first, int64 [axes, 4]: units, and the bytes from one to the next in each tensor.
        number: the number of the unit.
        first: the address of the first tensor.
        second: that of the second one.
        third: that of the third one.
    """
    for axis in range(axes):
        row = table + 32 * axis
        size = long_at(row)
        place = number % size
        number //= size
        first += place * long_at(row + 8)
        second += place * long_at(row + 16)
        third += place * long_at(row + 24)
    return first, second, third


@jit
def own_scratch(p: Any, thread: Any) -> Any:
    """The address of a thread's scratch, with which it begins."""
    return p.scratch + thread * p.scratch_size


@jit
def _first_tile(state: Any, tiles: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> Any:
    """Begins or joins a launch, and acquires a tile; returns `tiles` or more if none is left.

    Args:
        state: the address of the parameters.
        tiles: the number of tiles.
        thread: as for a task body, like the others.
        threads: the number of threads.
        sync: the address of the pool's synchronization state.
        epoch: stage numbers of the launch are above it.
    """
    if threads == 1:
        return 0
    if thread == 0:
        set_integer(state + 8, 0)
        set_integer(state, _epoch_of(epoch) << _TAKEN_BITS)
        set_integer(sync + EPOCH, epoch + 1)
    else:
        _wait_for_epoch(sync, epoch)
    return _take_ticket(state, tiles, thread, epoch)


@jit
def _next_tile(state: Any, tile: Any, tiles: Any, thread: Any, threads: Any, epoch: Any) -> Any:
    """Acquires another tile after `tile`."""
    if threads == 1:
        return tile + 1
    return _take_ticket(state, tiles, thread, epoch)


@jit
def _epoch_of(epoch: Any) -> Any:
    """A launch's epoch in tickets: never 0, which unused parameters have."""
    return epoch % _EPOCHS + 1


@jit
def _take_ticket(state: Any, tiles: Any, thread: Any, epoch: Any) -> Any:
    most, has_ends = (1 << _END_BITS) - 1, tiles < 1 << _END_BITS
    from_end, of_launch = has_ends and thread & 1 != 0, _epoch_of(epoch)
    while True:
        ticket = integer_at(state)
        taken = ticket & (1 << _TAKEN_BITS) - 1
        first, last = taken & most if has_ends else taken, taken >> _END_BITS if has_ends else 0
        if ticket >> _TAKEN_BITS != of_launch or first + last >= tiles:
            return tiles
        if exchange_integer(state, ticket, ticket + (1 << _END_BITS if from_end else 1)) == ticket:
            return tiles - 1 - last if from_end else first


@jit
def _wait_for_all_tiles(state: Any, finished: Any, tiles: Any, thread: Any, threads: Any) -> None:
    """Adds the number of tiles that this thread has done; the first thread waits until all are done."""
    if threads == 1:
        return
    if finished > 0:
        add_integer(state + 8, finished)
    if thread == 0:
        looks = 0
        while integer_at(state + 8) < tiles:
            looks += 1
            wait_between(looks)
