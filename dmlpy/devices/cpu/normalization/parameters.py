"""What the plans of batch normalization and their compiled kernels agree on."""

from __future__ import annotations

from typing import Literal

import numpy as np

Layout = Literal["planes", "rows"]
"""How entries lie: `planes` of one group each, [outer, groups, inner] with the inner ones side by side, or `rows`, [outer, groups], with
the groups side by side."""

PIECE = 1 << 12
"""Entries of a plane whose sums are kept apart, at most: each lane of a vector then adds up no more than a few hundred."""
PIECE_ROWS = 512
"""Rows whose sums are kept apart."""
BLOCK_ROWS = 64
"""Rows that are summed before the next vectors of groups: their lines are then still in a cache."""

_TENSORS = ("x", "dy", "add", "output")
_INTEGERS = (
    *("ticket", "done", "items", "outer", "groups", "inner", "pieces"),
    *(f"{name}{part}" for name in _TENSORS for part in ("", "_outer", "_group")),
    *("centre", "factor", "offset", "slope", "sums", "sum_size", "scratch", "scratch_size"),
)
PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), ("low", np.float32)])
"""What a kernel reads: numbers, addresses (0 for a tensor that is absent), and distances in bytes.

The first two are the state of `thread_pool_kernels`; an item is one of `items` parts of the pieces. There are `pieces` of each plane, or of
all rows. Coefficients are floats, one for each group. A piece's sums are vectors, for rows one after the other for all groups; each of the
sums has `sum_size` bytes. Results below `low` become it.
"""
