"""Forks while other threads are at work: a forked process has copies of all locks, but only the thread that forked.

A lock that another thread held would never be released there. So the locks of dmlpy are made here, and are free in a forked process: what
they guard is complete, or made anew. A fork waits for what cannot be made anew: modules that other threads are importing, and work under
locks of other libraries. `dmlpy.devices.host.threads` makes it wait for launches.

Another thread's import may still begin between that wait and the fork itself, among the other hooks that run before it. What is left of
such an import in the forked process is forgotten there, so that the module is imported anew.

Two private parts of Python are used. `_at_fork_reinit` frees a lock; its own modules logging and threading call it for theirs.
importlib's `_module_locks` are the imports under way; without this table a fork waits for none.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from _thread import RLock
    from collections.abc import Iterator

_locks: WeakSet[Any] = WeakSet()
_awaited: list[RLock] = []
_IMPORTED_ON_USE = {
    *("annotated_types", "cupy", "dmlpy", "llvmlite", "ml_dtypes", "numpy", "onnx", "psutil", "pydantic", "pydantic_core", "rich"),
    *("threadpoolctl", "typing_extensions", "typing_inspection", *sys.stdlib_module_names),
}
"""The packages whose modules dmlpy imports when they are first used. A program's own module may be imported for as long as it runs."""

_POOL = "concurrent.futures.thread"
"""The module of Python that acquires a lock, `_global_shutdown_lock`, before a fork, and releases it after one."""


def lock() -> threading.Lock:
    """A lock that is free in a forked process."""
    created = threading.Lock()
    _locks.add(created)
    return created


def reentrant_lock(*, awaited: bool = False) -> RLock:
    """A reentrant lock that is free in a forked process.

    Args:
        awaited: whether a fork waits until no other thread holds it. Who holds it must not wait for an import of another thread.
    """
    created = threading.RLock()
    _locks.add(created)
    if awaited:
        _awaited.append(created)
    return created


def free_in_child(lock: Any) -> None:
    """Lets a lock of another library be free in a forked process. The library holds it."""
    _locks.add(lock)


def _before() -> None:
    had_pool = _POOL in sys.modules
    finished = _finish_imports()
    for awaited in _awaited:
        awaited.acquire()
    while _imports() - finished:  # what has begun since may need what is held
        _after()
        finished = _finish_imports()
        for awaited in _awaited:
            awaited.acquire()
    if not had_pool and _POOL in sys.modules:  # it was imported too late to acquire its lock
        sys.modules[_POOL]._global_shutdown_lock.acquire()


def _after() -> None:
    for awaited in _awaited:
        with suppress(RuntimeError):  # an interrupt came before it was acquired
            awaited.release()


def _free_locks() -> None:
    _forget_imports()
    for each in (*_locks, *(_locks_of_properties() if sys.version_info < (3, 12) else ())):
        each._at_fork_reinit()


def _locks_of_properties() -> Iterator[Any]:
    """Python 3.11 computes a cached property under a lock, which all objects of the class share."""
    modules = [vars(module) for name, module in sys.modules.items() if name.partition(".")[0] == "dmlpy"]
    for kind in {value for names in modules for value in names.values() if isinstance(value, type)}:
        yield from (getattr(value, "lock") for value in vars(kind).values() if type(value) is cached_property)  # noqa: B009  (typeshed lacks it)


def _finish_imports() -> set[str]:
    """Waits until no other thread is importing a module that dmlpy imports on first use; returns the names."""
    finished = set[str]()
    while begun := _imports() - finished:  # meanwhile the other thread may have begun its next import
        for name in begun:
            with suppress(Exception):  # the other thread's import may have failed
                importlib.import_module(name)  # waits, except for an import of this thread
        finished |= begun
    return finished


def _imports() -> set[str]:
    """The modules that are being imported: Python has a lock for each, even while it still looks for the module."""
    names = [*getattr(sys.modules.get("importlib._bootstrap"), "_module_locks", ())]
    return {name for name in names if name.partition(".")[0] in _IMPORTED_ON_USE}


def _forget_imports() -> None:
    """Forgets the imports of threads that a forked process does not have: their locks, and what there is of the modules."""
    locks, this = getattr(sys.modules.get("importlib._bootstrap"), "_module_locks", {}), threading.get_ident()
    for name in _imports():
        import_lock = locks[name]()
        if getattr(import_lock, "owner", None) == this:
            continue
        del locks[name]
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            for part in [part for part in sys.modules if part == name or part.startswith(f"{name}.")]:
                del sys.modules[part]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_free_locks)
