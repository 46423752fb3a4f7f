"""Activations, alone and fused."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.elementwise import stored
from dmlpy.onnx.exporting.rules.ranges import limited
from dmlpy.onnx.loading.elements import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value

_PLAIN: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "CELU": ("Celu", {"alpha": "alpha"}),
    "ELU": ("Elu", {"alpha": "alpha"}),
    "GELU": ("Gelu", {}),
    "HARD_SIGMOID": ("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    "IDENTITY": ("Identity", {}),
    "LEAKY_RELU": ("LeakyRelu", {"alpha": "alpha"}),
    "RELU": ("Relu", {}),
    "SCALED_ELU": ("Selu", {"alpha": "alpha", "gamma": "gamma"}),
    "SHRINK": ("Shrink", {"bias": "bias", "lambd": "threshold"}),
    "SIGMOID": ("Sigmoid", {}),
    "SOFTSIGN": ("Softsign", {}),
    "TANH": ("Tanh", {}),
    "THRESHOLDED_RELU": ("ThresholdedRelu", {"alpha": "alpha"}),
}
"""The activations that ONNX has, with its attributes and the members that hold them."""

_COMPOSED: Mapping[str, Callable[[Any, Value], Value]] = {
    "HARD_SWISH": lambda desc, x: x * x.apply("HardSigmoid", alpha=desc.alpha, beta=desc.beta),
    "LINEAR": lambda desc, x: x * desc.alpha + desc.beta,
    "PARAMETRIC_SOFTPLUS": lambda desc, x: x.times(desc.beta).apply("Softplus").times(desc.alpha),
    "SCALED_TANH": lambda desc, x: x.times(desc.beta).apply("Tanh").times(desc.alpha),
    "SOFTPLUS": lambda desc, x: _softplus(desc, x),
    "SWISH": lambda desc, x: x * x.times(desc.sigmoid_input_scale).apply("Sigmoid"),
}
_GROUPED = {"HARDMAX": "Hardmax", "LOG_SOFTMAX": "LogSoftmax", "SOFTMAX": "Softmax"}


def export_activation(desc: Any, x: Value, rank: int) -> Value:
    """Applies an activation, or a fused CLIP, to a value.

    Args:
        desc: the activation; it may be a fused one, without tensors. Softmax and its like apply along the last axis.
        x: the value.
        rank: its number of dimensions.
    """
    name = desc.short_name().removeprefix("ACTIVATION_")
    if name == "SHRINK" and desc.threshold < 0:
        return _shrunk_twice(desc, x.wide()).cast(x.element)
    if name in _PLAIN:
        op_type, members = _PLAIN[name]
        return x.apply(op_type, **{attribute: getattr(desc, member) for attribute, member in members.items()})
    if name in _GROUPED:
        return x.apply(_GROUPED[name], axis=rank - 1)
    if name == "ELEMENT_WISE_CLIP":
        change = desc.scale_bias
        x = x if change is None else x * change.scale + change.bias
        return limited(x, desc.min, desc.max, least_first=True)
    return _COMPOSED[name](desc, x.wide()).cast(x.element)


def _shrunk_twice(desc: Any, x: Value) -> Value:
    """SHRINK with a negative threshold: both conditions hold in between, where ONNX applies the first and DirectML the last."""
    threshold, bias = float(desc.threshold), float(desc.bias)
    return (x > threshold).where(x - bias, (x < -threshold).where(x + bias, 0.0))


def _softplus(desc: Any, x: Value) -> Value:
    return x.apply("Softplus") if desc.steepness == 1 else (x * desc.steepness).apply("Softplus") / desc.steepness


@exports(*(f"ACTIVATION_{name}" for name in (*_PLAIN, *_COMPOSED, *_GROUPED)))
def activation(node: Node) -> Value:
    """The activation of every element, or along the last axis."""
    x, rank = node.x("input_tensor"), len(node.sizes("input_tensor"))
    if x.is_float or node.name != "ACTIVATION_SHRINK":
        return export_activation(node.desc, x, rank)
    # Integers are computed in floating point and clamped to their range.
    return stored(export_activation(node.desc, x.cast(TensorProto.DOUBLE), rank), node.tensor("output_tensor").data_type)


@exports("ACTIVATION_HARDMAX1", "ACTIVATION_LOG_SOFTMAX1", "ACTIVATION_SOFTMAX1")
def of_axes(node: Node) -> Value:
    """ONNX's function along one axis; several axes are merged into one."""
    op_type = _GROUPED[node.name.removeprefix("ACTIVATION_")[:-1]]
    x, sizes, axes = node.x("input_tensor"), node.sizes("input_tensor"), sorted(set(node.desc.axes))
    if len(axes) == 1:
        return x.apply(op_type, axis=axes[0])
    rows, order = in_rows(x, sizes, axes)
    result = rows.apply(op_type, axis=len(sizes) - len(axes))
    return result.reshape([sizes[axis] for axis in order]).transpose(np.argsort(order).tolist())


def in_rows(x: Value, sizes: Sequence[int], axes: Sequence[int]) -> tuple[Value, list[int]]:
    """The groups along some axes as rows, and the permutation for it: [*others, group]."""
    kept = [axis for axis in range(len(sizes)) if axis not in axes]
    order = [*kept, *axes]
    return x.transpose(order).reshape([*(sizes[axis] for axis in kept), prod(sizes[axis] for axis in axes)]), order


@exports("ACTIVATION_PARAMETERIZED_RELU")
def parameterized_relu(node: Node) -> Value:
    """PRelu."""
    return node.x("input_tensor").apply("PRelu", node.once("slope_tensor"))


@exports("ACTIVATION_RELU_GRAD")
def relu_gradient(node: Node) -> Value:
    """The gradient where the input is above 0."""
    x, gradient = node.together("input_tensor", "input_gradient_tensor")
    nothing = node.writer.constant(np.zeros((), dtype_of(gradient.element)))
    return (x > 0).where(gradient, nothing)
