"""Operators of com.microsoft that work on what quantized numbers stand for: QGemm, softmax, leaky ReLU, choices and means."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.microsoft_quantized import dequantized, quantized
from dmlpy.onnx.lowering.rules.quantized_products import by_column, by_row, require

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

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
    found = (x.cast(total, output_data_type=scale.data_type) * scale).reshape(rows, columns)
    return quantized(node, found, 7, node.data_type(8) if node.has(8) else node.data_type(0)) if node.has(7) else found


@lowers("QLinearLeakyRelu", domain=MICROSOFT)
def leaky_relu(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, ACTIVATION_LEAKY_RELU, ELEMENT_WISE_QUANTIZE_LINEAR."""
    found = x.activation_leaky_relu(dequantized(node, 0), alpha=float(node.attribute("alpha", 0.01)))
    return quantized(node, found, 3, node.data_type(0))


@lowers("QLinearSoftmax", domain=MICROSOFT)
def softmax(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, ACTIVATION_SOFTMAX along an axis or of rows, as the opset has it, ELEMENT_WISE_QUANTIZE_LINEAR."""
    sizes = node.sizes(0)
    rank, given = len(sizes), dequantized(node, 0)
    coerced = int(node.attribute("opset", _COERCED_BEFORE)) < _COERCED_BEFORE
    axis = node.axis(int(node.attribute("axis", 1 if coerced else -1)), rank)
    if coerced or axis == rank - 1:
        rows = prod(sizes[:axis])
        found = x.activation_softmax(given.reshape(1, 1, rows, prod(sizes) // rows)).reshape(*sizes)
    else:
        ahead, behind = prod(sizes[:axis]), prod(sizes[axis + 1 :])
        found = x.activation_softmax1(given.reshape(1, ahead, sizes[axis], behind), axes=[2]).reshape(*sizes)
    return quantized(node, found, 3, node.data_type(0))


@lowers("QLinearWhere", domain=MICROSOFT)
def where(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR of both, ELEMENT_WISE_IF, ELEMENT_WISE_QUANTIZE_LINEAR."""
    return quantized(node, x.if_(node.x(0), dequantized(node, 1), dequantized(node, 4)), 7, node.data_type(1))


@lowers("QLinearReduceMean", domain=MICROSOFT)
def mean(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, REDUCE, ELEMENT_WISE_QUANTIZE_LINEAR."""
    rank = node.rank(0)
    axes = [node.axis(int(axis), rank) for axis in node.attribute("axes") or range(rank)]
    found = x.reduce(dequantized(node, 0), function="AVERAGE", axes=sorted(axes))
    if not node.attribute("keepdims", 1):
        found = found.reshape(*([size for axis, size in enumerate(found.sizes) if axis not in axes] or [1]))
    return quantized(node, found, 3, node.data_type(0))
