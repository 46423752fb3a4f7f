"""What the plans of one step of a GRU and of its gradient agree on with their compiled kernels."""

from __future__ import annotations

import numpy as np

STATE = ("ticket", "done", "items", "batch", "inputs", "units")
STEP_TENSORS = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c", "r", "u", "c", "h")

STEP_PARAMETERS = np.dtype(
    [
        (name, np.int64)
        for name in (
            *STATE,
            *(f"{name}{part}" for name in STEP_TENSORS for part in ("", "_row")),
            *("wanted", "joined", "joined_row", "gates", "gates_row", "scratch", "scratch_size"),
        )
    ]
)
"""What a step reads: numbers, addresses (0 for a tensor that is absent), and distances in bytes from row to row.

The first two are the state of `sharing`; an item is one of `items` parts of the samples. `wanted` has a bit for each of r, u and c, in
this order, that is computed. `joined` is [batch, inputs + units] for [x, h_prev], `gates` [batch, 2, units
rounded up to whole panels]. Each thread has `scratch_size` bytes for a panel's biases, some rows' sums, and the panel.
"""
