"""The sizes of convolutions of bytes and their tiles: of channels, and of rows of a channel."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.convolution.layout import InputTileLayout, byte_strides
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.quantized.products import ResultParameters
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Flag, aligned, field
from dmlpy.devices.cpu.thread_pool import tiles_for
from dmlpy.devices.numpy.convolution.geometry import steps_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.quantized.products import ByteIsa
    from dmlpy.devices.cpu.structs import Parameters
    from dmlpy.devices.numpy.convolution.geometry import Array
    from dmlpy.operators.quantized.products import QuantizedConvolvingDesc

CONVOLUTION = Kernel("dmlpy.devices.cpu.quantized.convolution_kernels:build_convolution", 5)
"""The convolution: what becomes of the sums, whether results are looked up in tables, and the instruction set."""
DEPTHWISE = Kernel("dmlpy.devices.cpu.quantized.convolution_kernels:build_depthwise", 5)
"""The convolution of groups of one channel: what becomes of the sums, the stride along rows, whether results are
looked up, and the instruction set."""
DEPTHWISE_VECTORS = 4
"""Vectors of positions whose sums are in registers at once."""
_TILE_BYTES = 1 << 17
"""Bytes of an input tile, at most, if it has several rows: it stays in a processor's second cache."""
_DEPTHWISE_STRIDES = (1, 2)
_WORK_OF_A_TAP = 8
"""Multiplications of convolutions with several channels that take the time of one of a group's only channel."""
_TAPS_OF_A_RESULT = 16
"""Taps that take the time of a result besides."""
_ROW_POSITIONS = 480
"""Positions of a row into which a pointwise convolution divides an image: whole blocks of vectors of all instruction sets."""


@dataclass(frozen=True)
class ByteGeometry:
    """The sizes of a convolution in two dimensions, each of height and width.

    Attributes:
        batch: images.
        groups: groups of channels.
        channels: input channels of a group.
        filters: output channels of a group.
        spatial: sizes of the input.
        out: sizes of the output.
        taps: sizes of the window.
        strides: steps from one position of the window to the next.
        dilations: steps from one tap to the next.
        starts: padding before the first element.
        input_steps: bytes from an image of the input to the next, a channel, a row, an element.
        output_steps: bytes from an image of the output to the next, a channel, a row, an element.
        positions: positions of an image, if the last row of `out` may be shorter than the others; else 0.
    """

    batch: int
    groups: int
    channels: int
    filters: int
    spatial: tuple[int, int]
    out: tuple[int, int]
    taps: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    starts: tuple[int, int]
    input_steps: tuple[int, int, int, int]
    output_steps: tuple[int, int, int, int]
    positions: int = 0

    @classmethod
    def of(cls, desc: QuantizedConvolvingDesc) -> ByteGeometry:
        """The sizes of a checked desc. The image of a pointwise convolution is divided into rows of equal length, if it is contiguous."""
        output = desc.tensors()["output_tensor"]
        (batch, channels, *spatial), (_, filters, *out) = desc.input_tensor.sizes, output.sizes
        count, groups = len(spatial), desc.group_count
        window = desc.filter_tensor.sizes[2:]
        strides, dilations = steps_between(desc.strides[-count:], out), steps_between(desc.dilations[-count:], window)
        whole, taps, starts = _pair(out, 1), _pair(window, 1), _pair(desc.start_padding[-count:], 0)
        geometry = cls(
            batch=batch,
            groups=groups,
            channels=channels // groups,
            filters=filters // groups,
            spatial=_pair(spatial, 1),
            out=whole,
            taps=taps,
            strides=_pair(strides, 1),
            dilations=_pair(dilations, 1),
            starts=starts,
            input_steps=_steps(desc.input_tensor),
            output_steps=_steps(output),
        )
        is_pointwise = taps == (1, 1) and geometry.strides == (1, 1) and whole == geometry.spatial and starts == (0, 0)
        return geometry._divided() if is_pointwise else geometry

    def _divided(self) -> ByteGeometry:
        """The same with other rows, or this one if rows do not follow each other."""
        (height, width), rows = self.out, []
        for outer, channel, row, element in (self.input_steps, self.output_steps):
            if height > 1 and row != width * element:
                return self
            rows.append((outer, channel, min(_ROW_POSITIONS, height * width) * element, element))
        positions = height * width
        size = ceil(positions / _ROW_POSITIONS), min(_ROW_POSITIONS, positions)
        return ByteGeometry(
            **{
                **vars(self),
                "spatial": size,
                "out": size,
                "positions": positions,
                "input_steps": rows[0],
                "output_steps": rows[1],
            }
        )

    @property
    def multiplications(self) -> int:
        return self.batch * self.groups * self.filters * self.channels * prod(self.taps) * prod(self.out)

    @property
    def work(self) -> int:
        """The multiplications that take the time of the convolution where channels are summed: of few taps, much else takes most of it."""
        if self.channels > 1:
            return self.multiplications
        return self.batch * self.groups * self.filters * prod(self.out) * _WORK_OF_A_TAP * (prod(self.taps) + _TAPS_OF_A_RESULT)

    @property
    def is_depthwise(self) -> bool:
        """Whether `DEPTHWISE` computes it."""
        return self.channels == 1 and self.dilations[1] == 1 and self.strides[1] in _DEPTHWISE_STRIDES and prod(self.taps) > 1


