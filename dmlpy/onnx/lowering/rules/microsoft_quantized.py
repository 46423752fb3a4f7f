"""ONNX Runtime's own operators (com.microsoft) of quantized numbers."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.description.int4 import unpack_int4
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import listed, plural
from dmlpy.onnx.loading.schemas import MICROSOFT, OWN
from dmlpy.onnx.lowering.quantized_chains import returns_from_numbers
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.elementwise import in_four, number, quantization
from dmlpy.onnx.lowering.rules.pooling import fit_windows, window_members
from dmlpy.onnx.lowering.rules.quantized_products import by_column, by_row, require, sides
from dmlpy.onnx.nodes.windows import compute_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.lowering.rules import LoweredOutputs
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.onnx.nodes.windows import Windows
    from dmlpy.x.expressions import Expression

_NIBBLE, _BYTE = 4, 8
"""Bits."""
_MOST_ADDED = 64
"""The most elements of a window that are added one by one."""
_SIXTHS = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
_NUMBERS = (
    (*_SIXTHS, *(-number for number in _SIXTHS)),
    (
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334),
        *(-0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ),
)
"""The values of 4 bits in bitsandbytes' types FP4 and NF4."""


@lowers("QLinearAdd", domain=OWN)
def add_and_quantize(node: Node) -> Expression:
    """ELEMENT_WISE_QUANTIZED_LINEAR_ADD, which rounds as QuantizeLinear does: before it adds the zero point."""
    a, b = in_four(node.x(0), node.x(3))
    rank = len(a.sizes)
    scales = [require(node, index, _one(node, index, rank)) for index in (1, 4, 6)]
    zeros = [_one(node, index, rank) for index in (2, 5, 7)]
    total = x.quantized_linear_add(a, scales[0], b, *scales[1:], *zeros, output_data_type=a.data_type)
    return without_added(total, node, 0, 3)


@lowers("QLinearAdd", domain=MICROSOFT)
def add(node: Node) -> LoweredOutputs:
    """ELEMENT_WISE_QUANTIZED_LINEAR_ADD; a node for each step where the zero point of the sum decides how halves are rounded."""
    if _rounds_alike(node, 7):
        return add_and_quantize(node)
    scale_a, scale_b, scale, zero_a, zero_b, zero = _parameters(node, 1, 4, 6, 2, 5, 7)
    by_a, by_b = scale_a / scale, scale_b / scale
    of_a = _computed(node, 0, lambda a: a * by_a + (zero - (by_a * zero_a + by_b * zero_b)), by_a, by_b, zero)
    return without_added(rounded(_computed(node, 3, lambda b: b * by_b, by_b) + of_a, node.data_type(0)), node, 0, 3)


@lowers("QLinearMul", domain=MICROSOFT)
def multiply(node: Node) -> Expression:
    """A product of the differences from the zero points, ELEMENT_WISE_ROUND, ELEMENT_WISE_CLIP."""
    scale_a, scale_b, scale, zero_a, zero_b, zero = _parameters(node, 1, 4, 6, 2, 5, 7)
    products = _computed(node, 0, lambda a: _less(a, zero_a), zero_a) * _computed(node, 3, lambda b: _less(b, zero_b), zero_b)
    scaled = products * (scale_a * scale_b / scale)
    return without_added(rounded(scaled if _is_known_zero(zero) else scaled + zero, node.data_type(0)), node, 0, 3)


