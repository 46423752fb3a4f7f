# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.quantized`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy import bool_, dtype, generic, integer

from dmlpy.description.enums import DataType, QuantizationType
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one, several



@refuse_others
def convolution_integer(
    input: Expression | Array,
    filter: Expression | Array,
    input_zero_point: Expression | Array | None = None,
    filter_zero_point: Expression | Array | None = None,
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int | integer[Any] = 1,
) -> Expression:
    """CONVOLUTION_INTEGER: the forward convolution of quantized numbers, summed as 32-bit integers.

    The filter is not flipped; padding is 0 once the zero point is taken off; sums wrap around. The arrays have 2
    entries; of tensors without a height the last ones are for the width, or the only ones. A zero point of fewer than 4
    dimensions may have its channels along any one.

    ::

        y[n, m, o] = sum over c, k of (x[n, c, o * strides + k * dilations - start_padding] - xz) * (w[m, c, k] - wz[m])

    Args:
        input: `[batch, input_channels, *spatial]`. The quantized input x. From feature level 4_0 on it may lack a
            height.
        filter: `[output_channels, filter_channels, *window]`. The quantized filters w.
        input_zero_point: `[1, 1, 1, 1]`. The zero point of x, one element. If absent, 0.
        filter_zero_point: `[1, filter_zero_point_channel_count, 1, 1]`. The zero point of w, one element, or one for
            each output channel. If absent, 0.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        dilations: The steps from one element of the filter to the next along each spatial dimension: 1 where they are
            neighbours. At least 1; dimension_count entries. Default: 1 for each dimension.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        group_count: The number of groups of channels, convolved separately: as many as input channels for a depth-wise
            convolution. At least 1.

    Returns:
        `[batch, output_channels, *out]`. The sums y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "CONVOLUTION_INTEGER",
        input_tensor=input,
        input_zero_point_tensor=input_zero_point,
        filter_tensor=filter,
        filter_zero_point_tensor=filter_zero_point,
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
        group_count=group_count,
    )


@refuse_others
def dequantize(
    input: Expression | Array,
    quantizations: Sequence[Expression | Array],
    *,
    quantization_type: QuantizationType | str | int,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """DEQUANTIZE: the numbers that 8- or 4-bit integers represent.

    DirectML's page has only the members, their types and dimension counts. The formula, the number and the types of the
    quantization tensors are those of ELEMENT_WISE_DEQUANTIZE_LINEAR and of DirectMLX, the zero point of SCALE is ONNX
    Runtime's.

    ::

        y = (x - zero_point) * scale

    Args:
        input: `[*sizes]`. The input x.
        quantizations: `[*sizes]` each. The scale, of the type of the numbers, then the zero point, of the type of the
            integers. Each size divides the input's: 1 repeats, a smaller one is a number of blocks of equal size.
            DirectML's page does not say; it is what ONNX Runtime describes.
        quantization_type: The tensors in quantization_tensors. With SCALE the zero point is the middle of an unsigned
            type, 128 or 8, and 0 of a signed one: DirectML's page does not say so, ONNX Runtime's provider relies on
            it. Only SCALE or SCALE_ZERO_POINT.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The result y. with_outputs gives integers the zero point's type, UINT8 without one, and numbers the
        scale's.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "DEQUANTIZE",
        input_tensor=input,
        quantization_tensors=quantizations,
        quantization_type=quantization_type,
        output_data_type=output_data_type,
    )


class DynamicQuantizeLinearOutputs(NamedTuple):
    """The outputs of `dynamic_quantize_linear`."""

    output: Expression
    """The integers y."""
    scale: Expression
    """The scale of the integers."""
    zero_point: Expression
    """The zero point of the integers."""


