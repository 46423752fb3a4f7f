"""Threads that share a launch: all that was begun has ended when it returns or raises, whatever interrupts it where."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.arrays import array_at
from dmlpy.devices.cpu import thread_pool as pool_module
from dmlpy.devices.host import threads as threads_module
from dmlpy.devices.host.threads import Gate, apart_from_forks, available_threads, share
from tests.support.forks import forked
from tests.support.interruptions import Interrupts, interrupted_everywhere


def test_available_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "blas_threads", lambda: None)
    every = available_threads()
    assert every >= 1
    for allowed, expected in ((1, 1), (100_000, every)):
        monkeypatch.setattr(threads_module, "blas_threads", lambda allowed=allowed: allowed)
        assert available_threads() == expected


def test_no_thread_works_on_after_an_error() -> None:
    done = []
    started = threading.Barrier(3)

    def work(item: int, thread: int) -> None:
        started.wait(10)
        if thread < 2:
            raise ValueError("at once")
        time.sleep(0.1)
        done.append(item)

    with pytest.raises(ValueError, match="at once"):
        share(work, range(3), 3)
    assert len(done) == 1


def test_an_error_in_another_thread_is_raised() -> None:
    def work(item: int, thread: int) -> None:
        if item == 3:
            raise ValueError("three")

    for threads in (1, 4):
        with pytest.raises(ValueError, match="three"):
            share(work, range(8), threads)


AT_EXIT = """\
import atexit
from dmlpy.devices.host.threads import share

found = []
share(lambda item, thread: found.append(item), range(9), 3)
atexit.register(lambda: print(sorted(found)))
atexit.register(share, lambda item, thread: found.append(item), range(9, 12), 3)
"""


def test_work_while_the_interpreter_exits() -> None:
    result = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == (f"{list(range(12))}\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    share(lambda item, thread: None, range(4), 2)
    child = os.fork()
    if child == 0:
        threads: set[int] = set()
        both = threading.Barrier(2)

        def work(item: int, thread: int) -> None:
            both.wait(10)
            threads.add(thread)

        try:
            share(work, range(2), 2)
        finally:
            os._exit(len(threads) if sys.exc_info()[0] is None else 99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_an_interrupt_waits_for_all_threads_and_begins_no_work() -> None:
    inside: set[int] = set()
    begun: list[int] = []

    def work(item: int, thread: int) -> None:
        inside.add(thread)
        begun.append(item)
        time.sleep(0.0005)
        inside.discard(thread)

    def check() -> None:
        assert not inside, "share has raised, and a thread is still at work"
        seen = len(begun)
        time.sleep(0.001)
        assert len(begun) == seen, "work began after share had raised"

    count = interrupted_everywhere(threads_module, lambda: share(work, range(12), 3), check)
    assert count > 100
    begun.clear()
    share(work, range(12), 3)
    assert sorted(begun) == list(range(12))


def test_no_item_begins_after_an_interrupt() -> None:
    """The other threads than the interrupted one stop with the items that they have."""
    both = threading.Barrier(2)
    begun: list[int] = []

    def work(item: int, thread: int) -> None:
        begun.append(item)
        if len(begun) <= 2:
            both.wait(10)
        if thread == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        share(work, range(100), 2)
    assert len(begun) == 2


def test_an_interrupt_of_the_wait_is_raised_after_it() -> None:
    gate, entered = Gate(), threading.Event()

    def stay() -> None:
        gate.enter(1)
        entered.set()
        time.sleep(0.05)
        gate.leave(1)

    other = threading.Thread(target=stay)
    other.start()
    entered.wait(10)
    left: SimpleQueue[None] = gate._left

    class Interrupted:
        """A queue whose first wait is interrupted."""

        def __init__(self) -> None:
            self.put, self.waits = left.put, 0

        def get(self) -> None:
            self.waits += 1
            if self.waits == 1:
                raise KeyboardInterrupt
            left.get()

    gate._left = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        gate.finish()
    assert not gate.inside
    assert not gate.enter(2)
    gate.finish()
    other.join()


def test_an_interrupted_pool_serves_the_next_launch() -> None:
    """The thread pool of compiled kernels: nobody waits for a thread that never comes, and the next launch has all of them."""
    pool = pool_module.ThreadPool()
    waiting: set[int] = set()
    seen: set[int] = set()

    def stay_out(parameters: Any, thread: int, threads: int, sync: int, epoch: int) -> None:
        """The first thread does it alone; the others wait until they hear that it is over."""
        if thread == 0:
            return
        waiting.add(thread)
        joined = array_at(sync, (2,), np.int64, (1,))
        while joined[1] <= epoch:
            time.sleep(0)
        waiting.discard(thread)

    def all_come(parameters: Any, thread: int, threads: int, sync: int, epoch: int) -> None:
        seen.add(thread)
        deadline = time.monotonic() + 10
        while thread == 0 and len(seen) < threads and time.monotonic() < deadline:
            time.sleep(0)

    def check() -> None:
        assert not pool._user
        seen.clear()
        pool.run(all_come, None, 3, 7)
        assert seen == {0, 1, 2}
        assert not waiting

    assert interrupted_everywhere(pool_module, lambda: pool.run(stay_out, None, 3, 7), check) > 50
    fresh = 0
    for count in range(1, 200):  # a thread pool that has no threads yet
        pool = pool_module.ThreadPool()
        with Interrupts(pool_module, count):
            try:
                pool.run(stay_out, None, 3, 7)
            except KeyboardInterrupt:
                fresh += 1
        check()
    assert fresh > 60


# forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_no_fork_comes_in_the_middle_of_another_threads_launch() -> None:
    """A lock of OpenBLAS that a thread held at the fork would be locked in the child for ever."""
    in_launch = threading.Event()
    under_way = threading.Lock()  # what a matrix product is to OpenBLAS

    def launch(stream: int) -> None:
        with under_way:
            in_launch.set()
            time.sleep(0.05)

    dispatch = dml.device("numpy").dispatched(launch, "a launch")
    for _ in range(3):
        in_launch.clear()
        others = [threading.Thread(target=dispatch, args=(0,)) for _ in range(3)]
        for other in others:
            other.start()
        assert in_launch.wait(10)

        def child() -> int:
            if under_way.locked():
                return 1
            dispatch(0)  # the child makes separate launches
            return 2

        assert forked(child) == 2
        for other in others:
            other.join(10)
            assert not other.is_alive(), "a launch waits for a fork that is over"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_waits_for_no_launch_of_its_own_thread() -> None:
    def launch(stream: int) -> None:
        assert forked(lambda: 3) == 3

    dml.device("numpy").dispatched(launch, "a launch that forks")(0)


def test_an_interrupted_launch_holds_up_no_fork() -> None:
    dispatch = apart_from_forks(lambda stream: None)

    def check() -> None:
        assert not threads_module._forks.gate.inside

    assert interrupted_everywhere(threads_module, lambda: dispatch(0), check) > 30
