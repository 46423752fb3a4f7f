"""Convolutions, forward and transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.nodes.windows import Windows, compute_transposed_windows, compute_windows

if TYPE_CHECKING:
    from dmlpy.description.descs import FusableDesc
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@lowers("Conv")
def convolution(node: Node) -> Expression:
    """CONVOLUTION; a 1-D one gets a height of 1."""
    return lower_convolution(node)


def lower_convolution(node: Node, fused_activation: FusableDesc | None = None) -> Expression:
    """The convolution of a node, with an activation if one is fused; a 1-D result has a height of 1."""
    lengths = node.attribute("kernel_shape") or node.sizes(1)[2:]
    windows = compute_windows(node, node.sizes(0)[2:], lengths)
    return x.convolution(
        windows.add_dimensions(node.x(0)),
        windows.add_dimensions(node.x(1)),
        _bias(node, windows),
        **windows.members(node),
        fused_activation=fused_activation,
    )


@lowers("ConvTranspose")
def lower_transposed_convolution(node: Node) -> Expression:
    """CONVOLUTION with direction BACKWARD; where there is nothing to multiply, the bias."""
    transposed = compute_transposed_windows(node)
    windows, group = transposed.windows, node.attribute("group", 1)
    zeros = [0] * windows.added
    sizes = [node.sizes(0)[0], node.sizes(1)[1] * group, *[1] * windows.added, *transposed.sizes]
    if node.value(0).is_empty or node.value(1).is_empty:
        bias = _bias(node, windows)
        if bias is None:
            bias = x.fill_value_constant(value_data_type=node.data_type(0), value=0, output_sizes=[1]).reshape(*[1] * len(sizes))
        return bias.broadcast(*sizes)
    return x.convolution(
        windows.add_dimensions(node.x(0)),
        windows.add_dimensions(node.x(1)),
        _bias(node, windows),
        direction="BACKWARD",
        strides=windows.strides,
        dilations=windows.dilations,
        start_padding=[*zeros, *transposed.start],
        end_padding=[*zeros, *transposed.end],
        output_padding=[*zeros, *transposed.extra],
        group_count=group,
        output_sizes=sizes,
    )


def _bias(node: Node, windows: Windows) -> Expression | None:
    return node.x(2).reshape(1, -1, *[1] * len(windows.axes)) if node.has(2) else None
