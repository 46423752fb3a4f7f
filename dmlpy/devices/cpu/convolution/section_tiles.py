"""`SectionTiles`: how a section of a convolution is divided into items, as far as all compiled forms have it in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.convolution.layout import FILLING
from dmlpy.devices.cpu.convolution.steps import Steps, steps_of
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.jit import FILL, make_struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.layout import PartLayout
    from dmlpy.devices.cpu.convolution.sections import Section
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.numpy.convolution.geometry import Array, Geometry
    from dmlpy.devices.plan import Pointers

ALIGNMENT = 64
PART = 1 << 18
"""Bytes of a tile's part of the input, at most: it stays in a core's second-level cache beside the filters that pass through."""
ITEMS = 4
"""Items for each thread, at least, so that all end at about the same time."""

_COPIED, _HALVED, _GATHERED = 0.8, 1.5, 3.0
"""What it costs to copy a float, as measured with AVX-512, like all costs here: side by side with others, as every second one, or alone."""


class SectionTiles(ABC):
    """The items of a section: rows of positions in a slice of an image and a group, and a part of the filters.

    Attributes:
        block: filters whose sums are in registers at once.
        blocks: blocks of filters in a group.
        channels: channels of the packed filters.
        taps: taps of each.
        copies: whether a tile's part of the input is copied, rather than read in place.
        is_matrix: whether the section is one product of matrices that are transposed where they lie, as BLAS takes them.
        items: the number of items.
        scratch_size: bytes of scratch for a thread.

    Args:
        geometry: the convolution.
        section: the section.
        tensors: the descs by name.
        registers: the registers that the kernel is compiled for.
    """

    block: int
    blocks: int
    channels: int
    taps: int
    copies: bool
    is_matrix = False
    items: int
    scratch_size: int
    _part: PartLayout
    _tiles: int
    _parts: int

    def __init__(self, geometry: Geometry, section: Section, tensors: Mapping[str, TensorDesc], isa: Isa) -> None:
        self._geometry, self._section, self._isa = geometry, section, isa
        self._input, whole = steps_of(tensors["input_tensor"]), steps_of(tensors["output_tensor"])
        self._element = tensors["output_tensor"].data_type.numpy.itemsize
        self._offset = sum(at * step for at, step in zip(section.first, whole[2:], strict=True))
        depth, height, width = (step * own for step, own in zip(whole[2:], section.steps, strict=True))
        self._output: Steps = (whole[0], whole[1], depth, height, width)
        self._halves = self._element < FLOAT_BYTES
        # The one tap of an empty section has the weight 0 and is outside of the input.
        empty = section.is_empty
        self._window, self._spatial = ((1, 1, 1), (0, 0, 0)) if empty else (section.window, geometry.spatial)
        self._seen_channels = (1 if empty else geometry.channels) * self._window[0]

    @property
    @abstractmethod
    def cost(self) -> float:
        """An estimate of the time for a group and a slice of all images, in multiplications of vectors; threads do not change it."""

    @property
    @abstractmethod
    def kernel(self) -> Function:
        """The compiled share of the work."""

    @abstractmethod
    def describe(self) -> str:
        """Describes the tiles and the sums in registers, a line each."""

    @abstractmethod
    def is_dense(self, most: int) -> bool:
        """Whether a tile's part is at most so many times as large as what its windows' taps meet."""

    @abstractmethod
    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Array:
        """What the kernel reads, with the values of some fields: of the packed constants and the limits."""

    def load(self) -> None:
        """Compiles the kernels, or reads them from disk."""
        _ = self.kernel, self._fill

    def _filling_cost(self, part: PartLayout) -> float:
        """The cost of copying what all positions see, if it is copied."""
        if not self.copies:
            return 0.0
        apart = self._input[4] * part.strides[1] // self._element
        return self._seen_channels * part.plane / FLOAT_BYTES * (_COPIED if apart == 1 else _HALVED if apart == 2 else _GATHERED)

    @property
    def _fill(self) -> int:
        """The address of what copies a part."""
        return FILL.address(self._halves, self._isa) if self.copies else 0

    def _filling_of(self, row: int) -> Array:
        """What that reads, for an input whose rows are apart by so many bytes."""
        part, section = self._part, self._section
        return make_struct(
            FILLING,
            {
                "channels": self._seen_channels,
                **dict(zip(("depth", "height", "width"), self._spatial, strict=True)),
                "depth_taps": self._window[0],
                "dilation_z": section.dilations[0],
                **dict(zip(("stride_y", "stride_x"), part.strides, strict=True)),
                **dict(zip(("pad_y", "pad_x"), section.starts[1:], strict=True)),
                "phase_rows": part.phase_rows,
                "pitch": part.pitch,
                "plane": part.plane,
                "input_channel": self._input[1],
                "input_slice": self._input[2],
                "input_row": row,
                "input_element": self._input[4],
            },
        )

    def _values(self, tensors: Pointers, scratch: int) -> dict[str, Any]:
        """The parameters that every kernel reads, as far as they do not depend on its tiles."""
        geometry, section = self._geometry, self._section
        return {
            "items": self.items,
            "parts": self._parts,
            "tiles": self._tiles,
            "groups": geometry.groups,
            "filters": geometry.filters,
            "blocks": self.blocks,
            "copies": self.copies,
            "fill": self._fill,
            "stride_z": section.strides[0],
            "pad_z": section.starts[0],
            "input": tensors["input_tensor"],
            "input_image": self._input[0],
            "input_group": self._input[1] * geometry.channels,
            "output": tensors["output_tensor"] + self._offset,
            "output_image": self._output[0],
            "output_channel": self._output[1],
            "output_slice": self._output[2],
            "output_element": self._output[4],
            "scratch": scratch,
            "scratch_size": self.scratch_size,
        }
