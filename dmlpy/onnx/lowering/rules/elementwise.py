"""Element by element: arithmetic, comparisons, logic, rounding, ranges, casts, choices."""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from onnx import TensorProto

from dmlpy import x
from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.onnx.loading.elements import FLOATS, dtype_of
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.x.producers import OperatorProducer

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

NIBBLES = (DataType.INT4, DataType.UINT4)
_UNARY: dict[str, Callable[[Expression], Expression]] = {
    "Abs": x.abs,
    "Acos": x.acos,
    "Acosh": x.acosh,
    "Asin": x.asin,
    "Asinh": x.asinh,
    "Atan": x.atan,
    "Atanh": x.atanh,
    "BitwiseNot": x.bit_not,
    "Ceil": x.ceil,
    "Cos": x.cos,
    "Cosh": x.cosh,
    "Erf": x.erf,
    "Exp": x.exp,
    "Floor": x.floor,
    "IsNaN": x.is_nan,
    "Log": x.log,
    "Not": x.logical_not,
    "Reciprocal": x.recip,
    "Round": x.round,
    "Sin": x.sin,
    "Sinh": x.sinh,
    "Sqrt": x.sqrt,
    "Tan": x.tan,
}
_BINARY: dict[str, Callable[[Expression, Expression], Expression]] = {
    "Add": x.add,
    "And": x.logical_and,
    "BitwiseAnd": x.bit_and,
    "BitwiseOr": x.bit_or,
    "BitwiseXor": x.bit_xor,
    "Div": x.divide,
    "Equal": x.logical_equals,
    "Greater": x.logical_greater_than,
    "GreaterOrEqual": x.logical_greater_than_or_equal,
    "Less": x.logical_less_than,
    "LessOrEqual": x.logical_less_than_or_equal,
    "Mul": x.multiply,
    "Or": x.logical_or,
    "Sub": x.subtract,
    "Xor": x.logical_xor,
}
_FOLDED: dict[str, Callable[[Expression, Expression], Expression]] = {"Max": x.max, "Min": x.min, "Sum": x.add}


def number(like: Expression, value: float, data_type: DataType | None = None) -> Expression:
    """A number that broadcasts to an expression, of its type or of another one."""
    return x.fill_value_constant(value_data_type=data_type or like.data_type, value=value, output_sizes=[1] * len(like.sizes))


_UNSIGNED = {
    DataType.INT8: DataType.UINT8,
    DataType.INT16: DataType.UINT16,
    DataType.INT32: DataType.UINT32,
    DataType.INT64: DataType.UINT64,
}


def _with_type(tensor: Expression, data_type: DataType) -> Expression:
    """The same bytes as elements of another type of the same size."""
    return tensor if tensor.data_type is data_type else tensor.viewed(tensor.tensor.replace(data_type=data_type))


def in_four(*expressions: Expression) -> list[Expression]:
    """The expressions with at least four dimensions, as all feature levels require."""
    rank = max(4, *(len(expression.sizes) for expression in expressions))
    return [expression.with_leading_ones(rank) for expression in expressions]


@lowers(*_UNARY)
def unary(node: Node) -> Expression:
    """The element-wise operator of one tensor."""
    return _UNARY[node.op_type](*in_four(node.x(0)))


@lowers(*_BINARY)
def binary(node: Node) -> Expression:
    """The element-wise operator of two tensors, which strides broadcast."""
    return _BINARY[node.op_type](*in_four(*aligned(node)))


def aligned(node: Node) -> tuple[Expression, Expression]:
    """Both inputs; before opset 7 the axes of the second one may start at `axis`, and trailing dimensions are added to it."""
    first, second = node.x(0), node.x(1)
    if node.opset >= 7 or node.attribute("axis") is None:
        return first, second
    behind = node.rank(0) - node.axis(node.attribute("axis"), node.rank(0)) - node.rank(1)
    if behind < 0:
        raise node.refusal("onnx.invalid", "axis", str(node.attribute("axis")), f"at most {node.rank(0) - node.rank(1)}")
    return first, second.reshape(*node.sizes(1), *[1] * behind) if behind else second


@lowers(*_FOLDED)
def folded(node: Node) -> Expression:
    """The element-wise operator of two tensors, once for each further tensor."""
    return reduce(_FOLDED[node.op_type], in_four(*(node.x(index) for index in range(len(node.inputs)))))


@lowers("Mean")
def mean(node: Node) -> Expression:
    """ELEMENT_WISE_MEAN of two tensors; else the sum by ELEMENT_WISE_ADD, divided by their number."""
    given = in_four(*(node.x(index) for index in range(len(node.inputs))))
    return x.mean(*given) if len(given) == 2 else reduce(x.add, given) / len(given)


@lowers("Neg")
def negate(node: Node) -> Expression:
    """ELEMENT_WISE_NEGATE; of floats below feature level 5_0 ELEMENT_WISE_IDENTITY with a scale of -1."""
    (data,) = in_four(node.x(0))
    scaled = node.level < FeatureLevel.FL_5_0 and data.data_type in FLOATS
    return x.identity(data, scale_bias={"Scale": -1.0, "Bias": -0.0}) if scaled else x.negate(data)


