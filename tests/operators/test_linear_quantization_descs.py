"""Linear quantization as descs: scales and zero points in sizes, types, number and level; messages; inference; JSON."""

from __future__ import annotations

from typing import Any

import dmlpy as dml
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor


def text(desc: dml.OperatorDesc, level: str = "6_4") -> str:
    return lay_out(desc.c_name, dml.check(desc, level))


def quantize_linear(x: str = "FLOAT32", scale: str = "FLOAT32", zero_point: str | None = "INT8", **members: Any) -> Any:
    sizes = (1, 2, 3, 4)
    given = {"input_tensor": tensor(*sizes, data_type=x), "scale_tensor": tensor(*sizes, data_type=scale, strides=[0, 0, 0, 0])}
    if zero_point is not None:
        given["zero_point_tensor"] = tensor(*sizes, data_type=zero_point, strides=[0, 1, 0, 0])
    return dml.ElementWiseQuantizeLinearDesc(**given | members).with_outputs()


def dequantize_linear(x: str = "INT8", scale: str = "FLOAT32", zero_point: str | None = "INT8", **members: Any) -> Any:
    given = {"input_tensor": tensor(1, 2, 3, 4, data_type=x), "scale_tensor": tensor(1, 2, 3, 4, data_type=scale)}
    if zero_point is not None:
        given["zero_point_tensor"] = tensor(1, 2, 3, 4, data_type=zero_point)
    return dml.ElementWiseDequantizeLinearDesc(**given | members).with_outputs()


def add(**members: Any) -> Any:
    one, given = tensor(1, 1), {"a_tensor": tensor(2, 3, data_type="INT8"), "b_tensor": tensor(2, 3, data_type="UINT8")}
    scales = dict.fromkeys(("a_scale_tensor", "b_scale_tensor", "output_scale_tensor"), one)
    return dml.ElementWiseQuantizedLinearAddDesc(**given | scales | members).with_outputs()


def dynamic(**members: Any) -> Any:
    return dml.DynamicQuantizeLinearDesc(input_tensor=tensor(2, 3, data_type="FLOAT16")).with_outputs().replace(**members)


def quantize(*tensors: dml.TensorDesc, kind: str = "SCALE_ZERO_POINT", **members: Any) -> Any:
    desc = dml.QuantizeDesc(input_tensor=tensor(4, 6), quantization_type=kind, quantization_tensors=tensors)
    return desc.with_outputs().replace(**members)


def dequantize(*tensors: dml.TensorDesc, kind: str = "SCALE_ZERO_POINT", **members: Any) -> Any:
    x = tensor(4, 6, data_type="INT4")
    desc = dml.DequantizeDesc(input_tensor=x, quantization_type=kind, quantization_tensors=tensors)
    return desc.with_outputs().replace(**members)


