"""The element types of generating operators, the values at the ends of their ranges, and known answers of Philox."""

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


ONES = 0xFFFFFFFF
# Counter, key and words of Random123's kat_vectors, "philox4x32 10".
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