@refuse_others
def dynamic_quantize_linear(
    input: Expression | Array,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_zero_point_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> DynamicQuantizeLinearOutputs:
    """DYNAMIC_QUANTIZE_LINEAR: quantizes with the scale and the zero point of the input's range.

    least and most are the range of the output's type. Whether the input's range is first widened to hold 0, as ONNX has
    it, is not documented; here it is, or the zero point would not fit its type. Nor is it documented what an input of
    zeros gives, whose scale is 0; here its zero point is least, and so is every result. x is divided by the scale; ONNX
    Runtime's tests record that DirectML multiplies by the rounded reciprocal, so that its result may differ by one next
    to a tie.

    ::

        scale = (max(x) - min(x)) / (most - least), zero_point = least - min(x) / scale
        y = clamp(round(x / scale) + zero_point, least, most)

    Args:
        input: `[*sizes]`. The input x.
        output_data_type: The data type of the output, where the operator has a choice.
        output_zero_point_data_type: The data type of the output, where the operator has a choice.

    Returns:
        The named tuple `DynamicQuantizeLinearOutputs` of these fields.

        - `output`: `[*sizes]`. The integers y.
        - `scale`: `[*ones]`. The scale of the integers.
        - `zero_point`: `[*ones]`. The zero point of the integers.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return DynamicQuantizeLinearOutputs(*several(
        "DYNAMIC_QUANTIZE_LINEAR",
        input_tensor=input,
        output_data_type=output_data_type,
        output_zero_point_data_type=output_zero_point_data_type,
    ))


@refuse_others
def dequantize_linear(
    input: Expression | Array | float,
    scale: Expression | Array | float,
    zero_point: Expression | Array | float | None = None,
) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR: the numbers that quantized integers represent.

    A scale or a zero point that belongs to the whole tensor, or to all elements at one place of an axis, repeats by
    strides of 0.

    ::

        y = (x - zero_point) * scale

    Args:
        input: `[*sizes]`. The input x.
        scale: `[*sizes]`. The scale of each element. Where x is INT32 it is FLOAT32. The result of a scale of 0 is
            undefined: here x / 0 held within the range, and NaN counts as 0.
        zero_point: `[*sizes]`. The zero point of each element. If absent, it is 0; feature levels below 6_2 need it.

    Returns:
        `[*sizes]`. The numbers y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        input_tensor=input,
        scale_tensor=scale,
        zero_point_tensor=zero_point,
    )


@refuse_others
def quantized_linear_add(
    a: Expression | Array | float,
    a_scale: Expression | Array,
    b: Expression | Array | float,
    b_scale: Expression | Array,
    output_scale: Expression | Array,
    a_zero_point: Expression | Array | None = None,
    b_zero_point: Expression | Array | None = None,
    output_zero_point: Expression | Array | None = None,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_QUANTIZED_LINEAR_ADD: the sum of quantized tensors, quantized again.

    A, B and the output may be of different types. Each has one scale and one zero point: tensors of one element.

    ::

        v = (a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale
        y = clamp(round(v / output_scale) + output_zero_point, the range of the output's type)

    Args:
        a: `[*sizes]`. The quantized tensor a. Strides of 0 repeat it.
        a_scale: `[*ones]`. The scale of a.
        b: `[*sizes]`. The quantized tensor b. Strides of 0 repeat it.
        b_scale: `[*ones]`. The scale of b.
        output_scale: `[*ones]`. The scale of the output.
        a_zero_point: `[*ones]`. The zero point of a. If absent, it is 0.
        b_zero_point: `[*ones]`. The zero point of b. If absent, it is 0.
        output_zero_point: `[*ones]`. The zero point of the output. If absent, it is 0.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The quantized sum y. with_outputs makes it UINT8 if neither it nor its zero point has a type.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
        a_tensor=a,
        a_scale_tensor=a_scale,
        a_zero_point_tensor=a_zero_point,
        b_tensor=b,
        b_scale_tensor=b_scale,
        b_zero_point_tensor=b_zero_point,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        output_data_type=output_data_type,
    )


@refuse_others
def quantize_linear(
    input: Expression | Array | float,
    scale: Expression | Array | float,
    zero_point: Expression | Array | float | None = None,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ELEMENT_WISE_QUANTIZE_LINEAR: quantizes numbers to 8-bit integers.

    A scale or a zero point that belongs to the whole tensor, or to all elements at one place of an axis, repeats by
    strides of 0.

    x is divided by the scale, as DirectML's page has it. ONNX Runtime's tests record that DirectML multiplies by the
    scale's reciprocal, rounded to FLOAT32: where x / scale is next to a tie, its result differs by one.

    ::

        y = clamp(round(x / scale) + zero_point, the range of the output's type)

    Args:
        input: `[*sizes]`. The input x.
        scale: `[*sizes]`. The scale of each element. Where x is INT32 it is FLOAT32. The result of a scale of 0 is
            undefined: here x / 0 held within the range, and NaN counts as 0.
        zero_point: `[*sizes]`. The zero point of each element, of the output's type. If absent, it is 0; feature levels
            below 6_2 need it.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The integers y. with_outputs makes them UINT8 if neither they nor a zero point have a type.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ELEMENT_WISE_QUANTIZE_LINEAR",
        input_tensor=input,
        scale_tensor=scale,
        zero_point_tensor=zero_point,
        output_data_type=output_data_type,
    )


@refuse_others
def matrix_multiply_integer(
    a: Expression | Array,
    b: Expression | Array,
    a_zero_point: Expression | Array | None = None,
    b_zero_point: Expression | Array | None = None,
) -> Expression:
    """MATRIX_MULTIPLY_INTEGER: the product of two matrices of quantized numbers, summed as 32-bit integers.

    Sums wrap around. Of fewer than 4 dimensions, a_zero_point_tensor may have its rows along any one.

    ::

        output[i, j] = sum over k of (A[i, k] - AZ[i]) * (B[k, j] - BZ[j])

    Args:
        a: `[*batch, m, k]`. The quantized matrix A.
        b: `[*batch, k, n]`. The quantized matrix B. Its type may differ from A's.
        a_zero_point: `[1, 1, a_zero_point_count, 1]`. The zero point of A, one element, or one for each row. If absent,
            0.
        b_zero_point: `[1, 1, 1, b_zero_point_count]`. The zero point of B, one element, or one for each column. If
            absent, 0.

    Returns:
        `[*batch, m, n]`. The sums.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "MATRIX_MULTIPLY_INTEGER",
        a_tensor=a,
        a_zero_point_tensor=a_zero_point,
        b_tensor=b,
        b_zero_point_tensor=b_zero_point,
    )