NIBBLE = tensor(4, 1, data_type="INT4")
Expected = list[tuple[str, str]]
TABLE: list[tuple[dml.OperatorDesc, str, Expected]] = [
    # a scale and a zero point for each element
    (quantize_linear(), "2_1", []),
    (quantize_linear(zero_point="UINT8"), "1_0", []),
    (quantize_linear(), "1_0", [("type.support", "zero_point_tensor.data_type"), ("type.support", "output_tensor.data_type")]),
    (quantize_linear(x="INT32"), "2_1", []),
    (quantize_linear(x="FLOAT16", scale="FLOAT16"), "6_0", []),
    (quantize_linear(x="FLOAT16"), "6_0", [("quantize_scale_type", "scale_tensor.data_type")]),
    (quantize_linear(x="INT32", scale="FLOAT16"), "6_4", [("quantize_scale_type", "scale_tensor.data_type")]),
    (quantize_linear(scale="FLOAT16"), "5_2", [("type.support", "scale_tensor.data_type")]),
    (quantize_linear(x="FLOAT16", scale="FLOAT16"), "5_2", [("type.support", f"{name}_tensor.data_type") for name in ("input", "scale")]),
    (quantize_linear(x="INT8", scale="FLOAT16"), "6_4", [("type.support", "input_tensor.data_type")]),
    (quantize_linear(scale="INT32"), "6_4", [("type.support", "scale_tensor.data_type")]),
    (quantize_linear(zero_point=None), "6_2", []),
    (quantize_linear(zero_point=None), "6_1", [("zero_point_level", "zero_point_tensor")]),
    (quantize_linear(output_tensor=tensor(1, 2, 3, 4, data_type="UINT8")).replace(zero_point_tensor=None), "6_4", []),
    (dequantize_linear(), "2_1", []),
    (dequantize_linear(x="INT16", zero_point="INT16", scale="FLOAT16"), "6_0", []),
    (dequantize_linear(zero_point="UINT8"), "6_4", [("type.equal", "zero_point_tensor.data_type")]),
    (dequantize_linear(zero_point=None), "6_2", []),
    (dequantize_linear(zero_point=None), "5_0", [("zero_point_level", "zero_point_tensor")]),
    (
        dequantize_linear().replace(output_tensor=tensor(1, 2, 3, 4, data_type="FLOAT16")),
        "6_4",
        [("type.equal", "output_tensor.data_type")],
    ),
    (
        # One scale and a zero point for each channel, as NumPy's and ONNX's users write them: the input determines the sizes.
        dequantize_linear(scale_tensor=tensor(1), zero_point_tensor=tensor(3, data_type="INT8")),
        "6_4",
        [("dims.equal", "scale_tensor.sizes"), ("dims.equal", "zero_point_tensor.sizes")],
    ),
    # a scale and a zero point for a whole tensor
    (add(), "4_0", []),
    (add(a_zero_point_tensor=tensor(1, 1, data_type="INT8"), b_zero_point_tensor=tensor(1, 1, data_type="UINT8")), "4_0", []),
    (add(a_zero_point_tensor=tensor(1, 1, data_type="UINT8")), "6_4", [("type.equal", "a_zero_point_tensor.data_type")]),
    (add(a_scale_tensor=tensor(1, 3)), "6_4", [("size.equal", "a_scale_tensor.sizes[1]")]),
    (add(output_scale_tensor=tensor(1)), "6_4", [("dims.equal", "output_scale_tensor.sizes")]),
    (add(b_tensor=tensor(2, 4, data_type="INT8")), "6_4", [("size.equal", "b_tensor.sizes[1]")]),
    (add(b_scale_tensor=tensor(1, 1, data_type="FLOAT16")), "6_4", [("type.support", "b_scale_tensor.data_type")]),
    (dynamic(), "4_0", []),
    (dynamic(output_scale_tensor=tensor(1)), "6_4", [("dims.equal", "output_scale_tensor.sizes")]),
    (dynamic(output_zero_point_tensor=tensor(2, 1, data_type="UINT8")), "6_4", [("size.equal", "output_zero_point_tensor.sizes[0]")]),
    (dynamic(output_tensor=tensor(2, 3, data_type="INT8")), "6_4", [("type.equal", "output_zero_point_tensor.data_type")]),
    (dynamic(output_zero_point_tensor=None), "6_4", [("tensor.missing", "output_zero_point_tensor")]),
    # an array of them
    (quantize(tensor(1, 1), kind="SCALE"), "6_3", []),
    (quantize(tensor(4, 1), NIBBLE), "6_3", []),
    (quantize(tensor(4, 6), tensor(1, 1, data_type="UINT8")), "6_4", []),
    (quantize(tensor(2, 3), NIBBLE), "6_2", [("level.operator", "")]),
    (quantize(tensor(4, 4), NIBBLE), "6_4", [("quantization_block", "quantization_tensors[0].sizes[1]")]),
    (quantize(tensor(4, 1), tensor(8, 1, data_type="INT4")), "6_4", [("quantization_block", "quantization_tensors[1].sizes[0]")]),
    (quantize(tensor(0, 1), NIBBLE), "6_4", [("size.range", "quantization_tensors[0].sizes[0]")]),
    (quantize(tensor(1), NIBBLE), "6_4", [("dims.equal", "quantization_tensors[0].sizes")]),
    (quantize(tensor(1, 1)), "6_4", [("quantization_tensor_count", "quantization_tensors")]),
    (quantize(tensor(1, 1), NIBBLE, kind="SCALE"), "6_4", [("quantization_tensor_count", "quantization_tensors")]),
    (quantize(kind="SCALE"), "6_4", [("quantization_tensor_count", "quantization_tensors")]),
    (quantize(tensor(1, 1), kind="NONE"), "6_4", [("attribute.choice", "quantization_type")]),
    (quantize(NIBBLE, kind="SCALE"), "6_4", [("quantization_tensor_types", "quantization_tensors[0].data_type")]),
    (quantize(tensor(1, 1, data_type="FLOAT64"), kind="SCALE"), "6_4", [("type.support", "quantization_tensors[0].data_type")]),
    (quantize(tensor(1, 1), NIBBLE, output_tensor=None), "6_4", [("tensor.missing", "output_tensor")]),
    (
        quantize(tensor(1, 1), NIBBLE, output_tensor=tensor(4, 6, data_type="UINT8")),
        "6_4",
        [("quantization_tensor_types", "quantization_tensors[1].data_type")],
    ),
    (dequantize(tensor(4, 2, data_type="FLOAT16"), NIBBLE), "6_3", []),
    (
        dequantize(NIBBLE, tensor(4, 1)),  # the wrong way round
        "6_4",
        [("quantization_tensor_types", f"quantization_tensors[{index}].data_type") for index in (0, 1)],
    ),
]


