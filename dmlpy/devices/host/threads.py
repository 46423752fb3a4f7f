"""Threads that share a launch's work with the calling thread, and the handling of interrupted launches.

Python raises KeyboardInterrupt, or whatever a signal handler raises, between any two instructions of the main thread. Other threads
may then still use the launch's memory, which the caller frees next. So all work on several threads passes a `Gate`: a thread that leaves
it by an exception first shuts it, and waits until no thread is inside.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dmlpy.devices.host.blas import blas_threads
from dmlpy.devices.host.processors import processors
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def available_threads() -> int:
    """The number of processors that this process may use, or of threads that NumPy's BLAS may use, whichever is smaller."""
    allowed = processors()
    return min(allowed, blas_threads() or allowed)


class Gate:
    """Lets threads in until it is shut; the thread that shuts it continues when all have left.

    It uses no lock, which an interrupt between two instructions might leave locked. A thread enters first and then checks whether the gate
    is shut, in the opposite order of the thread that shuts it: one of the two sees the other.

    Attributes:
        shut: whether it is closed to new threads.
        inside: the entrants, each with its thread.
    """

    def __init__(self) -> None:
        self.shut = False
        self.inside: dict[object, int] = {}
        self._left: SimpleQueue[None] = SimpleQueue()

    def enter(self, who: object) -> bool:
        """Lets in `who`, which is not inside, and returns whether it succeeded. `who` must then leave."""
        self.inside[who] = threading.get_ident()
        if self.shut:
            self.leave(who)
            return False
        return True

    def leave(self, who: object) -> None:
        """Wakes the threads that wait."""
        self.inside.pop(who, None)
        if self.shut:
            self._left.put(None)

    def finish(self) -> None:
        """Shuts the gate and returns when only entrants of this thread are inside. An interrupt of the wait is raised afterwards."""
        interrupt: BaseException | None = None
        while True:
            try:
                self.shut = True
                here = {threading.get_ident()}
                while not here.issuperset(self.inside.copy().values()):  # checked again: an interrupt may discard what `get` returned
                    self._left.get()
                break
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


class _Forks:
    """Excludes forks during launches.

    A child has a copy of all locks but only the thread that forked. A lock that OpenBLAS holds while it multiplies would never be
    unlocked there: the child's first matrix product would hang, and even the fork, before which OpenBLAS waits for its threads. So a
    fork waits until no other thread has a launch in progress, and new launches wait for the fork.
    """

    def __init__(self) -> None:
        self.gate = Gate()
        self._lock = forks.lock()
        self._forking: set[int] = set()
        self._over = threading.Event()

    def wait(self, who: object) -> None:
        """Lets a launch in that found the gate shut, once no fork is in progress."""
        self._over.wait()
        while not self.gate.enter(who):
            self._over.wait()

    def before(self) -> None:
        with self._lock:
            self._forking.add(threading.get_ident())
            self._over.clear()
            self.gate.shut = True
        self.gate.finish()

    def after(self) -> None:
        with self._lock:
            self._forking.discard(threading.get_ident())
            if not self._forking:
                self.gate.shut = False
                self._over.set()


_forks = _Forks()


def apart_from_forks(launch: Callable[[int], None]) -> Callable[[int], None]:
    """Wraps a launch so that no other thread forks the process while it runs (by `os.fork` or its callers)."""

    def dispatch(stream: int) -> None:
        who, gate = object(), _forks.gate
        try:
            try:
                if not gate.enter(who):
                    _forks.wait(who)
                launch(stream)
            finally:
                gate.leave(who)
        finally:
            if who in gate.inside:  # an interrupt came between
                gate.leave(who)

    return dispatch


class Helper:
    """A thread that runs work in order, and sleeps when there is none.

    It is a daemon: it ends with the interpreter.

    Args:
        name: the name of the thread.
        work: a queue that it shares with others; None creates a new one.
    """

    def __init__(self, name: str, work: SimpleQueue[tuple[Callable[..., None], Any]] | None = None) -> None:
        self._work: SimpleQueue[tuple[Callable[..., None], Any]] = SimpleQueue() if work is None else work
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def begin(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls the function, which must not raise, on this thread."""
        self._work.put((function, arguments))

    def _serve(self) -> None:
        while True:
            function, arguments = self._work.get()
            function(*arguments)
            del function, arguments  # else they would hold memory while this thread sleeps


class _Pool:
    """Worker threads with one queue, started on demand; all launches of the process share them."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Callable[..., None], Any]] = SimpleQueue()
        self._helpers: list[Helper] = []

    def begin(self, function: Callable[[int], None], count: int) -> None:
        """Calls `function(1)` to `function(count)` as threads become free. While the interpreter exits, perhaps never."""
        with suppress(RuntimeError):  # no more threads can be started
            while len(self._helpers) < min(count, os.cpu_count() or 1):
                self._helpers.append(Helper("dmlpy-numpy", self._work))
        for number in range(1, count + 1):
            self._work.put((function, (number,)))


_pool = _Pool()


def _renew() -> None:
    """Resets after a fork: the threads, and the locks that they hold, exist only in the parent."""
    global _pool, _forks
    _pool, _forks = _Pool(), _Forks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lambda: _forks.before(), after_in_parent=lambda: _forks.after(), after_in_child=_renew)


def share(work: Callable[[T, int], None], items: Iterable[T], threads: int) -> None:
    """Calls `work(item, thread)` for all items, each free thread running the next; returns or raises once no thread is working.

    After an error in any thread, or an interrupt of this one, no further item is started.

    Args:
        work: the function to call; calls with the same `thread` never overlap. Floating-point warnings are off while it runs.
        items: the items to call it with.
        threads: the number of threads to use, this one included.
    """
    taken = list(items)
    remaining, gate, errors = iter(taken), Gate(), list[BaseException]()
    all_taken = False

    def take(thread: int) -> None:
        with np.errstate(all="ignore"):
            for item in remaining:
                if gate.shut and not all_taken:
                    return
                work(item, thread)

    def help_out(thread: int) -> None:
        if gate.enter(thread):
            try:
                take(thread)
            except BaseException as error:
                errors.append(error)
                gate.shut = True
            finally:
                gate.leave(thread)

    if (others := min(threads, len(taken)) - 1) < 1:
        take(0)
        return
    try:
        try:
            _pool.begin(help_out, others)
            take(0)
            all_taken = True
        finally:
            gate.finish()
    finally:
        gate.finish()  # again, if an interrupt came before the first one was ready for it
    if errors:
        raise errors[0]
