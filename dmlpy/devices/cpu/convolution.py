"""The compiled plan of CONVOLUTION forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.plans import plan
from dmlpy.devices.numpy.convolution.geometry import Geometry
from dmlpy.operators.convolution import ConvolutionDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.windows.convolution_plan import ConvolutionPlan

_FEWEST = 8
"""Positions of the window in an image, at least: vectors run along them."""
_SPARSEST = 16
"""A tile's part of the input is at most so many times what its windows' taps meet."""


@plan(ConvolutionDesc)
def convolution_plan(desc: ConvolutionDesc) -> ConvolutionPlan | str:
    """The plan for a checked desc, or why there is none."""
    from dmlpy.devices.cpu.windows.convolution_plan import ConvolutionPlan

    geometry = Geometry.of(desc)
    if geometry.backward:
        return "a transposed convolution has no compiled form"
    if any(tensor.data_type is not DataType.FLOAT32 for tensor in desc.tensors().values()):
        return "compiled convolutions are of FLOAT32"
    if geometry.spatial[0] * geometry.out[0] * geometry.taps[0] > 1 or geometry.starts[0]:
        return "a convolution over three dimensions has no compiled form"
    assert desc.output_tensor is not None  # guaranteed by the check
    for tensor in (desc.input_tensor, desc.output_tensor):
        if tensor.sizes[-1] > 1 and tensor.element_strides[-1] != 1:
            return "compiled convolutions need rows whose elements lie side by side"
    if geometry.out[1] * geometry.out[2] < _FEWEST:
        return f"an image has fewer than {_FEWEST} positions of the window: matrix products are faster"
    found = ConvolutionPlan(desc, geometry)
    return found if found.is_dense(_SPARSEST) else "the windows reach far more of the input than their taps meet"
