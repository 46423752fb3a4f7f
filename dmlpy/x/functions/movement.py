# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.movement`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy import dtype, floating, generic, integer, number

from dmlpy.description.enums import DataType, DepthSpaceOrder, PaddingMode
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one, several



@refuse_others
def cast(
    input: Expression | Array,
    *,
    output_data_type: DataType | str | int | dtype[Any] | type[generic],
) -> Expression:
    """CAST: converts each element to the output's type, by value.

    As with a static_cast of C++: from a float to an integer the fraction is dropped, integers wrap around in smaller
    ones. Floats that an integer type cannot hold are not defined by the reference: here they become the nearest number
    of the type, and NaN becomes 0.

    ::

        output = static_cast<type of output>(input)

    Args:
        input: `[*sizes]`. The numbers to convert.
        output_data_type: The data type of the result.

    Returns:
        `[*sizes]`. The converted numbers. Its type is the type that is converted to.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "CAST",
        input_tensor=input,
        output_data_type=output_data_type,
    )


@refuse_others
def depth_to_space(
    input: Expression | Array,
    *,
    block_size: int | integer[Any],
) -> Expression:
    """DEPTH_TO_SPACE: moves channels into blocks of the image, the inverse of SPACE_TO_DEPTH.

    The same as DEPTH_TO_SPACE1 with the order DEPTH_COLUMN_ROW.

    ::

        output[n, c, h * B + by, w * B + bx] = input[n, (by * B + bx) * C + c, h, w], B = block_size, C = output_channel_count

    Args:
        input: `[batch_count, input_channel_count, input_height, input_width]`. The image before the blocks are moved.
        block_size: The side of a square block. At least 1.

    Returns:
        `[batch_count, output_channel_count, output_height, output_width]`. The image after the blocks are moved.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "DEPTH_TO_SPACE",
        input_tensor=input,
        block_size=block_size,
    )


@refuse_others
def depth_to_space1(
    input: Expression | Array,
    *,
    block_size: int | integer[Any],
    order: DepthSpaceOrder | str | int,
) -> Expression:
    """DEPTH_TO_SPACE1: moves channels into blocks of the image, the inverse of SPACE_TO_DEPTH1.

    ::

        output[n, c, h * B + by, w * B + bx] = input[n, k, h, w], B = block_size, k by order

    Args:
        input: `[batch_count, input_channel_count, input_height, input_width]`. The image before the blocks are moved.
        block_size: The side of a square block. At least 1.
        order: How the input's channels are counted: k = (by * B + bx) * C + c for DEPTH_COLUMN_ROW, (c * B + by) * B +
            bx for COLUMN_ROW_DEPTH.

    Returns:
        `[batch_count, output_channel_count, output_height, output_width]`. The image after the blocks are moved.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "DEPTH_TO_SPACE1",
        input_tensor=input,
        block_size=block_size,
        order=order,
    )


@refuse_others
def fold(
    input: Expression | Array,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    output_sizes: Sequence[int],
) -> Expression:
    """FOLD: sums sliding blocks, one per column, into an image. The transpose of UNFOLD.

    Columns count the blocks' positions in row-major order; a column's elements count channels, then places in the
    block, also in that order. What falls outside the image is dropped. No member but the output determines the image's
    sizes. The reference names no element types: FLOAT32 and FLOAT16 are taken. Columns may have leading dimensions of
    1.

    ::

        output[n, c, position * strides + w * dilations - start_padding] += input[n, (c, w), position]

    Args:
        input: `[batch_count, column_size, block_count]`. The columns, each a block of all channels.
        window_sizes: The elements of a block along each spatial dimension. At least 1; dimension_count entries.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        dilations: The steps from one element of a block to the next along each spatial dimension. At least 1;
            dimension_count entries. Default: 1 for each dimension.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        `[batch_count, channel_count, *spatial]`. The image, of 1 to 6 spatial dimensions.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "FOLD",
        input_tensor=input,
        window_sizes=window_sizes,
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
        output_sizes=output_sizes,
    )


