"""`FilterTiles`: how a section of a convolution whose lanes are filters is divided into items, and what its kernel is told."""

from __future__ import annotations

from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.convolution.convolution_parameters import FILTER_PARAMETERS
from dmlpy.devices.cpu.convolution.layout import PartLayout
from dmlpy.devices.cpu.convolution.section_tiles import ALIGNMENT, ITEMS, PART, SectionTiles
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.jit import Kernel, make_struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.sections import Section
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.numpy.convolution.geometry import Array, Geometry
    from dmlpy.devices.plan import Pointers

CONVOLUTION = Kernel("dmlpy.devices.cpu.convolution.filter_lane_kernels:convolution_of", 5)
"""The convolution whose lanes are filters: whether tensors are of FLOAT16, and the instruction set."""
PRODUCT = Kernel("dmlpy.devices.cpu.convolution.filter_lanes_products:build_product", 11)
"""Its product of weights with what neighbouring positions see: the vectors of weights, the most positions, and the instruction set."""

_CHUNK = 1 << 14
"""Bytes of weights that pass over all positions of a tile in turn, at most: half of a small first-level cache or less."""
_SUMS = 1 << 17
"""Bytes of sums that wait in scratch, at most."""
_ROW = 112
"""Positions of a row, at most, where the positions of a slice are divided into rows at will."""
_POSITIONS, _FEWEST_ITEMS = 192, 2
"""Positions of a tile, at least, where parts of the filters are enough items for each thread: weights are fetched anew for each tile."""

_BY_FILTERS, _TURNED, _SPREAD = 6.0, 12.0, 44.0
"""What it costs to finish and write a vector of sums: to filters that lie side by side, to rows of positions, and to elements that lie
apart."""
_CALL = 90.0
"""What it costs to multiply a chunk of weights with some positions, beside the multiplications."""
_IN_FLIGHT = 8
"""Sums that are under way at once where none waits for the one before."""


