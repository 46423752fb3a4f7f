"""What the plan of a convolution and its compiled kernel agree on: the parameters."""

from __future__ import annotations

import numpy as np

_INTEGERS = (
    *("ticket", "done", "items", "parts", "tiles", "groups", "channels", "filters", "blocks"),
    *("height", "width", "out_width", "out_height", "positions", "stride_y", "stride_x", "pad_y", "pad_x", "taps"),
    *("rows", "phase_rows", "pitch", "plane", "copies", "input", "input_image", "input_channel", "input_row"),
    *("offsets", "weights", "coefficients", "output", "output_image", "output_channel", "output_row"),
    *("scratch", "scratch_size", "sums"),
)
PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), *((name, np.float32) for name in ("low", "high", "padding"))])
"""What a convolution reads: numbers, addresses, and distances in bytes (`rows`, `phase_rows` and `pitch` in rows and elements).

The first two are the state of `sharing`. An item is one of `parts` parts of the blocks of filters, for a tile of `rows` rows of positions
in an image and a group. `plane` lies between the channels of the copied part, or of the input; `offsets` are int64 [taps]. `weights` are
packed [groups, blocks, channels, taps, filters of a block], `coefficients` [groups, 3, filters]: the result is clip((sum - first) * second
+ third, low, high). An image that is read in place has `positions` positions, in rows that end with the last of them. Each thread has
`scratch_size` bytes of scratch: `sums` bytes of sums, then the part.
"""
