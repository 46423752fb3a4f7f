"""Mean-variance normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.operators.normalization.mean_variance import (
    MeanVarianceNormalization1Desc,
    MeanVarianceNormalization2Desc,
    MeanVarianceNormalizationDesc,
)
from dmlpy.reference.fused import fused
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        result = result - _mean(result, groups)  # removes the first mean's rounding error, for elements far from 0
    if variance:
        result = result / np.sqrt(_mean(result * result, groups) + desc.epsilon)
    if inputs["scale_tensor"] is not None:
        result = result * inputs["scale_tensor"]
    if inputs["bias_tensor"] is not None:
        result = result + inputs["bias_tensor"]
    return fused(desc.fused_activation, result)


@defines(MeanVarianceNormalizationDesc)
def _mean_variance(desc: Any, inputs: Inputs) -> Array:
    axes = (1, 2, 3) if desc.cross_channel else (2, 3)
    return _normalized(desc, inputs, axes, mean=True, variance=desc.normalize_variance)


@defines(MeanVarianceNormalization1Desc)
def _mean_variance1(desc: Any, inputs: Inputs) -> Array:
    return _normalized(desc, inputs, desc.axes, mean=True, variance=desc.normalize_variance)


@defines(MeanVarianceNormalization2Desc)
def _mean_variance2(desc: Any, inputs: Inputs) -> Array:
    return _normalized(desc, inputs, desc.axes, mean=desc.use_mean, variance=desc.use_variance)
