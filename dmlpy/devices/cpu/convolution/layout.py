"""What the plan of a convolution and its kernels agree on: strides, parameters, and the layout of a copied part of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
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


_COMMON = (
    *("ticket", "done", "items", "parts", "tiles", "groups", "filters", "blocks", "out_depth", "out_height", "positions", "rows"),
    *("copies", "fill", "filling", "stride_z", "pad_z", "input", "input_image", "input_group", "slice_step", "row_step"),
    *("weights", "coefficients", "output", "output_image", "output_channel", "output_slice", "output_row", "output_element"),
    *("scratch", "scratch_size", "part"),
)
_LIMITS = tuple((name, np.float32) for name in ("low", "high"))

PARAMETERS = np.dtype([*((name, np.int64) for name in (*_COMMON, "channels", "taps", "out_width", "pitch", "plane", "offsets")), *_LIMITS])
"""What a convolution reads whose lanes are positions: numbers, addresses, and distances in bytes (`rows` and `pitch` in rows and elements).

The first two are the state of `thread_pool_kernels`. An item is one of `parts` parts of the blocks of filters, for a tile of `rows` rows of
positions in a slice of an image and a group. If `copies` is not 0, `fill` is what copies a tile's part of the input, by its parameters at
`filling`, from the slice on that is `pad_z` before `stride_z` times the tile's. If it is 0, `slice_step` and `row_step` lie between what
the first positions of slices and of rows see, and a slice has `positions` positions, with which its last row ends. `coefficients` are
[groups, 3, filters]: the result is clip((sum - first) * second + third, low, high). Each thread has `scratch_size` bytes of scratch: `part`
bytes of sums, then the part.

Rows have `out_width` positions and begin `pitch` apart. `channels` counts what a group's window sees of each of its slices as channels;
`plane` lies between them in the copied part or in the input. `offsets` are int64 [taps], `weights` [groups, blocks, channels, taps, filters
of a block].
"""

FILTER_PARAMETERS = np.dtype(
    [
        *((name, np.int64) for name in (*_COMMON, "columns", "stride_y", "column_step", "run", "places")),
        *((name, np.int64) for name in ("terms", "chunk_terms", "chunk_step", "vectors", "most", "product", "tile", "sums")),
        *_LIMITS,
    ]
)
"""What a convolution reads whose lanes are filters, beside what is told at `PARAMETERS`.

Rows have `columns` positions, but for the last one; a slice has `positions` of them. Those of `run` rows lie `output_element` apart in the
output. A tile's copied part begins `stride_y` rows behind that of the row before it. From one position to the next it is `column_step`, in
the part or in the input. A position sees `terms` floats, `chunk_terms` at a time, which lie at int64 `places` [chunk_terms]; a chunk is
`chunk_step` behind the one before. `product` is the address of the product of `vectors` vectors with `most` columns at most. `weights` are
[groups, blocks, terms, vectors, lanes]. Scratch begins with a row of zeros; `tile` is where vectors are finished in scratch, and `sums`
where the sums of a block are.
"""


Steps = tuple[int, int, int, int, int]
"""Bytes from an image of a tensor to the next, from a channel, and along three spatial dimensions."""


def steps_of(tensor: TensorDesc) -> Steps:
    """A tensor's steps; elements lie side by side in a row of one."""
    size = tensor.data_type.numpy.itemsize
    outer, inner, *along = (stride * size for stride in tensor.element_strides)
    depth, height, width = (0,) * (3 - len(along)) + tuple(along)
    return outer, inner, depth, height, size if tensor.sizes[-1] == 1 else width
