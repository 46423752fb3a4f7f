"""Which samples take which steps, found by compiled functions and compared with the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu.recurrent.packing import ActiveRows, in_place
from dmlpy.devices.cpu.recurrent.parameters import BLANK, REPEATS

Array = np.ndarray[Any, np.dtype[Any]]


@st.composite
def selections(draw: st.DrawFn) -> tuple[int, int, dict[str, Array]]:
    """T, B, and lengths, or a mask, or both."""
    steps, batch = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    tensors: dict[str, Array] = {}
    which = draw(st.sampled_from(["lengths", "mask", "both"]))
    if which != "mask":
        lengths = draw(st.lists(st.one_of(st.integers(0, steps + 1), st.just(2**32 - 1)), min_size=batch, max_size=batch))
        tensors["sequence_lengths_tensor"] = np.array(lengths, np.uint32).reshape(1, 1, 1, batch)
    if which != "lengths":
        mask = draw(st.lists(st.integers(0, 2), min_size=steps * batch, max_size=steps * batch))
        tensors["step_mask_tensor"] = np.array(mask, np.uint8).reshape(1, 1, steps, batch)
    return steps, batch, tensors


def active_rows(steps: int, batch: int, tensors: dict[str, Array], *, backward: bool) -> ActiveRows:
    """The rows, found in poisoned memory."""
    poisoned = {name: np.full(sizes, -(2**40), dtype) for name, sizes, dtype in ActiveRows.scratch(steps, batch, tensors)}
    rows = ActiveRows(steps, batch, tensors, backward, poisoned)
    rows.update()
    return rows


def taken_by(steps: int, batch: int, tensors: dict[str, Array]) -> tuple[Array, Array]:
    """Which steps each sample takes, and which are past its end, [T, B]."""
    lengths = tensors.get("sequence_lengths_tensor", np.full(batch, steps)).reshape(batch).astype(np.int64)
    ended = np.arange(steps)[:, None] >= lengths
    return (tensors.get("step_mask_tensor", np.ones((1, 1, steps, batch)))[0, 0] != 0) & ~ended, ended


@settings(max_examples=150, deadline=None)
@given(selection=selections(), backward=st.booleans())
def test_the_rows_of_all_steps(selection: tuple[int, int, dict[str, Array]], backward: bool) -> None:
    steps, batch, tensors = selection
    rows = active_rows(steps, batch, tensors, backward=backward)
    takes, ended = taken_by(steps, batch, tensors)
    assert rows.order.tolist() == sorted(range(batch), key=lambda sample: -int(takes[:, sample].sum()))
    expected, bases = list[int](), [0]
    for time in range(steps):
        of_step = takes[time, rows.order]
        active = int(np.flatnonzero(of_step).max(initial=-1)) + 1
        expected += [time * batch + int(sample) for sample in rows.order[:active]]
        bases.append(len(expected))
    assert rows.bases.tolist() == bases
    assert rows.rows is not None
    assert rows.rows[: bases[-1]].tolist() == expected
    idle = np.zeros(len(expected))
    rows.fill_idle(idle, 0, 1.0)
    assert idle.tolist() == [float(not takes.reshape(-1)[number]) for number in expected]
    if rows.skips is None:
        assert "step_mask_tensor" not in tensors
        return
    for sample in range(batch):
        begun = False
        for time in reversed(range(steps)) if backward else range(steps):
            begun |= bool(takes[time, sample])
            skip = 0 if takes[time, sample] else REPEATS if begun and not ended[time, sample] else BLANK
            assert rows.skips[time, sample] == skip


@settings(max_examples=60, deadline=None)
@given(selection=selections(), start=st.integers(0, 5))
def test_rows_are_read_where_they_lie(selection: tuple[int, int, dict[str, Array]], start: int) -> None:
    steps, batch, tensors = selection
    start = min(start, steps - 1)
    rows, whole = active_rows(steps, batch, tensors, backward=False), np.zeros((batch, steps, 3), np.float32)
    values = whole.swapaxes(0, 1)[start:]  # steps lie within samples
    stages: list[Any] = []
    found = in_place(values, rows, stages)
    assert rows.rows is not None
    assert found.addresses is not None
    begin, end = int(rows.bases[start]), int(rows.bases[steps])
    for stage in stages:
        stage(rows.rows[begin:end] - start * batch, begin)
    takes, _ = taken_by(steps, batch, tensors)
    for address, number in zip(found.addresses, rows.rows[begin:end], strict=False):
        time, sample = divmod(int(number), batch)
        lies = whole.ctypes.data + sample * whole.strides[0] + time * whole.strides[1]
        assert (address == lies) == bool(takes[time, sample])


@settings(max_examples=60, deadline=None)
@given(selection=selections(), start=st.integers(0, 5), columns=st.sampled_from([1, 7, 16, 37]))
def test_rows_of_steps_that_nobody_takes_are_cleared(selection: tuple[int, int, dict[str, Array]], start: int, columns: int) -> None:
    steps, batch, tensors = selection
    start = min(start, steps - 1)
    whole = np.ones((batch, steps + 1, columns + 1), np.float32)
    values = whole[:, :steps, :columns].swapaxes(0, 1)[start:]
    active_rows(steps, batch, tensors, backward=False).clearing(values, start)()
    takes, _ = taken_by(steps, batch, tensors)
    assert np.array_equal(values, np.broadcast_to(takes[start:, :, None], values.shape))
    values[...] = 1.0
    assert (whole == 1.0).all()
