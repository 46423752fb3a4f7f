"""Which form of the compiled convolution a section has: strips of planes, or tiles whose lanes are positions or filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.convolution.filter_lanes_tiles import FilterTiles
from dmlpy.devices.cpu.convolution.strip_forms import DepthwiseStrips
from dmlpy.devices.cpu.convolution.tiles import Tiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.section_tiles import SectionTiles
    from dmlpy.devices.cpu.convolution.sections import Section
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.numpy.convolution.geometry import Geometry


def tiles_of(
    geometry: Geometry, section: Section, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa
) -> SectionTiles | DepthwiseStrips:
    """The strips of a depthwise convolution, where it has some, or the tiles that are estimated to take less time.

    The estimate depends on sizes and layouts alone. Other groups of one filter have positions as lanes, and so has what has no taps, or is
    a product of matrices that is left to BLAS.
    """
    strips = DepthwiseStrips.of(geometry, tensors, threads, isa)
    if strips is not None:
        return strips
    usual = Tiles(geometry, section, tensors, threads, isa)
    if usual.is_matrix or section.is_empty or geometry.filters == 1:
        return usual
    other = FilterTiles(geometry, section, tensors, threads, isa)
    return other if other.cost < usual.cost else usual
