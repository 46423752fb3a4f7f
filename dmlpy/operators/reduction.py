"""Reductions along axes: to one element per group, to running results, and to the largest or smallest few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Bool, Spelled, Uint, Uints, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import AxisDirection, FeatureLevel, ReduceFunction
from dmlpy.description.markers import In, Limits, Out, TensorField, Violation, derived, rule
from dmlpy.description.sizes import Explained, Sizes, UnboundSymbolError
from dmlpy.description.support import (
    FLOATS,
    FLOATS_INTEGERS_32_AND_64,
    FLOATS_INTEGERS_OF_32,
    FLOATS_INTEGERS_TO_32,
    FLOATS_INTEGERS_TO_64,
    INTEGERS_32_AND_64,
    UINT32,
    UNSIGNED_32_AND_64,
    SupportRow,
    TypeSet,
)
from dmlpy.description.tensors import TensorDesc


def _of_input(axis: int, size: int, why: str) -> Explained:
    """The size that an output takes from the same dimension of the input."""
    return Explained(size, f"input_tensor.sizes[{axis}], {why}")


class ReductionDesc(OperatorDesc):
    """One output element for each group of input elements that differ only along `axes`."""

    c_counts: ClassVar[Mapping[str, str]] = {"AxisCount": "axes"}

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    axes: Annotated[Uints, Limits(axis_of="sizes")]
    """The dimensions that a group extends along. A repeated one counts once."""

    @derived("the input's sizes, with 1 for each dimension in axes")
    def reduced(self, symbols: Sizes) -> list[Explained]:
        sizes, places = symbols.run("sizes"), {axis: index for index, axis in enumerate(self.axes)}
        if not all(0 <= axis < len(sizes) for axis in places):
            raise UnboundSymbolError("axes")
        return [
            Explained(1, f"axes[{places[axis]}] is {axis}") if axis in places else _of_input(axis, size, f"{axis} is not in axes")
            for axis, size in enumerate(sizes)
        ]

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        """A remedy if the output lacks the reduced dimensions, as in NumPy and ONNX (keepdims=0)."""
        tensor = getattr(self, field.name)
        if tensor is None or not field.marker.output or "len(reduced)" not in symbols:
            return None
        reduced = symbols.run("reduced")
        kept = tuple(size for axis, size in enumerate(reduced) if axis not in self.axes)
        return f"dimensions in axes stay, with size 1: sizes {list(reduced)}" if tensor.sizes == kept != reduced else None


# The functions that the support table distinguishes.
_SUMS = {"function": (ReduceFunction.MULTIPLY, ReduceFunction.SUM)}
_EXTREMES = {"function": (ReduceFunction.MIN, ReduceFunction.MAX)}
_POWERS = {"function": (ReduceFunction.L1, ReduceFunction.SUM_SQUARE)}
_MEANS = {"function": (ReduceFunction.AVERAGE, ReduceFunction.L2, ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP)}
_INDICES = {"function": (ReduceFunction.ARGMIN, ReduceFunction.ARGMAX)}


class ReduceDesc(ReductionDesc, dml="REDUCE"):
    """DML_REDUCE_OPERATOR_DESC: reduces each group of n elements x to one element, by a function.

    SUM adds, AVERAGE divides the sum by n, MULTIPLY multiplies, MIN and MAX take the smallest and the largest. L1 = sum(|x|),
    L2 = sqrt(sum(x^2)), SUM_SQUARE = sum(x^2), LOG_SUM = log(sum(x)), LOG_SUM_EXP = log(sum(exp(x))). ARGMIN and ARGMAX give the index of
    the smallest and the largest, an integer, the first of equal ones; over several axes it counts positions within those axes alone, the
    last fastest. From feature level 3_0 on the operators ARGMIN and ARGMAX replace them. Integers wrap around. To MIN and MAX a NaN is the
    smallest and the largest of its group; ARGMIN and ARGMAX ignore it.
    """

    formula = "output = function(input, over the elements that differ only along axes)"
    support = (
        SupportRow("1_0", dims=4, when=_INDICES, T=FLOATS, I=UINT32),
        SupportRow("1_0", dims=4, when=_MEANS, T=FLOATS),
        SupportRow("1_0", dims=4, when=_POWERS, T=FLOATS),
        SupportRow("1_0", dims=4, when=_EXTREMES, T=FLOATS),
        SupportRow("1_0", dims=4, when=_SUMS, T=FLOATS),
        SupportRow("2_1", dims=4, when=_INDICES, T=FLOATS_INTEGERS_TO_32, I=UINT32),
        SupportRow("2_1", dims=4, when=_EXTREMES, T=FLOATS_INTEGERS_OF_32),
        SupportRow("2_1", dims=4, when=_SUMS, T=FLOATS_INTEGERS_OF_32),
        SupportRow("3_0", dims=(1, 8), when=_INDICES, T=FLOATS_INTEGERS_TO_32, I=INTEGERS_32_AND_64),
        SupportRow("3_0", dims=(1, 8), when=_MEANS, T=FLOATS),
        SupportRow("3_0", dims=(1, 8), when=_POWERS, T=FLOATS),
        SupportRow("3_0", dims=(1, 8), when=_EXTREMES, T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_0", dims=(1, 8), when=_SUMS, T=FLOATS_INTEGERS_OF_32),
        SupportRow("4_1", dims=(1, 8), when=_INDICES, T=FLOATS_INTEGERS_TO_64, I=INTEGERS_32_AND_64),
        SupportRow("5_0", dims=(1, 8), when=_POWERS, T=FLOATS_INTEGERS_32_AND_64),
        SupportRow("5_0", dims=(1, 8), when=_EXTREMES, T=FLOATS_INTEGERS_TO_64),
        SupportRow("5_0", dims=(1, 8), when=_SUMS, T=FLOATS_INTEGERS_32_AND_64),
    )

    function: Annotated[Spelled[ReduceFunction], After()]
    """The function that reduces a group."""

    output_tensor: Annotated[TensorDesc | None, Out("*reduced", required=True), After("input_tensor")] = None
    """The reduced groups. ARGMIN and ARGMAX give indices."""

    def type_variable(self, field: TensorField) -> TypeSet | str:
        return "I" if self.function in _INDICES["function"] and field.marker.output else field.marker.types


class IndexReductionDesc(ReductionDesc):
    """The base of ARGMIN and ARGMAX, which return the index of one element of each group."""

    support = (
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32, I=INTEGERS_32_AND_64),
        SupportRow("4_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_64, I=INTEGERS_32_AND_64),
    )

    output_tensor: Annotated[TensorDesc | None, Out("*reduced", "I", required=True), After("input_tensor")] = None
    """The index of one element of each group."""

    axis_direction: Annotated[Spelled[AxisDirection], After("axes")] = default(AxisDirection.INCREASING)
    """The one of equal elements that counts: INCREASING takes the first, as REDUCE does, DECREASING the last."""


class ArgminDesc(IndexReductionDesc, dml="ARGMIN"):
    """DML_ARGMIN_OPERATOR_DESC: the index of the smallest element of each group.

    Over several axes the index counts positions within those axes alone, the last fastest. A NaN is ignored; where there is
    nothing else, the index is that of the first element that counts.
    """

    formula = "output = argmin(input, over the elements that differ only along axes)"


class ArgmaxDesc(IndexReductionDesc, dml="ARGMAX"):
    """DML_ARGMAX_OPERATOR_DESC: the index of the largest element of each group.

    Over several axes the index counts positions within those axes alone, the last fastest. A NaN is ignored; where there is
    nothing else, the index is that of the first element that counts.
    """

    formula = "output = argmax(input, over the elements that differ only along axes)"


class CumulativeDesc(OperatorDesc):
    """The base of running results along one axis."""

    in_place: ClassVar[bool] = True

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The running results."""

    axis: Annotated[Uint, Limits(axis_of="sizes")]
    """The dimension to accumulate along."""

    axis_direction: Spelled[AxisDirection] = default(AxisDirection.INCREASING)
    """The order in which elements are accumulated: INCREASING starts at index 0, DECREASING at the last index."""


