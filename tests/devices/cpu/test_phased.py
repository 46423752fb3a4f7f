"""Parts of launches: which of them are one launch, and that a training step is two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.training_runs import build

pytest.importorskip("numba", reason="Numba is not installed (the extra 'cpu')")

from dmlpy.devices.cpu import phased
from dmlpy.devices.cpu.phased import Part, Work, launches_of
from dmlpy.devices.cpu.thread_pool import Team
from tests.support.compiled_walks import backward, share_among

WALK, ANY, PYTHON = True, False, None
"""A part that runs on its number of threads exactly, one that shares launches of more, and a call between them."""


@pytest.mark.parametrize(
    ("given", "launches"),
    [
        ([(1, ANY), (2, WALK), (1, ANY), (2, ANY)], [(2, 4, 13)]),
        ([(1, ANY), (1, WALK), (2, ANY), (1, ANY)], [(1, 2, 11), (2, 2, 13)]),
        ([(3, ANY), (2, WALK), (4, ANY)], [(3, 1, 10), (2, 1, 11), (4, 1, 12)]),
        ([(2, WALK), (3, WALK), (3, WALK)], [(2, 1, 10), (3, 2, 12)]),
        ([(2, WALK), PYTHON, PYTHON, (2, ANY), (2, WALK)], [(2, 1, 10), PYTHON, PYTHON, (2, 2, 14)]),
        ([PYTHON], [PYTHON]),
        ([], []),
    ],
)
def test_parts_that_follow_each_other_are_a_launch(
    given: list[tuple[int, bool] | None], launches: list[tuple[int, int, int] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads of each, its numbers, which are those of all parts, and its items, those of the part that has most."""
    seen: list[tuple[int, int, int] | None] = []

    class Recorder:
        def run(self, share: Any, parameters: int, threads: int, numbers: int, items: int, memory: Any) -> None:
            seen.append((threads, numbers, items))

    monkeypatch.setattr(phased, "team", Recorder)
    work: list[Work] = [
        (lambda: seen.append(None)) if each is None else Part(0, 0, 1, 10 + number, *each, None) for number, each in enumerate(given)
    ]
    for call in launches_of(work):
        call()
    assert seen == launches


@pytest.mark.parametrize("options", [{}, {"dropout": ("input_dropout_tensor",)}], ids=["plain", "dropout"])
def test_a_training_step_is_two_launches(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing and the walk; then packing, the walk back and all products. With dropout, too."""
    share_among(2, monkeypatch)
    launches: list[int] = []

    class Counting(Team):
        def run(self, share: Any, parameters: int, threads: int, *rest: Any) -> None:
            launches.append(threads)
            super().run(share, parameters, threads, *rest)

    team = Counting()
    monkeypatch.setattr(phased, "team", lambda: team)
    run = build("LSTM", np.random.default_rng(2), t=7, b=5, i=5, h=35, **options)
    backward(run, np.random.default_rng(4)).check()
    assert launches == [2, 2]
