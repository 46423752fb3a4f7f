"""The compiled walk over time: a thread's share of an RNN, LSTM or GRU layer.

Units lie in blocks of as many as a vector has lanes. A block's weights are packed together, all gates of a unit block beside each other,
so the sums of some samples' gates stay in registers over all terms, and the cell's step follows at once, from the first-level cache.
Threads own blocks: the input product of a block and its cell state are never another thread's. What they share is h, so they meet once a
step (twice where a GRU's reset gate comes before the product). Blocks are taken in turns from the first and from the last: what of the
weights is left in a core's cache from one step is what the next one begins with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import njit

from dmlpy.devices.cpu.registers import FLOAT_BYTES
from dmlpy.devices.cpu.stored import row_copy
from dmlpy.devices.cpu.team import CACHE_LINE
from dmlpy.devices.cpu.vectors import integer_at, jit, record_at, set_integer, vectors_of
from dmlpy.devices.cpu.walks.meeting import are_here, let_join, meet, stay_together, tell_processor, wait_for
from dmlpy.devices.cpu.walks.parameters import NUMBERS, PARAMETERS, STATES
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
    """Makes a block's step: the product of some gates with the factors' rows, then `unit` for each sample.

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
        p: Any, time: Any, block: Any, parts: Any, matrix: Any, factors: Any, start: Any, start_row: Any, old: Any, new: Any, sums: Any
    ) -> None:
        active = integer_at(p.bases + 8 * time + 8) - integer_at(p.bases + 8 * time)
        groups = (active + most - 1) // most
        for group in range(groups):
            first = active * group // groups
            columns = active * (group + 1) // groups - first
            product(columns, matrix, p.hidden, factors + first * p.state_row, p.state_row, start + first * start_row, start_row, sums)
            for column in range(columns):
                row = first + column
                if passes and skip_of(p, time, integer_at(p.order + 8 * row)) != 0:
                    pass_by(p, time, block, row, old, new)
                else:
                    unit(p, time, block, row, parts + row * part, sums + column * row_size, old, new)
        if passes:
            for row in range(active, p.batch):
                pass_by(p, time, block, row, old, new)

    return step


