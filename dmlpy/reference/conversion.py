"""Conversion of numbers to a tensor's type: floating point is truncated and clipped when it becomes an integer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float

if TYPE_CHECKING:
    from dmlpy.description.enums import DataType
    from dmlpy.reference.registry import Array


def converted(values: Array, data_type: DataType) -> Array:
    """Converts values to an element type.

    From floating point to an integer the fraction is dropped, what the type cannot hold becomes its nearest number, and NaN becomes 0.
    Integers wrap around in integers, and floating point is rounded to floating point.
    """
    dtype = data_type.numpy
    if is_float(dtype) or not is_float(values.dtype):
        return values.astype(dtype, copy=False)
    return as_integers(values, dtype)


def as_integers(values: Array, dtype: np.dtype[Any]) -> Array:
    """Rounds numbers toward zero and clips them to an integer type's range; NaN gives 0."""
    limits = np.iinfo(dtype)
    beyond = float(limits.max) + 1.0  # a power of two: a number in any type, as the largest integer itself need not be
    # NaN is not a minimum within the range.
    if values.size and values.min() > limits.min - 1 and values.max() < beyond:
        return values.astype(dtype)
    whole = np.trunc(values)
    below, above = whole < limits.min, whole >= beyond
    inside = ~(below | above | np.isnan(whole))
    representable = np.where(inside, whole, 0.0).astype(dtype)
    return np.where(below, dtype.type(limits.min), np.where(above, dtype.type(limits.max), representable))


def of_float(value: float, data_type: DataType) -> Array:
    """Converts an attribute of type FLOAT to an element type, as `converted` does; FLOAT16 becomes infinite beyond its range."""
    with np.errstate(over="ignore"):
        return converted(np.asarray(np.float32(value)), data_type)


def of_scalar(value: float, data_type: DataType) -> Array:
    """The value of a DML_SCALAR_UNION, which holds a number of the element type that it is read as."""
    dtype = data_type.numpy
    return np.asarray(float(value) if is_float(dtype) else int(value), dtype)