def test_wrong_members_are_located() -> None:
    failed = []
    for desc, level, expected in TABLE:
        if [(problem.code, problem.path) for problem in dml.check(desc, level)] != expected:
            failed.append(f"{text(desc, level)}\nexpected {expected}")
    assert not failed, "\n".join(failed)


BAD_QUANTIZE = """\
DML_QUANTIZE_OPERATOR_DESC: 4 problems
 1. quantization_tensors has 2 tensors, expected 1, the scale  [quantization_tensor_count]
      quantization_type is SCALE
 2. quantization_tensors[0].sizes[1] is 4, expected 1 or another divisor of sizes[1] = 6  [quantization_block]
      sizes[1] = 6: from input_tensor.sizes[1], output_tensor.sizes[1]
 3. quantization_tensors[0].data_type is FLOAT16, expected FLOAT32  [quantization_tensor_types]
      quantization_tensors[0] is the scale
      input_tensor has elements of type FLOAT32
 4. quantization_tensors[1].data_type is INT4, expected UINT8  [quantization_tensor_types]
      quantization_tensors[1] is the zero point
      output_tensor has elements of type UINT8"""

BAD_LINEAR = """\
DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC: 3 problems
 1. scale_tensor.sizes[2] is 1, expected sizes[2] = 3  [size.equal]
      scale_tensor is [*sizes]
      sizes[2] = 3: from input_tensor.sizes[2], output_tensor.sizes[2]
      remedy: an input repeats by strides of 0, never by its sizes: sizes [1, 2, 3, 1] and strides [0, 1, 0, 0]
 2. scale_tensor.data_type is FLOAT16, expected FLOAT32  [quantize_scale_type]
      input_tensor has elements of type INT32
 3. zero_point_tensor is missing, expected a tensor at feature level 6_0  [zero_point_level]
      remedy: describe one that holds 0; feature level 6_2 takes 0 where it is missing"""

BAD_ADD = """\
DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC: 2 problems
 1. a_scale_tensor.sizes[1] is 3, expected ones[1] = 1  [size.equal]
      a_scale_tensor is [*ones]
      ones[1] = 1: one element for the whole tensor, in as many dimensions
 2. b_scale_tensor.sizes has 1 dimension, expected 2 dimensions  [dims.equal]
      b_scale_tensor is [*ones]
      len(ones) = 2: one element for the whole tensor, in as many dimensions, for len(sizes) = 2
      remedy: it is one element: sizes [1, 1], without strides"""


def test_messages() -> None:
    wrong = quantize(tensor(4, 4, data_type="FLOAT16"), NIBBLE, kind="SCALE", output_tensor=tensor(4, 6, data_type="UINT8"))
    assert text(wrong) == BAD_QUANTIZE
    x, scale = tensor(1, 2, 3, 1, data_type="INT32"), tensor(1, 2, 1, 1, data_type="FLOAT16")
    assert text(quantize_linear(zero_point=None, input_tensor=x, scale_tensor=scale), "6_0") == BAD_LINEAR
    assert text(add(a_scale_tensor=tensor(1, 3), b_scale_tensor=tensor(1))) == BAD_ADD


def test_the_order_of_scale_and_zero_point_is_reported() -> None:
    found = [problem.remedy for desc in (dequantize(NIBBLE, tensor(4, 1)), quantize(NIBBLE, tensor(4, 1))) for problem in dml.check(desc)]
    assert found == ["the scale comes first, then the zero point"] * 4