def _steps(tensor: TensorDesc) -> tuple[int, int, int, int]:
    """The bytes from an image of a tensor to the next, a channel, a row, an element."""
    image, channel, _, row, element = byte_strides(tensor)
    return image, channel, row, element


def _pair(values: Any, missing: int) -> tuple[int, int]:
    first, second = [missing] * (2 - len(values)) + [*values]
    return first, second


class ByteWindowParameters(ResultParameters):
    """The parameters of both kernels of convolutions."""

    row_splits: Count = field("splits of the rows of an image")
    groups: Count = field("groups of the convolution")
    filters: Count = field("filters of a group")
    rows: Count = field("rows of positions of a tile")
    out_height: Count = field("rows of positions of an image")
    out_width: Count = field("positions of a row")
    height: Count = field("rows of an image")
    width: Count = field("columns of an image")
    stride_y: Count = field("rows from a position of the window to the next below")
    pad_y: Count = field("rows of padding above the image")
    pad_x: Count = field("columns of padding left of the image")
    input: Address = field("the image")
    input_image: Bytes = field("from an image to the next")
    input_channel: Bytes = field("from a channel to the next")
    input_row: Bytes = field("from a row to the next")
    input_element: Bytes = field("from an element of a row to the next")
    input_flip: Count = field("what makes the input's bytes unsigned")
    input_zero: Address = field("the zero point of the input, a byte; 0 for none")
    weights: Address = field("the packed filters")
    uses_second: Address = field("an integer: whether sums of the input's bytes are needed")
    output_image: Bytes = field("from an image of the output to the next")
    output_channel: Bytes = field("from a channel of the output to the next")
    output_row: Bytes = field("from a row of positions to the next")


class ByteConvolutionParameters(ByteWindowParameters):
    """The parameters of a convolution. A tile is some rows of positions of an image and a group, for one split of the filters' blocks.

    Filters are [groups, blocks, quads, taps, filters of a block, `ByteIsa.factor_bytes`].
    """

    filter_splits: Count = field("splits of the blocks of filters")
    blocks: Count = field("blocks of filters of a group")
    channels: Count = field("input channels of a group")
    quads: Count = field("quads of a group's channels")
    taps: Count = field("taps of the window")
    positions: Count = field("positions of an image if its last row may be shorter than the others, else 0")
    stride_x: Count = field("columns from a position of the window to the next")
    subplanes: Count = field("subplanes along rows: as many as the stride, or one for each tap of a row")
    subplane_step: Count = field("columns from what a subplane begins with to what the next one does")
    subplane_rows: Count = field("rows of a subplane")
    run_rows: Count = field("rows of a subplane that follow each other in the image")
    left_out_rows: Count = field("rows of the image between these and those that follow")
    pitch: Count = field("quads from a row of a subplane to the next")
    plane: Bytes = field("from a quad of channels to the next")
    input_tile: Bytes = field("the offset of the input tile in a thread's scratch")


class DepthwiseByteParameters(ByteWindowParameters):
    """The parameters of a convolution whose groups have one input channel. A tile is some units: rows of an image and a filter.

    A thread has rows of two images, of which one is copied while the other is multiplied.

    Filters are [groups, filters, rows of taps, quads, 4].
    """

    units: Count = field("units of all tiles")
    tile_size: Bytes = field("the size of the rows of an image that a unit reads, with what vectors read behind them")
    taps_y: Count = field("rows of taps of the window")
    quads: Count = field("quads of a row of taps")
    ones: Address = field("a filter of ones")
    tile_rows: Count = field("rows of the image that a tile's windows read")
    pitch: Bytes = field("from a row of the tile to the next")
    row_step: Bytes = field("from a row of taps to the next")
    joins_rows: Flag = field("whether the positions of all rows of a tile are computed as those of one row, `pitch` apart")


