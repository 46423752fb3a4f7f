"""Normalizations: by statistics of a batch, of an instance, of groups and layers, by norms and by neighbours."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.onnx.loading.elements import data_type_of
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import in_four

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_BY_AXES = 9
"""The opset from which on MeanVarianceNormalization has axes: ONNX Runtime has an earlier form."""


@lowers("BatchNormalization")
def batch(node: Node) -> tuple[Expression | None, ...]:
    """BATCH_NORMALIZATION; in training BATCH_NORMALIZATION_TRAINING, whose statistics move the running ones."""
    if node.attribute("spatial", 1) != 1:
        raise node.unsupported("spatial", 1)
    sizes = node.sizes(0)
    data = node.x(0).reshape(*sizes, *[1] * max(0, 4 - len(sizes)))
    scale, bias, mean, variance = (_of_channels(_cast_like(node.x(index), data.data_type), data) for index in range(1, 5))
    epsilon = node.attribute("epsilon", 1e-5)
    if not node.attribute("training_mode", 0):
        return (x.batch_normalization(data, mean, variance, scale, bias, spatial=True, epsilon=epsilon),)
    trained = x.batch_normalization_training(data, scale, bias, epsilon=epsilon)
    kept = node.attribute("momentum", 0.9)
    moved = [x.add(old * kept, new * (1.0 - kept)) for old, new in ((mean, trained.mean), (variance, trained.variance))]
    return trained.output, *moved


@lowers("InstanceNormalization")
def instance(node: Node) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION of each channel; with a depth MEAN_VARIANCE_NORMALIZATION1."""
    sizes = node.sizes(0)
    data = node.x(0).reshape(*sizes, *[1] * max(0, 4 - len(sizes)))
    scale, bias = _of_channels(node.x(1), data), _of_channels(node.x(2), data)
    epsilon = node.attribute("epsilon", 1e-5)
    if len(data.sizes) == 4:
        return x.mean_variance_normalization(data, scale, bias, cross_channel=False, epsilon=epsilon)
    return x.mean_variance_normalization1(data, scale, bias, axes=[*range(2, len(data.sizes))], epsilon=epsilon)


@lowers("LayerNormalization")
def layer(node: Node) -> tuple[Expression | None, ...]:
    """MEAN_VARIANCE_NORMALIZATION1 over the last axes, in the type of `stash_type`; mean and inverse deviation by REDUCE."""
    data, axes = _to_stash_type(node)
    bias = _like(node, 2, data) if node.has(2) else None
    scale = _like(node, 1, data)
    epsilon = node.attribute("epsilon", 1e-5)
    if bias is None:
        normalized = x.multiply(x.mean_variance_normalization1(data, axes=axes, epsilon=epsilon), scale)
    else:
        normalized = x.mean_variance_normalization1(data, scale, bias, axes=axes, epsilon=epsilon)
    if not node.wants(1) and not node.wants(2):
        return (normalized,)
    mean = x.reduce(data, function="AVERAGE", axes=axes)
    centred = x.subtract(data, mean)
    variance = x.reduce(x.multiply(centred, centred), function="AVERAGE", axes=axes)
    return normalized, mean, x.recip(x.sqrt(variance + epsilon))


