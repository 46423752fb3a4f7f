"""Element by element: arithmetic, comparisons, logic, bits, rounding, ranges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.description.enums import IsInfinityMode
from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.values import FLOATS
from dmlpy.onnx.loading.elements import dtype_of, element_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.enums import DataType
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value

_UNARY = {
    "ABS": "Abs",
    "ACOS": "Acos",
    "ACOSH": "Acosh",
    "ASIN": "Asin",
    "ASINH": "Asinh",
    "ATAN": "Atan",
    "ATANH": "Atanh",
    "CEIL": "Ceil",
    "COS": "Cos",
    "COSH": "Cosh",
    "ERF": "Erf",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "IDENTITY": "Identity",
    "IS_NAN": "IsNaN",
    "LOG": "Log",
    "NEGATE": "Neg",
    "RECIP": "Reciprocal",
    "SIN": "Sin",
    "SINH": "Sinh",
    "SQRT": "Sqrt",
    "TAN": "Tan",
    "TANH": "Tanh",
}
_BINARY = {
    "ADD": "Add",
    "ADD1": "Add",
    "BIT_AND": "BitwiseAnd",
    "BIT_OR": "BitwiseOr",
    "BIT_XOR": "BitwiseXor",
    "LOGICAL_EQUALS": "Equal",
    "LOGICAL_GREATER_THAN": "Greater",
    "LOGICAL_GREATER_THAN_OR_EQUAL": "GreaterOrEqual",
    "LOGICAL_LESS_THAN": "Less",
    "LOGICAL_LESS_THAN_OR_EQUAL": "LessOrEqual",
    "MAX": "Max",
    "MIN": "Min",
    "MULTIPLY": "Mul",
    "SUBTRACT": "Sub",
}
_TRUTHS = {"LOGICAL_AND": "And", "LOGICAL_OR": "Or", "LOGICAL_XOR": "Xor"}
_UNSIGNED: Mapping[int, int] = {
    TensorProto.INT8: TensorProto.UINT8,
    TensorProto.INT16: TensorProto.UINT16,
    TensorProto.INT32: TensorProto.UINT32,
    TensorProto.INT64: TensorProto.UINT64,
}


def named(table: Mapping[str, object]) -> list[str]:
    """The short names of element-wise operators."""
    return [f"ELEMENT_WISE_{name}" for name in table]


def _plain_name(node: Node) -> str:
    return node.name.removeprefix("ELEMENT_WISE_")


def apply_scale(node: Node) -> Value:
    """The input, times the scale plus the bias: integers in DOUBLE, FLOAT16 and BFLOAT16 in FLOAT32."""
    x, change = node.x("input_tensor"), getattr(node.desc, "scale_bias", None)
    if change is None:
        return x
    factor, added = float(change.scale), float(change.bias)
    return (x.wide() if x.is_float else x.cast(TensorProto.DOUBLE)) * factor + added


def stored(value: Value, data_type: DataType) -> Value:
    """Converts numbers to a type: for integers truncated and clamped to the type's range."""
    if not value.is_float or element_of(data_type) in FLOATS:
        return value.cast(data_type)
    least, most = data_type.limits
    dtype = dtype_of(value.element)
    # The largest number of the type below the limit, which floating point may round up.
    top = dtype.type(most) if int(dtype.type(most)) <= most else np.nextafter(dtype.type(most), dtype.type(0))
    without_nan = value.apply("IsNaN").where(value.like(0), value)
    return without_nan.apply("Clip", value.like(float(least)), value.like(float(top))).cast(data_type)


@exports(*named(_UNARY))
def unary(node: Node) -> Value:
    """ONNX's function of the input, scaled."""
    return stored(apply_scale(node).apply(_UNARY[_plain_name(node)]), node.tensor("output_tensor").data_type)


@exports("ELEMENT_WISE_SIGN")
def sign(node: Node) -> Value:
    """Sign, with 0 for NaN, which ONNX's Sign propagates."""
    x = apply_scale(node)
    without_nan = x.apply("IsNaN").where(x.like(0), x) if x.is_float else x
    return stored(without_nan.apply("Sign"), node.tensor("output_tensor").data_type)


@exports(*named(_BINARY))
def binary(node: Node) -> Value:
    """ONNX's function of two tensors, which broadcast."""
    return node.add(_BINARY[_plain_name(node)], *node.together("a_tensor", "b_tensor"))


@exports(*named(_TRUTHS))
def truths(node: Node) -> Value:
    """ONNX's logical function; nonzero is true."""
    return node.add(_TRUTHS[_plain_name(node)], *(x.cast(TensorProto.BOOL) for x in node.together("a_tensor", "b_tensor")))


@exports("ELEMENT_WISE_LOGICAL_NOT")
def logical_not(node: Node) -> Value:
    """Not."""
    return node.x("input_tensor").cast(TensorProto.BOOL).apply("Not")


@exports("ELEMENT_WISE_IF")
def choice(node: Node) -> Value:
    """Where."""
    condition, a, b = node.together("condition_tensor", "a_tensor", "b_tensor")
    return condition.cast(TensorProto.BOOL).where(a, b)


@exports("ELEMENT_WISE_IS_INFINITY")
def is_infinity(node: Node) -> Value:
    """IsInf."""
    mode = node.desc.infinity_mode
    return node.x("input_tensor").apply(
        "IsInf",
        detect_negative=int(mode is not IsInfinityMode.POSITIVE),
        detect_positive=int(mode is not IsInfinityMode.NEGATIVE),
    )


