"""Calls with equal arguments share their desc; what is only equal to Python does not count as equal."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import x
from dmlpy.validation import checking
from dmlpy.x.calls import _Call
from tests.support.structure.growth import calls
from tests.support.tensors import tensor


def desc_of(expression: Any) -> dml.OperatorDesc:
    (node,) = expression.graph().nodes
    found: dml.OperatorDesc = node.operator
    return found


def test_equal_calls_share_their_desc() -> None:
    first, second = (x.activation_elu(x.input(name, tensor(1, 2, 3, 4)), alpha=0.5) for name in "ab")
    assert desc_of(first) is desc_of(second)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [("alpha", 0.0, -0.0), ("alpha", 0.5, 0.25)],
)
def test_calls_with_unlike_numbers_do_not(name: str, one: float, other: float) -> None:
    source = x.input("a", tensor(1, 2, 3, 4))
    first, second = (desc_of(x.activation_elu(source, **{name: value})) for value in (one, other))
    assert first != second
    assert str(getattr(first, name)) == str(one)
    assert str(getattr(second, name)) == str(other)


def test_calls_with_unlike_views_do_not() -> None:
    source = x.input("a", tensor(1, 2, 3, 4))
    found = [desc_of(x.activation_relu(view)) for view in (source, source.transpose(0, 1, 3, 2))]
    assert [desc.tensors()["input_tensor"].sizes for desc in found] == [(1, 2, 3, 4), (1, 2, 4, 3)]


def test_a_flag_is_no_integer_though_python_says_so() -> None:
    source = x.input("a", tensor(1, 2, 3, 4))
    x.join([source, source], axis=1)
    with pytest.raises(dml.DescError, match="axis"):
        x.join([source, source], axis=True)


def test_a_policy_of_the_callers_is_asked_each_time() -> None:
    asked: list[Any] = []

    def strides(sizes: Any) -> None:
        asked.append(sizes)

    source = x.input("a", tensor(1, 2, 3, 4))
    with x.tensor_policy(x.TensorPolicy(strides)):
        for _ in range(2):
            x.activation_relu(source)
    assert asked == [(1, 2, 3, 4)] * 2


def test_an_error_is_reported_with_the_line_of_each_call() -> None:
    source = x.input("a", tensor(1, 2, 3, 4))
    told = []
    for _ in range(2):
        with pytest.raises(dml.DescError) as error:
            x.slice1(source, input_window_offsets=[9], input_window_sizes=[1], input_window_strides=[1])
        told.append(error.value)
    with pytest.raises(dml.DescError) as error:
        x.slice1(source, input_window_offsets=[9], input_window_sizes=[1], input_window_strides=[1])
    told.append(error.value)
    assert len({error.problems for error in told}) == 1
    assert len({error.subject for error in told}) == 2, "two lines"
    assert all(Path(__file__).name in error.subject for error in told)


@pytest.mark.parametrize("valid", [True, False])
def test_operands_are_not_kept_alive(*, valid: bool) -> None:
    gc.freeze()  # what other tests have made is not looked through, which takes seconds
    expression = x.constant(np.ones((1, 2, 3, 5), np.float32))
    operand = weakref.ref(expression._ref.producer)
    try:
        x.activation_relu(expression) if valid else x.space_to_depth(expression, block_size=7)
    except dml.DescError:
        assert not valid
    del expression
    gc.collect()
    assert operand() is None


def test_a_desc_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    original = checking._size_problems

    def counted(desc: Any, slot: Any, *others: Any, **named: Any) -> Any:
        looked_at.append(slot.place)
        return original(desc, slot, *others, **named)

    monkeypatch.setattr(checking, "_size_problems", counted)
    desc = dml.ActivationEluDesc(input_tensor=tensor(7, 6, 5, 3), output_tensor=tensor(7, 6, 5, 3), alpha=0.5)
    for _ in range(2):
        assert not dml.check(desc)
        assert dml.lowest_level(desc) == dml.FeatureLevel.FL_1_0
    assert looked_at == ["input_tensor", "output_tensor"]


def test_a_desc_that_is_valid_at_one_level_is_refused_at_another() -> None:
    desc = dml.ActivationEluDesc(input_tensor=tensor(1, 1, 1, 1, 2), output_tensor=tensor(1, 1, 1, 1, 2), alpha=0.5)
    expected = [problem.code for problem in dml.check(desc.replace(), "1_0")]
    assert expected == ["dims.support", "dims.support"]
    assert not dml.check(desc)
    assert [problem.code for problem in dml.check(desc, "1_0")] == expected


def test_the_places_of_a_desc_are_listed_once() -> None:
    joined = dml.JoinDesc(input_tensors=[tensor(1, 1, 1, 1)] * 50, axis=3, output_tensor=tensor(1, 1, 1, 50))
    joined.slots(), joined.input_slots(), joined.output_slots(), joined.tensors()
    assert calls(lambda: [joined.input_slots() for _ in range(100)]) < 1000
    own = joined.tensors()
    own.clear()
    assert len(joined.tensors()) == 51, "a caller's dict is the caller's"


def test_a_valid_graph_describes_none_of_its_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = x.activation_relu(x.activation_relu(x.input("a", tensor(1, 2, 3, 4)))).graph()
    described: list[int] = []

    def label(self: dml.Graph, index: int) -> str:
        described.append(index)
        return ""

    monkeypatch.setattr(type(graph), "label", label)
    assert not graph.check()
    assert not described


def test_calls_that_differ_by_scale_bias_share_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with ordinary numbers: others are checked, and refused where they are wrong."""
    a = x.input("a", [5, 7, 11])
    made: list[dml.OperatorDesc] = []
    build = _Call._desc

    def counted(*arguments: Any) -> dml.OperatorDesc:
        made.append(build(*arguments))
        return made[-1]

    monkeypatch.setattr(_Call, "_desc", counted)
    for factor in (2.0, np.float32(0.5), 3, -0.0, 0.0):
        desc, again = (desc_of(x.identity(a, scale_bias={"Scale": factor, "Bias": 1})) for _ in range(2))
        assert desc is again
        # -0.0 and 0.0 are different members
        factors = dml.ScaleBias(scale=float(factor), bias=1.0)
        assert desc == dml.ElementWiseIdentityDesc(input_tensor=a.tensor, output_tensor=a.tensor, scale_bias=factors)
        assert dml.check(desc) == []
    assert len(made) == 1
    for wrong in (1e39, 10**400, "2"):
        with pytest.raises(dml.DescError, match=r"scale_bias\.scale"):
            x.identity(a, scale_bias={"Scale": wrong, "Bias": 1})
