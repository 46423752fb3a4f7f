# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.elementwise`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy import dtype, floating, generic, number

from dmlpy.description.enums import DataType, IsInfinityMode, RoundingMode
from dmlpy.description.value_structs import ScaleBias
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one

if TYPE_CHECKING:
    from dmlpy.operators.activation import ActivationDesc


@refuse_others
def abs(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_ABS: the absolute value.

    That of the smallest integer does not fit, which is not documented; here it is unchanged.

    ::

        y = |x|

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ABS",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def acos(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_ACOS: the arc cosine, in radians, of numbers from -1 to 1.

    ::

        y = acos(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ACOS",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def acosh(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_ACOSH: the inverse hyperbolic cosine of numbers from 1 on.

    ::

        y = acosh(x) = ln(x + sqrt(x * x - 1))

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ACOSH",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def add(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_ADD: the sum.

    ::

        y = a + b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ADD",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def add1(
    a: Expression | Array | float,
    b: Expression | Array | float,
    *,
    fused_activation: ActivationDesc | None = None,
) -> Expression:
    """ELEMENT_WISE_ADD1: the sum of floating-point numbers, and an activation of it.

    ::

        y = f(a + b)

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.
        fused_activation: The activation f, an element-wise one described without tensors. If absent, the sum is
            unchanged.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ADD1",
        a_tensor=a,
        b_tensor=b,
        fused_activation=fused_activation,
    )


@refuse_others
def asin(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_ASIN: the arc sine, in radians, of numbers from -1 to 1.

    ::

        y = asin(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ASIN",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def asinh(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_ASINH: the inverse hyperbolic sine.

    ::

        y = asinh(x) = ln(x + sqrt(x * x + 1))

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ASINH",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def atan(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_ATAN: the arc tangent, in radians.

    ::

        y = atan(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ATAN",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def atanh(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_ATANH: the inverse hyperbolic tangent of numbers from -1 to 1.

    ::

        y = atanh(x) = ln((1 + x) / (1 - x)) / 2

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ATANH",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def atan_yx(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_ATAN_YX: the angle, in radians, of the point with ordinate a and abscissa b.

    The signs of both choose the quadrant. Where both are 0 the result is undefined.

    ::

        y = atan2(a, b)

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ATAN_YX",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def bit_and(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_BIT_AND: the bitwise and.

    The raw bits are combined: only the type's width matters.

    ::

        y = a & b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_BIT_AND",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def bit_count(
    input: Expression | Array,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_BIT_COUNT: the number of bits of each element that are 1.

    The raw bits are counted: only the type's width matters.

    ::

        y = the number of bits of x that are 1

    Args:
        input: `[*sizes]`. The input x.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The number y of bits that are 1.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_BIT_COUNT",
        input_tensor=input,
        output_data_type=output_data_type,
    )


@refuse_others
def bit_not(
    input: Expression | Array,
) -> Expression:
    """ELEMENT_WISE_BIT_NOT: every bit inverted.

    The raw bits are inverted: only the type's width matters.

    ::

        y = ~x

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_BIT_NOT",
        input_tensor=input,
    )


@refuse_others
def bit_or(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_BIT_OR: the bitwise or.

    The raw bits are combined: only the type's width matters.

    ::

        y = a | b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_BIT_OR",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def bit_shift_left(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_BIT_SHIFT_LEFT: the bits of a shifted left by b places.

    Zeros come in; bits past the type's width are lost. What a shift by that width or more gives is not documented; here
    0.

    ::

        y = a << b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_BIT_SHIFT_LEFT",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def bit_shift_right(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_BIT_SHIFT_RIGHT: the bits of a shifted right by b places.

    Zeros come in; bits past the type's width are lost. What a shift by that width or more gives is not documented; here
    0.

    ::

        y = a >> b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_BIT_SHIFT_RIGHT",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def bit_xor(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_BIT_XOR: the bitwise exclusive or.

    The raw bits are combined: only the type's width matters.

    ::

        y = a xor b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_BIT_XOR",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def ceil(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_CEIL: the least whole number that is not below x.

    ::

        y = ceil(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_CEIL",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def clip(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    min: float | str | floating[Any],
    max: float | str | floating[Any],
) -> Expression:
    """ELEMENT_WISE_CLIP: each element clamped to a range. Where min is above max, max wins.

    From feature level 6_0 on CONVOLUTION and GEMM, and only they, fuse it; its tensors are null then.

    ::

        y = x, but min where x < min, then max where that > max

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.
        min: The least result. How DirectML makes integers of it and of max is not documented: here they are rounded
            toward zero and held within the range of the type.
        max: The greatest result.

    Returns:
        `[*sizes]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_CLIP",
        input_tensor=input,
        scale_bias=scale_bias,
        min=min,
        max=max,
    )


@refuse_others
def clip1(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    min_max_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    min: int | float | str | Mapping[str, Any] | number[Any],
    max: int | float | str | Mapping[str, Any] | number[Any],
) -> Expression:
    """ELEMENT_WISE_CLIP1: each element clamped to a range that is given in the tensors' type.

    Where min is above max, min wins: the result is min everywhere.

    ::

        y = x, but max where x > max, then min where that < min

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.
        min_max_data_type: The type of min and max, which is the tensors'. DirectML does not need it: ONNX Runtime's
            casts to bool leave it UNKNOWN. The element type of output_tensor, or UNKNOWN. Default: the type of the
            input.
        min: The least result.
        max: The greatest result.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_CLIP1",
        input_tensor=input,
        scale_bias=scale_bias,
        min_max_data_type=min_max_data_type,
        min=min,
        max=max,
    )


