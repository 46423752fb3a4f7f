"""Quantization and its inverse: for a whole tensor, along an axis, or in blocks."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.messages.naming import listed
from dmlpy.onnx.loading.elements import data_type_of
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import in_four, quantization

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

BYTES = (DataType.UINT8, DataType.INT8)
_NIBBLES = (DataType.UINT4, DataType.INT4)
_LARGEST_POWER = 2.0**127
"""Twice multiplied by it, every number of FLOAT32 above 0 is above 1."""


@lowers("QuantizeLinear", since=10)
@lowers("QuantizeLinear", domain=MICROSOFT)
def quantize(node: Node) -> Expression:
    """ELEMENT_WISE_QUANTIZE_LINEAR; QUANTIZE for blocks and 4 bits; 16 bits and divisions in FLOAT16 are a node for each step."""
    data_type = _quantized_type(node)
    data, scale = node.x(0), _parameter(node, 1)
    precision = _precision(node)
    zero_point = _parameter(node, 2) if node.has(2) else None
    if data.data_type is not scale.data_type and not (data.data_type is DataType.INT32 and data_type in BYTES):
        data = x.cast(data, output_data_type=scale.data_type)
    if precision is not None and data.data_type is not precision:
        data, scale = (x.cast(tensor, output_data_type=precision) for tensor in (data, scale))
    stepwise = precision is DataType.FLOAT16
    if data_type in BYTES and not _is_blocked(node) and not stepwise:
        quantized = x.quantize_linear(*in_four(data, scale, *_zero_point(node, zero_point, data_type)), output_data_type=data_type)
        return quantized.reshape(*data.sizes)
    if data_type in (*BYTES, *_NIBBLES) and _blocks_are_whole(node) and not stepwise:
        return x.quantize(data, **quantization(scale, zero_point, data_type), output_data_type=data_type)
    if data_type in _NIBBLES:
        raise _ragged(node)
    if data.data_type is DataType.FLOAT16 and precision is None:  # before opset 23 ONNX Runtime divides in FLOAT32
        data, scale = (x.cast(tensor, output_data_type="FLOAT32") for tensor in (data, scale))
    result = x.round(x.divide(data, _spread(node, scale)))
    if stepwise:  # zero points of 16 bits are not numbers of FLOAT16
        result = x.cast(result, output_data_type="FLOAT32")
    if zero_point is not None:
        result = result + x.cast(_spread(node, zero_point), output_data_type=result.data_type)
    least, most = data_type.limits
    return x.cast(x.clip(result, min=least, max=most), output_data_type=data_type)


@lowers("DequantizeLinear", since=10)
@lowers("DequantizeLinear", domain=MICROSOFT)
def dequantize(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR; DEQUANTIZE for 4 bits and for blocks of 8 bits."""
    data, scale = node.x(0), _parameter(node, 1)
    zero_point = _parameter(node, 2) if node.has(2) else None
    if data.data_type in _NIBBLES or (_is_blocked(node) and data.data_type in BYTES and _blocks_are_whole(node)):
        if not _blocks_are_whole(node):
            raise _ragged(node)
        return x.dequantize(data, **quantization(scale, zero_point, data.data_type), output_data_type=scale.data_type)
    scale = _spread(node, scale)
    zero_point = None if zero_point is None else _spread(node, zero_point)
    return x.dequantize_linear(*in_four(data, scale, *_zero_point(node, zero_point, data.data_type))).reshape(*data.sizes)


@lowers("DynamicQuantizeLinear")
def dynamic_quantize(node: Node) -> tuple[Expression, ...]:
    """DYNAMIC_QUANTIZE_LINEAR; the scale of a tensor of zeros is 1, as ONNX Runtime has it, which keeps divisions by it finite."""
    outputs = x.dynamic_quantize_linear(node.x(0), output_data_type=DataType.UINT8)
    quantized, scale, zero_point = outputs
    if node.wants(1):
        # 0 for a scale of 0, and 1 for any other, the least number among them: arithmetic, which devices join to one kernel.
        is_positive = x.clip(scale * _LARGEST_POWER * _LARGEST_POWER, min=0.0, max=1.0)
        scale = scale + (1.0 - is_positive)
    return quantized, scale, zero_point


def _quantized_type(node: Node) -> DataType:
    """The type of the integers: the zero point's, what `output_dtype` says, or UINT8."""
    if node.has(2):
        return node.data_type(2)
    return data_type_of(node.attribute("output_dtype", 0)) or DataType.UINT8


def _precision(node: Node) -> DataType | None:
    """The type in which opset 23 and newer divide: what `precision` says, or that of the scale; None if unknown."""
    if node.domain or node.opset < 23:
        return None
    return data_type_of(node.attribute("precision", 0)) or node.data_type(1)


def _zero_point(node: Node, given: Expression | None, data_type: DataType) -> list[Expression]:
    """The zero point; feature levels below 6_2 need one."""
    if given is not None:
        return [given]
    if node.level >= FeatureLevel.FL_6_2:
        return []
    return [x.fill_value_constant(value_data_type=data_type, value=0, output_sizes=[1])]


def _is_blocked(node: Node) -> bool:
    return bool(node.attribute("block_size", 0))


def _parameter(node: Node, index: int) -> Expression:
    """A scale or zero point with a size for each dimension of the tensor: 1, the tensor's, or the number of blocks."""
    sizes, whole, parameter = node.sizes(index), node.sizes(0), node.x(index)
    rank = max(1, len(whole))
    if _is_blocked(node):
        if len(sizes) != rank:
            raise node.refusal("onnx.sizes", node.input_label(index), listed(sizes), f"{rank} dimensions, as the tensor has")
        return parameter
    if prod(sizes) == 1:
        return parameter.reshape(*[1] * rank)
    axis = node.axis(int(node.attribute("axis", 1)), len(whole))
    if sizes != (whole[axis],):
        raise node.refusal("onnx.sizes", node.input_label(index), listed(sizes), f"one element, or {whole[axis]} along axis {axis}")
    return parameter.reshape(*(size if place == axis else 1 for place, size in enumerate(whole)))


def _spread(node: Node, parameter: Expression) -> Expression:
    """The parameter with an element, or a stride of 0, for each element of the tensor."""
    if not _is_blocked(node):
        return parameter
    axis, block = node.axis(int(node.attribute("axis", 1)), node.rank(0)), int(node.attribute("block_size"))
    before, count, after = parameter.sizes[:axis], parameter.sizes[axis], parameter.sizes[axis + 1 :]
    each = parameter.reshape(*before, count, 1, *after).broadcast(*before, count, block, *after).reshape(*before, count * block, *after)
    return each[(*[slice(None)] * axis, slice(node.sizes(0)[axis]))]


def _blocks_are_whole(node: Node) -> bool:
    block = int(node.attribute("block_size", 0))
    return not block or node.sizes(0)[node.axis(int(node.attribute("axis", 1)), node.rank(0))] % block == 0


def _ragged(node: Node) -> Exception:
    sizes = f"{listed(node.sizes(1))} for a tensor of {listed(node.sizes(0))}"
    return node.refusal("onnx.sizes", node.input_label(1), sizes, "blocks of equal sizes: DirectML's operators for 4 bits have no others")
