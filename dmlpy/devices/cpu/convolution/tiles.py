"""How a section of a convolution is divided into items, and what its kernel is told: `Tiles` of positions, and `FilterTiles` of filters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.convolution.layout import FILLING, FILTER_PARAMETERS, PARAMETERS, PartLayout, Steps, steps_of
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, block_of
from dmlpy.devices.cpu.jit import FILL, Kernel, make_struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
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


FILTER_CONVOLUTION = Kernel("dmlpy.devices.cpu.convolution.filter_lane_kernels:convolution_of", 5)
"""The convolution whose lanes are filters: whether tensors are of FLOAT16, and the instruction set."""
PRODUCT = Kernel("dmlpy.devices.cpu.convolution.filter_lane_kernels:build_product", 11)
"""Its product of weights with what neighbouring positions see: the vectors of weights, the most positions, and the instruction set."""

_CHUNK = 1 << 14
"""Bytes of weights that pass over all positions of a tile in turn, at most: half of a small first-level cache or less."""
_SUMS = 1 << 17
"""Bytes of sums that wait in scratch, at most."""
_ROW = 112
"""Positions of a row, at most, where the positions of a slice are divided into rows at will."""
_POSITIONS, _FEWEST_ITEMS = 192, 2
"""Positions of a tile, at least, where parts of the filters are enough items for each thread: weights are fetched anew for each tile."""

_BY_FILTERS, _TURNED, _FILTERS_SPREAD = 6.0, 12.0, 44.0
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
        writing = _BY_FILTERS if by_filters else _TURNED if turned else _FILTERS_SPREAD
        summing = self._positions * self.blocks * self._vectors * (term * self.channels * self.taps + writing)
        calls = height * groups * self.blocks * ceil(self.channels / self._chunk)
        return self._images * (summing + calls * _CALL + self._filling_cost(self._part_of(height)))

    @property
    def kernel(self) -> Function:
        return FILTER_CONVOLUTION(self._halves, self._isa)

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
