"""Products of matrices as they lie in memory, by a compiled kernel: for plans that multiply what they have just computed."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa
from dmlpy.devices.cpu.jit import ACQUIRE, PRODUCT, Kernel, make_struct
from dmlpy.devices.cpu.launches import Task, fuse_launches, steal_timeout_of
from dmlpy.devices.cpu.matrix.parameters import BLOCK_GROUPS, BLOCK_PANELS, BLOCKED_PARAMETERS, VECTORS, blocked_scratch

if TYPE_CHECKING:
    from dmlpy.devices.cpu.launches import HostCall

Array = np.ndarray[Any, np.dtype[Any]]

BLOCKED_PRODUCT = Kernel("dmlpy.devices.cpu.matrix.blocked_kernels:blocked_product_of", 5, returns=True)
"""The product of matrices as they lie: the instruction set."""

_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""
_ITEMS = 6
"""Items for each thread, at least, so that all end at about the same time."""
_SLOW_VECTORS_PER_NS = 4
"""Vectors that a core multiplies in a nanosecond, at least."""


class RowMultipliers(NamedTuple):
    """What the rows of a matrix are multiplied by, element by element: values[samples[row]].

    Attributes:
        values: [samples, `whole_panels` of the columns], rows of float32. What is past the columns enters no result.
        samples: int64 [rows].
    """

    values: Array
    samples: Array


def whole_panels(columns: int) -> int:
    """The columns of as many panels as it takes for some columns."""
    width = VECTORS * host_isa().lanes
    return -(-columns // width) * width


def scratch_bytes(threads: int) -> int:
    """The bytes of scratch that products on some threads need; one product after the other may use the same."""
    return threads * blocked_scratch(host_isa()).size


def load_products(*, transposed: bool) -> None:
    """Compiles the kernel, or reads it from disk."""
    BLOCKED_PRODUCT(host_isa())
    _product_for(transposed)


def _product_for(transposed: bool) -> int:
    return PRODUCT.address(VECTORS, transposed, host_isa())


def _parts_of(groups: int, panels: int, wanted: int) -> tuple[int, int]:
    """The parts of the groups of rows and of the panels that make as many items as wanted, if there are so many.

    Items have about as many groups as panels: each copies its panels of B and its rows of A.
    """
    row_parts, panel_parts = max(1, ceil(groups / BLOCK_GROUPS)), max(1, ceil(panels / BLOCK_PANELS))
    while row_parts * panel_parts < min(wanted, groups * max(1, panels)):
        if panels * row_parts > groups * panel_parts:
            panel_parts += 1
        else:
            row_parts += 1
    return row_parts, panel_parts


class BlockedProduct:
    """A product bound to arrays of float32 whose rows are contiguous: a part of launches, or, when it is called, one by itself.

    Attributes:
        part: the part.

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
        row_parts, panel_parts = _parts_of(groups, panels, _ITEMS * used if used > 1 else 1)
        items = row_parts * panel_parts
        values: dict[str, int] = {
            "items": items,
            "rows": rows,
            "terms": terms,
            "columns": columns,
            "row_parts": row_parts,
            "panel_parts": panel_parts,
            "a": a.ctypes.data,
            "a_row": a.strides[0],
            "a_term": a.strides[0] if transposed else FLOAT_BYTES,
            "transposed": transposed,
            "adds": adds,
            "product": _product_for(transposed),
            "acquire": ACQUIRE.address(),
            "steal_timeout": steal_timeout_of(multiplications // items // (_SLOW_VECTORS_PER_NS * isa.lanes)),
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
        self._parameters, self._counted = make_struct(BLOCKED_PARAMETERS, values), "terms" if transposed else "rows"
        memory = (self._parameters, a, b, output, totals, multipliers, b_rows, output_rows, scratch)
        self.part = Task(BLOCKED_PRODUCT.address(isa), self._parameters.ctypes.data, 1, items, used, False, memory)

    def limit(self, count: int) -> None:
        """Limits later launches to the first terms, or to the first rows if A is not transposed."""
        self._parameters[self._counted] = count

    @cached_property
    def _launch(self) -> HostCall:
        (launch,) = fuse_launches([self.part])
        return launch

    def __call__(self) -> None:
        self._launch()
