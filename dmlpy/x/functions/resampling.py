# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.resampling`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy import bool_, floating

from dmlpy.description.enums import AxisDirection, InterpolationMode
from dmlpy.description.value_structs import Size2D
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one



@refuse_others
def resample(
    input: Expression | Array,
    *,
    interpolation_mode: InterpolationMode | str | int,
    scales: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
) -> Expression:
    """RESAMPLE: resamples a tensor by the centres of its pixels.

    Of two elements that are equally near, NEAREST_NEIGHBOR takes the later one. The output may have any sizes: one
    larger than the scaled input repeats the input's edge, a smaller one crops.

    ::

        output[o] = input at (o + 0.5) / scale - 0.5, for each dimension

    Args:
        input: `[*sizes]`. The samples.
        interpolation_mode: How values between elements are found: NEAREST_NEIGHBOR takes the nearest element, LINEAR
            weighs the two on both sides, in each dimension. Integers are rounded then, halves to the even one.
        scales: The factor of each dimension: how much larger the result is. Len(sizes) entries. Default: the ratio of
            the sizes, where `output_sizes` is given.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        `[*output_sizes]`. The samples at the other places.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "RESAMPLE",
        input_tensor=input,
        interpolation_mode=interpolation_mode,
        scales=scales,
        output_sizes=output_sizes,
    )


@refuse_others
def resample1(
    input: Expression | Array,
    *,
    interpolation_mode: InterpolationMode | str | int,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
) -> Expression:
    """RESAMPLE1: resamples a tensor.

    Of two elements that are equally near, NEAREST_NEIGHBOR takes the later one. The output may have any sizes: one
    larger than the scaled input repeats the input's edge, a smaller one crops.

    ::

        output[o] = input at (o - output_pixel_offset) / scale - input_pixel_offset, for each dimension

    Args:
        input: `[*sizes]`. The samples.
        interpolation_mode: How values between elements are found: NEAREST_NEIGHBOR takes the nearest element, LINEAR
            weighs the two on both sides, in each dimension. Integers are rounded then, halves to the even one.
        scales: The factor of each dimension: how much larger the result is. Len(sizes) entries. Default: the ratio of
            the sizes, where `output_sizes` is given.
        input_pixel_offsets: The offset added to an input coordinate before scaling: 0.5 for the centres of pixels, as
            RESAMPLE has it. Len(sizes) entries. Default: 0.5 for each dimension.
        output_pixel_offsets: The offset added to the scaled coordinate: -0.5 for the centres of pixels. Len(sizes)
            entries. Default: -0.5 for each dimension.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        `[*output_sizes]`. The samples at the other places.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "RESAMPLE1",
        input_tensor=input,
        interpolation_mode=interpolation_mode,
        scales=scales,
        input_pixel_offsets=input_pixel_offsets,
        output_pixel_offsets=output_pixel_offsets,
        output_sizes=output_sizes,
    )


