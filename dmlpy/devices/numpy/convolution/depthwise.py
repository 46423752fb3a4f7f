"""The convolution of single channels: products of a vector and a matrix for blocks of channels that stay in the cache."""

from __future__ import annotations

from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.host.blas import WORK_OF_A_THREAD
from dmlpy.devices.numpy.convolution.common import CACHE, Scratch, TiledPlan
from dmlpy.devices.numpy.convolution.geometry import DIMENSIONS, Array, Box, Geometry, Index, boxes, extents
from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dmlpy.operators.convolution import ConvolutionDesc

Tile = tuple[int, slice, Box]
"""An image, channels, and the positions of the window."""


class DepthwisePlan(TiledPlan):
    """A convolution whose groups have a single input channel.

    A tile's part of the input is copied with zeros around it, and divided by the remainders of its coordinates by the strides. What a tap
    reads for all positions is then contiguous, except for gaps at the ends of rows: so the panel, [channels, taps,
    positions], is copied in long runs, and each channel's sums are the product of its taps and its panel.
    """

    def __init__(self, desc: ConvolutionDesc, geometry: Geometry) -> None:
        block = max(1, CACHE // (1 + prod(geometry.taps)))
        self._extent = extents(geometry.out, block)
        self._rows = self._rows_of(geometry, self._extent)
        self._length = prod(self._rows)
        count = ceil(geometry.groups / max(1, block // self._length))
        self._channels = ceil(geometry.groups / count)
        super().__init__(desc, geometry)

    @staticmethod
    def _rows_of(geometry: Geometry, extent: tuple[int, ...]) -> tuple[int, int, int]:
        """The sizes of each of the parts that a tile's input is divided into."""
        along = zip(extent, geometry.spans, geometry.strides, strict=True)
        first, second, third = (out + (span - 1) // stride for out, span, stride in along)
        return first, second, third

    @property
    def part_size(self) -> int:
        return prod(self._geometry.strides) * self._length

    @property
    def useful_size(self) -> int:
        return prod(self._geometry.taps) * prod(self._extent)

    def _matrix(self) -> tuple[int, int]:
        return self._geometry.filters, prod(self._geometry.taps)

    def _divided(self) -> Iterable[Tile]:
        groups = self._geometry.groups
        for image in range(self._geometry.batch):
            for box in boxes(self._geometry.out, self._extent):
                for first in range(0, groups, self._channels):
                    yield image, slice(first, min(first + self._channels, groups)), box

    def _product(self) -> int:
        return WORK_OF_A_THREAD  # BLAS would start threads for much shorter products of a vector and a matrix, which gain nothing

    def _scratch(self) -> list[Scratch]:
        size = self._channels * self._length
        return [
            ("part", (self._channels, *self._geometry.strides, *self._rows), COMPUTE),
            ("panel", (prod(self._geometry.taps) * size,), COMPUTE),
            ("sums", (size,), COMPUTE),
            *self._finish.scratch(size),
        ]

    def describe(self) -> str:
        return self._describe_tiles(f"{self._channels} x {' x '.join(map(str, self._extent))} (channels x positions)")

    def _work(self, arrays: dict[str, Array], scratch: dict[str, Array]) -> Callable[[Tile], None]:
        geometry, rows, length = self._geometry, self._rows, self._length
        x, y, filters, first = arrays["input_tensor"], arrays["output_tensor"], arrays["filter"], self._first_calls(arrays)
        finish = self._finish.bind(scratch)
        part, taps = scratch["part"], self._taps()
        flat_part = part.reshape(*part.shape[: 1 + DIMENSIONS], length)

        def compute(tile: Tile) -> None:
            image, channels, box = tile
            count = channels.stop - channels.start
            self._fill(part[:count], x[image, channels, 0], box)
            extent = [place.stop - place.start for place in box]
            used = ((extent[0] - 1) * rows[1] + extent[1] - 1) * rows[2] + extent[2]
            flat = scratch["sums"][: count * length]
            every = flat.reshape(count, length)
            every[:, used:] = 0.0  # the fused function reads all
            panel = scratch["panel"][: count * len(taps) * used].reshape(count, len(taps), used)
            for at, (phase, begin) in enumerate(taps):
                np.copyto(panel[:, at], flat_part[:count, *phase, begin : begin + used])
            sums = every[:, np.newaxis, :used]
            results = every.reshape(count, *rows)[:, : extent[0], : extent[1], : extent[2]]
            for number in range(geometry.filters):
                np.matmul(filters[channels, number : number + 1], panel, out=sums)
                finish(every, first((channels, number)), results, y[image, channels, number, *box])

        return compute

    def _taps(self) -> list[tuple[Index, int]]:
        """For each tap its remainders, and the first element that it reads among those with these remainders."""
        taps: list[tuple[Index, int]] = []
        _, height, width = self._rows
        for tap in product(*map(range, self._geometry.taps)):
            at = [number * dilation for number, dilation in zip(tap, self._geometry.dilations, strict=True)]
            parts = [divmod(place, stride) for place, stride in zip(at, self._geometry.strides, strict=True)]
            (depth, first), (row, second), (column, third) = parts
            taps.append(((first, second, third), (depth * height + row) * width + column))
        return taps

    def _fill(self, part: Array, x: Array, box: Box) -> None:
        """Copies the input of a box's windows in some channels, [channels, *spatial], with zeros for padding."""
        geometry = self._geometry
        along: list[list[tuple[slice, slice, bool]]] = []
        for at, place in enumerate(box):
            stride, size = geometry.strides[at], geometry.spatial[at]
            begin, rows = place.start * stride - geometry.starts[at], self._rows[at]
            along.append([])
            for phase in range(stride):
                first = begin + phase
                low = min(rows, max(0, -(first // stride)))
                high = min(rows, max(low, (size - 1 - first) // stride + 1))
                taken = slice(first + low * stride, first + (high - 1) * stride + 1, stride) if high > low else slice(0, 0)
                along[-1].append((slice(low, high), taken, low == 0 and high == rows))
        phases: list[Index] = [*product(*(range(stride) for stride in geometry.strides))]
        for remainders in phases:
            chosen = [along[at][number] for at, number in enumerate(remainders)]
            target = part[:, *remainders]
            if not all(whole for _, _, whole in chosen):
                target.fill(0.0)
            places: Index = tuple(places for places, _, _ in chosen)
            elements: Index = tuple(elements for _, elements, _ in chosen)
            np.copyto(target[:, *places], x[:, *elements])
