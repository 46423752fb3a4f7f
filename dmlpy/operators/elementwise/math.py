"""Element-wise functions of one number: absolute value and sign, rounding, powers, logarithms, angles."""

from __future__ import annotations

from dmlpy.description.support import (
    ALL_BUT_4_BITS,
    FLOATS,
    FLOATS_INTEGERS_TO_32,
    FLOATS_INTEGERS_TO_64,
    FLOATS_SIGNED_TO_32,
    FLOATS_SIGNED_TO_64,
    SupportRow,
)
from dmlpy.operators.elementwise.common import FLOATS_FROM_1_0, FLOATS_FROM_2_0, ScaledDesc, UnaryDesc


class ElementWiseAbsDesc(ScaledDesc, dml="ELEMENT_WISE_ABS"):
    """DML_ELEMENT_WISE_ABS_OPERATOR_DESC: the absolute value.

    That of the smallest integer does not fit, which is not documented; here it is unchanged.
    """

    formula = "y = |x|"
    support = (
        SupportRow("1_0", dims=4, T=FLOATS),
        SupportRow("2_1", dims=4, T=FLOATS_SIGNED_TO_32),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_SIGNED_TO_32),
        SupportRow("4_1", dims=(1, 8), T=FLOATS_SIGNED_TO_64),
    )


class ElementWiseAcosDesc(ScaledDesc, dml="ELEMENT_WISE_ACOS"):
    """DML_ELEMENT_WISE_ACOS_OPERATOR_DESC: the arc cosine, in radians, of numbers from -1 to 1."""

    formula = "y = acos(x)"
    support = FLOATS_FROM_1_0


class ElementWiseAcoshDesc(ScaledDesc, dml="ELEMENT_WISE_ACOSH"):
    """DML_ELEMENT_WISE_ACOSH_OPERATOR_DESC: the inverse hyperbolic cosine of numbers from 1 on."""

    formula = "y = acosh(x) = ln(x + sqrt(x * x - 1))"
    support = FLOATS_FROM_2_0


class ElementWiseAsinDesc(ScaledDesc, dml="ELEMENT_WISE_ASIN"):
    """DML_ELEMENT_WISE_ASIN_OPERATOR_DESC: the arc sine, in radians, of numbers from -1 to 1."""

    formula = "y = asin(x)"
    support = FLOATS_FROM_1_0


class ElementWiseAsinhDesc(ScaledDesc, dml="ELEMENT_WISE_ASINH"):
    """DML_ELEMENT_WISE_ASINH_OPERATOR_DESC: the inverse hyperbolic sine."""

    formula = "y = asinh(x) = ln(x + sqrt(x * x + 1))"
    support = FLOATS_FROM_2_0


class ElementWiseAtanDesc(ScaledDesc, dml="ELEMENT_WISE_ATAN"):
    """DML_ELEMENT_WISE_ATAN_OPERATOR_DESC: the arc tangent, in radians."""

    formula = "y = atan(x)"
    support = FLOATS_FROM_1_0


class ElementWiseAtanhDesc(ScaledDesc, dml="ELEMENT_WISE_ATANH"):
    """DML_ELEMENT_WISE_ATANH_OPERATOR_DESC: the inverse hyperbolic tangent of numbers from -1 to 1."""

    formula = "y = atanh(x) = ln((1 + x) / (1 - x)) / 2"
    support = FLOATS_FROM_2_0


class ElementWiseCeilDesc(ScaledDesc, dml="ELEMENT_WISE_CEIL"):
    """DML_ELEMENT_WISE_CEIL_OPERATOR_DESC: the least whole number that is not below x."""

    formula = "y = ceil(x)"
    support = FLOATS_FROM_1_0


class ElementWiseCosDesc(ScaledDesc, dml="ELEMENT_WISE_COS"):
    """DML_ELEMENT_WISE_COS_OPERATOR_DESC: the cosine of angles in radians."""

    formula = "y = cos(x)"
    support = FLOATS_FROM_1_0


class ElementWiseCoshDesc(ScaledDesc, dml="ELEMENT_WISE_COSH"):
    """DML_ELEMENT_WISE_COSH_OPERATOR_DESC: the hyperbolic cosine."""

    formula = "y = cosh(x) = (exp(x) + exp(-x)) / 2"
    support = FLOATS_FROM_2_0


class ElementWiseErfDesc(ScaledDesc, dml="ELEMENT_WISE_ERF"):
    """DML_ELEMENT_WISE_ERF_OPERATOR_DESC: the Gauss error function."""

    formula = "y = erf(x) = 2 / sqrt(pi) * (the integral of exp(-t * t) from 0 to x)"
    support = FLOATS_FROM_2_0


