"""What the normalization operators compute, on whole arrays; batch normalization has plans of its own beside this file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dmlpy.devices.numpy.fused import fused
from dmlpy.devices.numpy.norms import lp_norm
from dmlpy.devices.numpy.whole import Array, Function

Inputs = Mapping[str, Any]


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean along axes, which are kept with a size of 1."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    # NumPy sums pairwise, and so precisely, only along what is contiguous.
    rows = np.ascontiguousarray(x.transpose(*kept, *axes)).reshape(*(x.shape[axis] for axis in kept), -1)
    means: Array = np.mean(rows, axis=-1, keepdims=True)
    return means.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])


def _normalized(desc: Any, inputs: Inputs, axes: Iterable[int], *, mean: bool, variance: bool) -> Array:
    result: Array = inputs["input_tensor"]
    groups = tuple(sorted(set(axes)))
    if mean:
        result = result - _mean(result, groups)
        result = result - _mean(result, groups)  # what rounding the first mean left, of elements far from 0
    if variance:
        result = result / np.sqrt(_mean(result * result, groups) + desc.epsilon)
    if inputs["scale_tensor"] is not None:
        result = result * inputs["scale_tensor"]
    if inputs["bias_tensor"] is not None:
        result = result + inputs["bias_tensor"]
    return fused(desc.fused_activation, result)


def _mean_variance(desc: Any, inputs: Inputs) -> Array:
    axes = (1, 2, 3) if desc.cross_channel else (2, 3)
    return _normalized(desc, inputs, axes, mean=True, variance=desc.normalize_variance)


def _mean_variance1(desc: Any, inputs: Inputs) -> Array:
    return _normalized(desc, inputs, desc.axes, mean=True, variance=desc.normalize_variance)


def _mean_variance2(desc: Any, inputs: Inputs) -> Array:
    return _normalized(desc, inputs, desc.axes, mean=desc.use_mean, variance=desc.use_variance)


def _window_sums(x: Array, desc: Any, *, mirrored: bool = False) -> Array:
    """Sums over the window around each element; mirrored: over all elements whose windows hold it."""
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
    """What the power beta is taken of."""
    divisors: Array = desc.bias + desc.alpha / desc.local_size * _window_sums(x * x, desc)
    return divisors


def _local_response(desc: Any, inputs: Inputs) -> Array:
    x: Array = inputs["input_tensor"]
    result: Array = x / _divisors(desc, x) ** desc.beta
    return result


def _local_response_gradient(desc: Any, inputs: Inputs) -> Array:
    x, gradient = inputs["input_tensor"], inputs["input_gradient_tensor"]
    divisors = _divisors(desc, x)
    through_others = _window_sums(gradient * x / divisors ** (desc.beta + 1), desc, mirrored=True)
    result: Array = gradient / divisors**desc.beta - 2 * desc.alpha * desc.beta / desc.local_size * x * through_others
    return result


def _lp(desc: Any, inputs: Inputs) -> Array:
    x: Array = inputs["input_tensor"]
    result: Array = x / np.maximum(lp_norm(x, desc.p, (desc.axis,)), desc.epsilon)
    return result


FUNCTIONS: Mapping[str, Function] = {
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": _local_response_gradient,
    "LP_NORMALIZATION": _lp,
    "MEAN_VARIANCE_NORMALIZATION": _mean_variance,
    "MEAN_VARIANCE_NORMALIZATION1": _mean_variance1,
    "MEAN_VARIANCE_NORMALIZATION2": _mean_variance2,
}
"""The functions by the operators' short names."""
