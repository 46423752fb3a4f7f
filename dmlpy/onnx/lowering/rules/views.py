"""Other sizes and orders of the same elements: these cost nothing, since strides express them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.onnx.lowering.rules import lowers

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@lowers("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(node: Node) -> Expression:
    """A view with other sizes; ELEMENT_WISE_IDENTITY where no strides express it."""
    if node.outputs[0] is None or not node.outputs[0].is_static:
        node.sizes(0)
        node.integers(1)  # the sizes that it is viewed with are not known
    return node.x(0)


@lowers("Transpose")
def transpose(node: Node) -> Expression:
    """A view with permuted strides."""
    order = node.attribute("perm") or reversed(range(node.rank(0)))
    return node.x(0).transpose(*order) if node.rank(0) else node.x(0)
