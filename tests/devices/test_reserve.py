"""Reserves as objects: they carry their configuration, and a gradient refuses one of another with nothing written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.descs.own_descs import HIDDEN, training
from tests.support.tensors import tensor


def values(desc: Any, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Random arrays for the described inputs of a desc, without the reserve."""
    rng = np.random.default_rng(seed)
    given: dict[str, np.ndarray[Any, Any]] = {}
    for field in desc.inputs():
        tensor = getattr(desc, field.name)
        if tensor is None or field.marker.reserve:
            continue
        kind = tensor.data_type.numpy
        given[field.name] = (
            rng.integers(0, 2, tensor.sizes).astype(kind) if kind.kind == "u" else rng.normal(size=tensor.sizes).astype(kind)
        )
    return given


def forward(desc: Any) -> tuple[dict[str, np.ndarray[Any, Any]], Any]:
    given = values(desc)
    return given, dml.compile(desc, "numpy")(**given)


def poisoned(desc: Any) -> dict[str, np.ndarray[Any, Any]]:
    described = desc.tensors()
    return {field.name: np.full(described[field.name].sizes, np.nan, np.float32) for field in desc.outputs() if field.name in described}


@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_a_reserve_leads_from_the_forward_operator_to_its_gradient(cell: str) -> None:
    desc = training(cell)
    given, outputs = forward(desc)
    assert isinstance(outputs.reserve_tensor, dml.Reserve)
    assert outputs.reserve_tensor.array.shape == desc.reserve_tensor.sizes
    gradient = desc.gradient()
    op = dml.compile(gradient, "numpy")
    shared = values(gradient, 1) | {name: array for name, array in given.items() if name in type(gradient).model_fields}
    found = op(**shared, reserve_tensor=outputs.reserve_tensor).as_dict()
    raw = op(**shared, reserve_tensor=outputs.reserve_tensor.array).as_dict()
    results = poisoned(gradient)
    op.bind(shared | {"reserve_tensor": outputs.reserve_tensor}, results)()
    for name, array in found.items():
        assert np.isfinite(array).all()
        np.testing.assert_array_equal(array, raw[name], err_msg=f"{name}: from an array in place of the reserve")
        np.testing.assert_array_equal(array, results[name], err_msg=f"{name}: from a dispatch")


CHANGES: dict[str, tuple[Any, str]] = {
    "another cell": (training("RNN"), "cell RNN"),
    "another activation": (training("GRU", activation_descs=[dml.ActivationReluDesc()] * 4), "activation_descs RELU, RELU, RELU, RELU"),
    "another direction": (training("GRU", "FORWARD"), "direction FORWARD"),
    "another reset": (training("GRU", linear_before_reset=True), "linear_before_reset True"),
    "no mask": (training("GRU", step_mask_tensor=None), "step_mask False"),
    "no lengths": (training("GRU", sequence_lengths_tensor=None), "sequence_lengths False"),
    "no dropout": (training("GRU", state_dropout_tensor=None), "state_dropout False"),
    "another type": (training("GRU", data_type="FLOAT16"), "data_type FLOAT16"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_foreign_reserve_is_refused(change: str) -> None:
    """Whatever differs is reported, by call and by bind, and nothing is written."""
    other, told = CHANGES[change]
    _, outputs = forward(other)
    gradient = training("GRU").gradient()
    op, given, results = dml.compile(gradient, "numpy"), values(gradient), poisoned(gradient)
    for attempt in (
        lambda: op(**given, **results, reserve_tensor=outputs.reserve_tensor),
        lambda: op.bind(given | {"reserve_tensor": outputs.reserve_tensor}, results),
    ):
        with pytest.raises(dml.BindError, match=told) as caught:
            attempt()
        assert [problem.code for problem in caught.value.problems] == ["reserve.foreign"]
    assert all(np.isnan(array).all() for array in results.values())


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"projection_tensor": tensor(1, 2, HIDDEN, HIDDEN)}, "projection True, expected one of projection False"),
        ({"peephole_tensor": None}, "peephole False, expected one of peephole True"),
        ({"couple_input_forget": True}, "couple_input_forget True, expected one of couple_input_forget False"),
        ({"use_clip_threshold": True, "clip_threshold": 0.5}, "clip_threshold 0.5, expected one of clip_threshold none"),
    ],
)
def test_a_reserve_of_the_same_size_may_be_foreign(members: dict[str, Any], message: str) -> None:
    plain, other = training("LSTM"), training("LSTM", **members)
    assert plain.reserve_tensor == other.reserve_tensor
    _, outputs = forward(other)
    gradient = plain.gradient()
    with pytest.raises(dml.BindError, match=f"a reserve of {message}"):
        dml.compile(gradient, "numpy")(**values(gradient), reserve_tensor=outputs.reserve_tensor)


def test_a_reserve_of_another_device_is_refused() -> None:
    gradient = training("GRU").gradient()
    given = values(gradient)
    _, outputs = forward(training("GRU"))
    elsewhere = dml.Reserve(outputs.reserve_tensor.array, {**outputs.reserve_tensor.configuration, "device": "cuda"})
    with pytest.raises(dml.BindError, match=r"a reserve of device cuda, expected one of device cpu(.|\n)*for the same device"):
        dml.compile(gradient, "numpy")(**given, reserve_tensor=elsewhere)
    assert repr(elsewhere) == f"<reserve, {list(elsewhere.array.shape)} of float32, of GRU cuda>"


def test_a_reserve_is_no_ordinary_array() -> None:
    desc = training("RNN")
    given, outputs = forward(desc)
    with pytest.raises(dml.BindError, match="input_tensor is a reserve, expected an array"):
        dml.compile(desc, "numpy")(**given | {"input_tensor": outputs.reserve_tensor})
    with pytest.raises(dml.BindError, match=r"reserve_tensor is \[3\]"):
        dml.compile(desc.gradient(), "numpy")(**values(desc.gradient()), reserve_tensor=np.zeros(3, np.float32))


def test_a_reserve_is_written_into_memory_that_is_given() -> None:
    desc = training("LSTM")
    given, outputs = forward(desc)
    memory = np.full(desc.reserve_tensor.sizes, np.nan, np.float32)
    op = dml.compile(desc, "numpy")
    first = op(**given, reserve_tensor=memory).reserve_tensor
    assert first.array is memory
    again = op(**given, reserve_tensor=outputs.reserve_tensor).reserve_tensor
    assert again.array is outputs.reserve_tensor.array
    assert again.configuration == first.configuration == outputs.reserve_tensor.configuration
    # What it belonged to does not matter where it is written anew.
    other = training("LSTM", couple_input_forget=True)
    reused = dml.compile(other, "numpy")(**values(other), reserve_tensor=again).reserve_tensor
    assert reused.array is again.array
    assert reused.configuration != again.configuration
