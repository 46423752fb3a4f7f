"""What the plan of a convolution and its kernels agree on: strides in bytes, the layout of an input tile, and the kernels' parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.numpy.convolution.geometry import Array


GATHER_PARAMETERS = np.dtype(
    [
        *((name, np.int64) for name in ("channels", "depth", "height", "width", "depth_taps", "dilation_z")),
        *((name, np.int64) for name in ("stride_y", "stride_x", "pad_y", "pad_x", "subplane_rows", "pitch", "plane")),
        *((name, np.int64) for name in ("input_channel", "input_slice", "input_row", "input_element")),
        ("padding", np.float32),
    ]
)
"""What the copying of a input tile reads: see `input_tile_gather`."""

Pair = tuple[int, int]
"""A number for y, and one for x."""


@dataclass(frozen=True)
class InputTileLayout:
    """The layout of an input tile: a copy of what the windows of some rows of positions read, with its padding.

    It has a subplane for each pair of remainders of y and x by the strides (space to depth). So what a tap reads for the positions of a
    row is contiguous.

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
        """Elements from a row of a subplane to the next one."""
        return self.columns + (self.taps[1] - 1) * self.dilations[1] // self.strides[1]

    @property
    def subplane_rows(self) -> int:
        """Rows of a subplane."""
        return self.rows + self.extra_rows

    @property
    def extra_rows(self) -> int:
        """Rows of a subplane that a window reads beyond the first one."""
        return (self.taps[0] - 1) * self.dilations[0] // self.strides[0]

    @property
    def plane(self) -> int:
        """Bytes of a channel."""
        return self.strides[0] * self.strides[1] * self.subplane_rows * self.pitch * FLOAT_BYTES

    def offsets(self) -> Array:
        """For each tap the bytes from a position to the element that it reads."""
        found: list[int] = []
        for y in range(self.taps[0]):
            row, sub_y = divmod(y * self.dilations[0], self.strides[0])
            for x in range(self.taps[1]):
                column, sub_x = divmod(x * self.dilations[1], self.strides[1])
                subplane = sub_y * self.strides[1] + sub_x
                found.append(((subplane * self.subplane_rows + row) * self.pitch + column) * FLOAT_BYTES)
        return np.array(found, np.int64)


_COMMON = (
    *(
        "ticket",
        "done",
        "tiles",
        "filter_splits",
        "row_splits",
        "groups",
        "filters",
        "blocks",
        "out_depth",
        "out_height",
        "positions",
        "rows",
    ),
    *("copies", "gather", "gather_parameters", "stride_z", "pad_z", "input", "input_image", "input_group", "slice_step", "row_step"),
    *("weights", "coefficients", "output", "output_image", "output_channel", "output_slice", "output_row", "output_element"),
    *("scratch", "scratch_size", "input_tile"),
)
_LIMITS = tuple((name, np.float32) for name in ("low", "high"))

POSITION_PARAMETERS = np.dtype(
    [*((name, np.int64) for name in (*_COMMON, "channels", "taps", "out_width", "pitch", "plane", "offsets")), *_LIMITS]
)
"""What a convolution reads whose lanes are positions: numbers, addresses, and distances in bytes (`rows` and `pitch` in rows and elements).

The first two are the state of `thread_pool_kernels`. A tile is one of `filter_splits` parts of the blocks of filters, for a tile of `rows`
rows of positions in a slice of an image and a group. If `copies` is not 0, `gather` is what copies a tile's input tile of the input, by its
parameters at `gather_parameters`, from the slice on that is `pad_z` before `stride_z` times the tile's. If it is 0, `slice_step` and
`row_step` lie between what the first positions of slices and of rows see, and a slice has `positions` positions, with which its last row
ends. `coefficients` are [groups, 3, filters]: the result is clip((sum - first) * second + third, low, high). Each thread has `scratch_size`
bytes of scratch: `input_tile` bytes of sums, then the input tile.

Rows have `out_width` positions and begin `pitch` apart. `channels` counts what a group's window sees of each of its slices as channels;
`plane` lies between them in the copied input tile or in the input. `offsets` are int64 [taps], `weights` [groups, blocks, channels, taps,
filters of a block].
"""

CHANNEL_PARAMETERS = np.dtype(
    [
        *((name, np.int64) for name in (*_COMMON, "columns", "stride_y", "column_step", "run_rows", "term_offsets")),
        *(
            (name, np.int64)
            for name in ("terms", "chunk_terms", "chunk_step", "vectors", "max_columns", "product", "epilogue_tile", "sums")
        ),
        *_LIMITS,
    ]
)
"""What a convolution reads whose lanes are filters, beside what is told at `POSITION_PARAMETERS`.

Rows have `columns` positions, but for the last one; a slice has `positions` of them. Those of `run` rows lie `output_element` apart in the
output. A tile's copied input tile begins `stride_y` rows behind that of the row before it. From one position to the next it is
`column_step`, in the input tile or in the input. A position sees `terms` floats, `chunk_terms` at a time, which lie at int64 `places`
[chunk_terms]; a chunk is `chunk_step` behind the one before. `product` is the address of the product of `vectors` vectors with `most`
columns at most. `weights` are [groups, blocks, terms, vectors, lanes]. Scratch begins with a row of zeros; `tile` is where vectors are
finished in scratch, and `sums` where the sums of a block are.
"""


ByteStrides = tuple[int, int, int, int, int]
"""Bytes from an image of a tensor to the next, from a channel, and along three spatial dimensions."""


def byte_strides(tensor: TensorDesc) -> ByteStrides:
    """A tensor's strides in bytes; in a row of one element they are contiguous."""
    size = tensor.data_type.numpy.itemsize
    outer, inner, *along = (stride * size for stride in tensor.element_strides)
    depth, height, width = (0,) * (3 - len(along)) + tuple(along)
    return outer, inner, depth, height, size if tensor.sizes[-1] == 1 else width
