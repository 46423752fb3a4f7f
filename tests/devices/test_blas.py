"""BLAS's threads while launches are under way: as many as the largest product is worth, and afterwards as many as before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.host import blas
from dmlpy.devices.host.blas import WORK_OF_A_THREAD, Limits, blas_threads, limited, with_limited_blas
from tests.support.interruptions import interrupted_everywhere
from tests.support.tensors import tensor


class Library:
    """A BLAS that only counts."""

    def __init__(self, threads: int = 8) -> None:
        self.threads = threads
        self.calls = 0

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, num_threads: int) -> None:
        self.calls += 1
        self.threads = num_threads


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    made = [Limits(found)]
    monkeypatch.setattr(blas, "_known_limits", made)
    monkeypatch.setattr(blas, "_limits", lambda: made)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(blas, "processors", lambda: 8)
    return found


@pytest.mark.parametrize(
    ("multiplications", "threads"),
    [(1, 8), (1 << 18, 8), ((1 << 18) + 1, 1), (2 * WORK_OF_A_THREAD - 1, 1), (3 * WORK_OF_A_THREAD, 3), (100 * WORK_OF_A_THREAD, 8)],
)
def test_threads_grow_with_the_work(library: Library, multiplications: int, threads: int) -> None:
    seen: list[int] = []
    for run in (
        lambda: with_limited_blas(lambda stream: seen.append(library.threads), multiplications)(0),
        lambda: run_limited(lambda: seen.append(library.threads), multiplications),
    ):
        run()
        assert library.threads == 8
    assert seen == [threads] * 2


def test_threads_are_no_more_than_processors(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    for allowed, multiplications in ((2, 100 * WORK_OF_A_THREAD), (2, 1), (8, 100 * WORK_OF_A_THREAD)):
        monkeypatch.setattr(blas, "processors", lambda allowed=allowed: allowed)
        with_limited_blas(lambda stream: seen.append(library.threads), multiplications)(0)
    assert seen == [2, 8, 8]


def run_limited(call: Callable[[], Any], multiplications: int = WORK_OF_A_THREAD) -> None:
    with limited(multiplications):
        call()


def test_work_that_blas_does_alone_costs_no_call(library: Library) -> None:
    def launch(stream: int) -> None:
        pass

    assert with_limited_blas(launch, 1 << 18) is launch
    run_limited(lambda: None, 1 << 18)
    assert library.calls == 0


def test_of_launches_at_the_same_time_the_smallest_counts(library: Library) -> None:
    seen: list[int] = []
    with limited(4 * WORK_OF_A_THREAD):
        seen.append(library.threads)
        with limited(WORK_OF_A_THREAD):
            seen.append(library.threads)
            with limited(6 * WORK_OF_A_THREAD):
                seen.append(library.threads)
        seen.append(library.threads)
        assert blas_threads() == 8, "its own number, whatever launches make of it"
    assert (seen, library.threads) == ([4, 1, 1, 4], 8)


def test_fewer_threads_than_the_work_is_worth_stay_as_few(library: Library) -> None:
    library.threads = 2
    run_limited(lambda: None, 5 * WORK_OF_A_THREAD)
    assert (library.threads, library.calls, blas_threads()) == (2, 0, 2)


@pytest.mark.parametrize("number", [1, 3, 8])
def test_a_number_that_somebody_sets_meanwhile_is_kept(library: Library, number: int) -> None:
    with limited(4 * WORK_OF_A_THREAD):
        library.threads = number
        run_limited(lambda: None)
        assert library.threads == min(4, number)
        assert blas_threads() == number
    assert library.threads == number


def test_errors_and_interrupts_restore_the_number(library: Library) -> None:
    def fails() -> None:
        raise OSError("the launch failed")

    with pytest.raises(OSError, match="the launch failed"):
        run_limited(fails)
    assert library.threads == 8

    def check() -> None:
        assert library.threads == 8
        run_limited(lambda: None)
        assert library.threads == 8

    # Python looks for no signals between taking a lock by `with` and its block, where only tracing interrupts.
    blas._known_limits[0]._lock = nullcontext()  # type: ignore[assignment]
    assert interrupted_everywhere(blas, lambda: with_limited_blas(lambda stream: None, WORK_OF_A_THREAD)(0), check) > 50


def test_threads_leave_the_number_as_it_was(library: Library) -> None:
    def work() -> None:
        for turn in range(200):
            run_limited(lambda: None, (1 + turn % 4) * WORK_OF_A_THREAD)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert library.threads == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_the_whole_number(library: Library) -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        leave.wait(10)

    thread = threading.Thread(target=run_limited, args=(wait,))
    thread.start()
    assert entered.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if (library.threads, blas_threads()) == (8, 8) else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert library.threads == 8


def products() -> list[tuple[str, dml.OperatorDesc]]:
    """Operators whose largest product is worth one thread."""
    layer = dml.LSTMDesc(
        input_tensor=tensor(1, 50, 16, 64),
        weight_tensor=tensor(1, 1, 256, 64),
        recurrence_tensor=tensor(1, 1, 256, 64),
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
    ).with_outputs("output_sequence_tensor")
    matrix = tensor(1, 1, 200, 200)
    return [("layer", layer), ("GEMM", dml.GEMMDesc(a_tensor=matrix, b_tensor=matrix, output_tensor=matrix))]


@pytest.mark.parametrize("desc", [desc for _, desc in products()], ids=[name for name, _ in products()])
def test_launches_are_limited(library: Library, monkeypatch: pytest.MonkeyPatch, desc: dml.OperatorDesc) -> None:
    lowered: list[int] = []
    set_threads = library.set_num_threads

    def setting(num_threads: int) -> None:
        lowered.append(num_threads)
        set_threads(num_threads)

    monkeypatch.setattr(library, "set_num_threads", setting)
    given = {slot.place: np.zeros(slot.tensor.sizes, np.float32) for slot in desc.input_slots() if slot.tensor}
    dml.device("numpy").plan(desc)
    dml.compile(desc, "numpy")(**given)
    assert lowered == [1, 8]


OWN = """\
import numpy, threadpoolctl
from dmlpy.devices.host import blas
from dmlpy.devices.host.threads import available_threads
before = blas.blas_threads()
with threadpoolctl.threadpool_limits(1, user_api="blas"):
    print(blas.blas_threads(), available_threads())
    with blas.limited(1 << 20):
        print(blas.blas_threads())
with blas.limited(1 << 20):
    print(blas._numpys_libraries()[0].get_num_threads())
print(blas.blas_threads() == before == blas._numpys_libraries()[0].get_num_threads())
"""


def test_numpys_own_blas() -> None:
    if blas_threads() is None:
        pytest.skip("NumPy's BLAS is none that threadpoolctl knows")
    done = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "1", "1", "True"]
