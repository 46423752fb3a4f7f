"""The operations of convolutions of any elements."""

from __future__ import annotations

from math import prod
from typing import Any

from dmlpy.description.enums import ConvolutionDirection
from dmlpy.devices.flops import elements, flops, of_products
from dmlpy.operators.convolution import ConvolvingDesc


@flops(ConvolvingDesc)
@of_products
def convolution(desc: Any) -> int:
    """Each output takes a filter's elements; backward each input contributes to as many outputs."""
    backward = getattr(desc, "direction", None) is ConvolutionDirection.BACKWARD
    places = desc.input_tensor.element_count if backward else elements(desc)
    return 2 * int(places) * int(prod(desc.filter_tensor.sizes[1:]))
