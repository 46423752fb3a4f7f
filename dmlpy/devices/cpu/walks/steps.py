"""The phases of a walk over time (see `devices.cpu.phases`): a chunk's input products, and the steps of RNN, LSTM and GRU.

Units lie in blocks of as many as a vector has lanes. A block's weights are packed together, all gates of a unit block beside each other,
so the sums of some samples' gates stay in registers over all terms, and the cell's step follows from the first-level cache. A step is a
phase, or two where a GRU's reset gate comes before the product; an item is some blocks of some samples. A thread sums the gates in memory
of its own, and then, if the item is its, writes the states. What of the weights is left in its core's cache is what it begins the next
step with.

Each phase is a function of its own, phase(parameters, thread, threads, board, number, low, step): `number` is that of the phase, `low`
the first time of the chunk, and in place of `step` the input products get the number of the chunk's steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.phases import NOTHING, claim, take, tell
from dmlpy.devices.cpu.products import call_product
from dmlpy.devices.cpu.registers import FLOAT_BYTES
from dmlpy.devices.cpu.stored import row_copy
from dmlpy.devices.cpu.vectors import integer_at, jit, record_at, vectors_of
from dmlpy.devices.cpu.walks.parameters import PARAMETERS, STATES
from dmlpy.devices.cpu.walks.units import (
    gru_candidate_kernel,
    gru_gates_kernel,
    gru_kernel,
    lstm_kernel,
    pass_kernel,
    rnn_kernel,
    skip_of,
)

if TYPE_CHECKING:
    from dmlpy.description.gate_order import Cell
    from dmlpy.devices.cpu.registers import Registers

Phase = Callable[..., None]


@jit
def part_of(p: Any, item: Any) -> Any:
    """The first block of an item and the one past its last; the first row of the samples and the one past the last."""
    blocks, samples = item % p.block_groups, item // p.block_groups
    first, last = p.batch * samples // p.sample_groups, p.batch * (samples + 1) // p.sample_groups
    return p.blocks * blocks // p.block_groups, p.blocks * (blocks + 1) // p.block_groups, first, last


def input_products_of(gates: int, registers: Registers) -> Phase:
    """The phase of a chunk's input products, biases included: an item is a block of units.

    Rows that lie apart are copied beside each other first, by each thread for all its blocks.

    Args:
        gates: the number of gates.
        registers: the registers that it is compiled for.
    """
    vectors, most, part = vectors_of(registers), registers.columns(gates), gates * vectors_of(registers).size
    load, store, size, copy, parameters_at = vectors.load, vectors.store, vectors.size, row_copy(False, registers), record_at(PARAMETERS)

    def products(parameters: Any, thread: Any, threads: Any, board: Any, number: Any, low: Any, count: Any) -> None:
        p = parameters_at(parameters)
        before = integer_at(p.bases + 8 * low)
        rows = integer_at(p.bases + 8 * (low + count)) - before
        groups = (rows + most - 1) // most
        factors, factor_row, gathered = p.input + before * p.input_row, p.input_row, p.rows == 0
        block = take(p, board, thread, threads, number, p.blocks, NOTHING)
        while block >= 0:
            if not gathered:
                factors, factor_row, gathered = p.gathered + thread * p.gathered_size, p.inputs * FLOAT_BYTES, True
                for row in range(rows):
                    copy(p.input + integer_at(p.rows + 8 * (before + row)) * p.input_row, factors + row * factor_row, p.inputs)
            matrix, bias, parts = p.weights + block * p.inputs * part, p.bias + block * part, p.parts + block * p.chunk * p.batch * part
            sums = parts if threads == 1 else p.own + thread * p.own_size
            for group in range(groups):
                row = rows * group // groups
                columns, of_rows = rows * (group + 1) // groups - row, factors + row * factor_row
                call_product(p.input_product, (columns, matrix, p.inputs, of_rows, factor_row, bias, 0, sums + row * part))
            if claim(board, threads, number, block):
                if threads > 1:
                    for at in range(0, rows * part, size):
                        store(parts + at, load(sums + at))
                tell(board, threads, number, block)
            block = take(p, board, thread, threads, number, p.blocks, block)

    return products


def step_of(kind: Cell, resets_first: bool, functions: tuple[str, ...], registers: Registers) -> Phase:
    """The phase of a step, or the first of two: for a GRU that resets first, that of its gates.

    Args:
        kind: the cell.
        resets_first: whether a GRU's last product waits for the reset gate.
        functions: names of its activations (see `functions.activation`): f, then g, then h.
        registers: the registers that it is compiled for.
    """
    size, parameters_at = vectors_of(registers).size, record_at(PARAMETERS)
    gates, resets_last = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], kind == "GRU" and not resets_first
    makes = {"RNN": rnn_kernel, "LSTM": lstm_kernel, "GRU": gru_gates_kernel if resets_first else gru_kernel}
    part, unit = gates * size, makes[kind](functions, registers)
    over_samples = _over_samples(gates - resets_first, part, unit, not resets_first, registers)

    def phase(parameters: Any, thread: Any, threads: Any, board: Any, number: Any, low: Any, step: Any) -> None:
        p = parameters_at(parameters)
        time, row, old, new = _place_of(p, low, step)
        parts, parts_block = p.parts + row * part, p.chunk * p.batch * part
        start, start_block, start_row = (p.hidden_bias, part, 0) if resets_last else (parts, parts_block, part)
        given = (p.step_product, p.recurrence, old, start, start_block, start_row)
        over_samples(p, thread, threads, board, number, time, parts, given, old, new)

    return phase


def candidate_of(functions: tuple[str, ...], registers: Registers) -> Phase:
    """The second phase of a step of a GRU that resets first. The arguments are `step_of`'s."""
    size, parameters_at = vectors_of(registers).size, record_at(PARAMETERS)
    part, over_samples = 3 * size, _over_samples(1, 3 * size, gru_candidate_kernel(functions, registers), True, registers)

    def phase(parameters: Any, thread: Any, threads: Any, board: Any, number: Any, low: Any, step: Any) -> None:
        p = parameters_at(parameters)
        time, row, old, new = _place_of(p, low, step)
        parts, parts_block = p.parts + row * part, p.chunk * p.batch * part
        given = (p.candidate_product, p.candidate, p.reset, parts + 2 * size, parts_block, part)
        over_samples(p, thread, threads, board, number, time, parts, given, old, new)

    return phase


