"""Element-wise arithmetic of two numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from dmlpy.description.coercion import Float, default
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Out, Violation, rule
from dmlpy.description.sizes import Sizes
from dmlpy.description.support import (
    FLOATS,
    FLOATS_INTEGERS_32_AND_64,
    FLOATS_INTEGERS_OF_32,
    FLOATS_INTEGERS_TO_32,
    FLOATS_INTEGERS_TO_64,
    SupportRow,
    row_at,
)
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import OptionalScaleBias
from dmlpy.operators.activation import FusedActivation, unfusable
from dmlpy.operators.elementwise.common import (
    FLOATS_FROM_1_0,
    INTEGERS_OF_32_FROM_2_1,
    INTEGERS_TO_64_FROM_5_0,
    BinaryDesc,
    ElementWiseDesc,
    ScaledDesc,
)

_UP_TO_5_DIMS_AT_FIRST = (
    SupportRow("1_0", dims=(4, 5), T=FLOATS),
    SupportRow("2_1", dims=(4, 5), T=FLOATS_INTEGERS_OF_32),
    SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_OF_32),
)
_INTEGERS_TO_64_FROM_5_1 = (
    SupportRow("4_1", dims=(1, 8), T=FLOATS_INTEGERS_32_AND_64),
    SupportRow("5_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),
)
_MODULUS = (
    SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
    SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
    SupportRow("6_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),
)


class ElementWiseAddDesc(BinaryDesc, dml="ELEMENT_WISE_ADD"):
    """DML_ELEMENT_WISE_ADD_OPERATOR_DESC: the sum."""

    formula = "y = a + b"
    support = (*_UP_TO_5_DIMS_AT_FIRST, *_INTEGERS_TO_64_FROM_5_1)


class ElementWiseAdd1Desc(BinaryDesc, dml="ELEMENT_WISE_ADD1"):
    """DML_ELEMENT_WISE_ADD1_OPERATOR_DESC: the sum of floating-point numbers, and an activation of it."""

    formula = "y = f(a + b)"
    support = (SupportRow("2_0", dims=(4, 5), T=FLOATS), SupportRow("3_0", dims=(1, 8), T=FLOATS))

    fused_activation: FusedActivation = default(None)
    """The activation f, an element-wise one described without tensors. If absent, the sum is unchanged."""

    @rule("a fused activation is an element-wise function that can be fused")
    def fused_activation_kind(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        yield from unfusable("fused_activation", self.fused_activation, "it is applied to single sums, and has no tensors")


class ElementWiseAtanYXDesc(BinaryDesc, dml="ELEMENT_WISE_ATAN_YX"):
    """DML_ELEMENT_WISE_ATAN_YX_OPERATOR_DESC: the angle, in radians, of the point with ordinate a and abscissa b.

    The signs of both choose the quadrant. Where both are 0 the result is undefined.
    """

    formula = "y = atan2(a, b)"
    support = (SupportRow("3_1", dims=(1, 8), T=FLOATS),)


class ElementWiseConstantPowDesc(ScaledDesc, dml="ELEMENT_WISE_CONSTANT_POW"):
    """DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC: a power with one exponent for all elements.

    A negative base gives NaN unless the exponent is a whole number.
    """

    formula = "y = x ^ exponent"
    support = FLOATS_FROM_1_0

    exponent: Float
    """The exponent of all elements."""


class ElementWiseDifferenceSquareDesc(BinaryDesc, dml="ELEMENT_WISE_DIFFERENCE_SQUARE"):
    """DML_ELEMENT_WISE_DIFFERENCE_SQUARE_OPERATOR_DESC: the square of the difference."""

    formula = "y = (a - b) * (a - b)"
    support = (SupportRow("3_1", dims=(1, 8), T=FLOATS_INTEGERS_OF_32),)


class ElementWiseDivideDesc(BinaryDesc, dml="ELEMENT_WISE_DIVIDE"):
    """DML_ELEMENT_WISE_DIVIDE_OPERATOR_DESC: the quotient; that of integers is rounded toward zero.

    What an integer divided by 0 gives is not documented; here it is 0.
    """

    formula = "y = a / b"
    support = (
        *INTEGERS_OF_32_FROM_2_1,
        SupportRow("5_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("6_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),
    )


class ElementWiseMaxDesc(BinaryDesc, dml="ELEMENT_WISE_MAX"):
    """DML_ELEMENT_WISE_MAX_OPERATOR_DESC: the greater of two numbers. The result for NaN is not documented; here it is NaN."""

    formula = "y = max(a, b)"
    support = INTEGERS_TO_64_FROM_5_0


class ElementWiseMeanDesc(BinaryDesc, dml="ELEMENT_WISE_MEAN"):
    """DML_ELEMENT_WISE_MEAN_OPERATOR_DESC: the mean of two numbers.

    How half an odd sum of integers is rounded is not documented; here toward zero.
    """

    formula = "y = (a + b) / 2"
    support = INTEGERS_OF_32_FROM_2_1


class ElementWiseMinDesc(BinaryDesc, dml="ELEMENT_WISE_MIN"):
    """DML_ELEMENT_WISE_MIN_OPERATOR_DESC: the lesser of two numbers. The result for NaN is not documented; here it is NaN."""

    formula = "y = min(a, b)"
    support = INTEGERS_TO_64_FROM_5_0


class ElementWiseModulusFloorDesc(BinaryDesc, dml="ELEMENT_WISE_MODULUS_FLOOR"):
    """DML_ELEMENT_WISE_MODULUS_FLOOR_OPERATOR_DESC: the remainder with the sign of the divisor, as Python's % has it.

    What a divisor of 0 gives is not documented; here NaN, and 0 in integers.
    """

    formula = "y = a - b * floor(a / b)"
    support = _MODULUS


class ElementWiseModulusTruncateDesc(BinaryDesc, dml="ELEMENT_WISE_MODULUS_TRUNCATE"):
    """DML_ELEMENT_WISE_MODULUS_TRUNCATE_OPERATOR_DESC: the remainder with the sign of the dividend, as C's % has it.

    What a divisor of 0 gives is not documented; here NaN, and 0 in integers.
    """

    formula = "y = a - b * trunc(a / b)"
    support = _MODULUS


class ElementWiseMultiplyDesc(BinaryDesc, dml="ELEMENT_WISE_MULTIPLY"):
    """DML_ELEMENT_WISE_MULTIPLY_OPERATOR_DESC: the product."""

    formula = "y = a * b"
    support = (*_UP_TO_5_DIMS_AT_FIRST, *_INTEGERS_TO_64_FROM_5_1)


class ElementWisePowDesc(ElementWiseDesc, dml="ELEMENT_WISE_POW"):
    """DML_ELEMENT_WISE_POW_OPERATOR_DESC: a power with an exponent for each element.

    Where both are integers the result is exact. What does not fit, and what a negative exponent gives, is not documented; here results wrap
    around, and those of negative exponents are rounded toward zero (0 to a negative power is 0). In place the output has the memory of
    input_tensor; DirectML's page does not name exponent_tensor.
    """

    formula = "y = x ^ e"
    in_place = True
    support = (
        SupportRow("1_0", dims=4, T=FLOATS, E=FLOATS),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32, E=FLOATS_INTEGERS_TO_32),
    )

    input_tensor: Annotated[TensorDesc, In("*sizes")]
    """The base x. A negative one gives NaN unless the exponent is a whole number."""

    exponent_tensor: Annotated[TensorDesc, In("*sizes", "E")]
    """The exponents e. Strides of 0 repeat them. From feature level 3_0 on their type may differ from x's."""

    output_tensor: Annotated[TensorDesc | None, Out("*sizes", required=True)] = None
    """The power y. It may have the memory of input_tensor."""

    scale_bias: OptionalScaleBias = default(None)
    """The scale and bias of x, which is first replaced by x * scale + bias. The exponent is not scaled. If absent, x is unchanged. How
    DirectML rounds integers then, or with an exponent that is not an integer, is not documented: here toward zero, and the result is held
    within the range of the type.
    """

    @rule("before feature level 3_0 exponent_tensor has the type of input_tensor")
    def exponent_type(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        base, exponent = self.input_tensor.data_type, self.exponent_tensor.data_type
        row = row_at(self.support, level)
        if level < FeatureLevel.FL_3_0 and exponent is not base and base in row.types["T"] and exponent in row.types["E"]:
            why = (f"input_tensor has elements of type {base}",)
            yield Violation("exponent_tensor.data_type", str(exponent), str(base), why, "feature level 3_0 takes exponents of another type")


class ElementWiseSubtractDesc(BinaryDesc, dml="ELEMENT_WISE_SUBTRACT"):
    """DML_ELEMENT_WISE_SUBTRACT_OPERATOR_DESC: the difference."""

    formula = "y = a - b"
    support = (*INTEGERS_OF_32_FROM_2_1, *_INTEGERS_TO_64_FROM_5_1)
