"""Where the elements of a copied part of an image lie: see `parts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES

if TYPE_CHECKING:
    from dmlpy.devices.numpy.convolution.geometry import Array

FILLING = np.dtype(
    [
        *((name, np.int64) for name in ("channels", "depth", "height", "width", "depth_taps", "dilation_z")),
        *((name, np.int64) for name in ("stride_y", "stride_x", "pad_y", "pad_x", "phase_rows", "pitch", "plane")),
        *((name, np.int64) for name in ("input_channel", "input_slice", "input_row", "input_element")),
        ("padding", np.float32),
    ]
)
"""What the copying of a part reads: see `part_filler`."""

Pair = tuple[int, int]
"""A number along the columns, and one along the rows: of y, then of x."""


@dataclass(frozen=True)
class PartLayout:
    """Where the elements of a part lie.

    Attributes:
        rows: rows of positions.
        columns: positions in a row.
        taps: sizes of the window.
        strides: steps from one position of the window to the next.
        dilations: steps from one tap to the next.
    """

    rows: int
    columns: int
    taps: Pair
    strides: Pair
    dilations: Pair

    @property
    def pitch(self) -> int:
        """Elements from a row of a phase to the next one."""
        return self.columns + (self.taps[1] - 1) * self.dilations[1] // self.strides[1]

    @property
    def phase_rows(self) -> int:
        """Rows of a phase: of all coordinates with the same remainders."""
        return self.rows + self.reach

    @property
    def reach(self) -> int:
        """Rows of a phase that a window reaches beyond its own."""
        return (self.taps[0] - 1) * self.dilations[0] // self.strides[0]

    @property
    def plane(self) -> int:
        """Bytes of a channel."""
        return self.strides[0] * self.strides[1] * self.phase_rows * self.pitch * FLOAT_BYTES

    def offsets(self) -> Array:
        """For each tap the bytes from a position to what it sees."""
        found: list[int] = []
        for y in range(self.taps[0]):
            row, phase_y = divmod(y * self.dilations[0], self.strides[0])
            for x in range(self.taps[1]):
                column, phase_x = divmod(x * self.dilations[1], self.strides[1])
                phase = phase_y * self.strides[1] + phase_x
                found.append(((phase * self.phase_rows + row) * self.pitch + column) * FLOAT_BYTES)
        return np.array(found, np.int64)
