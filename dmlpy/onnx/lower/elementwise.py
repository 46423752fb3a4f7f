"""Element by element: arithmetic, comparisons, logic, rounding, activations, casts, choices."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.onnx.elements import data_type_of
from dmlpy.onnx.lower import lowers

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.onnx.nodes import Node
    from dmlpy.x.expressions import Expression

_UNARY: dict[str, Callable[[Expression], Expression]] = {
    "Abs": x.abs,
    "Acos": x.acos,
    "Acosh": x.acosh,
    "Asin": x.asin,
    "Asinh": x.asinh,
    "Atan": x.atan,
    "Atanh": x.atanh,
    "Ceil": x.ceil,
    "Cos": x.cos,
    "Cosh": x.cosh,
    "Erf": x.erf,
    "Exp": x.exp,
    "Floor": x.floor,
    "Log": x.log,
    "Neg": x.negate,
    "Not": x.logical_not,
    "Reciprocal": x.recip,
    "Round": x.round,
    "Sigmoid": x.activation_sigmoid,
    "Sign": x.sign,
    "Sin": x.sin,
    "Sinh": x.sinh,
    "Sqrt": x.sqrt,
    "Tan": x.tan,
    "Tanh": x.activation_tanh,
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
    "Pow": x.pow,
    "Sub": x.subtract,
    "Xor": x.logical_xor,
}
_FOLDED: dict[str, Callable[[Expression, Expression], Expression]] = {"Max": x.max, "Min": x.min, "Sum": x.add}


def in_four(*expressions: Expression) -> list[Expression]:
    """The expressions with at least four dimensions, as all feature levels take them."""
    rank = max(4, *(len(expression.sizes) for expression in expressions))
    return [expression.with_leading_ones(rank) for expression in expressions]


@lowers(*_UNARY)
def unary(node: Node) -> Expression:
    """The element-wise operator or activation of one tensor."""
    return _UNARY[node.op_type](*in_four(node.x(0)))


@lowers(*_BINARY)
def binary(node: Node) -> Expression:
    """The element-wise operator of two tensors, which strides broadcast."""
    return _BINARY[node.op_type](*in_four(node.x(0), node.x(1)))


@lowers(*_FOLDED)
def folded(node: Node) -> Expression:
    """The element-wise operator of two tensors, once for each further tensor."""
    return reduce(_FOLDED[node.op_type], in_four(*(node.x(index) for index in range(len(node.inputs)))))


@lowers("Relu")
def relu(node: Node) -> Expression:
    """ACTIVATION_RELU."""
    return x.activation_relu(*in_four(node.x(0)))


@lowers("Where")
def where(node: Node) -> Expression:
    """ELEMENT_WISE_IF."""
    return x.if_(*in_four(node.x(0), node.x(1), node.x(2)))


@lowers("Identity", "Dropout")
def identity(node: Node) -> tuple[Expression, ...]:
    """The input itself."""
    return (node.x(0),)


@lowers("Cast", "CastLike")
def cast(node: Node) -> Expression:
    """CAST."""
    wanted = node.outputs[0]
    data_type = data_type_of(wanted.element or 0) if wanted else None
    if data_type is None:
        raise node.unsupported("to")
    return x.cast(*in_four(node.x(0)), output_data_type=DataType(data_type))
