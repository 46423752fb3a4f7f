"""The layout of the terms of a convolution's sums: the structs of raw_kernels/common/convolution.cuh."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import ConvolutionMode
from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import merged
from dmlpy.devices.cuda.axes import axes_type, axes_value
from dmlpy.devices.cuda.element_engine import Elementwise, View
from dmlpy.devices.cuda.kernels import struct
from dmlpy.devices.cuda.movement.copies import COPY
from dmlpy.devices.cuda.tile_products import TILE_SIDE, WIDE_BYTES, Order
from dmlpy.devices.cuda.windows import WINDOW, counts_along, windows_of, windows_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.operators.convolution import ConvolvingDesc

SPATIAL = 3
"""The spatial dimensions of the kernels' windows."""
REDUCTION = struct(
    *((name, np.int64, (1 + SPATIAL,)) for name in ("lengths", "input_strides", "filter_strides")), ("windows", WINDOW, (SPATIAL,))
)
"""`Reduction`: the channels of a group and the taps of the window."""

TILES = (
    ("axes", axes_type(2 + SPATIAL)),
    *((name, np.uint64) for name in ("pixels", "pixel_tiles", "channel_tiles", "tiles")),
    ("group_channels", np.int64),
    ("group_strides", np.int64, (3,)),
    ("channel_strides", np.int64, (2,)),
    ("terms", np.int64),
    ("term_stride", np.int64),
    *((name, np.int32) for name in ("filter_order", "wide", "flipped")),
)
"""The fields of `TilesParameters` after the reduction."""

EACH = (("axes", axes_type(4 + SPATIAL)), ("count", np.uint64))
"""The fields of `EachParameters` after the reduction."""


