"""Runs compiled plans of the device `cpu` on so many threads, over poisoned memory."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cpu.plans import compiled_plan
from tests.support.operators.layout_runs import Array


def run_on(
    threads: int,
    plans: ModuleType,
    desc: dml.OperatorDesc,
    given: dict[str, Array],
    monkeypatch: pytest.MonkeyPatch,
    *,
    prepared: bool = False,
) -> Array:
    """The first output. `plans` is the module of the plan; `prepared` packs the constants before the launch, not in it."""
    monkeypatch.setattr(plans, "_WORK_OF_A_THREAD", 1)
    monkeypatch.setattr(plans, "available_threads", lambda: threads)
    plan = compiled_plan(desc)
    assert not isinstance(plan, str)
    assert f"{threads} thread" in plan.describe()
    output = desc.tensors()["output_tensor"]
    dtype = output.data_type.numpy
    result: Array = np.full(output.sizes, np.nan if dtype.kind == "f" else 0x5A, dtype)
    pointers = {place: array.ctypes.data for place, array in given.items()} | {"output_tensor": result.ctypes.data}
    memory: Any = np.full((2, max(plan.temporary_size, plan.persistent_size) + 64), 0xA5, np.uint8)
    temporary, persistent = (row.ctypes.data + -row.ctypes.data % 64 for row in memory)
    if prepared:
        plan.pack({place: pointers.pop(place) for place in plan.constants}, persistent)(0)
    plan.bind(pointers, temporary, persistent if prepared else None)(0)
    return result
