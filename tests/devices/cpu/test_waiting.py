"""How threads of compiled launches wait for each other where one is held back: asleep, and no longer than the others' work is worth."""

from __future__ import annotations

import time
from ctypes import CFUNCTYPE, c_int, c_int64, c_void_p, cast
from threading import Event, get_ident
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dmlpy.arrays import array_at
from tests.support.exact import exact
from tests.support.held_back import HELD_S, MOST_S, HeldBack
from tests.support.recurrent_runs import build

pytest.importorskip("numba", reason="Numba is not installed (the extra 'cpu')")

from dmlpy.devices.cpu.team import PARTED, WAITED, Team
from dmlpy.devices.cpu.walks import directions, layer
from dmlpy.devices.cpu.walks.directions import EACH
from dmlpy.devices.cpu.walks.layer import RecurrentPlan


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer, "_SHARE", 1)
    monkeypatch.setattr(layer, "_WALK", 1)
    monkeypatch.setattr(layer, "available_threads", lambda: 2)


@pytest.mark.parametrize("caller", [True, False], ids=["the caller is held back", "the other is held back"])
@pytest.mark.parametrize(("cell", "flags"), [("LSTM", {}), ("GRU", {}), ("LSTM", {"direction": "BIDIRECTIONAL"})])
def test_walks_sleep_while_one_is_held_back(cell: str, flags: dict[str, Any], caller: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another keeps the first thread waiting, that one goes on alone."""
    run = build(cell, np.random.default_rng(2), t=7, b=5, i=5, h=35, **flags)
    team = HeldBack(caller=caller)
    monkeypatch.setattr(directions, "team", lambda: team)
    run.launch(RecurrentPlan(run.desc))
    run.check(exact(run.desc, run.arrays))
    assert max(team.cpu_s) < MOST_S
    if not caller:
        assert team.parted == ["direction" not in flags]  # walks at the same time never wait for each other


def test_the_caller_sleeps_while_an_item_is_under_way() -> None:
    taken, caller = Event(), get_ident()

    def item(result: Any, error: Any, parameters: int, thread: int, threads: int, flags: int, met: int) -> int:
        if get_ident() == caller:
            taken.wait(60)
        else:
            taken.set()
            time.sleep(HELD_S)
        return 0

    function = CFUNCTYPE(c_int, c_void_p, c_void_p, *[c_int64] * 5)(item)
    address: Any = cast(function, c_void_p).value
    parameters, team = np.array([0, 0, 2, *[address, 0] * 2], np.int64), Team()
    began = time.thread_time()
    team.run(EACH(), parameters.ctypes.data, 2, 2, parameters)
    assert taken.is_set()
    assert time.thread_time() - began < MOST_S


def test_a_team_rests_after_its_threads_had_to_part(monkeypatch: pytest.MonkeyPatch) -> None:
    now, parts, seen = 100.0, True, list[int]()
    monkeypatch.setattr("dmlpy.devices.cpu.team.time", SimpleNamespace(monotonic=lambda: now))

    def share(parameters: Any, thread: int, threads: int, flags: int, met: int) -> None:
        if thread == 0:
            seen.append(threads)
            if threads > 1:
                line = array_at(flags, (8,), np.int64, (1,))
                line[WAITED // 8], line[PARTED // 8] = 10_000_000, met + 2 if parts else 0

    team = Team()
    for at, items, expected in [
        (100.0, False, 2),
        (100.1, False, 1),  # the first launch waited 10 ms: the team rests for 20 times that
        (100.1, True, 2),  # threads that do not meet share items as before
        (100.3, False, 2),
        (100.6, False, 1),  # and twice as long after the next one
        (100.8, False, 2),
    ]:
        now, parts = at, at < 100.8
        team.run(share, 0, 2, 2 if items else 7)
        assert seen.pop() == expected, at
    team.run(share, 0, 2, 7)
    assert seen == [2]
