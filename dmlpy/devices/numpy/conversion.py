"""Numbers in the type of a tensor: floating point that becomes integers is cut to whole numbers and clipped."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.enums import DataType

Array = np.ndarray[Any, np.dtype[Any]]


def converted(values: Array, data_type: DataType) -> Array:
    """Values in an element type.

    From floating point to an integer the fraction is dropped, what the type cannot hold becomes its nearest number, and NaN becomes 0.
    Integers wrap around in integers, and floating point is rounded to floating point.
    """
    dtype = data_type.numpy
    if dtype.kind == "f" or values.dtype.kind != "f":
        return values.astype(dtype, copy=False)
    limits, whole = np.iinfo(dtype), np.trunc(values)
    # Both ends of what is inside are powers of two, which every floating point type holds; the type's largest number often is none.
    low, high = whole < float(limits.min), whole >= float(limits.max + 1)
    result = np.where(low | high | np.isnan(whole), 0, whole).astype(dtype)
    return np.where(high, dtype.type(limits.max), np.where(low, dtype.type(limits.min), result))


def of_float(value: float, data_type: DataType) -> Array:
    """An attribute of type FLOAT in an element type, as `converted` does it."""
    return converted(np.asarray(np.float32(value)), data_type)


def of_scalar(value: float, data_type: DataType) -> Array:
    """A DML_SCALAR_UNION, which holds a number of the element type that it is read as."""
    dtype = data_type.numpy
    return np.asarray(float(value) if dtype.kind == "f" else int(value), dtype)
