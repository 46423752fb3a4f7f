"""Products of matrices as they lie in memory, by a compiled kernel: for plans that multiply what they have just computed."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.gemm.parameters import BLOCK_GROUPS, BLOCK_PANELS, BLOCK_TERMS, BLOCKED_PARAMETERS, VECTORS
from dmlpy.devices.cpu.kernels import Kernel
from dmlpy.devices.cpu.records import record_of
from dmlpy.devices.cpu.registers import FLOAT_BYTES, host_registers
from dmlpy.devices.cpu.shared_kernels import PRODUCT
from dmlpy.devices.cpu.team import team

Array = np.ndarray[Any, np.dtype[Any]]
Multiply = Callable[[int, bool], None]
"""multiply(terms, adds): computes a product over the first `terms` terms, or adds it to what the output holds.

For a product whose A is not transposed, the first argument is the number of rows.
"""

BLOCKED_PRODUCT = Kernel("dmlpy.devices.cpu.gemm.blocked_kernels:blocked_product_of", 5)
"""The product of matrices as they lie: the registers."""

_WORK_OF_A_THREAD = 1 << 21
"""Multiplications that are worth waking another thread for."""
_ITEMS = 4
"""Items for each thread, at least, so that all end at about the same time."""


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
    width = VECTORS * host_registers().lanes
    return -(-columns // width) * width


def scratch_bytes(threads: int) -> int:
    """The bytes of scratch that products on some threads need; one product after the other may use the same."""
    return threads * _scratch_of_a_thread()


def _scratch_of_a_thread() -> int:
    registers = host_registers()
    rows = 1 + BLOCK_TERMS + BLOCK_GROUPS * BLOCK_PANELS * registers.columns(VECTORS)
    return rows * VECTORS * registers.lanes * FLOAT_BYTES


def load_products(*, transposed: bool) -> None:
    """Compiles the kernel, or reads it from disk."""
    BLOCKED_PRODUCT(host_registers())
    _product_for(transposed)


def _product_for(transposed: bool) -> int:
    return PRODUCT.address(VECTORS, transposed, host_registers())


def bound_product(
    a: Array,
    b: Array | None,
    output: Array | None,
    scratch: Array,
    threads: int,
    *,
    transposed: bool = False,
    totals: Array | None = None,
    multipliers: RowMultipliers | None = None,
) -> Multiply:
    """Binds a product to arrays of float32 whose rows are contiguous.

    Args:
        a: A, [rows, terms], or [terms, rows] if it is transposed.
        b: B, [terms, columns]; None, like `output`, where only totals are wanted.
        output: the product, [rows, columns].
        scratch: `scratch_bytes` bytes.
        threads: the most threads to use.
        transposed: whether A is transposed.
        totals: the sums of a transposed A's rows over all terms, [rows].
        multipliers: those of B's rows if A is transposed, else those of the product's rows, before it is added.
    """
    registers = host_registers()
    (rows, terms), columns = a.shape[::-1] if transposed else a.shape, 0 if b is None else b.shape[1]
    panel_parts = max(1, ceil(columns / (BLOCK_PANELS * VECTORS * registers.lanes)))
    groups = ceil(rows / registers.columns(VECTORS))
    used = max(1, min(threads, rows * terms * max(columns, 1) // _WORK_OF_A_THREAD))
    wanted = _ITEMS * used if used > 1 else 1
    row_parts = max(1, ceil(groups / BLOCK_GROUPS), min(groups, ceil(wanted / panel_parts)))
    values: dict[str, int] = {
        "items": row_parts * panel_parts,
        "rows": rows,
        "terms": terms,
        "columns": columns,
        "row_parts": row_parts,
        "a": a.ctypes.data,
        "a_row": a.strides[0],
        "a_entry": FLOAT_BYTES if transposed else a.strides[0],
        "a_term": a.strides[0] if transposed else FLOAT_BYTES,
        "product": _product_for(transposed),
        "scratch": scratch.ctypes.data,
        "scratch_size": _scratch_of_a_thread(),
    }
    if b is not None and output is not None:
        values |= {"b": b.ctypes.data, "b_row": b.strides[0], "output": output.ctypes.data, "output_row": output.strides[0]}
    if totals is not None:
        values["totals"] = totals.ctypes.data
    if multipliers is not None:
        values |= {"multipliers": multipliers.values.ctypes.data, "multipliers_row": multipliers.values.strides[0]}
        values["term_samples" if transposed else "row_samples"] = multipliers.samples.ctypes.data
    parameters = record_of(BLOCKED_PARAMETERS, values)
    kernel, address, counted = BLOCKED_PRODUCT(registers), parameters.ctypes.data, "terms" if transposed else "rows"

    def multiply(count: int, adds: bool) -> None:
        parameters[counted], parameters["adds"] = count, adds
        team().run(kernel, address, used, memory=(parameters, a, b, output, totals, multipliers, scratch))

    return multiply
