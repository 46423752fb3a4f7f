"""Limits BLAS to as many threads per launch as its products are worth.

OpenBLAS divides every product of some size among all its threads. They spin while they wait for the next one, and a product is done when
the last thread is: on a busy machine that thread may wait milliseconds for a core, for a product of microseconds.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dmlpy.devices.host.processors import processors
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.devices.plan import Launch

WORK_OF_A_THREAD = 1 << 23
"""Multiplications of one product that are worth a BLAS thread: 0.16 ms of a core with AVX-512. A second thread saves at most half of
that if a core is idle. With both cores of a machine in use, a second thread made products of 4 to 33 million multiplications 2 to 15
times as slow on average."""

_ALONE = 1 << 18
"""Multiplications of the largest product that OpenBLAS itself computes on one thread."""


class Library(Protocol):
    """A BLAS library, as threadpoolctl controls it."""

    def get_num_threads(self) -> int | None: ...
    def set_num_threads(self, num_threads: int) -> Any: ...


@cache
def _numpys_libraries() -> tuple[Library, ...]:
    """The BLAS libraries that NumPy uses: the one bundled with it, else all that the process has loaded; maybe none."""
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    package = os.path.dirname(np.__file__)
    bundled = [library for library in libraries if library.filepath.startswith((f"{package}.libs{os.sep}", f"{package}{os.sep}"))]
    return tuple(bundled or libraries)


class Limits:
    """Lowers BLAS's thread count while small launches run, and restores it afterwards.

    The count applies to the whole process. Of concurrent launches the smallest one counts, and other products have as few threads
    meanwhile. With another count, some OpenBLAS kernels, including those for AVX2, sum in another order. A count that other code sets
    meanwhile stays.

    Args:
        library: the BLAS.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = forks.lock()
        self._launches: dict[object, int] = {}
        self._own: int | None = None
        """The count to restore, while launches run."""
        self._set = (0, 0)
        """The count that was set last, and the one being set: an interrupt may come between."""

    def enter(self, launch: object, threads: int) -> None:
        """Registers the start of a launch that is worth this many threads."""
        with self._lock:
            self._launches[launch] = threads
            self._update()

    def leave(self, launch: object) -> None:
        """Registers the end of a launch. Calling it again has no effect."""
        with self._lock:
            self._launches.pop(launch, None)
            if self._own is not None:
                self._update()

    def own_threads(self) -> int:
        """The thread count that BLAS has when no launch is running."""
        with self._lock:
            now = self._library.get_num_threads() or 1
            return now if self._own is None or now not in self._set else self._own

    def _update(self) -> None:
        now = self._library.get_num_threads() or 1
        if self._own is None or now not in self._set:
            self._own = now  # not a limit set here
        wanted = min([self._own, *self._launches.values()])
        self._set = now, wanted
        if wanted != now:
            self._library.set_num_threads(wanted)
        self._set = wanted, wanted
        if not self._launches:
            self._own = None

    def forked(self) -> None:
        """Resets the count of launches in a child process, where only this thread continues; launches of other threads never end there."""
        if self._own is not None and self._library.get_num_threads() in self._set:
            self._library.set_num_threads(self._own)
        self._launches, self._own = {}, None


_known_limits: list[Limits] = []


@cache
def _limits() -> Sequence[Limits]:
    _known_limits.extend(Limits(library) for library in _numpys_libraries())
    return tuple(_known_limits)


def _renew() -> None:
    for limits in _known_limits:
        limits.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def blas_threads() -> int | None:
    """The number of threads that NumPy's BLAS may use, by OPENBLAS_NUM_THREADS, OMP_NUM_THREADS or `threadpoolctl`; None if unknown."""
    return min((limits.own_threads() for limits in _limits()), default=None)


def worth(multiplications: int) -> int:
    """The number of threads that a product of this many multiplications is worth."""
    return max(1, multiplications // WORK_OF_A_THREAD)


@contextmanager
def limited(multiplications: int) -> Iterator[None]:
    """Limits BLAS within the block to the threads that its largest product is worth, given its multiplications."""
    call, threads = object(), min(worth(multiplications), processors())
    limits = _limits() if multiplications > _ALONE else ()
    try:
        try:
            for item in limits:
                item.enter(call, threads)
            yield
        finally:
            for item in limits:
                item.leave(call)
    finally:
        for item in limits:  # again, if an interrupt came between
            item.leave(call)


def with_limited_blas(launch: Launch, multiplications: int) -> Launch:
    """Wraps a launch so that BLAS has the threads that its largest product is worth, given its multiplications."""
    if multiplications <= _ALONE or min(worth(multiplications), processors()) >= (os.cpu_count() or 1):
        return launch

    def dispatch(stream: int) -> None:
        with limited(multiplications):
            launch(stream)

    return dispatch
