"""Arrays of every type for the movement operators, and those of them that are tested in a module of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.operators.generated_values import FLOATS, INTEGERS
from tests.support.operators.layout_runs import Array

TYPES = (*FLOATS, *INTEGERS)


MARGINS_AND_REVERSALS = ("PADDING", "PADDING1", "REVERSE_SUBSEQUENCES")
"""The operators of tests/devices/test_padding.py."""


def numbers(rng: np.random.Generator, sizes: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Values with both ends of a type's range among them."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values = rng.normal(size=sizes).astype(dtype)
        values.reshape(-1)[:1] = np.nan
        values.reshape(-1)[-1:] = -np.inf
        return values
    values = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, sizes, dtype, endpoint=True)
    values.reshape(-1)[:1], values.reshape(-1)[-1:] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return values
