"""A thread pool of compiled launches, one thread of which is stalled."""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

import numpy as np

from dmlpy.devices.cpu.thread_pool import TILE_STATE_SIZE, TILE_STATES

HELD_S = 0.3
"""How long."""
MOST_S = 0.1
"""The processor's time that a wait of `HELD_S` may take, with the work itself."""
_NEVER = 1 << 40
"""The number of a stage that is never reached."""


class StalledWorker:
    """A thread pool of two, one of which is late: the caller's thread begins late, or the other has begun tiles that it never finishes.

    Attributes:
        cpu_s: the processor's time that the one that is not late took in each launch.
        wall_s: how long that took.
    """

    def __init__(self, *, caller: bool) -> None:
        self._caller = caller
        self.cpu_s: list[float] = []
        self.wall_s: list[float] = []

    def run(self, body: Any, parameters: int, threads: int, stages: int = 1, tiles: int = 0, memory: object = None) -> None:
        memory = np.zeros(TILE_STATES + TILE_STATE_SIZE * tiles + 64, np.uint8)
        sync = memory[-memory.ctypes.data % 64 :][: TILE_STATES + TILE_STATE_SIZE * tiles].view(np.int64)
        if not self._caller:
            sync[TILE_STATES // 8 :].reshape(-1, 2)[tiles // 2 :, 0] = _NEVER

        def work(thread: int) -> None:
            if (thread == 0) == self._caller:
                time.sleep(HELD_S)
            began = time.thread_time(), time.perf_counter()
            body(parameters, thread, 2, sync.ctypes.data, 0)
            if (thread == 0) != self._caller:
                self.cpu_s.append(time.thread_time() - began[0])
                self.wall_s.append(time.perf_counter() - began[1])

        other = Thread(target=work, args=(1,), daemon=True)
        other.start()
        work(0)
        other.join(60)
        assert not other.is_alive()
