"""Windows that slide over the spatial dimensions of [batch, channels, *spatial], on whole arrays, for pooling and convolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

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
        end: elements of padding after the last one. What lies beyond is no part of a window: the last ones of a size that is rounded up
            are cut off there.
    """

    at: Array
    size: int
    end: int

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
        """As `at`, with padding replaced by the position's first element of the tensor; any element if it has none."""
        first = np.take_along_axis(self.at, np.argmax(self.inside, axis=0)[np.newaxis], axis=0)
        return np.clip(np.where(self.inside, self.at, first), 0, self.size - 1)

    @cached_property
    def views(self) -> list[tuple[slice, slice]]:
        """For each tap the positions where it is an element of the tensor, and these elements: a row of them, as far apart each time."""
        found = []
        for places, inside in zip(self.at, self.inside, strict=True):
            at = np.flatnonzero(inside)
            if at.size == 0:
                found.append((slice(0, 0), slice(0, 0)))
                continue
            first, last = int(at[0]), int(at[-1])
            step = int(places[first + 1] - places[first]) if last > first else 1
            found.append((slice(first, last + 1), slice(int(places[first]), int(places[last]) + 1, step)))
        return found


def windows(desc: SlidingDesc, spatial: Sequence[int], lengths: Sequence[int], positions: Sequence[int]) -> tuple[Along, ...]:
    """The windows of a desc along each spatial dimension.

    Args:
        desc: tells strides, paddings and dilations.
        spatial: elements of the tensor that the window slides over.
        lengths: taps of the window.
        positions: the positions of the window.
    """
    count = len(spatial)
    dilations: Sequence[int] = getattr(desc, "dilations", (1,) * count)
    # Where the arrays have more entries than there are spatial dimensions, the last ones count.
    arrays = (values[len(values) - count :] for values in (desc.strides, dilations, desc.start_padding, desc.end_padding))
    return tuple(
        Along(np.arange(length)[:, np.newaxis] * dilation + np.arange(places) * stride - start, size, end)
        for size, length, places, stride, dilation, start, end in zip(spatial, lengths, positions, *arrays, strict=True)
    )


def gathered(x: Array, along: Sequence[Along]) -> Array:
    """The elements at each tap of each position, 0 in padding: [batch, channels, *taps, *positions]."""
    for axis, window in enumerate(along):
        at = 2 + 2 * axis
        x = np.take(x, np.clip(window.at, 0, window.size - 1), axis=at)
        x[(slice(None),) * at + (~window.inside,)] = 0
        x = np.moveaxis(x, at, 2 + axis)
    return x


def spread(values: Array, along: Sequence[Along]) -> Array:
    """Sums values, [batch, channels, *taps, *positions], at the elements that they come from: [batch, channels, *spatial]."""
    for axis, window in reversed([*enumerate(along)]):
        taps = np.moveaxis(values, 2 + axis, 0)
        before = (slice(None),) * (2 + 2 * axis)
        sizes = [*taps.shape[1:]]
        sizes[2 + 2 * axis] = window.size
        values = np.zeros(sizes, values.dtype)
        for tap, at, inside in zip(taps, window.at, window.inside, strict=True):
            values[(*before, at[inside])] += tap[(*before, inside)]  # no two positions have the same element at one tap
    return values


def outer(factors: Sequence[Array]) -> Array:
    """The product of one vector per dimension: [*positions] from one vector of positions each."""
    product = np.ones((), np.intp)
    for factor in factors:
        product = product[..., np.newaxis] * factor
    return product
