"""Work of Numba's and LLVM's that no interrupt can reach.

One in the middle of an import would leave half of a module for good, and one in a compilation falls into callbacks of LLVM's, which lose
it.
"""

from __future__ import annotations

import importlib
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_one_at_a_time = threading.RLock()
"""The main thread never takes it: work goes on after its caller was interrupted, and Numba does not prepare itself twice at once."""


def imported(module: str) -> Any:
    """A module of Numba's or llvmlite's.

    Raises:
        DeviceError: it cannot be imported.
    """
    return on_own_thread(lambda: whole(lambda: importlib.import_module(module)))


def whole(work: Callable[[], T]) -> T:
    """What imports modules of Numba's.

    Raises:
        DeviceError: they cannot be imported.
    """
    try:
        return work()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise DeviceError(f"Numba, which compiles for the device cpu, cannot be imported: {what}") from error


def on_own_thread(work: Callable[[], T]) -> T:
    """The result of work that is done where no interrupt comes: they come to the main thread only, which waits for another one."""
    found: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with _one_at_a_time:
                found.append(work())
        except BaseException as error:
            failures.append(error)

    if threading.current_thread() is threading.main_thread():
        thread = threading.Thread(target=run, name="dmlpy-compiler")
        thread.start()
        thread.join()
    else:
        run()
    if failures:
        raise failures[0]
    return found[0]


def _renew() -> None:
    """In a child process: the thread that held the lock is not there."""
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
