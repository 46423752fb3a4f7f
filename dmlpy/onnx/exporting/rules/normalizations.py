"""Normalizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.loading.elements import dtype_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


@exports("BATCH_NORMALIZATION", wide=True)
def batch(node: Node) -> Value:
    """BatchNormalization for statistics per channel; else its arithmetic."""
    names = ("scale_tensor", "bias_tensor", "mean_tensor", "variance_tensor")
    sizes = node.sizes("input_tensor")
    by_channel = [1, sizes[1], *[1] * (len(sizes) - 2)] if len(sizes) > 1 else []
    if all(list(node.sizes(name)) == by_channel for name in names):
        parameters = [node.vector(name) for name in names]
        return node.x("input_tensor").apply("BatchNormalization", *parameters, epsilon=node.desc.epsilon)
    scale, bias, mean, variance = (node.x(name) for name in names)
    return scale * normalize(node.x("input_tensor"), mean, variance, node.desc.epsilon) + bias


def normalize(x: Value, mean: Value, variance: Value, epsilon: float) -> Value:
    """Subtracts the mean from a value and divides it by the standard deviation."""
    return (x - mean) / (variance + epsilon).apply("Sqrt")


def repeat(sizes: Sequence[int]) -> list[int]:
    """The dimensions along which a statistic of these sizes repeats."""
    return [axis for axis, size in enumerate(sizes) if size == 1]


@exports("BATCH_NORMALIZATION_TRAINING", wide=True)
def batch_training(node: Node) -> dict[str, Value]:
    """The statistics by ReduceMean, and the arithmetic of the normalization."""
    x, scale = node.x("input_tensor"), node.x("scale_tensor")
    axes = repeat(node.sizes("scale_tensor"))
    mean = x.reduce("ReduceMean", axes)
    centred = x - mean
    variance = (centred * centred).reduce("ReduceMean", axes)
    output = scale * normalize(x, mean, variance, node.desc.epsilon) + node.x("bias_tensor")
    if node.has("fused_add_tensor"):
        output = output + node.x("fused_add_tensor")
    return {"output_tensor": output, "output_mean_tensor": mean, "output_variance_tensor": variance}


@exports("BATCH_NORMALIZATION_GRAD", "BATCH_NORMALIZATION_TRAINING_GRAD", wide=True)
def batch_gradient(node: Node) -> dict[str, Value]:
    """The gradients by their formulas."""
    x, gradient, mean, variance, scale = (node.x(f"{name}_tensor") for name in ("input", "input_gradient", "mean", "variance", "scale"))
    epsilon, axes = node.desc.epsilon, repeat(node.sizes("mean_tensor"))
    deviation = (variance + epsilon).apply("Sqrt")
    inner = gradient
    if node.name == "BATCH_NORMALIZATION_TRAINING_GRAD":
        centred = x - x.reduce("ReduceMean", axes)
        through_variance = (gradient * centred).reduce("ReduceMean", axes) / (variance + epsilon)
        inner = gradient - gradient.reduce("ReduceMean", axes) - centred * through_variance
    return {
        "output_gradient_tensor": scale / deviation * inner,
        "output_scale_gradient_tensor": (gradient * normalize(x, mean, variance, epsilon)).reduce("ReduceSum", axes),
        "output_bias_gradient_tensor": gradient.reduce("ReduceSum", axes),
    }


@exports("MEAN_VARIANCE_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION1", "MEAN_VARIANCE_NORMALIZATION2", wide=True)
def mean_variance(node: Node) -> Value:
    """LayerNormalization or InstanceNormalization if their groups are the same; else the arithmetic."""
    desc, x, sizes = node.desc, node.x("input_tensor"), node.sizes("input_tensor")
    axes = sorted(set(getattr(desc, "axes", (1, 2, 3) if getattr(desc, "cross_channel", False) else (2, 3))))
    centres = getattr(desc, "use_mean", True)
    divides = getattr(desc, "use_variance", None)
    divides = desc.normalize_variance if divides is None else divides
    scale, bias = node.maybe("scale_tensor"), node.maybe("bias_tensor")
    if centres and divides and (output := _as_one(node, x, sizes, axes)) is not None:
        return output
    if centres:
        x = x - x.reduce("ReduceMean", axes)
    if divides:
        x = x / ((x * x).reduce("ReduceMean", axes) + desc.epsilon).apply("Sqrt")
    x = x if scale is None else x * scale
    return x if bias is None else x + bias


def _as_one(node: Node, x: Value, sizes: Sequence[int], axes: list[int]) -> Value | None:
    """The normalization as one ONNX operator; None if none has its groups and the sizes of its parameters."""
    first = len(sizes) - len(axes)
    grouped = [1] * first + list(sizes[first:])
    by_channel = [1, *sizes[1:2], *[1] * (len(sizes) - 2)]
    affine = [name for name in ("scale_tensor", "bias_tensor") if node.has(name)]
    if first < 1 or axes != list(range(first, len(sizes))):
        return None
    if all(list(node.sizes(name)) == grouped for name in affine):
        shape = sizes[first:]
        scale, bias = (_parameter(node, name, shape, x, absent) for name, absent in (("scale_tensor", 1), ("bias_tensor", 0)))
        return x.apply("LayerNormalization", scale, bias, axis=first, epsilon=node.desc.epsilon)
    if first == 2 and all(list(node.sizes(name)) == by_channel for name in affine):
        scale, bias = (_parameter(node, name, sizes[1:2], x, absent) for name, absent in (("scale_tensor", 1), ("bias_tensor", 0)))
        return x.apply("InstanceNormalization", scale, bias, epsilon=node.desc.epsilon)
    return None


def _parameter(node: Node, name: str, sizes: Sequence[int], like: Value, absent: float) -> Value:
    if node.has(name):
        return node.x(name).reshape(sizes)
    return node.writer.constant(np.full(sizes, absent, dtype_of(like.element)))


@exports("LP_NORMALIZATION", wide=True)
def lp(node: Node) -> Value:
    """The norm by ReduceL1 or ReduceL2, at least epsilon; by powers for any other p."""
    x, axis, p = node.x("input_tensor"), [node.desc.axis], node.desc.p
    if p in (1, 2):
        norm = x.reduce(f"ReduceL{p}", axis)
    else:
        norm = x.apply("Abs").apply("Pow", x.like(p)).reduce("ReduceSum", axis).apply("Pow", x.like(1 / p))
    return x / norm.at_least(node.desc.epsilon)


@exports("LOCAL_RESPONSE_NORMALIZATION", wide=True)
def local_response(node: Node) -> Value:
    """LRN across channels; over height and width the squares' sums by AveragePool."""
    desc, x = node.desc, node.x("input_tensor")
    if desc.cross_channel:
        return x.apply("LRN", size=desc.local_size, alpha=desc.alpha, beta=desc.beta, bias=desc.bias)
    return x / _divisors(node, x).apply("Pow", x.like(desc.beta))


