"""Windows that slide over spatial dimensions, as in raw_kernels/common/windows.cuh, for pooling and blocks of images."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cuda.kernels import struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.operators.windows import SlidingDesc

WINDOW = struct(
    *((name, np.int64) for name in ("size", "start", "end", "length", "dilation", "stride", "positions", "apart")),
)
"""`Window`."""


class Window(NamedTuple):
    """A window along one spatial dimension. The default slides over a dimension of size 1.

    Attributes:
        size: elements of the dimension.
        start: padding before them.
        end: padding after them.
        length: taps.
        dilation: elements from one tap to the next.
        stride: elements from one position to the next.
        positions: the number of positions.
    """

    size: int = 1
    start: int = 0
    end: int = 0
    length: int = 1
    dilation: int = 1
    stride: int = 1
    positions: int = 1

    @property
    def apart(self) -> int:
        """From one position that has an element to the next."""
        return self.dilation // gcd(self.dilation, self.stride)


def windows_of(
    desc: SlidingDesc, spatial: Sequence[int], lengths: Sequence[int], positions: Sequence[int], dimensions: int
) -> tuple[Window, ...]:
    """The windows of a desc along this many spatial dimensions; those that it does not have come first.

    Args:
        desc: a checked desc, with strides, paddings and maybe dilations.
        spatial: elements of the tensor that the window slides over.
        lengths: taps of the window.
        positions: of the window.
        dimensions: the number of windows to return.
    """
    count = len(spatial)
    dilations: Sequence[int] = getattr(desc, "dilations", (1,) * count)
    # If the arrays have more entries than there are spatial dimensions, the last ones count.
    start, end, dilations, strides = (
        values[len(values) - count :] for values in (desc.start_padding, desc.end_padding, dilations, desc.strides)
    )
    return (*(Window() for _ in range(dimensions - count)), *map(Window, spatial, start, end, lengths, dilations, strides, positions))


def windows_value(windows: Sequence[Window]) -> np.ndarray[Any, Any]:
    """Elements of `WINDOW`."""
    return np.array([(*window, window.apart) for window in windows], WINDOW)


def counts_along(values: Sequence[int], rank: int) -> list[tuple[int, ...]]:
    """The strides of what counts the spatial dimensions of a tensor of a rank, each alone.

    Args:
        values: what an entry counts, along each of the kernel's dimensions; of those that the tensor does not have there is one entry.
        rank: dimensions of the tensor, batch and channels included.
    """
    axes = [rank - len(values) + axis for axis in range(len(values))]
    return [tuple(value if at == axis >= 2 else 0 for at in range(rank)) for axis, value in zip(axes, values, strict=True)]
