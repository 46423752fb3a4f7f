"""What the plans of one step of a GRU and of its gradient agree on with their compiled kernels."""

from __future__ import annotations

import numpy as np

STATE = ("ticket", "done", "tiles", "batch", "inputs", "units")
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

The first two are the state of `thread_pool_kernels`; a tile is one of `tiles` parts of the samples. `wanted` has a bit for each of r, u and
c, in this order, that is computed. `joined` is [batch, inputs + units] for [x, h_prev], `gates` [batch, 2, units rounded up to whole
panels]. Each thread has `scratch_size` bytes for a panel's biases, some rows' sums, and the panel.
"""

GRADIENT_TENSORS = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c", "r", "u", "c", "d_h", "d_x", "d_h_prev", "d_c_bar", "d_r_bar_u_bar")

GRADIENT_PARAMETERS = np.dtype(
    [
        (name, np.int64)
        for name in (
            *STATE,
            *(f"{name}{part}" for name in GRADIENT_TENSORS for part in ("", "_row")),
            *("candidate_bar", "candidate_bar_row", "gates_bar", "gates_bar_row", "from_candidate", "from_candidate_row"),
            *("sums", "sums_row", "scratch", "scratch_size"),
        )
    ]
)
"""What the gradient of a step reads, named as in `STEP_PARAMETERS`.

`candidate_bar` and `gates_bar` are d_c_bar [batch, units] and d_r_bar_u_bar [batch, 2 * units], with zeros up to a whole vector behind each
row. `from_candidate` is [d_x2, d_h_prevr], both parts rounded up to whole vectors; `sums` a vector for each sample. Each thread has
`scratch_size` bytes for `BLOCK_TERMS` terms of as many rows of weights as a vector has lanes.
"""

BLOCK_TERMS = 256
"""Terms that are summed before the next ones' turn: the rows' weights then stay in the first-level cache for all samples."""