@refuse_others
def clip_grad(
    input: Expression | Array | float,
    input_gradient: Expression | Array | float,
    *,
    min: float | str | floating[Any],
    max: float | str | floating[Any],
) -> Expression:
    """ELEMENT_WISE_CLIP_GRAD: the gradient of CLIP. At the limits themselves it is 0.

    ::

        dx = 0 where x <= min or x >= max, else dy

    Args:
        input: `[*sizes]`. The input x of the forward operator.
        input_gradient: `[*sizes]`. The upstream gradient dy.
        min: The least result of CLIP.
        max: The greatest result of CLIP.

    Returns:
        `[*sizes]`. The gradient dx of the input. It may have the memory of input_tensor.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_CLIP_GRAD",
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        min=min,
        max=max,
    )


@refuse_others
def clip_grad1(
    input: Expression | Array | float,
    input_gradient: Expression | Array | float,
    *,
    min_max_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    min: int | float | str | Mapping[str, Any] | number[Any],
    max: int | float | str | Mapping[str, Any] | number[Any],
) -> Expression:
    """ELEMENT_WISE_CLIP_GRAD1: the gradient of CLIP1. At the limits themselves it is 0.

    ::

        dx = 0 where x <= min or x >= max, else dy

    Args:
        input: `[*sizes]`. The input x of the forward operator.
        input_gradient: `[*sizes]`. The upstream gradient dy.
        min_max_data_type: The type of min and max. The element type of output_gradient_tensor. Default: the type of the
            input.
        min: The least result of CLIP1.
        max: The greatest result of CLIP1.

    Returns:
        `[*sizes]`. The gradient dx of the input. It may have the memory of input_tensor.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_CLIP_GRAD1",
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        min_max_data_type=min_max_data_type,
        min=min,
        max=max,
    )


@refuse_others
def constant_pow(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    exponent: float | str | floating[Any],
) -> Expression:
    """ELEMENT_WISE_CONSTANT_POW: a power with one exponent for all elements.

    A negative base gives NaN unless the exponent is a whole number.

    ::

        y = x ^ exponent

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.
        exponent: The exponent of all elements.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_CONSTANT_POW",
        input_tensor=input,
        scale_bias=scale_bias,
        exponent=exponent,
    )


@refuse_others
def cos(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_COS: the cosine of angles in radians.

    ::

        y = cos(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_COS",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def cosh(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_COSH: the hyperbolic cosine.

    ::

        y = cosh(x) = (exp(x) + exp(-x)) / 2

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_COSH",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def difference_square(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_DIFFERENCE_SQUARE: the square of the difference.

    ::

        y = (a - b) * (a - b)

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_DIFFERENCE_SQUARE",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def divide(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_DIVIDE: the quotient; that of integers is rounded toward zero.

    What an integer divided by 0 gives is not documented; here it is 0.

    ::

        y = a / b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_DIVIDE",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def erf(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_ERF: the Gauss error function.

    ::

        y = erf(x) = 2 / sqrt(pi) * (the integral of exp(-t * t) from 0 to x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ERF",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def exp(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_EXP: the exponential function.

    ::

        y = exp(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_EXP",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def floor(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_FLOOR: the greatest whole number that is not above x.

    ::

        y = floor(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_FLOOR",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def identity(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_IDENTITY: copies each element.

    Where the strides of input and output differ, the copy transposes, gathers or repeats.

    ::

        y = x

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_IDENTITY",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def if_(
    condition: Expression | Array | float,
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_IF: the element of one tensor or of another, chosen by a condition.

    ::

        y = a where condition != 0, else b

    Args:
        condition: `[*sizes]`. The condition: any number but 0 is true. Strides of 0 repeat it.
        a: `[*sizes]`. The tensor taken where the condition is true. Strides of 0 repeat it.
        b: `[*sizes]`. The tensor taken elsewhere. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The elements taken.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_IF",
        condition_tensor=condition,
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def is_infinity(
    input: Expression | Array,
    *,
    infinity_mode: IsInfinityMode | str | int = IsInfinityMode.EITHER,
) -> Expression:
    """ELEMENT_WISE_IS_INFINITY: whether each element is infinite. NaN is not.

    ::

        y = 1 where x is an infinity that infinity_mode asks for, else 0

    Args:
        input: `[*sizes]`. The input x.
        infinity_mode: The infinities to look for.

    Returns:
        `[*sizes]`. The truth y, 1 or 0.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_IS_INFINITY",
        input_tensor=input,
        infinity_mode=infinity_mode,
    )