class Geometry:
    """The tensors of a convolution as its kernels iterate over them: groups of channels, pixels, and the terms of their sums.

    Attributes:
        backward: whether the convolution is transposed.
        group_channels: output channels of a group.
        channels: input channels of a group.
        pixels: elements of an output channel, in the whole batch.
        terms: products in each sum, those with padding included.

    Args:
        desc: a checked desc.
    """

    def __init__(self, desc: ConvolvingDesc) -> None:
        x, w, y = desc.input_tensor, desc.filter_tensor, desc.output_tensor
        assert y is not None  # guaranteed by the check
        self.backward = desc.backward
        self._sizes, self._groups = y.sizes, desc.group_count
        self.group_channels, self.channels = y.sizes[1] // self._groups, x.sizes[1] // self._groups
        self.pixels = y.sizes[0] * prod(y.sizes[2:])
        slid, positions = (y, x) if self.backward else (x, y)
        self._windows = windows_of(desc, slid.sizes[2:], w.sizes[2:], positions.sizes[2:], SPATIAL)
        self._lengths = (self.channels, *(window.length for window in self._windows))
        self.terms = prod(self._lengths)
        self._output, self._input, self._input_sizes = y.element_strides, x.element_strides, x.sizes
        outer, inner, *taps = w.element_strides
        self._filter_channels = (outer, inner) if self.backward else (inner, outer)
        """The strides of w between input channels, and between output channels of a group."""
        self._filter_group = outer * (self.channels if self.backward else self.group_channels)
        self._filter, self._taps, self._first_tap = w, tuple(taps), 0
        self._flipped = getattr(desc, "mode", None) is ConvolutionMode.CONVOLUTION
        if self._flipped:
            self._taps = tuple(-tap for tap in taps)
            self._first_tap = sum((length - 1) * tap for length, tap in zip(w.sizes[2:], taps, strict=True))
        self._matrix = self._matrix_in_place()

    def _matrix_in_place(self) -> tuple[int, int, int] | None:
        """The strides of the filter as matrices, between groups, output channels and terms (taps, then input channels).

        None if the terms have no constant stride.
        """
        channel, line = self._filter_channels
        axes = [*zip(self._filter.sizes[2:], self._filter.element_strides[2:], strict=True), (self.channels, channel)]
        axes = [(size, stride) for size, stride in axes if size > 1]
        if any(outer != inner * size for (_, outer), (size, inner) in pairwise(axes)):
            return None
        return self._filter_group, line, axes[-1][1] if axes else 1

    def filter_copy(self, place: str) -> Elementwise | None:
        """The step that packs such matrices in scratch; None if the filter already consists of them."""
        if self._matrix is not None:
            return None
        outer, inner, *taps = self._filter.element_strides
        of_taps = [self.channels * stride for stride in packed_strides(self._filter.sizes[2:])]
        sizes, given = self._filter.sizes, (outer, inner, *taps)
        matrix: tuple[int, ...] = (self.terms, 1, *of_taps)
        if self.backward:
            sizes = (self._groups, self.channels, *self._filter.sizes[1:])
            given, matrix = (self._filter_group, *given), (self.group_channels * self.terms, 1, self.terms, *of_taps)
        scalar = View.of("filter_tensor", self._filter, raw=True).scalar
        return Elementwise(COPY, sizes, View(place, scalar, matrix), [View("filter_tensor", scalar, given)])

    @property
    def filter_elements(self) -> int:
        """Elements of the filter."""
        return prod(self._filter.sizes)

    @property
    def first_tap(self) -> int:
        """The element of the filter where the first tap's is: the last one of a flipped filter."""
        return self._first_tap

    @property
    def tiles(self) -> int:
        """Tiles of the output, in all groups."""
        return self._groups * -(-self.group_channels // TILE_SIDE) * -(-self.pixels // TILE_SIDE)

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return self._groups * self.group_channels * self.pixels

    def reduction(self) -> np.ndarray[Any, Any]:
        """One element of `REDUCTION`."""
        value, missing = np.zeros((), REDUCTION), (0,) * (SPATIAL + 2 - len(self._sizes))
        value["lengths"] = self._lengths
        value["input_strides"] = (self._input[1], *missing, *self._input[2:])
        value["filter_strides"] = (self._filter_channels[0], *missing, *self._taps)
        value["windows"] = windows_value(self._windows)
        return value

    def brings_wide(self, size: int, address: int = 0) -> bool:
        """Whether each 16 bytes of channels of x that a thread reads are contiguous.

        Args:
            size: bytes of an element.
            address: of x.
        """
        batch, channel, *spatial = self._input
        steps = [
            stride for count, stride in zip((self._input_sizes[0], *self._input_sizes[2:]), (batch, *spatial), strict=True) if count > 1
        ]
        return channel == 1 and all(count * size % WIDE_BYTES == 0 for count in (self.channels, *steps)) and address % WIDE_BYTES == 0

    def tiles_fields(self, size: int, addresses: Mapping[str, int]) -> dict[str, Any]:
        """The values of `TILES`.

        Args:
            size: bytes of an element of x and of the filter.
            addresses: of `input` and `filter`.
        """
        packed = (self.group_channels * self.terms, self.terms, 1)
        group_stride, line_stride, term_stride = packed if self._matrix is None else self._matrix
        counts, others = (self.group_channels, self.terms), [group_stride] if self._groups > 1 else []
        order = Order.of(counts, (line_stride, term_stride), others, size, addresses["filter"])
        sizes = (self._sizes[0], *self._sizes[2:])
        per_pixel = [self._output, (self._input[0], *(0 for _ in self._sizes[1:])), *self._counts()]
        strides = [(own[0], *own[2:]) for own in per_pixel]
        pixel_tiles, channel_tiles = -(-self.pixels // TILE_SIDE), -(-self.group_channels // TILE_SIDE)
        return {
            "axes": axes_value(merged(sizes, strides), len(strides)),
            "pixels": self.pixels,
            "pixel_tiles": pixel_tiles,
            "channel_tiles": channel_tiles,
            "tiles": self.tiles,
            "group_channels": self.group_channels,
            "group_strides": (self.group_channels * self._output[1], self.channels * self._input[1], group_stride),
            "channel_strides": (self._output[1], line_stride),
            "terms": self.terms,
            "term_stride": term_stride,
            "filter_order": order,
            "wide": self.brings_wide(size, addresses["input"]),
            "flipped": self._flipped,
        }

    def each_fields(self) -> dict[str, Any]:
        """The values of `EACH`: the channels of all tensors are split into groups and the channels of one."""
        sizes = (self._sizes[0], self._groups, self.group_channels, *self._sizes[2:])
        beside = tuple(0 for _ in self._sizes[2:])
        strides = [
            (self._output[0], self.group_channels * self._output[1], *self._output[1:]),
            (self._input[0], self.channels * self._input[1], 0, *beside),
            (0, self._filter_group, self._filter_channels[1], *beside),
            (0, self.group_channels, 1, *beside),
            *((own[0], 0, *own[1:]) for own in self._counts()),
        ]
        return {"axes": axes_value(merged(sizes, strides), len(strides)), "count": self.elements}

    def _counts(self) -> list[tuple[int, ...]]:
        """The windows' positions along each spatial dimension; backward, the output's own coordinates."""
        return counts_along([1 if self.backward else window.stride for window in self._windows], len(self._sizes))
