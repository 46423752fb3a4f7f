"""A compiled task body of stages, for the tests of `thread_pool_kernels`: each tile sums all tiles of the stage before."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import ExternalFunction
from dmlpy.devices.cpu.jit import ACQUIRE, Kernel
from dmlpy.devices.cpu.runtime_kernels import add_integer, nanoseconds
from dmlpy.devices.cpu.simd import integer_at, set_integer, struct_view
from dmlpy.devices.cpu.structs import make_struct
from dmlpy.devices.cpu.thread_pool import TILE_STATE_SIZE, TILE_STATES
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, acquire, commit, enter, leave, publish

Array = np.ndarray[Any, np.dtype[Any]]

NOBODY, COMPUTING, WRITING = range(3)
"""What thread 1 does when it is held back, once."""

_NAMES = ("stages", "tiles", "steal_timeout", "acquire", "values", "written", "held", "held_us", "begun", "ended", "joined")
PARAMETERS = np.dtype([(name, np.int64) for name in _NAMES])
_sleep = ExternalFunction("usleep", types.int32(types.int32))


@cache
def body() -> Any:
    """The task body, compiled."""
    return Kernel("tests.support.cpu.stage_work:build_body", 5)()


def build_body() -> Any:
    """The task body. It counts how often a tile's results are written, and notes when it was held back and when the first thread ended."""
    parameters_at = struct_view(PARAMETERS)

    def work(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        if not enter(sync, thread, threads, epoch):
            return
        add_integer(p.joined, 1)
        for stage in range(p.stages):
            stage_number, before, after = epoch + 1 + stage, p.values + 8 * stage * p.tiles, p.values + 8 * (stage + 1) * p.tiles
            tile = acquire(p, sync, thread, threads, stage_number, p.tiles, NOTHING)
            while tile >= 0:
                total = tile
                for other in range(p.tiles):
                    total += integer_at(before + 8 * other)
                held = thread == 1 and integer_at(p.begun) == 0
                if held and p.held == COMPUTING:
                    set_integer(p.begun, nanoseconds())
                    _sleep(p.held_us)
                if commit(sync, threads, stage_number, tile):
                    if held and p.held == WRITING:
                        set_integer(p.begun, nanoseconds())
                        _sleep(p.held_us)
                    set_integer(after + 8 * tile, total & 0xFFFFFF)
                    add_integer(p.written + 8 * (stage * p.tiles + tile), 1)
                    publish(sync, threads, stage_number, tile)
                tile = acquire(p, sync, thread, threads, stage_number, p.tiles, tile)
        if thread == 0:
            set_integer(p.ended, nanoseconds())
        leave(sync, thread, threads)

    return work


class Work:
    """Memory for the task body.

    Attributes:
        values: [stages + 1, tiles], the first row given.
        written: [stages, tiles], how often each has been written.
        times: when thread 1 was held back and when the first one was done, in nanoseconds, and how many threads joined.
    """

    def __init__(self, stages: int, tiles: int, *, steal_timeout: int = 20_000, held: int = NOBODY, held_s: float = 0.0) -> None:
        self.stages, self.tiles = stages, tiles
        self.values, self.written = np.zeros((stages + 1, tiles), np.int64), np.zeros((stages, tiles), np.int64)
        self.values[0] = np.arange(tiles) + 1
        self.times = np.zeros(3, np.int64)
        begun, ended, joined = (self.times.ctypes.data + 8 * place for place in range(3))
        values = {
            "stages": stages,
            "tiles": tiles,
            "steal_timeout": steal_timeout,
            "acquire": ACQUIRE.address(),
            "held": held,
            "held_us": round(1e6 * held_s),
        }
        addresses = {"values": self.values.ctypes.data, "written": self.written.ctypes.data, "begun": begun, "ended": ended}
        self.parameters = make_struct(PARAMETERS, {**values, **addresses, "joined": joined})

    def expected(self) -> Array:
        """The values of all stages."""
        rows = [self.values[0]]
        for _ in range(self.stages):
            rows.append((rows[-1].sum() + np.arange(self.tiles)) & 0xFFFFFF)
        return np.array(rows)

    def check(self) -> None:
        """Compares the values, each of which one thread has written."""
        np.testing.assert_array_equal(self.values, self.expected())
        np.testing.assert_array_equal(self.written, 1)


def sync(tiles: int) -> Array:
    """A synchronization state as a thread pool has it, whose address is a cache line's."""
    memory = np.zeros(TILE_STATES + TILE_STATE_SIZE * tiles + 64, np.uint8)
    return memory[-memory.ctypes.data % 64 :][: TILE_STATES + TILE_STATE_SIZE * tiles].view(np.int64)
