"""Descs and graphs with other sizes: what shares an axis follows, layouts retain their order, and what cannot follow is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.tensors import tensor

pytest.importorskip("dask")
from dmlpy.dask.resizing import resize, resize_tensor
from tests.support.dask.chunked import INPUTS, STEPS, UNITS, lstm, network


@pytest.mark.parametrize(
    ("given", "sizes", "expected"),
    [
        (tensor(2, 3, 4), {1: 5}, tensor(2, 5, 4)),
        (tensor(2, 3, 4, strides=(4, 8, 1)), {0: 7}, tensor(7, 3, 4, strides=(4, 28, 1))),  # axis 1 lies outside
        (tensor(2, 3, 4, strides=(15, 5, 1)), {1: 6}, tensor(2, 6, 4, strides=(30, 5, 1))),  # rows of 5 for 4 elements
        (tensor(2, 3, 4, strides=(0, 4, 1)), {0: 9, 1: 5}, tensor(9, 5, 4, strides=(0, 4, 1))),
        (tensor(1, 3, 4, strides=(99, 4, 1)), {0: 2}, tensor(2, 3, 4, strides=(12, 4, 1))),
        (tensor(2, 3, total_tensor_size_in_bytes=64), {0: 99}, tensor(99, 3)),
    ],
)
def test_layouts_keep_their_order_and_gaps(given: dml.TensorDesc, sizes: dict[int, int], expected: dml.TensorDesc) -> None:
    found = resize_tensor(given, sizes)
    assert (found.sizes, found.element_strides) == (expected.sizes, expected.element_strides)
    assert found.total_tensor_size_in_bytes is None


def convolution() -> dml.ConvolutionDesc:
    return dml.ConvolutionDesc(
        input_tensor=tensor(2, 3, 8, 8),
        filter_tensor=tensor(5, 3, 3, 3),
        mode="CROSS_CORRELATION",
        direction="FORWARD",
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[0, 0],
        end_padding=[0, 0],
        output_padding=[0, 0],
        group_count=1,
    ).with_outputs("output_tensor")


D = 2
ROWS: dict[str, tuple[Any, dict[str, dict[int, int]], dict[str, tuple[int, ...]]]] = {
    "recurrent batch": (
        lstm(),
        {"input_tensor": {2: 9}},
        {
            "input_tensor": (1, STEPS, 9, INPUTS),
            "sequence_lengths_tensor": (1, 1, 1, 9),
            "weight_tensor": (1, D, 4 * UNITS, INPUTS),
            "output_sequence_tensor": (STEPS, D, 9, UNITS),
            "output_single_tensor": (1, D, 9, UNITS),
            "output_cell_single_tensor": (1, D, 9, UNITS),
        },
    ),
    "steps and batch, told by another input": (
        lstm("FORWARD", "output_sequence_tensor"),
        {"sequence_lengths_tensor": {3: 5}, "input_tensor": {1: 4}},
        {"input_tensor": (1, 4, 5, INPUTS), "output_sequence_tensor": (4, 1, 5, UNITS)},
    ),
    "factors": (
        lstm("FORWARD", "output_single_tensor"),
        {"weight_tensor": {2: 8 * UNITS}},
        {
            "recurrence_tensor": (1, 1, 8 * UNITS, 2 * UNITS),
            "bias_tensor": (1, 1, 1, 16 * UNITS),
            "output_single_tensor": (1, 1, 2, 2 * UNITS),
        },
    ),
    "sizes that follow by a formula": (
        convolution(),
        {"input_tensor": {0: 7, 3: 10}},
        {"output_tensor": (7, 5, 6, 8), "filter_tensor": (5, 3, 3, 3)},
    ),
    "a graph, through views and into other inputs": (
        network(),
        {"x": {2: 9}},
        {"lengths": (1, 1, 1, 9), "w1": (1, 1, 3 * UNITS, UNITS), "y": (1, STEPS, 9, 5)},
    ),
}


@pytest.mark.parametrize(("described", "sizes", "expected"), ROWS.values(), ids=ROWS)
def test_what_shares_an_axis_follows(described: Any, sizes: dict[str, dict[int, int]], expected: dict[str, tuple[int, ...]]) -> None:
    found = resize(described, sizes)
    tensors = {**found.inputs, **found.outputs}
    assert {name: tensors[name].sizes for name in expected} == expected
    assert dml.check(found.described) == []


def test_the_same_sizes_change_nothing() -> None:
    for described in (lstm(), network(), convolution()):
        same = {name: dict(enumerate(tensor.sizes)) for name, tensor in resize(described, {}).inputs.items()}
        assert resize(described, same).described == described


def sum_of_views() -> dml.Graph:
    """A graph in which an axis is part of another one's entries: [2, 6] is read as [12]."""
    g = dml.GraphBuilder()
    x = g.input("x", tensor(1, 1, 2, 6))
    y = g.add(dml.ActivationReluDesc, input_tensor=x)
    g.output("y", g.add(dml.ActivationReluDesc, input_tensor=y.viewed(tensor(1, 1, 1, 12))))
    return g.build()


def with_constant() -> dml.Graph:
    g = dml.GraphBuilder()
    x = g.input("x", tensor(1, 1, 2, 6))
    g.output("y", g.add(dml.ElementWiseAddDesc, a_tensor=x, b_tensor=g.constant("ones", np.ones((1, 1, 2, 6), np.float32))))
    return g.build()


@pytest.mark.parametrize(
    ("described", "sizes", "message"),
    [
        (lstm(), {"input_tensor": {0: 2}}, r"input_tensor\.sizes\[0\] is 2, expected 1"),
        (lstm(), {"weight_tensor": {2: 4 * UNITS + 1}}, r"weight_tensor\.sizes\[2\] is 17, expected a multiple of 4"),
        (lstm(), {"input_tensor": {2: 3}, "sequence_lengths_tensor": {3: 4}}, "is 3 and 4, expected one size"),
        (sum_of_views(), {"x": {2: 4}}, "expected an axis that every view of the tensor has"),
        (with_constant(), {"x": {2: 4}}, "the graph holds it as a constant"),
    ],
)
def test_what_cannot_follow_is_refused(described: Any, sizes: dict[str, dict[int, int]], message: str) -> None:
    with pytest.raises(dml.DescError, match=message) as caught:
        resize(described, sizes)
    assert [problem.code for problem in caught.value.problems] == ["dask.axis"]
