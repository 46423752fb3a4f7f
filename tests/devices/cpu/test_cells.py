"""Compiled steps of a GRU and their gradients: threads, what is left over, and what NumPy runs. The rest is tested on all devices."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.recurrent.block_cell_runs import OUTPUTS, Array, Arrays, check, described, poisons, random_inputs

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.recurrent import block_cell as plans
from dmlpy.operators.recurrent.block_cell import GRUBlockDesc

KINDS = pytest.mark.parametrize("kind", OUTPUTS, ids=lambda kind: kind.short_name())


def run(threads: int, module: ModuleType, desc: GRUBlockDesc, arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> dict[str, Array]:
    """The outputs of a compiled plan on so many threads, over poisoned scratch."""
    monkeypatch.setattr(module, "_WORK_OF_A_THREAD", 1)
    monkeypatch.setattr(module, "available_threads", lambda: threads)
    plan, found = compiled_plan(desc), poisons(desc)
    assert not isinstance(plan, str)
    assert f"{threads} thread" in plan.describe()
    scratch: Any = np.full(plan.temporary_size + 64, 0xFF, np.uint8)
    scratch[-64:] = 0x5A
    pointers = {name: array.ctypes.data for name, array in {**arrays, **found}.items()}
    plan.bind(pointers, scratch.ctypes.data, None)(0)
    assert (scratch[-64:] == 0x5A).all(), "written beyond the scratch"
    return found


@KINDS
def test_threads_change_no_bit(kind: type[GRUBlockDesc], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole panels and what is left over; the gradient's terms are summed in blocks."""
    arrays = random_inputs(np.random.default_rng(1), 11, 30, 140, kind)
    desc = described(kind, arrays)
    one, two = (run(threads, plans, desc, arrays, monkeypatch) for threads in (1, 2))
    check(two, desc, arrays)
    for name, values in one.items():
        np.testing.assert_array_equal(two[name], values)


@KINDS
def test_weights_are_read_where_they_lie(kind: type[GRUBlockDesc], monkeypatch: pytest.MonkeyPatch) -> None:
    """One sample, and rows with gaps of NaN, which the vectors of the last columns must not take in."""
    arrays = random_inputs(np.random.default_rng(2), 1, 7, 135, kind)
    for name in ("w_ru", "w_c"):
        memory = np.full((arrays[name].shape[0], arrays[name].shape[1] + 3), np.nan, np.float32)
        memory[:, :-3] = arrays[name]
        arrays[name] = memory[:, :-3]
    desc = described(kind, arrays)
    check(run(1, plans, desc, arrays, monkeypatch), desc, arrays)


@KINDS
def test_what_numpy_runs_says_why(kind: type[GRUBlockDesc]) -> None:
    arrays = random_inputs(np.random.default_rng(3), 3, 4, 5, kind)
    arrays["w_c"] = np.asfortranarray(arrays["w_c"])
    plan = dml.compile(described(kind, arrays), "cpu").plan
    assert plan.startswith("strategy: numpy (a compiled step needs tensors whose rows' elements lie side by side)")


def test_gradients_of_saturated_candidates_keep_their_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 - c * c, computed as it stands, would have few where c is near 1."""
    arrays = random_inputs(np.random.default_rng(4), 3, 4, 5, dml.GRUBlockCellGradDesc)
    arrays["c"] = np.float32(1) - np.float32(2**-20) * np.arange(1, 16, dtype=np.float32).reshape(3, 5)
    desc = described(dml.GRUBlockCellGradDesc, arrays, "d_c_bar")
    check(run(1, plans, desc, arrays, monkeypatch), desc, arrays)
