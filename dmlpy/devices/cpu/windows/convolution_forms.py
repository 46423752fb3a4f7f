"""Which form of the compiled convolution a section has: that whose lanes are positions, or that whose lanes are filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.cpu.windows.convolution_tiles import Tiles
from dmlpy.devices.cpu.windows.filter_lanes_tiles import FilterTiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.registers import Registers
    from dmlpy.devices.cpu.windows.section_tiles import SectionTiles
    from dmlpy.devices.cpu.windows.sections import Section
    from dmlpy.devices.numpy.convolution.geometry import Geometry


def tiles_of(geometry: Geometry, section: Section, tensors: Mapping[str, TensorDesc], threads: int, registers: Registers) -> SectionTiles:
    """The tiles of the form that is estimated to take less time, by sizes and layouts alone.

    Groups of one filter have positions as lanes, and so has what has no taps, or is a product of matrices that is left to BLAS.
    """
    usual = Tiles(geometry, section, tensors, threads, registers)
    if usual.is_matrix or section.is_empty or geometry.filters == 1:
        return usual
    other = FilterTiles(geometry, section, tensors, threads, registers)
    return other if other.cost < usual.cost else usual
