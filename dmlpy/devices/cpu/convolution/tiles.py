"""`Tiles`: how a section of a convolution whose lanes are positions is divided into items, and what its kernel is told."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.convolution.convolution_parameters import PARAMETERS
from dmlpy.devices.cpu.convolution.layout import PartLayout
from dmlpy.devices.cpu.convolution.section_tiles import ALIGNMENT, ITEMS, PART, SectionTiles
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, block_of
from dmlpy.devices.cpu.jit import Kernel, make_struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.sections import Section
    from dmlpy.devices.cpu.convolution.steps import Steps
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.numpy.convolution.geometry import Array, Geometry
    from dmlpy.devices.plan import Pointers

CONVOLUTION = Kernel("dmlpy.devices.cpu.convolution.kernels:convolution_of", 5)
"""The convolution whose lanes are positions: whether groups have one filter each, whether tensors are of FLOAT16, whether results are
written from registers, and the instruction set."""


_DIRECT, _BY_SCRATCH, _SPREAD = 6.0, 18.0, 64.0
"""What it costs to finish and write a vector of sums: from registers, from scratch, and from scratch to elements that lie apart."""
_WAITED_FOR = 0.5
"""What it costs to wait for a weight that comes from memory; the other form fetches weights ahead."""


class Tiles(SectionTiles):
    """The items of a section whose lanes are positions.

    Attributes:
        most: vectors of positions whose sums are in registers at once.
        direct: whether results are written from registers.

    Args:
        geometry: the convolution.
        section: the section.
        tensors: the descs by name.
        threads: threads that share the items.
        registers: the registers that the kernel is compiled for.
    """

    def __init__(self, geometry: Geometry, section: Section, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> None:
        super().__init__(geometry, section, tensors, isa)
        self.block, self.most = (1, 8) if geometry.filters == 1 else block_of(isa)
        self.blocks = ceil(geometry.filters / self.block)
        self.channels, self.taps = self._seen_channels, self._window[1] * self._window[2]
        lanes, panel = isa.lanes, self.most * isa.lanes
        out_depth, out_height, out_width = section.out
        pointwise = self._window == (1, 1, 1) == section.strides and section.out == self._spatial and section.starts == (0, 0, 0)
        flat = all(out_height == 1 or steps[3] == out_width * steps[4] for steps in (self._input, self._output))
        packed = self._input[4] == self._output[4] == self._element == FLOAT_BYTES
        self.is_matrix = pointwise and flat and not self._halves and not packed
        self.copies = not (pointwise and flat and packed and out_height * out_width >= panel)
        self._positions = 1 << 62
        if not self.copies:
            self._positions = out_height * out_width
            out_height, out_width = ceil(self._positions / panel), panel
        elif pointwise and flat:
            # Longer rows leave fewer vectors half empty.
            rows = next(
                rows for rows in range(1, out_height + 1) if out_height % rows == 0 and (rows * out_width >= panel or rows == out_height)
            )
            out_height, out_width = out_height // rows, out_width * rows
            self._spatial = out_depth, out_height, out_width
        self._out = out_depth, out_height, out_width
        single = PartLayout(1, out_width, self._window[1:], section.strides[1:], section.dilations[1:])
        self.direct = geometry.filters > 1 and self._output[4] == self._element == FLOAT_BYTES and single.pitch >= lanes
        row = single.plane // single.phase_rows * self.channels
        most, fewest = max(1, PART // row - single.reach), ceil(panel / single.pitch)
        wanted = ITEMS * threads if threads > 1 else 1
        images = geometry.batch * geometry.groups * out_depth
        tiles = ceil(out_height / max(fewest, min(most, ceil(out_height * images / wanted))))
        self._part = replace(single, rows=ceil(out_height / tiles))
        self._tiles = ceil(out_height / self._part.rows)
        self._parts = min(self.blocks, max(1, ceil(wanted / (images * self._tiles))))
        self.items = images * self._tiles * self._parts
        self._sums = 0 if self.direct else (self.block * panel + lanes) * FLOAT_BYTES
        part = self.channels * self._part.plane + panel * FLOAT_BYTES if self.copies else 0
        self.scratch_size = -(-(self._sums + part) // ALIGNMENT) * ALIGNMENT
        self._offsets, self._filling = self._part.offsets(), self._filling_of(self._row(self._input))

    @property
    def cost(self) -> float:
        _, height, width = self._out
        positions = min((height - 1) * self._part.pitch + width, self._positions)
        filters, terms = self.blocks * self.block, self.channels * self.taps
        writing = _DIRECT if self.direct else _BY_SCRATCH if self._output[4] == self._element else _SPREAD
        summing = filters * (ceil(positions / self._isa.lanes) * (1.03 * terms + writing) + _WAITED_FOR * terms)
        return self._geometry.batch * (summing + self._filling_cost(replace(self._part, rows=height)))

    @property
    def kernel(self) -> Function:
        return CONVOLUTION(self._geometry.filters == 1, self._halves, self.direct, self._isa)

    def is_dense(self, most: int) -> bool:
        part = self._part
        return part.plane <= most * prod(part.taps) * part.rows * part.columns * FLOAT_BYTES

    def describe(self) -> str:
        height = "a row of" if self._part.rows == 1 else f"{self._part.rows} rows of"
        reading = "copied to float32 with its padding" if self.copies else "read in place"
        sums = f"{self.block} filter(s) of {self.most} vectors of {self._isa.lanes} positions"
        return f"tile: {height} {self._out[2]} positions, input {reading}\npositions as lanes; sums in registers: {sums}"

    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Array:
        part = self._part
        return make_struct(
            PARAMETERS,
            {
                **self._values(tensors, scratch),
                "out_depth": self._out[0],
                "out_height": self._out[1],
                "out_width": self._out[2],
                "positions": self._positions,
                "filling": self._filling.ctypes.data,
                "slice_step": self._input[2],
                "row_step": self._row(self._input),
                "channels": self.channels,
                "taps": self.taps,
                "rows": part.rows,
                "pitch": part.pitch,
                "plane": part.plane if self.copies else self._input[1],
                "offsets": self._offsets.ctypes.data,
                "output_row": self._row(self._output),
                "part": self._sums,
                **others,
            },
        )

    def _row(self, steps: Steps) -> int:
        """The bytes from a row to the next, where rows may be several of the tensor's or pieces of an image."""
        return steps[3] if self._out[2] == self._section.out[2] else self._out[2] * steps[4]
