"""Fused launches: which tasks are one launch, and that a training step is two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.recurrent.training_runs import build

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu import launches as module
from dmlpy.devices.cpu.launches import Task, Work, fuse_launches
from dmlpy.devices.cpu.thread_pool import ThreadPool
from tests.support.cpu.compiled_recurrence import backward, share_among

TIME_LOOP, ANY, PYTHON = True, False, None
"""A task that runs on its number of threads exactly, one that shares launches of more, and a call between them."""


@pytest.mark.parametrize(
    ("given", "launches"),
    [
        ([(1, ANY), (2, TIME_LOOP), (1, ANY), (2, ANY)], [(2, 4, 13)]),
        ([(1, ANY), (1, TIME_LOOP), (2, ANY), (1, ANY)], [(1, 2, 11), (2, 2, 13)]),
        ([(3, ANY), (2, TIME_LOOP), (4, ANY)], [(3, 1, 10), (2, 1, 11), (4, 1, 12)]),
        ([(2, TIME_LOOP), (3, TIME_LOOP), (3, TIME_LOOP)], [(2, 1, 10), (3, 2, 12)]),
        ([(2, TIME_LOOP), PYTHON, PYTHON, (2, ANY), (2, TIME_LOOP)], [(2, 1, 10), PYTHON, PYTHON, (2, 2, 14)]),
        ([PYTHON], [PYTHON]),
        ([], []),
    ],
)
def test_tasks_that_follow_each_other_are_a_launch(
    given: list[tuple[int, bool] | None], launches: list[tuple[int, int, int] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads of each, its stages, which are those of all tasks, and its tiles, those of the task that has most."""
    seen: list[tuple[int, int, int] | None] = []

    class Recorder:
        def run(self, body: Any, parameters: int, threads: int, stages: int, tiles: int, memory: Any) -> None:
            seen.append((threads, stages, tiles))

    monkeypatch.setattr(module, "shared_pool", Recorder)
    work: list[Work] = [
        (lambda: seen.append(None)) if each is None else Task(0, 0, 1, 10 + number, *each, None) for number, each in enumerate(given)
    ]
    for call in fuse_launches(work):
        call()
    assert seen == launches


@pytest.mark.parametrize("options", [{}, {"dropout": ("input_dropout_tensor",)}], ids=["plain", "dropout"])
def test_a_training_step_is_two_launches(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing and the time loop; then packing, the backward recurrence and all products. With dropout, too."""
    share_among(2, monkeypatch)
    launches: list[int] = []

    class Counting(ThreadPool):
        def run(self, body: Any, parameters: int, threads: int, *rest: Any) -> None:
            launches.append(threads)
            super().run(body, parameters, threads, *rest)

    pool = Counting()
    monkeypatch.setattr(module, "shared_pool", lambda: pool)
    run = build("LSTM", np.random.default_rng(2), t=7, b=5, i=5, h=35, **options)
    backward(run, np.random.default_rng(4)).check()
    assert launches == [2, 2]
