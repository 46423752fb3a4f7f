"""What the plan of a pooling and its compiled kernel agree on: the parameters."""

from __future__ import annotations

import numpy as np

_INTEGERS = (
    *("ticket", "done", "items", "planes", "tiles", "image_planes", "channels", "depth", "height", "width", "out_height", "out_width"),
    *("stride_y", "stride_x", "pad_y", "pad_x", "dilation_z", "depth_taps", "window_y", "window_x", "taps"),
    *("rows", "phase_rows", "pitch", "plane", "along"),
    *("input", "input_image", "input_channel", "input_slice", "input_row", "input_element", "offsets"),
    *("output", "output_image", "output_channel", "output_row", "output_element"),
    *("row_counts", "column_counts", "scratch", "scratch_size"),
)
PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), ("padding", np.float32)])
"""What a pooling reads: numbers, addresses, and distances in bytes (`rows`, `phase_rows` and `pitch` in rows and elements).

The first two are the state of `thread_pool_kernels`. An item is a share of `planes` tiles, each of `rows` rows of positions in a channel of
an image; an image has `image_planes` channels, and a copied part is of one slice of one of them: `channels`, `depth` and `depth_taps` are
1. `along` asks for vectors along the rows of each window instead, whose elements then lie side by side. A window has `taps` taps; their
`offsets` are int64. `row_counts` and `column_counts` are what a sum is divided by, float32 for each row and column of positions, the latter
a whole number of vectors.
"""
