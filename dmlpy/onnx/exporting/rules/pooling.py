"""Poolings and their gradients."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.convolutions import export_transposed_convolution, trim
from dmlpy.onnx.exporting.rules.windows import Windows
from dmlpy.onnx.loading.elements import dtype_of

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


def _windows(node: Node, over: str, positioned: str) -> Windows:
    return Windows.of(node.desc, node.sizes(over)[2:], node.desc.window_size, node.sizes(positioned)[2:])


@exports("AVERAGE_POOLING", "AVERAGE_POOLING1")
def average(node: Node) -> Value:
    """AveragePool; if ONNX does not allow the pads, sums by Conv, divided by the counts."""
    windows, x = _windows(node, "input_tensor", "output_tensor"), node.x("input_tensor")
    return mean_of_windows(node, x, windows, node.sizes("input_tensor")[1], include_padding=node.desc.include_padding)


def mean_of_windows(node: Node, x: Value, windows: Windows, channels: int, *, include_padding: bool) -> Value:
    """The mean of each window's elements."""
    cut = any(end > max(0, padding) for end, padding in zip(windows.needed, windows.end, strict=True))
    if windows.touch and not (include_padding and cut):
        mean = x.apply("AveragePool", count_include_pad=int(include_padding), **windows.attributes)
        return trim(mean, windows)
    filters = _ones(node, x.wide(), windows, channels)
    sums = trim(node.add("Conv", x.wide(), filters, group=channels, **windows.attributes), windows)
    return (sums / _divisors(node, sums, windows, include_padding=include_padding)).cast(x.element)


def _ones(node: Node, like: Value, windows: Windows, channels: int) -> Value:
    return node.writer.constant(np.ones((channels, 1, *windows.lengths), dtype_of(like.element)))


def _divisors(node: Node, like: Value, windows: Windows, *, include_padding: bool) -> Value:
    return node.writer.constant(windows.counts(padded=include_padding).astype(dtype_of(like.element)))


@exports("AVERAGE_POOLING_GRAD", wide=True)
def average_gradient(node: Node) -> Value:
    """ConvTranspose of the gradient's shares with a filter of ones."""
    gradient, sizes = node.x("input_gradient_tensor"), node.sizes("output_gradient_tensor")
    windows = _windows(node, "output_gradient_tensor", "input_gradient_tensor")
    shares = gradient / _divisors(node, gradient, windows, include_padding=node.desc.include_padding)
    return export_transposed_convolution(node, shares, _ones(node, gradient, windows, sizes[1]), None, windows, sizes[1])


@exports("LP_POOLING", "LP_POOLING1")
def lp(node: Node) -> Value:
    """LpPool; pads that it does not support are added as zeros first."""
    windows, x = _windows(node, "input_tensor", "output_tensor"), node.x("input_tensor")
    if not windows.touch:
        x, windows = _pad(x, windows, 0)
    return trim(x.apply("LpPool", p=node.desc.p, **windows.attributes), windows)


def _pad(x: Value, windows: Windows, value: float) -> tuple[Value, Windows]:
    """The input with its padding, and the windows over it."""
    rank = len(windows.spatial)
    start, end = windows.pads[:rank], windows.pads[rank:]
    padded = x.pad([0, 0, *start], [0, 0, *end], value)
    nothing = (0,) * rank
    spatial = tuple(before + size + behind for before, size, behind in zip(start, windows.spatial, end, strict=True))
    return padded, Windows(spatial, windows.lengths, windows.positions, windows.strides, windows.dilations, nothing, nothing)


@exports("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2")
def maximum(node: Node) -> dict[str, Value]:
    """MaxPool; pads that it does not support are added as minus infinity first."""
    x, windows = node.x("input_tensor"), _windows(node, "input_tensor", "output_tensor")
    data_type = node.tensor("input_tensor").data_type
    if not x.is_float and (data_type.bits > 8 or not windows.touch):
        if data_type.bits > 32:
            raise node.rejection("input_tensor.data_type", data_type, "a type that MaxPool takes, or that DOUBLE holds")
        x = x.cast(TensorProto.DOUBLE if data_type.bits > 16 else TensorProto.FLOAT)
    wanted = node.has("output_indices_tensor")
    largest, indices = _with_indices(node, x, windows) if wanted else (_largest(x, windows), None)
    if largest.is_float and data_type.numpy.kind in "iu":
        largest = largest.at_least(float(data_type.limits[0]))
    return {"output_tensor": largest} if indices is None else {"output_tensor": largest, "output_indices_tensor": indices}


def _largest(x: Value, windows: Windows) -> Value:
    if not windows.touch:
        x, windows = _pad(x, windows, -np.inf)
    return trim(x.apply("MaxPool", **windows.attributes), windows)


def _with_indices(node: Node, x: Value, windows: Windows) -> tuple[Value, Value]:
    """The largest elements and their indices in the whole tensor, recomputed if padding was added first."""
    if windows.touch:
        largest, indices = node.writer.several("MaxPool", x, count=2, **windows.attributes)
        return trim(largest, windows), trim(indices, windows)
    padded, around = _pad(x, windows, -np.inf)
    largest, number = node.writer.several("MaxPool", padded, count=2, **around.attributes)
    places, step = number.like(0), 1
    for before, size, whole in reversed([*zip(windows.start, windows.spatial, around.spatial, strict=True)]):
        coordinate = (number.apply("Mod", number.like(whole)) - before).at_least(0).at_most(size - 1)
        places, number, step = places + coordinate * step, number / whole, step * size
    empty = node.writer.constant(windows.counts(padded=False) == 0)
    return trim(largest, around), empty.where(number.like(0), trim(places + number * step, around))


@exports("MAX_POOLING_GRAD", wide=True)
def maximum_gradient(node: Node) -> Value:
    """ScatterElements adds each gradient at its window's largest element."""
    windows, sizes = _windows(node, "input_tensor", "input_gradient_tensor"), node.sizes("input_tensor")
    gradient = node.vector("input_gradient_tensor")
    _, indices = _with_indices(node, node.x("input_tensor"), windows)
    zeros = node.zeros([prod(sizes)], gradient)
    scattered = zeros.apply("ScatterElements", indices.reshape([-1]), gradient, axis=0, reduction="add")
    return scattered.reshape(node.sizes("output_gradient_tensor"))


@exports("MAX_UNPOOLING")
def unpooling(node: Node) -> Value:
    """ScatterElements into zeros; indices beyond the output go to an extra element that is then sliced off."""
    sizes, x = node.sizes("output_tensor"), node.vector("input_tensor")
    count = prod(sizes)
    places = node.vector("indices_tensor").cast(TensorProto.INT64).at_most(count)
    scattered = node.zeros([count + 1], x).apply("ScatterElements", places, x, axis=0)
    return scattered.part([0], [count], [0]).reshape(sizes)
