# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.convolution`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy import integer

from dmlpy.description.enums import ConvolutionDirection, ConvolutionMode
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one

if TYPE_CHECKING:
    from dmlpy.description.descs import FusableDesc


@refuse_others
def convolution(
    input: Expression | Array,
    filter: Expression | Array,
    bias: Expression | Array | None = None,
    *,
    mode: ConvolutionMode | str | int = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection | str | int = ConvolutionDirection.FORWARD,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    start_padding: Sequence[int] | None = None,
    end_padding: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group_count: int | integer[Any] = 1,
    fused_activation: FusableDesc | None = None,
    output_sizes: Sequence[int] | None = None,
) -> Expression:
    """CONVOLUTION: the convolution of a tensor with filters, forward or transposed.

    Forward, out = (spatial + start_padding + end_padding - (1 + (window - 1) * dilations)) // strides + 1; positions
    outside the input count as 0, and of several groups c are the channels of m's.

    Backward, the transposed convolution, each element of the input is multiplied by the filter and added to the output
    at i * strides + k * dilations - start_padding; out = (spatial - 1) * strides + 1 + (window - 1) * dilations -
    start_padding - end_padding + output_padding, and filters are [input_channels, output_channels / group_count,
    *window]. The strides are then steps in the output, and the padding is cut off of it.

    A dilation of 0 lets all elements of the filter meet the same element of the input, whose window is one long then;
    one of DirectML's authors calls it valid (issue 444 of webmachinelearning/webnn), and ONNX Runtime computes it so.

    DirectML takes the sizes of the output as they are described, and real programs describe others too. Backward, an
    output of up to strides - 1 more elements needs no output_padding. Forward, the gradient of a filter, whose window
    is a gradient with the forward strides as dilations, has fewer elements where those strides left a rest over.

    ::

        forward: y[n, m, o] = f(sum over c, k of x[n, c, o * strides + k * dilations - start_padding] * w[m, c, k] + bias[m])

    Args:
        input: `[batch, input_channels, *spatial]`. The input x. The spatial dimensions are height and width, a width
            alone, or depth, height and width.
        filter: `[output_channels, filter_channels, *window]`. The filters w. Backward, input and output channels change
            places.
        bias: `[1, output_channels, *ones]`. The bias of each output channel. If absent, nothing is added.
        mode: Whether the filter is flipped in each spatial dimension: CONVOLUTION flips it; neural networks use
            CROSS_CORRELATION.
        direction: BACKWARD is the transposed convolution.
        strides: The steps from one position of the window to the next, for each spatial dimension, the outermost first.
            At least 1; dimension_count entries. Default: 1 for each dimension.
        dilations: The steps from one element of the filter to the next along each spatial dimension: 1 where they are
            neighbours, 0 where all meet the same element of the input. Dimension_count entries. Default: 1 for each
            dimension.
        start_padding: The elements of padding before the first element of each spatial dimension. Default: 0 for each
            dimension.
        end_padding: The elements of padding after the last element of each spatial dimension. Default: 0 for each
            dimension.
        output_padding: Backward, the elements added to the output at the end of each spatial dimension; zeros where the
            output's sizes determine them. Forward, zeros. Dimension_count entries. Default: 0 for each dimension.
        group_count: The number of groups of channels, convolved separately: as many as input channels for a depth-wise
            convolution. At least 1.
        fused_activation: The function f of the result, described without tensors. If absent, the result is unchanged.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        `[batch, output_channels, *out]`. The result y.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "CONVOLUTION",
        input_tensor=input,
        filter_tensor=filter,
        bias_tensor=bias,
        mode=mode,
        direction=direction,
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
        output_padding=output_padding,
        group_count=group_count,
        fused_activation=fused_activation,
        output_sizes=output_sizes,
    )

