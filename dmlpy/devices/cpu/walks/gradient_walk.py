"""The compiled walk back over time: a thread's share of the gradient of an RNN, LSTM or GRU layer.

A step computes the gradients of the gates' sums, and from them by one product dh of the step before. Threads own blocks of units, as in
the forward walk: they meet once a step, when all gates' gradients are there, for a block's product takes those of all blocks (twice
where a GRU's reset gate comes before the product). The gates' gradients of all steps stay, a row for each step that a sample takes, for
the products with x and h[t-1], which are taken over many steps at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.registers import FLOAT_BYTES
from dmlpy.devices.cpu.team import CACHE_LINE
from dmlpy.devices.cpu.vectors import integer_at, jit, record_at, set_integer, vectors_of
from dmlpy.devices.cpu.walks.gradient_units import (
    gru_candidate_gradient,
    gru_gradient,
    gru_reset_gradient,
    lstm_gradient,
    pass_back_kernels,
    rnn_gradient,
)
from dmlpy.devices.cpu.walks.meeting import are_here, let_join, meet, stay_together, tell_processor, wait_for
from dmlpy.devices.cpu.walks.parameters import GRADIENT_NUMBERS, GRADIENT_PARAMETERS
from dmlpy.devices.cpu.walks.units import put_part_kernel, skip_of

if TYPE_CHECKING:
    from dmlpy.description.gate_order import Cell
    from dmlpy.devices.cpu.registers import Registers
    from dmlpy.devices.cpu.team import Share


def _back(registers: Registers) -> Any:
    """Adds the gates' products to some rows' dh: back(p, block, rows, gates)."""
    vectors = vectors_of(registers)
    product, most, size = vectors.product(1), registers.columns(1), vectors.size

    @jit
    def back(p: Any, block: Any, rows: Any, gates: Any) -> None:
        matrix = p.recurrence + block * p.terms * size
        groups = (rows + most - 1) // most
        for group in range(groups):
            first = rows * group // groups
            carry = p.carry + (block * p.batch + first) * size
            product(rows * (group + 1) // groups - first, matrix, p.terms, gates + first * p.gates_row, p.gates_row, carry, size, carry)

    return back


def _reset(functions: tuple[str, ...], registers: Registers) -> Any:
    """The reset gate's gradients of some rows, through the product that waits for it: reset(p, time, block, rows, gates, operand, sums)."""
    vectors, unit, put_part = vectors_of(registers), gru_reset_gradient(functions, registers), put_part_kernel(registers)
    product, most, size = vectors.product(1), registers.columns(1), vectors.size
    store, all_of, zero = vectors.store, vectors.all_of, np.float32(0.0)

    @jit
    def reset(p: Any, time: Any, block: Any, rows: Any, gates: Any, operand: Any, sums: Any) -> None:
        matrix, width = p.candidate + block * p.hidden * size, p.hidden * FLOAT_BYTES
        groups = (rows + most - 1) // most
        for group in range(groups):
            first = rows * group // groups
            columns = rows * (group + 1) // groups - first
            for column in range(columns):
                store(sums + column * size, all_of(zero))
            product(columns, matrix, p.hidden, gates + 2 * width + first * p.gates_row, p.gates_row, sums, size, sums)
            for column in range(columns):
                row = first + column
                if skip_of(p, time, integer_at(p.order + 8 * row)) != 0:
                    put_part(p, operand + row * width + block * size, block, all_of(zero))
                else:
                    unit(p, time, block, row, gates + row * p.gates_row, operand + row * width, sums + column * size)

    return reset


def gradient_walk_of(kind: Cell, resets_first: bool, functions: tuple[str, ...], registers: Registers) -> Share:
    """The walk back of a cell, to be compiled. The arguments are `walk_of`'s."""
    if resets_first:
        unit, reset = gru_candidate_gradient(functions, registers), _reset(functions, registers)
    else:
        unit = {"RNN": rnn_gradient, "LSTM": lstm_gradient, "GRU": gru_gradient}[kind](functions, registers)
        reset = unit  # never called: the compiler only needs the name
    carry_on, clear = pass_back_kernels({"RNN": 1, "LSTM": 4, "GRU": 3 if resets_first else 4}[kind], registers)
    back, parameters_at = _back(registers), record_at(GRADIENT_PARAMETERS)

    def walk(parameters: Any, thread: Any, threads: Any, flags: Any, met: Any) -> None:
        p = parameters_at(parameters)
        sums = p.sums + thread * p.sums_size
        joins, first_step = thread > 0, 0
        if joins:
            line = flags + CACHE_LINE * thread
            tell_processor(line)
            set_integer(line, met + 1)
            wait_for(line, flags + 8, flags, met + 1)
            first_step = integer_at(flags + 8) - met - 1
            if first_step >= p.steps:
                return
        together, most = threads if joins else 1, threads
        start = integer_at(p.bases + 8 * p.time)
        for step in range(first_step, p.steps):
            if together == 1 and are_here(most, flags, met):
                let_join(flags, met, step, 0)
                together = most
            first_block, last_block = p.blocks * thread // together, p.blocks * (thread + 1) // together
            time = p.time + (step if p.backward != 0 else p.steps - 1 - step)
            base = integer_at(p.bases + 8 * time)
            rows, gates = integer_at(p.bases + 8 * time + 8) - base, p.gates + (base - start) * p.gates_row
            for block in range(first_block, last_block):
                for row in range(rows):
                    if skip_of(p, time, integer_at(p.order + 8 * row)) != 0:
                        carry_on(p, time, block, row)
                        clear(p, block, gates + row * p.gates_row)
                    else:
                        unit(p, time, block, row, gates + row * p.gates_row)
                if p.skips != 0:
                    for row in range(rows, p.batch):
                        carry_on(p, time, block, row)
            number = met + 2 + GRADIENT_NUMBERS * step
            if resets_first:
                meet(thread, together, flags, number)
                number += 1
                operand = p.operand + (base - start) * p.hidden * FLOAT_BYTES
                for block in range(first_block, last_block):
                    reset(p, time, block, rows, gates, operand, sums)
            if not stay_together(thread, together, flags, number):
                if thread > 0:
                    return
                together = most = 1
                first_block, last_block = 0, p.blocks
            for block in range(first_block, last_block):
                back(p, block, rows, gates)
        if together < most:
            let_join(flags, met, p.steps, 0)  # too late: there is nothing left to do
        else:
            # Nobody returns before all blocks are done.
            meet(thread, together, flags, met + 2 + GRADIENT_NUMBERS * p.steps)

    return walk
