"""Single operators against stored results of other systems, on every device that runs them, and the definitions in dmlpy.reference."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.inspection import catalog
from tests.support.operators.operator_results import RESULTS, Result
from tests.support.operators.stored_results import compare, compute
from tests.support.tables import table

ON_CUDA = [result for result in RESULTS if CudaDevice.runs(result.kind)]
USUAL = 1

WITHOUT = {
    "ELEMENT_WISE_BIT_COUNT": "neither system counts bits; DirectML's documentation has examples",
    "RANDOM_GENERATOR": "they have generators of their own; test_philox has the known answers of Random123",
}
"""Operators of DirectML that have no counterpart in ONNX Runtime or PyTorch."""


def test_every_operator_of_directml_that_runs_has_results_of_another_system() -> None:
    others, numpy = {"ONNX Runtime", "PyTorch"}, dml.device("numpy")
    entries = [entry for entry in catalog.operators() if not entry.kind.is_extension and numpy.runs(entry.kind)]
    without = {entry.kind.short_name() for entry in entries if not others.intersection(entry.verified_against)}
    assert without == set(WITHOUT)


@table("result", RESULTS, ids=str)
def test_numpy_and_the_reference(result: Result) -> None:
    compute(dml.device("numpy"), result)
    compare(dml.reference(result.desc(), result.inputs).as_dict(), result)


def on_cuda() -> list[Any]:
    """Each device with each result. Most have a kernel to compile: of every second operator the first is usual."""
    rows, known = [], Counter[str]()
    for result in ON_CUDA:
        key = result.kind.short_name()
        known[key] += 1
        marks = [pytest.mark.slow] * (known[key] > USUAL or len(known) % 2)
        rows.append(pytest.param("cuda-emulated", result, marks=marks, id=f"cuda-emulated-{result}"))
        rows.append(pytest.param("cuda", result, marks=pytest.mark.gpu, id=f"cuda-{result}"))
    return rows


@pytest.mark.parametrize(("cuda_device", "result"), on_cuda(), indirect=["cuda_device"])
def test_cuda(cuda_device: dml.Device, result: Result) -> None:
    compute(cuda_device, result)