_FROM_4_0 = (SupportRow("4_0", dims=(1, 8), T=FLOATS_INTEGERS_OF_32), SupportRow("5_0", dims=(1, 8), T=FLOATS_INTEGERS_32_AND_64))


class CumulativeSummationDesc(CumulativeDesc, dml="CUMULATIVE_SUMMATION"):
    """DML_CUMULATIVE_SUMMATION_OPERATOR_DESC: the running sum along an axis.

    Integers wrap around.
    """

    formula = "output[i] = sum(input[0..i]); up to i - 1 if has_exclusive_sum; from the other end if DECREASING"
    support = (SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_OF_32), *_FROM_4_0)

    has_exclusive_sum: Bool = default(False)
    """Whether an element's value is left out of its sum. The first element is then 0."""


class CumulativeProductDesc(CumulativeDesc, dml="CUMULATIVE_PRODUCT"):
    """DML_CUMULATIVE_PRODUCT_OPERATOR_DESC: the running product along an axis.

    Integers wrap around.
    """

    formula = "output[i] = product(input[0..i]); up to i - 1 if has_exclusive_product; from the other end if DECREASING"
    support = (SupportRow("3_1", dims=4, T=FLOATS_INTEGERS_OF_32), *_FROM_4_0)

    has_exclusive_product: Bool = default(False)
    """Whether an element's value is left out of its product. The first element is then 1."""


