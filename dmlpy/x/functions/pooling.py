# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.pooling`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numpy import bool_, dtype, floating, generic, integer

from dmlpy.description.enums import DataType, InterpolationMode, ReduceFunction
from dmlpy.description.value_structs import Size2D
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one, several



@refuse_others
def average_pooling(
    input: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    include_padding: bool | bool_,
) -> Expression:
    """AVERAGE_POOLING: the mean of each window's elements, for each batch entry and channel.

    Padding adds 0 to the sum. What a window that lies in the padding alone gives without include_padding is not
    defined. Sizes are rounded down; where the output is described with sizes that are all rounded up, as for ONNX's
    ceil_mode, the last windows are cut off: what lies beyond the padding is counted by no divisor. A last window that
    would begin after the last element may be left out then, as ONNX and PyTorch do.

    ::

        y[o] = sum over k of x[o * strides + k - start_padding] / divisor

    Args:
        input: `[batch, channels, *spatial]`. The input x. The spatial dimensions are height and width, or depth, height
            and width.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        include_padding: Whether the sum is divided by all elements of the window, or only by those inside the input.

    Returns:
        `[batch, channels, *out]`. The result y, an element for each position of the window.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "AVERAGE_POOLING",
        input_tensor=input,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        include_padding=include_padding,
    )


@refuse_others
def average_pooling1(
    input: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    include_padding: bool | bool_,
) -> Expression:
    """AVERAGE_POOLING1: as AVERAGE_POOLING, with a window whose elements may be dilated.

    DirectML's page prints the sizes of the output without dilations; they count here, as in MAX_POOLING2. What a window
    that lies in the padding alone gives without include_padding is not defined.

    ::

        y[o] = sum over k of x[o * strides + k * dilations - start_padding] / divisor

    Args:
        input: `[batch, channels, *spatial]`. The input x. The spatial dimensions are height and width, or depth, height
            and width.
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

    Returns:
        `[batch, channels, *out]`. The result y, an element for each position of the window.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "AVERAGE_POOLING1",
        input_tensor=input,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        include_padding=include_padding,
    )


@refuse_others
def average_pooling_grad(
    input_gradient: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    include_padding: bool | bool_,
    output_sizes: Sequence[int],
) -> Expression:
    """AVERAGE_POOLING_GRAD: the gradient of AVERAGE_POOLING for its input.

    Each incoming element, divided by its window's divisor, is added to every element that the window covers; padding's
    share is dropped. The outgoing gradient has the sizes of the forward input, which no input of this operator
    determines: describe it.

    ::

        dx[i] = sum of dy[o] / divisor over the windows o that cover i

    Args:
        input_gradient: `[batch, channels, *out]`. The upstream gradient dy of the forward output.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        include_padding: Whether the sum is divided by all elements of the window, or only by those inside the input.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        `[batch, channels, *spatial]`. The gradient dx of the forward input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "AVERAGE_POOLING_GRAD",
        input_gradient_tensor=input_gradient,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        include_padding=include_padding,
        output_sizes=output_sizes,
    )


@refuse_others
def lp_pooling(
    input: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    p: int | integer[Any],
) -> Expression:
    """LP_POOLING: the Lp norm of each window's elements, for each batch entry and channel.

    Padding counts as 0. DirectML's page has no absolute value in its formula; it is meant, as in ONNX. P is not 0.

    ::

        y[o] = (sum over k of |x[o * strides + k - start_padding]| ** P) ** (1 / P)

    Args:
        input: `[batch, channels, *spatial]`. The input x. The spatial dimensions are height and width, or depth, height
            and width.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        p: The order P of the norm, usually 1 or 2. At least 1.

    Returns:
        `[batch, channels, *out]`. The result y, an element for each position of the window.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "LP_POOLING",
        input_tensor=input,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        p=p,
    )


