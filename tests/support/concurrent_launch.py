"""A launch whose counted tiles are functions, each of which one thread calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.jit import Kernel

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

CONCURRENT_LAUNCH = Kernel("tests.support.concurrent_launch:build_concurrent_launch", 5)
"""The body of the launch."""


def build_concurrent_launch() -> TaskBody:
    """The body, to be compiled.

    Its parameters, after the two of counted tiles, are the number of functions, then for each its address and that of its parameters.
    """
    from dmlpy.devices.cpu.runtime_kernels import indirect_call
    from dmlpy.devices.cpu.simd import integer_at
    from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

    call = indirect_call(5)

    def concurrent(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        count, finished = integer_at(parameters + 16), 0
        tile = first_tile(parameters, count, thread, threads, sync, epoch)
        while tile < count:
            call(integer_at(parameters + 24 + 16 * tile), (integer_at(parameters + 32 + 16 * tile), 0, 1, 0, 0))
            finished += 1
            tile = next_tile(parameters, tile, count, threads, epoch)
        wait_for_all_tiles(parameters, finished, count, thread, threads)

    return concurrent
