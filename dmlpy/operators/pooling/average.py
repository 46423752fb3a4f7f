"""Average pooling and its gradient."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import After, Bool
from dmlpy.description.markers import In, Out
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.pooling.windows import DilatedPoolingDesc, ForwardPoolingDesc, PoolingDesc


class AveragingDesc(PoolingDesc):
    """The base of the average poolings and their gradient."""

    include_padding: Bool
    """Whether the sum is divided by all elements of the window, or only by those inside the input."""


class AveragePoolingDesc(ForwardPoolingDesc, AveragingDesc, dml="AVERAGE_POOLING"):
    """DML_AVERAGE_POOLING_OPERATOR_DESC: the mean of each window's elements, for each batch entry and channel.

    Padding adds 0 to the sum. What a window that lies in the padding alone gives without include_padding is not defined. Sizes are
    rounded down; where the output is described with sizes that are all rounded up, as for ONNX's ceil_mode, the last windows are cut off:
    what lies beyond the padding is counted by no divisor. A last window that would begin after the last element may be left out then,
    as ONNX and PyTorch do.
    """

    formula = "y[o] = sum over k of x[o * strides + k - start_padding] / divisor"
    support = (SupportRow("1_0", dims=(4, 5), T=FLOATS),)


class AveragePooling1Desc(ForwardPoolingDesc, DilatedPoolingDesc, AveragingDesc, dml="AVERAGE_POOLING1"):
    """DML_AVERAGE_POOLING1_OPERATOR_DESC: as AVERAGE_POOLING, with a window whose elements may be dilated.

    DirectML's page prints the sizes of the output without dilations; they count here, as in MAX_POOLING2. What a window that lies in
    the padding alone gives without include_padding is not defined.
    """

    formula = "y[o] = sum over k of x[o * strides + k * dilations - start_padding] / divisor"
    support = (SupportRow("6_2", dims=(4, 5), T=FLOATS),)


class AveragePoolingGradDesc(AveragingDesc, dml="AVERAGE_POOLING_GRAD"):
    """DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC: the gradient of AVERAGE_POOLING for its input.

    Each incoming element, divided by its window's divisor, is added to every element that the window covers; padding's share is dropped.
    The outgoing gradient has the sizes of the forward input, which no input of this operator determines: describe it.
    """

    formula = "dx[i] = sum of dy[o] / divisor over the windows o that cover i"
    support = (SupportRow("3_0", dims=(4, 5), T=FLOATS),)
    ranked = ("input_gradient_tensor", "output_gradient_tensor")
    slid_over = "output_gradient_tensor"
    positioned = "input_gradient_tensor"

    input_gradient_tensor: Annotated[TensorDesc, In("batch channels *out"), After()]
    """The upstream gradient dy of the forward output."""

    output_gradient_tensor: Annotated[TensorDesc, Out("batch channels *spatial")]
    """The gradient dx of the forward input."""
