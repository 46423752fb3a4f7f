"""Batch normalization and its gradients, DirectML's and TensorFlow's fused form.

A statistic has size 1 in the dimensions along which it repeats: means, variances and sums run over these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.operators.normalization.batch import (
    BatchNormalizationDesc,
    BatchNormalizationGradDesc,
    BatchNormalizationTrainingDesc,
    BatchNormalizationTrainingGradDesc,
)
from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc, FusedBatchNormGradV3Desc, FusedBatchNormV3Desc
from dmlpy.reference.fused import fused
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Mapping


def repeated_axes(statistic: Array) -> tuple[int, ...]:
    """The dimensions along which a statistic repeats."""
    return tuple(axis for axis, size in enumerate(statistic.shape) if size == 1)


def statistics(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """The mean and biased variance over `axes`, which are kept with size 1. A group with an infinity or a NaN has NaN for both."""
    mean = np.mean(x, axis=axes, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=axes, keepdims=True)
    return np.where(np.isnan(variance), np.nan, mean), variance


def normalized(x: Array, mean: Array, variance: Array, epsilon: float) -> Array:
    """Computes x less its mean, in units of its standard deviation."""
    whitened: Array = (x - mean) / np.sqrt(variance + epsilon)
    return whitened


def gradients(dy: Array, x: Array, mean: Array, variance: Array, scale: Array, epsilon: float) -> tuple[Array, Array, Array]:
    """The gradients of x, scale and bias for given mean and variance, which do not depend on x.

    That of the scale is NaN where the sum has an infinity or a NaN: which of these comes out would depend on how the sum is written.
    """
    axes, deviation = repeated_axes(mean), np.sqrt(variance + epsilon)
    products = np.sum(dy * (x - mean), axis=axes, keepdims=True)
    d_scale = np.where(np.isfinite(products), products, np.nan) / deviation
    return scale / deviation * dy, d_scale, np.sum(dy, axis=axes, keepdims=True)


def training_gradient(dy: Array, x: Array, mean: Array, centre: Array, variance: Array, scale: Array, epsilon: float) -> Array:
    """The gradient of x where mean and variance are computed from x; `centre` is the mean with more digits than `mean` may have.

    A group with an infinity or a NaN in dy, x or mean has NaN everywhere, as the statistics of such a group are NaN.
    """
    axes, centred = repeated_axes(variance), x - centre
    through_mean = np.mean(dy, axis=axes, keepdims=True)
    through_variance = np.mean(dy * centred, axis=axes, keepdims=True) / (variance + epsilon)
    d_x: Array = scale / np.sqrt(variance + epsilon) * (dy - through_mean - centred * through_variance)
    is_finite = np.isfinite(np.sum(dy * (x - mean), axis=repeated_axes(mean), keepdims=True))
    return np.where(is_finite, d_x, np.nan)


# DirectML's


@defines(BatchNormalizationDesc)
def batch_normalization(desc: BatchNormalizationDesc, inputs: Inputs) -> Array:
    whitened = normalized(inputs["input_tensor"], inputs["mean_tensor"], inputs["variance_tensor"], desc.epsilon)
    return fused(desc.fused_activation, inputs["scale_tensor"] * whitened + inputs["bias_tensor"])


@defines(BatchNormalizationTrainingDesc)
def batch_normalization_training(desc: BatchNormalizationTrainingDesc, inputs: Inputs) -> dict[str, Array]:
    x, scale, added = inputs["input_tensor"], inputs["scale_tensor"], inputs.get("fused_add_tensor")
    mean, variance = statistics(x, repeated_axes(scale))
    y = scale * normalized(x, mean, variance, desc.epsilon) + inputs["bias_tensor"]
    y = fused(desc.fused_activation, y if added is None else y + added)
    return {"output_tensor": y, "output_mean_tensor": mean, "output_variance_tensor": variance}


@defines(BatchNormalizationGradDesc, BatchNormalizationTrainingGradDesc)
def batch_normalization_gradient(desc: BatchNormalizationGradDesc | BatchNormalizationTrainingGradDesc, inputs: Inputs) -> dict[str, Array]:
    x, dy, mean, variance, scale = (inputs[f"{name}_tensor"] for name in ("input", "input_gradient", "mean", "variance", "scale"))
    d_x, d_scale, d_bias = gradients(dy, x, mean, variance, scale, desc.epsilon)
    if isinstance(desc, BatchNormalizationTrainingGradDesc):
        # The mean is recomputed: the rounding error of the given one would show in gradients along x.
        d_x = training_gradient(dy, x, mean, np.mean(x, axis=repeated_axes(mean), keepdims=True), variance, scale, desc.epsilon)
    return {"output_gradient_tensor": d_x, "output_scale_gradient_tensor": d_scale, "output_bias_gradient_tensor": d_bias}


# TensorFlow's

CHANNELS: Mapping[str, int] = {"NHWC": 3, "NCHW": 1, "NDHWC": 4, "NCDHW": 1}
"""The dimension of the channels in each of TensorFlow's formats."""


def _along_channels(desc: FusedBatchNormDesc, inputs: Inputs) -> dict[str, Any]:
    """The inputs, with statistics reshaped to the dimensions of x, all of size 1 but the channels."""
    sizes = [-1 if axis == CHANNELS[desc.data_format.name] else 1 for axis in range(inputs["x"].ndim)]
    given = {name: array for name, array in inputs.items() if array is not None}
    return {name: array.reshape(sizes) if array.ndim == 1 else array for name, array in given.items()}


@defines(FusedBatchNormV3Desc)
def fused_batch_norm(desc: FusedBatchNormV3Desc, inputs: Inputs) -> dict[str, Array]:
    wide = _along_channels(desc, inputs)
    x, factor = wide["x"], desc.exponential_avg_factor
    if desc.is_training:
        mean, variance = statistics(x, repeated_axes(wide["scale"]))
        entries = x.size // wide["scale"].size
        running = [mean, variance * entries / max(entries - 1, 1)]  # the unbiased variance
        if factor != 1:
            before = [wide["mean"], wide["variance"]]
            running = [(1 - factor) * old + factor * new for old, new in zip(before, running, strict=True)]
    else:
        running = [mean, variance] = [wide["mean"], wide["variance"]]
    y = wide["scale"] * normalized(x, mean, variance, desc.epsilon) + wide["offset"]
    names = ("batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")
    return {"y": y} | {name: array.reshape(-1) for name, array in zip(names, (*running, mean, variance), strict=True)}


@defines(FusedBatchNormGradV3Desc)
def fused_batch_norm_gradient(desc: FusedBatchNormGradV3Desc, inputs: Inputs) -> dict[str, Array]:
    wide = _along_channels(desc, inputs)
    dy, x, scale, mean, variance = (wide[name] for name in ("y_backprop", "x", "scale", "reserve_space_1", "reserve_space_2"))
    d_x, d_scale, d_offset = gradients(dy, x, mean, variance, scale, desc.epsilon)
    if desc.is_training:
        d_x = training_gradient(dy, x, mean, mean, variance, scale, desc.epsilon)
    return {"x_backprop": d_x, "scale_backprop": d_scale.reshape(-1), "offset_backprop": d_offset.reshape(-1)}
