"""The buffers that calls of dmlpy.nn keep: who uses them, how long, how much memory they are, and threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import nn
from dmlpy.nn import layers

RNG = np.random.default_rng(3)


def arguments(steps: int = 4) -> list[Any]:
    return [RNG.standard_normal(shape, np.float32) for shape in ((steps, 2, 3), (20, 3), (20, 5), (40,))]


@pytest.fixture(autouse=True)
def empty_pool() -> None:
    nn.free_buffers()


def test_calls_of_equal_sizes_share_one_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    original = layers.Workspace.__init__

    def counted(self: Any, *given: Any) -> None:
        made.append(given)
        original(self, *given)

    monkeypatch.setattr(layers.Workspace, "__init__", counted)
    for _ in range(3):
        nn.lstm(*arguments(), device="numpy")
    assert len(made) == 1
    for _ in range(2):  # the gradient's own, which is free again once nobody can ask for it
        nn.lstm_vjp(*arguments(), device="numpy")
    assert len(made) == 2
    first = nn.lstm_vjp(*arguments(), device="numpy")
    second = nn.lstm_vjp(*arguments(), device="numpy")
    assert len(made) == 3
    assert first[0].y is not second[0].y


def test_idle_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    nn.lstm(*arguments(), device="numpy")
    one = nn.idle_bytes()
    assert one > 0
    monkeypatch.setattr(layers, "MOST_IDLE_BYTES", 3 * one)
    for steps in range(4, 12):
        nn.lstm(*arguments(steps), device="numpy")
        assert nn.idle_bytes() <= 3 * one
    nn.free_buffers()
    assert nn.idle_bytes() == 0


def test_results_are_the_callers() -> None:
    given = arguments()
    first = nn.lstm(*given, device="numpy")
    kept = [np.array(part) for part in first]
    for part in nn.lstm(*arguments(), device="numpy"):
        part[...] = np.nan
    for part, expected in zip(first, kept, strict=True):
        np.testing.assert_array_equal(part, expected)


def test_threads_do_not_share_a_workspace() -> None:
    cases = [arguments() for _ in range(4)]
    expected = [nn.lstm_vjp(*given, device="numpy")[1](np.ones((4, 2, 5), np.float32)).w for given in cases]

    def train(number: int) -> bool:
        (y, *_), backward = nn.lstm_vjp(*cases[number % 4], device="numpy")
        return np.array_equal(backward(np.ones_like(y)).w, expected[number % 4])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(train, range(60)))


def test_no_memory_is_a_device_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_left(*_: Any) -> None:
        raise MemoryError("out of memory")

    monkeypatch.setattr(layers.Workspace, "_zeros", nothing_left)
    with pytest.raises(dml.DeviceError, match="buffers"):
        nn.lstm(*arguments(), device="numpy")
