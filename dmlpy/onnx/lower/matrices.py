"""Matrix products and sums of products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.onnx.lower import lowers

if TYPE_CHECKING:
    from dmlpy.onnx.nodes import Node
    from dmlpy.x.expressions import Expression


@lowers("MatMul")
def matmul(node: Node) -> Expression:
    """GEMM over the last two dimensions; strides broadcast those before."""
    return node.x(0) @ node.x(1)


@lowers("Gemm")
def gemm(node: Node) -> Expression:
    """GEMM; strides broadcast C."""
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
    )
