"""Operators that cut a window out of a tensor, put it back, or add a margin around a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Float, Ints, Scalar, Spelled, SpelledType, Uints, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel, PaddingMode
from dmlpy.description.markers import In, Limits, Out, Slot, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Derived, Explained, Sizes, Term, UnboundSymbolError
from dmlpy.description.support import ALL_BUT_4_BITS, FLOATS, FLOATS_INTEGERS_TO_32, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.movement.copy import FLOATS_INTEGERS_16_AND_32


class AnyPaddingDesc(OperatorDesc):
    """The base of PADDING and PADDING1."""

    formula = """\
output[o] = input[m(o - start_padding)], in each dimension of size n m(p) = p for 0 <= p < n, and outside
EDGE m(p) = min(max(p, 0), n - 1), WRAP m(p) = p mod n
REFLECTION m(p) = min(q, 2n - 2 - q) for q = p mod (2n - 2), SYMMETRIC m(p) = min(q, 2n - 1 - q) for q = p mod 2n
CONSTANT output[o] = padding_value where any coordinate is outside"""
    c_counts = {"DimensionCount": ("start_padding", "end_padding")}

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The tensor that gets a margin."""

    output_tensor: Annotated[TensorDesc | None, Out("*padded", required=True)] = None
    """The tensor with its margin."""

    start_padding: Annotated[Uints, Limits(length="len(sizes)")]
    """The elements added before the first one of each dimension."""

    end_padding: Annotated[Uints, Limits(length="len(sizes)")]
    """The elements added after the last one of each dimension."""

    @derived("sizes + start_padding + end_padding")
    def padded(self, symbols: Sizes) -> Sequence[Derived]:
        sizes = symbols.run("sizes")
        lengths = {len(self.start_padding), len(self.end_padding)}
        if lengths != {len(sizes)} or not all(0 <= margin <= MAX_SIZE for margin in (*self.start_padding, *self.end_padding)):
            raise UnboundSymbolError("start_padding")
        explained = []
        for axis, (size, start, end) in enumerate(zip(sizes, self.start_padding, self.end_padding, strict=True)):
            formula = f"sizes[{axis}] + start_padding[{axis}] + end_padding[{axis}]"
            explained.append(Explained(size + start + end, f"{formula} = {size} + {start} + {end}"))
        return explained


