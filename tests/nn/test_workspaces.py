"""The buffers that calls of dmlpy.nn keep: who uses them, how long, how much memory they are, and threads."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import nn
from dmlpy.nn import calls, idle_pool, kept_weights, layers

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
    monkeypatch.setattr(idle_pool, "MOST_IDLE_BYTES", 3 * one)
    for steps in range(4, 12):
        nn.lstm(*arguments(steps), device="numpy")
        assert nn.idle_bytes() <= 3 * one
    nn.free_buffers()
    assert nn.idle_bytes() == 0


@pytest.mark.parametrize("call", [nn.lstm, nn.lstm_vjp])
def test_idle_bytes_are_about_those_that_are_freed(call: Any) -> None:
    """Dispatches and their scratch are most of what small calls keep."""
    for _ in range(2):
        nn.free_buffers()
        tracemalloc.start()
        try:
            for steps in range(2, 6):
                call(*arguments(steps), device="cpu")
            held, counted = tracemalloc.get_traced_memory()[0], nn.idle_bytes()
            nn.free_buffers()
            freed = held - tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert 0.6 * counted < freed < 1.6 * counted


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


# weights that stay the same


@pytest.fixture
def fills(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is noted when weights are copied into a workspace."""
    noted: list[str] = []
    original = calls.Call._fill_weights

    def fill(self: calls.Call, *given: Any) -> None:
        noted.append(self.subject)
        original(self, *given)

    monkeypatch.setattr(calls.Call, "_fill_weights", fill)
    return noted


def expected_of(given: list[Any], **options: Any) -> Any:
    """The result of a workspace that has seen no other weights."""
    nn.free_buffers()
    return nn.lstm(*given, device="cpu", **options).y


def changed(given: list[Any], what: str) -> dict[str, Any]:
    """Changes the arguments, most in place; returns further options."""
    _, w, r, b = given
    if what == "nothing, in other arrays":
        given[1:] = [w.copy(), r.copy(), b.copy()]
    elif what == "nothing, in strided arrays":
        given[1] = np.repeat(w, 2, axis=1)[:, ::2]
    elif what == "b, which is left out":
        del given[3]
    elif what == "b, of which half is left out":
        given[3] = b[:20]
    elif what in ("w", "r", "b"):
        {"w": w, "r": r, "b": b}[what][..., -1] = 2.0
    return {"gates": "onnx"} if what == "the order of the gates" else {}


WHAT = (
    *("nothing, in other arrays", "nothing, in strided arrays", "w", "r", "b"),
    *("b, which is left out", "b, of which half is left out", "the order of the gates"),
)


@pytest.mark.parametrize("what", WHAT)
def test_unchanged_weights_are_copied_once_and_changes_in_place_are_seen(what: str, fills: list[str]) -> None:
    given = arguments()
    for _ in range(3):
        before = nn.lstm(*given, device="cpu").y
    assert len(fills) == 1
    given[0] = given[0] + np.float32(1)
    options = changed(given, what)
    found = nn.lstm(*given, device="cpu", **options).y
    assert len(fills) == (1 if what.startswith("nothing") else 2)
    assert not np.array_equal(found, before)
    np.testing.assert_array_equal(found, expected_of(given, **options))


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_unchanged_weights_are_not_packed_again(direction: Any) -> None:
    given = arguments()
    if direction == "bidirectional":
        given[1:] = [np.stack([part, -part]) for part in given[1:]]
    expected = nn.lstm(*given, device="cpu", direction=direction).y
    (((space, _),),) = idle_pool.IDLE._idle.values()
    for buffer in (space.w, space.r, space.b):
        buffer[...] = np.nan
    np.testing.assert_array_equal(nn.lstm(*given, device="cpu", direction=direction).y, expected)
    given[0] = given[0] * np.float32(0.5)
    found = nn.lstm(*given, device="cpu", direction=direction).y
    np.testing.assert_array_equal(found, expected_of(given, direction=direction))


def test_a_bit_is_a_change(fills: list[str]) -> None:
    given = arguments()
    given[3][0] = 0.0
    nn.lstm(*given, device="cpu")
    given[3][0] = -0.0
    nn.lstm(*given, device="cpu")
    assert len(fills) == 2


def test_weights_of_a_run_that_failed_are_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments()
    nn.lstm(*given, device="cpu")
    (((space, _),),) = idle_pool.IDLE._idle.values()
    given[1][...] *= 2

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(space, "_forward", interrupted)
        with pytest.raises(KeyboardInterrupt):
            nn.lstm(*given, device="cpu")
    found = nn.lstm(*given, device="cpu").y
    np.testing.assert_array_equal(found, expected_of(given))


def test_weights_that_change_in_every_call_are_seldom_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    given, remembered, original = arguments(), [], kept_weights._Weights

    def noted(*members: Any) -> Any:
        remembered.append(members)
        return original(*members)

    monkeypatch.setattr(kept_weights, "_Weights", noted)
    for _ in range(40):
        given[1] += np.float32(0.01)
        found = nn.lstm(*given, device="cpu").y
    assert 2 <= len(remembered) <= 6
    np.testing.assert_array_equal(found, expected_of(given))


def test_weights_are_remembered_soon_after_they_stay_the_same(fills: list[str]) -> None:
    given = arguments()
    for _ in range(2):
        for _ in range(10):
            given[1] += np.float32(0.01)
            nn.lstm(*given, device="cpu")
        fills.clear()
        for _ in range(40):
            nn.lstm(*given, device="cpu")
        assert len(fills) <= 8