@jit
def _place_of(p: Any, low: Any, step: Any) -> Any:
    """The time of a step, its first row among those of the chunk, and the states before and after it."""
    time = p.time + (p.steps - 1 - step if p.backward != 0 else step)
    row = integer_at(p.bases + 8 * time) - integer_at(p.bases + 8 * low)
    place = p.turn + step
    return time, row, p.state + place % STATES * p.state_size, p.state + (place + 1) % STATES * p.state_size


def _over_samples(gates: int, part: int, unit: Any, passes: bool, registers: Registers) -> Any:
    """Makes a phase of a step: the products of some gates with the factors' rows, then `unit` for each sample.

    Args:
        gates: the number of gates.
        part: bytes of a sample's input parts.
        unit: the kernel.
        passes: whether it also carries the states of the samples that skip the step.
        registers: the registers that it is compiled for.
    """
    pass_by, most, row_size = pass_kernel(registers), registers.columns(gates), gates * vectors_of(registers).size

    @jit
    def step(p: Any, thread: Any, threads: Any, board: Any, number: Any, time: Any, parts: Any, given: Any, old: Any, new: Any) -> None:
        product, matrix, factors, start, start_block, start_row = given
        active = integer_at(p.bases + 8 * time + 8) - integer_at(p.bases + 8 * time)
        own, block_size, parts_block = p.own + thread * p.own_size, p.hidden * row_size, p.chunk * p.batch * part
        items = p.block_groups * p.sample_groups
        item = take(p, board, thread, threads, number, items, NOTHING)
        while item >= 0:
            first_block, last_block, first_row, last_row = part_of(p, item)
            rows, sums = max(0, min(last_row, active) - first_row), own
            groups = (rows + most - 1) // most
            for turn in range(first_block, last_block):
                block = turn if number & 1 != 0 else first_block + last_block - 1 - turn
                for group in range(groups):
                    first = rows * group // groups
                    row, columns = first_row + first, rows * (group + 1) // groups - first
                    of_rows, begin = factors + row * p.state_row, start + block * start_block + row * start_row
                    call_product(product, (columns, matrix + block * block_size, p.hidden, of_rows, p.state_row, begin, start_row, sums))
                    sums += columns * row_size
            if claim(board, threads, number, item):
                sums = own
                for turn in range(first_block, last_block):
                    block = turn if number & 1 != 0 else first_block + last_block - 1 - turn
                    for row in range(first_row, first_row + rows):
                        if passes and skip_of(p, time, integer_at(p.order + 8 * row)) != 0:
                            pass_by(p, time, block, row, old, new)
                        else:
                            unit(p, time, block, row, parts + block * parts_block + row * part, sums, old, new)
                        sums += row_size
                    if passes:
                        for row in range(first_row + rows, last_row):
                            pass_by(p, time, block, row, old, new)
                tell(board, threads, number, item)
            item = take(p, board, thread, threads, number, items, item)

    return step