@lowers("QLinearSigmoid", domain=MICROSOFT)
def sigmoid(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, ACTIVATION_SIGMOID, ELEMENT_WISE_QUANTIZE_LINEAR."""
    activated = x.activation_sigmoid(dequantized(node, 0, keeps_rank=False))
    return without_added(quantized(node, activated, 3, node.data_type(0)), node, 0)


@lowers("QLinearConcat", domain=MICROSOFT)
def concat(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR and ELEMENT_WISE_QUANTIZE_LINEAR of each that has another quantization, and JOIN."""
    axis = node.axis(int(node.attribute("axis", 0)), node.rank(2))
    parts = []
    for index in range(2, len(node.inputs), 3):
        is_same = _are_same(node, index + 1, 0) and _are_same(node, index + 2, 1) and returns_from_numbers(number_of(node, 0))
        parts.append(node.x(index) if is_same else quantized(node, dequantized(node, index), 0, node.data_type(1)))
    return x.join(parts, axis=axis)


def _are_same(node: Node, index: int, other: int) -> bool:
    """Whether two parameters of whole tensors are given and known, of one type, and equal."""
    if not (node.has(index) and node.has(other)):
        return False
    first, second = node.value(index).array, node.value(other).array
    return first is not None and second is not None and first.dtype == second.dtype and number_of(node, index) == number_of(node, other)


@lowers("QLinearGlobalAveragePool", domain=MICROSOFT)
def global_average_pool(node: Node) -> Expression:
    """QUANTIZED_LINEAR_AVERAGE_POOLING, of a view where the channels are last; of a width alone with a height of 1."""
    data = _channels_first(node, node.x(0))
    windows = compute_windows(node, data.sizes[2:], data.sizes[2:])
    placed = windows.add_dimensions(data)
    scales = [require(node, index, _one(node, index, len(placed.sizes))) for index in (1, 3)]
    zeros = [_one(node, index, len(placed.sizes)) for index in (2, 4)]
    pooled = x.quantized_linear_average_pooling(
        placed,
        *scales,
        *zeros,
        **window_members(windows),
        include_padding=False,
        output_data_type=data.data_type,
    )
    return _channels_back(node, windows.remove_dimensions(pooled))


@lowers("QLinearAveragePool", domain=MICROSOFT)
def average_pool(node: Node) -> Expression:
    """ELEMENT_WISE_DEQUANTIZE_LINEAR, sums, and a node for each step of the quantization; AVERAGE_POOLING of large windows.

    Windows that `ceil_mode` adds count what lies beyond the padding, as in ONNX Runtime.
    """
    data, counts = _channels_first(node, dequantized(node, 0)), bool(node.attribute("count_include_pad", 0))
    lengths = node.required("kernel_shape")
    for name, numbers in (("kernel_shape", lengths), ("strides", node.attribute("strides", [1]))):
        if min(numbers, default=1) < 1:
            raise node.refusal("onnx.invalid", name, listed(numbers), "numbers of 1 or more")
    windows = compute_windows(node, data.sizes[2:], lengths)
    placed, fitted = windows.add_dimensions(data), fit_windows(node, windows)
    if prod(fitted.lengths) > _MOST_ADDED:
        means = x.average_pooling(placed, **window_members(fitted), include_padding=counts)
    else:
        node.reserve_steps(prod(fitted.lengths))
        one = number(placed, 1)
        inside = counts or not any((*fitted.start, *fitted.end))
        count = one * prod(fitted.lengths) if inside else _sums(one.broadcast(1, 1, *placed.sizes[2:]), fitted)
        means = x.divide(_sums(placed, fitted), count)
    scale, zero = _parameters(node, 3, 4)
    return rounded(_channels_back(node, windows.remove_dimensions(means)) / scale + zero, node.data_type(0))


def _sums(data: Expression, windows: Windows) -> Expression:
    """The sum of the elements of each window, added one after the other as in ONNX Runtime: another order rounds some halves otherwise."""
    if any((*windows.start, *windows.end)):
        data = x.padding(data, start_padding=[0, 0, *windows.start], end_padding=[0, 0, *windows.end])
    total: Expression | None = None
    for first in product(*map(range, windows.lengths)):
        spots = (slice(at, at + (axis.positions - 1) * axis.stride + 1, axis.stride) for at, axis in zip(first, windows.axes, strict=True))
        part = data[(slice(None), slice(None), *spots)]
        total = part if total is None else total + part
    assert total is not None  # a window has an element
    return total


def _channels_first(node: Node, data: Expression) -> Expression:
    rank = len(data.sizes)
    return data.transpose(0, rank - 1, *range(1, rank - 1)) if node.attribute("channels_last", 0) else data


def _channels_back(node: Node, data: Expression) -> Expression:
    return data.transpose(0, *range(2, len(data.sizes)), 1) if node.attribute("channels_last", 0) else data


@lowers("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_to_float(node: Node) -> Expression:
    """MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""
    both = sides(node, 0, 1)
    rows, columns = both.a.sizes[2], both.b.sizes[3]
    scales = require(node, 2, by_row(node, 2, rows)), require(node, 3, by_column(node, 3, columns))
    bias = node.x(6).reshape(1, 1, 1, -1).broadcast(*both.folded) if node.has(6) else None
    zeros = by_row(node, 4, rows), by_column(node, 5, columns)
    return x.matrix_multiply_integer_to_float(both.a, scales[0], both.b, scales[1], *zeros, bias).reshape(*(both.sizes or (1,)))


@lowers("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_matmul(node: Node) -> Expression:
    """DYNAMIC_QUANTIZE_LINEAR of the left side and MATRIX_MULTIPLY_INTEGER_TO_FLOAT."""
    both = sides(node, 0, 1)
    columns = both.b.sizes[3]
    scale = require(node, 2, by_column(node, 2, columns))
    left = x.dynamic_quantize_linear(node.x(0), output_data_type=DataType.UINT8)
    one = [tensor.reshape(1, 1, 1, 1) for tensor in (left.scale, left.zero_point)]
    bias = node.x(4).reshape(1, 1, 1, -1).broadcast(*both.folded) if node.has(4) else None
    a = left.output.reshape(*both.a.sizes)
    product_tensor = x.matrix_multiply_integer_to_float(a, one[0], both.b, scale, one[1], by_column(node, 3, columns), bias)
    return product_tensor.reshape(*(both.sizes or (1,)))


@lowers("MatMulNBits", domain=MICROSOFT)
def matmul_blocks(node: Node) -> Expression:
    """DEQUANTIZE of the blocks, of which each byte holds two where they have 4 bits and four of 2 bits, and GEMM.

    Where `g_idx` names the block of each row of the weights, the scales are GATHERed for all rows.

    The weights are dequantized in each run, into scratch that other nodes share: kept, they would take up to eight times their bytes.
    """
    bits, block = int(node.attribute("bits", 4)), int(node.attribute("block_size", 0))
    rows, columns = int(node.attribute("N")), int(node.attribute("K"))
    if bits not in (2, 4, 8):
        raise node.unsupported("bits", 2, 4, 8)
    if node.attribute("weight_prepacked", 0):
        raise node.unsupported("weight_prepacked", 0)
    count = -(-columns // block)
    weights = _unpack(node, 1, rows, count * block, bits)
    scales = node.x(2).reshape(rows, count)
    if node.has(4):
        numbers = _in_groups(node, weights[:, :columns], scales, bits)
    elif _floats(node):
        offsets = node.x(3).reshape(rows, count) * scales
        spread = offsets.reshape(rows, count, 1).broadcast(rows, count, block).reshape(rows, count * block)
        numbers = x.dequantize(weights, **quantization(scales, None, weights.data_type), output_data_type=scales.data_type) - spread
    else:
        given = quantization(scales, _zero_points(node, rows, count, bits), weights.data_type)
        numbers = x.dequantize(weights, **given, output_data_type=scales.data_type)
    numbers = numbers[:, :columns] if numbers.sizes[1] != columns else numbers
    sizes = node.sizes(0)
    left = node.x(0).reshape(1, 1, prod(sizes[:-1]), columns)
    bias = node.x(5).reshape(1, 1, 1, rows).broadcast(1, 1, left.sizes[2], rows) if node.has(5) else None
    result = x.gemm(left, numbers.reshape(1, 1, rows, columns), bias, trans_b="TRANSPOSE")
    return result.reshape(*(*sizes[:-1], rows))


@lowers("MatMulBnb4", domain=MICROSOFT)
def matmul_table(node: Node) -> Expression:
    """GATHER of the numbers that 4 bits stand for, a product with the scale of each block, and GEMM. Two weights share a byte."""
    rows, columns, kind = node.count("N"), node.count("K"), node.attribute("quant_type")
    count = rows * columns
    block = min(node.count("block_size"), count)  # so that repeated scales are no more than twice the weights
    if kind not in (0, 1):
        raise node.unsupported("quant_type", 0, 1)
    size, blocks = -(-count // 2), -(-count // block)
    if prod(node.sizes(1)) != size or prod(node.sizes(2)) != blocks:
        found = f"{plural(prod(node.sizes(1)), 'byte')} and {plural(prod(node.sizes(2)), 'scale')}"
        raise node.refusal("onnx.sizes", node.input_label(1), found, f"{size} and {blocks}, for [{rows}, {columns}] in blocks of {block}")
    data = node.x(1).reshape(1, size, 1)
    places = x.join([x.bit_shift_right(data, _byte(4)), x.bit_and(data, _byte(15))], axis=2).reshape(1, 1, 1, 2 * size)
    scales = node.x(2).reshape(blocks, 1).broadcast(blocks, block).reshape(-1)[:count]
    table = node.constant("numbers", np.asarray(_NUMBERS[kind], node.data_type(0).numpy).reshape(1, 1, 1, 16))
    numbers = x.gather(table, x.cast(places, output_data_type="UINT32"), axis=3, index_dimensions=1).reshape(-1)[:count] * scales
    sizes, turned = node.sizes(0), bool(node.attribute("transB", 1))
    left = node.x(0).reshape(1, 1, prod(sizes[:-1]), sizes[-1])
    product = x.gemm(left, numbers.reshape(1, 1, rows, columns), trans_b="TRANSPOSE" if turned else "NONE")
    return product.reshape(*(*sizes[:-1], product.sizes[3]))


def _in_groups(node: Node, weights: Expression, scales: Expression, bits: int) -> Expression:
    """The weights [rows, columns] less the zero points, times the scales of the block that each column belongs to."""
    rows, columns = weights.sizes
    places = node.x(4).reshape(1, 1, 1, columns)

    def by_column(parameters: Expression) -> Expression:
        table = parameters.reshape(1, 1, *parameters.sizes).broadcast(1, 1, rows, parameters.sizes[1])
        return x.gather(table, places, axis=3, index_dimensions=1).reshape(rows, columns)

    def as_floats(integers: Expression) -> Expression:
        one = x.constant(np.ones((1, 1), scales.data_type.numpy))
        return x.dequantize(integers, **quantization(one, None, integers.data_type), output_data_type=scales.data_type)

    zeros = node.x(3).reshape(*scales.sizes) if _floats(node) else _zero_points(node, rows, scales.sizes[1], bits)
    zeros = zeros if _floats(node) else as_floats(zeros).broadcast(*scales.sizes)
    return (as_floats(weights) - by_column(zeros)) * by_column(scales)


def _floats(node: Node) -> bool:
    """Whether zero points are given as numbers of the scales' type."""
    return node.has(3) and node.data_type(3) not in (DataType.UINT8, DataType.INT8)


def _zero_points(node: Node, rows: int, count: int, bits: int) -> Expression:
    """A zero point for each block; half of the range where none are given."""
    if not node.has(3):
        return x.constant(np.full((1, 1), 1 << (bits - 1), ml_dtypes.uint4 if bits == _NIBBLE else np.uint8))
    return _unpack(node, 3, rows, count, bits)


def _unpack(node: Node, index: int, rows: int, columns: int, bits: int) -> Expression:
    """The elements [rows, columns] of an input of bytes, as UINT4 or UINT8: rows begin with a byte of their own."""
    if bits == _NIBBLE:
        return _nibbles(node, index, rows, columns)
    if bits == _BYTE:
        return node.x(index).reshape(rows, columns)
    row_bytes = -(-columns * bits // _BYTE)
    data = node.x(index).reshape(rows, row_bytes, 1)
    parts = [x.bit_and(x.bit_shift_right(data, _byte(shift)) if shift else data, _byte((1 << bits) - 1)) for shift in range(0, _BYTE, bits)]
    return x.join(parts, axis=2).reshape(rows, row_bytes * len(parts))[:, :columns]


def _byte(value: int) -> Expression:
    return x.constant(np.full((1, 1, 1), value, np.uint8))


def _nibbles(node: Node, index: int, rows: int, columns: int) -> Expression:
    """The 4-bit elements [rows, columns] of an input of bytes; a row of an odd number of them has one more, which means nothing."""
    if columns % 2 == 0 and node.value(index).array is None:
        return node.x(index).packed().viewed(TensorDesc(data_type=DataType.UINT4, sizes=[rows, columns]))
    whole = unpack_int4(np.ravel(node.array(index)), "UINT4", [rows, columns + columns % 2])
    return node.constant(f"input{index}", np.ascontiguousarray(whole[:, :columns]).astype(ml_dtypes.uint4))


def _one(node: Node, index: int, rank: int) -> Expression | None:
    """A scale or zero point of the whole tensor with a size of 1 for each dimension; None if it is left out."""
    return node.x(index).reshape(*[1] * rank) if _has_one(node, index) else None


def _has_one(node: Node, index: int) -> bool:
    """Whether a scale or zero point of the whole tensor is given.

    Raises:
        NotLowered: it has other sizes than one element.
    """
    if not node.has(index):
        return False
    if prod(node.sizes(index)) != 1:
        raise node.refusal("onnx.sizes", node.input_label(index), listed(node.sizes(index)), "one element")
    return True


def _parameters(node: Node, *indices: int) -> list[Any]:
    """Scales and zero points of whole tensors in FLOAT32: numbers if all are known, else expressions; 0 for what is left out."""
    if all(node.value(index).array is not None for index in indices if node.has(index)):
        return [number_of(node, index) for index in indices]
    tensors = [_one(node, index, 1) for index in indices]
    return [node.constant("zero", np.zeros(1, np.float32)) if tensor is None else _float(tensor) for tensor in tensors]


def _less(numbers: Any, zero: Any) -> Any:
    """What integers are away from a zero point."""
    return numbers if _is_known_zero(zero) else numbers - zero


def _is_known_zero(parameter: Any) -> bool:
    return isinstance(parameter, np.float32) and not parameter


def without_added(result: Expression, node: Node, *indices: int) -> Expression:
    """A result without the dimensions of 1 that no input has: no schema says what sizes it has."""
    rank = max(node.rank(index) for index in indices)
    return result.reshape(*result.sizes[len(result.sizes) - rank :])


def _computed(node: Node, index: int, function: Callable[[Any], Any], *read: Any) -> Any:
    """A function of an input's elements in FLOAT32, and of the parameters `read`: a constant if all are known."""
    array, (data,) = node.value(index).array, in_four(node.x(index))
    if array is None or not all(isinstance(each, np.float32) for each in read):
        return function(_float(data))
    return node.constant(f"input{index}", np.asarray(function(array.astype(np.float32).reshape(data.sizes)), np.float32))


def number_of(node: Node, index: int) -> np.float32:
    """A known scale or zero point of a whole tensor; 0 for a zero point that is left out."""
    return np.float32(np.ravel(node.array(index))[0] if _has_one(node, index) else 0)


def _float(tensor: Expression) -> Expression:
    return x.cast(tensor, output_data_type=DataType.FLOAT32)


def _rounds_alike(node: Node, index: int) -> bool:
    """Whether a zero point is even: then it is the same to round a half before or after adding it."""
    return not node.has(index) or (node.value(index).array is not None and bool((node.array(index) % 2 == 0).all()))


def rounded(numbers: Expression, data_type: DataType) -> Expression:
    """Numbers that have their zero point already, rounded to integers of a type.

    ONNX Runtime adds zero points first in some operators: then an odd one rounds halves away from even numbers.
    """
    least, most = data_type.limits
    return x.cast(x.clip(x.round(numbers), min=least, max=most), output_data_type=data_type)


def dequantized(node: Node, index: int, *, keeps_rank: bool = True) -> Expression:
    """The dequantized value of an input, whose scale and zero point follow it; with at least four dimensions if it may change its rank."""
    data = node.x(index) if keeps_rank else in_four(node.x(index))[0]
    rank = len(data.sizes)
    return x.dequantize_linear(data, require(node, index + 1, _one(node, index + 1, rank)), _one(node, index + 2, rank))


def quantized(node: Node, numbers: Expression, index: int, data_type: DataType) -> Expression:
    """The numbers, quantized by the scale and the zero point that are inputs from `index` on."""
    rank = len(numbers.sizes)
    scale = require(node, index, _one(node, index, rank))
    return x.quantize_linear(numbers, scale, _one(node, index + 1, rank), output_data_type=data_type)
