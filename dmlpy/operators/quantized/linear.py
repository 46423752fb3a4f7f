"""Linear quantization: an integer q represents the number (q - zero_point) * scale.

Quantized results are rounded (ties presumably to even) and moved into the range of their type: 0 to 255 for UINT8, -128 to 127 for INT8,
0 to 15 for UINT4, -8 to 7 for INT4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Self

from dmlpy.description.coercion import Spelled
from dmlpy.description.descs import OperatorDesc, TensorDescs
from dmlpy.description.enums import DataType, FeatureLevel, QuantizationType
from dmlpy.description.markers import In, Limits, Out, Slot, TensorField, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Sizes, Term
from dmlpy.description.support import BYTES, FLOAT32, FLOATS, FLOATS_BYTES, INT4_TYPES, INTEGERS_TO_32, UINT8, SupportRow, row_at, types
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import plural
from dmlpy.operators.elementwise.common import ElementWiseDesc

_FLOAT32_OR_INT32 = types("FLOAT32", "INT32")
_BYTES_INT4 = BYTES | INT4_TYPES


class WholeTensorDesc(OperatorDesc):
    """Scales and zero points for a whole tensor: one element in as many dimensions, the run `*ones`."""

    @derived("one element for the whole tensor, in as many dimensions")
    def ones(self, symbols: Sizes) -> list[int]:
        return [1] * symbols["len(sizes)"]

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        tensor, count = getattr(self, field.name), symbols.infer(self.terms(field))
        if field.marker.pattern != "*ones" or count is None or tensor.sizes == count or tensor.span != 1:
            return super().size_remedy(field, symbols)
        return f"it is one element: sizes {list(count)}, without strides"


class LinearDesc(ElementWiseDesc):
    """A function of elements with a scale and a zero point for each."""

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    scale_tensor: Annotated[TensorDesc, In("*sizes", "S")]
    """The scale of each element. Where x is INT32 it is FLOAT32. The result of a scale of 0 is undefined: here x / 0 held within the range,
    and NaN counts as 0.
    """

    zero_point_tensor: Annotated[TensorDesc | None, In("*sizes")] = None
    """The zero point of each element. If absent, it is 0; feature levels below 6_2 need it."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The result y."""

    @rule("before feature level 6_2 there is a zero point")
    def zero_point_level(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if self.zero_point_tensor is None and level < FeatureLevel.FL_6_2:
            remedy = "describe one that holds 0; feature level 6_2 takes 0 where it is missing"
            yield Violation("zero_point_tensor", "missing", f"a tensor at feature level {level}", remedy=remedy)


class ElementWiseQuantizeLinearDesc(LinearDesc, dml="ELEMENT_WISE_QUANTIZE_LINEAR"):
    """DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC: quantizes numbers to 8-bit integers.

    A scale or a zero point that belongs to the whole tensor, or to all elements at one place of an axis, repeats by strides of 0.

    x is divided by the scale, as DirectML's page has it. ONNX Runtime's tests record that DirectML multiplies by the scale's reciprocal,
    rounded to FLOAT32: where x / scale is next to a tie, its result differs by one.
    """

    formula = "y = clamp(round(x / scale) + zero_point, the range of the output's type)"
    support = (
        SupportRow("1_0", dims=4, T=FLOAT32, S=FLOAT32, Q=UINT8),
        SupportRow("2_1", dims=4, T=_FLOAT32_OR_INT32, S=FLOAT32, Q=BYTES),
        SupportRow("3_0", dims=(1, 8), T=_FLOAT32_OR_INT32, S=FLOAT32, Q=BYTES),
        SupportRow("6_0", dims=(1, 8), T=FLOATS | _FLOAT32_OR_INT32, S=FLOATS, Q=BYTES),
        SupportRow("6_2", dims=(1, 8), T=FLOATS | _FLOAT32_OR_INT32, S=FLOATS, Q=BYTES),
    )

    zero_point_tensor: Annotated[TensorDesc | None, In("*sizes", "Q")] = None
    """The zero point of each element, of the output's type. If absent, it is 0; feature levels below 6_2 need it."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", "Q", required=True)] = None
    """The integers y. with_outputs makes them UINT8 if neither they nor a zero point have a type."""

    @rule("scale_tensor is FLOAT32 where input_tensor is INT32, else of the type of input_tensor")
    def quantize_scale_type(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        actual, row = self.scale_tensor.data_type, row_at(self.support, level)
        expected = DataType.FLOAT32 if self.input_tensor.data_type is DataType.INT32 else self.input_tensor.data_type
        # Types that the level lacks are reported elsewhere.
        if actual is not expected and actual in row.types["S"] and expected in row.types["S"]:
            why = (f"input_tensor has elements of type {self.input_tensor.data_type}",)
            yield Violation("scale_tensor.data_type", str(actual), str(expected), why)


class ElementWiseDequantizeLinearDesc(LinearDesc, dml="ELEMENT_WISE_DEQUANTIZE_LINEAR"):
    """DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC: the numbers that quantized integers represent.

    A scale or a zero point that belongs to the whole tensor, or to all elements at one place of an axis, repeats by strides of 0.
    """

    formula = "y = (x - zero_point) * scale"
    support = (
        SupportRow("1_0", dims=4, T=UINT8, S=FLOAT32),
        SupportRow("2_1", dims=4, T=INTEGERS_TO_32, S=FLOAT32),
        SupportRow("3_0", dims=(1, 8), T=INTEGERS_TO_32, S=FLOAT32),
        SupportRow("6_0", dims=(1, 8), T=INTEGERS_TO_32, S=FLOATS),
        SupportRow("6_2", dims=(1, 8), T=INTEGERS_TO_32, S=FLOATS),
    )

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", "S", required=True)] = None
    """The numbers y."""


class ElementWiseQuantizedLinearAddDesc(ElementWiseDesc, WholeTensorDesc, dml="ELEMENT_WISE_QUANTIZED_LINEAR_ADD"):
    """DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC: the sum of quantized tensors, quantized again.

    A, B and the output may be of different types. Each has one scale and one zero point: tensors of one element.
    """

    formula = """\
v = (a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale
y = clamp(round(v / output_scale) + output_zero_point, the range of the output's type)"""
    support = (SupportRow("4_0", dims=(1, 8), A=BYTES, B=BYTES, Q=BYTES),)

    a_tensor: Annotated[TensorDesc, In("*sizes", "A")]
    """The quantized tensor a. Strides of 0 repeat it."""

    a_scale_tensor: Annotated[TensorDesc, In("*ones", FLOAT32)]
    """The scale of a."""

    a_zero_point_tensor: Annotated[TensorDesc | None, In("*ones", "A")] = None
    """The zero point of a. If absent, it is 0."""

    b_tensor: Annotated[TensorDesc, In("*sizes", "B")]
    """The quantized tensor b. Strides of 0 repeat it."""

    b_scale_tensor: Annotated[TensorDesc, In("*ones", FLOAT32)]
    """The scale of b."""

    b_zero_point_tensor: Annotated[TensorDesc | None, In("*ones", "B")] = None
    """The zero point of b. If absent, it is 0."""

    output_scale_tensor: Annotated[TensorDesc, In("*ones", FLOAT32)]
    """The scale of the output."""

    output_zero_point_tensor: Annotated[TensorDesc | None, In("*ones", "Q")] = None
    """The zero point of the output. If absent, it is 0."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", "Q", required=True)] = None
    """The quantized sum y. with_outputs makes it UINT8 if neither it nor its zero point has a type."""


class DynamicQuantizeLinearDesc(WholeTensorDesc, dml="DYNAMIC_QUANTIZE_LINEAR"):
    """DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC: quantizes with the scale and the zero point of the input's range.

    least and most are the range of the output's type. Whether the input's range is first widened to hold 0, as ONNX has it, is not
    documented; here it is, or the zero point would not fit its type. Nor is it documented what an input of zeros gives, whose scale is 0;
    here its zero point is least, and so is every result. x is divided by the scale; ONNX Runtime's tests record that DirectML multiplies
    by the rounded reciprocal, so that its result may differ by one next to a tie.
    """

    formula = """\
scale = (max(x) - min(x)) / (most - least), zero_point = least - min(x) / scale
y = clamp(round(x / scale) + zero_point, least, most)"""
    support = (SupportRow("4_0", dims=(1, 8), T=FLOATS, Q=BYTES),)

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", "Q", required=True)] = None
    """The integers y."""

    output_scale_tensor: Annotated[TensorDesc | None, Out("*ones", FLOAT32, required=True)] = None
    """The scale of the integers."""

    output_zero_point_tensor: Annotated[TensorDesc | None, Out("*ones", "Q", required=True)] = None
    """The zero point of the integers."""


def _placed(tensor: TensorDesc, whole: Sequence[int]) -> str | None:
    """The sizes of one element, or of a vector along the only dimension of its length, in `whole`'s dimensions; None if ambiguous."""
    longer = [size for size in tensor.sizes if size != 1]
    if tensor.strides is not None or len(longer) > 1 or any(tuple(whole).count(size) != 1 for size in longer):
        return None
    return f"in as many dimensions: sizes {[size if [size] == longer else 1 for size in whole]}"


class QuantizationDesc(OperatorDesc):
    """A function of elements with an array of a scale and, depending on the quantization type, a zero point."""

    c_counts: ClassVar[Mapping[str, str]] = {"QuantizationTensorCount": "quantization_tensors"}

    typed_like: ClassVar[tuple[str, str]] = ("", "")
    """The tensors whose types the scale and the zero point have."""

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    quantization_type: Annotated[Spelled[QuantizationType], Limits(one_of=(QuantizationType.SCALE, QuantizationType.SCALE_ZERO_POINT))]
    """The tensors in quantization_tensors. With SCALE the zero point is the middle of an unsigned type, 128 or 8, and 0 of a signed
    one: DirectML's page does not say so, ONNX Runtime's provider relies on it."""

    quantization_tensors: Annotated[TensorDescs, In("*sizes", FLOATS_BYTES | INT4_TYPES)]
    """The scale, of the type of the numbers, then the zero point, of the type of the integers. Each size divides the input's: 1 repeats, a
    smaller one is a number of blocks of equal size. DirectML's page does not say; it is what ONNX Runtime describes.
    """

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", "Y", required=True)] = None
    """The result y. with_outputs gives integers the zero point's type, UINT8 without one, and numbers the scale's."""

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        if slot.field.listed:
            # As many dimensions as the input; a separate rule limits their sizes.
            return tuple(Term(1, f"{slot.place}.sizes[{axis}]") for axis in range(dimension_count))
        return super().aligned(slot, dimension_count)

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        whole = symbols.infer(self.terms(field))
        if not field.listed or whole is None:
            return super().size_remedy(field, symbols)
        advice = {_placed(tensor, whole) for tensor in self.quantization_tensors if len(tensor.sizes) != len(whole)}
        # There is one remedy for the whole array: where two tensors need different ones, it would be wrong.
        return advice.pop() if len(advice) == 1 else None

    @property
    def implied_zero_point(self) -> int:
        """The zero point that no tensor gives: with SCALE the middle of an unsigned type; else 0."""
        integers: TensorDesc | None = getattr(self, self.typed_like[1])
        if self.quantization_type is not QuantizationType.SCALE or integers is None:
            return 0
        least, most = integers.data_type.limits
        return (least + most + 1) // 2

    def with_outputs(self, *names: str, data_types: Mapping[str, DataType | str | int | None] | None = None) -> Self:
        desc = super().with_outputs(*names, data_types=data_types)
        if data_types and any(data_type is not None for data_type in data_types.values()):
            return desc
        zero_point = dict(zip(self.typed_like, self.quantization_tensors, strict=False)).get("output_tensor")
        if zero_point is None or desc.output_tensor is None or zero_point.data_type not in self.support[-1].types["Y"]:
            return desc
        return desc.replace(output_tensor=desc.output_tensor.replace(data_type=zero_point.data_type))

    @rule("there is a scale and, with SCALE_ZERO_POINT, a zero point")
    def quantization_tensor_count(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        wanted = {QuantizationType.SCALE: (1, "the scale"), QuantizationType.SCALE_ZERO_POINT: (2, "the scale and the zero point")}
        count, roles = wanted.get(self.quantization_type, (0, ""))
        if roles and len(self.quantization_tensors) != count:
            actual = plural(len(self.quantization_tensors), "tensor")
            yield Violation("quantization_tensors", actual, f"{count}, {roles}", (f"quantization_type is {self.quantization_type}",))

    @rule("each size of a scale or a zero point divides the input's: it holds for a block of elements")
    def quantization_block(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        whole = symbols.run("sizes")
        for index, tensor in enumerate(self.quantization_tensors):
            if len(tensor.sizes) != len(whole):
                continue
            for axis, (size, of_input) in enumerate(zip(tensor.sizes, whole, strict=True)):
                if 1 <= size <= MAX_SIZE and of_input % size:
                    expected = f"1 or another divisor of sizes[{axis}] = {of_input}"
                    yield Violation(f"quantization_tensors[{index}].sizes[{axis}]", str(size), expected, (symbols.why(f"sizes[{axis}]"),))

    @rule("the scale has the type of the numbers, the zero point that of the integers")
    def quantization_tensor_types(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        roles = (("the scale", FLOATS), ("the zero point", _BYTES_INT4))
        for index, (tensor, name, (role, kinds)) in enumerate(zip(self.quantization_tensors, self.typed_like, roles, strict=False)):
            like = getattr(self, name)
            # Types that no tensor here may have are reported elsewhere.
            if like is None or like.data_type not in kinds or tensor.data_type not in FLOATS_BYTES | INT4_TYPES:
                continue
            if tensor.data_type is not like.data_type:
                why = (f"quantization_tensors[{index}] is {role}", f"{name} has elements of type {like.data_type}")
                remedy = None if tensor.data_type in kinds else "the scale comes first, then the zero point"
                yield Violation(f"quantization_tensors[{index}].data_type", str(tensor.data_type), str(like.data_type), why, remedy)


class QuantizeDesc(QuantizationDesc, dml="QUANTIZE"):
    """DML_QUANTIZE_OPERATOR_DESC: quantizes numbers to 8- or 4-bit integers.

    DirectML's page has only the members, their types and dimension counts. The formula, the number and the types of the
    quantization tensors are those of ELEMENT_WISE_QUANTIZE_LINEAR and of DirectMLX, the zero point of SCALE is ONNX Runtime's.
    """

    formula = "y = clamp(round(x / scale) + zero_point, the range of the output's type)"
    support = (SupportRow("6_3", dims=(1, 8), T=FLOATS, Y=_BYTES_INT4),)
    typed_like = ("input_tensor", "output_tensor")


class DequantizeDesc(QuantizationDesc, dml="DEQUANTIZE"):
    """DML_DEQUANTIZE_OPERATOR_DESC: the numbers that 8- or 4-bit integers represent.

    DirectML's page has only the members, their types and dimension counts. The formula, the number and the types of the
    quantization tensors are those of ELEMENT_WISE_DEQUANTIZE_LINEAR and of DirectMLX, the zero point of SCALE is ONNX Runtime's.
    """

    formula = "y = (x - zero_point) * scale"
    support = (SupportRow("6_3", dims=(1, 8), T=_BYTES_INT4, Y=FLOATS),)
    typed_like = ("output_tensor", "input_tensor")