@exports("LOCAL_RESPONSE_NORMALIZATION_GRAD", wide=True)
def local_response_gradient(node: Node) -> Value:
    """The gradient by its formula."""
    desc, x, gradient = node.desc, node.x("input_tensor"), node.x("input_gradient_tensor")
    divisors = _divisors(node, x)
    others = _window_sums(node, gradient * x / divisors.apply("Pow", x.like(desc.beta + 1)), mirrored=True)
    direct = gradient / divisors.apply("Pow", x.like(desc.beta))
    factor: float = 2 * desc.alpha * desc.beta / desc.local_size
    return direct - x * factor * others


def _divisors(node: Node, x: Value) -> Value:
    share: float = node.desc.alpha / node.desc.local_size
    return _window_sums(node, x * x) * share + node.number("bias")


def _window_sums(node: Node, x: Value, *, mirrored: bool = False) -> Value:
    """Sums over the window around each element or, if mirrored, over all elements whose windows hold it."""
    sizes, length = node.sizes("input_tensor"), int(node.desc.local_size)
    before = (length - 1) // 2
    before, behind = (length - 1 - before, before) if mirrored else (before, length - 1 - before)
    if node.desc.cross_channel:
        rows = x.reshape([sizes[0], 1, sizes[1], -1])
        means = rows.apply("AveragePool", kernel_shape=[length, 1], pads=[before, 0, behind, 0], count_include_pad=1)
        return (means * length).reshape(sizes)
    means = x.apply("AveragePool", kernel_shape=[length, length], pads=[before, before, behind, behind], count_include_pad=1)
    return means * length**2
