"""The compiled run of launches: a thread's shares of them, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.calls import caller
from dmlpy.devices.cpu.simd import integer_at

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import Share

_NONE, _ALONE = np.int64(0), np.int64(1)
_call = caller(5)


def run_of() -> Share:
    """A thread's share of a run, to be compiled.

    Its parameters are the number of launches and the address of three integers for each: the addresses of its share and of that one's
    parameters, and the most threads that it uses.
    """

    def run(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        entry = integer_at(parameters + 8)
        for number in range(integer_at(parameters)):
            share, given, most = integer_at(entry), integer_at(entry + 8), min(threads, integer_at(entry + 16))
            if most == 1:
                if thread == 0:
                    _call(share, (given, _NONE, _ALONE, _NONE, _NONE))
            elif thread < most:
                _call(share, (given, thread, most, board, met + number))
            entry += 24

    return run
