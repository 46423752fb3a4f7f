"""Linear quantization, and products of quantized tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.convolutions import trim
from dmlpy.onnx.exporting.rules.pooling import mean_of_windows
from dmlpy.onnx.exporting.rules.windows import Windows
from dmlpy.onnx.exporting.views import once
from dmlpy.onnx.loading.elements import dtype_of, element_of
from dmlpy.operators.quantized.linear import QuantizationDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.enums import DataType
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value

_BYTES = (TensorProto.INT8, TensorProto.UINT8)
_QUANTIZED = (*_BYTES, TensorProto.INT16, TensorProto.UINT16, TensorProto.INT4, TensorProto.UINT4)
"""The types to which QuantizeLinear rounds, and from which DequantizeLinear computes."""


def quantized(x: Value, scale: Value, zero_point: Value | None, data_type: DataType) -> Value:
    """A value divided by the scale, rounded, plus the zero point, clamped to a type's range; NaN becomes 0."""
    steps = (x / scale).apply("Round")
    steps = steps.apply("IsNaN").where(steps.like(0), steps)
    if zero_point is not None:
        steps = steps + zero_point.cast(steps.element)
    least, most = data_type.limits
    return steps.apply("Clip", steps.like(float(least)), steps.like(float(most))).cast(data_type)


def dequantized(x: Value, scale: Value, zero_point: Value | None) -> Value:
    """The difference to the zero point, exact, times the scale."""
    exact = TensorProto.INT64 if dtype_of(x.element).itemsize > 2 else TensorProto.INT32
    difference = x.cast(exact)
    if zero_point is not None:
        difference = difference - zero_point.cast(exact)
    return difference.cast(scale.element) * scale


# element by element


@exports("ELEMENT_WISE_QUANTIZE_LINEAR")
def quantize_linear(node: Node) -> Value:
    """QuantizeLinear per tensor or per axis; else its arithmetic."""
    return _quantize(node, "scale_tensor", "zero_point_tensor")


@exports("QUANTIZE")
def quantize(node: Node) -> Value:
    """QuantizeLinear per tensor or per axis; for blocks its arithmetic with repeated scales."""
    return _quantize(node, "quantization_tensors[0]", "quantization_tensors[1]")


@exports("ELEMENT_WISE_DEQUANTIZE_LINEAR")
def dequantize_linear(node: Node) -> Value:
    """DequantizeLinear per tensor or per axis; else its arithmetic."""
    return _dequantize(node, "scale_tensor", "zero_point_tensor")


@exports("DEQUANTIZE")
def dequantize(node: Node) -> Value:
    """DequantizeLinear per tensor or per axis; for blocks its arithmetic with repeated scales."""
    return _dequantize(node, "quantization_tensors[0]", "quantization_tensors[1]")


def _quantize(node: Node, scale: str, zero_point: str) -> Value:
    data_type, x = node.tensor("output_tensor").data_type, node.x("input_tensor")
    axis = _axis(node, scale, zero_point)
    if axis is not None and x.is_float and element_of(data_type) in _QUANTIZED:
        factor = _parameter(node, scale, axis).cast(x.element)
        if (moved := _zero_point(node, zero_point, scale, axis)) is not None:
            return x.apply("QuantizeLinear", factor, moved, axis=axis)
        element = element_of(data_type)
        return x.apply("QuantizeLinear", factor, axis=axis, output_dtype=element, element=element)
    repeated = _of_blocks(node, scale)
    return quantized(x.cast(repeated.element).wide(), repeated.wide(), _zero_points_of_blocks(node, zero_point), data_type)


def _dequantize(node: Node, scale: str, zero_point: str) -> Value:
    x, axis = node.x("input_tensor"), _axis(node, scale, zero_point)
    if axis is not None and x.element in _QUANTIZED:
        factor, moved = _parameter(node, scale, axis), _zero_point(node, zero_point, scale, axis)
        return x.apply("DequantizeLinear", factor, *([] if moved is None else [moved]), axis=axis, element=factor.element)
    return dequantized(x, _of_blocks(node, scale).wide(), _zero_points_of_blocks(node, zero_point))


def _axis(node: Node, scale: str, zero_point: str) -> int | None:
    """The axis along which the parameters change, any if there is none; None if there are several, or blocks."""
    sizes = node.sizes("input_tensor")
    kept = [once(node.tensor(name)) for name in (scale, zero_point) if node.has(name)]
    axes = [axis for axis in range(len(sizes)) if kept[0][axis] > 1]
    if any(other != kept[0] for other in kept) or len(axes) > 1 or (axes and kept[0][axes[0]] != sizes[axes[0]]):
        return None
    return axes[0] if axes else 0


