"""What the plan of a convolution and its compiled kernel agree on: the parameters."""

from __future__ import annotations

import numpy as np

_INTEGERS = (
    *("ticket", "done", "items", "parts", "tiles", "groups", "channels", "filters", "blocks"),
    *("depth", "height", "width", "out_depth", "out_width", "out_height", "positions"),
    *("stride_z", "stride_y", "stride_x", "pad_z", "pad_y", "pad_x", "dilation_z", "depth_taps", "taps"),
    *("rows", "phase_rows", "pitch", "plane", "copies"),
    *("input", "input_image", "input_group", "input_channel", "input_slice", "input_row", "input_element"),
    *("offsets", "weights", "coefficients"),
    *("output", "output_image", "output_channel", "output_slice", "output_row", "output_element"),
    *("scratch", "scratch_size", "sums"),
)
PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), *((name, np.float32) for name in ("low", "high", "padding"))])
"""What a convolution reads: numbers, addresses, and distances in bytes (`rows`, `phase_rows` and `pitch` in rows and elements).

The first two are the state of `sharing`. An item is one of `parts` parts of the blocks of filters, for a tile of `rows` rows of positions
in a slice of an image and a group. `channels` counts what a group's window sees of each of its `depth_taps` slices as channels. `plane`
lies between the channels of the copied part, or of the input; `offsets` are int64 [taps]. `weights` are packed [groups, blocks, channels,
taps, filters of a block], `coefficients` [groups, 3, filters]: the result is clip((sum - first) * second + third, low, high). An image that
is read in place has `positions` positions, in rows that end with the last of them. Each thread has `scratch_size` bytes of scratch: `sums`
bytes of sums, then the part.
"""
