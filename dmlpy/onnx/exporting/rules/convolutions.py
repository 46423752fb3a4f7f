"""Convolutions, forward and transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import ConvolutionMode
from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.windows import Windows

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


@exports("CONVOLUTION")
def convolution(node: Node) -> Value:
    """Conv or ConvTranspose; with a flipped filter for mode CONVOLUTION."""
    desc, sizes = node.desc, node.sizes("output_tensor")
    filters, lengths = node.x("filter_tensor"), node.sizes("filter_tensor")[2:]
    if desc.mode is ConvolutionMode.CONVOLUTION:
        axes = [2 + axis for axis in range(len(lengths))]
        filters = filters.part([-1] * len(axes), [-length - 1 for length in lengths], axes, [-1] * len(axes))
    bias = node.vector("bias_tensor") if node.has("bias_tensor") else None
    if desc.backward:
        windows = Windows.of(desc, sizes[2:], lengths, node.sizes("input_tensor")[2:])
        return export_transposed_convolution(node, node.x("input_tensor"), filters, bias, windows, desc.group_count)
    windows = Windows.of(desc, node.sizes("input_tensor")[2:], lengths, sizes[2:])
    convolved = node.add("Conv", node.x("input_tensor"), filters, bias, group=desc.group_count, **windows.attributes)
    return trim(convolved, windows)


def trim(result: Value, windows: Windows) -> Value:
    """Slices off the positions that only ONNX's formula has."""
    axes = windows.left_over
    return result.part([0] * len(axes), [windows.positions[axis] for axis in axes], [2 + axis for axis in axes]) if axes else result


def export_transposed_convolution(node: Node, x: Value, filters: Value, bias: Value | None, windows: Windows, groups: int) -> Value:
    """ConvTranspose, whose windows slide over the output.

    Output elements that no window reaches become `output_padding` if ONNX allows as many, else zeros appended at the end.
    """
    rank = len(windows.spatial)
    beyond = [max(0, -end) for end in windows.needed]
    # ONNX Runtime limits output_padding by the stride, even with a larger dilation.
    allowed = all(more < stride for more, stride in zip(beyond, windows.strides, strict=True))
    extra = beyond if allowed else [0] * rank
    result = node.add("ConvTranspose", x, filters, bias if allowed else None, output_padding=extra, group=groups, **windows.attributes)
    if allowed:
        return result
    result = result.pad([0] * (2 + rank), [0, 0, *beyond])
    return result if bias is None else result + bias.reshape([1, -1, *[1] * rank])
