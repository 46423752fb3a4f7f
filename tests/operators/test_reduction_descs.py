"""Reductions as descs: sizes of outputs, types by function, axes and k, their messages."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.enums import ReduceFunction
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

Found = list[tuple[str, str]]


X = tensor(2, 3, 4, 5)


def codes(desc: dml.OperatorDesc, level: str = "6_4") -> Found:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def text(desc: dml.OperatorDesc, level: str = "6_4") -> str:
    return lay_out(desc.c_name, dml.check(desc, level))


def reduce(function: str = "SUM", x: dml.TensorDesc = X, y: dml.TensorDesc | None = None, axes: tuple[int, ...] = (2,)) -> dml.ReduceDesc:
    desc = dml.ReduceDesc(function=function, input_tensor=x, output_tensor=y, axes=axes)
    return desc.with_outputs() if y is None else desc


def top(kind: type[dml.TopKDesc] = dml.TopKDesc, x: dml.TensorDesc = X, axis: int = 2, k: int = 2, **members: Any) -> dml.TopKDesc:
    return kind(input_tensor=x, axis=axis, k=k, **members).with_outputs()


def integers(*sizes: int, data_type: str = "INT32") -> Any:
    return {"x": tensor(2, 3, 4, 5, data_type=data_type), "y": tensor(*sizes, data_type=data_type)}


def test_problems() -> None:
    arg = dml.ArgmaxDesc(input_tensor=X, axes=[0, 3]).with_outputs()
    running = dml.CumulativeSummationDesc(input_tensor=X, axis=1).with_outputs()
    good, taken = reduce(), top()
    table: list[tuple[dml.OperatorDesc, str, Found]] = [
        (good, "1_0", []),
        (reduce(x=tensor(3), axes=(0,)), "2_1", [("dims.support", "input_tensor.sizes"), ("dims.support", "output_tensor.sizes")]),
        (reduce(x=tensor(3), axes=(0,)), "3_0", []),
        (good.replace(axes=()), "6_4", [("size.equal", "output_tensor.sizes[2]")]),
        (good.replace(axes=[2, 2]), "6_4", []),
        (good.replace(axes=[2, 4]), "6_4", [("attribute.axis", "axes[1]")]),
        (good.replace(output_tensor=tensor(2, 3, 5)), "6_4", [("dims.equal", "output_tensor.sizes")]),
        (good.replace(output_tensor=X), "6_4", [("size.equal", "output_tensor.sizes[2]")]),
        (good.replace(output_tensor=tensor(1, 3, 1, 9)), "6_4", [("size.equal", f"output_tensor.sizes[{axis}]") for axis in (0, 3)]),
        (good.replace(output_tensor=tensor(2, 3, 1, 5, data_type="FLOAT16")), "6_4", [("type.equal", "output_tensor.data_type")]),
        (good.replace(output_tensor=None), "6_4", [("tensor.missing", "output_tensor")]),
        (reduce("ARGMIN"), "1_0", []),
        (reduce("ARGMIN", y=tensor(2, 3, 1, 5, data_type="INT64")), "3_0", []),
        (reduce("ARGMIN", y=tensor(2, 3, 1, 5, data_type="INT64")), "2_1", [("type.support", "output_tensor.data_type")]),
        (reduce("ARGMIN", y=tensor(2, 3, 1, 5)), "6_4", [("type.support", "output_tensor.data_type")]),
        (reduce("SUM", **integers(2, 3, 1, 5)), "2_1", []),
        (
            reduce("SUM", **integers(2, 3, 1, 5)),
            "1_0",
            [("type.support", "input_tensor.data_type"), ("type.support", "output_tensor.data_type")],
        ),
        (
            reduce("AVERAGE", **integers(2, 3, 1, 5)),
            "6_4",
            [("type.support", "input_tensor.data_type"), ("type.support", "output_tensor.data_type")],
        ),
        (reduce("MAX", **integers(2, 3, 1, 5, data_type="INT8")), "3_0", []),
        (
            reduce("SUM", **integers(2, 3, 1, 5, data_type="INT8")),
            "6_4",
            [("type.support", "input_tensor.data_type"), ("type.support", "output_tensor.data_type")],
        ),
        (arg, "3_0", []),
        (arg, "2_1", [("level.operator", "")]),
        (arg.replace(output_tensor=tensor(1, 3, 4, 2, data_type="INT32")), "6_4", [("size.equal", "output_tensor.sizes[3]")]),
        (arg.replace(output_tensor=tensor(1, 3, 4, 1)), "6_4", [("type.support", "output_tensor.data_type")]),
        (running, "2_1", []),
        (running.replace(axis=4), "6_4", [("attribute.axis", "axis")]),
        (running.replace(output_tensor=tensor(2, 3, 4, 6)), "6_4", [("size.equal", "output_tensor.sizes[3]")]),
        (dml.CumulativeProductDesc(input_tensor=X, axis=1).with_outputs(), "2_1", [("level.operator", "")]),
        (taken, "1_0", []),
        (top(dml.TopK1Desc), "2_0", [("level.operator", "")]),
        (top(k=4), "6_4", []),
        (taken.replace(k=5), "6_4", [("top_k_limit", "k")]),
        (taken.replace(k=2**32), "6_4", [("top_k_limit", "k"), ("attribute.range", "k")]),
        (taken.replace(k=0), "6_4", [("attribute.range", "k")]),
        (taken.replace(k=0, axis=4), "6_4", [("attribute.axis", "axis"), ("attribute.range", "k")]),
        (
            taken.replace(axis=1),
            "6_4",
            [("size.equal", f"output_{kind}_tensor.sizes[{at}]") for kind in ("value", "index") for at in (1, 2)],
        ),
        (
            taken.replace(output_index_tensor=tensor(2, 3, 3, 5, data_type="UINT32")),
            "6_4",
            [("size.equal", "output_index_tensor.sizes[2]")],
        ),
        (taken.replace(output_index_tensor=tensor(2, 3, 2, 5, data_type="UINT64")), "5_0", []),
        (
            taken.replace(output_index_tensor=tensor(2, 3, 2, 5, data_type="UINT64")),
            "3_1",
            [("type.support", "output_index_tensor.data_type")],
        ),
        (
            taken.replace(output_index_tensor=tensor(2, 3, 2, 5, data_type="INT32")),
            "6_4",
            [("type.support", "output_index_tensor.data_type")],
        ),
    ]
    wrong = [
        f"{expected} at {level}, found {text(desc, level)}"
        for desc, level, expected in table
        if sorted(codes(desc, level)) != sorted(expected)
    ]
    assert not wrong, "\n".join(wrong)


def test_an_axis_counted_from_the_end_is_reported_with_the_one_that_is_meant() -> None:
    """The habit of Python; no output is blamed for it."""
    descs: list[dml.OperatorDesc] = [
        reduce().replace(axes=[-1]),
        dml.ArgminDesc(input_tensor=X, axes=[0]).with_outputs().replace(axes=[-1]),
        dml.CumulativeProductDesc(input_tensor=X, axis=-1).with_outputs(),
        top().replace(axis=-1),
        dml.LPNormalizationDesc(input_tensor=X, axis=-1).with_outputs(),
        dml.MeanVarianceNormalization1Desc(input_tensor=X, axes=[-1]).with_outputs(),
    ]
    for desc in descs:
        found = dml.check(desc)
        assert {problem.field for problem in found} <= {"axis", "axes"}, text(desc)
        assert "3 counts from the front" in [problem.remedy for problem in found], text(desc)


def test_messages() -> None:
    assert text(reduce().replace(output_tensor=tensor(2, 3, 4, 6))) == (
        "DML_REDUCE_OPERATOR_DESC: 2 problems\n"
        " 1. output_tensor.sizes[2] is 4, expected reduced[2] = 1  [size.equal]\n"
        "      output_tensor is [*reduced]\n"
        "      reduced[2] = 1: axes[0] is 2\n"
        " 2. output_tensor.sizes[3] is 6, expected reduced[3] = 5  [size.equal]\n"
        "      output_tensor is [*reduced]\n"
        "      reduced[3] = 5: input_tensor.sizes[3], 3 is not in axes"
    )
    assert text(top().replace(k=7)) == (
        "DML_TOP_K_OPERATOR_DESC: 1 problem\n"
        " 1. k is 7, expected at most sizes[2] = 4  [top_k_limit]\n"
        "      axis is 2\n"
        "      sizes[2] = 4: from input_tensor.sizes[2]"
    )
    assert (
        text(reduce(**integers(2, 3, 1, 5, data_type="INT64")).replace(function="MIN"), "4_1").count("feature level 5_0 takes INT64") == 2
    )


def test_messages_name_what_an_output_without_the_reduced_dimensions_lacks() -> None:
    arg = dml.ArgmaxDesc(input_tensor=X, axes=[0, 2]).with_outputs()
    table: list[tuple[Any, tuple[int, ...], tuple[int, ...]]]
    table = [(reduce(), (2, 3, 5), (2, 3, 1, 5)), (arg, (3, 5), (1, 3, 1, 5)), (reduce(axes=(2, 2)), (2, 3, 5), (2, 3, 1, 5))]
    for desc, lacking, full in table:
        assert desc.output_tensor is not None
        (problem,) = dml.check(desc.replace(output_tensor=desc.output_tensor.replace(sizes=lacking)))
        assert problem.remedy == f"dimensions in axes stay, with size 1: sizes {list(full)}"
        assert codes(desc.replace(output_tensor=desc.output_tensor.replace(sizes=full))) == []
    for sizes in [(2, 5, 3), (3, 5), (2, 3, 4)]:
        (other,) = dml.check(reduce().replace(output_tensor=tensor(*sizes)))
        assert other.remedy is None
    assert "stay" not in text(reduce(axes=()).replace(output_tensor=tensor(2, 3, 4, 6)))


def test_types_of_outputs() -> None:
    """Only the functions that give an index have outputs of another type."""
    for function in ReduceFunction:
        desc = reduce(str(function))
        assert desc.output_tensor is not None
        assert str(desc.output_tensor.data_type) == ("UINT32" if "ARG" in str(function) else "FLOAT32")
        assert codes(desc) == []
    half = tensor(2, 3, 4, 5, data_type="FLOAT16")
    taken = top(x=half)
    assert [str(item.data_type) for item in taken.tensors().values()] == ["FLOAT16", "FLOAT16", "UINT32"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_outputs_have_the_sizes_that_numpy_gives(data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8), label="sizes"))
    axes = tuple(data.draw(st.sets(st.integers(0, len(sizes) - 1)), label="axes"))
    axis = data.draw(st.integers(0, len(sizes) - 1), label="axis")
    k = data.draw(st.integers(1, sizes[axis]), label="k")
    values = np.zeros(sizes, np.float32)
    expected = values.sum(axis=axes, keepdims=True).shape
    described: list[Any] = [reduce(x=tensor(*sizes), axes=axes), dml.ArgminDesc(input_tensor=tensor(*sizes), axes=axes).with_outputs()]
    for desc in described:
        assert desc.output_tensor.sizes == expected
        assert codes(desc) == []
    taken = top(x=tensor(*sizes), axis=axis, k=k)
    shape = np.take(values, range(k), axis).shape
    assert [item.sizes for item in taken.tensors().values()] == [sizes, shape, shape]
    assert codes(taken) == []
