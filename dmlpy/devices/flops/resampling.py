"""The operations of resampling."""

from __future__ import annotations

from typing import Any

from dmlpy.description.enums import InterpolationMode
from dmlpy.devices.flops import elements, flops
from dmlpy.operators.resampling import ForwardResampleDesc, ResampleGradientDesc, Upsample2DDesc, ValueScale2DDesc


def _interpolations(mode: InterpolationMode, scaled: int, places: int) -> int:
    """Two products of an element and a weight along each scaled dimension, each added; nearest elements are moved."""
    return 0 if mode is InterpolationMode.NEAREST_NEIGHBOR else 2 * places * 2**scaled


def _scaled(desc: Any) -> int:
    return sum(scale != 1 for scale in desc.scales)


@flops(ForwardResampleDesc)
def resample(desc: Any) -> int:
    return _interpolations(desc.interpolation_mode, _scaled(desc), elements(desc))


@flops(ResampleGradientDesc)
def gradient(desc: Any) -> int:
    """The operations of the forward resampling, and for nearest elements an addition each."""
    places = int(desc.input_gradient_tensor.element_count)
    return _interpolations(desc.interpolation_mode, _scaled(desc), places) or places


@flops(Upsample2DDesc)
def upsample(desc: Any) -> int:
    scaled = (desc.scale_size.width != 1) + (desc.scale_size.height != 1)
    return _interpolations(desc.interpolation_mode, scaled, elements(desc))


@flops(ValueScale2DDesc)
def scale_values(desc: Any) -> int:
    """A product and a sum."""
    return 2 * elements(desc)