class ElementWiseExpDesc(ScaledDesc, dml="ELEMENT_WISE_EXP"):
    """DML_ELEMENT_WISE_EXP_OPERATOR_DESC: the exponential function."""

    formula = "y = exp(x)"
    support = FLOATS_FROM_1_0


class ElementWiseFloorDesc(ScaledDesc, dml="ELEMENT_WISE_FLOOR"):
    """DML_ELEMENT_WISE_FLOOR_OPERATOR_DESC: the greatest whole number that is not above x."""

    formula = "y = floor(x)"
    support = FLOATS_FROM_1_0


class ElementWiseIdentityDesc(ScaledDesc, dml="ELEMENT_WISE_IDENTITY"):
    """DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC: copies each element.

    Where the strides of input and output differ, the copy transposes, gathers or repeats.
    """

    formula = "y = x"
    support = (
        SupportRow("1_0", dims=(4, 5), T=FLOATS),
        SupportRow("2_1", dims=(4, 5), T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=ALL_BUT_4_BITS),
    )


class ElementWiseLogDesc(ScaledDesc, dml="ELEMENT_WISE_LOG"):
    """DML_ELEMENT_WISE_LOG_OPERATOR_DESC: the natural logarithm. That of 0 is minus infinity, that of a negative number NaN."""

    formula = "y = ln(x)"
    support = FLOATS_FROM_1_0


class ElementWiseNegateDesc(UnaryDesc, dml="ELEMENT_WISE_NEGATE"):
    """DML_ELEMENT_WISE_NEGATE_OPERATOR_DESC: the number with the opposite sign.

    That of the smallest integer does not fit, which is not documented; here it is unchanged.
    """

    formula = "y = -x"
    support = (SupportRow("5_0", dims=(1, 8), T=FLOATS_SIGNED_TO_64),)


class ElementWiseRecipDesc(ScaledDesc, dml="ELEMENT_WISE_RECIP"):
    """DML_ELEMENT_WISE_RECIP_OPERATOR_DESC: the reciprocal."""

    formula = "y = 1 / x"
    support = FLOATS_FROM_1_0


class ElementWiseSignDesc(UnaryDesc, dml="ELEMENT_WISE_SIGN"):
    """DML_ELEMENT_WISE_SIGN_OPERATOR_DESC: the sign: -1, 0 or 1.

    A negative zero gives 0 and so does, by the formula, NaN.
    """

    formula = "y = -1 where x < 0, 1 where x > 0, else 0"
    support = (
        SupportRow("2_0", dims=4, T=FLOATS),
        SupportRow("2_1", dims=4, T=FLOATS_INTEGERS_TO_32),
        SupportRow("3_0", dims=(1, 8), T=FLOATS_INTEGERS_TO_32),
        SupportRow("4_1", dims=(1, 8), T=FLOATS_INTEGERS_TO_64),
    )


class ElementWiseSinDesc(ScaledDesc, dml="ELEMENT_WISE_SIN"):
    """DML_ELEMENT_WISE_SIN_OPERATOR_DESC: the sine of angles in radians."""

    formula = "y = sin(x)"
    support = FLOATS_FROM_1_0


class ElementWiseSinhDesc(ScaledDesc, dml="ELEMENT_WISE_SINH"):
    """DML_ELEMENT_WISE_SINH_OPERATOR_DESC: the hyperbolic sine."""

    formula = "y = sinh(x) = (exp(x) - exp(-x)) / 2"
    support = FLOATS_FROM_2_0


class ElementWiseSqrtDesc(ScaledDesc, dml="ELEMENT_WISE_SQRT"):
    """DML_ELEMENT_WISE_SQRT_OPERATOR_DESC: the square root of numbers that are not negative."""

    formula = "y = sqrt(x)"
    support = FLOATS_FROM_1_0


class ElementWiseTanDesc(ScaledDesc, dml="ELEMENT_WISE_TAN"):
    """DML_ELEMENT_WISE_TAN_OPERATOR_DESC: the tangent of angles in radians."""

    formula = "y = tan(x)"
    support = FLOATS_FROM_1_0


class ElementWiseTanhDesc(ScaledDesc, dml="ELEMENT_WISE_TANH"):
    """DML_ELEMENT_WISE_TANH_OPERATOR_DESC: the hyperbolic tangent."""

    formula = "y = tanh(x)"
    support = FLOATS_FROM_2_0
