"""Operators that make tensors: constants, sequences, diagonals, random bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from dmlpy.description.coercion import Float, Int, Scalar, Spelled, SpelledType, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import RandomGeneratorType
from dmlpy.description.markers import In, Limits, Out, derived
from dmlpy.description.sizes import Derived, Sizes
from dmlpy.description.support import ALL_BUT_4_BITS, FLOATS, FLOATS_INTEGERS_TO_32, FLOATS_INTEGERS_TO_64, UINT32, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.problems import Problem


class DiagonalMatrixDesc(OperatorDesc, dml="DIAGONAL_MATRIX"):
    """DML_DIAGONAL_MATRIX_OPERATOR_DESC: matrices with one value along a diagonal, and 0 elsewhere."""

    formula = "output[..., y, x] = value where x == y + offset, else 0"
    support = (
        SupportRow("2_0", dims=4, T=FLOATS),
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_0", dims=(2, 4), T=FLOATS_INTEGERS_TO_32),
        SupportRow("5_1", dims=(2, 4), T=ALL_BUT_4_BITS),
    )

    output_tensor: Annotated[TensorDesc, Out("*batch output_height output_width")]
    """The matrices, of up to two batch dimensions. No other member determines their sizes."""

    offset: Int = default(0)
    """How far the diagonal lies right of the main one, or left of it if negative. One past the edge leaves zeros."""

    value: Float = default(1.0)
    """The value of the diagonal. For tensors of integers it is rounded toward zero and held within their range."""


class DiagonalMatrix1Desc(OperatorDesc, dml="DIAGONAL_MATRIX1"):
    """DML_DIAGONAL_MATRIX1_OPERATOR_DESC: matrices with one value along a band of diagonals, and the input elsewhere.

    With d = x - y the band is diagonal_fill_begin <= d < diagonal_fill_end. Where begin is above end, it is all but end <= d < begin;
    where they are equal, it is empty.
    """

    formula = "output[..., y, x] = value where x - y lies in the band, else input[..., y, x]"
    support = (SupportRow("5_1", dims=(2, 4), T=ALL_BUT_4_BITS),)
    scalars = {"value": "value_data_type"}

    input_tensor: Annotated[TensorDesc | None, In("*batch output_height output_width")] = None
    """The matrices whose elements outside the band are copied. If absent, these are 0."""

    output_tensor: Annotated[TensorDesc | None, Out("*batch output_height output_width", required=True)] = None
    """The matrices with the band, of up to two batch dimensions."""

    value_data_type: Annotated[SpelledType, Limits(type_of="output_tensor")]
    """The type of the band's value."""

    value: Scalar
    """The value of the band."""

    diagonal_fill_begin: Int
    """The first diagonal of the band: 0 is the main one, 1 the next to the right."""

    diagonal_fill_end: Int
    """The diagonal after the last of the band."""


class FillValueConstantDesc(OperatorDesc, dml="FILL_VALUE_CONSTANT"):
    """DML_FILL_VALUE_CONSTANT_OPERATOR_DESC: a tensor of one value."""

    formula = "output = value"
    support = (
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS),
    )
    scalars = {"value": "value_data_type"}
    in_place = True

    output_tensor: Annotated[TensorDesc, Out("*sizes")]
    """The tensor to fill. No other member determines its sizes."""

    value_data_type: Annotated[SpelledType, Limits(type_of="output_tensor")]
    """The type of value."""

    value: Scalar
    """The value of every element."""


class FillValueSequenceDesc(OperatorDesc, dml="FILL_VALUE_SEQUENCE"):
    """DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC: a tensor of values at equal distances, counted in row-major order whatever the strides.

    Integers wrap around. So a sequence of an unsigned type may descend: a negative value_delta is stored as the number that wraps to it,
    -2 of UINT8 as 254. Of floats, each element is the formula's value, rounded once.
    """

    formula = "output[i] = value_start + i * value_delta"
    support = (
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("5_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),
    )
    scalars = {"value_start": "value_data_type", "value_delta": "value_data_type"}
    in_place = True

    output_tensor: Annotated[TensorDesc, Out("*sizes")]
    """The sequence. No other member determines its sizes."""

    value_data_type: Annotated[SpelledType, Limits(type_of="output_tensor")]
    """The type of value_start and value_delta."""

    value_start: Scalar
    """The first element."""

    value_delta: Scalar
    """The distance from one element to the next."""

    @classmethod
    def _by_python_name(cls, members: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        values, problems = super()._by_python_name(members)
        kind, delta = cls._element_type(values.get("value_data_type")), values.get("value_delta")
        if isinstance(delta, Mapping) and len(delta) == 1:
            delta = next(iter(delta.values()))
        unsigned = kind is not None and str(kind).startswith("U") and kind.bits
        if unsigned and isinstance(delta, int | np.integer) and -(1 << (unsigned - 1)) <= delta < 0:
            values["value_delta"] = int(delta) + (1 << unsigned)
        return values, problems


class RandomGeneratorDesc(OperatorDesc, dml="RANDOM_GENERATOR"):
    """DML_RANDOM_GENERATOR_OPERATOR_DESC: random bits of Philox 4x32-10, and the state to continue from.

    The state is six words, the lowest first: a counter of 128 bits, then a key of 64. The output in row-major order is philox(counter),
    philox(counter + 1), ..., four words each.
    """

    formula = "output[4i ... 4i + 3] = philox_4x32_10(counter + i, key), output_state = (counter + ceil(elements / 4), key)"
    support = (SupportRow("3_0", dims=4), SupportRow("4_0", dims=(1, 8)))

    input_state_tensor: Annotated[TensorDesc, In("*ones 6", UINT32)]
    """The state to start from."""

    output_tensor: Annotated[TensorDesc, Out("*sizes", UINT32)]
    """The random bits, 32 in each element. No other member determines its sizes."""

    output_state_tensor: Annotated[TensorDesc | None, Out("*ones 6", UINT32)] = None
    """The state after the last block that was used."""

    type: Spelled[RandomGeneratorType] = default(RandomGeneratorType.PHILOX_4X32_10)
    """The generator."""

    @derived("leading dimensions are 1")
    def ones(self, symbols: Sizes) -> Sequence[Derived]:
        return [1] * symbols["len(ones)"]

    def to_dict(self, *, flat: bool = False) -> dict[str, Any]:
        """The desc as JSON data in the C spelling, always nested: flat, the operator's `Type` would hide the member of this name.

        Args:
            flat: without effect.
        """
        return super().to_dict()
