"""Convolutions, forward and transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import ConvolutionMode
from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.windows import Slid

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


@exports("CONVOLUTION")
def convolution(node: Node) -> Value:
    """Conv or ConvTranspose; with mode CONVOLUTION of the flipped filter."""
    desc, sizes = node.desc, node.sizes("output_tensor")
    filters, lengths = node.x("filter_tensor"), node.sizes("filter_tensor")[2:]
    if desc.mode is ConvolutionMode.CONVOLUTION:
        axes = [2 + axis for axis in range(len(lengths))]
        filters = filters.part([-1] * len(axes), [-length - 1 for length in lengths], axes, [-1] * len(axes))
    bias = node.vector("bias_tensor") if node.has("bias_tensor") else None
    if desc.backward:
        slid = Slid.of(desc, sizes[2:], lengths, node.sizes("input_tensor")[2:])
        return transposed(node, node.x("input_tensor"), filters, bias, slid, desc.group_count)
    slid = Slid.of(desc, node.sizes("input_tensor")[2:], lengths, sizes[2:])
    found = node.add("Conv", node.x("input_tensor"), filters, bias, group=desc.group_count, **slid.attributes)
    return trimmed(found, slid)


def trimmed(found: Value, slid: Slid) -> Value:
    """The first positions where ONNX's formula gives more."""
    axes = slid.left_over
    return found.part([0] * len(axes), [slid.positions[axis] for axis in axes], [2 + axis for axis in axes]) if axes else found


def transposed(node: Node, x: Value, filters: Value, bias: Value | None, slid: Slid, groups: int) -> Value:
    """ConvTranspose, whose windows slide over the output.

    Output elements that no window reaches are `output_padding` where ONNX allows as many, else zeros that are added behind.
    """
    rank = len(slid.spatial)
    beyond = [max(0, -end) for end in slid.needed]
    # ONNX Runtime lets no dilation make up for a small stride.
    allowed = all(more < stride for more, stride in zip(beyond, slid.strides, strict=True))
    extra = beyond if allowed else [0] * rank
    found = node.add("ConvTranspose", x, filters, bias if allowed else None, output_padding=extra, group=groups, **slid.attributes)
    if allowed:
        return found
    found = found.pad([0] * (2 + rank), [0, 0, *beyond])
    return found if bias is None else found + bias.reshape([1, -1, *[1] * rank])
