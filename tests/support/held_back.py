"""A team of compiled launches, one thread of which is held back."""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

import numpy as np

from dmlpy.devices.cpu.team import PARTED, PROCESSOR

HELD_S = 0.3
"""How long."""
MOST_S = 0.1
"""The processor's time that a wait of `HELD_S` may take, with the work itself."""


class HeldBack:
    """A team of two, one of which begins late: the caller's thread, or the other one, which seems to be there.

    Attributes:
        cpu_s: the processor's time that the one that waits took in each launch.
        parted: whether the caller's thread went on alone, for each launch.
    """

    def __init__(self, *, caller: bool) -> None:
        self._caller = caller
        self.cpu_s: list[float] = []
        self.parted: list[bool] = []

    def run(self, share: Any, parameters: int, threads: int, meetings: int, memory: object = None) -> None:
        flags = np.zeros((2, 8), np.int64)
        if not self._caller:
            flags[1, 0], flags[1, PROCESSOR // 8] = 1, -1

        def work(thread: int) -> None:
            if (thread == 0) == self._caller:
                time.sleep(HELD_S)
            began = time.thread_time()
            share(parameters, thread, 2, flags.ctypes.data, 0)
            if (thread == 0) != self._caller:
                self.cpu_s.append(time.thread_time() - began)

        other = Thread(target=work, args=(1,), daemon=True)
        other.start()
        work(0)
        other.join(60)
        assert not other.is_alive()
        self.parted.append(bool(flags[0, PARTED // 8] > 0))
