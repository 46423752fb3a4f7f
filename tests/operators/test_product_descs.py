"""Quantized products and GEMM as descs: scales and zero points, equal dimension counts, transforms, remedies."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

CONVOLVED: dict[str, Any] = {"strides": (2, 2), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1), "group_count": 4}
POOLED: dict[str, Any] = {"strides": (2, 2), "window_size": (3, 3), "start_padding": (0, 0), "end_padding": (0, 0), "dilations": (1, 1)}


def uint8(*sizes: int) -> dml.TensorDesc:
    return tensor(*sizes, data_type="UINT8")


def int8(*sizes: int) -> dml.TensorDesc:
    return tensor(*sizes, data_type="INT8")


def convolution(**members: Any) -> dml.ConvolutionIntegerDesc:
    tensors: dict[str, Any] = {
        "input_tensor": uint8(2, 32, 28, 30),
        "input_zero_point_tensor": uint8(1, 1, 1, 1),
        "filter_tensor": int8(64, 8, 3, 3),
        "filter_zero_point_tensor": int8(1, 64, 1, 1),
    }
    return dml.ConvolutionIntegerDesc(**tensors, **CONVOLVED).with_outputs().replace(**members)


def linear_convolution(**members: Any) -> dml.QuantizedLinearConvolutionDesc:
    tensors: dict[str, Any] = {
        "input_tensor": uint8(2, 32, 28, 30),
        "input_scale_tensor": tensor(1, 1, 1, 1),
        "filter_tensor": int8(64, 8, 3, 3),
        "filter_scale_tensor": tensor(1, 64, 1, 1),
        "bias_tensor": tensor(1, 64, 1, 1, data_type="INT32"),
        "output_scale_tensor": tensor(1, 1, 1, 1),
        "output_zero_point_tensor": int8(1, 1, 1, 1),
    }
    return dml.QuantizedLinearConvolutionDesc(**tensors, **CONVOLVED).with_outputs().replace(**members)


def pooling(**members: Any) -> dml.QuantizedLinearAveragePoolingDesc:
    tensors: dict[str, Any] = {
        "input_tensor": uint8(2, 6, 28, 30),
        "input_scale_tensor": tensor(1, 6, 1, 1),
        "output_scale_tensor": tensor(1),
    }
    desc = dml.QuantizedLinearAveragePoolingDesc(**tensors, **POOLED, output_zero_point_tensor=uint8(6), include_padding=True)
    return desc.with_outputs().replace(**members)


def integers(**members: Any) -> dml.MatrixMultiplyIntegerDesc:
    tensors: dict[str, Any] = {
        "a_tensor": int8(2, 3, 5, 7),
        "a_zero_point_tensor": int8(1, 1, 5, 1),
        "b_tensor": uint8(2, 3, 7, 11),
        "b_zero_point_tensor": uint8(1, 1, 1, 11),
    }
    return dml.MatrixMultiplyIntegerDesc(**tensors).with_outputs().replace(**members)


def floats(**members: Any) -> dml.MatrixMultiplyIntegerToFloatDesc:
    tensors: dict[str, Any] = {
        "a_tensor": int8(2, 3, 5, 7),
        "a_scale_tensor": tensor(1, 1, 5, 1),
        "b_tensor": int8(2, 3, 7, 11),
        "b_scale_tensor": tensor(1, 1, 1, 1),
        "bias_tensor": tensor(2, 3, 5, 11),
    }
    return dml.MatrixMultiplyIntegerToFloatDesc(**tensors).with_outputs().replace(**members)


def linear(**members: Any) -> dml.QuantizedLinearMatrixMultiplyDesc:
    tensors: dict[str, Any] = {
        "a_tensor": int8(3, 5, 7),
        "a_scale_tensor": tensor(5, 1),
        "b_tensor": uint8(3, 7, 11),
        "b_scale_tensor": tensor(1, 11),
        "output_scale_tensor": tensor(5, 1),
        "output_zero_point_tensor": uint8(1, 1),
    }
    return dml.QuantizedLinearMatrixMultiplyDesc(**tensors).with_outputs().replace(**members)


def gemm(**members: Any) -> dml.GEMMDesc:
    return dml.GEMMDesc(a_tensor=tensor(2, 3, 5, 7), b_tensor=tensor(2, 3, 7, 11)).with_outputs().replace(**members)


BROKEN: list[tuple[dml.OperatorDesc, list[tuple[str, str]]]] = [
    (convolution(filter_zero_point_tensor=int8(1, 32, 1, 1)), [("quantized_counts", "filter_zero_point_tensor.sizes[1]")]),
    (convolution(filter_zero_point_tensor=int8(1, 1, 1, 64)), [("size.equal", "filter_zero_point_tensor.sizes[3]")]),
    (convolution(filter_zero_point_tensor=int8(64)), [("quantized_dims", "filter_zero_point_tensor.sizes")]),
    (convolution(input_zero_point_tensor=uint8(1, 32, 1, 1)), [("size.equal", "input_zero_point_tensor.sizes[1]")]),
    (convolution(input_zero_point_tensor=int8(1, 1, 1, 1)), [("type.equal", "input_zero_point_tensor.data_type")]),
    (convolution(filter_zero_point_tensor=uint8(1, 1, 1, 1)), [("type.equal", "filter_zero_point_tensor.data_type")]),
    (convolution(output_tensor=uint8(2, 64, 14, 15)), [("type.support", "output_tensor.data_type")]),
    (convolution(group_count=3), [("groups_of_channels", "group_count")] * 2),
    (convolution(strides=(2,)), [("attribute.length", "strides")]),
    (convolution(dilations=(15, 1)), [("window_fits", "dilations[0]")]),
    (linear_convolution(filter_scale_tensor=tensor(1, 8, 1, 1)), [("quantized_counts", "filter_scale_tensor.sizes[1]")]),
    (linear_convolution(output_scale_tensor=tensor(64)), [("size.equal", "output_scale_tensor.sizes[0]")]),
    (linear_convolution(output_tensor=uint8(2, 64, 14, 15)), [("type.equal", "output_tensor.data_type")]),
    (linear_convolution(bias_tensor=tensor(1, 64, 1, 1)), [("type.support", "bias_tensor.data_type")]),
    (linear_convolution(filter_zero_point_tensor=int8(1, 1, 1, 1)), [("quantized_filter_counts", "filter_zero_point_tensor.sizes")]),
    (
        linear_convolution(filter_scale_tensor=tensor(1), filter_zero_point_tensor=int8(1, 64, 1, 1)),
        [("quantized_filter_counts", "filter_zero_point_tensor.sizes")],
    ),
    (linear_convolution(filter_zero_point_tensor=int8(1, 64, 1, 1).replace(strides=[0, 0, 0, 0])), []),
    (linear_convolution(filter_scale_tensor=tensor(1), filter_zero_point_tensor=int8(1, 1, 1, 1)), []),
    (pooling(input_scale_tensor=tensor(1, 5, 1, 1)), [("quantized_counts", "input_scale_tensor.sizes[1]")]),
    (pooling(input_scale_tensor=tensor(1, 1, 6, 1)), [("size.equal", "input_scale_tensor.sizes[2]")]),
    (pooling(output_tensor=uint8(2, 6, 13, 15)), [("size.equal", "output_tensor.sizes[3]")]),
    (integers(a_zero_point_tensor=int8(1, 1, 7, 1)), [("quantized_counts", "a_zero_point_tensor.sizes[2]")]),
    (integers(b_zero_point_tensor=uint8(1, 1, 11, 1)), [("size.equal", "b_zero_point_tensor.sizes[2]")]),
    (integers(b_zero_point_tensor=uint8(7)), [("quantized_counts", "b_zero_point_tensor.sizes[0]")]),
    (integers(b_tensor=uint8(2, 3, 8, 11)), [("size.equal", "b_tensor.sizes[2]")]),
    (floats(bias_tensor=tensor(1, 1, 1, 11)), [("size.equal", f"bias_tensor.sizes[{axis}]") for axis in range(3)]),
    (floats(b_zero_point_tensor=uint8(1, 1, 1, 11)), [("type.equal", "b_zero_point_tensor.data_type")]),
    (floats(b_tensor=tensor(2, 3, 7, 11)), [("type.support", "b_tensor.data_type")]),
    (floats(b_zero_point_tensor=int8(11)), [("quantized_dims", "b_zero_point_tensor.sizes")]),
    (linear(output_scale_tensor=tensor(11, 1)), [("quantized_counts", "output_scale_tensor.sizes[0]")]),
    (linear(b_zero_point_tensor=uint8(1)), [("quantized_dims", "b_zero_point_tensor.sizes")]),
    (
        linear(a_zero_point_tensor=int8(5)),
        [("size.equal", "a_zero_point_tensor.sizes[0]"), ("quantized_dims", "a_zero_point_tensor.sizes")],
    ),
    (gemm(fused_activation=dml.ActivationSoftmax1Desc(axes=[3, 4])), [("fused_axes", "fused_activation.axes[1]")]),
    (gemm(fused_activation=dml.ActivationHardmaxDesc()), [("fused_function", "fused_activation")]),
    (gemm(c_tensor=tensor(2, 3, 5, 1)), [("size.equal", "c_tensor.sizes[3]")]),
]


def codes(desc: dml.OperatorDesc, level: str = "6_4") -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def remedies(desc: dml.OperatorDesc) -> list[str | None]:
    return list(dict.fromkeys(problem.remedy for problem in dml.check(desc)))


def test_valid_descs_have_no_problems() -> None:
    valid = [
        *(build() for build in (convolution, linear_convolution, pooling, integers, floats, linear, gemm)),
        # Below 4 dimensions the pages leave open where the channels, or the rows of A, lie.
        *(
            convolution(filter_zero_point_tensor=int8(*sizes), input_zero_point_tensor=uint8(*(1 for _ in sizes)))
            for sizes in ((64,), (1, 64), (64, 1), (1, 64, 1), (1, 1, 64))
        ),
        *(integers(a_zero_point_tensor=int8(*sizes)) for sizes in ((5,), (1, 5), (5, 1), (1, 1, 5))),
        *(integers(b_zero_point_tensor=uint8(*sizes)) for sizes in ((11,), (1, 11), (1, 1, 11), (1, 1))),
        convolution(filter_zero_point_tensor=None, input_zero_point_tensor=None),
        # ONNX Runtime gives DirectML signed with unsigned bytes.
        floats(b_tensor=uint8(2, 3, 7, 11), b_zero_point_tensor=uint8(1, 1, 1, 11)),
        pooling(output_tensor=uint8(2, 6, 14, 15)),
        pooling(input_tensor=uint8(2, 6, 28, 30), input_scale_tensor=tensor(1, 6, 1, 1, 1)),
        gemm(a_tensor=tensor(5, 7), b_tensor=tensor(7, 11), output_tensor=tensor(5, 11)),
        gemm(fused_activation=dml.ActivationSoftmax1Desc(axes=[3])),
    ]
    refused = [f"{desc}\n{codes(desc)}" for desc in valid if codes(desc)]
    assert not refused, "\n".join(refused)


def test_each_wrong_member_is_blamed() -> None:
    wrong = [(desc, expected, codes(desc)) for desc, expected in BROKEN if codes(desc) != expected]
    assert not wrong, "\n".join(f"{desc}\nexpected {expected}, found {found}" for desc, expected, found in wrong)


def test_without_a_height_the_last_entry_of_each_array_is_for_the_width() -> None:
    desc = dml.ConvolutionIntegerDesc(
        input_tensor=uint8(2, 6, 10),
        filter_tensor=int8(4, 3, 2),
        strides=(7, 2),
        dilations=(7, 3),
        start_padding=(7, 1),
        end_padding=(7, 0),
        group_count=2,
    ).with_outputs()
    assert desc.output_tensor is not None
    assert desc.output_tensor.sizes == (2, 4, 4), "of 11 elements every other one at which 4 fit"
    assert codes(desc, "4_0") == []
    assert codes(desc.replace(dilations=(1, 11))) == [("window_fits", "dilations[1]")]
    assert codes(desc.replace(strides=(2,))) == [("attribute.length", "strides")]
    alone = desc.replace(strides=(2,), dilations=(3,), start_padding=(1,), end_padding=(0,))
    assert codes(alone, "4_0") == []
    assert alone.with_outputs() == alone
    assert codes(alone.replace(dilations=(11,))) == [("window_fits", "dilations[0]")]


def test_levels() -> None:
    short = linear_convolution(filter_scale_tensor=tensor(64))
    assert codes(short, "5_2") == []
    assert codes(short, "4_0") == [("dims.support", "filter_scale_tensor.sizes")]
    assert remedies(short.replace(filter_scale_tensor=tensor(1, 64, 1, 1))) == []
    assert codes(integers(b_zero_point_tensor=uint8(11)), "5_1") == [("dims.support", "b_zero_point_tensor.sizes")]
    assert codes(integers(a_zero_point_tensor=int8(5)), "4_0") == []
    assert {code for code, _ in codes(linear(), "2_1")} == {"dims.support"}


def test_outputs_are_inferred() -> None:
    outputs = [build().output_tensor for build in (convolution, linear_convolution, pooling, integers, floats, linear)]
    assert [output and (str(output.data_type), output.sizes) for output in outputs] == [
        ("INT32", (2, 64, 14, 15)),
        ("INT8", (2, 64, 14, 15)),
        ("UINT8", (2, 6, 13, 14)),
        ("INT32", (2, 3, 5, 11)),
        ("FLOAT32", (2, 3, 5, 11)),
        ("UINT8", (3, 5, 11)),
    ]


def test_messages() -> None:
    wrong = integers(a_zero_point_tensor=int8(1, 5, 1, 1), b_zero_point_tensor=uint8(1, 1, 1, 7))
    assert lay_out(wrong.c_name, dml.check(wrong)) == (
        "DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC: 2 problems\n"
        " 1. a_zero_point_tensor.sizes[1] is 5, expected 1  [size.equal]\n"
        "      a_zero_point_tensor is [1, 1, a_zero_point_count, 1]\n"
        "      remedy: one for each row is sizes [1, 1, 5, 1]\n"
        " 2. b_zero_point_tensor.sizes[3] is 7, expected 1, or n = 11  [quantized_counts]\n"
        "      n = 11: from b_tensor.sizes[3], output_tensor.sizes[3]"
    )
    counts = convolution(filter_zero_point_tensor=int8(64))
    assert lay_out(counts.c_name, dml.check(counts)) == (
        "DML_CONVOLUTION_INTEGER_OPERATOR_DESC: 1 problem\n"
        " 1. filter_zero_point_tensor.sizes has 1 dimension [64], expected 4 dimensions  [quantized_dims]\n"
        "      input_zero_point_tensor, filter_zero_point_tensor have equal dimension counts: 4 is that of input_zero_point_tensor\n"
        "      remedy: one for each output channel is sizes [1, 64, 1, 1]"
    )


def test_classic_mistakes_have_remedies() -> None:
    assert remedies(floats(b_zero_point_tensor=int8(1))) == ["put ones in front: sizes [1, 1, 1, 1]"]
    assert remedies(linear(a_zero_point_tensor=int8(5))) == ["one for each row is sizes [5, 1]"]
    short = linear(output_zero_point_tensor=None, b_scale_tensor=tensor(11), output_scale_tensor=tensor(1))
    of_rows = remedies(short.replace(a_scale_tensor=tensor(5)))[0]
    assert of_rows is not None
    assert of_rows.startswith("one for each row is sizes [5, 1]; a_scale_tensor, a_zero_point_tensor, b_scale_tensor")
    assert of_rows.endswith("have equal dimension counts")
    column = gemm(a_tensor=tensor(5, 7), b_tensor=tensor(7), output_tensor=tensor(5, 1))
    assert remedies(column) == ["a column is sizes [7, 1]"]
    assert codes(column.replace(b_tensor=tensor(7, 1))) == []
    assert remedies(pooling(input_scale_tensor=tensor(1, 1, 6, 1))) == ["one for each channel is sizes [1, 6, 1, 1]"]
    assert remedies(gemm(a_tensor=tensor(2, 3, 7, 5))) == ["trans_a TRANSPOSE fits these sizes"]
    assert codes(gemm(a_tensor=tensor(2, 3, 7, 5), trans_a="TRANSPOSE")) == []
    assert remedies(gemm(b_tensor=tensor(2, 3, 11, 7))) == ["trans_b TRANSPOSE fits these sizes"]
    both = gemm(a_tensor=tensor(2, 3, 7, 5), trans_b="TRANSPOSE")
    assert remedies(both) == ["trans_a TRANSPOSE and trans_b NONE fit these sizes"]
    assert remedies(gemm(b_tensor=tensor(1, 1, 7, 11))) == ["strides of 0 repeat it: sizes [2, 3, 7, 11], strides [0, 0, 11, 1]"]
    assert codes(gemm(b_tensor=tensor(2, 3, 7, 11, strides=[0, 0, 11, 1]))) == []
    assert remedies(gemm(c_tensor=tensor(1, 1, 1, 11))) == ["strides of 0 repeat it: sizes [2, 3, 5, 11], strides [0, 0, 0, 1]"]
    five = dml.GEMMDesc(a_tensor=tensor(2, 3, 4, 5, 6), b_tensor=tensor(2, 3, 4, 6, 7), output_tensor=tensor(2, 3, 4, 5, 7))
    assert remedies(five) == [
        f"fold the leading dimensions of every tensor, as all are packed: sizes {sizes} here"
        for sizes in ([6, 4, 5, 6], [6, 4, 6, 7], [6, 4, 5, 7])
    ]
    gap = five.replace(a_tensor=tensor(2, 3, 4, 5, 6, strides=[1000, 120, 30, 6, 1]))
    assert not any(remedy and "fold" in remedy for remedy in remedies(gap))


@settings(max_examples=40)
@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 3),
    batch=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    transforms=st.tuples(*[st.sampled_from(["NONE", "TRANSPOSE"])] * 2),
)
def test_gemm_infers_what_numpy_would(sizes: tuple[int, int, int], batch: list[int], transforms: tuple[str, str]) -> None:
    m, k, n = sizes
    a = (m, k) if transforms[0] == "NONE" else (k, m)
    b = (k, n) if transforms[1] == "NONE" else (n, k)
    desc = dml.GEMMDesc(a_tensor=tensor(*batch, *a), b_tensor=tensor(*batch, *b), trans_a=transforms[0], trans_b=transforms[1])
    complete = desc.with_outputs()
    assert complete.output_tensor is not None
    assert complete.output_tensor.sizes == (*batch, m, n)
    assert codes(complete) == []