@refuse_others
def matrix_multiply_integer_to_float(
    a: Expression | Array,
    a_scale: Expression | Array,
    b: Expression | Array,
    b_scale: Expression | Array,
    a_zero_point: Expression | Array | None = None,
    b_zero_point: Expression | Array | None = None,
    bias: Expression | Array | None = None,
) -> Expression:
    """MATRIX_MULTIPLY_INTEGER_TO_FLOAT: the product of two matrices of quantized numbers, as floats.

    DirectML's page requires A and B of one type; DirectML also takes signed with unsigned ones, as ONNX Runtime gives
    them. Of fewer than 4 dimensions, A's scale and zero point may have their rows along any one.

    ::

        output[i, j] = sum over k of (A[i, k] - AZ[i]) * AS[i] * (B[k, j] - BZ[j]) * BS[j] + bias[i, j]

    Args:
        a: `[*batch, m, k]`. The quantized matrix A.
        a_scale: `[1, 1, a_scale_count, 1]`. The scale of A, one element, or one for each row.
        b: `[*batch, k, n]`. The quantized matrix B. Its type may differ from A's.
        b_scale: `[1, 1, 1, b_scale_count]`. The scale of B, one element, or one for each column.
        a_zero_point: `[1, 1, a_zero_point_count, 1]`. The zero point of A, one element, or one for each row. If absent,
            0.
        b_zero_point: `[1, 1, 1, b_zero_point_count]`. The zero point of B, one element, or one for each column. If
            absent, 0.
        bias: `[*batch, m, n]`. The bias added to the product. If absent, nothing is added.

    Returns:
        `[*batch, m, n]`. The product as floats.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
        a_tensor=a,
        a_scale_tensor=a_scale,
        a_zero_point_tensor=a_zero_point,
        b_tensor=b,
        b_scale_tensor=b_scale,
        b_zero_point_tensor=b_zero_point,
        bias_tensor=bias,
    )


@refuse_others
def quantize(
    input: Expression | Array,
    quantizations: Sequence[Expression | Array],
    *,
    quantization_type: QuantizationType | str | int,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """QUANTIZE: quantizes numbers to 8- or 4-bit integers.

    DirectML's page has only the members, their types and dimension counts. The formula, the number and the types of the
    quantization tensors are those of ELEMENT_WISE_QUANTIZE_LINEAR and of DirectMLX, the zero point of SCALE is ONNX
    Runtime's.

    ::

        y = clamp(round(x / scale) + zero_point, the range of the output's type)

    Args:
        input: `[*sizes]`. The input x.
        quantizations: `[*sizes]` each. The scale, of the type of the numbers, then the zero point, of the type of the
            integers. Each size divides the input's: 1 repeats, a smaller one is a number of blocks of equal size.
            DirectML's page does not say; it is what ONNX Runtime describes.
        quantization_type: The tensors in quantization_tensors. With SCALE the zero point is the middle of an unsigned
            type, 128 or 8, and 0 of a signed one: DirectML's page does not say so, ONNX Runtime's provider relies on
            it. Only SCALE or SCALE_ZERO_POINT.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*sizes]`. The result y. with_outputs gives integers the zero point's type, UINT8 without one, and numbers the
        scale's.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "QUANTIZE",
        input_tensor=input,
        quantization_tensors=quantizations,
        quantization_type=quantization_type,
        output_data_type=output_data_type,
    )


@refuse_others
def quantized_linear_average_pooling(
    input: Expression | Array,
    input_scale: Expression | Array,
    output_scale: Expression | Array,
    input_zero_point: Expression | Array | None = None,
    output_zero_point: Expression | Array | None = None,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    include_padding: bool | bool_,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """QUANTIZED_LINEAR_AVERAGE_POOLING: the mean of each window's quantized elements, quantized again.

    DirectML's page prints the sizes of the output without dilations; they count here, as in MAX_POOLING2. What a window
    that lies in the padding alone gives without include_padding is not defined. A scale or zero point of fewer than 4
    dimensions may have its channels along any one.

    ::

        y = clamp(round(mean over the window of (x - xz) * xs / ys) + yz)

    Args:
        input: `[batch, channels, *spatial]`. The quantized input x. The spatial dimensions are height and width, or
            depth, height and width.
        input_scale: `[1, input_scale_count, 1, 1]`. The scale of x, one element, or one for each channel.
        output_scale: `[1, output_scale_count, 1, 1]`. The scale of y, one element, or one for each channel.
        input_zero_point: `[1, input_zero_point_count, 1, 1]`. The zero point of x, one element, or one for each
            channel. If absent, 0.
        output_zero_point: `[1, output_zero_point_count, 1, 1]`. The zero point of y, one element, or one for each
            channel. If absent, 0.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        dilations: The steps from one element of the window to the next along each spatial dimension: 1 where they are
            neighbours. At least 1; dimension_count entries. Default: 1 for each dimension.
        include_padding: Whether the sum is divided by all elements of the window, or only by those inside the input.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[batch, channels, *out]`. The quantized result y, an element for each position of the window.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "QUANTIZED_LINEAR_AVERAGE_POOLING",
        input_tensor=input,
        input_scale_tensor=input_scale,
        input_zero_point_tensor=input_zero_point,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        include_padding=include_padding,
        output_data_type=output_data_type,
    )


