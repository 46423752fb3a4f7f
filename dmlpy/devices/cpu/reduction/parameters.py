"""What the plans of functions of groups and their compiled kernels agree on."""

from __future__ import annotations

from typing import Literal

import numpy as np

Layout = Literal["rows", "columns"]
"""What lies side by side: the entries of a group in `rows`, in `columns` neighbours of different groups."""

PIECE = 1 << 12
"""Entries of a row whose sum is taken in float32, at most; sums of these are added in float64."""
PIECE_ROWS = 64
"""Entries of a column that are summed before their sum is added to that of the others."""

TENSORS = ("x", "y", "scale", "bias")
_INTEGERS = (
    *("ticket", "done", "items", "units", "columns", "inner", "group_size", "outer_size", "entry_size"),
    *(f"{name}{part}" for name in TENSORS for part in ("", "_group", "_group1", "_outer", "_entry")),
    *("log", "centres", "scales"),
)
PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), ("count", np.float64), ("epsilon", np.float64), ("low", np.float32)])
"""What a kernel reads: numbers, addresses (0 for a tensor that is absent), and distances in bytes.

The first two are the state of `thread_pool_kernels`; an item is one of `items` parts of the `units`: a unit is a group, or in columns a
vector of them, of which `inner` groups take `columns`. Groups have two axes, the inner one of `group_size`, and tensors the distances
`_group` and `_group1` along them. The entries of a group have two axes too, of `outer_size` and `entry_size`, with the distances `_outer`
and `_entry`. `log`, `centres` and `scales` are whether softmax takes the logarithm, and whether a normalization subtracts the mean and
divides by the deviation of the `count` entries. Results of a normalization below `low` become it.
"""
