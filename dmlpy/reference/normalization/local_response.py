"""Local response normalization: divides each element by a power of its neighbourhood's squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.operators.normalization.local_response import LocalResponseNormalizationDesc, LocalResponseNormalizationGradDesc
from dmlpy.reference.registry import Array, Inputs, defines


def _window_sums(x: Array, desc: Any, *, mirrored: bool = False) -> Array:
    """Sums over the window around each element or, if mirrored, over all elements whose windows contain it."""
    before = (desc.local_size - 1) // 2
    lengths = (before, desc.local_size - 1 - before)
    before, after = reversed(lengths) if mirrored else lengths
    for axis in (1,) if desc.cross_channel else (2, 3):
        x = _sums_along(x, axis, before, after)
    return x


def _sums_along(x: Array, axis: int, before: int, after: int) -> Array:
    result = x.copy()
    total, source, last = np.moveaxis(result, axis, 0), np.moveaxis(x, axis, 0), x.shape[axis] - 1
    for distance in range(1, min(before, last) + 1):
        total[distance:] += source[:-distance]
    for distance in range(1, min(after, last) + 1):
        total[:-distance] += source[distance:]
    return result


def _divisors(desc: Any, x: Array) -> Array:
    """The divisors before they are raised to the power beta."""
    divisors: Array = desc.bias + desc.alpha / desc.local_size * _window_sums(x * x, desc)
    return divisors


@defines(LocalResponseNormalizationDesc)
def _local_response(desc: Any, inputs: Inputs) -> Array:
    x: Array = inputs["input_tensor"]
    result: Array = x / _divisors(desc, x) ** desc.beta
    return result


@defines(LocalResponseNormalizationGradDesc)
def _local_response_gradient(desc: Any, inputs: Inputs) -> Array:
    x, gradient = inputs["input_tensor"], inputs["input_gradient_tensor"]
    divisors = _divisors(desc, x)
    through_others = _window_sums(gradient * x / divisors ** (desc.beta + 1), desc, mirrored=True)
    result: Array = gradient / divisors**desc.beta - 2 * desc.alpha * desc.beta / desc.local_size * x * through_others
    return result
