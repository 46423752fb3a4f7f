"""Every operator that NumPy runs gives the results of `dml.reference`, to the tolerance of its types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.inspection.samples import sample
from dmlpy.reference.registry import why_undefined
from tests.support.operators.random_inputs import random_inputs
from tests.support.tables import table
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, Any]

TERMS = 1024  # of the longest sums in the samples, and more

OF_TRAINING = {
    "DMLPY_OPERATOR_RNN_GRAD": "DMLPY_OPERATOR_RNN_TRAINING",
    "DMLPY_OPERATOR_LSTM_GRAD": "DMLPY_OPERATOR_LSTM_TRAINING",
    "DMLPY_OPERATOR_GRU_GRAD": "DMLPY_OPERATOR_GRU_TRAINING",
    "DMLPY_OPERATOR_CUDNN_RNN_BACKPROP_V3": "DMLPY_OPERATOR_CUDNN_RNN_V3",
}
"""Operators that read a reserve, each with the one that writes it."""


def compare(found: dml.Outputs, expected: dml.Outputs, desc: dml.OperatorDesc) -> None:
    """Fails unless all outputs agree but the reserves, whose layouts differ."""
    fields = {field.name: field for field in desc.outputs()}
    assert list(found.as_dict()) == list(expected.as_dict()) == [name for name in fields if getattr(desc, name) is not None]
    for name, value in expected.as_dict().items():
        tensors = getattr(desc, name)
        pairs = (
            zip(found.as_dict()[name], value, tensors, strict=True) if fields[name].listed else [(found.as_dict()[name], value, tensors)]
        )
        for own, exact, tensor in pairs:
            assert exact.shape == tensor.sizes
            stored = tensor.data_type.numpy
            assert exact.dtype == (np.float64 if stored.kind == "f" else stored)
            if fields[name].marker.reserve:
                continue
            if stored.kind == "f":
                assert_close(own, exact, stored, terms=TERMS, what=name)
            else:
                np.testing.assert_array_equal(own, exact, name)


@table("name", [name for name in OPERATORS if name not in OF_TRAINING])
@pytest.mark.parametrize("seed", range(3))
def test_numpy_gives_what_the_reference_says(name: str, seed: int) -> None:
    desc = sample(OPERATORS[name])
    inputs = random_inputs(np.random.default_rng(seed), desc)
    compare(dml.compile(desc, "numpy")(**inputs), dml.reference(desc, inputs), desc)


@pytest.mark.parametrize("name", OF_TRAINING)
@pytest.mark.parametrize("seed", range(3))
def test_numpy_s_gradients_are_the_reference_s(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    training: Any = sample(OPERATORS[OF_TRAINING[name]]).with_outputs()
    gradient = training.gradient()
    assert gradient.type_name == name
    [reserve] = [field.name for field in gradient.inputs() if field.marker.reserve]
    inputs = random_inputs(rng, training)
    given = random_inputs(rng, gradient) | {key: array for key, array in inputs.items() if key in gradient.tensors()}
    found, expected = dml.compile(training, "numpy")(**inputs), dml.reference(training, inputs)
    compare(found, expected, training)
    results = dml.compile(gradient, "numpy")(**given | {reserve: found.as_dict()[reserve]})
    compare(results, dml.reference(gradient, given | {reserve: expected.as_dict()[reserve]}), gradient)


def test_the_reference_defines_what_numpy_runs() -> None:
    defined = {name for name, kind in OPERATORS.items() if why_undefined(sample(kind)) is None}
    assert defined == {name for name, kind in OPERATORS.items() if NumpyDevice.runs(kind)} == set(OPERATORS)
