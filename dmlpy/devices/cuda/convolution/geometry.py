"""The layout of the terms of a convolution's sums: the structs of raw_kernels/common/convolution.cuh."""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.description.enums import ConvolutionMode
from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.element_engine import Elementwise, View
from dmlpy.devices.cuda.common.element_types import word_type
from dmlpy.devices.cuda.common.functors import Functor
from dmlpy.devices.cuda.common.tile_products import WIDE_BYTES
from dmlpy.devices.cuda.common.windows import WINDOW, counts_along, windows_of, windows_value
from dmlpy.devices.cuda.kernels import struct
from dmlpy.devices.cuda.movement.copies import COPY, FILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.cuda.common.windows import Window
    from dmlpy.operators.convolution import ConvolvingDesc

SPATIAL = 3
"""The spatial dimensions of the kernels' windows."""
REDUCTION = struct(
    *((name, np.int64, (1 + SPATIAL,)) for name in ("lengths", "input_strides", "filter_strides")), ("windows", WINDOW, (SPATIAL,))
)
"""`Reduction`: the channels of a group and the taps of the window."""

_SLIDE_NUMBERS = ("input_stride", "filter_stride", "size", "positions", "taps", "start", "dilation", "phases", "tap_step", "element_step")
SLIDE = struct(("output_stride", np.int64), *((name, np.int32) for name in _SLIDE_NUMBERS))
"""`Slide`: a spatial dimension."""

TILES = (
    ("slides", SLIDE, (SPATIAL,)),
    ("axes", axes_type(2 + SPATIAL)),
    *((name, np.uint64) for name in ("pixels", "pixel_tiles", "channel_tiles", "tiles")),
    ("group_strides", np.int64, (3,)),
    ("channel_strides", np.int64, (3,)),
    ("line_stride", np.int64),
    *((name, np.int32) for name in ("group_channels", "channels", "terms_of_tap", "wide", "wide_output", "backward")),
)
"""The fields of `TilesParameters` after the arithmetic."""

EACH = (("axes", axes_type(4 + SPATIAL)), ("count", np.uint64))
"""The fields of `EachParameters` after the reduction."""

_MOST_PLACE = 2**30
"""The most that a place along an axis, or its distance to a tap, may be in `convolve_tiles`: their sums fit in 32 bits."""
_TOGETHER = 8
"""Output channels that a thread of `convolve_tiles` writes together."""


