"""What the resampling operators compute, on whole arrays: one dimension after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dmlpy.devices.numpy.resampling.taps import Taps, coordinates, linear, settled, single, stretched
from dmlpy.devices.numpy.whole import Array, Function
from dmlpy.enums import AxisDirection, InterpolationMode

Inputs = Mapping[str, Any]
Rounding = Callable[[Array], Array]


def _nearest(places: Array) -> Array:
    return np.asarray(np.floor(places + 0.5))


def _directed(desc: Any) -> Rounding:
    return np.ceil if desc.rounding_direction is AxisDirection.INCREASING else np.floor


def _offsets(desc: Any) -> list[tuple[float, float, float]]:
    """Scale, input offset and output offset of each dimension."""
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
    """What one dimension reads: its input and output sizes in `sizes`."""
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
    for axis, (dimension, size) in enumerate(zip(dimensions, desc.output_tensor.sizes, strict=True)):
        taps = _taps(mode, rounding, dimension, (array.shape[axis], size), antialiased=antialiased)
        result = taps.gather(result, axis, size)
    return np.rint(result) if whole else result


def _resampled_gradient(desc: Any, inputs: Inputs, rounding: Rounding) -> Array:
    gradient: Array = inputs["input_gradient_tensor"]
    for axis, (dimension, size) in enumerate(zip(_offsets(desc), desc.output_gradient_tensor.sizes, strict=True)):
        taps = _taps(desc.interpolation_mode, rounding, dimension, (size, gradient.shape[axis]))
        gradient = taps.scatter(gradient, axis, size)
    return gradient


def _resample(desc: Any, inputs: Inputs) -> Array:
    return _resampled(desc, inputs, _centred(desc.scales), _nearest)


def _resample1(desc: Any, inputs: Inputs) -> Array:
    return _resampled(desc, inputs, _offsets(desc), _nearest)


def _resample2(desc: Any, inputs: Inputs) -> Array:
    return _resampled(desc, inputs, _offsets(desc), _directed(desc))


def _resample3(desc: Any, inputs: Inputs) -> Array:
    return _resampled(desc, inputs, _offsets(desc), _directed(desc), antialiased=desc.antialiased)


def _resample_gradient(desc: Any, inputs: Inputs) -> Array:
    return _resampled_gradient(desc, inputs, _nearest)


def _resample_gradient1(desc: Any, inputs: Inputs) -> Array:
    return _resampled_gradient(desc, inputs, _directed(desc))


def _upsample_2d(desc: Any, inputs: Inputs) -> Array:
    kept = inputs["input_tensor"].ndim - 2
    return _resampled(desc, inputs, _centred([1] * kept + [desc.scale_size.height, desc.scale_size.width]), _nearest)


def _value_scale_2d(desc: Any, inputs: Inputs) -> Array:
    array: Array = inputs["input_tensor"]
    result: Array = array * desc.scale + np.array(desc.bias, array.dtype)[:, None, None]
    return result


FUNCTIONS: Mapping[str, Function] = {
    "RESAMPLE": _resample,
    "RESAMPLE1": _resample1,
    "RESAMPLE2": _resample2,
    "RESAMPLE3": _resample3,
    "RESAMPLE_GRAD": _resample_gradient,
    "RESAMPLE_GRAD1": _resample_gradient1,
    "UPSAMPLE_2D": _upsample_2d,
    "VALUE_SCALE_2D": _value_scale_2d,
}
"""The functions by the operators' short names."""
