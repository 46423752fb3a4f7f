"""Products of matrices in place by a compiled kernel: for plans that multiply values they have just computed."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import ACQUIRE, PRODUCT, Kernel
from dmlpy.devices.cpu.launches import Task, fuse_launches, steal_timeout_of
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Flag, StagedParameters, field
from dmlpy.devices.cpu.thread_pool import tiles_for

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.launches import HostCall


VECTORS = 2
"""Vectors of columns that are summed in registers at once, for as many rows as registers allow."""


class BlockedProductParameters(StagedParameters):
    """The parameters of a product of two matrices in place. A tile is one split of the rows with one split of B's panels of columns."""

    tiles: Count = field("how many tiles there are")
    rows: Count = field("rows of the output")
    terms: Count = field("terms of a sum")
    columns: Count = field("columns of B and the output")
    row_splits: Count = field("splits of the rows")
    panel_splits: Count = field("splits of the panels")
    transposed: Flag = field("whether A is [terms, rows]; else it is [rows, terms]")
    product: Address = field("the product of a panel, for A's layout")
    narrow_product: Address = field("that of a last panel of one vector")
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
"""The most groups of rows, and panels, in a tile: their part of A in a block of terms, and all sums, stay in the second-level cache."""


class BlockedScratch(NamedTuple):
    """The scratch of a thread for a product of matrices in place, in bytes: a row of zeros first.

    Attributes:
        panel: the offset of a block of a panel of B.
        packed: that of a block of a transposed A.
        totals: that of the sums of its rows.
        tiles: that of the sums of a tile.
        size: the total size.
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


Array = np.ndarray[Any, np.dtype[Any]]

BLOCKED_PRODUCT = Kernel("dmlpy.devices.cpu.matrix.blocked_kernels:build_blocked_product", 5, returns=True)
"""The product of matrices in place: the instruction set."""

_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""
_TILES_PER_THREAD = 6
"""Tiles for each thread, at least, so that all end at about the same time."""
_SLOW_VECTORS_PER_NS = 4
"""Vectors that a core multiplies in a nanosecond, at least."""


class RowMultipliers(NamedTuple):
    """Factors of the rows of a matrix, element by element: values[samples[row]].

    Attributes:
        values: [samples, `padded_columns` of the columns], rows of float32. Values past the columns are not used.
        samples: int64 [rows].
    """

    values: Array
    samples: Array


def padded_columns(columns: int) -> int:
    """Some columns, rounded up to whole panels."""
    width = VECTORS * host_isa().lanes
    return -(-columns // width) * width


def scratch_bytes(threads: int) -> int:
    """The bytes of scratch that products on some threads need; consecutive products may share it."""
    return threads * blocked_scratch(host_isa()).size


def load_products(*, transposed: bool) -> None:
    """Compiles the kernel, or reads it from disk."""
    BLOCKED_PRODUCT(host_isa())
    _product_addresses(transposed)


def _product_addresses(transposed: bool) -> dict[str, int]:
    isa = host_isa()
    return {"product": PRODUCT.address(VECTORS, transposed, isa), "narrow_product": PRODUCT.address(1, transposed, isa)}


def _split(groups: int, panels: int, threads: int) -> tuple[int, int]:
    """Splits the groups of rows and the panels into enough tiles for some threads, or as many as possible: the number of parts of each.

    Tiles have about as many groups as panels: each copies its panels of B and its rows of A. Each thread gets as many of them.
    """
    wanted = tiles_for(threads, _TILES_PER_THREAD)
    row_splits, panel_splits = max(1, ceil(groups / BLOCK_GROUPS)), max(1, ceil(panels / BLOCK_PANELS))
    while row_splits * panel_splits < min(wanted, groups * max(1, panels)):
        if panels * row_splits > groups * panel_splits:
            panel_splits += 1
        else:
            row_splits += 1
    even = next((count for count in range(row_splits, groups + 1) if count * panel_splits % threads == 0), row_splits)
    return even, panel_splits


class BlockedProduct:
    """A product bound to arrays of float32 whose rows are contiguous: a task of fused launches, or a launch of its own when called.

    Attributes:
        task: the task.

    Args:
        a: A, [rows, terms], or [terms, rows] if it is transposed.
        b: B, [terms, columns]; None, like `output`, where only totals are wanted.
        output: the product, [rows, columns].
        scratch: `scratch_bytes` bytes.
        threads: the most threads of a launch.
        transposed: whether A is transposed.
        totals: the sums of a transposed A's rows over all terms, [rows].
        multipliers: those of B's rows if A is transposed, else those of the product's rows, before it is added.
        adds: whether the results are added to the output.
        b_rows: the addresses of B's rows, int64 [terms], if they are not in one array; `b` then has at least one row.
        output_rows: those of the output's rows, int64 [rows], likewise.
    """

    def __init__(
        self,
        a: Array,
        b: Array | None,
        output: Array | None,
        scratch: Array,
        threads: int,
        *,
        transposed: bool = False,
        totals: Array | None = None,
        multipliers: RowMultipliers | None = None,
        adds: bool = False,
        b_rows: Array | None = None,
        output_rows: Array | None = None,
    ) -> None:
        isa = host_isa()
        (rows, terms), columns = a.shape[::-1] if transposed else a.shape, 0 if b is None else b.shape[1]
        multiplications = rows * terms * max(columns, 1)
        used = max(1, min(threads, multiplications // _WORK_OF_A_THREAD))
        groups, panels = ceil(rows / isa.columns(VECTORS)), ceil(columns / (VECTORS * isa.lanes))
        row_splits, panel_splits = _split(groups, panels, used)
        tiles = row_splits * panel_splits
        values: dict[str, int] = {
            "tiles": tiles,
            "rows": rows,
            "terms": terms,
            "columns": columns,
            "row_splits": row_splits,
            "panel_splits": panel_splits,
            "a": a.ctypes.data,
            "a_row": a.strides[0],
            "a_term": a.strides[0] if transposed else FLOAT_BYTES,
            "transposed": transposed,
            "adds": adds,
            **_product_addresses(transposed),
            "acquire": ACQUIRE.address(),
            "steal_timeout": steal_timeout_of(multiplications // tiles // (_SLOW_VECTORS_PER_NS * isa.lanes)),
            "scratch": scratch.ctypes.data,
            "scratch_size": blocked_scratch(isa).size,
        }
        if b is not None and output is not None:
            values |= {"b": b.ctypes.data, "b_row": b.strides[0], "output": output.ctypes.data, "output_row": output.strides[0]}
        for name, array in (("totals", totals), ("b_rows", b_rows), ("output_rows", output_rows)):
            if array is not None:
                values[name] = array.ctypes.data
        if multipliers is not None:
            values |= {"multipliers": multipliers.values.ctypes.data, "multipliers_row": multipliers.values.strides[0]}
            values["term_samples" if transposed else "row_samples"] = multipliers.samples.ctypes.data
        self._parameters, self._counted = BlockedProductParameters.make(values), "terms" if transposed else "rows"
        memory = (self._parameters, a, b, output, totals, multipliers, b_rows, output_rows, scratch)
        self.task = Task(BLOCKED_PRODUCT.address(isa), self._parameters.ctypes.data, 1, tiles, used, False, memory)

    def limit(self, count: int) -> None:
        """Limits later launches to the first terms, or to the first rows if A is not transposed."""
        self._parameters[self._counted] = count

    @cached_property
    def _launch(self) -> HostCall:
        (launch,) = fuse_launches([self.task])
        return launch

    def __call__(self) -> None:
        self._launch()
