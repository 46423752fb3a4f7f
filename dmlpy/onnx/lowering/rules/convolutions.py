"""Convolutions, forward and transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.nodes.windows import Windows, compute_windows

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
    """CONVOLUTION with direction BACKWARD. An `output_shape` larger than the windows cover becomes output padding."""
    spatial = node.sizes(0)[2:]
    rank = len(spatial)
    windows = compute_windows(node, spatial, node.attribute("kernel_shape") or node.sizes(1)[2:])
    extra = node.attribute("output_padding") or [0] * rank
    full = [(window.size - 1) * window.stride + window.extent + extra[axis] for axis, window in enumerate(windows.axes[windows.added :])]
    start, end = windows.start[windows.added :], windows.end[windows.added :]
    mode = node.attribute("auto_pad", "NOTSET")
    shape = node.attribute("output_shape")
    if shape or mode.startswith("SAME"):
        wanted = shape or [size * window.stride for size, window in zip(spatial, windows.axes[windows.added :], strict=True)]
        cut = [most - size for most, size in zip(full, wanted, strict=True)]
        extra = [more + max(0, -less) for more, less in zip(extra, cut, strict=True)]
        halves = [(max(0, less) // 2, max(0, less) - max(0, less) // 2) for less in cut]
        start, end = ([half[side] for half in halves] for side in ((0, 1) if mode == "SAME_UPPER" else (1, 0)))
        full = [size + max(0, less) for size, less in zip(wanted, cut, strict=True)]
    sizes = [most - before - behind for most, before, behind in zip(full, start, end, strict=True)]
    group = node.attribute("group", 1)
    zeros = [0] * windows.added
    return x.convolution(
        windows.add_dimensions(node.x(0)),
        windows.add_dimensions(node.x(1)),
        _bias(node, windows),
        direction="BACKWARD",
        strides=windows.strides,
        dilations=windows.dilations,
        start_padding=[*zeros, *start],
        end_padding=[*zeros, *end],
        output_padding=[*zeros, *extra],
        group_count=group,
        output_sizes=[node.sizes(0)[0], node.sizes(1)[1] * group, *[1] * windows.added, *sizes],
    )


def _bias(node: Node, windows: Windows) -> Expression | None:
    return node.x(2).reshape(1, -1, *[1] * len(windows.axes)) if node.has(2) else None