def _project(gates: int, registers: Registers) -> tuple[Any, Any]:
    """Two kernels for some steps: `gather`, which copies rows of the input beside each other, and `project`.

    The first one is for rows that lie apart, and is called once for all blocks of a thread; the second one computes the input products,
    biases included, of some blocks.
    """
    vectors = vectors_of(registers)
    product, most, part = vectors.product(gates), registers.columns(gates), gates * vectors.size
    copy = row_copy(False, registers)

    @jit
    def gather(p: Any, thread: Any, low: Any, count: Any) -> None:
        target = p.gathered + thread * p.gathered_size
        for row in range(integer_at(p.bases + 8 * low), integer_at(p.bases + 8 * (low + count))):
            copy(p.input + integer_at(p.rows + 8 * row) * p.input_row, target, p.inputs)
            target += p.inputs * FLOAT_BYTES

    @njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)  # called in several places: not inlined
    def project(p: Any, thread: Any, first_block: Any, last_block: Any, low: Any, count: Any) -> None:
        before = integer_at(p.bases + 8 * low)
        rows = integer_at(p.bases + 8 * (low + count)) - before
        groups = (rows + most - 1) // most
        if p.rows != 0:
            factors, factor_row = p.gathered + thread * p.gathered_size, p.inputs * FLOAT_BYTES
        else:
            factors, factor_row = p.input + before * p.input_row, p.input_row
        for block in range(first_block, last_block):
            matrix, bias, target = p.weights + block * p.inputs * part, p.bias + block * part, p.parts + block * p.chunk * p.batch * part
            for group in range(groups):
                row = rows * group // groups
                columns = rows * (group + 1) // groups - row
                product(columns, matrix, p.inputs, factors + row * factor_row, factor_row, bias, 0, target + row * part)

    return gather, project


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
        gate_bytes, step_gates = 2 * size, _over_samples(2, part, gru_gates_kernel(functions, registers), False, registers)
        step_candidate = _over_samples(1, part, gru_candidate_kernel(functions, registers), True, registers)
    else:
        unit_of = {"RNN": rnn_kernel, "LSTM": lstm_kernel, "GRU": gru_kernel}[kind]
        gate_bytes, step_gates = part, _over_samples(gates, part, unit_of(functions, registers), True, registers)
        step_candidate = step_gates  # never called: the compiler only needs the name
    (gather, project), parameters_at = _project(gates, registers), record_at(PARAMETERS)

    def walk(parameters: Any, thread: Any, threads: Any, flags: Any, met: Any) -> None:
        p = parameters_at(parameters)
        sums = p.sums + thread * p.sums_size
        joins, first_step, done = thread > 0, 0, 0
        if joins:
            # The first thread is already working; this one takes its share from the step at which it is let in.
            line = flags + CACHE_LINE * thread
            tell_processor(line)
            set_integer(line, met + 1)
            wait_for(line, flags + 8, flags, met + 1)
            first_step, done = integer_at(flags + 8) - met - 1, integer_at(flags + 16)
            if first_step >= p.steps:
                return
        together, most = threads if joins else 1, threads
        for begin in range(first_step - first_step % p.chunk, p.steps, p.chunk):
            count = min(p.chunk, p.steps - begin)
            low = p.time + (p.steps - begin - count if p.backward != 0 else begin)
            if p.rows != 0:
                gather(p, thread, low, count)
            # The first thread computes input products alone until the others arrive; then each thread computes those of its blocks.
            if together == 1:
                done = 0
                while done < p.blocks and together == 1:
                    if are_here(most, flags, met):
                        let_join(flags, met, begin, done)
                        together, joins = most, True
                    else:
                        project(p, thread, done, done + 1, low, count)
                        done += 1
            if not joins:
                if together > 1:
                    project(p, thread, p.blocks * thread // together, p.blocks * (thread + 1) // together, low, count)
            elif done < p.blocks:
                left = p.blocks - done  # divided anew, so not by ownership
                project(p, thread, done + left * thread // together, done + left * (thread + 1) // together, low, count)
                meet(thread, together, flags, met + 2 + NUMBERS * begin)
            joins = False
            for step in range(max(begin, first_step), begin + count):
                if together == 1 and are_here(most, flags, met):
                    let_join(flags, met, step, p.blocks)
                    together = most
                first_block, last_block = p.blocks * thread // together, p.blocks * (thread + 1) // together
                time = p.time + (p.steps - 1 - step if p.backward != 0 else step)
                parts_row = integer_at(p.bases + 8 * time) - integer_at(p.bases + 8 * low)
                place, odd = p.turn + step, step & 1
                old, new = p.state + place % STATES * p.state_size, p.state + (place + 1) % STATES * p.state_size
                for turn in range(first_block, last_block):
                    block = turn if odd else first_block + last_block - 1 - turn
                    parts = p.parts + (block * p.chunk * p.batch + parts_row) * part
                    start, start_row = (p.hidden_bias + block * part, 0) if resets_last else (parts, part)
                    matrix = p.recurrence + block * p.hidden * gate_bytes
                    step_gates(p, time, block, parts, matrix, old, start, start_row, old, new, sums)
                if resets_first:
                    meet(thread, together, flags, met + 3 + NUMBERS * step)
                    for turn in range(first_block, last_block):
                        block = turn if odd else first_block + last_block - 1 - turn
                        parts = p.parts + (block * p.chunk * p.batch + parts_row) * part
                        matrix = p.candidate + block * p.hidden * size
                        step_candidate(p, time, block, parts, matrix, p.reset, parts + 2 * size, part, old, new, sums)
                if not stay_together(thread, together, flags, met + 4 + NUMBERS * step):
                    if thread > 0:
                        return
                    together = most = 1
        if together < most:
            let_join(flags, met, p.steps, 0)  # too late: there is nothing left to do

    return walk
