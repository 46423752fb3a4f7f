"""Operators that copy elements: converted to another type, joined, split, reversed or repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from dmlpy.description.coercion import After, Uints
from dmlpy.description.descs import OperatorDesc, TensorDescs
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Limits, Out, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Derived, Explained, Sizes, UnboundSymbolError
from dmlpy.description.support import (
    ALL_BUT_4_BITS,
    FLOATS,
    FLOATS_INTEGERS_TO_32,
    FLOATS_INTEGERS_TO_64,
    UINT32,
    UNSIGNED_32_AND_64,
    SupportRow,
    types,
)
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.along_axis import AlongAxisDesc

FLOATS_INTEGERS_16_AND_32 = FLOATS | types("INT32", "INT16", "UINT32", "UINT16")
FLOATS_INTEGERS_8_AND_16 = FLOATS | types("INT16", "INT8", "UINT16", "UINT8")


class CastDesc(OperatorDesc, dml="CAST"):
    """DML_CAST_OPERATOR_DESC: converts each element to the output's type, by value.

    As with a static_cast of C++: from a float to an integer the fraction is dropped, integers wrap around in smaller ones. Floats that an
    integer type cannot hold are not defined by the reference: here they become the nearest number of the type, and NaN becomes 0.
    """

    formula = "output = static_cast<type of output>(input)"
    support = (
        SupportRow("1_0", dims=4, T=FLOATS_INTEGERS_8_AND_16, U=FLOATS_INTEGERS_8_AND_16),
        SupportRow("3_0", dims=4, T=FLOATS_INTEGERS_TO_64, U=FLOATS_INTEGERS_TO_64),
        SupportRow("3_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_64, U=FLOATS_INTEGERS_TO_64),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS, U=ALL_BUT_4_BITS),
    )

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The numbers to convert."""

    output_tensor: Annotated[TensorDesc, Out("*sizes", "U")]
    """The converted numbers. Its type is the type that is converted to."""


