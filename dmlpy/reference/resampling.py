"""The definitions of the resampling operators, on whole arrays: one dimension after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dmlpy.description.enums import AxisDirection, InterpolationMode
from dmlpy.operators.resampling import (
    Resample1Desc,
    Resample2Desc,
    Resample3Desc,
    ResampleDesc,
    ResampleGrad1Desc,
    ResampleGradDesc,
    ResampleGradientDesc,
    RoundingDirectionDesc,
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


class Pass(NamedTuple):
    """The resampling of an array along one axis.

    Attributes:
        axis: the axis.
        taps: the taps of its elements.
        size: the size that it then has.
    """

    axis: int
    taps: Taps
    size: int


def _dimensions(desc: Any) -> list[tuple[float, float, float]]:
    """The scale, input offset and output offset of each dimension."""
    if isinstance(desc, Upsample2DDesc):
        return _centred([1] * (desc.input_tensor.dimension_count - 2) + [desc.scale_size.height, desc.scale_size.width])
    return _centred(desc.scales) if isinstance(desc, ResampleDesc) else _offsets(desc)


def passes(desc: Any) -> list[Pass]:
    """A pass for each axis, in the order in which a checked desc resamples them."""
    rounding = _directed(desc) if isinstance(desc, RoundingDirectionDesc) else _nearest
    is_gradient, antialiased = isinstance(desc, ResampleGradientDesc), getattr(desc, "antialiased", False)
    names = ("output_gradient_tensor", "input_gradient_tensor") if is_gradient else ("input_tensor", "output_tensor")
    source, target = (getattr(desc, name) for name in names)
    result = []
    for axis, (dimension, *sizes) in enumerate(zip(_dimensions(desc), source.sizes, target.sizes, strict=True)):
        taps = _taps(desc.interpolation_mode, rounding, dimension, (sizes[0], sizes[1]), antialiased=antialiased)
        result.append(Pass(axis, taps.adjoint(), sizes[0]) if is_gradient else Pass(axis, taps, sizes[1]))
    # Along the last dimension elements are read one by one, along the others whole rows: it comes first where the result grows. Whole
    # numbers are always summed in the same order: the rounding of halves depends on it.
    grows = not is_gradient and not _interpolates_integers(desc) and target.element_count > source.element_count
    return result[::-1] if grows else result


def _interpolates_integers(desc: Any) -> bool:
    return desc.input_tensor.data_type.numpy.kind in "iu" and desc.interpolation_mode is InterpolationMode.LINEAR


@defines(ResampleDesc, Resample1Desc, Resample2Desc, Resample3Desc, Upsample2DDesc)
def _resampled(desc: Any, inputs: Inputs) -> Array:
    whole = _interpolates_integers(desc)
    result: Array = inputs["input_tensor"].astype(np.float32) if whole else inputs["input_tensor"]
    for axis, taps, size in passes(desc):
        result = taps.gather(result, axis, size)
    return np.rint(result) if whole else result


@defines(ResampleGradDesc, ResampleGrad1Desc)
def _resampled_gradient(desc: Any, inputs: Inputs) -> Array:
    gradient: Array = inputs["input_gradient_tensor"]
    for axis, taps, size in passes(desc):
        gradient = taps.gather(gradient, axis, size)
    return gradient


@defines(ValueScale2DDesc)
def _value_scale_2d(desc: Any, inputs: Inputs) -> Array:
    array: Array = inputs["input_tensor"]
    result: Array = array * desc.scale + np.array(desc.bias, array.dtype)[:, None, None]
    return result