class PaddingDesc(AnyPaddingDesc, dml="PADDING"):
    """DML_PADDING_OPERATOR_DESC: adds a margin around a tensor.

    Modes: CONSTANT writes padding_value; EDGE repeats the outermost elements; REFLECTION mirrors without them, SYMMETRIC with them; WRAP
    starts over from the other side. A margin wider than the input folds over and over. What REFLECTION does in a dimension of size 1,
    the reference does not define; here it repeats the element.
    """

    support = (
        SupportRow("1_0", dims=(4, 5), T=FLOATS),
        SupportRow("2_1", dims=(4, 5), T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("5_0", dims=(1, 8), T=ALL_BUT_4_BITS),
    )

    padding_mode: Annotated[Spelled[PaddingMode], Limits(since={"SYMMETRIC": "3_0", "WRAP": "6_4"}), After("output_tensor")] = default(
        PaddingMode.CONSTANT
    )
    """The values of the margin."""

    padding_value: Float = default(0.0)
    """The value that CONSTANT writes. For tensors of integers it is rounded toward zero and held within their range. Other modes ignore it.
    """


class Padding1Desc(AnyPaddingDesc, dml="PADDING1"):
    """DML_PADDING1_OPERATOR_DESC: adds a margin around a tensor, with a value of the tensor's type.

    Modes: CONSTANT writes padding_value; EDGE repeats the outermost elements; REFLECTION mirrors without them, SYMMETRIC with them; WRAP
    starts over from the other side. A margin wider than the input folds over and over. What REFLECTION does in a dimension of size 1,
    the reference does not define; here it repeats the element.
    """

    support = (SupportRow("5_0", dims=(1, 8), T=ALL_BUT_4_BITS),)
    scalars = {"padding_value": "padding_value_data_type"}

    padding_mode: Annotated[Spelled[PaddingMode], Limits(since={"WRAP": "6_4"}), After("output_tensor")] = default(PaddingMode.CONSTANT)
    """The values of the margin. SYMMETRIC exists from the operator's first level on."""

    padding_value_data_type: Annotated[SpelledType, Limits(type_of="output_tensor")]
    """The type of padding_value."""

    padding_value: Scalar = default(0)
    """The value that CONSTANT writes. Other modes ignore it."""


class SliceDesc(OperatorDesc, dml="SLICE"):
    """DML_SLICE_OPERATOR_DESC: copies a window of a tensor, all its elements or one in every few."""

    formula = "output[o] = input[offsets + strides * o]"
    c_counts = {"DimensionCount": ("offsets", "slice_sizes", "strides")}
    support = (
        SupportRow("1_0", dims=(4, 5), T=FLOATS_INTEGERS_16_AND_32),
        SupportRow("2_1", dims=(4, 5), T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS),
    )

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The tensor that the window lies in."""

    output_tensor: Annotated[TensorDesc | None, Out("*sliced", required=True)] = None
    """The elements that are copied."""

    offsets: Annotated[Uints, Limits(length="len(sizes)")]
    """The index of the window's first element in each dimension."""

    slice_sizes: Annotated[Uints, Limits(length="len(sizes)", least=1)]
    """How many elements are copied in each dimension: the member Sizes of the C struct."""

    strides: Annotated[Uints, Limits(length="len(sizes)")]
    """The step from one copied element to the next in each dimension."""

    @derived("slice_sizes")
    def sliced(self, symbols: Sizes) -> Sequence[Derived]:
        if len(self.slice_sizes) != symbols["len(sizes)"] or not all(1 <= size <= MAX_SIZE for size in self.slice_sizes):
            raise UnboundSymbolError("slice_sizes")
        return [Explained(size, f"slice_sizes[{axis}]") for axis, size in enumerate(self.slice_sizes)]

    @rule("a window lies within its tensor")
    def window_bounds(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        sizes = symbols.run("sizes")
        if not len(self.offsets) == len(self.slice_sizes) == len(self.strides) == len(sizes):
            return
        for axis, (size, offset, count, stride) in enumerate(zip(sizes, self.offsets, self.slice_sizes, self.strides, strict=True)):
            if min(offset, stride, count - 1) < 0 or max(offset, stride, count) > MAX_SIZE:
                continue  # already reported
            if offset >= size:
                yield Violation(f"offsets[{axis}]", str(offset), f"0 to {size - 1}", (symbols.why(f"sizes[{axis}]"),))
            elif offset + (count - 1) * stride >= size:
                most = (size - 1 - offset) // stride + 1
                why = (f"the last one would be element {offset} + ({count} - 1) * {stride} of {size}", symbols.why(f"sizes[{axis}]"))
                yield Violation(f"slice_sizes[{axis}]", str(count), f"1 to {most}", why, self._remedy(axis, size))

    def _remedy(self, axis: int, size: int) -> str | None:
        offset, count, stride = self.offsets[axis], self.slice_sizes[axis], self.strides[axis]
        if stride > 1 and offset + count <= size:
            return f"sizes count the elements that are copied: {-(-count // stride)} of a window of {count}"
        return f"if it ends before element {count}, the size is {count - offset}" if stride == 1 and offset < count <= size else None


class WindowDesc(OperatorDesc):
    """The base of SLICE1 and its gradient: a window in the tensor of `*sizes`, from which the tensor of `*sliced` is taken in steps."""

    c_counts = {"DimensionCount": ("input_window_offsets", "input_window_sizes", "input_window_strides")}

    taken: ClassVar[str] = ""
    """The tensor of the elements that are taken."""

    input_window_offsets: Annotated[Uints, Limits(length="len(sizes)")]
    """The index of the window's first element in each dimension."""

    input_window_sizes: Annotated[Uints, Limits(length="len(sizes)", least=1)]
    """How many elements the window covers in each dimension."""

    input_window_strides: Annotated[Ints, Limits(length="len(sizes)", nonzero=True)]
    """The step from one element taken to the next in each dimension. A negative one starts at the window's last element."""

    @derived("(input_window_sizes - 1) // |input_window_strides| + 1, at most")
    def sliced(self, symbols: Sizes) -> Sequence[Derived]:
        windows, strides = self.input_window_sizes, self.input_window_strides
        if not len(windows) == len(strides) == symbols["len(sizes)"]:
            raise UnboundSymbolError("input_window_sizes")
        rows = list(zip(windows, strides, strict=True))
        if not all(1 <= window <= MAX_SIZE and stride != 0 and -(2**31) <= stride < 2**31 for window, stride in rows):
            raise UnboundSymbolError("input_window_sizes")
        explained = []
        for axis, (window, stride) in enumerate(rows):
            formula = f"(input_window_sizes[{axis}] - 1) // |input_window_strides[{axis}]| + 1"
            explained.append(Explained((window - 1) // abs(stride) + 1, f"{formula} = ({window} - 1) // {abs(stride)} + 1"))
        return explained

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        if slot.field.name == self.taken:
            # `*sliced` are the largest sizes that it may have.
            return tuple(Term(1, f"{slot.place}.sizes[{axis}]") for axis in range(dimension_count))
        return super().aligned(slot, dimension_count)

    @rule("a window lies within its tensor")
    def window_bounds(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        sizes = symbols.run("sizes")
        if not len(self.input_window_offsets) == len(self.input_window_sizes) == len(sizes):
            return
        for axis, (size, offset, window) in enumerate(zip(sizes, self.input_window_offsets, self.input_window_sizes, strict=True)):
            if min(offset, window - 1) < 0 or max(offset, window) > MAX_SIZE:
                continue  # already reported
            if offset >= size:
                yield Violation(f"input_window_offsets[{axis}]", str(offset), f"0 to {size - 1}", (symbols.why(f"sizes[{axis}]"),))
            elif offset + window > size:
                explained = f"the window would end at {offset} + {window}"
                remedy = f"if it ends before element {window}, its size is {window - offset}" if offset < window <= size else None
                why = (explained, symbols.why(f"sizes[{axis}]"))
                yield Violation(f"input_window_sizes[{axis}]", str(window), f"1 to {size - offset}", why, remedy)

    @rule("no more elements are taken than the window has in steps of the stride")
    def slice_count(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        tensor: TensorDesc | None = getattr(self, self.taken)
        most = symbols.run("sliced")
        for axis, size in enumerate(tensor.sizes if tensor is not None and len(tensor.sizes) == len(most) else ()):
            if size > most[axis]:
                yield Violation(f"{self.taken}.sizes[{axis}]", str(size), f"1 to {most[axis]}", (symbols.why(f"sliced[{axis}]"),))


class Slice1Desc(WindowDesc, dml="SLICE1"):
    """DML_SLICE1_OPERATOR_DESC: copies a window of a tensor, all its elements or one in every few, forwards or backwards."""

    formula = "output[o] = input[start + stride * o], start = offset for a positive stride, offset + window - 1 for a negative one"
    support = (
        SupportRow("2_1", dims=(4, 5), T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS),
    )
    taken = "output_tensor"

    input_tensor: Annotated[TensorDesc, In("*sizes"), After()]
    """The tensor that the window lies in."""

    output_tensor: Annotated[TensorDesc | None, Out("*sliced", required=True)] = None
    """The elements that are copied. A smaller tensor than the window allows copies fewer."""


class SliceGradDesc(WindowDesc, dml="SLICE_GRAD"):
    """DML_SLICE_GRAD_OPERATOR_DESC: the gradient of SLICE1's input: its output's gradient at the places copied from, else 0."""

    formula = "output_gradient = 0, then output_gradient[start + stride * o] = input_gradient[o], start as in SLICE1"
    support = (
        SupportRow("3_0", dims=(4, 5), T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS),
    )
    taken = "input_gradient_tensor"

    input_gradient_tensor: Annotated[TensorDesc, In("*sliced"), After()]
    """The gradient of SLICE1's output."""

    output_gradient_tensor: Annotated[TensorDesc, Out("*sizes")]
    """The gradient of SLICE1's input. No other member determines its sizes."""


def slice_index(desc: SliceDesc) -> tuple[slice, ...]:
    """The index of a slice's elements: a stride of 0 gives one, which is repeated."""
    index = []
    for offset, size, stride in zip(desc.offsets, desc.slice_sizes, desc.strides, strict=True):
        index.append(slice(offset, offset + stride * (size - 1) + 1, stride or None))
    return tuple(index)


def window_index(desc: WindowDesc, counts: Sequence[int]) -> tuple[slice, ...]:
    """The index of a window's first elements, this many in each dimension."""
    index = []
    for offset, size, stride, count in zip(
        desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides, counts, strict=True
    ):
        start = offset if stride > 0 else offset + size - 1
        end = start + stride * (count - 1) + (1 if stride > 0 else -1)
        index.append(slice(start, end if end >= 0 else None, stride))
    return tuple(index)
