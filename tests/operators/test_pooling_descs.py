"""The pooling operators as descs: sizes by windows, rules, remedies, inference."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

WINDOWED: dict[Any, dict[str, Any]] = {
    dml.AveragePoolingDesc: {"include_padding": False},
    dml.AveragePooling1Desc: {"include_padding": True, "dilations": (1, 1)},
    dml.LPPoolingDesc: {"p": 2},
    dml.LPPooling1Desc: {"p": 1, "dilations": (1, 1)},
    dml.MaxPoolingDesc: {},
    dml.MaxPooling1Desc: {},
    dml.MaxPooling2Desc: {"dilations": (1, 1)},
}
DILATED = [kind for kind, members in WINDOWED.items() if "dilations" in members]
WINDOWS: dict[str, Any] = {"strides": (2, 2), "window_size": (3, 3), "start_padding": (0, 0), "end_padding": (0, 0)}


def pooling(kind: Any = dml.MaxPoolingDesc, *sizes: int, **members: Any) -> Any:
    """A desc of pooling with its outputs; of [1, 8, 28, 28] by default."""
    input_tensor = tensor(*(sizes or (1, 8, 28, 28)))
    return kind(input_tensor=input_tensor, **{**WINDOWS, **WINDOWED[kind], **members}).with_outputs()


def average_gradient(**members: Any) -> dml.AveragePoolingGradDesc:
    tensors: dict[str, Any] = {"input_gradient_tensor": tensor(1, 8, 13, 13), "output_gradient_tensor": tensor(1, 8, 28, 28)}
    return dml.AveragePoolingGradDesc(**{**WINDOWS, **tensors, "include_padding": False, **members})


def max_gradient(**members: Any) -> dml.MaxPoolingGradDesc:
    tensors: dict[str, Any] = {"input_tensor": tensor(1, 8, 28, 28), "input_gradient_tensor": tensor(1, 8, 13, 13)}
    desc = dml.MaxPoolingGradDesc(**tensors, **WINDOWS, dilations=(1, 1))
    return desc.with_outputs().replace(**members)


def unpooling(**members: Any) -> dml.MaxUnpoolingDesc:
    tensors: dict[str, Any] = {"input_tensor": tensor(1, 2, 3, 4), "indices_tensor": tensor(1, 2, 3, 4, data_type="UINT32")}
    return dml.MaxUnpoolingDesc(**{**tensors, "output_tensor": tensor(1, 2, 6, 8), **members})


SAMPLED: dict[str, Any] = {
    "reduction_function": "AVERAGE",
    "interpolation_mode": "LINEAR",
    "minimum_samples_per_output": 1,
    "maximum_samples_per_output": 4,
}


def align(kind: Any = dml.ROIAlignDesc, **members: Any) -> Any:
    tensors: dict[str, Any] = {"input_tensor": tensor(2, 3, 20, 30), "roi_tensor": tensor(7, 4), "output_tensor": tensor(7, 3, 4, 5)}
    return kind(**{**tensors, **SAMPLED, "batch_indices_tensor": tensor(7, data_type="UINT32"), **members})


def align_gradient(**members: Any) -> dml.ROIAlignGradDesc:
    tensors: dict[str, Any] = {
        "input_tensor": tensor(2, 3, 20, 30),
        "roi_tensor": tensor(1, 7, 4),
        "input_gradient_tensor": tensor(7, 3, 4, 5),
    }
    desc = dml.ROIAlignGradDesc(**tensors, **SAMPLED, batch_indices_tensor=tensor(7, data_type="UINT32"))
    return desc.with_outputs().replace(**members)


def roi_pooling(**members: Any) -> dml.ROIPoolingDesc:
    desc = dml.ROIPoolingDesc(
        input_tensor=tensor(2, 3, 20, 30), roi_tensor=tensor(1, 1, 7, 5), pooled_size={"Width": 6, "Height": 4}, spatial_scale=0.5
    )
    return desc.with_outputs().replace(**members)


OUT = ("size.equal", "output_tensor.sizes[2]"), ("size.equal", "output_tensor.sizes[3]")

BROKEN: list[tuple[dml.OperatorDesc, list[tuple[str, str]]]] = [
    (pooling().replace(output_tensor=tensor(1, 8, 15, 15)), [*OUT]),
    (pooling().replace(output_tensor=tensor(1, 8, 12, 12)), [*OUT]),
    (pooling().replace(output_tensor=tensor(1, 8, 14, 13)), [OUT[0]]),
    (pooling().replace(output_tensor=tensor(1, 9, 13, 13)), [("size.equal", "output_tensor.sizes[1]")]),
    (pooling().replace(output_tensor=tensor(1, 8, 13, 13, 1)), [("dims.support", "output_tensor.sizes")]),
    (pooling().replace(input_tensor=tensor(8, 28, 28)), [("dims.support", "input_tensor.sizes")]),
    (pooling().replace(strides=(2,)), [("attribute.length", "strides")]),
    (pooling().replace(strides=(), window_size=(3, 3, 3)), [("attribute.length", "strides"), ("attribute.length", "window_size")]),
    (pooling().replace(strides=(0, 2)), [("attribute.range", "strides[0]")]),
    (pooling().replace(window_size=(3, 0)), [("attribute.range", "window_size[1]")]),
    (pooling().replace(start_padding=(-1, 0)), [("attribute.range", "start_padding[0]")]),
    (pooling().replace(end_padding=(0, 2**32)), [("attribute.range", "end_padding[1]")]),
    (pooling().replace(start_padding=(0, 0, 1, 1)), [("padding_entries", "start_padding")]),
    (pooling().replace(end_padding=(0,)), [("padding_entries", "end_padding")]),
    (pooling().replace(window_size=(3, 29)), [("window_fits", "window_size[1]")]),
    (pooling(dml.MaxPooling2Desc).replace(dilations=(14, 1)), [("window_fits", "dilations[0]")]),
    (pooling(dml.MaxPooling2Desc).replace(dilations=(1, 0)), [("attribute.range", "dilations[1]")]),
    (pooling(dml.MaxPooling2Desc).replace(dilations=(1,)), [("attribute.length", "dilations")]),
    (
        pooling(dml.MaxPooling1Desc).replace(output_indices_tensor=tensor(1, 8, 13, 12, data_type="UINT32")),
        [("size.equal", "output_indices_tensor.sizes[3]")],
    ),
    (
        pooling(dml.MaxPooling1Desc).replace(output_indices_tensor=tensor(1, 8, 13, 13, data_type="INT32")),
        [("type.support", "output_indices_tensor.data_type")],
    ),
    (average_gradient(input_gradient_tensor=tensor(1, 8, 14, 13)), [("size.equal", "input_gradient_tensor.sizes[2]")]),
    (average_gradient(window_size=(30, 3)), [("window_fits", "window_size[0]")]),
    (max_gradient(input_gradient_tensor=tensor(1, 8, 13, 14)), [("size.equal", "input_gradient_tensor.sizes[3]")]),
    (max_gradient(output_gradient_tensor=tensor(1, 8, 28, 27)), [("size.equal", "output_gradient_tensor.sizes[3]")]),
    (max_gradient(output_gradient_tensor=None), [("tensor.missing", "output_gradient_tensor")]),
    (unpooling(indices_tensor=tensor(1, 2, 3, 5, data_type="UINT32")), [("size.equal", "indices_tensor.sizes[3]")]),
    (unpooling(output_tensor=tensor(1, 2, 48)), [("dims.support", "output_tensor.sizes")]),
    (align(roi_tensor=tensor(7, 5)), [("size.equal", "roi_tensor.sizes[1]")]),
    (align(roi_tensor=tensor(2, 7, 4)), [("size.equal", "roi_tensor.sizes[0]")]),
    (align(roi_tensor=tensor(4)), [("dims.support", "roi_tensor.sizes")]),
    (align(batch_indices_tensor=tensor(1, 6, data_type="UINT32")), [("size.equal", "batch_indices_tensor.sizes[1]")]),
    (align(reduction_function="SUM"), [("attribute.choice", "reduction_function")]),
    (align(dml.ROIAlign1Desc, minimum_samples_per_output=5), [("sample_bounds", "minimum_samples_per_output")]),
    (align_gradient(input_tensor=None), [("images_given", "input_tensor")]),
    (
        align_gradient(input_tensor=None, output_roi_gradient_tensor=None, reduction_function="MAX"),
        [("images_given", "input_tensor")],
    ),
    (align_gradient(output_roi_gradient_tensor=tensor(7, 4)), [("dims.support", "output_roi_gradient_tensor.sizes")]),
    (align_gradient(output_roi_gradient_tensor=None, output_gradient_tensor=None), [("some_output", "output_gradient_tensor")]),
    (roi_pooling(output_tensor=tensor(7, 3, 6, 4)), [*OUT]),
    (roi_pooling(roi_tensor=tensor(1, 1, 7, 4)), [("size.equal", "roi_tensor.sizes[3]")]),
    (roi_pooling(pooled_size={"Width": 0, "Height": 4}), [("pooled_size_positive", "pooled_size.width")]),
    (roi_pooling(pooled_size={"Width": 6, "Height": -4}), [("attribute.range", "pooled_size.height")]),
]


def codes(desc: dml.OperatorDesc, level: str = "6_4") -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def test_valid_descs_have_no_problems() -> None:
    valid = [
        *(pooling(kind) for kind in WINDOWED),
        *(pooling(kind, 1, 2, 9, 10, 11, **dict.fromkeys(WINDOWS, (1, 1, 1)), **of_5(kind)) for kind in WINDOWED),
        average_gradient(),
        max_gradient(),
        unpooling(),
        unpooling(output_tensor=tensor(5, 1, 1, 7)),
        *(align(kind, roi_tensor=roi) for kind in (dml.ROIAlignDesc, dml.ROIAlign1Desc) for roi in (tensor(7, 4), tensor(1, 1, 7, 4))),
        align(batch_indices_tensor=tensor(1, 1, 1, 7, data_type="UINT64")),
        align_gradient(),
        align_gradient(input_tensor=None, output_roi_gradient_tensor=None),
        roi_pooling(),
    ]
    refused = [f"{desc}\n{codes(desc)}" for desc in valid if codes(desc)]
    assert not refused, "\n".join(refused)


def of_5(kind: Any) -> dict[str, Any]:
    return {"dilations": (1, 2, 3)} if kind in DILATED else {}


def test_sizes_that_are_all_rounded_up_are_those_of_a_ceil_mode() -> None:
    """ONNX Runtime, WebNN and DirectMLX describe such outputs, with the paddings unchanged."""
    up: dict[Any, dict[str, Any]] = {kind: {"output_tensor": tensor(1, 8, 14, 14)} for kind in WINDOWED}
    for kind in (dml.MaxPooling1Desc, dml.MaxPooling2Desc):
        up[kind]["output_indices_tensor"] = tensor(1, 8, 14, 14, data_type="UINT64")
    refused = {kind.__name__: codes(pooling(kind).replace(**members)) for kind, members in up.items()}
    assert not any(refused.values()), refused
    assert codes(average_gradient(input_gradient_tensor=tensor(1, 8, 14, 14))) == []
    assert codes(pooling(dml.MaxPoolingDesc, 1, 8, 28, 29).replace(output_tensor=tensor(1, 8, 14, 14))) == []
    both = pooling(dml.MaxPooling2Desc).replace(**up[dml.MaxPooling2Desc])
    assert both.with_outputs() == both
    small = pooling(dml.MaxPoolingDesc, 1, 1, 5, 8)
    taken = [sizes for sizes in product(range(1, 6), repeat=2) if not codes(small.replace(output_tensor=tensor(1, 1, *sizes)))]
    assert taken == [(2, 3), (2, 4)]
    both_up = pooling(dml.MaxPoolingDesc, 1, 1, 6, 8)
    taken = [sizes for sizes in product(range(1, 6), repeat=2) if not codes(both_up.replace(output_tensor=tensor(1, 1, *sizes)))]
    assert taken == [(2, 3), (3, 4)]
    apart = both.replace(output_indices_tensor=tensor(1, 8, 14, 13, data_type="UINT32"))
    assert [problem.why[1] for problem in dml.check(apart)] == [
        "out[1] = 14: (input_tensor.sizes[3] + start_padding[1] + end_padding[1] - window_size[1]) / strides[1] + 1"
        " = (28 + 0 + 0 - 3) / 2 + 1, rounded up as output_tensor has it"
    ]


def test_sizes_rounded_up_may_leave_out_windows_that_begin_after_the_last_element() -> None:
    """ONNX and PyTorch round up in one dimension and down in another so; all sizes may still be rounded up."""
    members = {"window_size": (2, 2), "strides": (3, 2), "end_padding": (1, 0)}
    both = pooling(dml.MaxPoolingDesc, 1, 1, 6, 5, **members)
    taken = [sizes for sizes in product(range(1, 6), repeat=2) if not codes(both.replace(output_tensor=tensor(1, 1, *sizes)))]
    assert taken == [(2, 2), (2, 3), (3, 3)]
    dropped = both.replace(output_tensor=tensor(1, 1, 2, 3))
    assert dropped.with_outputs() == dropped
    without_padding = {"window_size": (1, 2), "strides": (3, 2)}
    assert codes(pooling(dml.AveragePoolingDesc, 1, 1, 12, 5, **without_padding).replace(output_tensor=tensor(1, 1, 4, 3))) == []
    gradient = {"input_gradient_tensor": tensor(1, 8, 4, 3), "output_gradient_tensor": tensor(1, 8, 12, 5)}
    assert codes(average_gradient(**gradient, **without_padding)) == []
    wrong = dropped.replace(input_tensor=tensor(2, 1, 6, 5))
    assert [problem.path for problem in dml.check(wrong)] == ["output_tensor.sizes[0]"]
    apart = pooling(dml.MaxPooling1Desc, 1, 1, 6, 5, **members).replace(
        output_tensor=tensor(1, 1, 2, 3), output_indices_tensor=tensor(1, 1, 3, 3, data_type="UINT32")
    )
    assert [problem.why[1] for problem in dml.check(apart)] == [
        "out[0] = 2: (input_tensor.sizes[2] + start_padding[0] + end_padding[0] - window_size[0]) / strides[0] + 1"
        " = (6 + 0 + 1 - 2) / 3 + 1, rounded up as output_tensor has it, without the window that begins after the last element"
    ]


def test_each_wrong_member_is_blamed() -> None:
    wrong = [(desc, expected, codes(desc)) for desc, expected in BROKEN if codes(desc) != expected]
    assert not wrong, "\n".join(f"{desc}\nexpected {expected}, found {found}" for desc, expected, found in wrong)


# the members of the first spatial dimension that are wrong, and the place that is blamed for it
UNFIT: list[tuple[dict[str, Any], str]] = [({"window_size": (40, 3)}, "window_size[0]"), ({"strides": (0, 2)}, "strides[0]")]


@pytest.mark.parametrize(("members", "place"), UNFIT, ids=[place for _, place in UNFIT])
@pytest.mark.parametrize("kind", WINDOWED)
def test_one_dimension_without_windows_hides_no_wrong_size_of_another(kind: Any, members: dict[str, Any], place: str) -> None:
    good = pooling(kind)
    wrong = good.replace(output_tensor=tensor(1, 8, 13, 11), **members)
    assert {problem.path for problem in dml.check(wrong)} >= {place, "output_tensor.sizes[3]"}
    assert {problem.path for problem in dml.check(good.replace(**members))} == {place}
    rounded = pooling(kind, 1, 8, 28, 28, end_padding=(0, 1)).replace(end_padding=(0, 0), **members)
    assert {problem.path for problem in dml.check(rounded)} == {place}, "the other dimension is rounded up"


def test_levels() -> None:
    assert codes(unpooling(), "2_0") == []
    assert ("level.operator", "") in codes(unpooling(), "1_0")
    integers = pooling().replace(
        input_tensor=tensor(1, 8, 28, 28, data_type="INT64"), output_tensor=tensor(1, 8, 13, 13, data_type="INT64")
    )
    assert codes(integers) == []
    assert codes(integers, "4_1") == [("type.support", "input_tensor.data_type"), ("type.support", "output_tensor.data_type")]
    five = dict.fromkeys((*WINDOWS, "dilations"), (1, 1, 1))
    deep = max_gradient(
        input_tensor=tensor(1, 1, 3, 3, 3),
        input_gradient_tensor=tensor(1, 1, 5, 5, 5),
        output_gradient_tensor=tensor(1, 1, 3, 3, 3),
        **five,
    )
    assert codes(deep, "4_0") == []
    assert {code for code, _ in codes(deep, "3_0")} == {"dims.support"}


def test_the_message_about_sizes_has_the_formula_with_numbers() -> None:
    wrong = pooling(end_padding=(1, 0)).replace(output_tensor=tensor(1, 8, 14, 13))
    assert lay_out(wrong.c_name, dml.check(wrong)) == ("DML_MAX_POOLING_OPERATOR_DESC: no problems"), "rounding up is padding at the end"
    wrong = wrong.replace(end_padding=(0, 0))
    assert lay_out(wrong.c_name, dml.check(wrong)) == (
        "DML_MAX_POOLING_OPERATOR_DESC: 1 problem\n"
        " 1. output_tensor.sizes[2] is 14, expected out[0] = 13  [size.equal]\n"
        "      output_tensor is [batch, channels, out[0], out[1]]\n"
        "      out[0] = 13: (input_tensor.sizes[2] + start_padding[0] + end_padding[0] - window_size[0]) // strides[0] + 1"
        " = (28 + 0 + 0 - 3) // 2 + 1\n"
        "      remedy: sizes are rounded down; end_padding [1, 0] rounds up"
    )
    dilated = pooling(dml.LPPooling1Desc, dilations=(1, 3)).replace(output_tensor=tensor(1, 8, 13, 10))
    assert dml.check(dilated)[0].why[1] == (
        "out[1] = 11: (input_tensor.sizes[3] + start_padding[1] + end_padding[1] - (1 + (window_size[1] - 1) * dilations[1])) // strides[1]"
        " + 1 = (28 + 0 + 0 - (1 + (3 - 1) * 3)) // 2 + 1"
    )


def remedies(desc: dml.OperatorDesc) -> set[str | None]:
    return {problem.remedy for problem in dml.check(desc)}


def test_classic_mistakes_have_remedies() -> None:
    last = pooling().replace(input_tensor=tensor(1, 28, 28, 8), output_tensor=tensor(1, 13, 13, 8))
    assert remedies(last) == {
        "if the channels lie last, input_tensor is sizes [1, 8, 28, 28], strides [6272, 1, 224, 8], and output_tensor is sizes"
        " [1, 8, 13, 13]: strides alone define a layout"
    }
    described = tensor(1, 8, 28, 28, strides=[6272, 1, 224, 8])
    assert described.span == 28 * 28 * 8
    same = pooling(strides=(1, 1)).replace(output_tensor=tensor(1, 8, 28, 28))
    assert remedies(same) == {"start_padding [1, 1] and end_padding [1, 1] make these sizes, as SAME padding does"}
    assert codes(same.replace(start_padding=(1, 1), end_padding=(1, 1))) == []
    both = pooling().replace(start_padding=(1, 2, 3, 4))
    assert remedies(both) == {"if it has all starts, then all ends, that is start_padding [1, 2], end_padding [3, 4]"}
    sample = pooling().replace(input_tensor=tensor(8, 28, 28), output_tensor=tensor(8, 13, 13))
    assert remedies(sample) == {
        "a single sample is a batch of one: sizes [1, 8, 28, 28]",
        "a single sample is a batch of one: sizes [1, 8, 13, 13]",
    }
    flat = {"input_tensor": tensor(1, 8, 28), "output_tensor": tensor(1, 8, 13), "strides": [2], "window_size": [3]}
    line = pooling().replace(**flat, start_padding=[0], end_padding=[0])
    assert "give it a height of 1, sizes [1, 8, 1, 28], and put an entry in front of each array: 1, or 0 for padding" in remedies(line)
    five = align(roi_tensor=tensor(7, 5))
    assert remedies(five) == {"a region is x1, y1, x2, y2: its batch index goes into batch_indices_tensor"}
    four = roi_pooling(roi_tensor=tensor(1, 1, 7, 4))
    assert remedies(four) == {"a region is batch index, x1, y1, x2, y2; ROI_ALIGN has a separate tensor for the batch indices"}


def test_what_no_input_determines_is_not_inferred() -> None:
    bare = align_gradient(input_tensor=None, output_gradient_tensor=None, output_roi_gradient_tensor=None)
    with pytest.raises(dml.DescError, match="output_gradient_tensor is not determined"):
        bare.with_outputs()
    assert bare.applicable_outputs() == ("output_gradient_tensor",)
    with pytest.raises(dml.DescError, match="dimensions"):
        pooling(dml.MaxPoolingDesc, 8, 28, 28)


AXIS = st.tuples(
    st.integers(1, 12), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)
)  # size, stride, window, start, end, dilation


@settings(max_examples=60)
@given(kind=st.sampled_from(list(WINDOWED)), axes=st.lists(AXIS, min_size=2, max_size=3))
def test_output_sizes_are_the_positions_where_the_whole_window_lies_inside(
    kind: Any, axes: list[tuple[int, int, int, int, int, int]]
) -> None:
    dilated = kind in DILATED
    sizes, strides, window, start, end, dilations = zip(*axes, strict=True)
    positions = []
    for size, stride, length, before, after, dilation in axes:
        taps = np.arange(length) * (dilation if dilated else 1)
        positions.append(sum(1 for first in range(0, size + before + after, stride) if (first + taps).max() < size + before + after))
    members = {"strides": strides, "window_size": window, "start_padding": start, "end_padding": end}
    members |= {"dilations": dilations} if dilated else {}
    desc: Any = kind(input_tensor=tensor(2, 3, *sizes), **{**WINDOWED[kind], **members})
    if all(positions):
        complete = desc.with_outputs()
        assert complete.output_tensor.sizes == (2, 3, *positions)
        assert codes(complete) == []
    else:
        complete = desc.replace(output_tensor=tensor(2, 3, *(max(1, count) for count in positions)))
        blamed = {path for code, path in codes(complete) if code == "window_fits"}
        assert {int(path.split("[")[1][0]) for path in blamed} == {axis for axis, count in enumerate(positions) if not count}
