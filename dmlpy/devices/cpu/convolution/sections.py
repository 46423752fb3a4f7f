"""`Section`: an ordinary convolution that gives some elements of a convolution's output, or all of them.

A transposed convolution has one for each remainder of the output's coordinates by the strides: these elements see a part of the taps, and
neighbours among them see neighbours of the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlpy.devices.numpy.convolution.geometry import Box, Geometry, Sizes


@dataclass(frozen=True)
class Section:
    """An ordinary convolution, in three spatial dimensions.

    Attributes:
        first: the output's element that the first position of the window gives.
        steps: elements of the output from a position's to the next one's.
        out: positions of the window.
        taps: which taps of the filter the window has, in ascending order of what they see.
        window: their number in each dimension.
        strides: elements of the input from a position to the next one.
        dilations: elements of the input from a tap to the next one.
        starts: padding before the first element of the input; a negative one cuts elements off.
    """

    first: Sizes
    steps: Sizes
    out: Sizes
    taps: Box
    window: Sizes
    strides: Sizes
    dilations: Sizes
    starts: Sizes

    @property
    def is_empty(self) -> bool:
        """Whether no tap reaches these elements."""
        return prod(self.window) == 0


_Along = tuple[int, int, int, slice, int, int, int, int]
"""A section's attributes in one dimension, in their order."""


def sections_of(geometry: Geometry) -> list[Section]:
    """The sections of a convolution: one if it is not transposed."""
    if not geometry.backward:
        ones, whole = (1, 1, 1), (slice(None),) * 3
        return [Section((0, 0, 0), ones, geometry.out, whole, geometry.taps, geometry.strides, geometry.dilations, geometry.starts)]
    sizes = zip(geometry.out, geometry.taps, geometry.strides, geometry.dilations, geometry.starts, strict=True)
    found: list[Section] = []
    for parts in product(*(_along(*own) for own in sizes)):
        first, steps, out, taps, window, strides, dilations, starts = zip(*parts, strict=True)
        found.append(Section(first, steps, out, taps, window, strides, dilations, starts))
    return found


def _along(out: int, taps: int, stride: int, dilation: int, start: int) -> list[_Along]:
    """The sections of a transposed convolution in one dimension; the filter is reversed."""
    found: list[_Along] = []
    common = gcd(stride, dilation)
    for remainder in range(stride):
        first = (remainder - start) % stride
        if first >= out:
            continue
        count = len(range(first, out, stride))
        seen = [tap for tap in range(taps) if tap * dilation % stride == remainder]
        if seen:
            chosen = slice(taps - 1 - seen[-1], taps - seen[0], stride // common)
            padding = (seen[-1] * dilation - first - start) // stride
            found.append((first, stride, count, chosen, len(seen), 1, dilation // common, padding))
        else:
            found.append((first, stride, count, slice(0), 0, 1, 1, 0))
    return found
