"""Kernels for what a skipped step gives in a walk back, for a block of units of one sample."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.recurrent.cell_kernels import put_part_kernel, skip_of
from dmlpy.devices.cpu.recurrent.gradient_units import gradient_kernel
from dmlpy.devices.cpu.recurrent.rows import REPEATS
from dmlpy.devices.cpu.simd import integer_at, jit, vectors_of

_ZERO = np.float32(0.0)


@cache
def carry_on_kernel(registers: Registers) -> Any:
    """Adds the upstream gradient of a skipped step to dh, if its output repeats the one before: carry_on(p, time, block, row)."""
    store, size, gradient = vectors_of(registers).store, vectors_of(registers).size, gradient_kernel(registers)

    @jit
    def carry_on(p: Any, time: Any, block: Any, row: Any) -> None:
        if skip_of(p, time, integer_at(p.order + 8 * row)) == REPEATS:
            store(p.carry + (block * p.batch + row) * size, gradient(p, time, block, row))

    return carry_on


def clear_kernel(gates: int, registers: Registers) -> Any:
    """Writes zeros for the gates' gradients of a skipped step: clear(p, block, gates).

    Args:
        gates: blocks of H columns in a row of the gates' gradients.
        registers: the registers that it is compiled for.
    """
    all_of, size, put_part = vectors_of(registers).all_of, vectors_of(registers).size, put_part_kernel(registers)

    @jit
    def clear(p: Any, block: Any, row_gates: Any) -> None:
        for gate in range(gates):
            put_part(p.hidden, row_gates + gate * p.hidden * FLOAT_BYTES + block * size, block, all_of(_ZERO))

    return clear


def clear_state_kernel(registers: Registers) -> Any:
    """Writes zeros for the gradient of h that the projection's products take of a skipped step. Arguments as in `clear_kernel`."""
    all_of, size, put_part = vectors_of(registers).all_of, vectors_of(registers).size, put_part_kernel(registers)

    @jit
    def clear(p: Any, block: Any, row_gates: Any) -> None:
        put_part(p.entries, row_gates + p.state_gradient + block * size, block, all_of(_ZERO))

    return clear


def clear_operand_kernel(registers: Registers) -> Any:
    """Writes zeros for the operand of a skipped step, if it is wanted: clear(p, block, gates, operand), for a second phase."""
    all_of, size, put_part = vectors_of(registers).all_of, vectors_of(registers).size, put_part_kernel(registers)

    @jit
    def clear(p: Any, block: Any, row_gates: Any, operand: Any) -> None:
        if p.operand != 0:
            put_part(p.hidden, operand + block * size, block, all_of(_ZERO))

    return clear
