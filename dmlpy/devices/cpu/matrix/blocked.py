"""Products of matrices in place by a compiled kernel: for plans that multiply what they have just computed."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import ACQUIRE, PRODUCT, Kernel
from dmlpy.devices.cpu.launches import Task, fuse_launches, steal_timeout_of
from dmlpy.devices.cpu.matrix.parameters import BLOCK_GROUPS, BLOCK_PANELS, VECTORS, BlockedProductParameters, blocked_scratch

if TYPE_CHECKING:
    from dmlpy.devices.cpu.launches import HostCall

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
    """What the rows of a matrix are multiplied by, element by element: values[samples[row]].

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
    """The bytes of scratch that products on some threads need; products that follow each other may share it."""
    return threads * blocked_scratch(host_isa()).size


def load_products(*, transposed: bool) -> None:
    """Compiles the kernel, or reads it from disk."""
    BLOCKED_PRODUCT(host_isa())
    _product_address(transposed)


def _product_address(transposed: bool) -> int:
    return PRODUCT.address(VECTORS, transposed, host_isa())


def _split(groups: int, panels: int, wanted: int) -> tuple[int, int]:
    """Splits the groups of rows and the panels into `wanted` tiles, if there are so many: into how many parts each.

    Tiles have about as many groups as panels: each copies its panels of B and its rows of A.
    """
    row_splits, panel_splits = max(1, ceil(groups / BLOCK_GROUPS)), max(1, ceil(panels / BLOCK_PANELS))
    while row_splits * panel_splits < min(wanted, groups * max(1, panels)):
        if panels * row_splits > groups * panel_splits:
            panel_splits += 1
        else:
            row_splits += 1
    return row_splits, panel_splits


class BlockedProduct:
    """A product bound to arrays of float32 whose rows are contiguous: a task of fused launches, or, when it is called, a launch of its own.

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
        adds: whether the results are added to what is there.
        b_rows: the addresses of B's rows, int64 [terms], where they are not those of an array; `b` then has one of them at least.
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
        row_splits, panel_splits = _split(groups, panels, _TILES_PER_THREAD * used if used > 1 else 1)
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
            "product": _product_address(transposed),
            "acquire": ACQUIRE.address(),
            "steal_timeout": steal_timeout_of(multiplications // tiles // (_SLOW_VECTORS_PER_NS * isa.lanes)),
            "scratch": scratch.ctypes.data,
            "scratch_size": blocked_scratch(isa).size,
        }
        if b is not None and output is not None:
            values |= {"b": b.ctypes.data, "b_row": b.strides[0], "output": output.ctypes.data, "output_row": output.strides[0]}
        for name, given in (("totals", totals), ("b_rows", b_rows), ("output_rows", output_rows)):
            if given is not None:
                values[name] = given.ctypes.data
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
