"""How a phase of a convolution is divided into tiles: vectorized over positions, `PositionTiling`, or over channels, `ChannelTiling`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.sized_arrays import SizedArray
from dmlpy.devices.cpu.convolution.layout import (
    PLAIN,
    ByteStrides,
    ChannelParameters,
    GatherParameters,
    InputTileLayout,
    PositionParameters,
    byte_strides,
)
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, block_of, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import FixedArray, aligned
from dmlpy.devices.cpu.thread_pool import tiles_for
from dmlpy.devices.plan import PlanPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.convolution.layout import Phase
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.cpu.structs import Parameters
    from dmlpy.devices.numpy.convolution.geometry import Geometry
    from dmlpy.devices.plan import Pointers


GATHER = Kernel("dmlpy.devices.cpu.convolution.gather_kernels:build_gather", 5)
"""The gathering of an input tile of an image: the type of its elements, and the instruction set."""

INPUT_TILE_BYTES = 1 << 18
"""Bytes of an input tile, at most: it stays in the second-level cache with the filters applied to it."""

_COPIED, _HALVED, _GATHERED = 0.8, 1.5, 3.0
"""The cost of copying a float, measured with AVX-512 like all costs here: contiguous, every second one, or with another stride."""


class Tiling(PlanPart, ABC):
    """The tiles of a phase: rows of positions in a slice of an image and a group, for some blocks of filters.

    Attributes:
        block: filters whose sums are in registers at once.
        blocks: blocks of filters in a group.
        channels: channels of the packed filters.
        taps: taps of each.
        copies: whether the input tile is copied, rather than read in place.
        is_matrix: whether the phase is one product of matrices that BLAS multiplies in place.
        tiles: the number of tiles.
        scratch_size: bytes of scratch for a thread.
        epilogue: what is computed of the sums.
        offset: bytes from the output's first element to the phase's.

    Args:
        geometry: the convolution.
        phase: the phase.
        tensors: the descs by name.
        isa: the instruction set that the kernel is compiled for.
    """

    block: int
    blocks: int
    channels: int
    taps: int
    copies: bool
    is_matrix = False
    tiles: int
    scratch_size: int
    offset: int
    epilogue = PLAIN
    _input_tile: InputTileLayout
    _row_splits: int
    _filter_splits: int

    def __init__(self, geometry: Geometry, phase: Phase, tensors: Mapping[str, TensorDesc], isa: Isa) -> None:
        self._geometry, self._phase, self._isa = geometry, phase, isa
        self._input, whole = byte_strides(tensors["input_tensor"]), byte_strides(tensors["output_tensor"])
        self._element = tensors["output_tensor"].data_type.numpy.itemsize
        self.offset = sum(at * step for at, step in zip(phase.output_start, whole[2:], strict=True))
        depth, height, width = (step * output_stride for step, output_stride in zip(whole[2:], phase.output_strides, strict=True))
        self._output: ByteStrides = (whole[0], whole[1], depth, height, width)
        self._storage = storage_of(tensors["output_tensor"].data_type)
        # The single tap of an empty phase has weight 0 and is outside the input.
        empty = phase.is_empty
        self._window, self._spatial = ((1, 1, 1), (0, 0, 0)) if empty else (phase.window, geometry.spatial)
        self._seen_channels = (1 if empty else geometry.channels) * self._window[0]

    @property
    def _is_flat(self) -> bool:
        """Whether positions read single elements, each its own, and rows follow each other without gaps in input and output."""
        phase, (_, height, width) = self._phase, self._phase.out
        pointwise = self._window == (1, 1, 1) == phase.strides and phase.out == self._spatial and phase.starts == (0, 0, 0)
        return pointwise and all(height == 1 or steps[3] == width * steps[4] for steps in (self._input, self._output))

    @property
    @abstractmethod
    def cost(self) -> float:
        """An estimate of the time for a group and a slice of all images, in multiplications of vectors; threads do not change it."""

    @property
    @abstractmethod
    def kernel(self) -> Function:
        """The compiled kernel."""

    @abstractmethod
    def describe(self) -> str:
        """Describes the tiles and the sums in registers, a line each."""

    @abstractmethod
    def is_dense(self, most: int) -> bool:
        """Whether an input tile has at most `most` times as many elements as its windows read."""

    @abstractmethod
    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Parameters:
        """The kernel's parameters; `others` are those of the packed constants and the limits."""

    def load(self) -> None:
        """Compiles the kernels, or reads them from disk."""
        _ = self.kernel, self._gather

    def _gather_cost(self, input_tile: InputTileLayout) -> float:
        """The cost of copying the input of all positions; 0 if it is read in place."""
        if not self.copies:
            return 0.0
        stride = self._input[4] * input_tile.strides[1] // self._element
        return self._seen_channels * input_tile.plane / FLOAT_BYTES * (_COPIED if stride == 1 else _HALVED if stride == 2 else _GATHERED)

    @property
    def _gather(self) -> int:
        """The address of the kernel that copies an input tile."""
        return GATHER.address(self._storage, self._isa) if self.copies else 0

    def _gather_parameters_for(self, row: int) -> FixedArray:
        """The parameters of that kernel, for an input whose rows begin `row` bytes apart."""
        input_tile, phase = self._input_tile, self._phase
        return FixedArray.of_struct(
            GatherParameters,
            {
                "channels": self._seen_channels,
                **dict(zip(("depth", "height", "width"), self._spatial, strict=True)),
                "depth_taps": self._window[0],
                "dilation_z": phase.dilations[0],
                **dict(zip(("stride_y", "stride_x"), input_tile.strides, strict=True)),
                **dict(zip(("pad_y", "pad_x"), phase.starts[1:], strict=True)),
                "subplane_rows": input_tile.subplane_rows,
                "run_rows": input_tile.run_rows,
                "left_out_rows": input_tile.left_out_rows,
                "pitch": input_tile.pitch,
                "plane": input_tile.plane,
                "input_channel": self._input[1],
                "input_slice": self._input[2],
                "input_row": row,
                "input_element": self._input[4],
            },
        )

    def _values(self, tensors: Pointers, scratch: int) -> dict[str, Any]:
        """The parameters that both kernels share."""
        geometry, phase = self._geometry, self._phase
        return {
            "tiles": self.tiles,
            "filter_splits": self._filter_splits,
            "row_splits": self._row_splits,
            "groups": geometry.groups,
            "filters": geometry.filters,
            "blocks": self.blocks,
            "copies": self.copies,
            "gather": self._gather,
            "stride_z": phase.strides[0],
            "pad_z": phase.starts[0],
            "input": tensors["input_tensor"],
            "input_image": self._input[0],
            "input_group": self._input[1] * geometry.channels,
            "output": tensors["output_tensor"] + self.offset,
            "output_image": self._output[0],
            "output_channel": self._output[1],
            "output_slice": self._output[2],
            "output_element": self._output[4],
            "scratch": scratch,
            "scratch_size": self.scratch_size,
        }