class Strides(NamedTuple):
    """How an operand lies in memory, in elements.

    Attributes:
        group: from one group to the next.
        line: from one image, or one output channel of the filter, to the next.
        channel: from one input channel of a group to the next.
        spatial: from one element, or one tap, to the next.
        is_copy: whether it is a copy, with zeros up to whole multiples of 16 bytes of channels.
    """

    group: int
    line: int
    channel: int
    spatial: tuple[int, ...]
    is_copy: bool = False


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
            self._first_tap = self._last_of_window(taps)

    def _last_of_window(self, strides: Sequence[int]) -> int:
        """The element of a filter's last tap."""
        return sum((length - 1) * stride for length, stride in zip(self._filter.sizes[2:], strides, strict=True))

    @property
    def groups(self) -> int:
        """Groups of channels."""
        return self._groups

    @property
    def phases(self) -> int:
        """The parts of the pixels whose windows meet the same taps."""
        return prod(window.stride for window in self._windows) if self.backward else 1

    @property
    def phase_pixels(self) -> int:
        """The most pixels of a phase."""
        return prod(self._phase_sizes())

    @property
    def phase_taps(self) -> int:
        """The most taps of a phase."""
        return prod(-(-window.length // self._tap_step(window)) for window in self._windows)

    def _phase_sizes(self) -> tuple[int, ...]:
        """The batch size, and the most positions of a phase along each spatial dimension of the output."""
        strides = [window.stride if self.backward else 1 for window in self._windows[SPATIAL + 2 - len(self._sizes) :]]
        return (self._sizes[0], *(-(-size // stride) for size, stride in zip(self._sizes[2:], strides, strict=True)))

    def _tap_step(self, window: Window) -> int:
        return window.stride // gcd(window.stride, window.dilation) if self.backward else 1

    @property
    def fits_tiles(self) -> bool:
        """Whether `convolve_tiles` can count places in an image and terms in 32 bits, in copies too."""
        places = [
            number
            for window in self._windows
            for number in (window.positions * window.stride, window.size, window.start + window.length * max(window.dilation, 1))
        ]
        strides = zip((*self._input_sizes[2:], *self._filter.sizes[2:]), (*self._input[2:], *map(abs, self._taps)), strict=True)
        extents = [size * stride for size, stride in strides]
        copied = (self.channels + WIDE_BYTES) * max(self._groups * prod(self._input_sizes[2:]), prod(self._filter.sizes[2:]))
        return (
            max(places) <= _MOST_PLACE
            and max(self.terms + WIDE_BYTES * prod(self._lengths[1:]), self.group_channels, copied, sum(extents)) < _MOST_PLACE
        )

    def in_place(self) -> tuple[Strides, Strides]:
        """How x and the filter lie as they are given."""
        channel, line = self._filter_channels
        given = Strides(self._filter_group, line, channel, self._filter.element_strides[2:])
        return Strides(self.channels * self._input[1], self._input[0], self._input[1], self._input[2:]), given

    def terms_of_tap(self, size: int, *, wide: bool) -> int:
        """The terms of a tap in a sum: channels, and zeros up to a whole multiple of 16 bytes where these are copied at once.

        Args:
            size: bytes of an element.
            wide: whether they are.
        """
        return -(-self.channels * size // WIDE_BYTES) * WIDE_BYTES // size if wide else self.channels

    def packed(self, size: int) -> tuple[Strides, Strides]:
        """How packed copies of x and the filter lie: channels last, each group in whole multiples of 16 bytes.

        Args:
            size: bytes of an element.
        """
        channels = self.terms_of_tap(size, wide=True)
        pixels, taps = self._input_sizes[2:], self._filter.sizes[2:]
        row, of_taps = self._groups * channels, prod(taps) * channels
        return (
            Strides(channels, prod(pixels) * row, 1, tuple(row * stride for stride in packed_strides(pixels)), True),
            Strides(self.group_channels * of_taps, of_taps, 1, tuple(channels * stride for stride in packed_strides(taps)), True),
        )

    def packed_elements(self, size: int) -> tuple[int, int]:
        """The elements of these copies."""
        x, w = self.packed(size)
        return self._input_sizes[0] * x.line, self._groups * w.group

    def is_wide(self, operand: int, strides: Strides, size: int, address: int = 0) -> bool:
        """Whether `convolve_tiles` can copy 16 bytes of channels at once.

        Args:
            operand: 0 for x, 1 for the filter.
            strides: of the operand.
            size: bytes of an element.
            address: of the operand.
        """
        lines, spatial = ((self._input_sizes[0], self._input_sizes[2:]), (self.group_channels, self._filter.sizes[2:]))[operand]
        counts = (self._groups, lines, *spatial)
        steps = [step for count, step in zip(counts, (strides.group, strides.line, *strides.spatial), strict=True) if count > 1]
        fits = strides.is_copy or self.channels * size % WIDE_BYTES == 0
        return strides.channel == 1 and fits and all(step * size % WIDE_BYTES == 0 for step in steps) and address % WIDE_BYTES == 0

    def copies(self, operand: int, place: str, size: int) -> list[Elementwise]:
        """The steps that pack x (0) or the filter (1) in the array of scratch at a place."""
        taps = self._filter.element_strides[2:]
        to = self.packed(size)[operand]
        if operand == 0:
            field, tensor = "input_tensor", self._input_sizes
            sizes: tuple[int, ...] = (tensor[0], self._groups, self.channels, *tensor[2:])
            source = (self._input[0], self.channels * self._input[1], *self._input[1:])
            new = (to.line, to.group, to.channel, *to.spatial)
        else:
            field = "filter_tensor"
            sizes = (self._groups, self.channels, self.group_channels, *self._filter.sizes[2:])
            channel, line = self._filter_channels
            source, new = (self._filter_group, channel, line, *taps), (to.group, to.channel, to.line, *to.spatial)
        scalar = word_type(np.dtype(f"u{size}"))
        copy = Elementwise(COPY, sizes, View(place, scalar, new), [View(field, scalar, source)])
        if self.channels * size % WIDE_BYTES == 0:
            return [copy]
        elements = self.packed_elements(size)[operand]
        zeros = Functor(FILE, f"movement::Fill<{scalar}>", (("value", f"uint{8 * size}", 0),))
        return [Elementwise(zeros, (elements,), View(place, scalar, (1,))), copy]

    @property
    def first_tap(self) -> int:
        """The element of the filter where the first tap's is: the last one of a flipped filter."""
        return self._first_tap

    def tiles(self, rows: int, columns: int) -> int:
        """Tiles of the output of this many output channels and pixels, in all groups and phases."""
        return self._groups * self.phases * -(-self.group_channels // rows) * -(-self.phase_pixels // columns)

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

    def tiles_fields(
        self, rows: int, columns: int, size: int, operands: tuple[Strides, Strides], addresses: Mapping[str, int]
    ) -> dict[str, Any]:
        """The values of `TILES`, and the filter's address, which is that of the first tap in the order of the sums.

        Args:
            rows: output channels of a tile.
            columns: pixels of a tile.
            size: bytes of an element of x and of the filter.
            operands: how x and the filter lie.
            addresses: of `input`, `filter` and `output`.
        """
        x, w = operands
        wide = all(self.is_wide(number, operands[number], size, addresses[field]) for number, field in enumerate(("input", "filter")))
        first_tap = self._last_of_window(w.spatial) if self._flipped else 0
        of_phase = [window.stride if self.backward else 1 for window in self._windows[SPATIAL + 2 - len(self._sizes) :]]
        output_strides = [stride * step for stride, step in zip(self._output[2:], of_phase, strict=True)]
        counts = [(count[0], *count[2:]) for count in self._counts()]
        strides = [(self._output[0], *output_strides), (x.line, *(0 for _ in output_strides)), *counts]
        pixel_tiles, channel_tiles = -(-self.phase_pixels // columns), -(-self.group_channels // rows)
        return {
            "slides": self._slides(x, w),
            "axes": axes_value(merged(self._phase_sizes(), strides), len(strides)),
            "pixels": self.phase_pixels,
            "pixel_tiles": pixel_tiles,
            "channel_tiles": channel_tiles,
            "tiles": self.tiles(rows, columns),
            "group_strides": (self.group_channels * self._output[1], x.group, w.group),
            "channel_strides": (self._output[1], x.channel, w.channel),
            "line_stride": w.line,
            "group_channels": self.group_channels,
            "channels": self.channels,
            "terms_of_tap": self.terms_of_tap(size, wide=wide),
            "wide": wide,
            "wide_output": self._writes_wide(addresses["output"]),
            "backward": self.backward,
            "filter": addresses["filter"] + first_tap * size,
        }

    def _slides(self, x: Strides, w: Strides) -> np.ndarray[Any, Any]:
        """Elements of `SLIDE`."""
        missing = (0,) * (SPATIAL + 2 - len(self._sizes))
        sign, slides = -1 if self._flipped else 1, []
        strides = zip((*missing, *x.spatial), (*missing, *w.spatial), (*missing, *self._output[2:]), strict=True)
        for window, (of_x, of_filter, of_y) in zip(self._windows, strides, strict=True):
            sizes = (window.positions, window.size) if self.backward else (window.size, window.positions)
            step = -(window.dilation // gcd(window.dilation, window.stride)) if self.backward else window.dilation
            phases = window.stride if self.backward else 1
            numbers = (*sizes, window.length, window.start, window.dilation, phases, self._tap_step(window), step)
            slides.append((of_y, of_x, sign * of_filter, *numbers))
        return np.array(slides, SLIDE)

    def _writes_wide(self, address: int) -> bool:
        """Whether neighbouring output channels of a pixel can be stored together."""
        steps = [stride for count, stride in zip(self._sizes, self._output, strict=True) if count > 1 and stride != 1]
        aligned = all(step % _TOGETHER == 0 for step in (*steps, self.group_channels)) and address % WIDE_BYTES == 0
        return self._output[1] == 1 and aligned

    def each_fields(self) -> dict[str, Any]:
        """The values of `EACH`: the channels of all tensors are split into groups and the channels of one."""
        sizes = (self._sizes[0], self._groups, self.group_channels, *self._sizes[2:])
        spatial_zeros = tuple(0 for _ in self._sizes[2:])
        strides = [
            (self._output[0], self.group_channels * self._output[1], *self._output[1:]),
            (self._input[0], self.channels * self._input[1], 0, *spatial_zeros),
            (0, self._filter_group, self._filter_channels[1], *spatial_zeros),
            (0, self.group_channels, 1, *spatial_zeros),
            *((counts[0], 0, *counts[1:]) for counts in self._counts()),
        ]
        return {"axes": axes_value(merged(sizes, strides), len(strides)), "count": self.elements}

    def _counts(self) -> list[tuple[int, ...]]:
        """The windows' positions along each spatial dimension; backward, the output's own coordinates, or those of a phase."""
        return counts_along([1 if self.backward else window.stride for window in self._windows], len(self._sizes))