@exports("ELEMENT_WISE_CONSTANT_POW")
def constant_power(node: Node) -> Value:
    """Pow with a constant exponent."""
    data_type = node.tensor("output_tensor").data_type
    x, change = apply_scale(node), node.desc.scale_bias
    if change is not None and not node.x("input_tensor").is_float and change.is_whole:
        x = stored(x, node.tensor("input_tensor").data_type)
    return stored(x.apply("Pow", x.like(node.desc.exponent)), data_type)


@exports("ELEMENT_WISE_POW")
def power(node: Node) -> Value:
    """Pow."""
    whole = not node.x("input_tensor").is_float
    exponent = node.x("exponent_tensor")
    x = apply_scale(node)
    if whole and exponent.is_float:
        x, exponent = x.cast(TensorProto.DOUBLE), exponent.cast(TensorProto.DOUBLE)
    return stored(x.apply("Pow", exponent), node.tensor("output_tensor").data_type)


@exports("ELEMENT_WISE_MEAN")
def mean(node: Node) -> Value:
    """Mean; for integers half the sum, rounded toward 0."""
    a, b = node.together("a_tensor", "b_tensor")
    return node.add("Mean", a, b) if a.is_float else (a.cast(TensorProto.INT64) + b.cast(TensorProto.INT64)) / 2


@exports("ELEMENT_WISE_DIFFERENCE_SQUARE")
def difference_square(node: Node) -> Value:
    """The square of Sub."""
    a, b = node.together("a_tensor", "b_tensor")
    difference = a.wide() - b.wide()
    return difference * difference


def _divide(node: Node) -> list[Value]:
    """The operands of a division; integers divided by 0 become 0 divided by 1, since ONNX leaves the result undefined."""
    a, b = node.together("a_tensor", "b_tensor")
    divisor = node.constant("b_tensor")
    if a.is_float or (divisor is not None and divisor.all()):
        return [a, b]
    nothing = b.equals(0)
    return [nothing.where(a.like(0), a), nothing.where(b.like(1), b)]


@exports("ELEMENT_WISE_DIVIDE")
def divide(node: Node) -> Value:
    """Div."""
    return node.add("Div", *_divide(node))


@exports("ELEMENT_WISE_MODULUS_TRUNCATE")
def modulus_truncate(node: Node) -> Value:
    """Mod with the sign of the dividend."""
    return node.add("Mod", *_divide(node), fmod=1)


@exports("ELEMENT_WISE_MODULUS_FLOOR")
def modulus_floor(node: Node) -> Value:
    """Mod with the sign of the divisor; ONNX has it for integers only, so floats are adjusted."""
    a, b = _divide(node)
    if not a.is_float:
        return node.add("Mod", a, b)
    rest = node.add("Mod", a, b, fmod=1)
    moved = rest.apply("Sign") * b.apply("Sign") < 0
    return moved.where(rest + b, rest)


@exports("ELEMENT_WISE_ATAN_YX", wide=True)
def atan_yx(node: Node) -> Value:
    """Atan of the quotient, plus or minus pi where b is negative; ONNX has no atan2."""
    a, b = node.together("a_tensor", "b_tensor")
    both, nothing = a.apply("IsInf") & b.apply("IsInf"), a.equals(0) & b.equals(0)
    # Of two infinities only the signs count; of two zeros the quotient would be NaN.
    rise, run = both.where(a.apply("Sign"), a), both.where(b.apply("Sign"), b)
    angle = (rise / nothing.where(b.like(1), run)).apply("Atan")
    half = _is_negative(a).where(a.like(-math.pi), math.pi)
    return _is_negative(b).where(angle + half, angle)


def _is_negative(x: Value) -> Value:
    """A BOOL value: whether a number is below 0, or negative zero."""
    return (x < 0) | (1.0 / x < 0)


# bits


@exports("ELEMENT_WISE_BIT_NOT")
def bit_not(node: Node) -> Value:
    """BitwiseNot."""
    return node.x("input_tensor").apply("BitwiseNot")


@exports("ELEMENT_WISE_BIT_SHIFT_LEFT")
def shift_left(node: Node) -> Value:
    """BitShift of the bits as an unsigned number."""
    a, b = node.together("a_tensor", "b_tensor")
    unsigned = _UNSIGNED.get(a.element, a.element)
    return a.cast(unsigned).apply("BitShift", b.cast(unsigned), direction="LEFT").cast(a.element)


@exports("ELEMENT_WISE_BIT_SHIFT_RIGHT")
def shift_right(node: Node) -> Value:
    """BitShift; of a negative number the complement of its shifted complement."""
    a, b = node.together("a_tensor", "b_tensor")
    if a.element not in _UNSIGNED:
        return a.apply("BitShift", b, direction="RIGHT")
    unsigned = _UNSIGNED[a.element]
    negative = a < 0
    shifted = negative.where(a.apply("BitwiseNot"), a).cast(unsigned).apply("BitShift", b.cast(unsigned), direction="RIGHT").cast(a.element)
    return negative.where(shifted.apply("BitwiseNot"), shifted)


@exports("ELEMENT_WISE_BIT_COUNT")
def bit_count(node: Node) -> Value:
    """The bit count of each byte, from a lookup table."""
    x, data_type = node.x("input_tensor"), node.tensor("input_tensor").data_type
    if x.is_float:
        raise node.rejection("input_tensor.data_type", data_type, "integers: ONNX does not read the bits of floats")
    whole = x.cast(_UNSIGNED.get(x.element, x.element)).cast(TensorProto.UINT64)
    table = node.writer.constant(np.bitwise_count(np.arange(256)).astype(np.int64))
    total: Value | None = None
    for first in range(0, data_type.bits, 8):
        byte = whole.apply("BitShift", whole.like(first), direction="RIGHT").apply("BitwiseAnd", whole.like(255))
        count = table.apply("Gather", byte.cast(TensorProto.INT64), axis=0)
        total = count if total is None else total + count
    assert total is not None
    return total
