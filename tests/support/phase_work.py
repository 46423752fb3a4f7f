"""A compiled share of work in phases, for the tests of `thread_pool_kernels`: each item sums all items of the phase before."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit, types

from dmlpy.devices.cpu.atomics import add_integer
from dmlpy.devices.cpu.records import record_of
from dmlpy.devices.cpu.shared_kernels import TAKE
from dmlpy.devices.cpu.simd import integer_at, record_at, set_integer
from dmlpy.devices.cpu.thread_pool import BOARD_CELL, BOARD_CELLS
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, claim, enter, leave, take, tell
from dmlpy.devices.cpu.waiting import nanoseconds

Array = np.ndarray[Any, np.dtype[Any]]

NOBODY, COMPUTING, WRITING = range(3)
"""What thread 1 does when it is held back, once."""

_NAMES = ("phases", "items", "patience", "take", "values", "written", "held", "held_us", "begun", "ended", "joined")
PARAMETERS = np.dtype([(name, np.int64) for name in _NAMES])
_sleep = types.ExternalFunction("usleep", types.int32(types.int32))


@cache
def share() -> Any:
    """The share. It counts how often an item's results are written, and tells when it was held back and when the first thread is done."""
    parameters_at = record_at(PARAMETERS)

    def work(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        p = parameters_at(parameters)
        if not enter(board, thread, threads, met):
            return
        add_integer(p.joined, 1)
        for phase in range(p.phases):
            number, before, after = met + 1 + phase, p.values + 8 * phase * p.items, p.values + 8 * (phase + 1) * p.items
            item = take(p, board, thread, threads, number, p.items, NOTHING)
            while item >= 0:
                total = item
                for other in range(p.items):
                    total += integer_at(before + 8 * other)
                held = thread == 1 and integer_at(p.begun) == 0
                if held and p.held == COMPUTING:
                    set_integer(p.begun, nanoseconds())
                    _sleep(p.held_us)
                if claim(board, threads, number, item):
                    if held and p.held == WRITING:
                        set_integer(p.begun, nanoseconds())
                        _sleep(p.held_us)
                    set_integer(after + 8 * item, total & 0xFFFFFF)
                    add_integer(p.written + 8 * (phase * p.items + item), 1)
                    tell(board, threads, number, item)
                item = take(p, board, thread, threads, number, p.items, item)
        if thread == 0:
            set_integer(p.ended, nanoseconds())
        leave(board, thread, threads)

    return njit([types.void(*[types.int64] * 5)], error_model="numpy", nogil=True)(work)


class Work:
    """Memory for the share.

    Attributes:
        values: [phases + 1, items], the first row given.
        written: [phases, items], how often each has been written.
        times: when thread 1 was held back and when the first one was done, in nanoseconds, and how many threads joined.
    """

    def __init__(self, phases: int, items: int, *, patience: int = 20_000, held: int = NOBODY, held_s: float = 0.0) -> None:
        self.phases, self.items = phases, items
        self.values, self.written = np.zeros((phases + 1, items), np.int64), np.zeros((phases, items), np.int64)
        self.values[0] = np.arange(items) + 1
        self.times = np.zeros(3, np.int64)
        begun, ended, joined = (self.times.ctypes.data + 8 * place for place in range(3))
        values = {
            "phases": phases,
            "items": items,
            "patience": patience,
            "take": TAKE.address(),
            "held": held,
            "held_us": round(1e6 * held_s),
        }
        addresses = {"values": self.values.ctypes.data, "written": self.written.ctypes.data, "begun": begun, "ended": ended}
        self.parameters = record_of(PARAMETERS, {**values, **addresses, "joined": joined})

    def expected(self) -> Array:
        """The values of all phases."""
        rows = [self.values[0]]
        for _ in range(self.phases):
            rows.append((rows[-1].sum() + np.arange(self.items)) & 0xFFFFFF)
        return np.array(rows)

    def check(self) -> None:
        """Compares the values, each of which one thread has written."""
        np.testing.assert_array_equal(self.values, self.expected())
        np.testing.assert_array_equal(self.written, 1)


def board(items: int) -> Array:
    """A board as a team has it, whose address is a cache line's."""
    memory = np.zeros(BOARD_CELLS + BOARD_CELL * items + 64, np.uint8)
    return memory[-memory.ctypes.data % 64 :][: BOARD_CELLS + BOARD_CELL * items].view(np.int64)
