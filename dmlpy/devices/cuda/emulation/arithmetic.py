"""Matrix products of the emulated runtime, in the precision that a GPU's are allowed."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def rounded_to_tf32(values: Array) -> Array:
    """float32 values rounded to 10 bits of mantissa, halves away from zero, as `cvt.rna.tf32.f32` does; those of float16 have no more."""
    bits = values.view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


def truncated_to_tf32(values: Array) -> Array:
    """float32 values without the 13 bits that TF32 lacks, as tensor cores take them; infinities and NaN stay."""
    bits = values.view(np.uint32)
    return np.where(np.isfinite(values), (bits & np.uint32(0xFFFFE000)).view(np.float32), values)


def truncating_product(left: Array, right: Array) -> Array:
    """left @ right.T as tensor cores may form it, [M, K] and [N, K]: of float32 values that have 11 bits each.

    Four products at a time are added to the sum, all cut off below the last bit of the largest, and so is the sum: the arithmetic of
    cuda_arithmetic_on_cpu.h.
    """
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    total = np.zeros((left.shape[0], right.shape[0]))
    for depth in range(0, left.shape[1], 4):
        terms = np.stack([total, *(np.outer(wide_left[:, k], wide_right[:, k]) for k in range(depth, min(depth + 4, left.shape[1])))])
        exponents = np.maximum(np.frexp(np.abs(terms).max(0))[1] - 1, -126)
        unit = np.ldexp(1.0, exponents - 23)
        truncated = np.trunc(terms / unit).sum(0) * unit
        nearest = truncated.astype(np.float32)
        total = np.where(np.abs(nearest) > np.abs(truncated), np.nextafter(nearest, np.float32(0)), nearest).astype(np.float64)
        total = np.where(np.isfinite(terms.sum(0)), total, terms.sum(0))
    result: Array = total.astype(np.float32)
    return result


def matrix_product(left: Array, right: Array, *, tf32: bool, truncates: bool) -> Array:
    """left @ right.T in float32, [M, K] and [N, K], both float32, float16 or bfloat16.

    `tf32` allows factors of TF32: rounded, or cut off where tensor cores are taken to be at their worst (`truncates`).
    """
    narrow = left.dtype.itemsize == 2
    left, right = left.astype(np.float32), right.astype(np.float32)
    if tf32:
        to_tf32 = truncated_to_tf32 if truncates else rounded_to_tf32
        left, right = to_tf32(left), to_tf32(right)
    result: Array = truncating_product(left, right) if truncates and (tf32 or narrow) else left @ right.T
    return result