@refuse_others
def lp_pooling1(
    input: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    p: int | integer[Any],
) -> Expression:
    """LP_POOLING1: as LP_POOLING, with a window whose elements may be dilated.

    DirectML's page prints the sizes of the output without dilations; they count here, as in MAX_POOLING2. P is not 0.

    ::

        y[o] = (sum over k of |x[o * strides + k * dilations - start_padding]| ** P) ** (1 / P)

    Args:
        input: `[batch, channels, *spatial]`. The input x. The spatial dimensions are height and width, or depth, height
            and width.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        dilations: The steps from one element of the window to the next along each spatial dimension: 1 where they are
            neighbours. At least 1; dimension_count entries. Default: 1 for each dimension.
        p: The order P of the norm, usually 1 or 2. At least 1.

    Returns:
        `[batch, channels, *out]`. The result y, an element for each position of the window.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "LP_POOLING1",
        input_tensor=input,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        p=p,
    )


@refuse_others
def max_pooling(
    input: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
) -> Expression:
    """MAX_POOLING: the largest of each window's elements, for each batch entry and channel.

    Padding never wins, NaN always. Sizes are rounded down; where the output is described with sizes that are all
    rounded up, as for ONNX's ceil_mode, the last windows are cut off. A last window that would begin after the last
    element may be left out then, as ONNX and PyTorch do. A window that lies in the padding alone gives the least value
    of the type, -infinity of floating point.

    ::

        y[o] = max over k of x[o * strides + k - start_padding]

    Args:
        input: `[batch, channels, *spatial]`. The input x. The spatial dimensions are height and width, or depth, height
            and width.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.

    Returns:
        `[batch, channels, *out]`. The result y, an element for each position of the window.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "MAX_POOLING",
        input_tensor=input,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
    )


class MaxPooling1Outputs(NamedTuple):
    """The outputs of `max_pooling1`."""

    values: Expression
    """The result y, an element for each position of the window."""
    indices: Expression
    """The index of each maximum in the whole input, the lowest of equal ones. If absent, indices are not
    computed.
    """


