"""A forked process finds the modules and the locks that other threads of its parent were using."""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description import structs
from dmlpy.system import forks
from tests.support.folders import ROOT
from tests.support.forks import forked

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def test_a_fork_waits_for_another_threads_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's lock of the module would be locked in the child for ever, and half of the module would be there.

    What the import registers for forks takes part in this one.
    """
    name, caught = "dmlpy.slowly_imported", list[Any]()
    text = "import time\ntime.sleep(0.1)\nimport concurrent.futures.thread\ncomplete = True\n"
    (tmp_path / "slowly_imported.py").write_text(text, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "concurrent.futures.thread", raising=False)
    monkeypatch.setattr(sys, "unraisablehook", caught.append)
    monkeypatch.setattr(dml, "__path__", [*dml.__path__, str(tmp_path)])
    monkeypatch.setattr(dml, "slowly_imported", None, raising=False)  # the import sets it
    other = threading.Thread(target=importlib.import_module, args=(name,))
    other.start()
    while name not in sys.modules:
        time.sleep(0.001)
    try:
        assert not hasattr(sys.modules[name], "complete")
        assert forked(lambda: importlib.import_module(name).complete + 1) == 2
        assert not caught
        assert sys.modules["concurrent.futures.thread"]._global_shutdown_lock.acquire(timeout=0)
        sys.modules["concurrent.futures.thread"]._global_shutdown_lock.release()
    finally:
        other.join()
        del sys.modules[name]


def test_an_import_that_begins_just_before_a_fork_begins_anew_in_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's lock of the module would be locked there for ever."""
    name = "dmlpy.imported_late"
    (tmp_path / "imported_late.py").write_text("import time\ntime.sleep(0.1)\ncomplete = True\n", encoding="utf-8")
    monkeypatch.setattr(dml, "__path__", [*dml.__path__, str(tmp_path)])
    monkeypatch.setattr(dml, "imported_late", None, raising=False)  # the import sets it
    monkeypatch.setattr(forks, "_finish_imports", forks._imports)  # as if it had begun since
    other = threading.Thread(target=importlib.import_module, args=(name,))
    other.start()
    while name not in sys.modules:
        time.sleep(0.001)
    try:
        assert forked(lambda: (name not in sys.modules) + importlib.import_module(name).complete) == 2
    finally:
        other.join()
        del sys.modules[name]


def test_a_fork_waits_for_calls_of_llvm() -> None:
    """Also for those that free what Python collects, on any thread; llvmlite's lock is free in the child."""
    pytest.importorskip("llvmlite")
    from dmlpy.devices.cpu.llvm import imported

    binding, begun, called = imported("llvmlite.binding"), threading.Event(), list[int]()

    def call() -> None:
        with binding.ffi.lib._lock:
            begun.set()
            time.sleep(0.05)
            called.append(4)

    def child() -> int:
        return sum(called) if binding.get_host_cpu_name() else 98

    other = threading.Thread(target=call)
    other.start()
    assert begun.wait(10)
    assert forked(child) == 4
    other.join()


class Tried:
    """A member's value that notes whether another thread could build a class while pydantic reads it."""

    def __init__(self) -> None:
        self.found = list[bool]()

    def __iter__(self) -> Iterator[int]:
        def acquire() -> None:
            if acquired := structs._BUILDING.acquire(blocking=False):
                structs._BUILDING.release()
            self.found.append(acquired)

        other = threading.Thread(target=acquire)
        other.start()
        other.join()
        return iter(())


def test_a_class_is_first_used_where_no_process_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pydantic makes what it needs on first use under native locks, for which nothing waits."""
    value = Tried()
    for name, empty in {"_COMPLETE": set(), "_TRIED": set(), "_OF_EACH_FORM": (value,)}.items():
        monkeypatch.setattr(structs, name, empty)
    dml.TensorDesc(data_type="FLOAT32", sizes=np.array([2, 3]))
    assert value.found
    assert not any(value.found)


class Slow:
    """An object of which another thread is computing a property when the process forks."""

    def __init__(self) -> None:
        self.begun, self.ends = threading.Event(), threading.Event()

    @cached_property
    def value(self) -> int:
        self.begun.set()
        self.ends.wait(10)
        return 3


def test_locks_that_other_threads_hold_are_free_in_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "Slow", Slow, raising=False)  # a class of dmlpy
    slow, held = Slow(), (forks.lock(), forks.reentrant_lock())

    def hold() -> None:
        with held[0], held[1]:
            assert slow.value == 3

    def child() -> int:
        slow.ends.set()
        with held[0], held[1]:
            return slow.value

    other = threading.Thread(target=hold)
    other.start()
    assert slow.begun.wait(10)
    try:
        assert forked(child) == 3
        assert held[0].locked()
    finally:
        slow.ends.set()
        other.join()


def test_a_fork_waits_while_another_thread_builds_a_class() -> None:
    begun, built = threading.Event(), list[int]()

    def build() -> None:
        with structs._BUILDING:
            begun.set()
            time.sleep(0.05)
            built.append(5)

    def child() -> int:
        with structs._BUILDING:
            return sum(built)

    other = threading.Thread(target=build)
    other.start()
    assert begun.wait(10)
    assert forked(child) == 5
    other.join()
    again = threading.Thread(target=build)  # the parent holds it no longer
    again.start()
    again.join(10)
    assert built == [5, 5]


def test_every_lock_of_dmlpy_is_free_in_a_forked_process() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dmlpy").rglob("*.py") if makes_lock(path.read_text(encoding="utf-8"))}
    assert found == {"dmlpy/system/forks.py"}


def makes_lock(text: str) -> Any:
    return re.search(r"\b(threading\.)?(R?Lock|Condition|Semaphore|BoundedSemaphore)\(", text)
