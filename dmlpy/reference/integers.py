"""Integer arithmetic that NumPy lacks, and limits as integers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dmlpy.reference.registry import Array


def is_integer(x: Array) -> bool:
    """Returns whether the elements are integers."""
    return x.dtype.kind in "iu"


def holding(limit: float, dtype: np.dtype[Any]) -> Any:
    """Converts a limit of results to their type as `as_integers` does, except that NaN stays: nothing is below or above it."""
    if dtype.kind not in "iu":
        return dtype.type(limit)
    if math.isnan(limit):
        return limit
    limits = np.iinfo(dtype)
    if math.isinf(limit):
        return dtype.type(limits.min if limit < 0 else limits.max)
    return dtype.type(min(max(math.trunc(limit), limits.min), limits.max))


def held_product(x: Array, scale: int, bias: int) -> Array:
    """Integers x * scale + bias, exact and held within the type's range."""
    limits = np.iinfo(x.dtype)
    estimate = np.abs(x.astype(np.float64)) * abs(scale) + abs(bias)
    result: Array = np.clip(x.astype(np.int64) * np.int64(scale) + np.int64(bias), limits.min, min(limits.max, 2**63 - 1)).astype(x.dtype)
    beyond = estimate >= 2.0**62
    if beyond.any():
        exact = [min(max(int(value) * scale + bias, limits.min), limits.max) for value in x[beyond]]
        result[beyond] = np.array(exact, x.dtype)
    return result


def integer_quotient(a: Array, b: Array) -> Array:
    """Computes a / b rounded toward zero; 0 where b is 0."""
    quotient: Array = np.floor_divide(a - np.fmod(a, b), b)
    return quotient


def integer_mean(a: Array, b: Array) -> Array:
    """Computes (a + b) / 2 of integers of at most 32 bits, without overflow, rounded toward zero."""
    return integer_quotient(a.astype(np.int64) + b, np.full((), 2, np.int64)).astype(a.dtype)


def integer_power(x: Array, exponent: Array) -> Array:
    """Computes x ^ exponent of integers of at most 32 bits, which wraps around.

    A negative power is rounded toward zero as well: it is 0 unless x is 1 or -1; also that of 0.
    """
    base, power = x.astype(np.int64), exponent.astype(np.int64)
    inverse = np.where(np.abs(base) == 1, np.where(power % 2 == 0, 1, base), 0)
    return np.where(power < 0, inverse, np.power(base, np.maximum(power, 0))).astype(x.dtype)


def snapped(values: Array) -> Array:
    """Rounds double-precision numbers that are whole up to a rounding error, so that whole powers stay whole in any library."""
    nearest = np.rint(values)
    return np.where(np.abs(values - nearest) <= 4 * np.finfo(values.dtype).eps * np.abs(values), nearest, values)
