"""Activations of a cell and their derivatives, as functions of vectors that the kernels of units call.

Those of the name `other` take one lane after the other, and find out by a number which activation it is: see `activations`.

What a training form keeps of a gate is its value, or its argument where the derivative follows from that only (`reserve.saves_argument`).
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.recurrent.activations import (
    CELU,
    ELU,
    IDENTITY,
    LEAKY,
    LINEAR,
    OF_A_ROLE,
    PARAMETRIC_SOFTPLUS,
    SCALED_ELU,
    SCALED_TANH,
    SHRINK,
    SOFTPLUS,
    SOFTSIGN,
    THRESHOLDED,
)
from dmlpy.devices.cpu.simd import float_at, jit, simd_of
from dmlpy.devices.cpu.simd_math import function_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa

_WITH_CONSTANTS = ("hard_sigmoid", "other")
"""Names of functions that are compiled for each role, whose constants they read."""
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_LARGEST, _TAIL = np.finfo(np.float32).max, np.float32(-40.0)
_ROOT_HALF, _DENSITY = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)


@jit
def _other(number: Any, a: Any, b: Any, x: Any) -> Any:
    """Another activation of one float."""
    if number == IDENTITY:
        return x
    if number == LINEAR:
        return a * x + b
    if number == LEAKY:
        return a * x if x < _ZERO else x
    if number == THRESHOLDED:
        return x if x > a else _ZERO
    if number == ELU:
        return a * np.float32(math.expm1(x)) if x < _ZERO else x
    if number == CELU:
        return a * np.float32(math.expm1(x / a)) if x < _ZERO else x
    if number == SCALED_ELU:
        return b * (a * np.float32(math.expm1(x)) if x <= _ZERO else x)
    if number == SCALED_TANH:
        return a * np.float32(math.tanh(b * x))
    if number == SOFTSIGN:
        x = min(max(x, -_LARGEST), _LARGEST) if x == x else x  # infinities give the limits
        return x / (_ONE + abs(x))
    if number == SOFTPLUS:
        return np.float32((x if x > _ZERO else _ZERO) + math.log1p(math.exp(-abs(np.float64(a) * x))) / a)
    if number == PARAMETRIC_SOFTPLUS:
        exponent = np.float64(b) * x
        return np.float32(a * (max(exponent, 0.0) + math.log1p(math.exp(-abs(exponent)))))
    if number == SHRINK:
        return x - a if x > b else (x + a if x < -b else _ZERO)
    x = _TAIL if x < _TAIL else x  # where the product is 0, and an infinity would make it NaN
    return np.float32(0.5 * x * math.erfc(-np.float64(x) * _ROOT_HALF))


@jit
def _other_slope(number: Any, a: Any, b: Any, x: Any) -> Any:
    """Its derivative at x, with the one-sided values that `devices.numpy.activation.derivatives` lists."""
    if number == IDENTITY:
        return _ONE
    if number == LINEAR:
        return a
    if number == LEAKY:
        return a if x < _ZERO else (_ONE if x == x else x)
    if number == THRESHOLDED:
        return _ONE if x > a else _ZERO
    if number == ELU:
        return _ONE if x >= _ZERO else a * np.float32(math.exp(x))
    if number == CELU:
        return _ONE if x >= _ZERO else np.float32(math.exp(x / a))
    if number == SCALED_ELU:
        return b if x > _ZERO else b * a * np.float32(math.exp(x))
    if number == SCALED_TANH:
        e = np.float32(math.exp(np.float32(-2.0) * abs(b * x)))
        quotient = _ONE / (_ONE + e)
        return np.float32(4.0) * e * quotient * quotient * a * b
    if number == SOFTSIGN:
        quotient = _ONE / (_ONE + abs(x))
        return quotient * quotient
    if number == SOFTPLUS:
        return _ONE / (_ONE + np.float32(math.exp(-a * x)))
    if number == PARAMETRIC_SOFTPLUS:
        return a * b / (_ONE + np.float32(math.exp(-b * x)))
    if number == SHRINK:
        return _ONE if abs(x) > b else _ZERO
    bounded = np.float64(min(max(x, _TAIL), -_TAIL) if x == x else x)
    return np.float32(0.5 * math.erfc(-bounded * _ROOT_HALF) + bounded * _DENSITY * math.exp(-0.5 * bounded * bounded))


@cache
def _other_function(isa: Isa, slope: bool) -> Any:
    """Another activation, or its derivative, of a vector: function(number, a, b, x). It is called, not inlined."""
    simd, of_float = simd_of(isa), _other_slope if slope else _other
    lane_of, with_lane, lanes = simd.lane, simd.with_lane, isa.lanes

    @njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def function(number: Any, a: Any, b: Any, x: Any) -> Any:
        for lane in range(lanes):
            x = with_lane(x, lane, of_float(number, a, b, lane_of(x, lane)))
        return x

    return function


def activation(name: str, role: int, isa: Isa) -> Any:
    """The activation of a name for a vector: function(p, x). NaN stays NaN.

    Args:
        name: one of `activations.COMPILED`, or `other`.
        role: 0 for f, 1 for g, 2 for h: whose constants it takes.
        isa: the instruction set that it is compiled for.
    """
    return _activation(name, role if name in _WITH_CONSTANTS else 0, isa)


@cache
def _activation(name: str, role: int, isa: Isa) -> Any:
    simd = simd_of(isa)
    all_of, multiply_add, at_most, at_least = simd.all_of, simd.multiply_add, simd.at_most, simd.at_least
    first, second = (OF_A_ROLE * role + 1) * FLOAT_BYTES, (OF_A_ROLE * role + 2) * FLOAT_BYTES
    sigmoid_of, tanh_of = (function_of(name, isa) for name in ("sigmoid", "tanh"))

    @jit
    def sigmoid(p: Any, x: Any) -> Any:
        return sigmoid_of(x)

    @jit
    def tanh(p: Any, x: Any) -> Any:
        return tanh_of(x)

    @jit
    def relu(p: Any, x: Any) -> Any:
        return at_least(x, all_of(_ZERO))

    @jit
    def hard_sigmoid(p: Any, x: Any) -> Any:
        x = multiply_add(x, all_of(float_at(p.functions + first)), all_of(float_at(p.functions + second)))
        return at_least(at_most(x, all_of(_ONE)), all_of(_ZERO))

    if name != "other":
        return {"sigmoid": sigmoid, "tanh": tanh, "relu": relu, "hard_sigmoid": hard_sigmoid}[name]
    return _with_constants(_other_function(isa, False), role)


def _with_constants(function: Any, role: int) -> Any:
    start = OF_A_ROLE * role * FLOAT_BYTES

    @jit
    def other(p: Any, x: Any) -> Any:
        at = p.functions + start
        return function(float_at(at), float_at(at + FLOAT_BYTES), float_at(at + 2 * FLOAT_BYTES), x)

    return other


@cache
def rest_of(name: str, isa: Isa) -> Any:
    """1 less an activation's value: function(p, x, y) of its argument and its value. That of a sigmoid keeps its digits."""
    simd, rest_of_sigmoid = simd_of(isa), function_of("rest_of_sigmoid", isa)
    all_of, subtract = simd.all_of, simd.subtract

    @jit
    def of_argument(p: Any, x: Any, y: Any) -> Any:
        return rest_of_sigmoid(x)

    @jit
    def of_value(p: Any, x: Any, y: Any) -> Any:
        return subtract(all_of(_ONE), y)

    return of_argument if name == "sigmoid" else of_value


