"""The numbers of BFLOAT16, which are the upper halves of floats, and NumPy's type of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_BITS = 16


@cache
def numpy_type() -> np.dtype[Any]:
    """The NumPy type of the elements.

    Raises:
        ModuleNotFoundError: the package that defines it is not installed.
    """
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        text = "arrays of BFLOAT16 need the package ml_dtypes: pip install ml_dtypes"
        raise ModuleNotFoundError(text, name="ml_dtypes") from None
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy's elements are floating-point numbers: the kind of those of BFLOAT16 is that of bytes without a meaning."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name == "bfloat16")  # NumPy puts a name together each time


def type_expression(dtype: np.dtype[Any]) -> str:
    """The Python expression of a type, for remedies."""
    return f"{'ml_dtypes' if dtype.name == 'bfloat16' else 'numpy'}.{dtype.name}"


def cast_remedy(given: np.dtype[Any], expected: np.dtype[Any]) -> str | None:
    """The remedy for an array of another type; None if its elements are not numbers."""
    if expected.name != "bfloat16":
        return f"cast it: array.astype({type_expression(expected)})" if given.kind in "biu" or is_float(given) else None
    if given == np.uint16:
        return "if its elements are the bits of such numbers, view it: array.view(ml_dtypes.bfloat16)"
    return f"cast it: array.astype({type_expression(expected)})" if given.kind in "biuf" else None


def holds_bfloat16(array: Any) -> bool:
    """Whether an array of any library says that its elements are of BFLOAT16."""
    return str(getattr(array, "dtype", "")).rpartition(".")[2] == "bfloat16"


def rounded(value: float) -> float:
    """The nearest number of BFLOAT16, the even one of two equally near; infinite beyond its range."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if np.isnan(single):
        return float(single)
    bits = int(single.view(np.uint32))
    bits += 0x7FFF + (bits >> _BITS & 1)
    return number_of_bits(bits >> _BITS)


def number_of_bits(bits: int) -> float:
    """Decodes a number from its 16 bits."""
    return float(np.uint32(bits << _BITS).view(np.float32))