@lowers("Sign")
def sign(node: Node) -> Expression:
    """ELEMENT_WISE_SIGN; ELEMENT_WISE_IF, if the feature level has it, preserves NaN, which SIGN maps to 0."""
    (data,) = in_four(node.x(0))
    if data.data_type not in FLOATS or node.level < FeatureLevel.FL_3_0:
        return x.sign(data)
    return x.if_(x.logical_equals(data, data, output_data_type="UINT8"), x.sign(data), data)


@lowers("Pow")
def power(node: Node) -> Expression:
    """ELEMENT_WISE_POW; the square is ELEMENT_WISE_CONSTANT_POW. 64-bit integer exponents, which POW does not support, become FLOAT32."""
    if node.data_type(0) in FLOATS and _is_two(node.value(1)) and node.rank(1) <= node.rank(0):
        return x.constant_pow(in_four(node.x(0))[0], exponent=2.0)
    base, exponent = in_four(node.x(0), node.x(1))
    if base.data_type in FLOATS and exponent.data_type in (DataType.INT64, DataType.UINT64):
        exponent = x.cast(exponent, output_data_type=DataType.FLOAT32)
    return x.pow(base, exponent)


def _is_two(value: Value) -> bool:
    """Whether a value is known to be a single 2."""
    return isinstance(value.array, np.ndarray) and value.array.size == 1 and value.array.dtype.kind in "iuf" and value.array.item() == 2


@lowers("Mod")
def modulus(node: Node) -> Expression:
    """ELEMENT_WISE_MODULUS_FLOOR, with the sign of the divisor; with `fmod` ELEMENT_WISE_MODULUS_TRUNCATE, with that of the dividend."""
    function = x.modulus_truncate if node.attribute("fmod") else x.modulus_floor
    return function(*in_four(node.x(0), node.x(1)))


@lowers("BitShift")
def shift(node: Node) -> Expression:
    """ELEMENT_WISE_BIT_SHIFT_LEFT or ELEMENT_WISE_BIT_SHIFT_RIGHT of the bits as unsigned numbers, negative ones inverted."""
    if node.attribute("direction") not in ("LEFT", "RIGHT"):
        raise node.invalid("direction", "LEFT", "RIGHT")
    data, counts = in_four(node.x(0), node.x(1))
    bits, places = (_with_type(tensor, _UNSIGNED.get(data.data_type, data.data_type)) for tensor in (data, counts))
    if node.attribute("direction") == "LEFT":
        return _with_type(x.bit_shift_left(bits, places), data.data_type)
    moved = x.bit_shift_right(bits, places)
    if bits is not data:
        zero = number(data, 0)
        filled = x.bit_not(x.bit_shift_right(x.bit_not(bits), places))  # a negative number is filled with ones
        moved = x.if_(x.logical_less_than(data, zero, output_data_type="UINT8"), filled, moved)
    return _with_type(moved, data.data_type)


_DROPOUT_KEEPS_ALL = 12
"""The opset from which on the mask of a Dropout that drops nothing is True; ONNX left it open before, and ONNX Runtime gives 0."""


@lowers("Dropout")
def dropout(node: Node) -> tuple[Expression, ...]:
    """The input itself, and FILL_VALUE_CONSTANT for the mask; training with a ratio needs new random numbers, so it is rejected."""
    training = node.has(2) and bool(np.ravel(node.array(2))[0])
    ratio = float(np.ravel(node.array(1))[0]) if training and node.has(1) else 0.5
    if training and ratio:
        wanted = "False: RANDOM_GENERATOR gives the same numbers in each run of a graph, which keeps no state"
        raise node.refusal("onnx.attribute", node.input_label(2), "True", wanted)
    data = node.x(0)
    mask = node.outputs[1] if node.wants(1) else None
    if mask is None:
        return (data,)
    kept = int(node.opset >= _DROPOUT_KEEPS_ALL)
    return data, x.fill_value_constant(value_data_type=node.output_type(1), value=kept, output_sizes=data.sizes)


@lowers("BitCast")
def bit_cast(node: Node) -> Expression:
    """A view of the same bytes."""
    (data,) = in_four(node.x(0))
    kind = node.output_type(0)
    if kind.bits != data.data_type.bits:
        raise node.refusal("onnx.type", "to", kind.name, f"a type of as many bits as {data.data_type.name} has")
    return _with_type(data, kind)


def _before_widening(data: Expression) -> Expression:
    """What a value of FLOAT64 was cast from, as exporters of PyTorch do before IsInf: no number becomes infinite by that."""
    producer = data._ref.producer
    if data.data_type is not DataType.FLOAT64 or not isinstance(producer, OperatorProducer) or producer.desc.short_name() != "CAST":
        return data
    given = producer.inputs["input_tensor"]
    is_float = given.tensor.data_type in (DataType.FLOAT32, DataType.FLOAT16)
    is_whole = data.tensor.is_packed and data.tensor.element_count == given.tensor.element_count
    return x.Expression(given).reshape(*data.sizes) if is_float and is_whole else data