@refuse_others
def quantized_linear_convolution(
    input: Expression | Array,
    input_scale: Expression | Array,
    filter: Expression | Array,
    filter_scale: Expression | Array,
    output_scale: Expression | Array,
    input_zero_point: Expression | Array | None = None,
    filter_zero_point: Expression | Array | None = None,
    bias: Expression | Array | None = None,
    output_zero_point: Expression | Array | None = None,
    *,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    group_count: int | integer[Any] = 1,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """QUANTIZED_LINEAR_CONVOLUTION: the forward convolution of quantized numbers, quantized again.

    The filter is not flipped; padding is 0 once dequantized. The arrays have 2 entries; of tensors without a height the
    last ones are for the width, or the only ones. A scale or zero point of fewer than 4 dimensions may have its
    channels along any one.

    ::

        y[n, m, o] = clamp(round(xs * ws[m] * (sum over c, k of (x[n, c, o * strides + k * dilations - start_padding] - xz) * (w[m, c, k] - wz[m]) + bias[m]) / ys) + yz)

    Args:
        input: `[batch, input_channels, *spatial]`. The quantized input x. From feature level 4_0 on it may lack a
            height.
        input_scale: `[1, 1, 1, 1]`. The scale of x, one element.
        filter: `[output_channels, filter_channels, *window]`. The quantized filters w.
        filter_scale: `[1, filter_scale_channel_count, 1, 1]`. The scale of w, one element, or one for each output
            channel.
        output_scale: `[1, 1, 1, 1]`. The scale of y, one element.
        input_zero_point: `[1, 1, 1, 1]`. The zero point of x, one element. If absent, 0.
        filter_zero_point: `[1, filter_zero_point_channel_count, 1, 1]`. The zero point of w, one element, or one for
            each output channel. If absent, 0.
        bias: `[1, output_channels, *ones]`. The bias of each output channel, in units of x's scale times w's. If
            absent, nothing is added.
        output_zero_point: `[1, 1, 1, 1]`. The zero point of y, one element. If absent, 0.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        dilations: The steps from one element of the filter to the next along each spatial dimension: 1 where they are
            neighbours. At least 1; dimension_count entries. Default: 1 for each dimension.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        group_count: The number of groups of channels, convolved separately: as many as input channels for a depth-wise
            convolution. At least 1.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[batch, output_channels, *out]`. The quantized result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "QUANTIZED_LINEAR_CONVOLUTION",
        input_tensor=input,
        input_scale_tensor=input_scale,
        input_zero_point_tensor=input_zero_point,
        filter_tensor=filter,
        filter_scale_tensor=filter_scale,
        filter_zero_point_tensor=filter_zero_point,
        bias_tensor=bias,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
        group_count=group_count,
        output_data_type=output_data_type,
    )


@refuse_others
def quantized_linear_matrix_multiply(
    a: Expression | Array,
    a_scale: Expression | Array,
    b: Expression | Array,
    b_scale: Expression | Array,
    output_scale: Expression | Array,
    a_zero_point: Expression | Array | None = None,
    b_zero_point: Expression | Array | None = None,
    output_zero_point: Expression | Array | None = None,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """QUANTIZED_LINEAR_MATRIX_MULTIPLY: the product of two matrices of quantized numbers, quantized again.

    ::

        output[i, j] = clamp(round(sum over k of (A[i, k] - AZ[i]) * AS[i] * (B[k, j] - BZ[j]) * BS[j] / OS[i]) + OZ[i])

    Args:
        a: `[*batch, m, k]`. The quantized matrix A.
        a_scale: `[1, 1, a_scale_count, 1]`. The scale of A, one element, or one for each row. Leading dimensions of
            size 1 may be left out.
        b: `[*batch, k, n]`. The quantized matrix B. Its type may differ from A's.
        b_scale: `[1, 1, 1, b_scale_count]`. The scale of B, one element, or one for each column. Leading dimensions of
            size 1 may be left out.
        output_scale: `[1, 1, output_scale_count, 1]`. The scale of the result, one element, or one for each row.
        a_zero_point: `[1, 1, a_zero_point_count, 1]`. The zero point of A, one element, or one for each row. If absent,
            0.
        b_zero_point: `[1, 1, 1, b_zero_point_count]`. The zero point of B, one element, or one for each column. If
            absent, 0.
        output_zero_point: `[1, 1, output_zero_point_count, 1]`. The zero point of the result, one element, or one for
            each row. If absent, 0.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*batch, m, n]`. The quantized product.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "QUANTIZED_LINEAR_MATRIX_MULTIPLY",
        a_tensor=a,
        a_scale_tensor=a_scale,
        a_zero_point_tensor=a_zero_point,
        b_tensor=b,
        b_scale_tensor=b_scale,
        b_zero_point_tensor=b_zero_point,
        output_scale_tensor=output_scale,
        output_zero_point_tensor=output_zero_point,
        output_data_type=output_data_type,
    )