class FilterTiles(SectionTiles):
    """The items of a section whose lanes are filters.

    Args:
        geometry: the convolution.
        section: the section.
        tensors: the descs by name.
        threads: threads that share the items.
        registers: the registers that the kernel is compiled for.
    """

    def __init__(self, geometry: Geometry, section: Section, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> None:
        super().__init__(geometry, section, tensors, isa)
        needed = ceil(geometry.filters / isa.lanes)
        self._vectors = needed if needed <= 3 else 3 if -needed % 3 < needed % 2 else 2
        # Sums take three quarters of the registers; the compiler keeps them there if weights and a factor are not all that is left.
        self._most = isa.registers * 3 // 4 // self._vectors
        self.block = self._vectors * isa.lanes
        self.blocks = ceil(geometry.filters / self.block)
        self.channels, self.taps = geometry.channels, prod(section.window)
        self.copies = self._halves or not self._is_inside()
        self._images, self._out = geometry.batch, section.out
        self._column_step, self._output_element = self._input[4] * section.strides[2], self._output[4]
        if section.out == (1, 1, 1) and not self.copies:
            # Images of one position are positions of one image.
            self._images, self._out = 1, (1, 1, geometry.batch)
            self._column_step, self._output_element = self._input[0], self._output[0]
        self._positions = self._out[1] * self._out[2]
        rows = (self._input[3] * section.strides[1], self._column_step), (self._output[3], self._output_element)
        # Where the rows of a slice follow each other without gaps, they may be divided anew.
        self._flat = not self.copies and all(self._out[1] == 1 or row == self._out[2] * step for row, step in rows)
        if self._flat:
            pieces = ceil(self._positions / _ROW)
            self._out = self._out[0], pieces, ceil(self._positions / pieces)
        self._divide(ITEMS * threads if threads > 1 else 1, threads)
        self._part = self._part_of(self._rows)
        self._filling = self._filling_of(self._input[3])
        self._chunk = min(self.channels, max(1, _CHUNK // (self.taps * self.block * FLOAT_BYTES)))
        self._set_reading()
        self._set_scratch()

    @property
    def cost(self) -> float:
        _, height, width = self._out
        if width * self.block * FLOAT_BYTES > _SUMS:
            return inf
        groups = ceil(width / self._most)
        # Few sums wait for each other, and a single vector of weights is multiplied as often as floats are loaded.
        term = max(1.02 if self._vectors > 1 else 1.3, _IN_FLIGHT * groups / (width * self._vectors))
        by_filters, turned = (step == self._element for step in (self._output[1], self._output_element))
        writing = _BY_FILTERS if by_filters else _TURNED if turned else _SPREAD
        summing = self._positions * self.blocks * self._vectors * (term * self.channels * self.taps + writing)
        calls = height * groups * self.blocks * ceil(self.channels / self._chunk)
        return self._images * (summing + calls * _CALL + self._filling_cost(self._part_of(height)))

    @property
    def kernel(self) -> Function:
        return CONVOLUTION(self._halves, self._isa)

    @property
    def _product(self) -> int:
        return PRODUCT.address(self._vectors, self._most, self._isa)

    def load(self) -> None:
        super().load()
        _ = self._product

    def is_dense(self, most: int) -> bool:
        taps = self.taps // self._section.window[0] * self._rows * self._out[2]
        return not self.copies or self._part.plane <= most * taps * FLOAT_BYTES

    def describe(self) -> str:
        height = "a row of" if self._rows == 1 else f"{self._rows} rows of"
        reading = "copied to float32 with its padding" if self.copies else "read in place"
        sums = f"{self._vectors} vector(s) of {self._isa.lanes} filters for up to {self._most} positions"
        return f"tile: {height} {self._out[2]} positions, input {reading}\nfilters as lanes; sums in registers: {sums}"

    def _is_inside(self) -> bool:
        """Whether no window reaches beyond the input."""
        geometry, section = self._geometry, self._section
        along = zip(section.starts, section.out, section.strides, section.window, section.dilations, geometry.spatial, strict=True)
        return all(
            start <= 0 and (out - 1) * stride + (taps - 1) * dilation - start < size for start, out, stride, taps, dilation, size in along
        )

    def _divide(self, wanted: int, threads: int) -> None:
        """Divides rows and blocks of filters into as many items as are wanted."""
        depth, height, width = self._out
        images = self._images * self._geometry.groups * depth
        most = max(1, _SUMS // (width * self.block * FLOAT_BYTES))
        if self.copies:
            single = self._part_of(1)
            rows = PART // (single.pitch * FLOAT_BYTES * self._seen_channels) - single.phase_rows
            most = max(1, min(most, 1 + rows // self._section.strides[1]))
        tiles = max(ceil(height / most), min(ceil(wanted / images), ceil(height * width / _POSITIONS)))
        self._parts = min(self.blocks, ceil(wanted / (images * tiles)))
        if images * tiles * self._parts < (fewest := min(wanted, _FEWEST_ITEMS * threads)):
            tiles = min(height, ceil(fewest / (images * self._parts)))
        self._rows = ceil(height / tiles)
        self._tiles = ceil(height / self._rows)
        self.items = images * self._tiles * self._parts

    def _part_of(self, rows: int) -> PartLayout:
        """The part that some rows of positions see, without phases: positions may see floats that lie apart."""
        (_, stride_y, stride_x), section = self._section.strides, self._section
        return PartLayout((rows - 1) * stride_y + 1, (self._out[2] - 1) * stride_x + 1, section.window[1:], (1, 1), section.dilations[1:])

    def _set_reading(self) -> None:
        """Finds where positions see the terms of a chunk."""
        part, window = self._part, self._section.window
        (_, stride_y, stride_x), (dilation_z, dilation_y, dilation_x) = self._section.strides, self._section.dilations
        channel, plane, row, element = self._input[1:]
        plane *= dilation_z
        if self.copies:
            channel, plane, row, element = part.plane * window[0], part.plane, part.pitch * FLOAT_BYTES, FLOAT_BYTES
            self._column_step = element * stride_x
        self._row_step = self._out[2] * self._column_step if self._flat else row * stride_y
        self._chunk_step = self._chunk * channel
        self._places = np.tensordot((channel, plane, row * dilation_y, element * dilation_x), np.indices((self._chunk, *window)), 1).ravel()

    def _set_scratch(self) -> None:
        """Finds the places of scratch: behind the zeros come a tile of finished sums, the sums and the part."""
        lanes, size = self._isa.lanes, self._isa.lanes * FLOAT_BYTES
        self._tile = self._vectors * size
        self._sums = self._tile + (lanes + 1) * size
        # The last sums are read in whole tiles.
        self._part_place = self._sums + (self._rows * self._out[2] + lanes) * self._vectors * size
        part = self._seen_channels * self._part.plane if self.copies else 0
        self.scratch_size = -(-(self._part_place + part) // ALIGNMENT) * ALIGNMENT

    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Array:
        section = self._section
        begin = 0 if self.copies else -sum(start * step for start, step in zip(section.starts, self._input[2:], strict=True))
        side_by_side = self._out[2] * self._output_element
        output_row = side_by_side if self._flat else self._output[3]
        return make_struct(
            FILTER_PARAMETERS,
            {
                **self._values(tensors, scratch),
                "out_depth": self._out[0],
                "out_height": self._out[1],
                "columns": self._out[2],
                "positions": self._positions,
                "rows": self._rows,
                "run": self._rows if output_row == side_by_side else 1,
                "filling": self._filling.ctypes.data,
                "input": tensors["input_tensor"] + begin,
                "slice_step": self._input[2] * section.strides[0],
                "row_step": self._row_step,
                "column_step": self._column_step,
                "stride_y": section.strides[1],
                "terms": self.channels * self.taps,
                "chunk_terms": self._chunk * self.taps,
                "chunk_step": self._chunk_step,
                "places": self._places.ctypes.data,
                "vectors": self._vectors,
                "most": self._most,
                "product": self._product,
                "output_row": output_row,
                "output_element": self._output_element,
                "tile": self._tile,
                "sums": self._sums,
                "part": self._part_place,
                **others,
            },
        )
