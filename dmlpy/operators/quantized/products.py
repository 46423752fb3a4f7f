"""Products of quantized numbers: convolutions, matrix products, average pooling.

A quantized tensor represents (q - zero point) * scale. Scales and zero points hold one element for the whole tensor, or one for each
row, column or channel; an absent zero point is 0. A scale of 0 is not defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Out, Slot, TensorField, Violation, derived, rule
from dmlpy.description.sizes import Derived, Explained, Sizes, Term
from dmlpy.description.support import BYTES, FLOAT32, FLOATS, INT32, INTEGERS_TO_32, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import Count, plural
from dmlpy.operators.convolution import ConvolvingDesc
from dmlpy.operators.matrix import MatrixProductDesc
from dmlpy.operators.pooling.average import AveragingDesc
from dmlpy.operators.pooling.windows import DilatedPoolingDesc

EACH = {"m": "row", "n": "column", "output_channels": "output channel", "channels": "channel"}
"""The unit that has a separate scale or zero point, by the symbol that counts it."""


class QuantizedDesc(OperatorDesc):
    """An operator with scales and zero points.

    The pattern of one is that of 4 dimensions. Of fewer, leading ones are left out; where DirectML's page leaves open which ones are,
    the count may lie along any dimension.
    """

    parameters: ClassVar[Mapping[str, str]] = {}
    """The scales and zero points, each with the symbol that its count may be instead of 1; empty where there is always one element."""

    movable: ClassVar[tuple[str, ...]] = ()
    """The parameters whose count may lie along any of fewer than 4 dimensions."""

    of_one_rank: ClassVar[tuple[str, ...]] = ()
    """The tensors that must have equal dimension counts, where the operator says so."""

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        if field.name not in self.parameters:
            return super().terms(field)
        tensor: TensorDesc | None = getattr(self, field.name)
        return self._parameter_terms(field, 4 if tensor is None else len(tensor.sizes))

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        if slot.field.name not in self.parameters:
            return super().aligned(slot, dimension_count)
        return self._parameter_terms(slot.field, dimension_count)

    def _parameter_terms(self, field: TensorField, dimension_count: int) -> tuple[Term, ...]:
        terms = [Term(1)] * dimension_count
        at = self._counted(field, dimension_count)
        if at is not None:
            terms[at] = next(term for term in field.marker.terms if term.symbol is not None)
        return tuple(terms)

    def _counted(self, field: TensorField, dimension_count: int) -> int | None:
        """The dimension of a scale or zero point that may be longer than 1, given its dimension count; None if none may."""
        at = next((axis for axis, term in enumerate(field.marker.terms) if term.symbol is not None), None)
        if at is None or not 1 <= dimension_count < 4:
            return at if dimension_count else None
        tensor: TensorDesc | None = getattr(self, field.name)
        if field.name in self.movable:
            sizes = () if tensor is None else tensor.sizes[:dimension_count]
            return next((axis for axis, size in enumerate(sizes) if size != 1), dimension_count - 1)
        at -= 4 - dimension_count
        return at if at >= 0 else None

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        return self._spread(field, symbols) if field.name in self.parameters else super().size_remedy(field, symbols)

    def _spread(self, field: TensorField, symbols: Sizes) -> str | None:
        """The sizes of a scale or zero point that has an element per row, column or channel, but in the wrong dimension."""
        symbol, tensor = self.parameters[field.name], getattr(self, field.name)
        if not symbol or symbol not in symbols or tensor.element_count != symbols[symbol] or symbols[symbol] == 1:
            return None
        usual, terms = self._usual_rank(), field.marker.terms
        needed = 4 - next(axis for axis, term in enumerate(terms) if term.symbol is not None)
        count = 4 if usual is None else min(4, max(usual, needed))
        sizes = [1 if term.symbol is None else symbols[symbol] for term in terms[4 - count :]]
        others = f"; {', '.join(self.of_one_rank)} have equal dimension counts" if usual is not None and count > usual else ""
        return f"one for each {EACH[symbol]} is sizes {sizes}{others}"

    def _usual_rank(self) -> int | None:
        """The most frequent dimension count among the tensors that must agree; None if there are none."""
        counts = [len(tensor.sizes) for name in self.of_one_rank if (tensor := getattr(self, name)) is not None]
        # max() keeps the first of equals, so a tie goes to the earliest field.
        return max(counts, key=counts.count, default=None)

    @rule("a scale or zero point has one element, or one for each row, column or channel")
    def quantized_counts(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for field in self.tensor_fields():
            symbol, tensor = self.parameters.get(field.name), getattr(self, field.name)
            at = None if not symbol or tensor is None else self._counted(field, len(tensor.sizes))
            if not symbol or symbol not in symbols or at is None:
                continue
            count, each = tensor.sizes[at], symbols[symbol]
            if count >= 1 and count not in (1, each):
                yield Violation(f"{field.name}.sizes[{at}]", str(count), f"1, or {symbol} = {each}", (symbols.why(symbol),))


class OneRankDesc(QuantizedDesc):
    """An operator whose scales and zero points in `of_one_rank` have equal dimension counts."""

    @rule("scales and zero points have equal dimension counts")
    def quantized_dims(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        usual, fields = self._usual_rank(), [field for field in self.tensor_fields() if field.name in self.of_one_rank]
        agreeing = [name for name, tensor in self.tensors().items() if name in self.of_one_rank and len(tensor.sizes) == usual]
        for field in fields:
            tensor: TensorDesc | None = getattr(self, field.name)
            if usual is None or tensor is None or len(tensor.sizes) == usual:
                continue
            why = f"{', '.join(self.of_one_rank)} have equal dimension counts: {usual} is that of {', '.join(agreeing)}"
            padded = [1] * (usual - len(tensor.sizes)) + [*tensor.sizes]
            remedy = self._spread(field, symbols) or (f"put ones in front: sizes {padded}" if len(padded) == usual else None)
            actual = Count(f"{plural(len(tensor.sizes), 'dimension')} {list(tensor.sizes)}")
            yield Violation(f"{field.name}.sizes", actual, plural(usual, "dimension"), (why,), remedy)


class QuantizedConvolvingDesc(QuantizedDesc, ConvolvingDesc):
    """A forward convolution of quantized numbers.

    DirectML's pages have a DimensionCount of 2 only, and tensors without a height: the last entries are then for the width. That such
    tensors have 1 entry, as CONVOLUTION has it, is taken too.
    """

    c_counts: ClassVar[Mapping[str, tuple[str, ...]]] = {"DimensionCount": ("strides", "dilations", "start_padding", "end_padding")}

    array_weight = 0.5

    input_tensor: Annotated[TensorDesc, In("batch input_channels *spatial", "X"), After()]
    """The quantized input x. From feature level 4_0 on it may lack a height."""

    input_zero_point_tensor: Annotated[TensorDesc | None, In("1 1 1 1", "X")] = None
    """The zero point of x, one element. If absent, 0."""

    filter_tensor: Annotated[TensorDesc, In("output_channels filter_channels *window", "W", constant=True)]
    """The quantized filters w."""

    filter_zero_point_tensor: Annotated[TensorDesc | None, In("1 filter_zero_point_channel_count 1 1", "W", constant=True)] = None
    """The zero point of w, one element, or one for each output channel. If absent, 0."""

    @derived("2; of tensors without a height 1 too")
    def dimension_count(self, symbols: Sizes) -> Derived | Sequence[Derived]:
        if self._width_alone():
            return super().dimension_count(symbols)
        return Explained(2, "no other DimensionCount is supported; of tensors without a height the last entries are for the width")

    def entry(self, axis: int) -> int:
        return axis if self._width_alone() else axis + 4 - self.rank

    def _width_alone(self) -> bool:
        return self.rank == 3 and all(len(array) == 1 for array in self._arrays())


class ConvolutionIntegerDesc(OneRankDesc, QuantizedConvolvingDesc, dml="CONVOLUTION_INTEGER"):
    """DML_CONVOLUTION_INTEGER_OPERATOR_DESC: the forward convolution of quantized numbers, summed as 32-bit integers.

    The filter is not flipped; padding is 0 once the zero point is taken off; sums wrap around. The arrays have 2 entries; of tensors
    without a height the last ones are for the width, or the only ones. A zero point of fewer than 4 dimensions may have its channels
    along any one.
    """

    formula = "y[n, m, o] = sum over c, k of (x[n, c, o * strides + k * dilations - start_padding] - xz) * (w[m, c, k] - wz[m])"
    parameters = {"input_zero_point_tensor": "", "filter_zero_point_tensor": "output_channels"}
    movable = ("filter_zero_point_tensor",)
    of_one_rank = tuple(parameters)
    support = (
        SupportRow("2_1", dims=4, X=BYTES, W=BYTES),
        SupportRow("4_0", dims=(3, 4), dims_of=dict.fromkeys(parameters, (1, 4)), X=BYTES, W=BYTES),
    )

    output_tensor: Annotated[
        TensorDesc | None, Out("batch output_channels *out", INT32, required=True), After("filter_zero_point_tensor")
    ] = None
    """The sums y."""


class QuantizedLinearConvolutionDesc(QuantizedConvolvingDesc, dml="QUANTIZED_LINEAR_CONVOLUTION"):
    """DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC: the forward convolution of quantized numbers, quantized again.

    The filter is not flipped; padding is 0 once dequantized. The arrays have 2 entries; of tensors without a height the last ones
    are for the width, or the only ones. A scale or zero point of fewer than 4 dimensions may have its channels along any one.
    """

    formula = (
        "y[n, m, o] = clamp(round(xs * ws[m] * (sum over c, k of (x[n, c, o * strides + k * dilations - start_padding] - xz)"
        " * (w[m, c, k] - wz[m]) + bias[m]) / ys) + yz)"
    )
    parameters = {
        "input_scale_tensor": "",
        "input_zero_point_tensor": "",
        "filter_scale_tensor": "output_channels",
        "filter_zero_point_tensor": "output_channels",
        "output_scale_tensor": "",
        "output_zero_point_tensor": "",
    }
    movable = ("filter_scale_tensor", "filter_zero_point_tensor")
    support = (
        SupportRow("2_1", dims=4, X=BYTES, W=BYTES, Y=BYTES),
        SupportRow(
            "4_0",
            dims=(3, 4),
            dims_of={**dict.fromkeys(parameters, (1, 4)), "filter_scale_tensor": (3, 4)},
            X=BYTES,
            W=BYTES,
            Y=BYTES,
        ),
        SupportRow("5_2", dims=(3, 4), dims_of=dict.fromkeys(parameters, (1, 4)), X=BYTES, W=BYTES, Y=BYTES),
    )

    input_scale_tensor: Annotated[TensorDesc, In("1 1 1 1", FLOAT32), After("input_tensor")]
    """The scale of x, one element."""

    filter_scale_tensor: Annotated[TensorDesc, In("1 filter_scale_channel_count 1 1", FLOAT32, constant=True), After("filter_tensor")]
    """The scale of w, one element, or one for each output channel."""

    bias_tensor: Annotated[TensorDesc | None, In("1 output_channels *ones", INT32, constant=True), After("filter_zero_point_tensor")] = None
    """The bias of each output channel, in units of x's scale times w's. If absent, nothing is added."""

    output_scale_tensor: Annotated[TensorDesc, In("1 1 1 1", FLOAT32)]
    """The scale of y, one element."""

    output_zero_point_tensor: Annotated[TensorDesc | None, In("1 1 1 1", "Y")] = None
    """The zero point of y, one element. If absent, 0."""

    output_tensor: Annotated[TensorDesc | None, Out("batch output_channels *out", "Y", required=True)] = None
    """The quantized result y."""

    @rule("filter_scale_tensor and filter_zero_point_tensor both have one element, or both one for each output channel")
    def quantized_filter_counts(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        # Not in DirectML's page. ONNX Runtime's tests of QLinearConv with a scale for each channel and one zero point fail on DirectML.
        scale, zero_point = self.filter_scale_tensor, self.filter_zero_point_tensor
        if (
            zero_point is not None
            and 1 in {scale.element_count, zero_point.element_count}
            and scale.element_count != zero_point.element_count
        ):
            why = f"filter_scale_tensor has {plural(scale.element_count, 'element')}"
            actual = Count(f"{plural(zero_point.element_count, 'element')} {list(zero_point.sizes)}")
            expected = f"{plural(scale.element_count, 'element')} {list(scale.sizes)}"
            remedy = "a stride of 0 repeats one element for each channel" if zero_point.element_count == 1 else None
            yield Violation("filter_zero_point_tensor.sizes", actual, expected, (why,), remedy)


class QuantizedLinearAveragePoolingDesc(QuantizedDesc, DilatedPoolingDesc, AveragingDesc, dml="QUANTIZED_LINEAR_AVERAGE_POOLING"):
    """DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC: the mean of each window's quantized elements, quantized again.

    DirectML's page prints the sizes of the output without dilations; they count here, as in MAX_POOLING2. What a window that lies in
    the padding alone gives without include_padding is not defined. A scale or zero point of fewer than 4 dimensions may have its
    channels along any one.
    """

    formula = "y = clamp(round(mean over the window of (x - xz) * xs / ys) + yz)"
    parameters = dict.fromkeys(
        ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor"), "channels"
    )
    movable = tuple(parameters)
    support = (SupportRow("6_2", dims=(4, 5), dims_of=dict.fromkeys(parameters, (1, 5)), X=BYTES, Y=BYTES),)

    input_tensor: Annotated[TensorDesc, In("batch channels *spatial", "X"), After()]
    """The quantized input x. The spatial dimensions are height and width, or depth, height and width."""

    input_scale_tensor: Annotated[TensorDesc, In("1 input_scale_count 1 1", FLOAT32)]
    """The scale of x, one element, or one for each channel."""

    input_zero_point_tensor: Annotated[TensorDesc | None, In("1 input_zero_point_count 1 1", "X")] = None
    """The zero point of x, one element, or one for each channel. If absent, 0."""

    output_scale_tensor: Annotated[TensorDesc, In("1 output_scale_count 1 1", FLOAT32)]
    """The scale of y, one element, or one for each channel."""

    output_zero_point_tensor: Annotated[TensorDesc | None, In("1 output_zero_point_count 1 1", "Y")] = None
    """The zero point of y, one element, or one for each channel. If absent, 0."""

    output_tensor: Annotated[TensorDesc | None, Out("batch channels *out", "Y", required=True)] = None
    """The quantized result y, an element for each position of the window."""


class QuantizedProductDesc(QuantizedDesc, MatrixProductDesc):
    """A product of two matrices of quantized numbers."""

    a_tensor: Annotated[TensorDesc, In("*batch m k", "A")]
    """The quantized matrix A."""

    a_zero_point_tensor: Annotated[TensorDesc | None, In("1 1 a_zero_point_count 1", "A")] = None
    """The zero point of A, one element, or one for each row. If absent, 0."""

    b_tensor: Annotated[TensorDesc, In("*batch k n", "B")]
    """The quantized matrix B. Its type may differ from A's."""

    b_zero_point_tensor: Annotated[TensorDesc | None, In("1 1 1 b_zero_point_count", "B")] = None
    """The zero point of B, one element, or one for each column. If absent, 0."""


