"""The compiled walk over time: a thread's share of an RNN, LSTM or GRU layer.

Units lie in blocks of as many as a vector has lanes. A block's weights are packed together, all gates of a unit block beside each other,
so the sums of some samples' gates stay in registers over all terms, and the cell's step follows from the first-level cache. A step is a
phase (two where a GRU's reset gate comes before the product), an item some blocks of some samples: a thread sums the gates in memory of
its own, and then, if the item is its, writes the states. See `phases`: what of the weights is left in a core's cache from one step is what
the next one begins with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.phases import claim, enter, leave, take, tell
from dmlpy.devices.cpu.registers import FLOAT_BYTES
from dmlpy.devices.cpu.stored import row_copy
from dmlpy.devices.cpu.vectors import integer_at, jit, record_at, vectors_of
from dmlpy.devices.cpu.walks.items import part_of
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
    from dmlpy.devices.cpu.team import Share


def _over_samples(gates: int, part: int, unit: Any, passes: bool, registers: Registers) -> Any:
    """Makes a phase of a step: the products of some gates with the factors' rows, then `unit` for each sample.

    Args:
        gates: the number of gates.
        part: bytes of a sample's input parts.
        unit: the kernel.
        passes: whether it also carries the states of the samples that skip the step.
        registers: the registers that it is compiled for.
    """
    vectors, pass_by = vectors_of(registers), pass_kernel(registers)
    product, most, row_size = vectors.product(gates), registers.columns(gates), gates * vectors.size

    @jit
    def step(
        p: Any,
        thread: Any,
        threads: Any,
        board: Any,
        number: Any,
        time: Any,
        parts_row: Any,
        matrix: Any,
        factors: Any,
        start: Any,
        start_block: Any,
        start_row: Any,
        old: Any,
        new: Any,
    ) -> None:
        active = integer_at(p.bases + 8 * time + 8) - integer_at(p.bases + 8 * time)
        own, block_size, parts_block = p.own + thread * p.own_size, p.hidden * row_size, p.chunk * p.batch * part
        items = p.block_groups * p.sample_groups
        item = take(board, thread, threads, number, items, -1, p.patience)
        while item >= 0:
            first_block, last_block, first_row, last_row = part_of(p, item)
            rows, sums = max(0, min(last_row, active) - first_row), own
            groups = (rows + most - 1) // most
            for turn in range(first_block, last_block):
                block = turn if number & 1 != 0 else first_block + last_block - 1 - turn
                for group in range(groups):
                    first = rows * group // groups
                    row = first_row + first
                    product(
                        rows * (group + 1) // groups - first,
                        matrix + block * block_size,
                        p.hidden,
                        factors + row * p.state_row,
                        p.state_row,
                        start + block * start_block + row * start_row,
                        start_row,
                        sums + first * row_size,
                    )
                sums += rows * row_size
            if claim(board, threads, number, item):
                sums = own
                for turn in range(first_block, last_block):
                    block = turn if number & 1 != 0 else first_block + last_block - 1 - turn
                    parts = p.parts + block * parts_block + parts_row * part
                    for row in range(first_row, first_row + rows):
                        if passes and skip_of(p, time, integer_at(p.order + 8 * row)) != 0:
                            pass_by(p, time, block, row, old, new)
                        else:
                            unit(p, time, block, row, parts + row * part, sums, old, new)
                        sums += row_size
                    if passes:
                        for row in range(first_row + rows, last_row):
                            pass_by(p, time, block, row, old, new)
                tell(board, threads, number, item)
            item = take(board, thread, threads, number, items, item, p.patience)

    return step


def _project(gates: int, registers: Registers) -> Any:
    """Makes the phase of a chunk's input products, biases included: an item is a block of units.

    Rows that lie apart are copied beside each other first, by each thread for all its blocks.
    """
    vectors = vectors_of(registers)
    product, most, part = vectors.product(gates), registers.columns(gates), gates * vectors.size
    load, store, size = vectors.load, vectors.store, vectors.size
    copy = row_copy(False, registers)

    @jit
    def project(p: Any, thread: Any, threads: Any, board: Any, number: Any, low: Any, count: Any) -> None:
        before = integer_at(p.bases + 8 * low)
        rows = integer_at(p.bases + 8 * (low + count)) - before
        groups = (rows + most - 1) // most
        factors, factor_row = p.input + before * p.input_row, p.input_row
        gathered = p.rows == 0
        block = take(board, thread, threads, number, p.blocks, -1, p.patience)
        while block >= 0:
            if not gathered:
                gathered = True
                factors, factor_row = p.gathered + thread * p.gathered_size, p.inputs * FLOAT_BYTES
                for row in range(rows):
                    copy(p.input + integer_at(p.rows + 8 * (before + row)) * p.input_row, factors + row * factor_row, p.inputs)
            matrix, bias, parts = p.weights + block * p.inputs * part, p.bias + block * part, p.parts + block * p.chunk * p.batch * part
            sums = parts if threads == 1 else p.own + thread * p.own_size
            for group in range(groups):
                row = rows * group // groups
                columns = rows * (group + 1) // groups - row
                product(columns, matrix, p.inputs, factors + row * factor_row, factor_row, bias, 0, sums + row * part)
            if claim(board, threads, number, block):
                if threads > 1:
                    for at in range(0, rows * part, size):
                        store(parts + at, load(sums + at))
                tell(board, threads, number, block)
            block = take(board, thread, threads, number, p.blocks, block, p.patience)

    return project


def walk_of(kind: Cell, resets_first: bool, functions: tuple[str, ...], registers: Registers) -> Share:
    """The walk of a cell, to be compiled: a thread's share of the steps that its parameters describe.

    Args:
        kind: the cell.
        resets_first: whether a GRU's last product waits for the reset gate.
        functions: names of its activations (see `functions.activation`): f, then g, then h.
        registers: the registers that it is compiled for.
    """
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    resets_last = kind == "GRU" and not resets_first
    size = vectors_of(registers).size
    part = gates * size  # bytes of a sample's sums in a block
    if resets_first:
        step_gates = _over_samples(2, part, gru_gates_kernel(functions, registers), False, registers)
        step_candidate = _over_samples(1, part, gru_candidate_kernel(functions, registers), True, registers)
    else:
        unit_of = {"RNN": rnn_kernel, "LSTM": lstm_kernel, "GRU": gru_kernel}[kind]
        step_gates = _over_samples(gates, part, unit_of(functions, registers), True, registers)
        step_candidate = step_gates  # never called: the compiler only needs the name
    project, parameters_at = _project(gates, registers), record_at(PARAMETERS)

    def walk(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        p, number = parameters_at(parameters), met
        if not enter(board, thread, threads, met):
            return
        for begin in range(0, p.steps, p.chunk):
            count = min(p.chunk, p.steps - begin)
            low = p.time + (p.steps - begin - count if p.backward != 0 else begin)
            number += 1
            project(p, thread, threads, board, number, low, count)
            for step in range(begin, begin + count):
                time = p.time + (p.steps - 1 - step if p.backward != 0 else step)
                row = integer_at(p.bases + 8 * time) - integer_at(p.bases + 8 * low)
                place = p.turn + step
                old, new = p.state + place % STATES * p.state_size, p.state + (place + 1) % STATES * p.state_size
                parts, parts_block = p.parts + row * part, p.chunk * p.batch * part
                start, start_block, start_row = (p.hidden_bias, part, 0) if resets_last else (parts, parts_block, part)
                number += 1
                step_gates(p, thread, threads, board, number, time, row, p.recurrence, old, start, start_block, start_row, old, new)
                if resets_first:
                    number += 1
                    parts += 2 * size
                    step_candidate(p, thread, threads, board, number, time, row, p.candidate, p.reset, parts, parts_block, part, old, new)
        leave(board, thread, threads)

    return walk
