"""The compiled plans of recurrent layers and their gradients, for the runs of `gradient_runs`. They need llvmlite."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from dmlpy.devices.cpu.recurrent import schedule
from dmlpy.devices.cpu.recurrent.gradient_plan import GradientPlan
from dmlpy.devices.cpu.recurrent.parameters import ReserveRows, saves_argument
from dmlpy.devices.cpu.recurrent.plan import RecurrentPlan
from dmlpy.operators.activation import ActivationDesc
from tests.support.recurrent.gradient_runs import Plans
from tests.support.recurrent.gradient_runs import backward as backward_by
from tests.support.recurrent.training_runs import SavedRows

Array = np.ndarray[Any, np.dtype[Any]]


def _saved_rows(desc: Any, array: Array) -> SavedRows:
    rows = ReserveRows.of(desc, array)
    return SavedRows(rows.saved, rows.hidden, rows.memory)


def _saved_gates(desc: Any, d: int) -> Iterator[tuple[int, int, ActivationDesc | None]]:
    f, *others = desc.activations_of(d)
    for gate in range(desc.cell.saved):
        if gate == 2 and desc.cell.couple_input_forget:
            continue
        is_gate = gate < len(desc.gate_names)
        activation = others[0] if others and gate == len(desc.gate_names) - 1 else f
        yield gate, gate, activation if is_gate and not saves_argument(activation, desc.cell.clip is not None) else None


CPU = Plans(RecurrentPlan, GradientPlan, _saved_rows, _saved_gates)
backward = partial(backward_by, plans=CPU)


def share_among(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes plans share the steps of any layer among so many threads."""
    monkeypatch.setattr(schedule, "_STEP_WORK", 1)
    monkeypatch.setattr(schedule, "_DIRECTION_WORK", 1)
    monkeypatch.setattr(schedule, "available_threads", lambda: threads)
