"""Poolings and their gradients."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.convolutions import transposed, trimmed
from dmlpy.onnx.exporting.rules.windows import Slid
from dmlpy.onnx.loading.elements import dtype_of

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


def _slid(node: Node, over: str, positioned: str) -> Slid:
    return Slid.of(node.desc, node.sizes(over)[2:], node.desc.window_size, node.sizes(positioned)[2:])


@exports("AVERAGE_POOLING", "AVERAGE_POOLING1")
def average(node: Node) -> Value:
    """AveragePool; where the windows leave its pads the sums by Conv, divided by their counts."""
    slid, x = _slid(node, "input_tensor", "output_tensor"), node.x("input_tensor")
    return mean_of_windows(node, x, slid, node.sizes("input_tensor")[1], include_padding=node.desc.include_padding)


def mean_of_windows(node: Node, x: Value, slid: Slid, channels: int, *, include_padding: bool) -> Value:
    """The mean of each window's elements."""
    cut = any(end > max(0, own) for end, own in zip(slid.needed, slid.end, strict=True))
    if slid.touch and not (include_padding and cut):
        found = x.apply("AveragePool", count_include_pad=int(include_padding), **slid.attributes)
        return trimmed(found, slid)
    filters = _ones(node, x.wide(), slid, channels)
    sums = trimmed(node.add("Conv", x.wide(), filters, group=channels, **slid.attributes), slid)
    return (sums / _divisors(node, sums, slid, include_padding=include_padding)).cast(x.element)


def _ones(node: Node, like: Value, slid: Slid, channels: int) -> Value:
    return node.writer.constant(np.ones((channels, 1, *slid.lengths), dtype_of(like.element)))


def _divisors(node: Node, like: Value, slid: Slid, *, include_padding: bool) -> Value:
    return node.writer.constant(slid.counts(padded=include_padding).astype(dtype_of(like.element)))


@exports("AVERAGE_POOLING_GRAD", wide=True)
def average_gradient(node: Node) -> Value:
    """ConvTranspose of the gradient's shares with a filter of ones."""
    gradient, sizes = node.x("input_gradient_tensor"), node.sizes("output_gradient_tensor")
    slid = _slid(node, "output_gradient_tensor", "input_gradient_tensor")
    shares = gradient / _divisors(node, gradient, slid, include_padding=node.desc.include_padding)
    return transposed(node, shares, _ones(node, gradient, slid, sizes[1]), None, slid, sizes[1])


@exports("LP_POOLING", "LP_POOLING1")
def lp(node: Node) -> Value:
    """LpPool; pads that it does not take are zeros that are added before."""
    slid, x = _slid(node, "input_tensor", "output_tensor"), node.x("input_tensor")
    if not slid.touch:
        x, slid = _padded(x, slid, 0)
    return trimmed(x.apply("LpPool", p=node.desc.p, **slid.attributes), slid)


def _padded(x: Value, slid: Slid, value: float) -> tuple[Value, Slid]:
    """The input with its padding, and the windows over it."""
    rank = len(slid.spatial)
    start, end = slid.pads[:rank], slid.pads[rank:]
    padded = x.pad([0, 0, *start], [0, 0, *end], value)
    nothing = (0,) * rank
    spatial = tuple(before + size + behind for before, size, behind in zip(start, slid.spatial, end, strict=True))
    return padded, Slid(spatial, slid.lengths, slid.positions, slid.strides, slid.dilations, nothing, nothing)


@exports("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2")
def maximum(node: Node) -> dict[str, Value]:
    """MaxPool; pads that it does not take are minus infinity, added before."""
    x, slid = node.x("input_tensor"), _slid(node, "input_tensor", "output_tensor")
    data_type = node.tensor("input_tensor").data_type
    if not x.is_float and (data_type.bits > 8 or not slid.touch):
        if data_type.bits > 32:
            raise node.unsaid("input_tensor.data_type", data_type, "a type that MaxPool takes, or that DOUBLE holds")
        x = x.cast(TensorProto.DOUBLE if data_type.bits > 16 else TensorProto.FLOAT)
    wanted = node.has("output_indices_tensor")
    found, indices = _with_indices(node, x, slid) if wanted else (_largest(x, slid), None)
    if found.is_float and data_type.numpy.kind in "iu":
        found = found.at_least(float(data_type.limits[0]))
    return {"output_tensor": found} if indices is None else {"output_tensor": found, "output_indices_tensor": indices}


def _largest(x: Value, slid: Slid) -> Value:
    if not slid.touch:
        x, slid = _padded(x, slid, -np.inf)
    return trimmed(x.apply("MaxPool", **slid.attributes), slid)


def _with_indices(node: Node, x: Value, slid: Slid) -> tuple[Value, Value]:
    """The largest elements and their places in the whole tensor; where elements are added before, the places are counted again."""
    if slid.touch:
        found, indices = node.writer.several("MaxPool", x, count=2, **slid.attributes)
        return trimmed(found, slid), trimmed(indices, slid)
    padded, around = _padded(x, slid, -np.inf)
    found, number = node.writer.several("MaxPool", padded, count=2, **around.attributes)
    places, step = number.like(0), 1
    for before, size, whole in reversed([*zip(slid.start, slid.spatial, around.spatial, strict=True)]):
        own = (number.apply("Mod", number.like(whole)) - before).at_least(0).at_most(size - 1)
        places, number, step = places + own * step, number / whole, step * size
    empty = node.writer.constant(slid.counts(padded=False) == 0)
    return trimmed(found, around), empty.where(number.like(0), trimmed(places + number * step, around))


@exports("MAX_POOLING_GRAD", wide=True)
def maximum_gradient(node: Node) -> Value:
    """ScatterElements adds each gradient at its window's largest element."""
    slid, sizes = _slid(node, "input_tensor", "input_gradient_tensor"), node.sizes("input_tensor")
    gradient = node.vector("input_gradient_tensor")
    _, indices = _with_indices(node, node.x("input_tensor"), slid)
    zeros = node.zeros([prod(sizes)], gradient)
    found = zeros.apply("ScatterElements", indices.reshape([-1]), gradient, axis=0, reduction="add")
    return found.reshape(node.sizes("output_gradient_tensor"))


@exports("MAX_UNPOOLING")
def unpooling(node: Node) -> Value:
    """ScatterElements into zeros; indices beyond the output go to an element that is cut off."""
    sizes, x = node.sizes("output_tensor"), node.vector("input_tensor")
    count = prod(sizes)
    places = node.vector("indices_tensor").cast(TensorProto.INT64).at_most(count)
    found = node.zeros([count + 1], x).apply("ScatterElements", places, x, axis=0)
    return found.part([0], [count], [0]).reshape(sizes)