POSITION_KERNEL = Kernel("dmlpy.devices.cpu.convolution.kernels:build_convolution", 5)
"""The convolution that is vectorized over positions: whether groups have one filter each, the types of what is read and of
tensors, whether results are written from registers, the epilogue, and the instruction set."""


_DIRECT, _BY_SCRATCH, _SCATTERED = 6.0, 18.0, 64.0
"""The cost of the epilogue of a vector of sums: from registers, from scratch, and from scratch to elements with gaps."""
_WEIGHT_LATENCY = 0.5
"""The cost of waiting for a weight that comes from memory; `ChannelTiling` prefetches weights."""


class PositionTiling(Tiling):
    """The tiles of a phase that is vectorized over positions.

    Attributes:
        most: vectors of positions whose sums are in registers at once.
        direct: whether results are written from registers.

    Args:
        geometry: the convolution.
        phase: the phase.
        tensors: the descs by name.
        threads: the number of threads.
        isa: the instruction set that the kernel is compiled for.
    """

    def __init__(self, geometry: Geometry, phase: Phase, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> None:
        super().__init__(geometry, phase, tensors, isa)
        self.block, self.most = (1, 8) if geometry.filters == 1 else block_of(isa)
        self.blocks = ceil(geometry.filters / self.block)
        self.channels, self.taps = self._seen_channels, self._window[1] * self._window[2]
        lanes, panel = isa.lanes, self.most * isa.lanes
        out_depth, out_height, out_width = phase.out
        is_flat = self._is_flat
        packed = self._input[4] == self._output[4] == self._element
        self.is_matrix = is_flat and self._storage == "float32" and not packed
        self.copies = not (is_flat and packed and out_height * out_width >= panel)
        self._positions = 1 << 62
        if not self.copies:
            self._positions = out_height * out_width
            out_height, out_width = ceil(self._positions / panel), panel
        elif is_flat:
            # Longer rows leave fewer vectors half empty.
            rows = next(
                rows for rows in range(1, out_height + 1) if out_height % rows == 0 and (rows * out_width >= panel or rows == out_height)
            )
            out_height, out_width = out_height // rows, out_width * rows
            self._spatial = out_depth, out_height, out_width
        self._out = out_depth, out_height, out_width
        single = InputTileLayout(1, out_width, self._window[1:], phase.strides[1:], phase.dilations[1:])
        # Only AVX-512 stores some lanes of 2 bytes in one instruction.
        stores = self._storage == "float32" or lanes > 8
        self.direct = stores and geometry.filters > 1 and self._output[4] == self._element and single.pitch >= lanes
        row = single.plane // single.subplane_rows * self.channels
        most, fewest = single.most_rows(INPUT_TILE_BYTES // row), ceil(panel / single.pitch)
        wanted = tiles_for(threads)
        images = geometry.batch * geometry.groups * out_depth
        tiles = ceil(out_height / max(fewest, min(most, ceil(out_height * images / wanted))))
        self._input_tile = replace(single, rows=ceil(out_height / tiles))
        self._row_splits = ceil(out_height / self._input_tile.rows)
        self._filter_splits = min(self.blocks, max(1, ceil(wanted / (images * self._row_splits))))
        self.tiles = images * self._row_splits * self._filter_splits
        self._sums = 0 if self.direct else (self.block * panel + lanes) * FLOAT_BYTES
        input_tile = self.channels * self._input_tile.plane + panel * FLOAT_BYTES if self.copies else 0
        self.scratch_size = aligned(self._sums + input_tile)
        self._offsets, self._gather_parameters = self._input_tile.offsets(), self._gather_parameters_for(self._row(self._input))

    @property
    def cost(self) -> float:
        _, height, width = self._out
        positions = min((height - 1) * self._input_tile.pitch + width, self._positions)
        filters, terms = self.blocks * self.block, self.channels * self.taps
        writing = _DIRECT if self.direct else _BY_SCRATCH if self._output[4] == self._element else _SCATTERED
        summing = filters * (ceil(positions / self._isa.lanes) * (1.03 * terms + writing) + _WEIGHT_LATENCY * terms)
        return self._geometry.batch * (summing + self._gather_cost(replace(self._input_tile, rows=height)))

    @property
    def kernel(self) -> Function:
        read = "float32" if self.copies else self._storage
        return POSITION_KERNEL(self._geometry.filters == 1, read, self._storage, self.direct, self.epilogue, self._isa)

    def is_dense(self, most: int) -> bool:
        input_tile = self._input_tile
        return input_tile.plane <= most * prod(input_tile.taps) * input_tile.rows * input_tile.columns * FLOAT_BYTES

    def describe(self) -> str:
        height = "a row of" if self._input_tile.rows == 1 else f"{self._input_tile.rows} rows of"
        reading = "copied to float32 with its padding" if self.copies else "read in place"
        sums = f"{self.block} filter(s) of {self.most} vectors of {self._isa.lanes} positions"
        return f"tile: {height} {self._out[2]} positions, input {reading}\nvectorized over positions; sums in registers: {sums}"

    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Parameters:
        input_tile = self._input_tile
        return PositionParameters.bound(
            {
                **self._values(tensors, scratch),
                "out_depth": self._out[0],
                "out_height": self._out[1],
                "out_width": self._out[2],
                "positions": self._positions,
                "gather_parameters": self._gather_parameters,
                "slice_step": self._input[2],
                "row_step": self._row(self._input),
                "channels": self.channels,
                "taps": self.taps,
                "rows": input_tile.rows,
                "pitch": input_tile.pitch,
                "plane": input_tile.plane if self.copies else self._input[1],
                "offsets": self._offsets,
                "output_row": self._row(self._output),
                "input_tile": self._sums,
                **others,
            },
        )

    def _row(self, steps: ByteStrides) -> int:
        """The bytes from a row to the next, where a row may be several of the tensor's or a part of an image."""
        return steps[3] if self._out[2] == self._phase.out[2] else self._out[2] * steps[4]


CHANNEL_KERNEL = Kernel("dmlpy.devices.cpu.convolution.output_channel_kernels:build_convolution", 5)
"""The convolution that is vectorized over output channels: the type of tensors, the epilogue, and the instruction set."""
PRODUCT = Kernel("dmlpy.devices.cpu.convolution.output_channel_kernels:build_product", 11)
"""Its product of weights with the input of neighbouring positions: the vectors of weights, the most positions, and the instruction set."""

_CHUNK_BYTES = 1 << 14
"""The most bytes of weights that are applied to all positions of a tile in turn: half of a small first-level cache or less."""
_SUMS_BYTES = 1 << 17
"""Bytes of sums in scratch, at most."""
_MAX_ROW = 112
"""Positions of a row, at most, where the positions of a slice may be divided into rows of any length."""
_MIN_TILE_POSITIONS, _MIN_TILES_PER_THREAD = 192, 2
"""Positions of a tile, at least, if splits of the filters give enough tiles for each thread: each tile reloads its weights."""

_CONTIGUOUS_FILTERS, _TRANSPOSED, _SCATTERED_BY_CHANNEL = 6.0, 12.0, 44.0
"""The cost of the epilogue of a vector of sums: where filters are contiguous, where rows of positions are, and where neither are."""
_CALL = 90.0
"""The cost of a call that multiplies a chunk of weights by some positions, without the multiplications."""
_IN_FLIGHT = 8
"""Independent additions in flight at once."""


class ChannelTiling(Tiling):
    """The tiles of a phase that is vectorized over output channels.

    Args:
        geometry: the convolution.
        phase: the phase.
        tensors: the descs by name.
        threads: the number of threads.
        isa: the instruction set that the kernel is compiled for.
    """

    def __init__(self, geometry: Geometry, phase: Phase, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> None:
        super().__init__(geometry, phase, tensors, isa)
        needed = ceil(geometry.filters / isa.lanes)
        self._vectors = needed if needed <= 3 else 3 if -needed % 3 < needed % 2 else 2
        # Sums take three quarters of the registers: the compiler spills them if only weights and a factor fit in the rest.
        self._most = isa.registers * 3 // 4 // self._vectors
        self.block = self._vectors * isa.lanes
        self.blocks = ceil(geometry.filters / self.block)
        self.channels, self.taps = geometry.channels, prod(phase.window)
        self.copies = self._storage != "float32" or not self._is_inside()
        self._images, self._out = geometry.batch, phase.out
        self._column_step, self._output_element = self._input[4] * phase.strides[2], self._output[4]
        if phase.out == (1, 1, 1) and not self.copies:
            # Images of one position are positions of one image.
            self._images, self._out = 1, (1, 1, geometry.batch)
            self._column_step, self._output_element = self._input[0], self._output[0]
        self._positions = self._out[1] * self._out[2]
        self._input_row, self._output_row = self._input[3], self._output[3]
        rows = (self._input[3] * phase.strides[1], self._column_step), (self._output[3], self._output_element)
        # Where the rows of a slice have no gaps, they may be divided otherwise.
        self._flat = not self.copies and all(self._out[1] == 1 or row == self._out[2] * step for row, step in rows)
        if self._flat:
            pieces = ceil(self._positions / _MAX_ROW)
            self._out = self._out[0], pieces, ceil(self._positions / pieces)
        elif self.copies and self._is_flat:
            self._join_rows()
        self._divide(tiles_for(threads), threads)
        self._input_tile = self._input_tile_of(self._rows)
        self._gather_parameters = self._gather_parameters_for(self._input_row)
        self._chunk = min(self.channels, max(1, _CHUNK_BYTES // (self.taps * self.block * FLOAT_BYTES)))
        self._set_term_offsets()
        self._set_scratch()

    @property
    def cost(self) -> float:
        _, height, width = self._out
        if width * self.block * FLOAT_BYTES > _SUMS_BYTES:
            return inf
        groups = ceil(width / self._most)
        # Additions to few sums wait for each other, and a single vector of weights needs a load for each multiplication.
        term = max(1.02 if self._vectors > 1 else 1.3, _IN_FLIGHT * groups / (width * self._vectors))
        filters_are_contiguous, rows_are_contiguous = (step == self._element for step in (self._output[1], self._output_element))
        writing = _CONTIGUOUS_FILTERS if filters_are_contiguous else _TRANSPOSED if rows_are_contiguous else _SCATTERED_BY_CHANNEL
        summing = self._positions * self.blocks * self._vectors * (term * self.channels * self.taps + writing)
        calls = height * groups * self.blocks * ceil(self.channels / self._chunk)
        return self._images * (summing + calls * _CALL + self._gather_cost(self._input_tile_of(height)))

    @property
    def kernel(self) -> Function:
        return CHANNEL_KERNEL(self._storage, self.epilogue, self._isa)

    @property
    def _product(self) -> int:
        return PRODUCT.address(self._vectors, self._most, self._isa)

    def load(self) -> None:
        super().load()
        _ = self._product

    def is_dense(self, most: int) -> bool:
        taps = self.taps // self._phase.window[0] * self._rows * self._out[2]
        return not self.copies or self._input_tile.plane <= most * taps * FLOAT_BYTES

    def describe(self) -> str:
        height = "a row of" if self._rows == 1 else f"{self._rows} rows of"
        reading = "copied to float32 with its padding" if self.copies else "read in place"
        sums = f"{self._vectors} vector(s) of {self._isa.lanes} filters for up to {self._most} positions"
        return f"tile: {height} {self._out[2]} positions, input {reading}\nvectorized over output channels; sums in registers: {sums}"

    def _is_inside(self) -> bool:
        """Whether no window reaches beyond the input."""
        geometry, phase = self._geometry, self._phase
        along = zip(phase.starts, phase.out, phase.strides, phase.window, phase.dilations, geometry.spatial, strict=True)
        return all(
            start <= 0 and (out - 1) * stride + (taps - 1) * dilation - start < size for start, out, stride, taps, dilation, size in along
        )

    def _join_rows(self) -> None:
        """Takes some rows of the image as one: long rows are copied in fewer calls."""
        depth, height, width = self._out
        joined = max(rows for rows in range(1, height + 1) if height % rows == 0 and (rows == 1 or rows * width <= _MAX_ROW))
        self._out = self._spatial = depth, height // joined, width * joined
        self._input_row, self._output_row = joined * self._input[3], joined * self._output[3]

    def _divide(self, wanted: int, threads: int) -> None:
        """Divides rows and blocks of filters into `wanted` tiles, or as many as possible."""
        depth, height, width = self._out
        images = self._images * self._geometry.groups * depth
        most = max(1, _SUMS_BYTES // (width * self.block * FLOAT_BYTES))
        if self.copies:
            single = self._input_tile_of(1)
            rows = single.most_rows(INPUT_TILE_BYTES // (single.pitch * FLOAT_BYTES * self._seen_channels))
            most = max(1, min(most, 1 + (rows - 1) // self._phase.strides[1]))
        tiles = max(ceil(height / most), min(ceil(wanted / images), ceil(height * width / _MIN_TILE_POSITIONS)))
        self._filter_splits = min(self.blocks, ceil(wanted / (images * tiles)))
        if images * tiles * self._filter_splits < (fewest := min(wanted, _MIN_TILES_PER_THREAD * threads)):
            tiles = min(height, ceil(fewest / (images * self._filter_splits)))
        self._rows = ceil(height / tiles)
        self._row_splits = ceil(height / self._rows)
        self.tiles = images * self._row_splits * self._filter_splits

    def _input_tile_of(self, rows: int) -> InputTileLayout:
        """The input tile of some rows of positions, in one subplane: neighbouring positions may read floats with gaps."""
        (_, stride_y, stride_x), phase = self._phase.strides, self._phase
        return InputTileLayout((rows - 1) * stride_y + 1, (self._out[2] - 1) * stride_x + 1, phase.window[1:], (1, 1), phase.dilations[1:])

    def _set_term_offsets(self) -> None:
        """Finds where positions read the terms of a chunk."""
        input_tile, window = self._input_tile, self._phase.window
        (_, stride_y, stride_x), (dilation_z, dilation_y, dilation_x) = self._phase.strides, self._phase.dilations
        channel, plane, row, element = self._input[1:]
        plane *= dilation_z
        if self.copies:
            channel, plane, row, element = input_tile.plane * window[0], input_tile.plane, input_tile.pitch * FLOAT_BYTES, FLOAT_BYTES
            dilation_y -= input_tile.left_out_rows
            self._column_step = element * stride_x
        self._row_step = self._out[2] * self._column_step if self._flat else row * stride_y
        self._chunk_step = self._chunk * channel
        indices = np.indices((self._chunk, *window)).reshape(4, -1)
        steps = channel, plane, row * dilation_y, element * dilation_x
        self._term_offsets = FixedArray(SizedArray.mapped_from(steps, lambda sizes: sizes @ indices, indices.shape[1:]))

    def _set_scratch(self) -> None:
        """Divides the scratch: zeros, the epilogue's tile, the sums, the input tile."""
        lanes, size = self._isa.lanes, self._isa.lanes * FLOAT_BYTES
        self._epilogue_tile = self._vectors * size
        self._sums = self._epilogue_tile + (lanes + 1) * size
        # The last sums are read in whole tiles.
        self._input_tile_offset = self._sums + (self._rows * self._out[2] + lanes) * self._vectors * size
        input_tile = self._seen_channels * self._input_tile.plane if self.copies else 0
        self.scratch_size = aligned(self._input_tile_offset + input_tile)

    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Parameters:
        phase = self._phase
        begin = 0 if self.copies else -sum(start * step for start, step in zip(phase.starts, self._input[2:], strict=True))
        contiguous_row = self._out[2] * self._output_element
        output_row = contiguous_row if self._flat else self._output_row
        return ChannelParameters.bound(
            {
                **self._values(tensors, scratch),
                "out_depth": self._out[0],
                "out_height": self._out[1],
                "columns": self._out[2],
                "positions": self._positions,
                "rows": self._rows,
                "run_rows": self._rows if output_row == contiguous_row else 1,
                "gather_parameters": self._gather_parameters,
                "input": tensors["input_tensor"] + begin,
                "slice_step": self._input[2] * phase.strides[0],
                "row_step": self._row_step,
                "column_step": self._column_step,
                "stride_y": phase.strides[1],
                "terms": self.channels * self.taps,
                "chunk_terms": self._chunk * self.taps,
                "chunk_step": self._chunk_step,
                "term_offsets": self._term_offsets,
                "vectors": self._vectors,
                "max_columns": self._most,
                "product": self._product,
                "output_row": output_row,
                "output_element": self._output_element,
                "epilogue_tile": self._epilogue_tile,
                "sums": self._sums,
                "input_tile": self._input_tile_offset,
                **others,
            },
        )