@refuse_others
def join(
    inputs: Sequence[Expression | Array],
    *,
    axis: int | integer[Any],
) -> Expression:
    """JOIN: concatenates tensors along an axis, the inverse of SPLIT.

    ::

        output = input[0] | input[1] | ... along axis

    Args:
        inputs: `[*sizes]` each. The parts in order, at least one.
        axis: The dimension that the operator works along, the only one in which the tensors' sizes may differ. A
            dimension, 0 to len(sizes) - 1.

    Returns:
        `[*joined]`. The parts joined.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "JOIN",
        input_tensors=inputs,
        axis=axis,
    )


@refuse_others
def padding(
    input: Expression | Array,
    *,
    padding_mode: PaddingMode | str | int = PaddingMode.CONSTANT,
    padding_value: float | str | floating[Any] = 0.0,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> Expression:
    """PADDING: adds a margin around a tensor.

    Modes: CONSTANT writes padding_value; EDGE repeats the outermost elements; REFLECTION mirrors without them,
    SYMMETRIC with them; WRAP starts over from the other side. A margin wider than the input folds over and over. What
    REFLECTION does in a dimension of size 1, the reference does not define; here it repeats the element.

    ::

        output[o] = input[m(o - start_padding)], in each dimension of size n m(p) = p for 0 <= p < n, and outside
        EDGE m(p) = min(max(p, 0), n - 1), WRAP m(p) = p mod n
        REFLECTION m(p) = min(q, 2n - 2 - q) for q = p mod (2n - 2), SYMMETRIC m(p) = min(q, 2n - 1 - q) for q = p mod 2n
        CONSTANT output[o] = padding_value where any coordinate is outside

    Args:
        input: `[*sizes]`. The tensor that gets a margin.
        padding_mode: The values of the margin. SYMMETRIC from feature level 3_0 on; WRAP from feature level 6_4 on.
        padding_value: The value that CONSTANT writes. For tensors of integers it is rounded toward zero and held within
            their range. Other modes ignore it.
        start_padding: The elements added before the first one of each dimension. Len(sizes) entries.
        end_padding: The elements added after the last one of each dimension. Len(sizes) entries.

    Returns:
        `[*padded]`. The tensor with its margin.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "PADDING",
        input_tensor=input,
        padding_mode=padding_mode,
        padding_value=padding_value,
        start_padding=start_padding,
        end_padding=end_padding,
    )


@refuse_others
def padding1(
    input: Expression | Array,
    *,
    padding_mode: PaddingMode | str | int = PaddingMode.CONSTANT,
    padding_value_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    padding_value: int | float | str | Mapping[str, Any] | number[Any] = 0,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> Expression:
    """PADDING1: adds a margin around a tensor, with a value of the tensor's type.

    Modes: CONSTANT writes padding_value; EDGE repeats the outermost elements; REFLECTION mirrors without them,
    SYMMETRIC with them; WRAP starts over from the other side. A margin wider than the input folds over and over. What
    REFLECTION does in a dimension of size 1, the reference does not define; here it repeats the element.

    ::

        output[o] = input[m(o - start_padding)], in each dimension of size n m(p) = p for 0 <= p < n, and outside
        EDGE m(p) = min(max(p, 0), n - 1), WRAP m(p) = p mod n
        REFLECTION m(p) = min(q, 2n - 2 - q) for q = p mod (2n - 2), SYMMETRIC m(p) = min(q, 2n - 1 - q) for q = p mod 2n
        CONSTANT output[o] = padding_value where any coordinate is outside

    Args:
        input: `[*sizes]`. The tensor that gets a margin.
        padding_mode: The values of the margin. SYMMETRIC exists from the operator's first level on. WRAP from feature
            level 6_4 on.
        padding_value_data_type: The type of padding_value. The element type of output_tensor. Default: the type of the
            input.
        padding_value: The value that CONSTANT writes. Other modes ignore it.
        start_padding: The elements added before the first one of each dimension. Len(sizes) entries.
        end_padding: The elements added after the last one of each dimension. Len(sizes) entries.

    Returns:
        `[*padded]`. The tensor with its margin.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "PADDING1",
        input_tensor=input,
        padding_mode=padding_mode,
        padding_value_data_type=padding_value_data_type,
        padding_value=padding_value,
        start_padding=start_padding,
        end_padding=end_padding,
    )


@refuse_others
def reverse_subsequences(
    input: Expression | Array,
    sequence_lengths: Expression | Array,
    *,
    axis: int | integer[Any],
) -> Expression:
    """REVERSE_SUBSEQUENCES: reverses the first elements of each sequence along an axis; the others stay.

    A length larger than the sequence is the whole sequence; lengths of 0 and 1 change nothing.

    ::

        output[i] = input[L - 1 - i] for i < L, else input[i], along axis, for L = min(sequence_length, size)

    Args:
        input: `[*sizes]`. The sequences.
        sequence_lengths: `[*lengths]`. How many elements of each sequence are reversed.
        axis: The dimension that the operator works along, the only one in which the tensors' sizes may differ. A
            dimension, 0 to len(sizes) - 1.

    Returns:
        `[*sizes]`. The sequences with their first elements reversed.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "REVERSE_SUBSEQUENCES",
        input_tensor=input,
        sequence_lengths_tensor=sequence_lengths,
        axis=axis,
    )


