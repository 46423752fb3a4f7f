"""What the element-wise operators compute, on whole arrays.

Where DirectML's pages are silent the results are NumPy's: a NaN operand gives NaN, integers wrap around and give 0 where they are divided
by 0. Where an operator makes numbers of integers (scale and bias, limits, an exponent that is no integer) it counts in double precision;
what is stored in integers then is rounded toward zero and moved into the type's range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlpy.devices.numpy.activation.formulas import erf, evaluate
from dmlpy.devices.numpy.conversion import as_integers
from dmlpy.devices.numpy.elementwise.integers import (
    holding,
    integer_mean,
    integer_power,
    integer_quotient,
    is_integer,
    snapped,
)
from dmlpy.devices.numpy.whole import Array, Function
from dmlpy.enums import DataType, IsInfinityMode, RoundingMode


def _scaled(desc: Any, x: Array) -> Array:
    """x * scale + bias; integers become numbers in double precision."""
    if desc.scale_bias is None:
        return x
    numbers = x.astype(np.float64) if is_integer(x) else x
    scaled: Array = numbers * desc.scale_bias.scale + desc.scale_bias.bias
    return scaled


def _stored(desc: Any, y: Array) -> Array:
    """Numbers for the output: those that are stored in integers are rounded."""
    dtype = desc.output_tensor.data_type.numpy
    return as_integers(y, dtype) if dtype.kind in "iu" and not is_integer(y) else y


def _of_scaled(function: Callable[[Array], Array]) -> Function:
    """The function of x * scale + bias."""
    return lambda desc, inputs: _stored(desc, function(_scaled(desc, inputs["input_tensor"])))


def _of_one(function: Callable[[Array], Array]) -> Function:
    return lambda desc, inputs: function(inputs["input_tensor"])


def _of_two(function: Callable[[Array, Array], Array]) -> Function:
    return lambda desc, inputs: function(inputs["a_tensor"], inputs["b_tensor"])


def _identity(x: Array) -> Array:
    return x


def _sign(x: Array) -> Array:
    # NumPy's own has NaN for NaN.
    return np.greater(x, 0).astype(np.int8) - np.less(x, 0)


def _difference_square(a: Array, b: Array) -> Array:
    square: Array = np.square(a - b)
    return square


def _divide(a: Array, b: Array) -> Array:
    return integer_quotient(a, b) if is_integer(a) else a / b


def _mean(a: Array, b: Array) -> Array:
    return integer_mean(a, b) if is_integer(a) else (a + b) / 2


def _add1(desc: Any, inputs: Mapping[str, Any]) -> Array:
    total: Array = inputs["a_tensor"] + inputs["b_tensor"]
    return total if desc.fused_activation is None else evaluate(desc.fused_activation, total)


def _constant_pow(desc: Any, inputs: Mapping[str, Any]) -> Array:
    x = _scaled(desc, inputs["input_tensor"])
    power: Array = np.power(x, x.dtype.type(desc.exponent))
    return power


def _pow(desc: Any, inputs: Mapping[str, Any]) -> Array:
    stored, exponent = inputs["input_tensor"], inputs["exponent_tensor"]
    x = _scaled(desc, stored)
    if is_integer(x) and is_integer(exponent):
        return integer_power(x, exponent)
    numbers: Array = np.power(x.astype(np.float64) if is_integer(stored) else x, exponent)
    return _stored(desc, snapped(numbers)) if is_integer(stored) else numbers


# limits


def _at_least(x: Array, least: float) -> Array:
    limit = holding(least, x.dtype)
    held: Array = np.where(x < limit, limit, x)
    return held


def _at_most(x: Array, most: float) -> Array:
    limit = holding(most, x.dtype)
    held: Array = np.where(x > limit, limit, x)
    return held


def _clip(desc: Any, inputs: Mapping[str, Any]) -> Array:
    return _at_most(_at_least(_stored(desc, _scaled(desc, inputs["input_tensor"])), desc.min), desc.max)


def _clip1(desc: Any, inputs: Mapping[str, Any]) -> Array:
    return _at_least(_at_most(_stored(desc, _scaled(desc, inputs["input_tensor"])), desc.max), desc.min)


def _threshold(desc: Any, inputs: Mapping[str, Any]) -> Array:
    return _at_least(_stored(desc, _scaled(desc, inputs["input_tensor"])), desc.min)


def _clip_grad(desc: Any, inputs: Mapping[str, Any]) -> Array:
    x, gradient, least, most = inputs["input_tensor"], inputs["input_gradient_tensor"], desc.min, desc.max
    if is_integer(x):
        # The same comparisons, exact for integers of 64 bits too.
        least, most = (round_(limit) if math.isfinite(limit) else limit for round_, limit in ((math.floor, least), (math.ceil, most)))
    return np.where((x <= least) | (x >= most), np.zeros((), gradient.dtype), gradient)


def _round(desc: Any, inputs: Mapping[str, Any]) -> Array:
    x: Array = inputs["input_tensor"]
    if desc.rounding_mode is RoundingMode.HALVES_TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    if desc.rounding_mode is RoundingMode.TOWARD_ZERO:
        return whole
    # The fraction is exact; x + 0.5 would round the number just below 0.5 up.
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones((), x.dtype), x), whole)


# bits and truth values


def _bits(x: Array, data_type: DataType) -> Array:
    """The elements' bits as they are stored; what is computed in a wider type goes back to its own."""
    return x.astype(data_type.numpy, copy=False).view(f"u{data_type.bits // 8}")


