"""The element types of generating operators, and the values at the ends of their ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

FLOATS: tuple[Any, ...] = (np.float16, np.float32, np.float64)


INTEGERS: tuple[Any, ...] = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def ends(dtype: type) -> list[float]:
    """The numbers at the ends of a type's range."""
    if np.dtype(dtype).kind == "f":
        return [float(np.finfo(dtype).max), -math.inf, math.nan, 0.1]
    return [int(np.iinfo(dtype).min), int(np.iinfo(dtype).max), 3]