@lowers("RMSNormalization")
def root_mean_square(node: Node) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION2 without the mean; below feature level 6_3 of REDUCE, ELEMENT_WISE_SQRT and ELEMENT_WISE_DIVIDE."""
    data, axes = _to_stash_type(node)
    epsilon = node.attribute("epsilon", 1e-5)
    if node.level >= FeatureLevel.FL_6_3:
        normalized = x.mean_variance_normalization2(data, axes=axes, use_mean=False, epsilon=epsilon)
    else:
        squares = x.reduce(x.multiply(data, data), function="AVERAGE", axes=axes)
        normalized = x.divide(data, x.sqrt(squares + epsilon))
    return x.multiply(_cast_like(normalized, node.data_type(1)), *in_four(node.x(1)))


@lowers("GroupNormalization")
def group(node: Node) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION1 of each group of channels, then scale and bias of each channel, or of each group before opset 21."""
    sizes, groups = node.sizes(0), node.attribute("num_groups")
    if sizes[1] % groups:
        raise node.refusal("onnx.invalid", "num_groups", str(groups), f"a divisor of the {sizes[1]} channels")
    wanted = data_type_of(node.attribute("stash_type", 1)) if node.opset >= 21 else None
    data = _cast_like(node.x(0), wanted or node.data_type(0)).reshape(sizes[0], groups, 1, prod(sizes[1:]) // groups)
    normalized = x.mean_variance_normalization(data, cross_channel=False, epsilon=node.attribute("epsilon", 1e-5))
    parts = groups if node.opset < 21 else sizes[1]
    of_groups = [_cast_like(node.x(index), data.data_type).reshape(1, parts, 1, 1) for index in (1, 2)]
    return x.add(x.multiply(normalized.reshape(sizes[0], parts, 1, -1), of_groups[0]), of_groups[1]).reshape(*sizes)


@lowers("MeanVarianceNormalization")
def mean_variance(node: Node) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION1; ONNX adds 1e-9 to the deviation, whose square is added to the variance.

    Before opset 9 the images of a batch are normalized together, too, by channel or across channels, and the variance may stay. Axes after
    the fourth one are not normalized then: so says ONNX Runtime, which alone has that form.
    """
    (data,) = in_four(node.x(0))
    rank = node.rank(0)
    given = node.attribute("axes", [0, 2, 3])
    if node.opset < _BY_AXES:
        given = [axis for axis in range(min(rank, 4)) if axis != 1 or node.attribute("across_channels", 0)]
    axes = [node.axis(axis, rank) + len(data.sizes) - rank for axis in given]
    keeps = node.opset < _BY_AXES and not node.attribute("normalize_variance", 1)
    return x.mean_variance_normalization1(data, axes=axes, normalize_variance=not keeps, epsilon=1e-18)


@lowers("LpNormalization")
def norm(node: Node) -> Expression:
    """LP_NORMALIZATION; the least divisor is the smallest number, so that a line of zeros stays as it is."""
    (data,) = in_four(node.x(0))
    axis = node.axis(node.attribute("axis", -1), node.rank(0)) + len(data.sizes) - node.rank(0)
    return x.lp_normalization(data, axis=axis, epsilon=float(np.finfo(np.float32).tiny), p=node.attribute("p", 2))


@lowers("LRN")
def local_response(node: Node) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION across channels; all spatial dimensions are one."""
    sizes = node.sizes(0)
    return x.local_response_normalization(
        node.x(0).reshape(*sizes[:2], 1, -1),
        cross_channel=True,
        local_size=node.attribute("size"),
        alpha=node.attribute("alpha", 1e-4),
        beta=node.attribute("beta", 0.75),
        bias=node.attribute("bias", 1.0),
    )


def _of_channels(tensor: Expression, data: Expression) -> Expression:
    """A tensor [C] as one that repeats in all dimensions of `data` but the second."""
    return tensor.reshape(1, -1, *[1] * (len(data.sizes) - 2))


def _to_stash_type(node: Node) -> tuple[Expression, list[int]]:
    """The input in the type that `stash_type` asks for, with four dimensions at least, and the axes from `axis` to the last."""
    wanted = data_type_of(node.attribute("stash_type", 1)) or DataType.FLOAT32
    (data,) = in_four(_cast_like(node.x(0), wanted))
    first = node.axis(node.attribute("axis", -1), node.rank(0)) + len(data.sizes) - node.rank(0)
    return data, [*range(first, len(data.sizes))]


def _like(node: Node, index: int, data: Expression) -> Expression:
    """A scale or bias in the type and with the dimensions of the data."""
    return _cast_like(node.x(index), data.data_type).with_leading_ones(len(data.sizes))


def _cast_like(tensor: Expression, data_type: DataType) -> Expression:
    return tensor if tensor.data_type is data_type else x.cast(tensor, output_data_type=data_type)