class MatrixMultiplyIntegerDesc(QuantizedProductDesc, dml="MATRIX_MULTIPLY_INTEGER"):
    """DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC: the product of two matrices of quantized numbers, summed as 32-bit integers.

    Sums wrap around. Of fewer than 4 dimensions, a_zero_point_tensor may have its rows along any one.
    """

    formula = "output[i, j] = sum over k of (A[i, k] - AZ[i]) * (B[k, j] - BZ[j])"
    parameters = {"a_zero_point_tensor": "m", "b_zero_point_tensor": "n"}
    movable = ("a_zero_point_tensor",)
    support = (
        SupportRow("2_1", dims=4, A=BYTES, B=BYTES),
        SupportRow("4_0", dims=(2, 4), dims_of={"a_zero_point_tensor": (1, 4)}, A=BYTES, B=BYTES),
        SupportRow("5_2", dims=(2, 4), dims_of=dict.fromkeys(parameters, (1, 4)), A=BYTES, B=BYTES),
    )

    output_tensor: Annotated[TensorDesc | None, Out("*batch m n", INT32, required=True)] = None
    """The sums."""


class MatrixMultiplyIntegerToFloatDesc(OneRankDesc, QuantizedProductDesc, dml="MATRIX_MULTIPLY_INTEGER_TO_FLOAT"):
    """DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC: the product of two matrices of quantized numbers, as floats.

    DirectML's page requires A and B of one type; DirectML also takes signed with unsigned ones, as ONNX Runtime gives them. Of fewer than
    4 dimensions, A's scale and zero point may have their rows along any one.
    """

    formula = "output[i, j] = sum over k of (A[i, k] - AZ[i]) * AS[i] * (B[k, j] - BZ[j]) * BS[j] + bias[i, j]"
    parameters = {"a_scale_tensor": "m", "a_zero_point_tensor": "m", "b_scale_tensor": "n", "b_zero_point_tensor": "n"}
    movable = ("a_scale_tensor", "a_zero_point_tensor")
    of_one_rank = tuple(parameters)
    support = (SupportRow("6_2", dims=(2, 4), dims_of=dict.fromkeys(parameters, (1, 4)), A=INTEGERS_TO_32, B=INTEGERS_TO_32, T=FLOATS),)

    a_scale_tensor: Annotated[TensorDesc, In("1 1 a_scale_count 1"), After("a_tensor")]
    """The scale of A, one element, or one for each row."""

    b_scale_tensor: Annotated[TensorDesc, In("1 1 1 b_scale_count"), After("b_tensor")]
    """The scale of B, one element, or one for each column."""

    bias_tensor: Annotated[TensorDesc | None, In("*batch m n"), After("b_zero_point_tensor")] = None
    """The bias added to the product. If absent, nothing is added."""

    output_tensor: Annotated[TensorDesc | None, Out("*batch m n", required=True)] = None
    """The product as floats."""


