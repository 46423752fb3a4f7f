"""Element-wise logic: operations on bits, comparisons, truth values, and the choice between two elements."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import Spelled, default
from dmlpy.description.enums import IsInfinityMode
from dmlpy.description.markers import In, Out
from dmlpy.description.support import (
    ALL_BUT_4_BITS,
    FLOATS,
    FLOATS_INTEGERS_TO_32,
    FLOATS_INTEGERS_TO_64,
    UINT8,
    UINT32,
    UNSIGNED_TO_32,
    UNSIGNED_TO_64,
    SupportRow,
    types,
)
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.elementwise.common import BinaryDesc, ElementWiseDesc, UnaryDesc

TRUTHS = UINT32 | UINT8
"""The types of a truth value: 1 is true, 0 false."""

_ANY_BITS_FROM_4_1 = (SupportRow("3_0", dims=(1, 8), T=UNSIGNED_TO_32), SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS))
_SHIFTS = (
    SupportRow("2_1", dims=4, T=UNSIGNED_TO_32),
    SupportRow("3_0", dims=(1, 8), T=UNSIGNED_TO_32),
    SupportRow("4_1", dims=(1, 8), T=UNSIGNED_TO_64),
)
_TRUTHS_FROM_1_0 = (SupportRow("1_0", dims=4, T=UINT32), SupportRow("2_0", dims=4, T=TRUTHS), SupportRow("3_0", dims=(1, 8), T=TRUTHS))
_COMPARISONS_FROM_3_0 = (
    SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32, Y=TRUTHS),
    SupportRow("4_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_64, Y=TRUTHS),
)
_COMPARISONS_FROM_1_0 = (
    SupportRow("1_0", dims=4, T=FLOATS, Y=UINT32),
    SupportRow("2_0", dims=4, T=FLOATS, Y=TRUTHS),
    SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32, Y=TRUTHS),
    *_COMPARISONS_FROM_3_0,
)


class ComparisonDesc(ElementWiseDesc):
    """y = 1 where the comparison of a and b holds, else 0."""

    a_tensor: Annotated[TensorDesc, In("*sizes")]
    """The first operand a. Strides of 0 repeat it."""

    b_tensor: Annotated[TensorDesc, In("*sizes")]
    """The second operand b. Strides of 0 repeat it."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", "Y", required=True)] = None
    """The truth y, 1 or 0."""


class ElementWiseBitAndDesc(BinaryDesc, dml="ELEMENT_WISE_BIT_AND"):
    """DML_ELEMENT_WISE_BIT_AND_OPERATOR_DESC: the bitwise and.

    The raw bits are combined: only the type's width matters.
    """

    formula = "y = a & b"
    support = _ANY_BITS_FROM_4_1
    combines_bits = True


class ElementWiseBitCountDesc(ElementWiseDesc, dml="ELEMENT_WISE_BIT_COUNT"):
    """DML_ELEMENT_WISE_BIT_COUNT_OPERATOR_DESC: the number of bits of each element that are 1.

    The raw bits are counted: only the type's width matters.
    """

    formula = "y = the number of bits of x that are 1"
    support = _ANY_BITS_FROM_4_1
    combines_bits = True

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", TRUTHS, required=True)] = None
    """The number y of bits that are 1."""


class ElementWiseBitNotDesc(UnaryDesc, dml="ELEMENT_WISE_BIT_NOT"):
    """DML_ELEMENT_WISE_BIT_NOT_OPERATOR_DESC: every bit inverted.

    The raw bits are inverted: only the type's width matters.
    """

    formula = "y = ~x"
    support = _ANY_BITS_FROM_4_1
    combines_bits = True


class ElementWiseBitOrDesc(BinaryDesc, dml="ELEMENT_WISE_BIT_OR"):
    """DML_ELEMENT_WISE_BIT_OR_OPERATOR_DESC: the bitwise or.

    The raw bits are combined: only the type's width matters.
    """

    formula = "y = a | b"
    support = _ANY_BITS_FROM_4_1
    combines_bits = True


class ElementWiseBitShiftLeftDesc(BinaryDesc, dml="ELEMENT_WISE_BIT_SHIFT_LEFT"):
    """DML_ELEMENT_WISE_BIT_SHIFT_LEFT_OPERATOR_DESC: the bits of a shifted left by b places.

    Zeros come in; bits past the type's width are lost. What a shift by that width or more gives is not documented;
    here 0.
    """

    formula = "y = a << b"
    support = _SHIFTS


class ElementWiseBitShiftRightDesc(BinaryDesc, dml="ELEMENT_WISE_BIT_SHIFT_RIGHT"):
    """DML_ELEMENT_WISE_BIT_SHIFT_RIGHT_OPERATOR_DESC: the bits of a shifted right by b places.

    Zeros come in; bits past the type's width are lost. What a shift by that width or more gives is not documented;
    here 0.
    """

    formula = "y = a >> b"
    support = _SHIFTS


class ElementWiseBitXorDesc(BinaryDesc, dml="ELEMENT_WISE_BIT_XOR"):
    """DML_ELEMENT_WISE_BIT_XOR_OPERATOR_DESC: the bitwise exclusive or.

    The raw bits are combined: only the type's width matters.
    """

    formula = "y = a xor b"
    support = _ANY_BITS_FROM_4_1
    combines_bits = True


