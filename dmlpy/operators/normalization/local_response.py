"""Local response normalization, of each element by the squares of its neighbours, and its gradient."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.coercion import After, Bool, Float, Uint, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc


class LocalResponseDesc(OperatorDesc):
    """The base of the normalization and its gradient."""

    input_tensor: Annotated[TensorDesc, In("batch_count channel_count height width")]
    """The input x."""

    cross_channel: Bool
    """Whether the window is local_size channels. If not, it is local_size by local_size positions in height and width."""

    local_size: Annotated[Uint, Limits(least=1)]
    """How many elements the window has along each of its dimensions."""

    alpha: Float = default(0.0001)
    """The factor of the sum of squares, which is also divided by local_size."""

    beta: Float = default(0.75)
    """The power that the divisor is raised to."""

    bias: Float = default(1.0)
    """The number added to the scaled sum of squares."""


class LocalResponseNormalizationDesc(LocalResponseDesc, dml="LOCAL_RESPONSE_NORMALIZATION"):
    """DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC: divides each element by a power of the squares in a window around it.

    The window is clipped at the borders, the divisor local_size stays. Microsoft's pages contradict each other about cross_channel; it is
    read here as in ONNX and AlexNet. So is the window of an even local_size: it reaches one element further after the centre than before.
    """

    formula = "y = x / (bias + alpha / local_size * sum(x^2 over the window))^beta"
    support = (SupportRow("1_0", dims=4, T=FLOATS),)

    output_tensor: Annotated[TensorDesc | None, Out("batch_count channel_count height width", required=True), After("input_tensor")] = None
    """The normalized result y."""


class LocalResponseNormalizationGradDesc(LocalResponseDesc, dml="LOCAL_RESPONSE_NORMALIZATION_GRAD"):
    """DML_LOCAL_RESPONSE_NORMALIZATION_GRAD_OPERATOR_DESC: the gradient of LOCAL_RESPONSE_NORMALIZATION for its input."""

    formula = """\
d = bias + alpha / local_size * sum(x^2 over the window)
dx = dy / d^beta - 2 * alpha * beta / local_size * x * sum(dy * x / d^(beta + 1), over all whose window holds the element)"""
    support = (SupportRow("3_1", dims=4, T=FLOATS),)

    input_gradient_tensor: Annotated[TensorDesc, In("batch_count channel_count height width"), After("input_tensor")]
    """The upstream gradient dy."""

    output_gradient_tensor: Annotated[TensorDesc | None, Out("batch_count channel_count height width", required=True)] = None
    """The gradient dx of the input."""
