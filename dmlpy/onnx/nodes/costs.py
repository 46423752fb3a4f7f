"""The cost of computing a node before the model runs, estimated from sizes and attributes."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
from onnx import AttributeProto, TensorProto

from dmlpy.onnx.loading.elements import dtype_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.nodes.node import Node

_OF_TEXT = 64
"""The bytes of a text without its characters, and of the pointer to it."""
_OF_CHARACTER = 4
"""The bytes of a character in NumPy's fixed-width texts, each as long as the longest."""
_PAIR = 64
"""The cost per pair of elements of an operator not known to be fast: Python loops over regions, grids and boxes."""
_LINEAR = frozenset(
    [
        "Abs",
        "Acos",
        "Acosh",
        "Add",
        "And",
        "ArgMax",
        "ArgMin",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "BatchNormalization",
        "BitCast",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Celu",
        "Clip",
        "Compress",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "Cos",
        "Cosh",
        "CumProd",
        "CumSum",
        "DepthToSpace",
        "DequantizeLinear",
        "Div",
        "DynamicQuantizeLinear",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "Expand",
        "EyeLike",
        "Flatten",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Gelu",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "Hardmax",
        "Identity",
        "InstanceNormalization",
        "IsInf",
        "IsNaN",
        "LayerNormalization",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "LogSoftmax",
        "LpNormalization",
        "Max",
        "Mean",
        "MeanVarianceNormalization",
        "Min",
        "Mish",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "OneHot",
        "Or",
        "PRelu",
        "Pad",
        "Pow",
        "QuantizeLinear",
        "RMSNormalization",
        "Range",
        "Reciprocal",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Relu",
        "Reshape",
        "RotaryEmbedding",
        "Round",
        "Scatter",
        "ScatterElements",
        "ScatterND",
        "Selu",
        "Shape",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Size",
        "Slice",
        "Softmax",
        "Softplus",
        "Softsign",
        "SpaceToDepth",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Swish",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "Tile",
        "TopK",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Upsample",
        "Where",
        "Xor",
    ]
)
"""Operators whose work is linear in the elements of their inputs and outputs."""
_LIKE_READ = frozenset(
    {"Compress", "NonZero", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze", "Identity", "Cast", "Unique", "Transpose"}
)
"""Operators of results that have, for each dimension, no more elements than what they read, where ONNX's inference yields no sizes."""
_OF_TEXTS = frozenset({"StringConcat", "StringSplit"})
_PRODUCTS = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"})


def cost_of(node: Node) -> tuple[float, float]:
    """The elements that a node computes, weighted by cost, and the bytes of its results; infinite if unknown.

    Args:
        node: the node; all its inputs are known.
    """
    given = [value.array for value in node.inputs if value is not None and value.array is not None]
    read = sum(array.size for array in given)
    written = sum(_output_bytes(node, value, given) for value in node.outputs if value is not None)
    texts = [array for array in given if array.dtype.kind == "O"]
    if texts or node.op_type in _OF_TEXTS or any(value is not None and value.element == TensorProto.STRING for value in node.outputs):
        longest = sum(_longest(array) for array in texts) or _OF_TEXT
        if node.op_type == "StringSplit":
            written = read * (longest + 1)  # a column for each part of the text that has most
        result_bytes = (read + written) * (_OF_TEXT + _OF_CHARACTER * longest)
        return result_bytes, result_bytes
    result_bytes = sum(_output_bytes(node, value, given) * _itemsize(value, given) for value in node.outputs if value is not None)
    if node.op_type in _LINEAR:
        return read + written, result_bytes
    if node.op_type in _PRODUCTS:
        return written * max((size for array in given[:2] for size in array.shape[-2:]), default=1), result_bytes
    return _PAIR * (read + written) ** 2 * prod(_magnitudes(node), start=1.0), result_bytes


def _output_bytes(node: Node, value: Value, given: Sequence[Array]) -> float:
    """The elements of a result."""
    if value.kind != "tensor":
        return inf
    if value.is_static:
        return prod(value.static_sizes)
    if node.op_type in _LIKE_READ:
        return sum(array.size * max(array.ndim, 1) for array in given)
    if node.op_type in _OF_TEXTS or node.op_type == "NonMaxSuppression":
        return float(prod(max(array.size, 1) for array in given))
    return inf


def _itemsize(value: Value, given: Sequence[Array]) -> int:
    """The bytes of an element of a result; if its type is unknown, of the widest input."""
    return dtype_of(value.element).itemsize if value.element else max((array.itemsize for array in given), default=8)


def _longest(array: Array) -> int:
    """The characters of the longest text."""
    return max((len(text) for text in np.ravel(array) if isinstance(text, str | bytes)), default=0)


def _magnitudes(node: Node) -> Iterator[int]:
    """The attributes that are numbers, as sizes: windows, pads, numbers of samples."""
    for item in node.proto.attribute:
        if item.type in (AttributeProto.INT, AttributeProto.INTS):
            yield from (max(abs(number), 1) for number in ([item.i] if item.type == AttributeProto.INT else item.ints))
