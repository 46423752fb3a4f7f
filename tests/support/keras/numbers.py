"""Arrays for Keras layers, and slopes by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def differences(function: Callable[[Array], float], at: Array, step: float = 1e-6) -> Array:
    """Central differences of a function in float64."""
    found = np.zeros(at.shape)
    for index in np.ndindex(at.shape):
        moved = at.astype(np.float64)
        moved[index] += step
        above = function(moved)
        moved[index] -= 2 * step
        found[index] = (above - function(moved)) / (2 * step)
    return found