class QuantizedLinearMatrixMultiplyDesc(OneRankDesc, QuantizedProductDesc, dml="QUANTIZED_LINEAR_MATRIX_MULTIPLY"):
    """DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC: the product of two matrices of quantized numbers, quantized again."""

    formula = "output[i, j] = clamp(round(sum over k of (A[i, k] - AZ[i]) * AS[i] * (B[k, j] - BZ[j]) * BS[j] / OS[i]) + OZ[i])"
    parameters = {
        "a_scale_tensor": "m",
        "a_zero_point_tensor": "m",
        "b_scale_tensor": "n",
        "b_zero_point_tensor": "n",
        "output_scale_tensor": "m",
        "output_zero_point_tensor": "m",
    }
    of_one_rank = tuple(parameters)
    support = (
        SupportRow("2_1", dims=4, A=BYTES, B=BYTES, Y=BYTES),
        SupportRow("4_0", dims=(2, 4), dims_of=dict.fromkeys(parameters, (1, 4)), A=BYTES, B=BYTES, Y=BYTES),
    )

    a_scale_tensor: Annotated[TensorDesc, In("1 1 a_scale_count 1", FLOAT32), After("a_tensor")]
    """The scale of A, one element, or one for each row. Leading dimensions of size 1 may be left out."""

    b_scale_tensor: Annotated[TensorDesc, In("1 1 1 b_scale_count", FLOAT32), After("b_tensor")]
    """The scale of B, one element, or one for each column. Leading dimensions of size 1 may be left out."""

    output_scale_tensor: Annotated[TensorDesc, In("1 1 output_scale_count 1", FLOAT32), After("b_zero_point_tensor")]
    """The scale of the result, one element, or one for each row."""

    output_zero_point_tensor: Annotated[TensorDesc | None, In("1 1 output_zero_point_count 1", "Y")] = None
    """The zero point of the result, one element, or one for each row. If absent, 0."""

    output_tensor: Annotated[TensorDesc | None, Out("*batch m n", "Y", required=True)] = None
    """The quantized product."""