@lowers("IsInf")
def infinite(node: Node) -> Expression:
    """ELEMENT_WISE_IS_INFINITY."""
    modes = {(1, 1): "EITHER", (1, 0): "POSITIVE", (0, 1): "NEGATIVE"}
    wanted = bool(node.attribute("detect_positive")), bool(node.attribute("detect_negative"))
    (data,) = in_four(_before_widening(node.x(0)))
    if wanted not in modes:
        return x.fill_value_constant(value_data_type="UINT8", value=0, output_sizes=data.sizes)
    return x.is_infinity(data, infinity_mode=modes[wanted])


@lowers("Clip")
def clip(node: Node) -> Expression:
    """ELEMENT_WISE_CLIP, for integers ELEMENT_WISE_CLIP1; computed bounds become ELEMENT_WISE_MAX, then ELEMENT_WISE_MIN.

    Where the lower bound exceeds the upper one, the result is the upper one, as in ONNX.
    """
    (data,) = in_four(node.x(0))
    bounds = [_bound(node, 1, "min"), _bound(node, 2, "max")]
    if any(isinstance(bound, x.Expression) for bound in bounds):
        data = x.max(data, *in_four(node.x(1))) if node.has(1) else data
        return x.min(data, *in_four(node.x(2))) if node.has(2) else data
    least, most = bounds
    if is_float(data.data_type.numpy):
        return x.clip(data, min=-inf if least is None else float(least), max=inf if most is None else float(most))
    limits = np.iinfo(dtype_of(node.value(0).element or 0))
    upper = int(limits.max) if most is None else int(most)
    return x.clip1(data, min=min(int(limits.min) if least is None else int(least), upper), max=upper)


def _bound(node: Node, index: int, attribute: str) -> Any:
    """A bound of Clip: a number, an expression if it is computed, None if there is none."""
    if node.has(index):
        array = node.value(index).array
        return node.x(index) if array is None else np.ravel(array)[0]
    return node.attributes.get(attribute)


@lowers("Where")
def where(node: Node) -> Expression:
    """ELEMENT_WISE_IF."""
    return x.if_(*in_four(node.x(0), node.x(1), node.x(2)))


@lowers("Identity")
def identity(node: Node) -> Expression:
    """The input itself."""
    return node.x(0)


@lowers("Cast", "CastLike")
def cast(node: Node) -> Expression:
    """CAST, if the type is another one. To booleans ELEMENT_WISE_LOGICAL_EQUALS to 0, inverted; 4-bit integers by quantization."""
    wanted, data_type = node.outputs[0], node.output_type(0)
    (data,) = in_four(node.x(0))
    if wanted is not None and wanted.element == node.value(0).element:
        return data
    if data.data_type in NIBBLES or data_type in NIBBLES:
        return _cast_nibbles(data, data_type)
    if wanted is not None and wanted.element == TensorProto.BOOL:
        zero = number(data, 0)
        return x.logical_not(x.logical_equals(data, zero, output_data_type="UINT8"))
    return x.cast(data, output_data_type=data_type)


def quantization(scale: Expression, zero_point: Expression | None, data_type: DataType) -> dict[str, Any]:
    """The members of QUANTIZE and DEQUANTIZE. A missing zero point is 0: with SCALE DirectML uses the middle of unsigned types."""
    if zero_point is None:
        if data_type in (DataType.INT8, DataType.INT4):
            return {"quantizations": [scale], "quantization_type": "SCALE"}
        dtype = ml_dtypes.uint4 if data_type is DataType.UINT4 else np.uint8
        zero_point = x.constant(np.zeros([1] * len(scale.sizes), dtype))
    return {"quantizations": [scale, zero_point], "quantization_type": "SCALE_ZERO_POINT"}


def _cast_nibbles(data: Expression, data_type: DataType) -> Expression:
    """A cast from or to 4-bit integers, which CAST does not support: DEQUANTIZE and QUANTIZE with a scale of 1.

    As in ONNX's reference implementation, fractions are truncated, and numbers out of range wrap around.
    """
    one = number(data, 1, DataType.FLOAT32)
    wide = (
        x.dequantize(data, **quantization(one, None, data.data_type), output_data_type="FLOAT32")
        if data.data_type in NIBBLES
        else x.cast(data, output_data_type="FLOAT32")
    )
    if data_type in NIBBLES:
        least, count = (number(data, value, DataType.INT32) for value in (data_type.limits[0], 16))
        whole = x.subtract(x.cast(wide, output_data_type="INT32"), least)
        wide = x.cast(x.add(x.modulus_floor(whole, count), least), output_data_type="FLOAT32")
        return x.quantize(wide, **quantization(one, None, data_type), output_data_type=data_type)
    return x.cast(wide, output_data_type=data_type)
