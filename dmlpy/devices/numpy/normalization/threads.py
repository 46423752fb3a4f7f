"""Work shared among the processor's cores: NumPy's calls let other threads run while they compute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def available_threads() -> int:
    """The cores that this process may use, or fewer if OPENBLAS_NUM_THREADS or OMP_NUM_THREADS says so, as for NumPy's matrix products."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "")
        if given.isdecimal() and int(given) > 0:
            return min(cores, int(given))
    return cores


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that wait for work, started when there is some; all launches of the process share them."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="dmlpy-numpy")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # the threads stay behind in the parent


def share(work: Callable[[T, int], None], items: Iterable[T], threads: int) -> None:
    """Calls `work(item, thread)` for all items, whichever thread is free taking the next; returns or raises when no thread works any more.

    Args:
        work: what to do; calls with the same `thread` never overlap. Floating-point warnings are off while it runs.
        items: what to do it for.
        threads: how many to use, this one included.
    """
    taken = list(items)
    remaining = iter(taken)

    def take(thread: int) -> None:
        with np.errstate(all="ignore"):
            for item in remaining:
                work(item, thread)

    others: list[Future[None]] = []
    try:
        with suppress(RuntimeError):  # while the interpreter exits no thread takes work: this one does it all
            for thread in range(1, min(threads, len(taken))):
                others.append(_pool().submit(take, thread))
        take(0)
    finally:
        wait(started := [other for other in others if not other.cancel()])
    for other in started:
        other.result()
