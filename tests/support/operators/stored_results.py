"""Operators on a device compared with results that other libraries stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.operators.layout_runs import run
from tests.support.operators.operator_results import Result
from tests.support.tolerance import assert_close

TERMS = {"elementwise": 1}
"""How many products an element of an output is the sum of at most, by family."""


MOST_TERMS = 64
"""The same, of the other families."""


def compare(found: Mapping[str, Any], result: Result) -> None:
    """Fails where outputs are not the stored ones: whole numbers exactly, floating-point numbers as the policy has it."""
    for field, wanted in result.outputs.items():
        for ours, theirs in zip(found[field], wanted, strict=True) if isinstance(wanted, list) else [(found[field], wanted)]:
            if theirs.dtype.kind == "f":
                with np.errstate(over="ignore"):  # what the definition has in FLOAT64 may be an infinity in FLOAT32
                    rounded = np.asarray(ours).astype(theirs.dtype)
                assert_close(
                    rounded, theirs, theirs.dtype, terms=TERMS.get(result.kind.family(), MOST_TERMS), what=f"{field} by {result.peer}"
                )
            else:
                assert ours.dtype == theirs.dtype, f"{field} is of {ours.dtype}"
                np.testing.assert_array_equal(ours, theirs, f"{field} by {result.peer}")


def compute(device: dml.Device, result: Result) -> None:
    """Computes a case on a device, and compares."""
    desc = result.desc()
    found: dict[str, Any] = {}
    by_place = run(desc, {slot.place: _given(result, slot) for slot in desc.input_slots() if slot.tensor is not None}, device)
    for slot in desc.output_slots():
        if slot.place in by_place and slot.index is not None:
            found.setdefault(slot.field.name, []).append(by_place[slot.place])
        elif slot.place in by_place:
            found[slot.field.name] = by_place[slot.place]
    compare(found, result)


def _given(result: Result, slot: Any) -> Any:
    """A case's array for one place."""
    value = result.inputs[slot.field.name]
    return value if slot.index is None else value[slot.index]