@refuse_others
def is_nan(
    input: Expression | Array,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_IS_NAN: whether each element is NaN. Infinities are not.

    ::

        y = 1 where x is NaN, else 0

    Args:
        input: `[*sizes]`. The input x.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The truth y, 1 or 0.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_IS_NAN",
        input_tensor=input,
        output_data_type=output_data_type,
    )


@refuse_others
def log(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_LOG: the natural logarithm. That of 0 is minus infinity, that of a negative number NaN.

    ::

        y = ln(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOG",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def logical_and(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_AND: the logical and of truth values.

    Any number but 0 is true.

    ::

        y = 1 where a != 0 and b != 0, else 0

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_AND",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def logical_equals(
    a: Expression | Array | float,
    b: Expression | Array | float,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_EQUALS: whether a equals b.

    ::

        y = 1 where a == b, else 0

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The truth y, 1 or 0.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_EQUALS",
        a_tensor=a,
        b_tensor=b,
        output_data_type=output_data_type,
    )


@refuse_others
def logical_greater_than(
    a: Expression | Array | float,
    b: Expression | Array | float,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN: whether a is greater than b.

    ::

        y = 1 where a > b, else 0

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The truth y, 1 or 0.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_GREATER_THAN",
        a_tensor=a,
        b_tensor=b,
        output_data_type=output_data_type,
    )


@refuse_others
def logical_greater_than_or_equal(
    a: Expression | Array | float,
    b: Expression | Array | float,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL: whether a is greater than or equal to b.

    ::

        y = 1 where a >= b, else 0

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The truth y, 1 or 0.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL",
        a_tensor=a,
        b_tensor=b,
        output_data_type=output_data_type,
    )


@refuse_others
def logical_less_than(
    a: Expression | Array | float,
    b: Expression | Array | float,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_LESS_THAN: whether a is less than b.

    ::

        y = 1 where a < b, else 0

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The truth y, 1 or 0.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_LESS_THAN",
        a_tensor=a,
        b_tensor=b,
        output_data_type=output_data_type,
    )


@refuse_others
def logical_less_than_or_equal(
    a: Expression | Array | float,
    b: Expression | Array | float,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL: whether a is less than or equal to b.

    ::

        y = 1 where a <= b, else 0

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The truth y, 1 or 0.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL",
        a_tensor=a,
        b_tensor=b,
        output_data_type=output_data_type,
    )


@refuse_others
def logical_not(
    input: Expression | Array,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_NOT: the negation of truth values. Any number but 0 is true.

    ::

        y = 1 where x = 0, else 0

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_NOT",
        input_tensor=input,
    )


@refuse_others
def logical_or(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_OR: the logical or of truth values.

    Any number but 0 is true.

    ::

        y = 1 where a != 0 or b != 0, else 0

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_OR",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def logical_xor(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_LOGICAL_XOR: the exclusive or of truth values.

    Any number but 0 is true.

    ::

        y = 1 where exactly one of a and b is not 0, else 0

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_LOGICAL_XOR",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def max(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_MAX: the greater of two numbers. The result for NaN is not documented; here it is NaN.

    ::

        y = max(a, b)

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_MAX",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def mean(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_MEAN: the mean of two numbers.

    How half an odd sum of integers is rounded is not documented; here toward zero.

    ::

        y = (a + b) / 2

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_MEAN",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def min(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_MIN: the lesser of two numbers. The result for NaN is not documented; here it is NaN.

    ::

        y = min(a, b)

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_MIN",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def modulus_floor(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_MODULUS_FLOOR: the remainder with the sign of the divisor, as Python's % has it.

    What a divisor of 0 gives is not documented; here NaN, and 0 in integers.

    ::

        y = a - b * floor(a / b)

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_MODULUS_FLOOR",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def modulus_truncate(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_MODULUS_TRUNCATE: the remainder with the sign of the dividend, as C's % has it.

    What a divisor of 0 gives is not documented; here NaN, and 0 in integers.

    ::

        y = a - b * trunc(a / b)

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_MODULUS_TRUNCATE",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def multiply(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_MULTIPLY: the product.

    ::

        y = a * b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_MULTIPLY",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def negate(
    input: Expression | Array,
) -> Expression:
    """ELEMENT_WISE_NEGATE: the number with the opposite sign.

    That of the smallest integer does not fit, which is not documented; here it is unchanged.

    ::

        y = -x

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_NEGATE",
        input_tensor=input,
    )


@refuse_others
def pow(
    input: Expression | Array | float,
    exponent: Expression | Array | float,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_POW: a power with an exponent for each element.

    Where both are integers the result is exact. What does not fit, and what a negative exponent gives, is not
    documented; here results wrap around, and those of negative exponents are rounded toward zero (0 to a negative power
    is 0). In place the output has the memory of input_tensor; DirectML's page does not name exponent_tensor.

    ::

        y = x ^ e

    Args:
        input: `[*sizes]`. The base x. A negative one gives NaN unless the exponent is a whole number.
        exponent: `[*sizes]`. The exponents e. Strides of 0 repeat them. From feature level 3_0 on their type may differ
            from x's.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. The exponent is not scaled. If
            absent, x is unchanged. How DirectML rounds integers then, or with an exponent that is not an integer, is
            not documented: here toward zero, and the result is held within the range of the type.

    Returns:
        `[*sizes]`. The power y. It may have the memory of input_tensor.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_POW",
        input_tensor=input,
        exponent_tensor=exponent,
        scale_bias=scale_bias,
    )


@refuse_others
def recip(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_RECIP: the reciprocal.

    ::

        y = 1 / x

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_RECIP",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def round(
    input: Expression | Array,
    *,
    rounding_mode: RoundingMode | str | int = RoundingMode.HALVES_TO_NEAREST_EVEN,
) -> Expression:
    """ELEMENT_WISE_ROUND: rounds to whole numbers, which remain floating-point numbers.

    HALVES_TO_NEAREST_EVEN: to the nearest, halves to the even neighbour. TOWARD_ZERO: the fraction is dropped.
    TOWARD_INFINITY: to the nearest, halves away from zero, despite its name.

    ::

        y = x rounded as rounding_mode says

    Args:
        input: `[*sizes]`. The input x.
        rounding_mode: How numbers are rounded.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_ROUND",
        input_tensor=input,
        rounding_mode=rounding_mode,
    )


