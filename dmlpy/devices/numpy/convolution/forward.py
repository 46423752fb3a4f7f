"""The convolution as matrix products, tile by tile: a panel holds the input of a tile's windows, and stays in the cache."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dmlpy.devices.numpy.convolution.common import CACHE, Scratch, TiledPlan
from dmlpy.devices.numpy.convolution.geometry import Array, Box, Geometry, Index, as_matrix, boxes, extents, matrix_in_place
from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dmlpy.operators.convolution import ConvolutionDesc

_FEWEST = 256
"""Columns of a product, at least: BLAS reads and packs the filter anew for each product."""

Tile = tuple[int, int, Box]
"""An image, a group, and the positions of the window."""


class ForwardPlan(TiledPlan):
    """A convolution with groups of several channels.

    A tile is a box of the window's positions, in one image and group. Its panel, [channels * taps, positions], is copied from the part of
    the input that its windows reach, with zeros for padding. Windows of one element with strides of 1 need no panel: they read the input.
    """

    def __init__(self, desc: ConvolutionDesc, geometry: Geometry) -> None:
        self._depth = geometry.channels * prod(geometry.taps)
        reach = zip(geometry.out, geometry.strides, geometry.spans, geometry.starts, geometry.spatial, strict=True)
        self._inside = all(start == 0 and (out - 1) * stride + span <= size for out, stride, span, start, size in reach)
        most = max(_FEWEST, CACHE // max(self._depth, geometry.filters))
        self._extent = extents(geometry.out, most)
        window = zip(self._extent, geometry.strides, geometry.spans, strict=True)
        first, second, third = ((extent - 1) * stride + span for extent, stride, span in window)
        self._part = first, second, third
        source, output = desc.input_tensor, desc.output_tensor
        assert output is not None
        self._plain = source.data_type.numpy == COMPUTE
        self._pointwise = prod(geometry.taps) == 1 and set(geometry.strides) == {1} and self._inside and self._plain
        self._channels_last = output.element_strides[1] == 1 < min(geometry.filters, prod(geometry.out))
        super().__init__(desc, geometry)

    @property
    def part_size(self) -> int:
        return prod(self._part)

    @property
    def useful_size(self) -> int:
        return prod(self._geometry.taps) * prod(self._extent)

    def _matrix(self) -> tuple[int, int]:
        return self._geometry.filters, self._depth

    def _divided(self) -> Iterable[Tile]:
        for image in range(self._geometry.batch):
            for group in range(self._geometry.groups):
                for box in boxes(self._geometry.out, self._extent):
                    yield image, group, box

    def _product(self) -> int:
        return self._geometry.filters * self._depth * prod(self._extent)

    def _scratch(self) -> list[Scratch]:
        positions, geometry = prod(self._extent), self._geometry
        arrays: list[Scratch] = [
            ("panel", (self._depth * positions,), COMPUTE),
            ("sums", (geometry.filters * positions,), COMPUTE),
            *self._finish.scratch(geometry.filters * positions),
        ]
        return arrays if self._inside and self._plain else [*arrays, ("part", (geometry.channels, *self._part), COMPUTE)]

    def describe(self) -> str:
        sizes = f"{self._geometry.filters} x {self._depth} x {' x '.join(map(str, self._extent))}"
        return self._describe_tiles(f"{sizes} (filters x terms x positions), each a matrix product")

    def _work(self, arrays: dict[str, Array], scratch: dict[str, Array]) -> Callable[[Tile], None]:
        geometry, last = self._geometry, self._channels_last
        x, y, filters, first = arrays["input_tensor"], arrays["output_tensor"], arrays["filter"], self._first_calls(arrays)
        finish = self._finish.bind(scratch)
        panel_of = self._columns(x, scratch)
        in_place = self._stores_sums and y.dtype == COMPUTE

        def compute(tile: Tile) -> None:
            image, group, box = tile
            columns = panel_of(image, group, box)
            target = y[image, group, :, *box]
            count = columns.shape[1]
            if in_place and (rows := matrix_in_place(target)) is not None:
                np.matmul(filters[group], columns, out=rows)
                return
            flat = scratch["sums"][: geometry.filters * count]
            sums = flat.reshape(count, geometry.filters).T if last else flat.reshape(geometry.filters, count)
            np.matmul(filters[group], columns, out=sums)
            shaped = flat.reshape(*target.shape[1:], geometry.filters).transpose(3, 0, 1, 2) if last else flat.reshape(target.shape)
            finish(sums, first((group, slice(None))), shaped, target)

        return compute

    def _columns(self, x: Array, scratch: dict[str, Array]) -> Callable[[int, int, Box], Array]:
        """Creates the function that returns a tile's panel, [channels * taps, positions]."""
        geometry, depth = self._geometry, self._depth
        panel = scratch["panel"]
        if self._pointwise:
            return lambda image, group, box: as_matrix(x[image, group, :, *box], panel)
        if self._inside and self._plain:
            every = _windows(x, geometry)

            def seen(image: int, group: int, box: Box) -> Array:
                windows: Array = every[image, group, :, :, :, :, *box]
                return windows

        else:
            part = scratch["part"]
            own_windows = _windows(part[np.newaxis, np.newaxis], geometry, self._extent)[0, 0]

            def seen(image: int, group: int, box: Box) -> Array:
                self._fill(part, x[image, group], box)
                own_box: Index = tuple(slice(0, place.stop - place.start) for place in box)
                windows: Array = own_windows[:, :, :, :, *own_box]
                return windows

        def copied(image: int, group: int, box: Box) -> Array:
            windows = seen(image, group, box)
            count = prod(windows.shape[4:])
            columns = panel[: depth * count]
            np.copyto(columns.reshape(windows.shape), windows)
            return columns.reshape(depth, count)

        return copied

    def _fill(self, part: Array, x: Array, box: Box) -> None:
        """Copies the input of a box's windows in an image, [channels, *spatial], with zeros for padding."""
        geometry, whole = self._geometry, True
        places: list[Any] = []
        elements: list[Any] = []
        for at, place in enumerate(box):
            begin = place.start * geometry.strides[at] - geometry.starts[at]
            length = (place.stop - place.start - 1) * geometry.strides[at] + geometry.spans[at]
            low, high = min(max(0, -begin), length), max(0, min(length, geometry.spatial[at] - begin))
            whole = whole and low == 0 and high == length
            places.append(slice(low, max(low, high)))
            elements.append(slice(begin + low, begin + max(low, high)) if high > low else slice(0, 0))
        if not whole:
            part.fill(0.0)
        np.copyto(part[:, *places], x[:, *elements])


def _windows(x: Array, geometry: Geometry, positions: tuple[int, ...] | None = None) -> Array:
    """The input of the windows, [batch, groups, channels, *spatial] without padding, as [batch, groups, channels, *taps, *positions]."""
    steps = x.strides[3:]
    between = (stride * step for stride, step in zip(geometry.dilations, steps, strict=True))
    onward = (stride * step for stride, step in zip(geometry.strides, steps, strict=True))
    sizes = (*x.shape[:3], *geometry.taps, *(geometry.out if positions is None else positions))
    return as_strided(x, sizes, (*x.strides[:3], *between, *onward))
