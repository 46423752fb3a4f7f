"""Chooses the plan of a convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.numpy.plans import plan
from dmlpy.operators.convolution import ConvolutionDesc

if TYPE_CHECKING:
    from dmlpy.devices.numpy.convolution.common import TiledPlan

_SPARSEST = 16
"""The most scratch of a tile for each element that its taps read: strides, dilations and padding that are far
larger than the window leave nothing to gain, and the definition on whole arrays then needs less memory."""


@plan(ConvolutionDesc)
@plan("dmlpy.devices.graphs.fused_convolution_descs:NormalizedConvolutionDesc", derived=False)
def convolution_plan(desc: ConvolutionDesc) -> TiledPlan | None:
    from dmlpy.devices.numpy.convolution.depthwise import DepthwisePlan
    from dmlpy.devices.numpy.convolution.forward import ForwardPlan
    from dmlpy.devices.numpy.convolution.geometry import Geometry
    from dmlpy.devices.numpy.convolution.transposed import TransposedPlan

    geometry = Geometry.of(desc)
    kind = TransposedPlan if geometry.backward else DepthwisePlan if geometry.channels == 1 < geometry.groups else ForwardPlan
    candidate = kind(desc, geometry)
    return candidate if candidate.part_size <= _SPARSEST * candidate.useful_size else None