@refuse_others
def slice(
    input: Expression | Array,
    *,
    offsets: Sequence[int],
    slice_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Expression:
    """SLICE: copies a window of a tensor, all its elements or one in every few.

    ::

        output[o] = input[offsets + strides * o]

    Args:
        input: `[*sizes]`. The tensor that the window lies in.
        offsets: The index of the window's first element in each dimension. Len(sizes) entries.
        slice_sizes: How many elements are copied in each dimension: the member Sizes of the C struct. At least 1;
            len(sizes) entries.
        strides: The step from one copied element to the next in each dimension. Len(sizes) entries. Default: 1 for each
            dimension.

    Returns:
        `[*sliced]`. The elements that are copied.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "SLICE",
        input_tensor=input,
        offsets=offsets,
        slice_sizes=slice_sizes,
        strides=strides,
    )


@refuse_others
def slice1(
    input: Expression | Array,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int] | None = None,
) -> Expression:
    """SLICE1: copies a window of a tensor, all its elements or one in every few, forwards or backwards.

    ::

        output[o] = input[start + stride * o], start = offset for a positive stride, offset + window - 1 for a negative one

    Args:
        input: `[*sizes]`. The tensor that the window lies in.
        input_window_offsets: The index of the window's first element in each dimension. Len(sizes) entries.
        input_window_sizes: How many elements the window covers in each dimension. At least 1; len(sizes) entries.
        input_window_strides: The step from one element taken to the next in each dimension. A negative one starts at
            the window's last element. Not 0; len(sizes) entries. Default: 1 for each dimension.

    Returns:
        `[*sliced]`. The elements that are copied. A smaller tensor than the window allows copies fewer.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "SLICE1",
        input_tensor=input,
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=input_window_strides,
    )


@refuse_others
def slice_grad(
    input_gradient: Expression | Array,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int] | None = None,
    output_sizes: Sequence[int],
) -> Expression:
    """SLICE_GRAD: the gradient of SLICE1's input: its output's gradient at the places copied from, else 0.

    ::

        output_gradient = 0, then output_gradient[start + stride * o] = input_gradient[o], start as in SLICE1

    Args:
        input_gradient: `[*sliced]`. The gradient of SLICE1's output.
        input_window_offsets: The index of the window's first element in each dimension. Len(sizes) entries.
        input_window_sizes: How many elements the window covers in each dimension. At least 1; len(sizes) entries.
        input_window_strides: The step from one element taken to the next in each dimension. A negative one starts at
            the window's last element. Not 0; len(sizes) entries. Default: 1 for each dimension.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        `[*sizes]`. The gradient of SLICE1's input. No other member determines its sizes.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "SLICE_GRAD",
        input_gradient_tensor=input_gradient,
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=input_window_strides,
        output_sizes=output_sizes,
    )


@refuse_others
def space_to_depth(
    input: Expression | Array,
    *,
    block_size: int | integer[Any],
) -> Expression:
    """SPACE_TO_DEPTH: moves blocks of the image into channels, the inverse of DEPTH_TO_SPACE.

    The same as SPACE_TO_DEPTH1 with the order DEPTH_COLUMN_ROW.

    ::

        output[n, (by * B + bx) * C + c, h, w] = input[n, c, h * B + by, w * B + bx], B = block_size, C = input_channel_count

    Args:
        input: `[batch_count, input_channel_count, input_height, input_width]`. The image before the blocks are moved.
        block_size: The side of a square block. At least 1.

    Returns:
        `[batch_count, output_channel_count, output_height, output_width]`. The image after the blocks are moved.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "SPACE_TO_DEPTH",
        input_tensor=input,
        block_size=block_size,
    )


