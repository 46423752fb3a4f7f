"""Matrix products and sums of products."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.onnx.lowering.rules import lowers

if TYPE_CHECKING:
    from dmlpy.description.descs import FusableDesc
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

INTEGERS = (DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64)
"""Integer types for which ONNX defines matrix products, but GEMM does not."""
_MOST_PRODUCTS = 1 << 24
"""The most products of integers."""


@lowers("MatMul")
def matmul(node: Node) -> Expression:
    """GEMM over the last two dimensions; strides broadcast those before. MULTIPLY and REDUCE for integers."""
    if node.data_type(0) in INTEGERS:
        first = node.x(0) if node.rank(0) > 1 else node.x(0).reshape(1, -1)
        return _integer_product(node, first, node.x(1) if node.rank(1) > 1 else node.x(1).reshape(-1, 1))
    return node.x(0) @ node.x(1)


def _integer_product(node: Node, first: Expression, second: Expression) -> Expression:
    """Sums of products of integers, which wrap around as in ONNX; all products are in memory at once, so there is a limit."""
    outer = np.broadcast_shapes(first.sizes[:-2], second.sizes[:-2])
    (rows, inner), columns = first.sizes[-2:], second.sizes[-1]
    sizes = (*outer, rows, inner, columns)
    if prod(sizes) > _MOST_PRODUCTS:
        remedy = "cast the operands to a type of floats"
        found = f"{rows} x {inner} x {columns} products of {node.data_type(0)}, {prod(outer)} times"
        raise node.refusal("onnx.size", "", found, f"at most {_MOST_PRODUCTS}: GEMM takes no such integers", remedy=remedy)
    products = x.multiply(
        first.reshape(*first.sizes, 1).broadcast(*sizes), second.reshape(*second.sizes[:-2], 1, inner, columns).broadcast(*sizes)
    )
    return x.reduce(products, function="SUM", axes=[len(sizes) - 2])


@lowers("Gemm")
def gemm(node: Node) -> Expression:
    """GEMM; strides broadcast C. Integers, which need scales of 1, as in `matmul`."""
    if node.data_type(0) in INTEGERS:
        for name in ("alpha", "beta"):
            if node.attribute(name, 1.0) != 1.0:
                raise node.unsupported(name, "1 for integers")
        operands = [
            node.x(index).transpose(1, 0) if node.attribute(name, 0) else node.x(index) for index, name in enumerate(("transA", "transB"))
        ]
        products = _integer_product(node, *operands)
        return x.add(products.reshape(operands[0].sizes[0], operands[1].sizes[1]), node.x(2)) if node.has(2) else products
    return product(node)


def product(node: Node, fused_activation: FusableDesc | None = None) -> Expression:
    """The product of a node with the attributes of Gemm, [1, 1, rows, columns], with an activation if one is fused."""
    transforms = ["TRANSPOSE" if node.attribute(name, 0) else "NONE" for name in ("transA", "transB")]
    (rows, columns), (first, second) = node.sizes(0), node.sizes(1)
    rows = columns if transforms[0] == "TRANSPOSE" else rows
    columns = first if transforms[1] == "TRANSPOSE" else second
    bias = node.x(2).broadcast(rows, columns).with_leading_ones(4) if node.has(2) else None
    return x.gemm(
        node.x(0).with_leading_ones(4),
        node.x(1).with_leading_ones(4),
        bias,
        trans_a=transforms[0],
        trans_b=transforms[1],
        alpha=node.attribute("alpha", 1.0),
        beta=node.attribute("beta", 1.0),
        fused_activation=fused_activation,
    )
