"""CONVOLUTION as a desc: sizes forward and backward, groups, fused functions, remedies."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

ARRAYS: dict[str, Any] = {"strides": (2, 2), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1), "output_padding": (0, 0)}
LINE: dict[str, Any] = {"strides": (1,), "dilations": (1,), "start_padding": (0,), "end_padding": (0,), "output_padding": (0,)}


def forward(**members: Any) -> dml.ConvolutionDesc:
    """32 channels in 4 groups to 64, 28 x 30 to 14 x 15."""
    tensors: dict[str, Any] = {
        "input_tensor": tensor(2, 32, 28, 30),
        "filter_tensor": tensor(64, 8, 3, 3),
        "bias_tensor": tensor(1, 64, 1, 1),
    }
    return dml.ConvolutionDesc(**tensors, **ARRAYS, group_count=4).with_outputs().replace(**members)


def backward(**members: Any) -> dml.ConvolutionDesc:
    """32 channels in 4 groups to 64, 14 x 15 to 27 x 29."""
    tensors: dict[str, Any] = {
        "input_tensor": tensor(2, 32, 14, 15),
        "filter_tensor": tensor(32, 16, 3, 3),
        "bias_tensor": tensor(1, 64, 1, 1),
    }
    return dml.ConvolutionDesc(**tensors, **ARRAYS, direction="BACKWARD", group_count=4).with_outputs().replace(**members)


def line(**members: Any) -> dml.ConvolutionDesc:
    return dml.ConvolutionDesc(input_tensor=tensor(2, 32, 14), filter_tensor=tensor(8, 32, 3), **LINE).with_outputs().replace(**members)


CLIP: Any = {"Type": "DML_OPERATOR_ELEMENT_WISE_CLIP", "Desc": {"ScaleBias": None, "Min": 0, "Max": 6}}

BROKEN: list[tuple[dml.ConvolutionDesc, list[tuple[str, str]]]] = [
    (forward(filter_tensor=tensor(64, 32, 3, 3)), [("size.equal", "filter_tensor.sizes[1]")]),
    (forward(filter_tensor=tensor(60, 8, 3, 3)), [("size.equal", "filter_tensor.sizes[0]")]),
    (forward(bias_tensor=tensor(64)), [("dims.support", "bias_tensor.sizes")]),
    (forward(bias_tensor=tensor(1, 64, 1, 2)), [("size.equal", "bias_tensor.sizes[3]")]),
    (forward(output_tensor=tensor(2, 32, 14, 15)), [("size.equal", "output_tensor.sizes[1]")]),
    (forward(output_tensor=tensor(2, 64, 14, 16)), [("size.equal", "output_tensor.sizes[3]")]),
    (forward(output_tensor=None), [("tensor.missing", "output_tensor")]),
    (forward(input_tensor=tensor(32, 28, 30)), [("dims.support", "input_tensor.sizes")]),
    (forward(input_tensor=tensor(2, 32, 4, 7, 28, 30)), [("dims.support", "input_tensor.sizes")]),
    (forward(filter_tensor=tensor(64, 8, 3)), [("dims.support", "filter_tensor.sizes")]),
    (forward(filter_tensor=tensor(64, 8, 31, 3)), [("window_fits", "filter_tensor.sizes[2]")]),
    (forward(dilations=(1, 16)), [("window_fits", "dilations[1]")]),
    (forward(dilations=(-1, 1)), [("attribute.range", "dilations[0]")]),
    (forward(strides=(0, 1)), [("attribute.range", "strides[0]")]),
    (forward(strides=(2, 2, 2)), [("attribute.length", "strides")]),
    (forward(output_padding=(0,)), [("attribute.length", "output_padding")]),
    (forward(start_padding=(1, 1, 1, 1)), [("padding_entries", "start_padding")]),
    (forward(group_count=0), [("attribute.range", "group_count")]),
    (forward(group_count=3), [("groups_of_channels", "group_count")] * 2),
    (forward(group_count=64), [("groups_of_channels", "group_count")]),
    (forward(fused_activation=dml.ActivationSoftmaxDesc()), [("fused_function", "fused_activation")]),
    (backward(filter_tensor=tensor(30, 16, 3, 3)), [("size.equal", "filter_tensor.sizes[0]")]),
    (backward(bias_tensor=tensor(1, 16, 1, 1)), [("size.equal", "bias_tensor.sizes[1]")]),
    (backward(output_tensor=tensor(2, 16, 27, 29)), [("size.equal", "output_tensor.sizes[1]")]),
    (backward(output_tensor=tensor(2, 64, 29, 29)), [("size.equal", "output_tensor.sizes[2]")]),
    (backward(output_tensor=tensor(2, 64, 26, 29)), [("size.equal", "output_tensor.sizes[2]")]),
    (backward(output_padding=(1, 0), output_tensor=tensor(2, 64, 27, 29)), [("size.equal", "output_tensor.sizes[2]")]),
    (backward(start_padding=(28, 1)), [("padding_cuts", "start_padding[0]")]),
    (backward(end_padding=(1, 30)), [("padding_cuts", "end_padding[1]")]),
    (
        backward(start_padding=(28, 1), output_tensor=tensor(2, 64, 27, 40)),
        [("size.equal", "output_tensor.sizes[3]"), ("padding_cuts", "start_padding[0]")],
    ),
    (backward(output_padding=(0, -1)), [("attribute.range", "output_padding[1]")]),
    (line(filter_tensor=tensor(8, 32, 15)), [("window_fits", "filter_tensor.sizes[2]")]),
]


def codes(desc: dml.OperatorDesc, level: str = "6_4") -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def remedies(desc: dml.OperatorDesc) -> list[str | None]:
    return list(dict.fromkeys(problem.remedy for problem in dml.check(desc)))


def test_valid_descs_have_no_problems() -> None:
    wide = backward(start_padding=(26, 1), end_padding=(2, 1), output_tensor=tensor(2, 64, 1, 29))
    for desc in (forward(), backward(), line(), forward(bias_tensor=None), wide):
        assert codes(desc) == []
    assert forward().constant_inputs() == ("filter_tensor", "bias_tensor")
    assert codes(forward(), "1_0") == codes(line(), "4_0") == []
    assert {code for code, _ in codes(line(), "3_1")} == {"dims.support"}


def test_a_described_output_determines_the_padding_that_output_padding_does_not() -> None:
    """ONNX Runtime and WebNN give zeros for output_padding, and the sizes that it makes."""
    for height, width in ((27, 29), (28, 29), (27, 30), (28, 30)):
        assert codes(backward(output_tensor=tensor(2, 64, height, width))) == []
    line = {name: (2,) if name == "strides" else entry[:1] for name, entry in ARRAYS.items()}
    described = dml.ConvolutionDesc(
        input_tensor=tensor(1, 4, 5), filter_tensor=tensor(4, 3, 3), output_tensor=tensor(1, 3, 10), direction="BACKWARD", **line
    )
    assert codes(described) == []
    assert described.with_outputs().output_tensor == described.output_tensor
    assert codes(described.replace(strides=(1,))) == [("size.equal", "output_tensor.sizes[2]")]


def test_the_gradient_of_a_filter_has_the_sizes_of_the_filter() -> None:
    """TensorFlow describes it as a convolution with the gradient as the filter, and the strides as its dilations."""
    for size, length, stride in ((230, 7, 2), (10, 3, 4), (11, 2, 3), (9, 3, 2)):
        positions = (size - length) // stride + 1
        arrays = {**LINE, "dilations": (stride,)}
        desc = dml.ConvolutionDesc(input_tensor=tensor(3, 2, size), filter_tensor=tensor(4, 2, positions), **arrays)
        accepted = [other for other in range(1, 12) if not dml.check(desc.replace(output_tensor=tensor(3, 4, other)))]
        assert length in accepted
        assert accepted == [other for other in range(1, 12) if (size - other) // stride + 1 == positions]
        assert desc.with_outputs().output_tensor == tensor(3, 4, accepted[-1])


def test_each_wrong_member_is_blamed() -> None:
    wrong = [(desc, expected, codes(desc)) for desc, expected in BROKEN if codes(desc) != expected]
    assert not wrong, "\n".join(f"{desc}\nexpected {expected}, found {found}" for desc, expected, found in wrong)


def test_fused_functions_by_level() -> None:
    clipped = forward(fused_activation=CLIP)
    assert codes(clipped, "6_0") == []
    assert codes(clipped, "5_2") == [("fused_function", "fused_activation")]
    assert remedies(clipped) == []
    assert codes(forward(fused_activation=dml.ActivationGeluDesc()), "5_1") == []


def test_the_message_about_sizes_has_the_formula_with_numbers() -> None:
    wrong = backward(output_padding=(0, 1), output_tensor=tensor(2, 64, 28, 30))
    assert lay_out(wrong.c_name, dml.check(wrong)) == (
        "DML_CONVOLUTION_OPERATOR_DESC: 1 problem\n"
        " 1. output_tensor.sizes[2] is 28, expected out[0] = 27  [size.equal]\n"
        "      output_tensor is [batch, output_channels, out[0], out[1]]\n"
        "      out[0] = 27: (input_tensor.sizes[2] - 1) * strides[0] + 1 + (filter_tensor.sizes[2] - 1) * dilations[0]"
        " - start_padding[0] - end_padding[0] + output_padding[0] = (14 - 1) * 2 + 1 + (3 - 1) * 1 - 1 - 1 + 0\n"
        "      remedy: output_padding [1, 1] makes these sizes: with strides, several sizes are those of one forward input"
    )
    cut = backward(start_padding=(28, 1))
    assert lay_out(cut.c_name, dml.check(cut)) == (
        "DML_CONVOLUTION_OPERATOR_DESC: 1 problem\n"
        " 1. start_padding[0] is 28, expected at most 27 beside end_padding[0]  [padding_cuts]\n"
        "      the output's size would be 0 = (14 - 1) * 2 + 1 + (3 - 1) * 1 - 28 - 1 + 0"
    )


def test_classic_mistakes_have_remedies() -> None:
    assert remedies(forward(filter_tensor=tensor(64, 32, 3, 3))) == [
        "a filter has the channels of one group, 8; or group_count 1 fits this filter"
    ]
    assert remedies(forward(group_count=1)) == ["group_count 4 fits this filter"]
    assert codes(forward(group_count=1).replace(group_count=4)) == []
    depth_wise = forward(filter_tensor=tensor(32, 1, 3, 3), bias_tensor=None, output_tensor=tensor(2, 32, 14, 15), group_count=1)
    assert remedies(depth_wise) == ["group_count 32 fits this filter"]
    assert codes(depth_wise.replace(group_count=32)) == []
    assert remedies(forward(bias_tensor=tensor(64))) == ["one bias for each output channel is sizes [1, 64, 1, 1]"]
    assert remedies(forward(input_tensor=tensor(32, 28, 30))) == ["a single sample is a batch of one: sizes [1, 32, 28, 30]"]
    last = forward(input_tensor=tensor(2, 28, 30, 32), output_tensor=tensor(2, 14, 15, 64))
    assert remedies(last) == [
        "if the channels lie last, input_tensor is sizes [2, 32, 28, 30], strides [26880, 1, 960, 32], and output_tensor is sizes"
        " [2, 64, 14, 15]: strides alone define a layout"
    ]
    assert remedies(forward(filter_tensor=tensor(3, 3, 8, 64)))[0] == (
        "if it has the input's channels, then the output's last, it is sizes [64, 8, 3, 3], strides [1, 64, 1536, 512]:"
        " strides alone define a layout"
    )
    assert remedies(forward(filter_tensor=tensor(64, 3, 3, 8)))[0] == (
        "if it has the input's channels last, it is sizes [64, 8, 3, 3], strides [72, 1, 24, 8]: strides alone define a layout"
    )
    swapped = backward(filter_tensor=tensor(64, 32, 3, 3), group_count=1)
    assert remedies(swapped) == ["backward, the channels of a filter change places: sizes [32, 64, 3, 3]"]
    assert codes(swapped) == [("size.equal", "filter_tensor.sizes[0]")]
    assert codes(swapped.replace(filter_tensor=tensor(32, 64, 3, 3))) == []


AXIS = st.tuples(*(st.integers(*span) for span in ((1, 8), (1, 3), (1, 3), (0, 3), (0, 2), (0, 2), (0, 2))))


@settings(max_examples=40)
@given(axes=st.lists(AXIS, min_size=1, max_size=3), groups=st.integers(1, 3), channels=st.tuples(st.integers(1, 2), st.integers(1, 2)))
def test_backward_reaches_every_element_that_the_positions_of_the_window_cover(
    axes: list[tuple[int, ...]], groups: int, channels: tuple[int, int]
) -> None:
    sizes, strides, window, dilations, start, end, added = zip(*axes, strict=True)
    out = []
    for size, stride, length, dilation, before, after, more in axes:
        reached = {position * stride + tap * dilation for position in range(size) for tap in range(length)}
        out.append(max(reached) + 1 - before - after + more)
    assume(min(out) >= 1)
    arrays: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "start_padding": start,
        "end_padding": end,
        "output_padding": added,
    }
    own, of_group = channels
    desc = dml.ConvolutionDesc(
        input_tensor=tensor(2, own * groups, *sizes),
        filter_tensor=tensor(own * groups, of_group, *window),
        direction="BACKWARD",
        group_count=groups,
        **arrays,
    ).with_outputs()
    assert desc.output_tensor is not None
    assert desc.output_tensor.sizes == (2, of_group * groups, *out)
    assert codes(desc) == []


@settings(max_examples=40)
@given(axes=st.lists(AXIS, min_size=1, max_size=3), groups=st.integers(1, 3), channels=st.tuples(st.integers(1, 2), st.integers(1, 2)))
def test_forward_has_an_output_for_each_position_of_the_filter(axes: list[tuple[int, ...]], groups: int, channels: tuple[int, int]) -> None:
    sizes, strides, window, dilations, start, end, added = zip(*axes, strict=True)
    out = []
    for size, stride, length, dilation, before, after, _ in axes:
        padded = size + before + after
        out.append(sum(1 for first in range(0, padded, stride) if first + (length - 1) * dilation < padded))
    assume(min(out) >= 1)
    arrays: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "start_padding": start,
        "end_padding": end,
        "output_padding": added,
    }
    of_group, own = channels
    desc = dml.ConvolutionDesc(
        input_tensor=tensor(2, of_group * groups, *sizes),
        filter_tensor=tensor(own * groups, of_group, *window),
        group_count=groups,
        **arrays,
    ).with_outputs()
    assert desc.output_tensor is not None
    assert desc.output_tensor.sizes == (2, own * groups, *out)
    assert codes(desc) == []