@refuse_others
def space_to_depth1(
    input: Expression | Array,
    *,
    block_size: int | integer[Any],
    order: DepthSpaceOrder | str | int,
) -> Expression:
    """SPACE_TO_DEPTH1: moves blocks of the image into channels, the inverse of DEPTH_TO_SPACE1.

    ::

        output[n, k, h, w] = input[n, c, h * B + by, w * B + bx], B = block_size, k by order

    Args:
        input: `[batch_count, input_channel_count, input_height, input_width]`. The image before the blocks are moved.
        block_size: The side of a square block. At least 1.
        order: How the output's channels are counted: k = (by * B + bx) * C + c for DEPTH_COLUMN_ROW, (c * B + by) * B +
            bx for COLUMN_ROW_DEPTH.

    Returns:
        `[batch_count, output_channel_count, output_height, output_width]`. The image after the blocks are moved.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "SPACE_TO_DEPTH1",
        input_tensor=input,
        block_size=block_size,
        order=order,
    )


@refuse_others
def split(
    input: Expression | Array,
    *,
    axis: int | integer[Any],
    output_axis_sizes: Sequence[int],
) -> tuple[Expression, ...]:
    """SPLIT: cuts a tensor into parts along an axis, the inverse of JOIN.

    The sizes of the outputs determine where to cut, so all outputs must be described.

    ::

        output[0] | output[1] | ... along axis = input

    Args:
        input: `[*sizes]`. The tensor to cut.
        axis: The dimension that the operator works along, the only one in which the tensors' sizes may differ. A
            dimension, 0 to len(sizes) - 1.
        output_axis_sizes: The sizes of the parts along the axis.

    Returns:
        `[*sizes]`. The parts in order, at least one. Along axis their sizes add up to the input's.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return several(
        "SPLIT",
        input_tensor=input,
        axis=axis,
        output_axis_sizes=output_axis_sizes,
    )


@refuse_others
def tile(
    input: Expression | Array,
    *,
    repeats: Sequence[int],
) -> Expression:
    """TILE: repeats the whole input along each dimension.

    ::

        output[o] = input[o mod sizes]

    Args:
        input: `[*sizes]`. The tensor to repeat.
        repeats: How often the input is repeated along each dimension. At least 1; len(sizes) entries.

    Returns:
        `[*tiled]`. The repetitions side by side.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "TILE",
        input_tensor=input,
        repeats=repeats,
    )


@refuse_others
def unfold(
    input: Expression | Array,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
) -> Expression:
    """UNFOLD: copies sliding blocks of an image into columns. The transpose of FOLD.

    Columns count the blocks' positions in row-major order; a column's elements count channels, then places in the
    block, also in that order. Outside the image there are zeros. The reference names no element types: FLOAT32 and
    FLOAT16 are taken. Columns may have leading dimensions of 1.

    ::

        output[n, (c, w), position] = input[n, c, position * strides + w * dilations - start_padding]

    Args:
        input: `[batch_count, channel_count, *spatial]`. The image, of 1 to 6 spatial dimensions.
        window_sizes: The elements of a block along each spatial dimension. At least 1; dimension_count entries.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        dilations: The steps from one element of a block to the next along each spatial dimension. At least 1;
            dimension_count entries. Default: 1 for each dimension.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.

    Returns:
        `[batch_count, column_size, block_count]`. The columns, each a block of all channels.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "UNFOLD",
        input_tensor=input,
        window_sizes=window_sizes,
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
    )

