"""Windows that slide over the spatial dimensions of [batch, channels, *spatial], on whole arrays, for pooling and convolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.operators.windows import SlidingDesc
    from dmlpy.reference.registry import Array


@dataclass(frozen=True)
class Along:
    """A window along one spatial dimension.

    Attributes:
        at: the element at each tap of the window in each of its positions, [taps, positions]: below 0 and from `size` on it is padding.
        size: elements of the tensor that the window slides over.
        end: elements of padding after the last one. What lies beyond is not part of a window: the last ones of a size that is rounded up
            are cut off there.
    """

    at: Array
    size: int
    end: int

    @classmethod
    def of(cls, length: int, positions: int, stride: int, dilation: int, start: int, size: int, end: int) -> Along:
        """The window of this many taps in this many positions, with `start` elements of padding before the first one."""
        return cls(np.arange(length)[:, np.newaxis] * dilation + np.arange(positions) * stride - start, size, end)

    @cached_property
    def inside(self) -> Array:
        """Whether a tap is an element of the tensor, [taps, positions]."""
        return (self.at >= 0) & (self.at < self.size)

    @cached_property
    def padded(self) -> Array:
        """Whether a tap is an element of the tensor or of its padding, [taps, positions]."""
        return self.at < self.size + self.end

    @cached_property
    def held(self) -> Array:
        """`at` with padding replaced by the position's first element of the tensor; any element if it has none."""
        first = np.take_along_axis(self.at, np.argmax(self.inside, axis=0)[np.newaxis], axis=0)
        return np.clip(np.where(self.inside, self.at, first), 0, self.size - 1)

    @cached_property
    def views(self) -> list[tuple[slice, slice]]:
        """For each tap the positions where it is an element of the tensor, and these elements: a row of them, equally spaced."""
        views = []
        for places, inside in zip(self.at, self.inside, strict=True):
            at = np.flatnonzero(inside)
            if at.size == 0:
                views.append((slice(0, 0), slice(0, 0)))
                continue
            first, last = int(at[0]), int(at[-1])
            step = int(places[first + 1] - places[first]) if last > first else 1
            views.append((slice(first, last + 1), slice(int(places[first]), int(places[last]) + 1, step)))
        return views


def windows(desc: SlidingDesc, spatial: Sequence[int], lengths: Sequence[int], positions: Sequence[int]) -> tuple[Along, ...]:
    """The windows of a desc along each spatial dimension.

    Args:
        desc: has the strides, paddings and dilations.
        spatial: elements of the tensor that the window slides over.
        lengths: taps of the window.
        positions: the positions of the window.
    """
    count = len(spatial)
    dilations: Sequence[int] = getattr(desc, "dilations", (1,) * count)
    # Where the arrays have more entries than there are spatial dimensions, the last ones count.
    arrays = (values[len(values) - count :] for values in (desc.strides, dilations, desc.start_padding, desc.end_padding))
    return tuple(
        Along.of(length, places, stride, dilation, start, size, end)
        for size, length, places, stride, dilation, start, end in zip(spatial, lengths, positions, *arrays, strict=True)
    )


def part_along(axis: int, part: slice) -> tuple[slice, ...]:
    """The index of a part along one axis of an array."""
    return (slice(None),) * axis + (part,)


def gathered(x: Array, along: Sequence[Along]) -> Array:
    """The elements at each tap of each position, 0 in padding: [batch, channels, *taps, *positions]."""
    for axis, window in enumerate(along):
        at, (taps, positions) = 2 + 2 * axis, window.at.shape
        result = np.zeros((*x.shape[: 2 + axis], taps, *x.shape[2 + axis : at], positions, *x.shape[at + 1 :]), x.dtype)
        for tap, (places, elements) in enumerate(window.views):
            place: Any = (*part_along(2 + axis, slice(tap, tap + 1)), *part_along(axis, places))
            result[place] = np.expand_dims(x[part_along(at, elements)], 2 + axis)
        x = result
    return x


def spread(values: Array, along: Sequence[Along]) -> Array:
    """Sums values, [batch, channels, *taps, *positions], at the elements that they come from: [batch, channels, *spatial]."""
    for axis, window in reversed([*enumerate(along)]):
        at = 2 + 2 * axis
        taps = np.moveaxis(values, 2 + axis, 0)
        values = np.zeros((*taps.shape[1 : 1 + at], window.size, *taps.shape[2 + at :]), values.dtype)
        for tap, (places, elements) in zip(taps, window.views, strict=True):
            values[part_along(at, elements)] += tap[part_along(at, places)]
    return values


def sums_of_windows(x: Array, along: Sequence[Along]) -> Array:
    """The sum of each window's elements, [batch, channels, *positions]: dimension by dimension, as that of its rows' sums."""
    for axis, window in enumerate(along, 2):
        sums = np.zeros((*x.shape[:axis], window.at.shape[1], *x.shape[axis + 1 :]), x.dtype)
        for places, elements in window.views:
            sums[part_along(axis, places)] += x[part_along(axis, elements)]
        x = sums
    return x


def spread_over_windows(values: Array, along: Sequence[Along]) -> Array:
    """The adjoint of `sums_of_windows`: sums values, [batch, channels, *positions], at every element of their windows."""
    for axis, window in enumerate(along, 2):
        sums = np.zeros((*values.shape[:axis], window.size, *values.shape[axis + 1 :]), values.dtype)
        for places, elements in window.views:
            sums[part_along(axis, elements)] += values[part_along(axis, places)]
        values = sums
    return values


def outer(factors: Sequence[Array]) -> Array:
    """The product of one vector per dimension: [*positions] from one vector of positions each."""
    product = np.ones((), np.intp)
    for factor in factors:
        product = product[..., np.newaxis] * factor
    return product
