"""What the plans of strips and their compiled kernels agree on: the window that a kernel is compiled for, and the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

OperationName = Literal["convolution", "max", "average"]


@dataclass(frozen=True)
class Strip:
    """What a kernel of strips is compiled for.

    Attributes:
        operation: what is made of a window's elements.
        height: rows of the window.
        width: its columns.
        new_rows: rows that a window sees and the one above it does not: all, or as many as the step down.
        stride_x: the step to the next window of a row, 1 or 2.
    """

    operation: OperationName
    height: int
    width: int
    new_rows: int
    stride_x: int

    @property
    def above(self) -> int:
        """The windows above a window that see rows of it."""
        return -(-self.height // self.new_rows) - 1


_INTEGERS = (
    *("ticket", "done", "items", "parts", "tiles", "channels"),
    *("height", "width", "out_height", "out_width", "rows", "stride_y", "pad_y", "pad_x"),
    *("input", "input_image", "input_channel", "input_row"),
    *("output", "output_image", "output_channel", "output_row"),
    *("weights", "coefficients", "row_counts", "column_counts"),
)
PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), *((name, np.float32) for name in ("low", "high"))])
"""What strips read: numbers, addresses, and distances in bytes. The elements of a row lie side by side.

The first two are the state of `thread_pool_kernels`. An item is a share of `parts`, each a tile of `rows` rows of positions of a plane,
which has `tiles` of them; an image has `channels` planes. A convolution has float32 `weights` [channels, taps] and `coefficients`
[channels, 3]: its result is clip((sum - first) * second + third, low, high). An average is the sum divided by `row_counts` and
`column_counts`, float32 for each row and column of positions, the latter a whole number of vectors.
"""
