"""What the plan of a matrix product and its compiled kernel agree on: the parameters, and the width of a panel."""

from __future__ import annotations

from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa

VECTORS = 2
"""Vectors of columns that are summed in registers at once, for as many rows as there are registers for."""

_INTEGERS = (
    *("ticket", "done", "tiles", "rows", "terms", "columns", "panels", "row_splits", "panel_splits", "batch"),
    *("a", "a_outer", "a_batch", "a_row", "panel_size", "panel_row", "b", "b_outer", "b_batch"),
    *("c", "c_outer", "c_batch", "c_row", "c_column", "output", "output_outer", "output_batch", "output_row"),
    *("scratch", "scratch_size"),
)
PARAMETERS = np.dtype([*((name, np.int64) for name in _INTEGERS), *((name, np.float32) for name in ("alpha", "beta", "low", "high"))])
"""What a product reads: numbers, addresses (0 for an absent C), and distances in bytes.

The first two are the state of `thread_pool_kernels`. A tile is one of `row_splits` parts of the rows with one of `panel_splits` parts of
the panels, for an entry of the batch, whose dimensions are `outer` and `batch` entries long. B is packed in panels [outer, batch, panels,
terms, VECTORS, lanes], `panel_size` bytes each, or read where it lies; a panel's terms are `panel_row` apart. The result is clip(alpha *
sum + beta * c, low, high). Each thread has `scratch_size` bytes for a row of zeros, the sums, and some rows of A where they are FLOAT16.
"""

_PACKING_INTEGERS = (
    *("ticket", "done", "tiles", "terms", "columns", "panels", "batch", "transposed"),
    *("b", "b_outer", "b_batch", "b_row", "packed", "packed_outer", "packed_batch", "panel_size"),
)
PACKING_PARAMETERS = np.dtype([(name, np.int64) for name in _PACKING_INTEGERS])
"""What the packing of B reads: numbers, addresses and distances in bytes, named as in `PARAMETERS`.

The first two are the state of `thread_pool_kernels`; a tile is a panel of an entry. B is [terms, columns], or [columns, terms] if
`transposed`, and its rows are contiguous and `b_row` apart.
"""

_BLOCKED_INTEGERS = (
    *("tiles", "rows", "terms", "columns", "row_splits", "panel_splits", "transposed", "product", "acquire", "steal_timeout"),
    *("a", "a_row", "a_term", "b", "b_row", "output", "output_row", "totals", "adds", "scratch", "scratch_size"),
    *("b_rows", "output_rows", "multipliers", "multipliers_row", "term_samples", "row_samples"),
)
BLOCKED_PARAMETERS = np.dtype([(name, np.int64) for name in _BLOCKED_INTEGERS])
"""What a product of two matrices as they lie reads: numbers, addresses (0 for none), and distances in bytes.

A tile is one of `row_splits` parts of the rows with one of `panel_splits` parts of B's panels of columns. A is [rows, terms], or [terms,
rows] if `transposed`, B is [terms, columns]; their rows are contiguous, and `a_row` and `b_row` apart. `a_term` is the distance of A's
elements along the terms, whichever those are, and `product` is the function for it. The sums go to `output`, [rows, columns], and those of
a transposed A's rows over all terms to `totals`; if `adds`, they are added to what is there. Where there are `b_rows` or `output_rows`,
they are the addresses of the rows. Each thread has `scratch_size` bytes for what
`BlockedScratch` names. Where `term_samples` or `row_samples` has a number for each row of B, or of the output, that row is multiplied by
the one of this number of `multipliers`.
"""

BLOCK_TERMS = 128
"""Terms that are summed before the next group's: a block of a panel of B and a group of A's rows then stay in the first-level cache."""
BLOCK_GROUPS, BLOCK_PANELS = 16, 16
"""Groups of rows, and panels, in a tile, at most: so much of A in a block of terms, and all sums, stay in the second-level cache."""


class BlockedScratch(NamedTuple):
    """The scratch of a thread for a product of matrices in place, in bytes: a row of zeros first.

    Attributes:
        panel: the offset of a block of a panel of B.
        packed: that of a block of a transposed A.
        totals: that of the sums of its rows.
        tiles: that of the sums of a tile.
        size: the size of all.
        group_size: the size of a group of rows in a block of a transposed A.
    """

    panel: int
    packed: int
    totals: int
    tiles: int
    size: int
    group_size: int


def blocked_scratch(isa: Isa) -> BlockedScratch:
    """The layout for an instruction set."""
    most, size = isa.columns(VECTORS), isa.lanes * FLOAT_BYTES
    row, of_group = VECTORS * size, ceil(most / isa.lanes) * size
    group_size = ceil(BLOCK_TERMS * most / isa.lanes) * size + of_group
    sizes = (row, BLOCK_TERMS * row, BLOCK_GROUPS * group_size, BLOCK_GROUPS * of_group, BLOCK_GROUPS * BLOCK_PANELS * most * row)
    panel, packed, totals, tiles, end = accumulate(sizes)
    return BlockedScratch(panel, packed, totals, tiles, end, group_size)
