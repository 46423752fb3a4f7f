"""Max pooling, its gradient, and unpooling.

Indices count through a whole tensor, batch and channels included, as one packed array from 0.
"""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import After
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.markers import In, Out
from dmlpy.description.support import FLOATS, FLOATS_BYTES, FLOATS_INTEGERS_TO_64, UINT32, UNSIGNED_32_AND_64, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.pooling.windows import DilatedPoolingDesc, ForwardPoolingDesc


class MaxPoolingDesc(ForwardPoolingDesc, dml="MAX_POOLING"):
    """DML_MAX_POOLING_OPERATOR_DESC: the largest of each window's elements, for each batch entry and channel.

    Padding never wins, NaN always. Sizes are rounded down; where the output is described with sizes that are all rounded up, as for
    ONNX's ceil_mode, the last windows are cut off. A last window that would begin after the last element may be left out then, as
    ONNX and PyTorch do. A window that lies in the padding alone gives the least value of the type, -infinity of floating point.
    """

    formula = "y[o] = max over k of x[o * strides + k - start_padding]"
    support = (
        SupportRow("1_0", dims=(4, 5), T=FLOATS),
        SupportRow("3_0", dims=(4, 5), T=FLOATS_BYTES),
        SupportRow("5_0", dims=(4, 5), T=FLOATS_INTEGERS_TO_64),
    )


class IndexedPoolingDesc(ForwardPoolingDesc):
    """A max pooling that also returns the index of each maximum."""

    ranked = ("input_tensor", "output_tensor", "output_indices_tensor")

    output_indices_tensor: Annotated[TensorDesc | None, Out("batch channels *out", "Index"), After("output_tensor")] = None
    """The index of each maximum in the whole input, the lowest of equal ones. If absent, indices are not computed."""


class MaxPooling1Desc(IndexedPoolingDesc, dml="MAX_POOLING1"):
    """DML_MAX_POOLING1_OPERATOR_DESC: as MAX_POOLING, and returns the index of each maximum.

    Padding never wins, NaN always. Sizes are rounded down, or all up if the output is described so. An index counts through the whole
    input as one packed array, batch and channels included. A window that lies in the padding alone gives the least value of the type,
    -infinity of floating point, and the index 0.
    """

    formula = "y[o] = max over k of x[o * strides + k - start_padding]"
    support = (
        SupportRow("2_0", dims=(4, 5), T=FLOATS, Index=UINT32),
        SupportRow("3_0", dims=(4, 5), T=FLOATS_BYTES, Index=UINT32),
        SupportRow("5_0", dims=(4, 5), T=FLOATS_INTEGERS_TO_64, Index=UNSIGNED_32_AND_64),
    )


class MaxPooling2Desc(IndexedPoolingDesc, DilatedPoolingDesc, dml="MAX_POOLING2"):
    """DML_MAX_POOLING2_OPERATOR_DESC: as MAX_POOLING1, with a window whose elements may be dilated.

    Padding never wins, NaN always. Sizes are rounded down, or all up if the output is described so. An index counts through the whole
    input as one packed array, batch and channels included. A window that lies in the padding alone gives the least value of the type,
    -infinity of floating point, and the index 0.
    """

    formula = "y[o] = max over k of x[o * strides + k * dilations - start_padding]"
    support = (
        SupportRow("2_1", dims=(4, 5), T=FLOATS, Index=UINT32),
        SupportRow("3_0", dims=(4, 5), T=FLOATS_BYTES, Index=UINT32),
        SupportRow("5_0", dims=(4, 5), T=FLOATS_INTEGERS_TO_64, Index=UNSIGNED_32_AND_64),
    )


class MaxPoolingGradDesc(DilatedPoolingDesc, dml="MAX_POOLING_GRAD"):
    """DML_MAX_POOLING_GRAD_OPERATOR_DESC: the gradient of MAX_POOLING2 for its input.

    Each incoming element is added where its window has its maximum, the lowest index of equal ones; elsewhere the result is 0. That of a
    window in the padding alone is dropped.
    """

    formula = "dx[i] = sum of dy[o] over the windows o whose maximum is x[i]"
    support = (SupportRow("3_0", dims=4, T=FLOATS), SupportRow("4_0", dims=(4, 5), T=FLOATS))
    ranked = ("input_tensor", "input_gradient_tensor", "output_gradient_tensor")
    positioned = "input_gradient_tensor"

    input_tensor: Annotated[TensorDesc, In("batch channels *spatial"), After()]
    """The input x of the forward operator."""

    input_gradient_tensor: Annotated[TensorDesc, In("batch channels *out")]
    """The upstream gradient dy of the forward output."""

    output_gradient_tensor: Annotated[TensorDesc | None, Out("batch channels *spatial", required=True)] = None
    """The gradient dx of the forward input."""


class MaxUnpoolingDesc(OperatorDesc, dml="MAX_UNPOOLING"):
    """DML_MAX_UNPOOLING_OPERATOR_DESC: puts each element at its index among zeros: the inverse of MAX_POOLING1.

    No input determines the output's sizes: describe it. An index outside the output, or one that two elements share, is not defined.
    """

    formula = "y = 0; flat(y)[indices[i]] = x[i]"
    since = "2_0"
    support = (
        SupportRow("3_0", dims=4, T=FLOATS, Index=UINT32),
        SupportRow("5_0", dims=4, T=FLOATS_INTEGERS_TO_64, Index=UNSIGNED_32_AND_64),
    )

    input_tensor: Annotated[TensorDesc, In("batch channels height width")]
    """The elements x."""

    indices_tensor: Annotated[TensorDesc, In("batch channels height width", "Index")]
    """The index of each element in the whole output."""

    output_tensor: Annotated[TensorDesc, Out("output_batch output_channels output_height output_width")]
    """The result y, usually with the sizes of the pooling's input. No other member determines them."""
