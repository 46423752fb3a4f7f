"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import MatrixTransform
from dmlpy.onnx.exporting.rules import exports

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


@exports("GEMM")
def gemm(node: Node) -> Value:
    """MatMul, with Transpose, Mul and Add as needed: Gemm has no batches."""
    desc, rank = node.desc, len(node.sizes("a_tensor"))
    order = [*range(rank - 2), rank - 1, rank - 2]
    a, b = node.x("a_tensor"), node.x("b_tensor")
    a = a.transpose(order) if desc.trans_a is MatrixTransform.TRANSPOSE else a
    b = b.transpose(order) if desc.trans_b is MatrixTransform.TRANSPOSE else b
    several = desc.alpha != 1 or node.has("c_tensor")
    product = a.wide().apply("MatMul", b.wide()) if several else a.apply("MatMul", b)
    product = product.times(desc.alpha)
    return product + node.once("c_tensor").cast(product.element).times(desc.beta) if node.has("c_tensor") else product
