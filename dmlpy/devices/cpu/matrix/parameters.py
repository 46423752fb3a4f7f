"""What the plan of a matrix product and its compiled kernel agree on: the parameters, and the width of a panel."""

from __future__ import annotations

from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.structs import (
    Address,
    Bytes,
    Count,
    CountedParameters,
    Flag,
    Float32,
    StagedParameters,
    field,
)

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa

VECTORS = 2
"""Vectors of columns that are summed in registers at once, for as many rows as there are registers for."""


class ProductParameters(CountedParameters):
    """What a product reads: clip(alpha * sum + beta * c, low, high), for matrices along two dimensions of the batch.

    A tile is one split of the rows with one split of the panels of B, for an entry of the batch.
    """

    rows: Count = field("rows of A and the output")
    terms: Count = field("columns of A and rows of B")
    columns: Count = field("columns of B and the output")
    panels: Count = field("panels of columns")
    row_splits: Count = field("splits of the rows")
    panel_splits: Count = field("splits of the panels")
    batch: Count = field("entries along the inner dimension of the batch")
    a: Address = field("A, whose rows are contiguous")
    a_outer: Bytes = field("from an entry of A along the outer dimension of the batch to the next")
    a_batch: Bytes = field("from an entry of A along the inner dimension to the next")
    a_row: Bytes = field("from a row of A to the next")
    b: Address = field("B, packed in panels [outer, batch, panels, terms, VECTORS, lanes] or in place")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    panel_size: Bytes = field("from a panel of B to the next")
    panel_row: Bytes = field("from a term of a panel to the next")
    c: Address = field("C, if there is one")
    c_outer: Bytes = field("from an entry of C along the outer dimension of the batch to the next")
    c_batch: Bytes = field("from an entry of C along the inner dimension to the next")
    c_row: Bytes = field("from a row of C to the next")
    c_column: Bytes = field("from a column of C to the next; 0 if it is broadcast")
    output: Address = field("the output, whose rows are contiguous")
    output_outer: Bytes = field("from an entry of the output along the outer dimension of the batch to the next")
    output_batch: Bytes = field("from an entry of the output along the inner dimension to the next")
    output_row: Bytes = field("from a row of the output to the next")
    scratch: Address = field("for each thread a row of zeros, sums, and some rows of A where they are FLOAT16")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    alpha: Float32 = field("the factor of the sums")
    beta: Float32 = field("the factor of C")
    low: Float32 = field("the lower bound of the results")
    high: Float32 = field("the upper bound of the results")


class PanelPackingParameters(CountedParameters):
    """What the packing of B in panels reads. A tile is a panel of an entry of the batch."""

    terms: Count = field("rows of B as it is multiplied")
    columns: Count = field("columns of B as it is multiplied")
    panels: Count = field("panels of an entry")
    batch: Count = field("entries along the inner dimension of the batch")
    transposed: Flag = field("whether B is [columns, terms]; else it is [terms, columns]")
    b: Address = field("B, whose rows are contiguous")
    b_outer: Bytes = field("from an entry of B along the outer dimension of the batch to the next")
    b_batch: Bytes = field("from an entry of B along the inner dimension to the next")
    b_row: Bytes = field("from a row of B to the next")
    packed: Address = field("the panels [outer, batch, panels, terms, VECTORS, lanes]")
    packed_outer: Bytes = field("from an entry's panels along the outer dimension of the batch to the next")
    packed_batch: Bytes = field("from an entry's panels along the inner dimension to the next")
    panel_size: Bytes = field("from a panel to the next")


class BlockedProductParameters(StagedParameters):
    """What a product of two matrices in place reads. A tile is one split of the rows with one split of B's panels of columns."""

    tiles: Count = field("how many tiles there are")
    rows: Count = field("rows of the output")
    terms: Count = field("terms of a sum")
    columns: Count = field("columns of B and the output")
    row_splits: Count = field("splits of the rows")
    panel_splits: Count = field("splits of the panels")
    transposed: Flag = field("whether A is [terms, rows]; else it is [rows, terms]")
    product: Address = field("the product of a panel, for A's layout")
    a: Address = field("A, whose rows are contiguous")
    a_row: Bytes = field("from a row of A in memory to the next")
    a_term: Bytes = field("from a term of A to the next")
    b: Address = field("B [terms, columns], whose rows are contiguous")
    b_row: Bytes = field("from a row of B to the next")
    output: Address = field("the output [rows, columns]")
    output_row: Bytes = field("from a row of the output to the next")
    totals: Address = field("where the sums of a transposed A's rows over all terms go, if they are wanted")
    adds: Flag = field("whether results are added to what is there")
    scratch: Address = field("the `BlockedScratch` of all threads")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    b_rows: Address = field("the addresses of B's rows, int64 [terms], if they are not those of an array")
    output_rows: Address = field("the addresses of the output's rows, int64 [rows], if they are not those of an array")
    multipliers: Address = field("rows of multipliers by sample")
    multipliers_row: Bytes = field("from a row of multipliers to the next")
    term_samples: Address = field("the sample whose multipliers each row of B is multiplied by, int64 [terms], if they are")
    row_samples: Address = field("the sample whose multipliers each row of sums is multiplied by, int64 [rows], if they are")


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