@refuse_others
def max_pooling1(
    input: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    output_indices_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> MaxPooling1Outputs:
    """MAX_POOLING1: as MAX_POOLING, and returns the index of each maximum.

    Padding never wins, NaN always. Sizes are rounded down, or all up if the output is described so. An index counts
    through the whole input as one packed array, batch and channels included. A window that lies in the padding alone
    gives the least value of the type, -infinity of floating point, and the index 0.

    ::

        y[o] = max over k of x[o * strides + k - start_padding]

    Args:
        input: `[batch, channels, *spatial]`. The input x. The spatial dimensions are height and width, or depth, height
            and width.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        output_indices_data_type: The data type of the output, where the operator has a choice.

    Returns:
        The named tuple `MaxPooling1Outputs` of these fields.

        - `values`: `[batch, channels, *out]`. The result y, an element for each position of the window.
        - `indices`: `[batch, channels, *out]`. The index of each maximum in the whole input, the lowest of equal ones.
          If absent, indices are not computed.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return MaxPooling1Outputs(*several(
        "MAX_POOLING1",
        input_tensor=input,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        output_indices_data_type=output_indices_data_type,
    ))


class MaxPooling2Outputs(NamedTuple):
    """The outputs of `max_pooling2`."""

    values: Expression
    """The result y, an element for each position of the window."""
    indices: Expression
    """The index of each maximum in the whole input, the lowest of equal ones. If absent, indices are not
    computed.
    """


@refuse_others
def max_pooling2(
    input: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_indices_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> MaxPooling2Outputs:
    """MAX_POOLING2: as MAX_POOLING1, with a window whose elements may be dilated.

    Padding never wins, NaN always. Sizes are rounded down, or all up if the output is described so. An index counts
    through the whole input as one packed array, batch and channels included. A window that lies in the padding alone
    gives the least value of the type, -infinity of floating point, and the index 0.

    ::

        y[o] = max over k of x[o * strides + k * dilations - start_padding]

    Args:
        input: `[batch, channels, *spatial]`. The input x. The spatial dimensions are height and width, or depth, height
            and width.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        dilations: The steps from one element of the window to the next along each spatial dimension: 1 where they are
            neighbours. At least 1; dimension_count entries. Default: 1 for each dimension.
        output_indices_data_type: The data type of the output, where the operator has a choice.

    Returns:
        The named tuple `MaxPooling2Outputs` of these fields.

        - `values`: `[batch, channels, *out]`. The result y, an element for each position of the window.
        - `indices`: `[batch, channels, *out]`. The index of each maximum in the whole input, the lowest of equal ones.
          If absent, indices are not computed.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return MaxPooling2Outputs(*several(
        "MAX_POOLING2",
        input_tensor=input,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        output_indices_data_type=output_indices_data_type,
    ))


@refuse_others
def max_pooling_grad(
    input: Expression | Array,
    input_gradient: Expression | Array,
    *,
    strides: Sequence[int] | None = None,
    window_size: Sequence[int],
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> Expression:
    """MAX_POOLING_GRAD: the gradient of MAX_POOLING2 for its input.

    Each incoming element is added where its window has its maximum, the lowest index of equal ones; elsewhere the
    result is 0. That of a window in the padding alone is dropped.

    ::

        dx[i] = sum of dy[o] over the windows o whose maximum is x[i]

    Args:
        input: `[batch, channels, *spatial]`. The input x of the forward operator.
        input_gradient: `[batch, channels, *out]`. The upstream gradient dy of the forward output.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        window_size: The elements of the window along each spatial dimension. At least 1; dimension_count entries.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        dilations: The steps from one element of the window to the next along each spatial dimension: 1 where they are
            neighbours. At least 1; dimension_count entries. Default: 1 for each dimension.

    Returns:
        `[batch, channels, *spatial]`. The gradient dx of the forward input.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "MAX_POOLING_GRAD",
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        strides=strides,
        window_size=window_size,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
    )


@refuse_others
def max_unpooling(
    input: Expression | Array,
    indices: Expression | Array,
    *,
    output_sizes: Sequence[int],
) -> Expression:
    """MAX_UNPOOLING: puts each element at its index among zeros: the inverse of MAX_POOLING1.

    No input determines the output's sizes: describe it. An index outside the output, or one that two elements share, is
    not defined.

    ::

        y = 0; flat(y)[indices[i]] = x[i]

    Args:
        input: `[batch, channels, height, width]`. The elements x.
        indices: `[batch, channels, height, width]`. The index of each element in the whole output.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        `[output_batch, output_channels, output_height, output_width]`. The result y, usually with the sizes of the
        pooling's input. No other member determines them.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "MAX_UNPOOLING",
        input_tensor=input,
        indices_tensor=indices,
        output_sizes=output_sizes,
    )


@refuse_others
def roi_align(
    input: Expression | Array,
    roi: Expression | Array,
    batch_indices: Expression | Array,
    *,
    reduction_function: ReduceFunction | str | int,
    interpolation_mode: InterpolationMode | str | int,
    spatial_scale_x: float | str | floating[Any] = 1.0,
    spatial_scale_y: float | str | floating[Any] = 1.0,
    out_of_bounds_input_value: float | str | floating[Any] = 0.0,
    minimum_samples_per_output: int | integer[Any],
    maximum_samples_per_output: int | integer[Any],
    output_sizes: Sequence[int],
) -> Expression:
    """ROI_ALIGN: samples each region of interest at output_height x output_width places.

    A region, scaled, is cut into an element for each output; n samples along either axis are read between its pixels, n
    being the region's size for an output, held within the two bounds. Their mean or maximum is the result. It is
    ROI_ALIGN1 with an input_pixel_offset of 0.5 and an output_pixel_offset of -0.5. The output's height and width are
    chosen by its desc.

    What DirectML's pages leave open is as in ONNX's RoiAlign: n is rounded up, and is 1 at the least. A sample no more
    than a pixel off the outermost ones has the edge's value, one beyond reads out_of_bounds_input_value.
    NEAREST_NEIGHBOR, which ONNX does not have, rounds halves down, as the example of ROI_ALIGN_GRAD does. The maximum
    is that of the interpolated samples. A batch index beyond the images is the last one's.

    ::

        output[r, c, oy, ox] = reduction over samples s of input[batch_indices[r], c, y(s), x(s)]

    Args:
        input: `[batch, channels, height, width]`. The images.
        roi: `[*ones, num_rois, 4]`. The corners x1, y1, x2, y2 of each region. Leading dimensions of size 1 may be
            added.
        batch_indices: `[*ones, num_rois]`. The image of each region, from 0 to batch - 1. Leading dimensions of size 1
            may be added.
        reduction_function: The function that reduces the samples of an output element. Only AVERAGE or MAX.
        interpolation_mode: How a sample between pixels is read.
        spatial_scale_x: The factor of x1 and x2.
        spatial_scale_y: The factor of y1 and y2.
        out_of_bounds_input_value: The value of samples outside of the image.
        minimum_samples_per_output: The least number of samples along an axis.
        maximum_samples_per_output: The largest number of samples along an axis.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        `[num_rois, channels, output_height, output_width]`. The samples of each region, reduced.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ROI_ALIGN",
        input_tensor=input,
        roi_tensor=roi,
        batch_indices_tensor=batch_indices,
        reduction_function=reduction_function,
        interpolation_mode=interpolation_mode,
        spatial_scale_x=spatial_scale_x,
        spatial_scale_y=spatial_scale_y,
        out_of_bounds_input_value=out_of_bounds_input_value,
        minimum_samples_per_output=minimum_samples_per_output,
        maximum_samples_per_output=maximum_samples_per_output,
        output_sizes=output_sizes,
    )


@refuse_others
def roi_align1(
    input: Expression | Array,
    roi: Expression | Array,
    batch_indices: Expression | Array,
    *,
    reduction_function: ReduceFunction | str | int,
    interpolation_mode: InterpolationMode | str | int,
    spatial_scale_x: float | str | floating[Any] = 1.0,
    spatial_scale_y: float | str | floating[Any] = 1.0,
    input_pixel_offset: float | str | floating[Any] = 0.5,
    output_pixel_offset: float | str | floating[Any] = -0.5,
    out_of_bounds_input_value: float | str | floating[Any] = 0.0,
    minimum_samples_per_output: int | integer[Any],
    maximum_samples_per_output: int | integer[Any],
    align_regions_to_corners: bool | bool_ = False,
    output_sizes: Sequence[int],
) -> Expression:
    """ROI_ALIGN1: as ROI_ALIGN, with explicit offsets, and samples that may reach the region's corners.

    Sample s of an axis lies at (s - output_pixel_offset) * size / (outputs * n) + start - input_pixel_offset, n being
    size / outputs held within the two bounds; output o has the samples o * n up to (o + 1) * n - 1. An empty region
    reads one point; an inverted one gives a mirrored output. Aligned to the corners, the samples are spaced size /
    (outputs * n - 1) from start on, and a single one is in the middle. ROI_ALIGN lists what else DirectML's pages leave
    open.

    ::

        output[r, c, oy, ox] = reduction over samples s of input[batch_indices[r], c, y(s), x(s)]

    Args:
        input: `[batch, channels, height, width]`. The images.
        roi: `[*ones, num_rois, 4]`. The corners x1, y1, x2, y2 of each region. Leading dimensions of size 1 may be
            added.
        batch_indices: `[*ones, num_rois]`. The image of each region, from 0 to batch - 1. Leading dimensions of size 1
            may be added.
        reduction_function: The function that reduces the samples of an output element. Only AVERAGE or MAX.
        interpolation_mode: How a sample between pixels is read.
        spatial_scale_x: The factor of x1 and x2.
        spatial_scale_y: The factor of y1 and y2.
        input_pixel_offset: The offset subtracted from a coordinate of the input: 0.5 where a pixel's coordinates are
            those of its centre.
        output_pixel_offset: The offset subtracted from a sample's number: -0.5 for the centres.
        out_of_bounds_input_value: The value of samples outside of the image.
        minimum_samples_per_output: The least number of samples along an axis.
        maximum_samples_per_output: The largest number of samples along an axis.
        align_regions_to_corners: Whether the outermost samples lie on the corners of the region.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        `[num_rois, channels, output_height, output_width]`. The samples of each region, reduced.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ROI_ALIGN1",
        input_tensor=input,
        roi_tensor=roi,
        batch_indices_tensor=batch_indices,
        reduction_function=reduction_function,
        interpolation_mode=interpolation_mode,
        spatial_scale_x=spatial_scale_x,
        spatial_scale_y=spatial_scale_y,
        input_pixel_offset=input_pixel_offset,
        output_pixel_offset=output_pixel_offset,
        out_of_bounds_input_value=out_of_bounds_input_value,
        minimum_samples_per_output=minimum_samples_per_output,
        maximum_samples_per_output=maximum_samples_per_output,
        align_regions_to_corners=align_regions_to_corners,
        output_sizes=output_sizes,
    )


