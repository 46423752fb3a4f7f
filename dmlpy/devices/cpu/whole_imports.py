"""Imports of Numba's and LLVM's modules that no interrupt can reach: one in the middle would leave half of them for good."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any

from dmlpy.validation.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable


def imported(module: str) -> Any:
    """A module of Numba's or llvmlite's, imported on a thread of its own.

    Raises:
        DeviceError: it cannot be imported.
    """
    found: list[Any] = []
    on_own_thread(lambda: found.append(importlib.import_module(module)))
    return found[0]


def on_own_thread(work: Callable[[], None]) -> None:
    """Does what imports modules of Numba's on a thread of its own: interrupts come to the main thread only.

    Raises:
        DeviceError: they cannot be imported.
    """
    failures: list[Exception] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="dmlpy-import")
    thread.start()
    thread.join()
    if failures:
        what = f"{type(failures[0]).__name__}: {failures[0]}"
        raise DeviceError(f"Numba, which compiles for the device cpu, cannot be imported: {what}") from failures[0]
