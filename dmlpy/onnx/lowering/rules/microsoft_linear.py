"""Operators of com.microsoft that work on what quantized numbers stand for: QGemm, softmax, leaky ReLU, choices and means."""

from __future__ import annotations

import math
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.microsoft_quantized import dequantized, number_of, quantized, rounded, without_added
from dmlpy.onnx.lowering.rules.quantized_products import by_column, by_row, require

if TYPE_CHECKING:
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_RESERVED = 5
"""The distance that the logarithm of a sum of exponentials keeps from that of the largest number."""
_COERCED_BEFORE = 13
"""The opset of Softmax from which on it normalizes one axis instead of all dimensions from it on."""


@lowers("QGemm", domain=MICROSOFT)
def gemm(node: Node) -> Expression:
    """MATRIX_MULTIPLY_INTEGER, ELEMENT_WISE_ADD of C, a product with the scales, and ELEMENT_WISE_QUANTIZE_LINEAR where Y has a scale."""
    left, right = (
        node.x(index).transpose(1, 0) if node.attribute(name, 0) else node.x(index) for index, name in ((0, "transA"), (3, "transB"))
    )
    rows, columns = left.sizes[0], right.sizes[1]
    zeros = by_row(node, 2, rows), by_column(node, 5, columns)
    total = x.matrix_multiply_integer(left.with_leading_ones(4), right.with_leading_ones(4), *zeros)
    if node.has(6):
        total = total + node.x(6).broadcast(rows, columns).with_leading_ones(4)
    scale = require(node, 1, by_row(node, 1, rows)) * require(node, 4, by_column(node, 4, columns))
    alpha = float(node.attribute("alpha", 1.0))
    scale = scale if alpha == 1 else scale * alpha
    product = (x.cast(total, output_data_type=scale.data_type) * scale).reshape(rows, columns)
    return quantized(node, product, 7, node.data_type(8) if node.has(8) else node.data_type(0)) if node.has(7) else product


@lowers("QLinearLeakyRelu", domain=MICROSOFT)
def leaky_relu(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, ACTIVATION_LEAKY_RELU, ELEMENT_WISE_QUANTIZE_LINEAR."""
    activated = x.activation_leaky_relu(dequantized(node, 0, keeps_rank=False), alpha=float(node.attribute("alpha", 0.01)))
    return without_added(quantized(node, activated, 3, node.data_type(0)), node, 0)


@lowers("QLinearSoftmax", domain=MICROSOFT)
def softmax(node: Node) -> Expression:
    """GATHER of the exponentials of all differences from the largest element, REDUCE and a division, as in ONNX Runtime's kernel.

    That takes as the inverse of the result's scale the whole number below it: with a scale of 0.0039 the steps are 1/256.
    """
    sizes = node.sizes(0)
    coerced = int(node.attribute("opset", _COERCED_BEFORE)) < _COERCED_BEFORE
    axis = node.axis(int(node.attribute("axis", 1 if coerced else -1)), len(sizes))
    behind = 1 if coerced else prod(sizes[axis + 1 :])
    # Differences from the maximum are never negative: those of unsigned bytes need no signed integers in between.
    kind = DataType.UINT32 if node.data_type(0) is DataType.UINT8 else DataType.INT32
    data = x.cast(node.x(0), output_data_type=kind).reshape(prod(sizes[:axis]), -1, behind)
    differences = x.reduce(data, function="MAX", axes=[1]) - data
    differences = differences if kind is DataType.UINT32 else x.cast(differences, output_data_type="UINT32")
    table = x.constant(_exponentials(float(number_of(node, 1)), data.sizes[1]).reshape(1, 1, 1, -1))
    exponentials = x.gather(table, differences.reshape(1, 1, 1, -1), axis=3, index_dimensions=1)
    exponentials = exponentials.reshape(*data.sizes)
    with np.errstate(divide="ignore"):  # a scale of 0 has steps without end
        steps = np.floor(np.float32(1) / number_of(node, 3))
    means = exponentials * float(steps) / x.reduce(exponentials, function="SUM", axes=[1])
    return rounded(x.round(means) + float(number_of(node, 4)), node.data_type(0)).reshape(*sizes)


def _exponentials(scale: float, count: int) -> Array:
    """The exponentials of minus 0 to 255 times a scale in FLOAT32, all by a factor for which the sum of this many stays finite."""
    room = max(0.0, math.log(float(np.finfo(np.float32).max) / count) - _RESERVED)
    exponentials: Array = np.exp(room - np.arange(256) * scale).astype(np.float32)
    return exponentials


@lowers("QLinearWhere", domain=MICROSOFT)
def where(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR of both, ELEMENT_WISE_IF, ELEMENT_WISE_QUANTIZE_LINEAR."""
    return quantized(node, x.if_(node.x(0), dequantized(node, 1), dequantized(node, 4)), 7, node.data_type(1))


@lowers("QLinearReduceMean", domain=MICROSOFT)
def mean(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, REDUCE, ELEMENT_WISE_QUANTIZE_LINEAR."""
    rank = node.rank(0)
    axes = [node.axis(int(axis), rank) for axis in node.attribute("axes") or range(rank)]
    means = x.reduce(dequantized(node, 0), function="AVERAGE", axes=sorted(axes))
    if not node.attribute("keepdims", 1):
        means = means.reshape(*([size for axis, size in enumerate(means.sizes) if axis not in axes] or [1]))
    return quantized(node, means, 3, node.data_type(0))