class ElementWiseIfDesc(ElementWiseDesc, dml="ELEMENT_WISE_IF"):
    """DML_ELEMENT_WISE_IF_OPERATOR_DESC: the element of one tensor or of another, chosen by a condition."""

    formula = "y = a where condition != 0, else b"
    support = (
        SupportRow("2_0", dims=4, T=types("FLOAT16")),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("5_0", dims=(1, 8), T=ALL_BUT_4_BITS),
    )

    condition_tensor: Annotated[TensorDesc, In("*sizes", UINT8)]
    """The condition: any number but 0 is true. Strides of 0 repeat it."""

    a_tensor: Annotated[TensorDesc, In("*sizes")]
    """The tensor taken where the condition is true. Strides of 0 repeat it."""

    b_tensor: Annotated[TensorDesc, In("*sizes")]
    """The tensor taken elsewhere. Strides of 0 repeat it."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The elements taken."""


class ElementWiseIsInfinityDesc(ElementWiseDesc, dml="ELEMENT_WISE_IS_INFINITY"):
    """DML_ELEMENT_WISE_IS_INFINITY_OPERATOR_DESC: whether each element is infinite. NaN is not."""

    formula = "y = 1 where x is an infinity that infinity_mode asks for, else 0"
    in_place = True
    support = (SupportRow("2_1", dims=4, T=FLOATS), SupportRow("3_0", dims=(1, 8), T=FLOATS))

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", UINT8, required=True)] = None
    """The truth y, 1 or 0."""

    infinity_mode: Spelled[IsInfinityMode] = default(IsInfinityMode.EITHER)
    """The infinities to look for."""


class ElementWiseIsNaNDesc(ElementWiseDesc, dml="ELEMENT_WISE_IS_NAN"):
    """DML_ELEMENT_WISE_IS_NAN_OPERATOR_DESC: whether each element is NaN. Infinities are not."""

    formula = "y = 1 where x is NaN, else 0"
    support = (SupportRow("2_0", dims=4, T=FLOATS), SupportRow("3_0", dims=(1, 8), T=FLOATS))

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The input x."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", TRUTHS, required=True)] = None
    """The truth y, 1 or 0."""


class ElementWiseLogicalAndDesc(BinaryDesc, dml="ELEMENT_WISE_LOGICAL_AND"):
    """DML_ELEMENT_WISE_LOGICAL_AND_OPERATOR_DESC: the logical and of truth values.

    Any number but 0 is true.
    """

    formula = "y = 1 where a != 0 and b != 0, else 0"
    support = _TRUTHS_FROM_1_0


class ElementWiseLogicalEqualsDesc(ComparisonDesc, dml="ELEMENT_WISE_LOGICAL_EQUALS"):
    """DML_ELEMENT_WISE_LOGICAL_EQUALS_OPERATOR_DESC: whether a equals b."""

    formula = "y = 1 where a == b, else 0"
    support = _COMPARISONS_FROM_1_0


class ElementWiseLogicalGreaterThanDesc(ComparisonDesc, dml="ELEMENT_WISE_LOGICAL_GREATER_THAN"):
    """DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OPERATOR_DESC: whether a is greater than b."""

    formula = "y = 1 where a > b, else 0"
    support = _COMPARISONS_FROM_1_0


class ElementWiseLogicalGreaterThanOrEqualDesc(ComparisonDesc, dml="ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL"):
    """DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL_OPERATOR_DESC: whether a is greater than or equal to b."""

    formula = "y = 1 where a >= b, else 0"
    support = _COMPARISONS_FROM_3_0


class ElementWiseLogicalLessThanDesc(ComparisonDesc, dml="ELEMENT_WISE_LOGICAL_LESS_THAN"):
    """DML_ELEMENT_WISE_LOGICAL_LESS_THAN_OPERATOR_DESC: whether a is less than b."""

    formula = "y = 1 where a < b, else 0"
    support = _COMPARISONS_FROM_1_0


class ElementWiseLogicalLessThanOrEqualDesc(ComparisonDesc, dml="ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL"):
    """DML_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL_OPERATOR_DESC: whether a is less than or equal to b."""

    formula = "y = 1 where a <= b, else 0"
    support = _COMPARISONS_FROM_3_0


class ElementWiseLogicalNotDesc(UnaryDesc, dml="ELEMENT_WISE_LOGICAL_NOT"):
    """DML_ELEMENT_WISE_LOGICAL_NOT_OPERATOR_DESC: the negation of truth values. Any number but 0 is true."""

    formula = "y = 1 where x = 0, else 0"
    support = _TRUTHS_FROM_1_0


class ElementWiseLogicalOrDesc(BinaryDesc, dml="ELEMENT_WISE_LOGICAL_OR"):
    """DML_ELEMENT_WISE_LOGICAL_OR_OPERATOR_DESC: the logical or of truth values.

    Any number but 0 is true.
    """

    formula = "y = 1 where a != 0 or b != 0, else 0"
    support = _TRUTHS_FROM_1_0


class ElementWiseLogicalXorDesc(BinaryDesc, dml="ELEMENT_WISE_LOGICAL_XOR"):
    """DML_ELEMENT_WISE_LOGICAL_XOR_OPERATOR_DESC: the exclusive or of truth values.

    Any number but 0 is true.
    """

    formula = "y = 1 where exactly one of a and b is not 0, else 0"
    support = _TRUTHS_FROM_1_0
