"""The definitions of the resampling operators, on whole arrays: one dimension after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from dmlpy.description.enums import AxisDirection, InterpolationMode
from dmlpy.operators.resampling import (
    Resample1Desc,
    Resample2Desc,
    Resample3Desc,
    ResampleDesc,
    ResampleGrad1Desc,
    ResampleGradDesc,
    Upsample2DDesc,
    ValueScale2DDesc,
)
from dmlpy.reference.registry import Array, Inputs, defines
from dmlpy.reference.taps import Taps, coordinates, linear, settled, single, stretched

Rounding = Callable[[Array], Array]


def _nearest(places: Array) -> Array:
    return np.asarray(np.floor(places + 0.5))


def _directed(desc: Any) -> Rounding:
    return np.ceil if desc.rounding_direction is AxisDirection.INCREASING else np.floor


def _offsets(desc: Any) -> list[tuple[float, float, float]]:
    """The scale, input offset and output offset of each dimension."""
    return list(zip(desc.scales, desc.input_pixel_offsets, desc.output_pixel_offsets, strict=True))


def _centred(scales: Sequence[float]) -> list[tuple[float, float, float]]:
    return [(scale, 0.5, -0.5) for scale in scales]


def _taps(
    mode: InterpolationMode,
    rounding: Rounding,
    dimension: tuple[float, float, float],
    sizes: tuple[int, int],
    *,
    antialiased: bool = False,
) -> Taps:
    """The taps of one dimension, with its input and output sizes in `sizes`."""
    (scale, input_offset, output_offset), (size, output_size) = dimension, sizes
    places = coordinates(output_size, scale, input_offset, output_offset)
    if mode is InterpolationMode.NEAREST_NEIGHBOR:
        return single(rounding(settled(places, input_offset)), size)
    radius = float(np.abs(1 / np.float64(scale)))
    return stretched(places, size, radius) if antialiased and radius > 1 else linear(places, size)


def _resampled(
    desc: Any, inputs: Inputs, dimensions: Sequence[tuple[float, float, float]], rounding: Rounding, *, antialiased: bool = False
) -> Array:
    array, mode = inputs["input_tensor"], desc.interpolation_mode
    whole = array.dtype.kind in "iu" and mode is InterpolationMode.LINEAR
    result: Array = array.astype(np.float32) if whole else array
    rows = [*enumerate(zip(dimensions, desc.output_tensor.sizes, strict=True))]
    # Along the last dimension elements are read one by one, along the others whole rows: it comes first where the result grows. Whole
    # numbers are always summed in the same order: the rounding of halves depends on it.
    last_first = not whole and prod(desc.output_tensor.sizes) > array.size
    for axis, (dimension, size) in reversed(rows) if last_first else rows:
        taps = _taps(mode, rounding, dimension, (array.shape[axis], size), antialiased=antialiased)
        result = taps.gather(result, axis, size)
    return np.rint(result) if whole else result


def _resampled_gradient(desc: Any, inputs: Inputs, rounding: Rounding) -> Array:
    gradient: Array = inputs["input_gradient_tensor"]
    for axis, (dimension, size) in enumerate(zip(_offsets(desc), desc.output_gradient_tensor.sizes, strict=True)):
        taps = _taps(desc.interpolation_mode, rounding, dimension, (size, gradient.shape[axis]))
        gradient = taps.scatter(gradient, axis, size)
    return gradient


@defines(ResampleDesc)
def _resample(desc: Any, inputs: Inputs) -> Array:
    return _resampled(desc, inputs, _centred(desc.scales), _nearest)


@defines(Resample1Desc)
def _resample1(desc: Any, inputs: Inputs) -> Array:
    return _resampled(desc, inputs, _offsets(desc), _nearest)


@defines(Resample2Desc)
def _resample2(desc: Any, inputs: Inputs) -> Array:
    return _resampled(desc, inputs, _offsets(desc), _directed(desc))


@defines(Resample3Desc)
def _resample3(desc: Any, inputs: Inputs) -> Array:
    return _resampled(desc, inputs, _offsets(desc), _directed(desc), antialiased=desc.antialiased)


@defines(ResampleGradDesc)
def _resample_gradient(desc: Any, inputs: Inputs) -> Array:
    return _resampled_gradient(desc, inputs, _nearest)


@defines(ResampleGrad1Desc)
def _resample_gradient1(desc: Any, inputs: Inputs) -> Array:
    return _resampled_gradient(desc, inputs, _directed(desc))


@defines(Upsample2DDesc)
def _upsample_2d(desc: Any, inputs: Inputs) -> Array:
    kept = inputs["input_tensor"].ndim - 2
    return _resampled(desc, inputs, _centred([1] * kept + [desc.scale_size.height, desc.scale_size.width]), _nearest)


@defines(ValueScale2DDesc)
def _value_scale_2d(desc: Any, inputs: Inputs) -> Array:
    array: Array = inputs["input_tensor"]
    result: Array = array * desc.scale + np.array(desc.bias, array.dtype)[:, None, None]
    return result
