"""Single operators against stored results of other systems, on every device that runs them, and the definitions in dmlpy.reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.inspection import catalog
from tests.conftest import CUDA_DEVICES
from tests.support.operator_results import RESULTS, Result
from tests.support.tolerance import assert_close

ON_CUDA = [result for result in RESULTS if CudaDevice.runs(result.kind)]
TERMS = {"elementwise": 1}
"""How many products an element of an output is the sum of at most, by family."""
MOST_TERMS = 64
"""The same, of the other families."""

WITHOUT = {
    "ELEMENT_WISE_BIT_COUNT": "neither system counts bits; DirectML's documentation has examples",
    "RANDOM_GENERATOR": "they have generators of their own; test_philox has the known answers of Random123",
}
"""Operators of DirectML that have no counterpart in ONNX Runtime or PyTorch."""


def test_every_operator_of_directml_that_runs_has_results_of_another_system() -> None:
    others, numpy = {"ONNX Runtime", "PyTorch"}, dml.device("numpy")
    entries = [entry for entry in catalog.operators() if not entry.kind.beyond_directml and numpy.runs(entry.kind)]
    without = {entry.kind.short_name() for entry in entries if not others.intersection(entry.verified_against)}
    assert without == set(WITHOUT)


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


@pytest.mark.parametrize("result", RESULTS, ids=str)
def test_numpy(result: Result) -> None:
    compute(dml.device("numpy"), result)


@pytest.mark.parametrize("cuda_device", CUDA_DEVICES, indirect=True)
@pytest.mark.parametrize("result", ON_CUDA, ids=str)
def test_cuda(cuda_device: dml.Device, result: Result) -> None:
    compute(cuda_device, result)


def compute(device: dml.Device, result: Result) -> None:
    """Computes a case on a device, and compares."""
    desc = result.desc()
    given = dict(result.inputs)
    if device.name != "numpy":
        given = {name: device.from_host(array) for name, array in given.items()}
    outputs = dml.compile(desc, device=device)(**given)
    compare(
        {name: value if isinstance(value, list | tuple) else device.to_host(value) for name, value in outputs.as_dict().items()}, result
    )


@pytest.mark.parametrize("result", RESULTS, ids=str)
def test_reference(result: Result) -> None:
    compare(dml.reference(result.desc(), result.inputs).as_dict(), result)
