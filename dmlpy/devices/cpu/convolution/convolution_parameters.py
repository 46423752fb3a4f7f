"""What the plan of a convolution and its compiled kernels agree on: the parameters."""

from __future__ import annotations

import numpy as np

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
