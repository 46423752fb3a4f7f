"""Kernels for what a skipped step gives in a backward recurrence, for a block of units of one sample."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.recurrent.cell_kernels import skip_of, store_part_kernel
from dmlpy.devices.cpu.recurrent.gradient_units import gradient_kernel
from dmlpy.devices.cpu.recurrent.rows import REPEATS
from dmlpy.devices.cpu.simd import integer_at, jit, simd_of

_ZERO = np.float32(0.0)


@cache
def carry_on_kernel(isa: Isa) -> Any:
    """Adds the upstream gradient of a skipped step to dh, if its output repeats the one before: carry_on(p, time, block, row)."""
    store, size, gradient = simd_of(isa).store, simd_of(isa).size, gradient_kernel(isa)

    @jit
    def carry_on(p: Any, time: Any, block: Any, row: Any) -> None:
        if skip_of(p, time, integer_at(p.order + 8 * row)) == REPEATS:
            store(p.carry + (block * p.batch + row) * size, gradient(p, time, block, row))

    return carry_on


def clear_kernel(gates: int, isa: Isa) -> Any:
    """Writes zeros for the gates' gradients of a skipped step: clear(p, block, gates).

    Args:
        gates: blocks of H columns in a row of the gates' gradients.
        isa: the instruction set that it is compiled for.
    """
    all_of, size, store_part = simd_of(isa).all_of, simd_of(isa).size, store_part_kernel(isa)

    @jit
    def clear(p: Any, block: Any, row_gates: Any) -> None:
        for gate in range(gates):
            store_part(p.hidden, row_gates + gate * p.hidden * FLOAT_BYTES + block * size, block, all_of(_ZERO))

    return clear


def clear_state_kernel(isa: Isa) -> Any:
    """Writes zeros for the gradient of h that the projection's products take of a skipped step. Arguments as in `clear_kernel`."""
    all_of, size, store_part = simd_of(isa).all_of, simd_of(isa).size, store_part_kernel(isa)

    @jit
    def clear(p: Any, block: Any, row_gates: Any) -> None:
        store_part(p.entries, row_gates + p.state_gradient + block * size, block, all_of(_ZERO))

    return clear


def clear_operand_kernel(isa: Isa) -> Any:
    """Writes zeros for the operand of a skipped step, if it is wanted: clear(p, block, gates, operand), for a second stage."""
    all_of, size, store_part = simd_of(isa).all_of, simd_of(isa).size, store_part_kernel(isa)

    @jit
    def clear(p: Any, block: Any, row_gates: Any, operand: Any) -> None:
        if p.operand != 0:
            store_part(p.hidden, operand + block * size, block, all_of(_ZERO))

    return clear