@refuse_others
def resample2(
    input: Expression | Array,
    *,
    interpolation_mode: InterpolationMode | str | int,
    rounding_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
) -> Expression:
    """RESAMPLE2: resamples a tensor, with a given rounding direction for the nearest neighbour.

    The output may have any sizes: one larger than the scaled input repeats the input's edge, a smaller one crops.

    ::

        output[o] = input at (o - output_pixel_offset) / scale - input_pixel_offset, for each dimension

    Args:
        input: `[*sizes]`. The samples.
        interpolation_mode: How values between elements are found: NEAREST_NEIGHBOR takes the nearest element, LINEAR
            weighs the two on both sides, in each dimension. Integers are rounded then, halves to the even one.
        rounding_direction: The element that NEAREST_NEIGHBOR takes: INCREASING rounds its coordinate up, DECREASING
            down.
        scales: The factor of each dimension: how much larger the result is. Len(sizes) entries. Default: the ratio of
            the sizes, where `output_sizes` is given.
        input_pixel_offsets: The offset added to an input coordinate before scaling: 0.5 for the centres of pixels, as
            RESAMPLE has it. Len(sizes) entries. Default: 0.5 for each dimension.
        output_pixel_offsets: The offset added to the scaled coordinate: -0.5 for the centres of pixels. Len(sizes)
            entries. Default: -0.5 for each dimension.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        `[*output_sizes]`. The samples at the other places.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "RESAMPLE2",
        input_tensor=input,
        interpolation_mode=interpolation_mode,
        rounding_direction=rounding_direction,
        scales=scales,
        input_pixel_offsets=input_pixel_offsets,
        output_pixel_offsets=output_pixel_offsets,
        output_sizes=output_sizes,
    )


@refuse_others
def resample3(
    input: Expression | Array,
    *,
    interpolation_mode: InterpolationMode | str | int,
    rounding_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    antialiased: bool | bool_ = False,
    output_sizes: Sequence[int] | None = None,
) -> Expression:
    """RESAMPLE3: resamples a tensor, optionally without the artefacts of shrinking.

    The output may have any sizes: one larger than the scaled input repeats the input's edge, a smaller one crops.

    ::

        output[o] = input at (o - output_pixel_offset) / scale - input_pixel_offset, for each dimension

    Args:
        input: `[*sizes]`. The samples.
        interpolation_mode: How values between elements are found: NEAREST_NEIGHBOR takes the nearest element, LINEAR
            weighs the two on both sides, in each dimension. Integers are rounded then, halves to the even one.
        rounding_direction: The element that NEAREST_NEIGHBOR takes: INCREASING rounds its coordinate up, DECREASING
            down.
        scales: The factor of each dimension: how much larger the result is. Len(sizes) entries. Default: the ratio of
            the sizes, where `output_sizes` is given.
        input_pixel_offsets: The offset added to an input coordinate before scaling: 0.5 for the centres of pixels, as
            RESAMPLE has it. Len(sizes) entries. Default: 0.5 for each dimension.
        output_pixel_offsets: The offset added to the scaled coordinate: -0.5 for the centres of pixels. Len(sizes)
            entries. Default: -0.5 for each dimension.
        antialiased: Whether LINEAR weighs every input element that an output one covers, where it shrinks. Microsoft's
            page says below half the size in one place, and any shrinking in another; here it is any, as in ONNX.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        `[*output_sizes]`. The samples at the other places.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "RESAMPLE3",
        input_tensor=input,
        interpolation_mode=interpolation_mode,
        rounding_direction=rounding_direction,
        scales=scales,
        input_pixel_offsets=input_pixel_offsets,
        output_pixel_offsets=output_pixel_offsets,
        antialiased=antialiased,
        output_sizes=output_sizes,
    )


