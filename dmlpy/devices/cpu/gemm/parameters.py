"""What the plan of a matrix product and its compiled kernel agree on: the parameters, and the width of a panel."""

from __future__ import annotations

import numpy as np

VECTORS = 2
"""Vectors of columns that are summed in registers at once, for as many rows as there are registers for."""

_INTEGERS = (
    *("ticket", "done", "items", "rows", "terms", "columns", "panels", "row_parts", "panel_parts", "batch"),
    *("a", "a_outer", "a_batch", "a_row", "panel_size", "b", "b_outer", "b_batch"),
    *("c", "c_outer", "c_batch", "c_row", "c_column", "output", "output_outer", "output_batch", "output_row"),
    *("scratch", "scratch_size"),
)
PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), *((name, np.float32) for name in ("alpha", "beta", "low", "high"))])
"""What a product reads: numbers, addresses (0 for an absent C), and distances in bytes.

The first two are the state of `sharing`. An item is one of `row_parts` parts of the rows with one of `panel_parts` parts of the panels, for
an entry of the batch, whose dimensions are `outer` and `batch` entries long. B is packed in panels [outer, batch, panels, terms, VECTORS,
lanes], `panel_size` bytes each. The result is clip(alpha * sum + beta * c, low, high). Each thread has `scratch_size` bytes for a row of
zeros and the sums.
"""
