"""Local response normalization: each element by the squares of its neighbours; and its gradient."""

from __future__ import annotations

from typing import Annotated

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.markers import In, Limits, Out
from dmlpy.description.structs import Bool, Float, Uint, default
from dmlpy.description.support import FLOATS, Since
from dmlpy.description.tensors import TensorDesc


class LocalResponseNormalizationDesc(OperatorDesc, dml="LOCAL_RESPONSE_NORMALIZATION"):
    """DML_LOCAL_RESPONSE_NORMALIZATION_OPERATOR_DESC: divides each element by a power of the squares in a window around it.

    The window is clipped at the borders, the divisor local_size stays. Microsoft's pages contradict each other about cross_channel; it is
    read here as in ONNX and AlexNet. So is the window of an even local_size: it reaches one element further after its own than before.

    Attributes:
        input_tensor: x, [N, C, H, W].
        output_tensor: y, the input's sizes.
        cross_channel: whether the window is local_size channels; False: local_size by local_size positions in height and width.
        local_size: how many elements the window has along each of its dimensions. Microsoft's page does not tell where an even one has its
            centre; in ONNX it reaches one element further on than back.
        alpha: what the sum of squares is multiplied by; 0.0001 in Python if left out.
        beta: the power; 0.75 in Python if left out.
        bias: what is added to the sum; 1 in Python if left out.
    """

    formula = "y = x / (bias + alpha / local_size * sum(x^2 over the window))^beta"
    support = (Since("1_0", dims=4, T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch_count channel_count height width")]
    output_tensor: Annotated[TensorDesc | None, Out("batch_count channel_count height width", required=True)] = None
    cross_channel: Bool
    local_size: Annotated[Uint, Limits(least=1)]
    alpha: Float = default(0.0001)
    beta: Float = default(0.75)
    bias: Float = default(1.0)


class LocalResponseNormalizationGradDesc(OperatorDesc, dml="LOCAL_RESPONSE_NORMALIZATION_GRAD"):
    """DML_LOCAL_RESPONSE_NORMALIZATION_GRAD_OPERATOR_DESC: the gradient of LOCAL_RESPONSE_NORMALIZATION for its input.

    Attributes:
        input_tensor: x as the forward operator had it, [N, C, H, W].
        input_gradient_tensor: dy, the upstream gradient, the input's sizes.
        output_gradient_tensor: dx, the input's sizes.
        cross_channel: as the forward operator had it.
        local_size: as the forward operator had it.
        alpha: as the forward operator had it; 0.0001 in Python if left out.
        beta: as the forward operator had it; 0.75 in Python if left out.
        bias: as the forward operator had it; 1 in Python if left out.
    """

    formula = """\
d = bias + alpha / local_size * sum(x^2 over the window)
dx = dy / d^beta - 2 * alpha * beta / local_size * x * sum(dy * x / d^(beta + 1), over all whose window holds the element)"""
    support = (Since("3_1", dims=4, T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch_count channel_count height width")]
    input_gradient_tensor: Annotated[TensorDesc, In("batch_count channel_count height width")]
    output_gradient_tensor: Annotated[TensorDesc | None, Out("batch_count channel_count height width", required=True)] = None
    cross_channel: Bool
    local_size: Annotated[Uint, Limits(least=1)]
    alpha: Float = default(0.0001)
    beta: Float = default(0.75)
    bias: Float = default(1.0)
