"""Activations: element-wise, and softmax and its like along an axis."""

from __future__ import annotations

from ctypes import c_float
from math import pi, prod, sqrt
from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.onnx.loading.elements import FLOATS
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import in_four

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

PLAIN: dict[str, Callable[..., Expression]] = {
    "Celu": x.activation_celu,
    "Elu": x.activation_elu,
    "HardSigmoid": x.activation_hard_sigmoid,
    "LeakyRelu": x.activation_leaky_relu,
    "Relu": x.activation_relu,
    "Selu": x.activation_scaled_elu,
    "Sigmoid": x.activation_sigmoid,
    "Softplus": x.activation_softplus,
    "Softsign": x.activation_softsign,
    "Tanh": x.activation_tanh,
    "ThresholdedRelu": x.activation_thresholded_relu,
}
"""Activations whose attributes have DirectML's names: alpha, beta, gamma."""
_BY_ROW: dict[str, Callable[[Expression], Expression]] = {
    "Hardmax": x.activation_hardmax,
    "LogSoftmax": x.activation_log_softmax,
    "Softmax": x.activation_softmax,
}
_BY_AXES: dict[str, Callable[..., Expression]] = {
    "Hardmax": x.activation_hardmax1,
    "LogSoftmax": x.activation_log_softmax1,
    "Softmax": x.activation_softmax1,
}


@lowers(*PLAIN)
def plain(node: Node) -> Expression:
    """The activation of this name, with ONNX's alpha, beta and gamma."""
    given = {name: node.attribute(name) for name in ("alpha", "beta", "gamma")}
    return PLAIN[node.op_type](*in_four(node.x(0)), **{name: value for name, value in given.items() if value is not None})


@lowers("PRelu")
def parameterized(node: Node) -> Expression:
    """ACTIVATION_PARAMETERIZED_RELU; strides broadcast the slope."""
    return x.activation_parameterized_relu(*in_four(node.x(0), node.x(1)))


@lowers("HardSwish")
def hard_swish(node: Node) -> Expression:
    """ACTIVATION_HARD_SWISH with ONNX's fixed coefficients, attributes of HardSigmoid in its body: 32-bit floats."""
    return x.activation_hard_swish(*in_four(node.x(0)), alpha=c_float(1 / 6).value, beta=0.5)


@lowers("Swish")
def swish(node: Node) -> Expression:
    """ACTIVATION_SWISH."""
    return x.activation_swish(*in_four(node.x(0)), sigmoid_input_scale=node.attribute("alpha", 1.0))


@lowers("Shrink")
def shrink(node: Node) -> Expression:
    """ACTIVATION_SHRINK; of the negated input for a negative lambd, since both conditions hold in between and ONNX tests -lambd first."""
    (data,), bias, threshold = in_four(node.x(0)), node.attribute("bias", 0.0), node.attribute("lambd", 0.5)
    if not threshold < 0:
        return x.activation_shrink(data, bias=bias, threshold=threshold)
    if data.data_type not in FLOATS:
        raise node.unsupported("lambd", "0 or more, where the elements are integers")
    turned = {"Scale": -1.0, "Bias": 0.0}
    return x.identity(x.activation_shrink(x.identity(data, scale_bias=turned), bias=bias, threshold=threshold), scale_bias=turned)


@lowers("Mish")
def mish(node: Node) -> Expression:
    """The input times ACTIVATION_TANH of ACTIVATION_SOFTPLUS."""
    (data,) = in_four(node.x(0))
    return x.multiply(data, x.activation_tanh(x.activation_softplus(data)))


@lowers("Gelu")
def gelu(node: Node) -> Expression:
    """ACTIVATION_GELU; the approximation `tanh` of products, ACTIVATION_TANH and a sum."""
    (data,) = in_four(node.x(0))
    if node.attribute("approximate", "none") == "none":
        return x.activation_gelu(data)
    inner = x.multiply(data, x.multiply(data, data) * (0.044715 * sqrt(2 / pi)) + sqrt(2 / pi))
    return x.multiply(data * 0.5, x.activation_tanh(inner) + 1.0)


@lowers(*_BY_ROW)
def coerced(node: Node) -> Expression:
    """ACTIVATION_SOFTMAX or its like of rows: all dimensions from the axis on are merged, as in opsets before 13."""
    sizes = node.sizes(0)
    axis = node.axis(node.attribute("axis", 1), len(sizes))
    return _BY_ROW[node.op_type](node.x(0).reshape(1, 1, prod(sizes[:axis]), prod(sizes[axis:])))


@lowers(*_BY_AXES, since=13)
def along_axis(node: Node) -> Expression:
    """ACTIVATION_SOFTMAX or its like along the last axis; ACTIVATION_SOFTMAX1 or its like along another one."""
    rank = node.rank(0)
    axis = node.axis(node.attribute("axis", -1), rank)
    if not rank or axis == rank - 1:
        size = node.sizes(0)[-1] if rank else 1
        return _BY_ROW[node.op_type](node.x(0).reshape(1, 1, -1, size))
    (data,) = in_four(node.x(0))
    return _BY_AXES[node.op_type](data, axes=[axis + len(data.sizes) - rank])
