"""`Phase`: an ordinary convolution that gives some elements of a convolution's output, or all of them.

A transposed convolution has a phase for each remainder of the output's coordinates by the strides: these elements are reached by some of
the taps, and neighbours among them by neighbours of the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlpy.devices.numpy.convolution.geometry import Box, Geometry, Sizes


@dataclass(frozen=True)
class Phase:
    """An ordinary convolution, in three spatial dimensions.

    Attributes:
        output_start: the output's element at the first position of the window.
        output_strides: elements of the output from a position to the next.
        out: positions of the window.
        taps: which taps of the filter the window has, in ascending order of the input elements that they read.
        window: their number in each dimension.
        strides: elements of the input from a position to the next one.
        dilations: elements of the input from a tap to the next one.
        starts: padding before the first element of the input; a negative one cuts elements off.
    """

    output_start: Sizes
    output_strides: Sizes
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


_Dimension = tuple[int, int, int, slice, int, int, int, int]
"""A phase's attributes in one dimension, in their order."""


def split_into_phases(geometry: Geometry) -> list[Phase]:
    """The phases of a convolution: one if it is not transposed."""
    if not geometry.backward:
        ones, whole = (1, 1, 1), (slice(None),) * 3
        return [Phase((0, 0, 0), ones, geometry.out, whole, geometry.taps, geometry.strides, geometry.dilations, geometry.starts)]
    sizes = zip(geometry.out, geometry.taps, geometry.strides, geometry.dilations, geometry.starts, strict=True)
    found: list[Phase] = []
    for own in product(*(_split_dimension(*size) for size in sizes)):
        first, steps, out, taps, window, strides, dilations, starts = zip(*own, strict=True)
        found.append(Phase(first, steps, out, taps, window, strides, dilations, starts))
    return found


def _split_dimension(out: int, taps: int, stride: int, dilation: int, start: int) -> list[_Dimension]:
    """The phases of a transposed convolution in one dimension; the filter is reversed."""
    found: list[_Dimension] = []
    common = gcd(stride, dilation)
    for remainder in range(stride):
        first = (remainder - start) % stride
        if first >= out:
            continue
        count = len(range(first, out, stride))
        reaching = [tap for tap in range(taps) if tap * dilation % stride == remainder]
        if reaching:
            chosen = slice(taps - 1 - reaching[-1], taps - reaching[0], stride // common)
            padding = (reaching[-1] * dilation - first - start) // stride
            found.append((first, stride, count, chosen, len(reaching), 1, dilation // common, padding))
        else:
            found.append((first, stride, count, slice(0), 0, 1, 1, 0))
    return found