def _parameter(node: Node, name: str, axis: int) -> Value:
    """A scale or zero point as a number, or as a vector along its axis."""
    size = once(node.tensor(name))[axis]
    return node.once(name).reshape([size] if prod(once(node.tensor(name))) > 1 else [])


def _of_blocks(node: Node, name: str) -> Value:
    """A scale or zero point, each element repeated over its block; it broadcasts to the input."""
    repeated, kept = node.once(name), once(node.tensor(name))
    for axis, (size, count) in enumerate(zip(node.sizes("input_tensor"), list(kept), strict=True)):
        if 1 < count < size:
            repeated = repeated.reshape([*kept[: axis + 1], 1, *kept[axis + 1 :]])
            repeated = repeated.expand([*kept[: axis + 1], size // count, *kept[axis + 1 :]])
            kept[axis] = size
            repeated = repeated.reshape(kept)
    return repeated


def _zero_point(node: Node, name: str, scale: str, axis: int) -> Value | None:
    """The zero point in the sizes of the scale, as ONNX requires; None if it is 0."""
    if node.has(name):
        return _parameter(node, name, axis)
    kept = once(node.tensor(scale))
    return _implied(node, [kept[axis]] if prod(kept) > 1 else [])


def _zero_points_of_blocks(node: Node, name: str) -> Value | None:
    return _of_blocks(node, name) if node.has(name) else _implied(node, [])


def _implied(node: Node, sizes: Sequence[int]) -> Value | None:
    """The implied zero point of QUANTIZE and DEQUANTIZE without a tensor for it; None if it is 0."""
    if not isinstance(node.desc, QuantizationDesc) or not node.desc.implied_zero_point:
        return None
    integers = node.tensor(node.desc.typed_like[1])
    return node.writer.constant(np.full(sizes, node.desc.implied_zero_point, dtype_of(element_of(integers.data_type))))


@exports("ELEMENT_WISE_QUANTIZED_LINEAR_ADD")
def quantized_add(node: Node) -> Value:
    """The sum of the dequantized tensors, quantized."""
    parts = []
    for name in ("a", "b"):
        zero_point = node.once(f"{name}_zero_point_tensor") if node.has(f"{name}_zero_point_tensor") else None
        parts.append(dequantized(node.x(f"{name}_tensor"), node.once(f"{name}_scale_tensor").wide(), zero_point))
    zero_point = node.once("output_zero_point_tensor") if node.has("output_zero_point_tensor") else None
    return quantized(parts[0] + parts[1], node.once("output_scale_tensor").wide(), zero_point, node.tensor("output_tensor").data_type)


@exports("DYNAMIC_QUANTIZE_LINEAR", wide=True)
def dynamic(node: Node) -> dict[str, Value]:
    """DynamicQuantizeLinear to UINT8; else its arithmetic."""
    x, data_type = node.x("input_tensor"), node.tensor("output_tensor").data_type
    names, sizes = ("output_tensor", "output_scale_tensor", "output_zero_point_tensor"), node.sizes("output_scale_tensor")
    least, most = data_type.limits
    if data_type.name == "UINT8":
        results = node.writer.several("DynamicQuantizeLinear", x, count=3)
        return dict(zip(names, (results[0], results[1].reshape(sizes), results[2].reshape(sizes)), strict=True))
    axes = range(len(node.sizes("input_tensor")))
    smallest, largest = x.reduce("ReduceMin", axes).at_most(0), x.reduce("ReduceMax", axes).at_least(0)
    scale = (largest - smallest) / float(most - least)
    zero_point = quantized(-smallest, scale, scale.like(least), data_type)
    return dict(zip(names, (quantized(x, scale, zero_point, data_type), scale.reshape(sizes), zero_point.reshape(sizes)), strict=True))


# products


def _point(node: Node, prefix: str, sizes: Sequence[int]) -> Value | None:
    """A zero point in other sizes, of which one may be -1."""
    name = f"{prefix}_zero_point_tensor"
    return node.x(name).reshape(sizes) if node.has(name) else None


def _scale(node: Node, prefix: str, sizes: Sequence[int]) -> Value:
    return node.x(f"{prefix}_scale_tensor").reshape(sizes).cast(TensorProto.DOUBLE)


def _stored(node: Node, x: Value, sizes: Sequence[int]) -> Value:
    """A result, quantized as the output."""
    point = _point(node, "output", sizes)
    return quantized(x, _scale(node, "output", sizes), point, node.tensor("output_tensor").data_type)


def _sums(node: Node) -> Value:
    """ConvInteger. Zero points per filter, which ONNX Runtime does not support, are subtracted as multiples of the inputs' sums."""
    groups, sizes = node.desc.group_count, node.sizes("output_tensor")
    windows = Windows.of(node.desc, node.sizes("input_tensor")[2:], node.sizes("filter_tensor")[2:], sizes[2:])
    x, filters, point = node.x("input_tensor"), node.x("filter_tensor"), _point(node, "input", [])

    def convolved(by: Value, zero_point: Value | None) -> Value:
        sums = node.add("ConvInteger", x, by, point, zero_point, group=groups, **windows.attributes)
        return trim(sums, windows)

    if not node.has("filter_zero_point_tensor") or prod(node.sizes("filter_zero_point_tensor")) == 1:
        return convolved(filters, _point(node, "filter", []))
    ones = node.writer.constant(np.ones((groups, *node.sizes("filter_tensor")[1:]), dtype_of(filters.element)))
    by_group = [sizes[0], groups, 1, *sizes[2:]]
    points = node.vector("filter_zero_point_tensor").reshape([groups, -1, *[1] * len(sizes[2:])]).cast(TensorProto.INT32)
    return convolved(filters, None) - (convolved(ones, None).reshape(by_group) * points).reshape(sizes)


@exports("CONVOLUTION_INTEGER")
def convolution_integer(node: Node) -> Value:
    """ConvInteger."""
    return _sums(node)


@exports("QUANTIZED_LINEAR_CONVOLUTION")
def quantized_convolution(node: Node) -> Value:
    """ConvInteger, with sums quantized in DOUBLE: the rounding of QLinearConv is unspecified."""
    sums, ones = _sums(node), [1] * (len(node.sizes("output_tensor")) - 2)
    if node.has("bias_tensor"):
        sums = sums + node.x("bias_tensor").reshape([-1, *ones])
    real = sums.cast(TensorProto.DOUBLE) * _scale(node, "input", [-1, *ones]) * _scale(node, "filter", [-1, *ones])
    return _stored(node, real, [-1, *ones])


@exports("QUANTIZED_LINEAR_AVERAGE_POOLING")
def quantized_average(node: Node) -> Value:
    """AveragePool of the differences, quantized."""
    sizes, ones = node.sizes("input_tensor"), [1] * len(node.desc.window_size)
    x, point = node.x("input_tensor").cast(TensorProto.INT32), _point(node, "input", [-1, *ones])
    x = (x if point is None else x - point.cast(TensorProto.INT32)).cast(TensorProto.FLOAT)
    windows = Windows.of(node.desc, sizes[2:], node.desc.window_size, node.sizes("output_tensor")[2:])
    means = mean_of_windows(node, x, windows, sizes[1], include_padding=node.desc.include_padding).cast(TensorProto.DOUBLE)
    return _stored(node, means * _scale(node, "input", [-1, *ones]), [-1, *ones])


def _product(node: Node) -> Value:
    """MatMulInteger if zero points are scalars; else MatMul of the differences in INT32."""
    a, b = node.x("a_tensor"), node.x("b_tensor")
    several = any(node.has(name) and prod(node.sizes(name)) > 1 for name in ("a_zero_point_tensor", "b_zero_point_tensor"))
    if not several and a.element in _BYTES and b.element in _BYTES:
        return node.add("MatMulInteger", a, b, _point(node, "a", []), _point(node, "b", []))
    factors = []
    for x, point in ((a, _point(node, "a", [-1, 1])), (b, _point(node, "b", [-1]))):
        whole = x.cast(TensorProto.INT32)
        factors.append(whole if point is None else whole - point.cast(TensorProto.INT32))
    return factors[0].apply("MatMul", factors[1])


@exports("MATRIX_MULTIPLY_INTEGER")
def product_integer(node: Node) -> Value:
    """The product of the differences."""
    return _product(node)


def _dequantized_product(node: Node) -> Value:
    return _product(node).cast(TensorProto.DOUBLE) * _scale(node, "a", [-1, 1]) * _scale(node, "b", [-1])


@exports("MATRIX_MULTIPLY_INTEGER_TO_FLOAT")
def product_to_float(node: Node) -> Value:
    """The product in DOUBLE, times the scales, plus the bias."""
    real = _dequantized_product(node)
    return real + node.once("bias_tensor").cast(TensorProto.DOUBLE) if node.has("bias_tensor") else real


@exports("QUANTIZED_LINEAR_MATRIX_MULTIPLY")
def quantized_product(node: Node) -> Value:
    """The product, quantized in DOUBLE: the rounding of QLinearMatMul is unspecified."""
    return _stored(node, _dequantized_product(node), [-1, 1])