def _common(geometry: ByteGeometry) -> dict[str, Any]:
    """The values of `ByteWindowParameters` that the geometry gives."""
    values: dict[str, Any] = {
        "groups": geometry.groups,
        "filters": geometry.filters,
        "out_height": geometry.out[0],
        "out_width": geometry.out[1],
        "height": geometry.spatial[0],
        "width": geometry.spatial[1],
        "stride_y": geometry.strides[0],
        "pad_y": geometry.starts[0],
        "pad_x": geometry.starts[1],
    }
    for name, steps in (("input", geometry.input_steps), ("output", geometry.output_steps)):
        values |= {f"{name}_{what}": step for what, step in zip(("image", "channel", "row", "element"), steps, strict=True)}
    return values


def _rows_of_tile(geometry: ByteGeometry, row_bytes: int, most_bytes: int, parts: int) -> int:
    """Rows of positions of a tile: about equal parts of an image, as many as threads need."""
    splits = max(ceil(geometry.out[0] / max(1, most_bytes // max(1, row_bytes))), min(geometry.out[0], parts))
    return ceil(geometry.out[0] / splits)


class ChannelTiling:
    """The tiles of a convolution whose quads are channels.

    Attributes:
        tiles: how many there are.
        weights: the sizes of the packed filters.
        ones: the sizes of a packed filter of ones; none is needed.
        scratch_size: bytes of a thread.
    """

    ones = (0,)

    def __init__(self, geometry: ByteGeometry, threads: int, isa: ByteIsa) -> None:
        block, vectors = isa.block
        self._geometry, self._isa, self._quads = geometry, isa, ceil(geometry.channels / 4)
        self._blocks = ceil(geometry.filters / block)
        planes = geometry.batch * geometry.groups
        wanted = ceil(tiles_for(threads) / planes)
        one = self._layout(1)
        row_bytes = self._quads * prod(one.strides) * one.pitch * 4
        rows = _rows_of_tile(geometry, row_bytes, _TILE_BYTES, wanted)
        self._layout_of_tile, self._rows = self._layout(rows), rows
        self._row_splits = ceil(geometry.out[0] / rows)
        self._filter_splits = min(self._blocks, ceil(wanted / self._row_splits))
        self.tiles = planes * self._row_splits * self._filter_splits
        self.weights = (geometry.groups, self._blocks, self._quads, prod(geometry.taps), block, isa.factor_bytes)
        self._offsets = self._layout_of_tile.offsets()
        self._input_tile = aligned((block + 2) * vectors * isa.lanes * 4)
        self.scratch_size = aligned(self._input_tile + self._quads * self._layout_of_tile.plane + isa.lanes * 4 * (vectors + 1))

    def _layout(self, rows: int) -> InputTileLayout:
        geometry = self._geometry
        (_, taps), (down, right), (below, aside), width = geometry.taps, geometry.strides, geometry.dilations, geometry.out[1]
        if self._has_subplanes_of_taps:
            right, aside = taps, 1
        return InputTileLayout(rows, width, geometry.taps, (down, right), (below, aside))

    @property
    def _has_subplanes_of_taps(self) -> bool:
        """Whether each tap of a row has a subplane: rows with what dilated taps read would have many columns that are no positions."""
        geometry = self._geometry
        return 2 * (geometry.taps[1] - 1) * geometry.dilations[1] // geometry.strides[1] >= geometry.out[1] and geometry.dilations[1] > 1

    def describe(self) -> str:
        block, vectors = self._isa.block
        return f"sums in registers: {block} filters at {vectors} vectors of {self._isa.lanes} positions"

    def pack(self, filters: Array, weights: Array, ones: Array) -> None:
        """Packs filters [group, filter, channel, y, x] of signed bytes, which are widened where quads have 8 bytes."""
        groups, blocks, quads, taps, block, size = weights.shape
        padded = np.zeros((groups, blocks * block, quads * 4, taps), np.int8)
        padded[:, : filters.shape[1], : filters.shape[2]] = filters.reshape(*filters.shape[:3], taps)
        ordered = padded.reshape(groups, blocks, block, quads, 4, taps).transpose(0, 1, 3, 5, 2, 4)
        if size == 4:
            weights[...] = ordered
        else:  # pairs of 16 bits: of the even bytes, and of the odd ones
            weights.view(np.int16)[...] = ordered[..., [0, 2, 1, 3]]

    def parameters(self, values: Mapping[str, Any], ones: int) -> Parameters:
        """The parameters of the kernel, with the values of others."""
        geometry, layout = self._geometry, self._layout_of_tile
        return ByteConvolutionParameters.bound(
            {
                **_common(geometry),
                "tiles": self.tiles,
                "row_splits": self._row_splits,
                "rows": self._rows,
                "filter_splits": self._filter_splits,
                "blocks": self._blocks,
                "channels": geometry.channels,
                "quads": self._quads,
                "taps": prod(geometry.taps),
                "positions": geometry.positions,
                "stride_x": geometry.strides[1],
                "subplanes": layout.strides[1],
                "subplane_step": geometry.dilations[1] if self._has_subplanes_of_taps else 1,
                "subplane_rows": layout.subplane_rows,
                "run_rows": layout.run_rows,
                "left_out_rows": layout.left_out_rows,
                "pitch": layout.pitch,
                "plane": layout.plane,
                "offsets": self._offsets,
                "input_tile": self._input_tile,
                **values,
            }
        )


class RowTiling:
    """The tiles of a convolution whose quads are taps of a row.

    Attributes:
        tiles: how many there are.
        weights: the sizes of the packed filters.
        ones: the sizes of a packed filter of ones.
        scratch_size: bytes of a thread.
    """

    def __init__(self, geometry: ByteGeometry, threads: int, isa: ByteIsa) -> None:
        self._geometry, self._isa, self._quads = geometry, isa, ceil(geometry.taps[1] / 4)
        # The last quad of a row may reach into the next one: its weights there are 0.
        self._pitch = (geometry.out[1] - 1) * geometry.strides[1] + geometry.taps[1]
        planes = geometry.batch * geometry.groups * geometry.filters
        wanted = ceil(tiles_for(threads) / planes)
        self._rows = _rows_of_tile(geometry, geometry.strides[0] * self._pitch, _TILE_BYTES // 4, wanted)
        self._row_splits = ceil(geometry.out[0] / self._rows)
        self._units = planes * self._row_splits
        self.tiles = min(self._units, tiles_for(threads))
        self.ones = (geometry.taps[0], self._quads, 4)
        self.weights = (geometry.groups, geometry.filters, *self.ones)
        self._tile_rows = (self._rows - 1) * geometry.strides[0] + (geometry.taps[0] - 1) * geometry.dilations[0] + 1
        lanes, width = isa.lanes, geometry.out[1]
        joined, apart = ceil(((self._rows - 1) * self._pitch + width) / lanes), self._rows * ceil(width / lanes)
        self._joins_rows = geometry.strides[0] == geometry.strides[1] and width < 2 * lanes and joined <= apart
        size = isa.lanes * 4
        # The last vectors read past the rows, by what their positions beyond a row would read.
        beyond = size * (1 + geometry.strides[1] * DEPTHWISE_VECTORS)
        self._tile_size = aligned(self._tile_rows * self._pitch + beyond)
        self.scratch_size = aligned(3 * DEPTHWISE_VECTORS * size + 2 * self._tile_size)

    def describe(self) -> str:
        return f"groups of one channel: taps of a row are multiplied at once, for vectors of {self._isa.lanes} positions"

    def pack(self, filters: Array, weights: Array, ones: Array) -> None:
        """Packs filters [group, filter, 1, y, x] of signed bytes."""
        weights[...], ones[...], taps = 0, 0, filters.shape[-1]
        weights.reshape(*weights.shape[:3], -1)[..., :taps] = filters[:, :, 0]
        ones.reshape(ones.shape[0], -1)[:, :taps] = 1

    def parameters(self, values: Mapping[str, Any], ones: int) -> Parameters:
        """The parameters of the kernel, with the values of others."""
        geometry = self._geometry
        return DepthwiseByteParameters.bound(
            {
                **_common(geometry),
                "tiles": self.tiles,
                "units": self._units,
                "row_splits": self._row_splits,
                "rows": self._rows,
                "tile_size": self._tile_size,
                "taps_y": geometry.taps[0],
                "quads": self._quads,
                "ones": ones,
                "tile_rows": self._tile_rows,
                "pitch": self._pitch,
                "row_step": geometry.dilations[0] * self._pitch,
                "joins_rows": self._joins_rows,
                **values,
            }
        )
