"""Messages whose cause is easily sought elsewhere, or whose limit has a way around it: each names the cause, and the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.inspection.explain import explain
from dmlpy.messages.problems import Problem
from tests.support.tensors import tensor


def relu(*sizes: int, strides: list[int] | None = None) -> dml.ActivationReluDesc:
    return dml.ActivationReluDesc(input_tensor=tensor(*sizes, strides=strides), output_tensor=tensor(*sizes))


def top_k(data_type: str) -> dml.TopK1Desc:
    values, indices = tensor(1, 1, 1, 2), tensor(1, 1, 1, 2, data_type=data_type)
    return dml.TopK1Desc(input_tensor=tensor(1, 1, 1, 8), output_value_tensor=values, output_index_tensor=indices, axis=3, k=2)


def line(strides: list[int] | None = None) -> dml.ConvolutionDesc:
    """A convolution of one spatial dimension."""
    arrays = {"strides": [1], "dilations": [1], "start_padding": [0], "end_padding": [0], "output_padding": [0]}
    return dml.ConvolutionDesc(input_tensor=tensor(1, 2, 10, strides=strides), filter_tensor=tensor(4, 2, 3), **arrays).with_outputs()


def gather(axis: int, *indices: int) -> dml.GatherElementsDesc:
    return dml.GatherElementsDesc(input_tensor=tensor(3, 4), indices_tensor=tensor(*indices, data_type="UINT32"), axis=axis)


EMPTY = "DirectML has no empty tensors: leave the operator out where a size is 0"
SAME_BYTES = "describe it as {}: numbers of 0 to {} have the same bytes in both"
MERGE = "merge dimensions that the operator treats alike, in all its tensors: here sizes {}, for instance"
WITH_A_HEIGHT = (
    "give it a height of 1, sizes {}, and put an entry in front of each array: 1, or 0 for padding; or feature level 4_0 takes 3"
)


def first(desc: Any, level: str = "6_4") -> Problem:
    return dml.check(desc, level)[0]


CHECKED: list[tuple[str, Callable[[], Problem], str, str | None]] = [
    # what is described, its first problem, where, and the remedy
    ("an empty tensor", lambda: first(relu(0, 3)), "input_tensor.sizes[0]", EMPTY),
    ("a size that is negative", lambda: first(relu(-1, 3)), "input_tensor.sizes[0]", None),
    ("a tensor without dimensions", lambda: first(relu()), "input_tensor.sizes", "a scalar is sizes [1]"),
    ("9 dimensions", lambda: first(relu(*[2] * 9)), "input_tensor.sizes", MERGE.format([4, *[2] * 7])),
    ("10 dimensions", lambda: first(relu(2, 3, 5, *[2] * 7)), "input_tensor.sizes", MERGE.format([30, *[2] * 7])),
    ("9 dimensions, a leading one", lambda: first(relu(1, *[2] * 8)), "input_tensor.sizes", f"leave out leading ones: sizes {[2] * 8}"),
    (
        "9 dimensions of which some continue each other",
        lambda: first(relu(*[2] * 9, strides=[0, 0, 0, 0, 0, 0, 0, 2, 1])),
        "input_tensor.sizes",
        MERGE.format(f"{[4, *[2] * 7]} and strides {[0, 0, 0, 0, 0, 0, 2, 1]}"),
    ),
    (
        "9 dimensions that cannot be merged",
        lambda: first(relu(*[2] * 9, strides=[3**axis for axis in range(9)])),
        "input_tensor.sizes",
        "run the operator on slices along one of the dimensions",
    ),
    ("100 dimensions", lambda: first(relu(*[2] * 100)), "input_tensor.sizes", None),
    (
        "indices of a signed type",
        lambda: first(top_k("INT64")),
        "output_index_tensor.data_type",
        SAME_BYTES.format("UINT64", 2**63 - 1),
    ),
    ("indices of a signed type", lambda: first(top_k("INT32")), "output_index_tensor.data_type", SAME_BYTES.format("UINT32", 2**31 - 1)),
    (
        "indices of a signed type whose kin is of a later level",
        lambda: first(top_k("INT64"), "2_1"),
        "output_index_tensor.data_type",
        SAME_BYTES.format("UINT64, which feature level 5_0 takes", 2**63 - 1),
    ),
    ("indices of another type", lambda: first(top_k("FLOAT32")), "output_index_tensor.data_type", None),
    ("a line below 4_0", lambda: first(line(), "3_0"), "input_tensor.sizes", WITH_A_HEIGHT.format([1, 2, 1, 10])),
    ("its filter", lambda: dml.check(line(), "3_0")[1], "filter_tensor.sizes", WITH_A_HEIGHT.format([4, 2, 1, 3])),
    (
        "a line with strides",
        lambda: first(line([20, 1, 2]), "3_0"),
        "input_tensor.sizes",
        WITH_A_HEIGHT.format("[1, 2, 1, 10] and strides [20, 1, 0, 2]"),
    ),
    (
        "indices that differ from the input beside the axis",
        lambda: first(gather(1, 2, 4).with_outputs()),
        "axis",
        "if dimension 1 is meant, all tensors have one size along dimension 0",
    ),
    (
        "indices that differ from the input everywhere",
        lambda: first(gather(1, 2, 3).with_outputs()),
        "input_tensor.sizes[0]",
        None,
    ),
]


@pytest.mark.parametrize(("told", "path", "remedy"), [row[1:] for row in CHECKED], ids=[row[0] for row in CHECKED])
def test_the_first_problem_and_its_remedy(told: Callable[[], Problem], path: str, remedy: str | None) -> None:
    problem = told()
    assert (problem.path, problem.remedy) == (path, remedy)


def test_remedies_are_right() -> None:
    for remedied, level in ((relu(4, *[2] * 7), "6_4"), (relu(*[2] * 8), "6_4"), (top_k("UINT64"), "6_4"), (top_k("UINT64"), "5_0")):
        assert dml.check(remedied, level) == []
    two = {"strides": [1, 1], "dilations": [1, 1], "start_padding": [0, 0], "end_padding": [0, 0], "output_padding": [0, 0]}
    plane = dml.ConvolutionDesc(input_tensor=tensor(1, 2, 1, 10), filter_tensor=tensor(4, 2, 1, 3), **two).with_outputs()
    assert dml.check(plane, "3_0") == []
    x, w = np.arange(20, dtype=np.float32).reshape(1, 2, 10), np.ones((4, 2, 3), np.float32)
    y = dml.compile(plane, "numpy")(input_tensor=x.reshape(1, 2, 1, 10), filter_tensor=w.reshape(4, 2, 1, 3)).output_tensor
    assert y.tobytes() == dml.compile(line(), "numpy")(input_tensor=x, filter_tensor=w).output_tensor.tobytes()


@pytest.mark.parametrize(
    ("desc", "paths"),
    [
        (dml.ActivationReluDesc(input_tensor=tensor(0, 3)), ["input_tensor.sizes[0]"]),
        (dml.GEMMDesc(a_tensor=tensor(0, 3), b_tensor=tensor(3, 0)), ["a_tensor.sizes[0]", "b_tensor.sizes[1]"]),
        (dml.TopK1Desc(input_tensor=tensor(0, 3), axis=1, k=1), ["input_tensor.sizes[0]"]),  # of two outputs, once
        (line().replace(strides=[0], output_tensor=None), ["strides[0]"]),
        (line().replace(strides=[1, 1, 1], group_count=0, output_tensor=None), ["strides", "group_count"]),
    ],
)
def test_outputs_of_inputs_and_attributes_that_cannot_be_are_not_called_undetermined(desc: dml.OperatorDesc, paths: list[str]) -> None:
    with pytest.raises(dml.DescError) as caught:
        desc.with_outputs()
    assert [problem.path for problem in caught.value.problems] == paths
    assert "not determined" not in str(caught.value)


@pytest.mark.parametrize("indices", [(2, 4), (3, 4), (1, 1)])
def test_gathered_elements_have_the_sizes_of_the_indices(indices: tuple[int, int]) -> None:
    output = gather(0, *indices).with_outputs().output_tensor
    assert output is not None
    assert output.sizes == indices


@pytest.mark.parametrize("whole", ["operator", "graph"])
@pytest.mark.parametrize(
    ("shape", "remedy"),
    [
        ((2, 3), "only dimensions of size 1 differ: array.reshape(1, 1, 2, 3)"),
        ((3, 2), "the number of elements matches: array.reshape(1, 1, 2, 3) keeps their order"),
        ((6,), "the number of elements matches: array.reshape(1, 1, 2, 3) keeps their order"),
        ((2, 3, 1, 1), "only dimensions of size 1 differ: array.reshape(1, 1, 2, 3)"),
        ((1, 1, 2, 4), None),
    ],
)
def test_arrays_of_another_shape_for_an_operator_and_for_a_graph(whole: str, shape: tuple[int, ...], remedy: str | None) -> None:
    builder = dml.GraphBuilder()
    builder.output("y", builder.add(dml.ActivationReluDesc, "relu", input_tensor=builder.input("x", tensor(1, 1, 2, 3))))
    graph, operator = dml.compile(builder.build(), "numpy"), dml.compile(relu(1, 1, 2, 3), "numpy")
    array = np.zeros(shape, np.float32)
    with pytest.raises(dml.BindError) as caught:
        graph(x=array) if whole == "graph" else operator(input_tensor=array)
    (problem,) = caught.value.problems
    assert (problem.code, problem.remedy) == ("array.shape", remedy)


def test_a_limit_of_gemm_that_no_page_has_is_reported_but_not_enforced() -> None:
    desc = dml.GEMMDesc(a_tensor=tensor(1, 65536, 1, 2), b_tensor=tensor(1, 65536, 2, 1)).with_outputs()
    assert dml.check(desc) == []
    assert "65,535" in explain("GEMM").summary
