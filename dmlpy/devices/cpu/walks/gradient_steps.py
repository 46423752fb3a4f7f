"""The phases of a walk back over time (see `devices.cpu.phases`): the steps of the gradient of an RNN, LSTM or GRU layer.

A step computes from dh the gradients of the gates' sums, and by one product of these dh of the step before. That product takes the
gradients of all blocks of units, so a phase (see `phases`) begins with it: an item is dh of some blocks and samples, by the gates of the
step that was taken before, and then their gates' gradients of this one. Where a GRU's reset gate comes before the product, a second phase
has the gradients that wait for it. The gates' gradients of all steps stay, a row for each step that a sample takes, for the products with
x and h[t-1], which are taken over many steps at once.

Each phase is a function of its own, phase(parameters, thread, threads, board, number, step); `number` is that of the phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.phases import NOTHING, claim, take, tell
from dmlpy.devices.cpu.products import call_product
from dmlpy.devices.cpu.registers import FLOAT_BYTES
from dmlpy.devices.cpu.vectors import integer_at, jit, record_at, vectors_of
from dmlpy.devices.cpu.walks.gradient_units import (
    gru_candidate_gradient,
    gru_gradient,
    gru_reset_gradient,
    lstm_gradient,
    pass_back_kernels,
    rnn_gradient,
)
from dmlpy.devices.cpu.walks.parameters import GRADIENT_PARAMETERS
from dmlpy.devices.cpu.walks.steps import Phase, part_of
from dmlpy.devices.cpu.walks.units import put_part_kernel, skip_of

if TYPE_CHECKING:
    from dmlpy.description.gate_order import Cell
    from dmlpy.devices.cpu.registers import Registers


@jit
def _rows_of(p: Any, step: Any) -> Any:
    """The time of a step, the rows that take it, and the address of the first one's gates' gradients."""
    time = p.time + (step if p.backward != 0 else p.steps - 1 - step)
    base = integer_at(p.bases + 8 * time)
    return time, integer_at(p.bases + 8 * time + 8) - base, p.gates + (base - integer_at(p.bases + 8 * p.time)) * p.gates_row


def _sum_kernel(registers: Registers) -> Any:
    """The products of some blocks of a matrix of one gate with rows: sum_up(p, blocks, rows, matrix, terms, factors, starts, ...).

    sums[block][row] = starts[block][row] + matrix[block] * factors[row], a block's rows after those of the one before; the blocks of
    `starts` are apart by so many bytes.
    """
    most, size = registers.columns(1), vectors_of(registers).size

    @jit
    def sum_up(p: Any, blocks: Any, rows: Any, matrix: Any, terms: Any, factors: Any, starts: Any, starts_block: Any, sums: Any) -> None:
        groups = (rows + most - 1) // most
        for block in range(blocks):
            of_block = matrix + block * terms * size
            for group in range(groups):
                row = rows * group // groups
                columns, start = rows * (group + 1) // groups - row, starts + block * starts_block + row * size
                call_product(p.product, (columns, of_block, terms, factors + row * p.gates_row, p.gates_row, start, size, sums))
                sums += columns * size

    return sum_up


def gradient_step_of(kind: Cell, resets_first: bool, functions: tuple[str, ...], registers: Registers) -> Phase:
    """The first phase of a step. After the last step it only completes dh. The arguments are `steps.step_of`'s."""
    makes = {"RNN": rnn_gradient, "LSTM": lstm_gradient, "GRU": gru_candidate_gradient if resets_first else gru_gradient}
    unit, sum_up, vectors = makes[kind](functions, registers), _sum_kernel(registers), vectors_of(registers)
    carry_on, clear = pass_back_kernels({"RNN": 1, "LSTM": 4, "GRU": 3 if resets_first else 4}[kind], registers)
    load, store, size, parameters_at = vectors.load, vectors.store, vectors.size, record_at(GRADIENT_PARAMETERS)

    def phase(parameters: Any, thread: Any, threads: Any, board: Any, number: Any, step: Any) -> None:
        p = parameters_at(parameters)
        ended, before, factors = step == p.steps, 0, p.gates
        if step > 0:
            _, before, factors = _rows_of(p, step - 1)
        time, active, gates = _rows_of(p, min(step, p.steps - 1))
        own = p.own + thread * p.own_size
        items = p.block_groups * p.sample_groups
        item = take(p, board, thread, threads, number, items, NOTHING)
        while item >= 0:
            first_block, last_block, first, last = part_of(p, item)
            summed = max(0, min(last, before) - first)
            carry = p.carry + (first_block * p.batch + first) * size
            matrix = p.recurrence + first_block * p.terms * size
            sum_up(p, last_block - first_block, summed, matrix, p.terms, factors + first * p.gates_row, carry, p.batch * size, own)
            if claim(board, threads, number, item):
                sums = own
                for block in range(first_block, last_block):
                    for row in range(first, first + summed):
                        store(p.carry + (block * p.batch + row) * size, load(sums))
                        sums += size
                    if not ended:
                        for row in range(first, last):
                            if row >= active:
                                if p.skips != 0:
                                    carry_on(p, time, block, row)
                            elif skip_of(p, time, integer_at(p.order + 8 * row)) != 0:
                                carry_on(p, time, block, row)
                                clear(p, block, gates + row * p.gates_row)
                            else:
                                unit(p, time, block, row, gates + row * p.gates_row)
                tell(board, threads, number, item)
            item = take(p, board, thread, threads, number, items, item)

    return phase


def reset_step_of(functions: tuple[str, ...], registers: Registers) -> Phase:
    """The second phase of a step of a GRU that resets first, through the product that waits for the reset gate."""
    unit, sum_up, vectors = gru_reset_gradient(functions, registers), _sum_kernel(registers), vectors_of(registers)
    put_part, store, all_of, size, zero = put_part_kernel(registers), vectors.store, vectors.all_of, vectors.size, np.float32(0.0)
    parameters_at = record_at(GRADIENT_PARAMETERS)

    def phase(parameters: Any, thread: Any, threads: Any, board: Any, number: Any, step: Any) -> None:
        p = parameters_at(parameters)
        time, active, gates = _rows_of(p, step)
        own, width = p.own + thread * p.own_size, p.hidden * FLOAT_BYTES
        operand = p.operand + (gates - p.gates) // p.gates_row * width
        items = p.block_groups * p.sample_groups
        item = take(p, board, thread, threads, number, items, NOTHING)
        while item >= 0:
            first_block, last_block, first, last = part_of(p, item)
            rows = max(0, min(last, active) - first)
            for row in range((last_block - first_block) * rows):
                store(own + row * size, all_of(zero))
            matrix, factors = p.candidate + first_block * p.hidden * size, gates + 2 * width + first * p.gates_row
            sum_up(p, last_block - first_block, rows, matrix, p.hidden, factors, own, rows * size, own)
            if claim(board, threads, number, item):
                sums = own
                for block in range(first_block, last_block):
                    for row in range(first, first + rows):
                        if skip_of(p, time, integer_at(p.order + 8 * row)) != 0:
                            put_part(p, operand + row * width + block * size, block, all_of(zero))
                        else:
                            unit(p, time, block, row, gates + row * p.gates_row, operand + row * width, sums)
                        sums += size
                tell(board, threads, number, item)
            item = take(p, board, thread, threads, number, items, item)

    return phase
