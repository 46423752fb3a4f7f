"""Windows over spatial dimensions, as convolutions and poolings describe them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Windows:
    """Windows along each spatial dimension.

    Attributes:
        spatial: elements that the window slides over.
        lengths: elements of the window.
        positions: number of window positions.
        strides: elements from one position to the next.
        dilations: elements from one element of the window to the next.
        start: padding before the first element.
        end: padding after the last one in the desc.
    """

    spatial: tuple[int, ...]
    lengths: tuple[int, ...]
    positions: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]

    @classmethod
    def of(cls, desc: Any, spatial: Sequence[int], lengths: Sequence[int], positions: Sequence[int]) -> Windows:
        """The windows of a desc."""
        count = len(spatial)
        dilations = getattr(desc, "dilations", (1,) * count)
        spatial_members = [
            tuple(values)[len(values) - count :] for values in (desc.strides, dilations, desc.start_padding, desc.end_padding)
        ]
        return cls(tuple(spatial), tuple(lengths), tuple(positions), *spatial_members)

    @property
    def reaches(self) -> list[int]:
        """The elements from a window's first element to its last, inclusive."""
        return [1 + (length - 1) * dilation for length, dilation in zip(self.lengths, self.dilations, strict=True)]

    @property
    def needed(self) -> list[int]:
        """The end padding that the last position needs; negative if elements are left over."""
        return [
            (count - 1) * stride + reach - size - start
            for count, stride, reach, size, start in zip(self.positions, self.strides, self.reaches, self.spatial, self.start, strict=True)
        ]

    @property
    def pads(self) -> list[int]:
        """ONNX's pads with which the windows have at least the positions."""
        return [*self.start, *(max(0, end) for end in self.needed)]

    @property
    def attributes(self) -> dict[str, Any]:
        """ONNX's attributes."""
        attributes = {"kernel_shape": list(self.lengths), "strides": list(self.strides), "dilations": list(self.dilations)}
        return {**attributes, "pads": self.pads}

    @property
    def left_over(self) -> list[int]:
        """The spatial dimensions in which ONNX's formula yields more positions."""
        axes = []
        for axis, (size, start, reach, stride) in enumerate(zip(self.spatial, self.start, self.reaches, self.strides, strict=True)):
            if (size + start + self.pads[len(self.spatial) + axis] - reach) // stride + 1 > self.positions[axis]:
                axes.append(axis)
        return axes

    @property
    def touch(self) -> bool:
        """Whether poolings support the pads: ONNX Runtime requires each to be smaller than the window."""
        return all(pad < length for pad, length in zip(self.pads, [*self.lengths, *self.lengths], strict=True))

    def counts(self, *, padded: bool) -> np.ndarray[Any, Any]:
        """The number of elements of each window, [*positions]; including the desc's padding if `padded`."""
        counts = np.ones((), np.int64)
        for axis, size in enumerate(self.spatial):
            at = np.arange(self.lengths[axis])[:, None] * self.dilations[axis] + np.arange(self.positions[axis]) * self.strides[axis]
            at = at - self.start[axis]
            inside = at < size + self.end[axis] if padded else (at >= 0) & (at < size)
            counts = counts[..., None] * inside.sum(0)
        return counts
