"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.onnx.lower import lowers

if TYPE_CHECKING:
    from dmlpy.onnx.nodes import Node
    from dmlpy.x.expressions import Expression


@lowers("MatMul")
def matmul(node: Node) -> Expression:
    """GEMM over the last two dimensions; strides broadcast those before."""
    return node.x(0) @ node.x(1)
