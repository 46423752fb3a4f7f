"""raw_kernels/common/tile_products.cuh: sums of products by tiles, on tensor cores where elements are halves or bytes."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from dmlpy.devices.cuda.runtime.interface import Limits

TILE_SIDE = 64
"""Rows and columns of a tile: `tile_side`."""
TILE_THREADS = 128
"""Threads of a block, which owns a tile: `tile_threads`."""

WIDE_BYTES = 16
"""Bytes that a thread loads at once."""

MOST_BYTE_TERMS = 2**15
"""Products of two differences of bytes that always fit a sum of 32 bits."""

_SHAPES = {2: ("m16n8k16 of halves", "m16n8k8 of halves"), 1: ("m16n8k32 of bytes", "m8n8k16 of bytes")}
"""By the bytes of an element: the instruction of tensor cores from compute capability 8.0 on, and before."""


class Order(IntEnum):
    """How threads load a matrix: `Order` of the header."""

    TERMS = 0
    LINES = 1
    WIDE_TERMS = 2
    WIDE_LINES = 3

    @classmethod
    def of(cls, counts: tuple[int, int], strides: tuple[int, int], others: Sequence[int], size: int, address: int) -> Order:
        """Along the contiguous dimension, with 16 bytes at once if all accesses are aligned to that.

        Args:
            counts: lines and terms.
            strides: between lines and between terms, in elements.
            others: between matrices, or between parts of one.
            size: bytes of an element.
            address: of the first element.
        """
        (lines, terms), (line, term) = counts, strides
        along_terms = term < line
        count, inner, outer = (terms, term, line) if along_terms else (lines, line, term)
        wide = inner == 1 and all(number * size % WIDE_BYTES == 0 for number in (count, outer, *others)) and address % WIDE_BYTES == 0
        if along_terms:
            return cls.WIDE_TERMS if wide else cls.TERMS
        return cls.WIDE_LINES if wide else cls.LINES


def multiplication(data_type: np.dtype[Any], limits: Limits, *, tf32: bool = False) -> str:
    """How products of elements are computed, for `describe`; `tf32`: those of float32 by tensor cores."""
    if tf32:
        return "on tensor cores, by mma m16n8k8 of TF32"
    if data_type.itemsize not in _SHAPES:
        return "multiplied and added in float32"
    newer, older = _SHAPES[data_type.itemsize]
    return f"on tensor cores, by mma {newer if limits.compute_capability >= 80 else older}"