def test_messages_name_the_sizes_of_scales_of_too_few_dimensions() -> None:
    failed = []
    for sizes, told in (((1,), [1, 1]), ((4,), [4, 1]), ((6,), [1, 6]), ((2,), None)):
        wrong = dequantize(tensor(*sizes), kind="SCALE")
        (problem,) = dml.check(wrong)
        if problem.remedy != (None if told is None else f"in as many dimensions: sizes {told}"):
            failed.append(f"{sizes}: {problem.remedy}")
        if told is not None and dml.check(wrong.replace(quantization_tensors=[tensor(*told)])):
            failed.append(f"{told} is wrong too")
    assert not failed
    # Two that need two remedies get none, and a length that two dimensions have does not identify one.
    both = dml.check(dequantize(tensor(4), tensor(6, data_type="INT4")))
    assert [problem.remedy for problem in both] == [None, None]
    x = tensor(4, 4, data_type="INT8")
    square = dml.DequantizeDesc(input_tensor=x, quantization_type="SCALE", quantization_tensors=[tensor(4)]).with_outputs()
    assert [problem.remedy for problem in dml.check(square)] == [None]


def test_messages_name_the_sizes_of_one_element_that_repeats() -> None:
    # ELEMENT_WISE_QUANTIZE_LINEAR takes a scale for the whole tensor like this.
    wrong = add(a_scale_tensor=tensor(2, 3, strides=[0, 0]))
    assert [(problem.code, problem.remedy) for problem in dml.check(wrong)] == [
        ("size.equal", "it is one element: sizes [1, 1], without strides")
    ] * 2
    assert dml.check(wrong.replace(a_scale_tensor=tensor(1, 1))) == []
    assert [problem.remedy for problem in dml.check(add(a_scale_tensor=tensor(1, 3)))] == [None]


def outputs(desc: dml.OperatorDesc) -> dict[str, str]:
    """The outputs in short: `INT8 2 3`."""
    told = {field.name: getattr(desc, field.name) for field in desc.outputs()}
    return {name: " ".join([str(item.data_type), *map(str, item.sizes)]) for name, item in told.items()}


def test_outputs_are_inferred() -> None:
    half = tensor(4, 1, data_type="FLOAT16")
    inferred = [
        (quantize_linear(), "INT8 1 2 3 4"),
        (quantize_linear(zero_point=None), "UINT8 1 2 3 4"),
        (dequantize_linear(scale="FLOAT16"), "FLOAT16 1 2 3 4"),
        (dequantize_linear(scale_tensor=tensor(1), zero_point_tensor=tensor(1, data_type="INT8")), "FLOAT32 1 2 3 4"),
        (add(), "UINT8 2 3"),
        (add(output_zero_point_tensor=tensor(1, 1, data_type="INT8")), "INT8 2 3"),
        (quantize(tensor(1, 1), NIBBLE), "INT4 4 6"),
        (quantize(tensor(1, 1), kind="SCALE"), "UINT8 4 6"),
        (dequantize(half, NIBBLE), "FLOAT16 4 6"),
        (dequantize(half, kind="SCALE"), "FLOAT16 4 6"),
        (dequantize(kind="SCALE"), "FLOAT32 4 6"),
    ]
    assert [outputs(desc)["output_tensor"] for desc, _ in inferred] == [expected for _, expected in inferred]
    assert outputs(dynamic()) == {
        "output_tensor": "UINT8 2 3",
        "output_scale_tensor": "FLOAT32 1 1",
        "output_zero_point_tensor": "UINT8 1 1",
    }


def test_arrays_of_quantization_tensors_in_json() -> None:
    desc = quantize(tensor(4, 1), NIBBLE)
    data = desc.to_dict(flat=True)
    assert list(data) == ["Type", "InputTensor", "QuantizationType", "QuantizationTensorCount", "QuantizationTensors", "OutputTensor"]
    assert data["QuantizationTensorCount"] == 2
    assert dml.OperatorDesc.from_dict(data) == desc
    assert dml.OperatorDesc.from_json(dequantize(tensor(4, 1), NIBBLE).to_json()) == dequantize(tensor(4, 1), NIBBLE)


def test_nibbles_that_are_read_may_be_strided() -> None:
    # ONNX Runtime's MatMulNBits: rows of zero points padded to whole bytes, scales repeated along each block.
    def strided(data_type: str, sizes: list[int], strides: list[int]) -> dml.TensorDesc:
        return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)

    desc = dml.DequantizeDesc(
        input_tensor=strided("UINT4", [2, 4, 32], [0, 32, 1]),
        quantization_type="SCALE_ZERO_POINT",
        quantization_tensors=[strided("FLOAT32", [2, 4, 1], [0, 1, 1]), strided("UINT4", [2, 4, 1], [0, 2, 1])],
    ).with_outputs()
    assert dml.check(desc) == []
