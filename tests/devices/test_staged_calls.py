"""Calls with small arrays of known layouts are copied to bound memory: they give what a first call gives, in arrays of their own."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.devices import staged_calls
from dmlpy.devices.operator import CompiledOperator
from dmlpy.inspection.samples import sample
from tests.support.operators.random_inputs import random_inputs
from tests.support.tables import table

Array = np.ndarray[Any, Any]

OF_RESERVES = [name for name in OPERATORS if name.startswith("DMLPY") and name.endswith(("_GRAD", "_BACKPROP_V3"))]
"""Operators that read a reserve: it is not an array of a kind that is known."""


def anew(desc: dml.OperatorDesc, device: str = "numpy") -> CompiledOperator:
    shared = dml.compile(desc, device)
    return CompiledOperator(shared.desc, shared.device, shared.feature_level, shared.flags, shared._plan)


def relu(strides: list[int] | None = None, size: int = 12) -> CompiledOperator:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[3, size // 3], strides=strides)
    return anew(dml.ActivationReluDesc(input_tensor=tensor, output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[3, size // 3])))


def values(start: int = 0) -> Array:
    return np.arange(start, start + 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call was staged."""
    found: list[bool] = []
    run = staged_calls.StagedCalls.run

    def noted(self: staged_calls.StagedCalls, tensors: Any) -> Any:
        outputs = run(self, tensors)
        found.append(outputs is not None)
        return outputs

    monkeypatch.setattr(staged_calls.StagedCalls, "run", noted)
    return found


def same(first: Any, second: Any) -> bool:
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if not isinstance(first, np.ndarray):
        return type(first) is type(second)
    rows = [(type(array), array.dtype, array.shape, array.strides, array.tobytes()) for array in (first, second)]
    return rows[0] == rows[1] and not np.shares_memory(first, second)


@table("name", [name for name in OPERATORS if name not in OF_RESERVES])
def test_later_calls_of_any_operator_give_what_the_first_gives(name: str) -> None:
    desc = sample(OPERATORS[name])
    op, inputs = anew(desc), random_inputs(np.random.default_rng(1), desc)
    constants = {place: inputs.pop(place) for place in op.prepared_inputs}
    calls = [(op, constants | inputs)]
    if constants:
        calls.append((op.prepare(**constants), inputs))
    for called, given in calls:
        found = [called(**given).as_dict() for _ in range(3)]
        for later in found[1:]:
            assert list(later) == list(found[0])
            assert all(map(same, found[0].values(), later.values()))


def test_calls_are_staged_once_their_arrays_are_known(staged: list[bool]) -> None:
    op = relu()
    for start in (-5, -3, 2):
        x = values(start)
        np.testing.assert_array_equal(op(input_tensor=x).output_tensor, np.maximum(x, 0))
        np.testing.assert_array_equal(op(InputTensor=x).output_tensor, np.maximum(x, 0))
    assert staged == [False, False, True, True, True, True]


def test_calls_of_prepared_operators_are_staged(staged: list[bool]) -> None:
    sizes = {"input_tensor": [1, 3, 2, 4], "weight_tensor": [1, 1, 5, 4], "recurrence_tensor": [1, 1, 5, 5]}
    tensors = {name: dml.TensorDesc(data_type="FLOAT32", sizes=own) for name, own in sizes.items()}
    op = anew(
        dml.RNNDesc(**tensors, activation_descs=[dml.ActivationTanhDesc()], direction="FORWARD").with_outputs("output_single_tensor"), "cpu"
    )
    rng = np.random.default_rng(3)
    x, *constants = (rng.standard_normal(own).astype(np.float32) for own in sizes.values())
    doubled = [np.float32(2) * constant for constant in constants]
    prepared, others = (op.prepare(weight_tensor=w, recurrence_tensor=r) for w, r in (constants, doubled))
    del staged[:]
    found = [prepared(input_tensor=x).output_single_tensor for _ in range(3)]
    assert staged == [False, True, True]
    with_constants = op(input_tensor=x, weight_tensor=constants[0], recurrence_tensor=constants[1]).output_single_tensor
    for own in found:
        np.testing.assert_array_equal(own, with_constants)
    other = [others(input_tensor=x).output_single_tensor for _ in range(2)]
    np.testing.assert_array_equal(*other)
    assert not np.array_equal(other[1], found[1])
    with pytest.raises(dml.BindError, match="weight_tensor"):
        prepared(input_tensor=x, weight_tensor=constants[0])
    packed = weakref.ref(prepared._memory)
    gc.disable()
    try:
        del prepared
        assert packed() is None, "constants are freed with the operator that holds them"
    finally:
        gc.enable()


def test_operands_are_told_apart_by_name(staged: list[bool]) -> None:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[3, 4])
    op = anew(dml.ElementWiseSubtractDesc(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor))
    for _ in range(2):
        np.testing.assert_array_equal(op(a_tensor=values(9), b_tensor=values(2)).output_tensor, np.full((3, 4), 7))
        np.testing.assert_array_equal(op(b_tensor=values(9), a_tensor=values(2)).output_tensor, np.full((3, 4), -7))
    assert staged == [False, False, True, True]


def test_layouts_stay_apart(staged: list[bool]) -> None:
    x, op = np.asfortranarray(values(-5)), relu(strides=[1, 3])
    for _ in range(2):
        np.testing.assert_array_equal(op(input_tensor=x).output_tensor, np.maximum(x, 0))
    with pytest.raises(dml.BindError):
        op(input_tensor=values())
    assert staged == [False, True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        values().astype(np.float64),
        values().reshape(4, 3),
        values().astype(">f4"),
        np.frombuffer(b"\0" + values().tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 4),
        None,
    ],
    ids=["type", "sizes", "byte order", "address", "none"],
)
def test_what_does_not_fit_is_refused_after_calls_that_do(wrong: Any) -> None:
    op = relu()
    for _ in range(3):
        op(input_tensor=values())
    with pytest.raises(dml.BindError):
        op(input_tensor=wrong)
    np.testing.assert_array_equal(op(input_tensor=values()).output_tensor, values())


def test_calls_that_say_more_are_not_staged(staged: list[bool]) -> None:
    op, own = relu(), np.zeros((3, 4), np.float32)
    op(input_tensor=values())
    assert op(input_tensor=values(), output_tensor=own).output_tensor is own
    np.testing.assert_array_equal(own, values())
    scratch = np.zeros(max(16, op.binding_properties.temporary_resource_size), np.uint8)
    op(input_tensor=values(), temporary=scratch)
    assert staged == [False, False]


def test_large_calls_are_not_staged(staged: list[bool]) -> None:
    op, x = relu(size=3 << 15), np.ones((3, 1 << 15), np.float32)
    for _ in range(3):
        op(input_tensor=x)
    assert not any(staged)


def test_threads_have_stages_of_their_own() -> None:
    op = relu()

    def last(start: int) -> bool:
        return all((op(input_tensor=values(start)).output_tensor == values(start)).all() for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(last, range(16)))
