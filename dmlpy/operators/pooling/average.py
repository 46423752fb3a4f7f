"""Average pooling and its gradient."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.structs import Bool, Uints
from dmlpy.description.support import FLOATS, Since
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.pooling.windows import DilatedPoolingDesc, PoolingDesc


class AveragePoolingDesc(PoolingDesc, dml="AVERAGE_POOLING"):
    """DML_AVERAGE_POOLING_OPERATOR_DESC: the mean of each window's elements, for each batch entry and channel.

    Padding adds 0 to the sum. What a window that lies in the padding alone gives without include_padding is not defined. Sizes are
    rounded down; where the output is described with sizes that are all rounded up, as for ONNX's ceil_mode, the last windows are cut off:
    what lies beyond the padding is counted by no divisor.

    Attributes:
        input_tensor: x, [batch, channels, height, width], or with a depth before the height.
        output_tensor: y, [batch, channels, *out], an element for each position of the window.
        strides: steps from one position of the window to the next, for each spatial dimension, the outermost first.
        window_size: elements of the window, likewise.
        start_padding: elements of padding before the first element of each spatial dimension.
        end_padding: elements of padding after the last one.
        include_padding: whether the sum is divided by all elements of the window, or by those inside the input only.
    """

    formula = "y[o] = sum over k of x[o * strides + k - start_padding] / divisor"
    support = (Since("1_0", dims=(4, 5), T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch channels *spatial")]
    output_tensor: Annotated[TensorDesc | None, Out("batch channels *out", required=True)] = None
    strides: Annotated[Uints, Limits(length="dimension_count", least=1)]
    window_size: Annotated[Uints, Limits(length="dimension_count", least=1)]
    start_padding: Uints
    end_padding: Uints
    include_padding: Bool


class AveragePooling1Desc(DilatedPoolingDesc, dml="AVERAGE_POOLING1"):
    """DML_AVERAGE_POOLING1_OPERATOR_DESC: as AVERAGE_POOLING, with a window whose elements may lie apart.

    DirectML's page prints the sizes of the output without dilations; they count here, as in MAX_POOLING2. What a window that lies in
    the padding alone gives without include_padding is not defined.

    Attributes:
        input_tensor: x, [batch, channels, height, width], or with a depth before the height.
        output_tensor: y, [batch, channels, *out], an element for each position of the window.
        strides: steps from one position of the window to the next, for each spatial dimension, the outermost first.
        window_size: elements of the window, likewise.
        start_padding: elements of padding before the first element of each spatial dimension.
        end_padding: elements of padding after the last one.
        dilations: steps from one element of the window to the next, likewise; 1 where they are neighbours.
        include_padding: whether the sum is divided by all elements of the window, or by those inside the input only.
    """

    formula = "y[o] = sum over k of x[o * strides + k * dilations - start_padding] / divisor"
    support = (Since("6_2", dims=(4, 5), T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch channels *spatial")]
    output_tensor: Annotated[TensorDesc | None, Out("batch channels *out", required=True)] = None
    strides: Annotated[Uints, Limits(length="dimension_count", least=1)]
    window_size: Annotated[Uints, Limits(length="dimension_count", least=1)]
    start_padding: Uints
    end_padding: Uints
    dilations: Annotated[Uints, Limits(length="dimension_count", least=1)]
    include_padding: Bool


class AveragePoolingGradDesc(PoolingDesc, dml="AVERAGE_POOLING_GRAD"):
    """DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC: the gradient of AVERAGE_POOLING for its input.

    Each incoming element, divided by its window's divisor, is added to every element that the window covers; padding's share is dropped.
    The outgoing gradient has the sizes of the forward input, which no input of this operator tells: describe it.

    Attributes:
        input_gradient_tensor: dy, of the sizes of the forward output: [batch, channels, *out].
        output_gradient_tensor: dx, of the sizes of the forward input: [batch, channels, *spatial].
        strides: steps from one position of the forward window to the next, for each spatial dimension, the outermost first.
        window_size: elements of the forward window, likewise.
        start_padding: elements of padding before the first element of each spatial dimension of the forward input.
        end_padding: elements of padding after the last one.
        include_padding: whether the forward sum was divided by all elements of the window, or by those inside the input only.
    """

    formula = "dx[i] = sum of dy[o] / divisor over the windows o that cover i"
    support = (Since("3_0", dims=(4, 5), T=FLOATS),)
    ranked = ("input_gradient_tensor", "output_gradient_tensor")
    slid_over = "output_gradient_tensor"
    positioned = "input_gradient_tensor"

    input_gradient_tensor: Annotated[TensorDesc, In("batch channels *out")]
    output_gradient_tensor: Annotated[TensorDesc, Out("batch channels *spatial")]
    strides: Annotated[Uints, Limits(length="dimension_count", least=1)]
    window_size: Annotated[Uints, Limits(length="dimension_count", least=1)]
    start_padding: Uints
    end_padding: Uints
    include_padding: Bool