class JoinDesc(AlongAxisDesc, dml="JOIN"):
    """DML_JOIN_OPERATOR_DESC: concatenates tensors along an axis, the inverse of SPLIT."""

    formula = "output = input[0] | input[1] | ... along axis"
    c_counts = {"InputCount": "input_tensors"}
    support = (
        SupportRow("1_0", dims=4, T=FLOATS_INTEGERS_16_AND_32),
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS),
    )
    along_axis = {"input_tensors": "length", "output_tensor": "joined_length"}

    input_tensors: Annotated[TensorDescs, In("*sizes"), After()]
    """The parts in order, at least one."""

    output_tensor: Annotated[TensorDesc | None, Out("*joined", required=True)] = None
    """The parts joined."""

    @derived("the sum of the inputs' sizes along axis")
    def joined_length(self, symbols: Sizes) -> Derived:
        lengths = _lengths(self.input_tensors, symbols)
        return Explained(sum(lengths), " + ".join(map(str, lengths)) + f", the inputs' sizes[{self.axis}]")

    @derived("sizes, but joined_length along axis")
    def joined(self, symbols: Sizes) -> Sequence[Derived]:
        return self.with_along_axis(symbols, symbols["joined_length"])

    @rule("an array of tensors holds at least one")
    def tensor_array_empty(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        yield from _empty("input_tensors", self.input_tensors)


class ReverseSubsequencesDesc(AlongAxisDesc, dml="REVERSE_SUBSEQUENCES"):
    """DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC: reverses the first elements of each sequence along an axis; the others stay.

    A length larger than the sequence is the whole sequence; lengths of 0 and 1 change nothing.
    """

    formula = "output[i] = input[L - 1 - i] for i < L, else input[i], along axis, for L = min(sequence_length, size)"
    support = (
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32, L=UINT32),
        SupportRow("3_0", dims=(4, 5), T=FLOATS_INTEGERS_TO_32, L=UINT32),
        SupportRow("4_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32, L=UINT32),
        SupportRow("5_0", dims=(1, 8), T=ALL_BUT_4_BITS, L=UNSIGNED_32_AND_64),
    )
    along_axis = {"sequence_lengths_tensor": "1"}

    input_tensor: Annotated[TensorDesc, In("*sizes"), After()]
    """The sequences."""

    sequence_lengths_tensor: Annotated[TensorDesc, In("*lengths", "L")]
    """How many elements of each sequence are reversed."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The sequences with their first elements reversed."""

    @derived("sizes, but 1 along axis")
    def lengths(self, symbols: Sizes) -> Sequence[Derived]:
        return self.with_along_axis(symbols, 1)


class SplitDesc(AlongAxisDesc, dml="SPLIT"):
    """DML_SPLIT_OPERATOR_DESC: cuts a tensor into parts along an axis, the inverse of JOIN.

    The sizes of the outputs determine where to cut, so all outputs must be described.
    """

    formula = "output[0] | output[1] | ... along axis = input"
    c_counts = {"OutputCount": "output_tensors"}
    support = (
        SupportRow("1_0", dims=4, T=FLOATS_INTEGERS_16_AND_32),
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS),
    )
    along_axis = {"input_tensor": "whole_length", "output_tensors": "length"}

    input_tensor: Annotated[TensorDesc, In("*sizes"), After()]
    """The tensor to cut."""

    output_tensors: Annotated[TensorDescs, Out("*sizes")]
    """The parts in order, at least one. Along axis their sizes add up to the input's."""

    def applicable_outputs(self) -> tuple[str, ...]:
        return ()  # they are described already, or the desc could not be built

    @rule("an array of tensors holds at least one")
    def tensor_array_empty(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        yield from _empty("output_tensors", self.output_tensors)

    @rule("along axis the outputs' sizes add up to the input's")
    def split_sum(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        whole, lengths = symbols["whole_length"], _lengths(self.output_tensors, symbols)
        if sum(lengths) != whole:
            actual = " + ".join(map(str, lengths)) + (f" = {sum(lengths)}" if len(lengths) > 1 else "") + f" along dimension {self.axis}"
            why = (f"input_tensor.sizes[{self.axis}] is {whole}",)
            yield Violation("output_tensors", actual, str(whole), why, _last_part(lengths, whole))


def _lengths(parts: Sequence[TensorDesc], symbols: Sizes) -> list[int]:
    """The parts' sizes along the axis.

    Raises:
        UnboundSymbolError: there are none, or a part has another dimension count, or a size that no tensor may have.
    """
    if {len(part.sizes) for part in parts} != {symbols["len(sizes)"]}:
        raise UnboundSymbolError("length")
    return [symbols[f"length[{index}]"] for index in range(len(parts))]


def _empty(name: str, tensors: Sequence[TensorDesc]) -> Iterable[Violation]:
    if not tensors:
        yield Violation(name, "empty", "at least one tensor")


def _last_part(lengths: Sequence[int], whole: int) -> str | None:
    """A remedy for parts that do not add up: the remainder as the last part, or equal parts."""
    left = whole - sum(lengths[:-1])
    if left > 0:
        return f"{left} for the last would fit"
    return f"{len(lengths)} equal parts have {whole // len(lengths)}" if whole % len(lengths) == 0 else None


class TileDesc(OperatorDesc, dml="TILE"):
    """DML_TILE_OPERATOR_DESC: repeats the whole input along each dimension."""

    formula = "output[o] = input[o mod sizes]"
    c_counts = {"RepeatsCount": "repeats"}
    support = (
        SupportRow("1_0", dims=4, T=FLOATS),
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),
    )

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The tensor to repeat."""

    output_tensor: Annotated[TensorDesc | None, Out("*tiled", required=True)] = None
    """The repetitions side by side."""

    repeats: Annotated[Uints, Limits(length="len(sizes)", least=1)]
    """How often the input is repeated along each dimension."""

    @derived("sizes * repeats")
    def tiled(self, symbols: Sizes) -> Sequence[Derived]:
        sizes = symbols.run("sizes")
        if len(self.repeats) != len(sizes) or not all(1 <= times <= MAX_SIZE for times in self.repeats):
            raise UnboundSymbolError("repeats")
        rows = enumerate(zip(sizes, self.repeats, strict=True))
        return [Explained(size * times, f"sizes[{axis}] * repeats[{axis}] = {size} * {times}") for axis, (size, times) in rows]
