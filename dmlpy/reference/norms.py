"""Norms of groups of elements, on whole arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dmlpy.reference.registry import Array


def lp_norm(x: Array, p: int, axis: tuple[int, ...]) -> Array:
    """Computes (sum of |x| ** p) ** (1 / p) along axes, which are kept with a size of 1.

    Powers are those of shares of the largest, so that none overflows and small ones do not all vanish.
    """
    magnitudes = np.abs(x)
    largest = np.max(magnitudes, axis=axis, keepdims=True)
    # 1 where a division would make zeros or infinities NaN
    unit = np.where((largest > 0) & (largest < np.inf), largest, np.ones_like(largest))
    total = np.sum((magnitudes / unit) ** p, axis=axis, keepdims=True)
    norm: Array = unit * (np.sqrt(total) if p == 2 else total ** (1 / p if p else np.inf))
    return norm
