"""The activation operators against stored results of ONNX Runtime, on every device; where the two differ, against closed forms.

ONNX Runtime has no operator for RELU_GRAD: that one is held to its closed form alone, among the tests of the element-wise activations.
"""

from __future__ import annotations

import numpy as np
import pytest

import dmlpy as dml
from tests.support.folders import STORED_CASES
from tests.support.operators.onnx_runtime_activations import CASES, DIFFERENCES, check_onnx_runtime, close, described, load
from tests.support.tables import table


@table("case", CASES)
def test_onnx_runtime(any_device: dml.Device, case: str) -> None:
    check_onnx_runtime(any_device, case)


@pytest.mark.parametrize("operator", DIFFERENCES)
def test_the_differences_are_real(operator: str) -> None:
    """ONNX Runtime's stored results are not the exact ones there."""
    off = False
    for case, attributes in CASES.items():
        if attributes["operator"] == operator:
            given, stored = load(case)
            x = given["input_tensor"].astype(np.float64)
            known = DIFFERENCES[operator]
            with np.errstate(all="ignore"):
                there = known.where(x, attributes)
                off |= not close(stored.astype(np.float64), known.exact(x, attributes))[there].all()
    assert off, known.reason


def test_every_activation_but_one_has_a_case() -> None:
    kinds = {kind for case in CASES for desc in described(case, load(case)[0]) for kind in [type(desc).__name__]}
    every = {name for name in dml.__all__ if name.startswith("Activation") and name.endswith("Desc")}
    assert every - kinds - {"ActivationDesc"} == {"ActivationReluGradDesc"}
    assert {path.stem for path in STORED_CASES.glob("onnx_activation_*.npz")} == {f"onnx_activation_{case}" for case in CASES}
