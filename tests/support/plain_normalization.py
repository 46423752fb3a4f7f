"""Batch normalization as the equations say, in float64 over whole arrays: plain enough to be read as the oracle.

Nothing here is shared with the devices. The activations are scalar functions of Python's `math`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.plain_recurrent import activate

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
NormalizationDesc = (
    dml.BatchNormalizationDesc
    | dml.BatchNormalizationTrainingDesc
    | dml.BatchNormalizationGradDesc
    | dml.BatchNormalizationTrainingGradDesc
    | dml.FusedBatchNormV3Desc
    | dml.FusedBatchNormGradV3Desc
)

CHANNELS = {"NHWC": 3, "NCHW": 1, "NDHWC": 4, "NCDHW": 1}
"""The dimension of the channels in each of TensorFlow's formats."""


def repeated_axes(statistic: Array) -> tuple[int, ...]:
    """The dimensions along which a statistic repeats: those of size 1."""
    return tuple(axis for axis, size in enumerate(statistic.shape) if size == 1)


def statistics(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and biased variance over `axes`, which stay with size 1. What is not a number makes both NaN."""
    mean = np.mean(x, axis=axes, keepdims=True)
    variance = np.mean((x - mean) ** 2, axis=axes, keepdims=True)
    return np.where(np.isnan(variance), np.nan, mean), variance


def normalized(x: Array, mean: Array, variance: Array, epsilon: float) -> Array:
    return (x - mean) / np.sqrt(variance + epsilon)


def finished(y: Array, activation: dml.ActivationDesc | None) -> Array:
    """The fused activation of every element."""
    if activation is None:
        return y
    return np.array([activate(activation, float(value)) for value in y.reshape(-1)]).reshape(y.shape)


def gradients(
    dy: Array, x: Array, centre: Array, mean: Array, variance: Array, scale: Array, epsilon: float, training: bool
) -> list[Array]:
    """The gradients of x, scale and bias; training centres x by `centre` in the first and by `mean` in the second.

    All sums run over the dimensions in which the statistics have size 1.
    """
    axes, deviation = repeated_axes(mean), np.sqrt(variance + epsilon)
    dx = scale / deviation * dy
    if training:
        centred = x - centre
        of_mean = np.mean(dy, axis=axes, keepdims=True)
        of_variance = np.mean(dy * centred, axis=axes, keepdims=True) / (variance + epsilon)
        dx = scale / deviation * (dy - of_mean - centred * of_variance)
    d_scale = np.sum(dy * normalized(x, mean, variance, epsilon), axis=axes, keepdims=True)
    return [dx, d_scale, np.sum(dy, axis=axes, keepdims=True)]


def run(desc: NormalizationDesc, arrays: Arrays) -> dict[str, Array]:
    """Every output of the operator in float64, described or not, from the arrays of the described inputs."""
    given = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
    with np.errstate(all="ignore"):
        match desc:
            case dml.BatchNormalizationDesc():
                return _given(desc, given)
            case dml.BatchNormalizationTrainingDesc():
                return _training(desc, given)
            case dml.BatchNormalizationGradDesc() | dml.BatchNormalizationTrainingGradDesc():
                return _gradient(desc, given)
            case dml.FusedBatchNormV3Desc():
                return _fused(desc, given)
            case dml.FusedBatchNormGradV3Desc():
                return _fused_gradient(desc, given)
    raise AssertionError(f"no definition of {desc.type_name}")


def _given(desc: dml.BatchNormalizationDesc, given: Arrays) -> dict[str, Array]:
    whole = normalized(given["input_tensor"], given["mean_tensor"], given["variance_tensor"], desc.epsilon)
    y = given["scale_tensor"] * whole + given["bias_tensor"]
    return {"output_tensor": finished(y, desc.fused_activation)}


def _training(desc: dml.BatchNormalizationTrainingDesc, given: Arrays) -> dict[str, Array]:
    x, scale = given["input_tensor"], given["scale_tensor"]
    mean, variance = statistics(x, repeated_axes(scale))
    y = scale * normalized(x, mean, variance, desc.epsilon) + given["bias_tensor"] + given.get("fused_add_tensor", 0.0)
    return {"output_tensor": finished(y, desc.fused_activation), "output_mean_tensor": mean, "output_variance_tensor": variance}


def _gradient(desc: dml.BatchNormalizationGradDesc | dml.BatchNormalizationTrainingGradDesc, given: Arrays) -> dict[str, Array]:
    x, dy, mean = given["input_tensor"], given["input_gradient_tensor"], given["mean_tensor"]
    centre = np.mean(x, axis=repeated_axes(mean), keepdims=True)
    training = isinstance(desc, dml.BatchNormalizationTrainingGradDesc)
    found = gradients(dy, x, centre, mean, given["variance_tensor"], given["scale_tensor"], desc.epsilon, training)
    return dict(zip(("output_gradient_tensor", "output_scale_gradient_tensor", "output_bias_gradient_tensor"), found, strict=True))


def _along_channels(desc: dml.FusedBatchNormV3Desc | dml.FusedBatchNormGradV3Desc, given: Arrays) -> dict[str, Array]:
    """The statistics with the dimensions of x, all of them 1 but the channels'."""
    sizes = [-1 if axis == CHANNELS[desc.data_format.name] else 1 for axis in range(len(desc.x.sizes))]
    return {name: array.reshape(sizes) if array.ndim == 1 else array for name, array in given.items()}


def _fused(desc: dml.FusedBatchNormV3Desc, given: Arrays) -> dict[str, Array]:
    wide = _along_channels(desc, given)
    x, factor = wide["x"], desc.exponential_avg_factor
    if desc.is_training:
        mean, variance = statistics(x, repeated_axes(wide["scale"]))
        entries = x.size // wide["scale"].size
        running = [mean, variance * entries / max(entries - 1, 1)]
        if factor != 1:
            old = wide["mean"], wide["variance"]
            running = [(1 - factor) * before + factor * now for before, now in zip(old, running, strict=True)]
    else:
        running = [mean, variance] = [wide["mean"], wide["variance"]]
    y = wide["scale"] * normalized(x, mean, variance, desc.epsilon) + wide["offset"]
    names = ("batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")
    return {"y": y} | {name: array.reshape(-1) for name, array in zip(names, (*running, mean, variance), strict=True)}


def _fused_gradient(desc: dml.FusedBatchNormGradV3Desc, given: Arrays) -> dict[str, Array]:
    wide = _along_channels(desc, given)
    mean, variance = wide["reserve_space_1"], wide["reserve_space_2"]
    dx, *others = gradients(wide["y_backprop"], wide["x"], mean, mean, variance, wide["scale"], desc.epsilon, desc.is_training)
    return {"x_backprop": dx} | {name: array.reshape(-1) for name, array in zip(("scale_backprop", "offset_backprop"), others, strict=True)}
