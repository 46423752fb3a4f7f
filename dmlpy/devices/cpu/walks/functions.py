"""Activations of a cell and their derivatives, as functions of vectors that the kernels of units call.

Those of the name `other` take one lane after the other, and find out by a number which activation it is: see `activations`.

What a training form keeps of a gate is its value, or its argument where the derivative follows from that only (`reserve.keeps_argument`).
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from dmlpy.devices.cpu.registers import FLOAT_BYTES
from dmlpy.devices.cpu.vectors import float_at, jit, vectors_of
from dmlpy.devices.cpu.walks.activations import (
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

if TYPE_CHECKING:
    from dmlpy.devices.cpu.registers import Registers

_WITH_CONSTANTS = ("hard_sigmoid", "other")
"""Names of functions that are compiled for each role, whose constants they read."""
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_LARGEST, _TAIL = np.finfo(np.float32).max, np.float32(-40.0)
_ROOT_HALF, _DENSITY = np.float32(math.sqrt(0.5)), np.float32(1.0 / math.sqrt(2.0 * math.pi))
TANH_BOUND = np.float32(7.90531110763549805)
"""Beyond this argument tanh is 1 in float32."""
TANH_ABOVE = tuple(
    np.float32(factor)
    for factor in (
        *(4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08),
        *(-8.60467152213735e-11, 2.00018790482477e-13, -2.76076847742355e-16),
    )
)
TANH_BELOW = tuple(
    np.float32(factor) for factor in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
)
"""tanh(x) is x times a quotient of two polynomials in x squared: the coefficients of `TANH_ABOVE` and these, the constant one first."""


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
        return (x if x > _ZERO else _ZERO) + np.float32(math.log1p(math.exp(-abs(a * x)))) / a
    if number == PARAMETRIC_SOFTPLUS:
        x = b * x
        return a * ((x if x > _ZERO else _ZERO) + np.float32(math.log1p(math.exp(-abs(x)))))
    if number == SHRINK:
        return x - a if x > b else (x + a if x < -b else _ZERO)
    x = _TAIL if x < _TAIL else x  # where the product is 0, and an infinity would make it NaN
    return _HALF * x * np.float32(math.erfc(-x * _ROOT_HALF))


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
    bounded = min(max(x, _TAIL), -_TAIL) if x == x else x
    density = _DENSITY * np.float32(math.exp(-_HALF * bounded * bounded))
    return _HALF * np.float32(math.erfc(-bounded * _ROOT_HALF)) + bounded * density


@cache
def _other_function(registers: Registers, slope: bool) -> Any:
    """Another activation, or its derivative, of a vector: function(number, a, b, x). It is called, not inlined."""
    vectors, of_float = vectors_of(registers), _other_slope if slope else _other
    lane_of, with_lane, lanes = vectors.lane, vectors.with_lane, registers.lanes

    @njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def function(number: Any, a: Any, b: Any, x: Any) -> Any:
        for lane in range(lanes):
            x = with_lane(x, lane, of_float(number, a, b, lane_of(x, lane)))
        return x

    return function


def activation(name: str, role: int, registers: Registers) -> Any:
    """The activation of a name for a vector: function(p, x). NaN stays NaN.

    Args:
        name: one of `activations.COMPILED`, or `other`.
        role: 0 for f, 1 for g, 2 for h: whose constants it takes.
        registers: the registers that it is compiled for.
    """
    return _activation(name, role if name in _WITH_CONSTANTS else 0, registers)


@cache
def _tanh(registers: Registers) -> Any:
    vectors = vectors_of(registers)
    all_of, multiply, multiply_add = vectors.all_of, vectors.multiply, vectors.multiply_add
    at_most, at_least, divide = vectors.at_most, vectors.at_least, vectors.divide
    a0, a1, a2, a3, a4, a5, a6 = TANH_ABOVE
    b0, b1, b2, b3 = TANH_BELOW

    @jit
    def tanh(p: Any, x: Any) -> Any:
        x = at_least(at_most(x, all_of(TANH_BOUND)), all_of(-TANH_BOUND))
        s = multiply(x, x)
        above = multiply_add(s, multiply_add(s, all_of(a6), all_of(a5)), all_of(a4))
        above = multiply_add(s, multiply_add(s, above, all_of(a3)), all_of(a2))
        above = multiply_add(s, multiply_add(s, above, all_of(a1)), all_of(a0))
        below = multiply_add(s, multiply_add(s, multiply_add(s, all_of(b3), all_of(b2)), all_of(b1)), all_of(b0))
        return divide(multiply(x, above), below)

    return tanh


@cache
def _activation(name: str, role: int, registers: Registers) -> Any:
    vectors = vectors_of(registers)
    all_of, multiply, multiply_add, at_most, at_least = (
        vectors.all_of,
        vectors.multiply,
        vectors.multiply_add,
        vectors.at_most,
        vectors.at_least,
    )
    first, second = (OF_A_ROLE * role + 1) * FLOAT_BYTES, (OF_A_ROLE * role + 2) * FLOAT_BYTES
    tanh = _tanh(registers)

    @jit
    def sigmoid(p: Any, x: Any) -> Any:
        return multiply_add(tanh(p, multiply(x, all_of(_HALF))), all_of(_HALF), all_of(_HALF))

    @jit
    def relu(p: Any, x: Any) -> Any:
        return at_least(x, all_of(_ZERO))

    @jit
    def hard_sigmoid(p: Any, x: Any) -> Any:
        x = multiply_add(x, all_of(float_at(p.functions + first)), all_of(float_at(p.functions + second)))
        return at_least(at_most(x, all_of(_ONE)), all_of(_ZERO))

    if name != "other":
        return {"sigmoid": sigmoid, "tanh": tanh, "relu": relu, "hard_sigmoid": hard_sigmoid}[name]
    return _with_constants(_other_function(registers, False), role)


def _with_constants(function: Any, role: int) -> Any:
    start = OF_A_ROLE * role * FLOAT_BYTES

    @jit
    def other(p: Any, x: Any) -> Any:
        at = p.functions + start
        return function(float_at(at), float_at(at + FLOAT_BYTES), float_at(at + 2 * FLOAT_BYTES), x)

    return other


def slope(name: str, role: int, registers: Registers) -> Any:
    """The derivative of an activation: function(p, x, y) of its argument and its value. Those with a name read y only, others x only."""
    return _slope(name, role if name in _WITH_CONSTANTS else 0, registers)


@cache
def _slope(name: str, role: int, registers: Registers) -> Any:
    vectors = vectors_of(registers)
    all_of, multiply, subtract, where_above = vectors.all_of, vectors.multiply, vectors.subtract, vectors.where_above
    first = (OF_A_ROLE * role + 1) * FLOAT_BYTES

    @jit
    def tanh(p: Any, x: Any, y: Any) -> Any:
        return subtract(all_of(_ONE), multiply(y, y))

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
    function = _with_constants(_other_function(registers, True), role)

    @jit
    def other(p: Any, x: Any, y: Any) -> Any:
        return function(p, x)

    return other
