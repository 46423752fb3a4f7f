"""The compiled step of Adam: NumPy's numbers, bit by bit, in any layout and in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.adam_cases import OUTPUTS, adam, inputs
from tests.support.operators.layout_runs import layouts, run

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.optimization import plan
from dmlpy.devices.cpu.optimization.plans import adam_plan

IN_PLACE = {
    "each": OUTPUTS,
    "of others": ("output_second_moment_tensor", "output_parameters_tensor", "output_first_moment_tensor"),
}
"""The outputs that are written over the parameters and both moments."""


@pytest.mark.parametrize("data_type", [np.float32, np.float16])
def test_every_layout(data_type: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads where tensors are contiguous, in tiles that are not whole vectors."""
    monkeypatch.setattr(plan, "_WORK_OF_A_THREAD", 1)
    monkeypatch.setattr(plan, "available_threads", lambda: 2)
    given = inputs(data_type, (3, 5, 4, 300), 7)
    for name in ("input_first_moment_tensor", "gradient_tensor"):
        given[name][0] = -0.0
    desc = adam(given, learning_rate=0.1, epsilon=1e-3)
    assert "contiguous" in dml.compile(desc, "cpu").plan
    for own in layouts(desc):
        assert not isinstance(adam_plan(own), str)
        found, expected = (run(own, given, device) for device in ("cpu", "numpy"))
        for name in OUTPUTS:
            np.testing.assert_array_equal(found[name], expected[name])
            np.testing.assert_array_equal(np.signbit(found[name]), np.signbit(expected[name]))


@pytest.mark.parametrize("names", IN_PLACE)
def test_outputs_in_the_memory_of_inputs(names: str) -> None:
    given = inputs(np.float32, (1, 2, 70, 60), 3)
    desc = adam(given, learning_rate=0.1)
    expected = dml.compile(desc, "numpy")(**{name: array.copy() for name, array in given.items()})
    outputs = dict(zip(IN_PLACE[names], list(given.values())[:3], strict=True))
    dml.compile(desc, "cpu").bind(given, outputs)()
    for name in OUTPUTS:
        np.testing.assert_array_equal(outputs[name], expected[name])


def test_types_that_differ_are_numpys() -> None:
    given = inputs(np.float32, (1, 1, 2, 3), 3)
    desc = adam(given, learning_rate=0.1).replace(gradient_tensor=dml.TensorDesc(data_type="FLOAT16", sizes=(1, 1, 2, 3)))
    assert "tensors of one type" in str(adam_plan(desc))