def slope(name: str, role: int, isa: Isa) -> Any:
    """The derivative of an activation: function(p, x, y) of its argument and its value. Those with a name read y only, others x only."""
    return _slope(name, role if name in _WITH_CONSTANTS else 0, isa)


@cache
def _slope(name: str, role: int, isa: Isa) -> Any:
    simd = simd_of(isa)
    all_of, multiply, where_above = simd.all_of, simd.multiply, simd.where_above
    add, subtract = simd.add, simd.subtract
    first = (OF_A_ROLE * role + 1) * FLOAT_BYTES

    @jit
    def tanh(p: Any, x: Any, y: Any) -> Any:
        return multiply(subtract(all_of(_ONE), y), add(all_of(_ONE), y))  # 1 - y * y would lose digits where y is near 1

    @jit
    def sigmoid(p: Any, x: Any, y: Any) -> Any:
        return multiply(subtract(all_of(_ONE), y), y)

    @jit
    def relu(p: Any, x: Any, y: Any) -> Any:
        return where_above(y, all_of(_ZERO), all_of(_ONE))

    @jit
    def hard_sigmoid(p: Any, x: Any, y: Any) -> Any:
        alpha = all_of(float_at(p.functions + first))
        return where_above(y, all_of(_ZERO), where_above(subtract(all_of(_ONE), y), all_of(_ZERO), alpha))

    if name != "other":
        return {"sigmoid": sigmoid, "tanh": tanh, "relu": relu, "hard_sigmoid": hard_sigmoid}[name]
    function = _with_constants(_other_function(isa, True), role)

    @jit
    def other(p: Any, x: Any, y: Any) -> Any:
        return function(p, x)

    return other