_TOP_K1_ROWS = (
    SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32, I=UINT32),
    SupportRow("3_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32, I=UINT32),
    SupportRow("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64, I=UNSIGNED_32_AND_64),
)


class TopKDesc(OperatorDesc, dml="TOP_K"):
    """DML_TOP_K_OPERATOR_DESC: the k largest elements along an axis, the largest first, and their indices.

    Of equal elements the one with the lower index comes first; NaN is larger than any number. k may be the whole size along the axis: then
    this is a sort. The operator exists from feature level 1_0 on, though the first types on its page are those of 2_0; they are
    taken for 1_0 too.
    """

    formula = "output_value = the k largest of input along axis, output_index = where they were"
    since = "1_0"
    support: ClassVar[tuple[SupportRow, ...]] = (SupportRow("2_0", dims=4, T=FLOATS, I=UINT32), *_TOP_K1_ROWS)

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    output_value_tensor: Annotated[TensorDesc | None, Out("*taken", required=True)] = None
    """The k elements along axis."""

    output_index_tensor: Annotated[TensorDesc | None, Out("*taken", "I", required=True)] = None
    """The indices along axis of these elements."""

    axis: Annotated[Uint, Limits(axis_of="sizes")]
    """The dimension along which elements are compared."""

    k: Annotated[Uint, Limits(least=1)]
    """How many elements are taken: at most the input's size along axis."""

    @derived("the input's sizes, with k along axis")
    def taken(self, symbols: Sizes) -> list[Explained]:
        sizes = symbols.run("sizes")
        if not (0 <= self.axis < len(sizes) and 1 <= self.k <= sizes[self.axis]):
            raise UnboundSymbolError("k")
        return [
            Explained(self.k, f"k is {self.k}, axis is {axis}") if axis == self.axis else _of_input(axis, size, f"axis is {self.axis}")
            for axis, size in enumerate(sizes)
        ]

    @rule("k is at most the input's size along axis")
    def top_k_limit(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if 0 <= self.axis < symbols["len(sizes)"] and self.k > symbols[symbol := f"sizes[{self.axis}]"]:
            yield Violation("k", str(self.k), f"at most {symbol} = {symbols[symbol]}", (f"axis is {self.axis}", symbols.why(symbol)))


class TopK1Desc(TopKDesc, dml="TOP_K1"):
    """DML_TOP_K1_OPERATOR_DESC: the k largest or smallest elements along an axis, and their indices.

    Of equal elements the one with the lower index comes first, in either direction; NaN is larger than any number. k may be the whole
    size along the axis: then this is a sort.
    """

    formula = "output_value = the k largest (DECREASING) or smallest (INCREASING) of input along axis, output_index = where they were"
    since = ""
    support = _TOP_K1_ROWS

    axis_direction: Spelled[AxisDirection] = default(AxisDirection.DECREASING)
    """DECREASING takes the k largest, the largest first, as TOP_K does. INCREASING takes the k smallest, the smallest first."""
