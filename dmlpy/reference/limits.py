"""Limits of numbers, and the larger or smaller of two.

What is not inside of a limit becomes the limit, so that a zero has its sign. NaN stays NaN, and a limit of NaN is none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.reference.integers import holding

if TYPE_CHECKING:
    from dmlpy.reference.registry import Array


def at_least(x: Array, least: float) -> Array:
    """The limit where x is not above it."""
    limit = holding(least, x.dtype)
    return x if math.isnan(least) else np.where(x <= limit, limit, x)


def at_most(x: Array, most: float) -> Array:
    """The limit where x is not below it."""
    limit = holding(most, x.dtype)
    return x if math.isnan(most) else np.where(x >= limit, limit, x)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers as IEEE 754 defines it: +0 is larger than -0, and NaN comes from either."""
    larger = np.maximum(a, b)
    if larger.dtype.kind != "f" or larger.all():
        return larger
    return np.where((a == 0) & (b == 0), a + b, larger)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two numbers as IEEE 754 defines it: -0 is smaller than +0, and NaN comes from either."""
    smaller = np.minimum(a, b)
    if smaller.dtype.kind != "f" or smaller.all():
        return smaller
    return np.where((a == 0) & (b == 0), -(-a - b), smaller)
