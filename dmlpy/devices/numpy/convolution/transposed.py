"""The transposed convolution: matrix products, whose results are added up in images that stay in the cache."""

from __future__ import annotations

from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.numpy.convolution.common import CACHE, Scratch, TiledPlan
from dmlpy.devices.numpy.convolution.geometry import Array, Geometry, Index, as_matrix, boxes, extents
from dmlpy.devices.numpy.plans import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dmlpy.operators.convolution import ConvolutionDesc

_FEWEST = 64
"""Columns of a product, at least."""

Tile = tuple[int, int, slice]
"""An image, a group, and output channels of it."""


class TransposedPlan(TiledPlan):
    """A transposed convolution.

    A tile is some output channels of an image. The product of their filter with a box of the input, [channels * taps, elements], is added
    tap by tap to the tile's sums. These are split by coordinate modulo stride, so that neighbours in the input
    map to neighbours. Elements in the padding, which are cut off, are not computed.
    """

    def __init__(self, desc: ConvolutionDesc, geometry: Geometry) -> None:
        along = zip(*(geometry.spatial, geometry.spans, geometry.strides, geometry.starts, geometry.out), strict=True)
        first, second, third = (max(size + (span - 1) // stride, ceil((start + out) / stride)) for size, span, stride, start, out in along)
        self._rows = first, second, third
        taps, half = prod(geometry.taps), CACHE // 2
        count = ceil(geometry.filters / max(1, half // (prod(geometry.strides) * prod(self._rows))))
        self._channels = ceil(geometry.filters / count)
        self._extent = extents(geometry.spatial, max(_FEWEST, half // (self._channels * taps)))
        super().__init__(desc, geometry)

    @property
    def part_size(self) -> int:
        return prod(self._geometry.strides) * prod(self._rows)

    @property
    def useful_size(self) -> int:
        return prod(self._geometry.taps) * prod(self._geometry.spatial)

    def _matrix(self) -> tuple[int, int]:
        return self._geometry.channels, self._geometry.filters * prod(self._geometry.taps)

    def _divided(self) -> Iterable[Tile]:
        filters = self._geometry.filters
        for image in range(self._geometry.batch):
            for group in range(self._geometry.groups):
                for first in range(0, filters, self._channels):
                    yield image, group, slice(first, min(first + self._channels, filters))

    def _product(self) -> int:
        return self._channels * prod(self._geometry.taps) * self._geometry.channels * prod(self._extent)

    def _scratch(self) -> list[Scratch]:
        positions, phase = prod(self._extent), self._channels * prod(self._rows)
        return [
            ("sums", (*self._geometry.strides, phase), COMPUTE),
            ("columns", (self._channels * prod(self._geometry.taps) * positions,), COMPUTE),
            ("panel", (self._geometry.channels * positions,), COMPUTE),
            *self._finish.scratch(phase),
        ]

    def describe(self) -> str:
        taps = prod(self._geometry.taps)
        return self._describe_tiles(
            f"{self._channels} channels; products of {self._channels * taps} x {self._geometry.channels} x "
            f"{' x '.join(map(str, self._extent))} (channels and taps x terms x positions)"
        )

    def _work(self, arrays: dict[str, Array], scratch: dict[str, Array]) -> Callable[[Tile], None]:
        geometry, rows = self._geometry, self._rows
        x, y, filters, first = arrays["input_tensor"], arrays["output_tensor"], arrays["filter"], self._first_calls(arrays)
        finish = self._finish.bind(scratch)
        sums, columns, panel = scratch["sums"], scratch["columns"], scratch["panel"]
        taps, every_box, phases = self._taps(), list(boxes(geometry.spatial, self._extent)), self._phases()

        def compute(tile: Tile) -> None:
            image, group, channels = tile
            count = channels.stop - channels.start
            flat = sums[..., : count * prod(rows)]
            flat.fill(0.0)
            added = flat.reshape(*geometry.strides, count, *rows)
            weights = filters[group][:, channels.start * len(taps) : channels.stop * len(taps)].T
            for box in every_box:
                part = as_matrix(x[image, group, :, *box], panel)
                products = columns[: len(weights) * part.shape[1]].reshape(len(weights), part.shape[1])
                np.matmul(weights, part, out=products)
                sizes = [place.stop - place.start for place in box]
                of_taps = products.reshape(count, len(taps), *sizes)
                for at, (phase, shifts) in enumerate(taps):
                    seen: Index = tuple(slice(place.start + shift, place.stop + shift) for place, shift in zip(box, shifts, strict=True))
                    target = added[*phase, :, *seen]
                    np.add(target, of_taps[:, at], out=target)
            calls = first((group, channels))
            for phase, places, elements in phases:
                finish(flat[phase].reshape(count, -1), calls, added[*phase, :, *places], y[image, group, channels, *elements])

        return compute

    def _taps(self) -> list[tuple[Index, Index]]:
        """For each tap its remainders, and the offset of its first element from the first one with these remainders."""
        geometry = self._geometry
        taps: list[tuple[Index, Index]] = []
        for tap in product(*map(range, geometry.taps)):
            along = zip(tap, geometry.dilations, geometry.strides, strict=True)
            shifts, phase = zip(*(divmod(number * dilation, stride) for number, dilation, stride in along), strict=True)
            taps.append((phase, shifts))
        return taps

    def _phases(self) -> list[tuple[Index, Index, Index]]:
        """For each remainder the sums that belong to the output, and their place there."""
        geometry, along = self._geometry, []
        for start, stride, out in zip(geometry.starts, geometry.strides, geometry.out, strict=True):
            firsts = [(phase, (phase - start) % stride) for phase in range(stride)]
            along.append(
                [
                    (phase, slice(at := (first + start) // stride, at + len(range(first, out, stride))), slice(first, None, stride))
                    for phase, first in firsts
                    if first < out
                ]
            )
        phases: list[tuple[Index, Index, Index]] = []
        for parts in product(*along):
            phase, places, elements = zip(*parts, strict=True)
            phases.append((phase, places, elements))
        return phases
