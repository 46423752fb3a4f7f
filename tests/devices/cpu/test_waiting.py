"""How threads of compiled launches wait for each other where one is held back: asleep, and no longer than the others' work is worth."""

from __future__ import annotations

import time
from ctypes import CFUNCTYPE, c_int, c_int64, c_void_p, cast
from threading import Event, get_ident
from typing import Any

import numpy as np
import pytest

from tests.support.cpu.stalled_worker import HELD_S, MOST_S, StalledWorker
from tests.support.operators.exact import exact
from tests.support.recurrent.layer_runs import build

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu import launches
from dmlpy.devices.cpu.recurrent import schedule
from dmlpy.devices.cpu.recurrent.plan import RecurrentPlan
from dmlpy.devices.cpu.thread_pool import ThreadPool
from tests.support.cpu.concurrent_launch import CONCURRENT_LAUNCH, call_parameters


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_STEP_WORK", 1)
    monkeypatch.setattr(schedule, "_DIRECTION_WORK", 1)
    monkeypatch.setattr(schedule, "available_threads", lambda: 2)


@pytest.mark.each_value
@pytest.mark.parametrize("caller", [True, False], ids=["the caller is held back", "the other is held back"])
@pytest.mark.parametrize(("cell", "flags"), [("LSTM", {}), ("GRU", {}), ("LSTM", {"direction": "BIDIRECTIONAL"})])
def test_time_loops_sleep_while_one_is_held_back(cell: str, flags: dict[str, Any], caller: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thread does again what another has begun and does not finish."""
    run = build(cell, np.random.default_rng(2), t=7, b=5, i=5, h=35, **flags)
    pool = StalledWorker(caller=caller)
    monkeypatch.setattr(launches, "shared_pool", lambda: pool)
    run.launch(RecurrentPlan(run.desc))
    run.check(exact(run.desc, run.arrays))
    assert max(pool.cpu_s) < MOST_S
    if not caller:
        assert max(pool.wall_s) < HELD_S


def test_the_caller_sleeps_while_a_tile_is_under_way() -> None:
    taken, caller = Event(), get_ident()

    def body(result: Any, error: Any, parameters: int, thread: int, threads: int, sync: int, epoch: int) -> int:
        if get_ident() == caller:
            taken.wait(60)
        else:
            taken.set()
            time.sleep(HELD_S)
        return 0

    function = CFUNCTYPE(c_int, c_void_p, c_void_p, *[c_int64] * 5)(body)
    address: Any = cast(function, c_void_p).value
    parameters, pool = call_parameters([(address, 0)] * 2), ThreadPool()
    began = time.thread_time()
    pool.run(CONCURRENT_LAUNCH(), parameters.address, 2, memory=parameters)
    assert taken.is_set()
    assert time.thread_time() - began < MOST_S