class ROIAlignGradOutputs(NamedTuple):
    """The outputs of `roi_align_grad`."""

    gradient: Expression
    """The gradient of the images. Without input_tensor nothing else determines its sizes."""
    roi_gradient: Expression
    """The gradient of the regions."""


@refuse_others
def roi_align_grad(
    input_gradient: Expression | Array,
    roi: Expression | Array,
    batch_indices: Expression | Array,
    input: Expression | Array | None = None,
    *,
    reduction_function: ReduceFunction | str | int,
    interpolation_mode: InterpolationMode | str | int,
    spatial_scale_x: float | str | floating[Any] = 1.0,
    spatial_scale_y: float | str | floating[Any] = 1.0,
    input_pixel_offset: float | str | floating[Any] = 0.5,
    output_pixel_offset: float | str | floating[Any] = -0.5,
    minimum_samples_per_output: int | integer[Any],
    maximum_samples_per_output: int | integer[Any],
    align_regions_to_corners: bool | bool_ = False,
    output_sizes: Sequence[int] | None = None,
) -> ROIAlignGradOutputs:
    """ROI_ALIGN_GRAD: the gradients of ROI_ALIGN1 for the images, for the regions, or for both.

    A mean passes an equal share of an incoming element on to each of its samples, a maximum all of it to the first
    largest one; samples outside the image are 0 and drop their share. That of the regions follows the chain rule: a
    sample's slope, between its pixels, times its distance from the opposite corner as a part of the region, times the
    scale, summed over channels. Samples of NEAREST_NEIGHBOR and those off the outermost pixels have no slope, and the
    number of samples counts as fixed. DirectML's page prints code for the regions' gradient that leaves out the scales
    and the division by the output's sizes; it agrees only where the two are equal.

    ::

        output_gradient[i] = sum of weight * input_gradient[o] over the samples that read i

    Args:
        input_gradient: `[num_rois, channels, output_height, output_width]`. The upstream gradient of the forward
            output.
        roi: `[*ones, num_rois, 4]`. The corners x1, y1, x2, y2 of each region. Leading dimensions of size 1 may be
            added.
        batch_indices: `[*ones, num_rois]`. The image of each region, from 0 to batch - 1. Leading dimensions of size 1
            may be added.
        input: `[batch, channels, height, width]`. The images of the forward operator. MAX needs them, and so does
            output_roi_gradient_tensor.
        reduction_function: The function that reduces the samples of an output element. Only AVERAGE or MAX.
        interpolation_mode: How a sample between pixels is read.
        spatial_scale_x: The factor of x1 and x2.
        spatial_scale_y: The factor of y1 and y2.
        input_pixel_offset: The offset subtracted from a coordinate of the input: 0.5 where a pixel's coordinates are
            those of its centre.
        output_pixel_offset: The offset subtracted from a sample's number: -0.5 for the centres.
        minimum_samples_per_output: The least number of samples along an axis.
        maximum_samples_per_output: The largest number of samples along an axis.
        align_regions_to_corners: Whether the outermost samples lie on the corners of the region.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        The named tuple `ROIAlignGradOutputs` of these fields.

        - `gradient`: `[batch, channels, height, width]`. The gradient of the images. Without input_tensor nothing else
          determines its sizes.
        - `roi_gradient`: `[*ones, num_rois, 4]`. The gradient of the regions.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return ROIAlignGradOutputs(*several(
        "ROI_ALIGN_GRAD",
        input_tensor=input,
        input_gradient_tensor=input_gradient,
        roi_tensor=roi,
        batch_indices_tensor=batch_indices,
        reduction_function=reduction_function,
        interpolation_mode=interpolation_mode,
        spatial_scale_x=spatial_scale_x,
        spatial_scale_y=spatial_scale_y,
        input_pixel_offset=input_pixel_offset,
        output_pixel_offset=output_pixel_offset,
        minimum_samples_per_output=minimum_samples_per_output,
        maximum_samples_per_output=maximum_samples_per_output,
        align_regions_to_corners=align_regions_to_corners,
        output_sizes=output_sizes,
    ))


@refuse_others
def roi_pooling(
    input: Expression | Array,
    roi: Expression | Array,
    *,
    spatial_scale: float | str | floating[Any] = 1.0,
    pooled_size: Size2D | Mapping[str, Any],
) -> Expression:
    """ROI_POOLING: the maximum of each part of each region of interest.

    A region, scaled and rounded to whole pixels, both corners included, is cut into pooled_size parts; parts may
    overlap by a pixel. Part ox of a region of W = x2 - x1 + 1 columns has the columns from x1 + floor(ox * W / width)
    up to, not including, x1 + ceil((ox + 1) * W / width), of those inside the image; rows likewise. As in ONNX's
    MaxRoiPool halves are rounded away from 0, and a part without a pixel of the image is 0.

    ::

        output[r, c, oy, ox] = max of input[batch, c] over the part (oy, ox) of region r

    Args:
        input: `[batch, channels, height, width]`. The images.
        roi: `[1, 1, num_rois, 5]`. The batch index and the corners x1, y1, x2, y2 of each region, x2 at least x1 and y2
            at least y1.
        spatial_scale: The factor of the coordinates.
        pooled_size: Width and height of the output.

    Returns:
        `[num_rois, channels, pooled_height, pooled_width]`. The maximum of each part.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ROI_POOLING",
        input_tensor=input,
        roi_tensor=roi,
        spatial_scale=spatial_scale,
        pooled_size=pooled_size,
    )