@refuse_others
def resample_grad(
    input_gradient: Expression | Array,
    *,
    interpolation_mode: InterpolationMode | str | int,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
) -> Expression:
    """RESAMPLE_GRAD: the gradient of RESAMPLE1 for its input.

    Each incoming gradient is added to those of the elements that its output was computed from, by their weights; others
    get 0.

    ::

        output_gradient[i] = sum(weight of input i in output o * input_gradient[o])

    Args:
        input_gradient: `[*sizes]`. The upstream gradient of the forward output, usually with its sizes.
        interpolation_mode: How values between elements are found: NEAREST_NEIGHBOR takes the nearest element, LINEAR
            weighs the two on both sides, in each dimension. Integers are rounded then, halves to the even one.
        scales: The factor of each dimension: how much larger the result is. Len(sizes) entries. Default: the ratio of
            the sizes, where `output_sizes` is given.
        input_pixel_offsets: The offset added to an input coordinate before scaling: 0.5 for the centres of pixels, as
            RESAMPLE has it. Len(sizes) entries. Default: 0.5 for each dimension.
        output_pixel_offsets: The offset added to the scaled coordinate: -0.5 for the centres of pixels. Len(sizes)
            entries. Default: -0.5 for each dimension.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        `[*output_sizes]`. The gradient of the forward input, usually with its sizes.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "RESAMPLE_GRAD",
        input_gradient_tensor=input_gradient,
        interpolation_mode=interpolation_mode,
        scales=scales,
        input_pixel_offsets=input_pixel_offsets,
        output_pixel_offsets=output_pixel_offsets,
        output_sizes=output_sizes,
    )


@refuse_others
def resample_grad1(
    input_gradient: Expression | Array,
    *,
    interpolation_mode: InterpolationMode | str | int,
    rounding_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    scales: Sequence[float] | None = None,
    input_pixel_offsets: Sequence[float] | None = None,
    output_pixel_offsets: Sequence[float] | None = None,
    output_sizes: Sequence[int] | None = None,
) -> Expression:
    """RESAMPLE_GRAD1: the gradient of RESAMPLE2 for its input.

    Each incoming gradient is added to those of the elements that its output was computed from, by their weights; others
    get 0.

    ::

        output_gradient[i] = sum(weight of input i in output o * input_gradient[o])

    Args:
        input_gradient: `[*sizes]`. The upstream gradient of the forward output, usually with its sizes.
        interpolation_mode: How values between elements are found: NEAREST_NEIGHBOR takes the nearest element, LINEAR
            weighs the two on both sides, in each dimension. Integers are rounded then, halves to the even one.
        rounding_direction: The element that NEAREST_NEIGHBOR takes: INCREASING rounds its coordinate up, DECREASING
            down.
        scales: The factor of each dimension: how much larger the result is. Len(sizes) entries. Default: the ratio of
            the sizes, where `output_sizes` is given.
        input_pixel_offsets: The offset added to an input coordinate before scaling: 0.5 for the centres of pixels, as
            RESAMPLE has it. Len(sizes) entries. Default: 0.5 for each dimension.
        output_pixel_offsets: The offset added to the scaled coordinate: -0.5 for the centres of pixels. Len(sizes)
            entries. Default: -0.5 for each dimension.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        `[*output_sizes]`. The gradient of the forward input, usually with its sizes.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "RESAMPLE_GRAD1",
        input_gradient_tensor=input_gradient,
        interpolation_mode=interpolation_mode,
        rounding_direction=rounding_direction,
        scales=scales,
        input_pixel_offsets=input_pixel_offsets,
        output_pixel_offsets=output_pixel_offsets,
        output_sizes=output_sizes,
    )


@refuse_others
def upsample_2d(
    input: Expression | Array,
    *,
    scale_size: Size2D | Mapping[str, Any],
    interpolation_mode: InterpolationMode | str | int,
) -> Expression:
    """UPSAMPLE_2D: enlarges images, or volumes slice by slice, by whole factors.

    ::

        output[o] = input at (o + 0.5) / scale - 0.5, for height and width

    Args:
        input: `[batch_count, channel_count, *depth, input_height, input_width]`. The images or volumes.
        scale_size: The factors of width and height, at least 1.
        interpolation_mode: NEAREST_NEIGHBOR repeats elements, LINEAR weighs the two on both sides in height and in
            width.

    Returns:
        `[batch_count, channel_count, *depth, output_height, output_width]`. The larger images. A depth stays as it is.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "UPSAMPLE_2D",
        input_tensor=input,
        scale_size=scale_size,
        interpolation_mode=interpolation_mode,
    )


@refuse_others
def value_scale_2d(
    input: Expression | Array,
    *,
    scale: float | str | floating[Any],
    bias: Sequence[float],
) -> Expression:
    """VALUE_SCALE_2D: multiplies the values of images by a factor and adds a number for each channel.

    ::

        output[n, c, h, w] = scale * input[n, c, h, w] + bias[c]

    Args:
        input: `[batch_count, channel_count, height, width]`. The images, of 1 or 3 channels.
        scale: The factor of every value.
        bias: The number added to each channel's values.

    Returns:
        `[batch_count, channel_count, height, width]`. The scaled images.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "VALUE_SCALE_2D",
        input_tensor=input,
        scale=scale,
        bias=bias,
    )