@refuse_others
def sign(
    input: Expression | Array,
) -> Expression:
    """ELEMENT_WISE_SIGN: the sign: -1, 0 or 1.

    A negative zero gives 0 and so does, by the formula, NaN.

    ::

        y = -1 where x < 0, 1 where x > 0, else 0

    Args:
        input: `[*sizes]`. The input x.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_SIGN",
        input_tensor=input,
    )


@refuse_others
def sin(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_SIN: the sine of angles in radians.

    ::

        y = sin(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_SIN",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def sinh(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_SINH: the hyperbolic sine.

    ::

        y = sinh(x) = (exp(x) - exp(-x)) / 2

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_SINH",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def sqrt(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_SQRT: the square root of numbers that are not negative.

    ::

        y = sqrt(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_SQRT",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def subtract(
    a: Expression | Array | float,
    b: Expression | Array | float,
) -> Expression:
    """ELEMENT_WISE_SUBTRACT: the difference.

    ::

        y = a - b

    Args:
        a: `[*sizes]`. The first operand a. Strides of 0 repeat it.
        b: `[*sizes]`. The second operand b. Strides of 0 repeat it.

    Returns:
        `[*sizes]`. The result y. It may have the memory of either input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_SUBTRACT",
        a_tensor=a,
        b_tensor=b,
    )


@refuse_others
def tan(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_TAN: the tangent of angles in radians.

    ::

        y = tan(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_TAN",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def tanh(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
) -> Expression:
    """ELEMENT_WISE_TANH: the hyperbolic tangent.

    ::

        y = tanh(x)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_TANH",
        input_tensor=input,
        scale_bias=scale_bias,
    )


@refuse_others
def threshold(
    input: Expression | Array,
    *,
    scale_bias: ScaleBias | Mapping[str, Any] | None = None,
    min: float | str | floating[Any],
) -> Expression:
    """ELEMENT_WISE_THRESHOLD: each element, or the threshold if the element is below it.

    ::

        y = max(x, min)

    Args:
        input: `[*sizes]`. The input x.
        scale_bias: The scale and bias of x, which is first replaced by x * scale + bias. If absent, x is unchanged. How
            DirectML rounds integers then is not documented: here toward zero, and the result is held within the range
            of the type.
        min: The threshold, the least result. How DirectML makes an integer of it is not documented: here it is rounded
            toward zero and held within the range of the type.

    Returns:
        `[*sizes]`. The result y. It may have the memory of the input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_THRESHOLD",
        input_tensor=input,
        scale_bias=scale_bias,
        min=min,
    )