def _of_bits(function: Callable[[Array, Array], Array]) -> Function:
    def compute(desc: Any, inputs: Mapping[str, Any]) -> Array:
        data_type = desc.a_tensor.data_type
        return function(_bits(inputs["a_tensor"], data_type), _bits(inputs["b_tensor"], data_type)).view(data_type.numpy)

    return compute


def _bit_not(desc: Any, inputs: Mapping[str, Any]) -> Array:
    data_type = desc.input_tensor.data_type
    return np.invert(_bits(inputs["input_tensor"], data_type)).view(data_type.numpy)


def _bit_count(desc: Any, inputs: Mapping[str, Any]) -> Array:
    return np.bitwise_count(_bits(inputs["input_tensor"], desc.input_tensor.data_type))


def _if(desc: Any, inputs: Mapping[str, Any]) -> Array:
    chosen: Array = np.where(inputs["condition_tensor"] != 0, inputs["a_tensor"], inputs["b_tensor"])
    return chosen


def _is_infinity(desc: Any, inputs: Mapping[str, Any]) -> Array:
    asked: dict[IsInfinityMode, Callable[[Array], Array]] = {
        IsInfinityMode.EITHER: np.isinf,
        IsInfinityMode.POSITIVE: np.isposinf,
        IsInfinityMode.NEGATIVE: np.isneginf,
    }
    return asked[desc.infinity_mode](inputs["input_tensor"])


_SCALED: dict[str, Callable[[Array], Array]] = {
    "ABS": np.abs,
    "ACOS": np.arccos,
    "ACOSH": np.arccosh,
    "ASIN": np.arcsin,
    "ASINH": np.arcsinh,
    "ATAN": np.arctan,
    "ATANH": np.arctanh,
    "CEIL": np.ceil,
    "COS": np.cos,
    "COSH": np.cosh,
    "ERF": erf,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "IDENTITY": _identity,
    "LOG": np.log,
    "RECIP": np.reciprocal,
    "SIN": np.sin,
    "SINH": np.sinh,
    "SQRT": np.sqrt,
    "TAN": np.tan,
    "TANH": np.tanh,
}
_OF_ONE: dict[str, Callable[[Array], Array]] = {
    "IS_NAN": np.isnan,
    "LOGICAL_NOT": np.logical_not,
    "NEGATE": np.negative,
    "SIGN": _sign,
}
_OF_TWO: dict[str, Callable[[Array, Array], Array]] = {
    "ADD": np.add,
    "ATAN_YX": np.arctan2,
    "BIT_SHIFT_LEFT": np.left_shift,
    "BIT_SHIFT_RIGHT": np.right_shift,
    "DIFFERENCE_SQUARE": _difference_square,
    "DIVIDE": _divide,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_EQUALS": np.equal,
    "LOGICAL_GREATER_THAN": np.greater,
    "LOGICAL_GREATER_THAN_OR_EQUAL": np.greater_equal,
    "LOGICAL_LESS_THAN": np.less,
    "LOGICAL_LESS_THAN_OR_EQUAL": np.less_equal,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_XOR": np.logical_xor,
    "MAX": np.maximum,
    "MEAN": _mean,
    "MIN": np.minimum,
    "MODULUS_FLOOR": np.remainder,
    "MODULUS_TRUNCATE": np.fmod,
    "MULTIPLY": np.multiply,
    "SUBTRACT": np.subtract,
}
_OTHERS: dict[str, Function] = {
    "ADD1": _add1,
    "BIT_AND": _of_bits(np.bitwise_and),
    "BIT_COUNT": _bit_count,
    "BIT_NOT": _bit_not,
    "BIT_OR": _of_bits(np.bitwise_or),
    "BIT_XOR": _of_bits(np.bitwise_xor),
    "CLIP": _clip,
    "CLIP1": _clip1,
    "CLIP_GRAD": _clip_grad,
    "CLIP_GRAD1": _clip_grad,
    "CONSTANT_POW": _constant_pow,
    "IF": _if,
    "IS_INFINITY": _is_infinity,
    "POW": _pow,
    "ROUND": _round,
    "THRESHOLD": _threshold,
}

FUNCTIONS: Mapping[str, Function] = {
    f"ELEMENT_WISE_{name}": function
    for name, function in (
        *((name, _of_scaled(function)) for name, function in _SCALED.items()),
        *((name, _of_one(function)) for name, function in _OF_ONE.items()),
        *((name, _of_two(function)) for name, function in _OF_TWO.items()),
        *_OTHERS.items(),
    )
}
"""The functions by the operators' short names."""
