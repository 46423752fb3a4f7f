"""The stages of a backward recurrence (see `devices.cpu.thread_pool_kernels`): the steps of the gradient of an RNN, LSTM or GRU layer.

A step computes from dh the gradients of the gates' sums, and by one product of these dh of the step before. That product takes the
gradients of all blocks of units, so a stage (see `thread_pool_kernels`) begins with it: a tile computes dh of some panels of blocks and
samples, from the gates of the previous step of the loop, and then their gates' gradients of this one. With dropout dh is summed gate by
gate, each time with that gate's dropout of h. If a GRU's reset gate comes before the product, a second stage has the gradients that depend
on it; with a projection it has all gates' gradients, which depend on dh of all entries. The gates' gradients of all steps are stored, a row
for each step that a sample takes, for the products with x and h[t-1] over many steps at once.

Each stage is a separate function, run_stage(parameters, thread, threads, sync, stage, step); `stage` is its number.

The kernels of cells compute from dh, and for LSTM dc, the gradients of the gates' sums, for a block of units of one sample. All take `p`,
the time, the block, the row, and the address of the row's gradients; those of a second stage also the address of its operand's row and the
sums of the previous product. dh and dc of a row are changed in place: afterwards `carry` holds the part of dh that reaches h of the
previous step without the gates' products, which the time loop then adds.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.product_kernels import call_product
from dmlpy.devices.cpu.recurrent.cell_kernels import (
    GATE_0,
    GATE_1,
    GATE_2,
    GATE_3,
    activation,
    clip_kernel,
    skip_of,
    slope,
    store_part_kernel,
)
from dmlpy.devices.cpu.recurrent.kernels import Stage, count_tiles, tile_bounds
from dmlpy.devices.cpu.recurrent.parameters import REPEATS, GradientParameters
from dmlpy.devices.cpu.simd import integer_at, prefetch_to_read, prefetch_to_write, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, acquire, commit, own_scratch, publish

if TYPE_CHECKING:
    from dmlpy.description.gate_order import Cell

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@cache
def _load_part_kernel(isa: Isa) -> Any:
    """Reads the floats that belong to units of this block, of `count` units: get_part(count, address, block)."""
    simd = simd_of(isa)
    load, load_some, lanes = simd.load, simd.load_some, isa.lanes

    @jit
    def load_part(count: Any, address: Any, block: Any) -> Any:
        width = count - block * lanes
        if width >= lanes:
            return load(address)
        return load_some(address, width)

    return load_part


@cache
def gradient_kernel(isa: Isa) -> Any:
    """The gradient of h[t]: that from later steps plus the upstream gradient of this step."""
    simd, load_part = simd_of(isa), _load_part_kernel(isa)
    load, add, size = simd.load, simd.add, simd.size

    @jit
    def gradient(p: GradientParameters, time: Any, block: Any, row: Any) -> Any:
        dh = load(p.carry + (block * p.batch + row) * size)
        if p.upstream != 0:
            sample = integer_at(p.order + 8 * row)
            dh = add(dh, load_part(p.entries, p.upstream + time * p.upstream_step + sample * p.upstream_row + block * size, block))
        return dh

    return gradient


@cache
def _gate_kernel(name: str, role: int, isa: Isa) -> Any:
    """gate(p, saved) returns a gate's value and its derivative."""
    simd, clipped = simd_of(isa), clip_kernel(isa)
    all_of, where_within = simd.all_of, simd.where_within
    function, derivative, saves_argument = activation(name, role, isa), slope(name, role, isa), name == "other"

    @jit
    def gate(p: GradientParameters, saved: Any) -> Any:
        if saves_argument or p.clip > 0:
            x = clipped(p, saved)
            y = function(p, x)
            steepness = derivative(p, x, y)
            if p.clip > 0:
                bound = np.float32(p.clip)
                steepness = where_within(saved, all_of(-bound), all_of(bound), steepness)
            return y, steepness
        return saved, derivative(p, saved, saved)

    return gate


@cache
def _saved_kernel(isa: Isa) -> Any:
    """Reads a gate's saved value from the reserve."""
    load_part, size = _load_part_kernel(isa), simd_of(isa).size

    @jit
    def saved(p: GradientParameters, time: Any, block: Any, sample: Any, gate: Any) -> Any:
        row = (time * p.saved_values + gate) * p.batch + sample
        return load_part(p.hidden, p.saved + row * p.hidden * FLOAT_BYTES + block * size, block)

    return saved


@cache
def _state_kernel(isa: Isa) -> Any:
    """Reads a state of H entries from its slots, which begin with that of time 0."""
    load_part, size = _load_part_kernel(isa), simd_of(isa).size

    @jit
    def state(p: GradientParameters, slots: Any, time: Any, block: Any, sample: Any) -> Any:
        return load_part(p.hidden, slots + (time * p.batch + sample) * p.hidden * FLOAT_BYTES + block * size, block)

    return state


def _common_kernels(isa: Isa) -> tuple[Any, Any, Any, Any]:
    """Shared by all backward steps: vectors, and kernels that write a gate's gradient, read saved values, and read the gradient of h."""
    return simd_of(isa), store_part_kernel(isa), _saved_kernel(isa), gradient_kernel(isa)


def _rnn_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
    """The backward step of RNN."""
    simd, store_part, saved, gradient = _common_kernels(isa)
    store, multiply, all_of, size = simd.store, simd.multiply, simd.all_of, simd.size
    f = _gate_kernel(functions[0], 0, isa)

    @jit
    def rnn(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any) -> None:
        _, df = f(p, saved(p, time, block, integer_at(p.order + 8 * row), GATE_0))
        store_part(p.hidden, gates + block * size, block, multiply(gradient(p, time, block, row), df))
        store(p.carry + (block * p.batch + row) * size, all_of(_ZERO))

    return rnn


def _lstm_cell_kernel(functions: tuple[str, ...], isa: Isa) -> Any:
    """The backward step of an LSTM's cell from the gradient of its output: cell(p, time, block, row, gates, dh) returns o * h(c).

    The gates' gradients are in the descs' order: i, o, f, c.
    """
    simd, store_part, saved, _ = _common_kernels(isa)
    load, store, all_of, size, state = simd.load, simd.store, simd.all_of, simd.size, _state_kernel(isa)
    multiply, multiply_add, subtract = simd.multiply, simd.multiply_add, simd.subtract
    f, g = (_gate_kernel(name, role, isa) for role, name in enumerate(functions[:2]))
    of_cell, slope_of_cell = activation(functions[2], 2, isa), slope(functions[2], 2, isa)

    @jit
    def cell(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any, dh: Any) -> Any:
        sample, at = integer_at(p.order + 8 * row), (block * p.batch + row) * size
        width, start = p.hidden * FLOAT_BYTES, block * size
        c, c_before = state(p, p.memory_after, time, block, sample), state(p, p.memory_before, time, block, sample)
        i, di = f(p, saved(p, time, block, sample, GATE_0))
        o, do = f(p, saved(p, time, block, sample, GATE_1))
        n, dn = g(p, saved(p, time, block, sample, GATE_3))
        y = of_cell(p, c)
        da_o = multiply(multiply(dh, y), do)
        dc = multiply_add(multiply(dh, o), slope_of_cell(p, c, y), load(p.memory_carry + at))
        peephole = p.peephole + 3 * start
        if p.peephole != 0:
            dc = multiply_add(load(peephole + size), da_o, dc)
        if p.couple != 0:
            da_i, da_f = multiply(multiply(dc, subtract(n, c_before)), di), all_of(_ZERO)
            carried = multiply(dc, subtract(all_of(_ONE), i))
        else:
            forget, df = f(p, saved(p, time, block, sample, GATE_2))
            da_i, da_f = multiply(multiply(dc, n), di), multiply(multiply(dc, c_before), df)
            carried = multiply(dc, forget)
        if p.peephole != 0:
            carried = multiply_add(load(peephole), da_i, multiply_add(load(peephole + 2 * size), da_f, carried))
        store(p.memory_carry + at, carried)
        store_part(p.hidden, gates + start, block, da_i)
        store_part(p.hidden, gates + width + start, block, da_o)
        store_part(p.hidden, gates + 2 * width + start, block, da_f)
        store_part(p.hidden, gates + 3 * width + start, block, multiply(multiply(dc, i), dn))
        return multiply(o, y)

    return cell


def _lstm_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
    """The backward step of LSTM without a projection."""
    simd, gradient, cell = simd_of(isa), gradient_kernel(isa), _lstm_cell_kernel(functions, isa)
    store, all_of, size = simd.store, simd.all_of, simd.size

    @jit
    def lstm(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any) -> None:
        cell(p, time, block, row, gates, gradient(p, time, block, row))
        store(p.carry + (block * p.batch + row) * size, all_of(_ZERO))

    return lstm


def _projection_gradient(isa: Isa) -> Any:
    """The gradient of a projected h, the operand of the product with the projection."""
    simd, store_part, _, gradient = _common_kernels(isa)
    store, all_of, size = simd.store, simd.all_of, simd.size

    @jit
    def project(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any) -> None:
        store_part(p.entries, gates + p.state_gradient + block * size, block, gradient(p, time, block, row))
        store(p.carry + (block * p.batch + row) * size, all_of(_ZERO))

    return project


def _projected_lstm_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
    """The backward step of LSTM after that product; the projection's input is written if it is needed."""
    simd, store_part, cell = simd_of(isa), store_part_kernel(isa), _lstm_cell_kernel(functions, isa)
    load, size = simd.load, simd.size

    @jit
    def lstm(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any, operand: Any, sums: Any) -> None:
        output = cell(p, time, block, row, gates, load(sums))
        if p.operand != 0:
            store_part(p.hidden, operand + block * size, block, output)

    return lstm


def _gru_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
    """The backward step of a GRU whose reset gate comes after the product: gradients q, z, r, h, where q = r * da_h is the product's."""
    simd, store_part, saved, gradient = _common_kernels(isa)
    store, all_of, size, state = simd.store, simd.all_of, simd.size, _state_kernel(isa)
    multiply, subtract = simd.multiply, simd.subtract
    f, g = (_gate_kernel(name, role, isa) for role, name in enumerate(functions))

    @jit
    def gru(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any) -> None:
        sample, width, start = integer_at(p.order + 8 * row), p.hidden * FLOAT_BYTES, block * size
        z, dz = f(p, saved(p, time, block, sample, GATE_0))
        r, dr = f(p, saved(p, time, block, sample, GATE_1))
        n, dn = g(p, saved(p, time, block, sample, GATE_2))
        dh, before = gradient(p, time, block, row), state(p, p.hidden_before, time, block, sample)
        da_h = multiply(multiply(dh, subtract(all_of(_ONE), z)), dn)
        store_part(p.hidden, gates + start, block, multiply(r, da_h))
        store_part(p.hidden, gates + width + start, block, multiply(multiply(dh, subtract(before, n)), dz))
        store_part(p.hidden, gates + 2 * width + start, block, multiply(multiply(da_h, saved(p, time, block, sample, GATE_3)), dr))
        store_part(p.hidden, gates + 3 * width + start, block, da_h)
        store(p.carry + (block * p.batch + row) * size, multiply(dh, z))

    return gru


def _gru_candidate_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
    """The backward step of a GRU whose reset gate comes before the product, up to that product: gradients z, r, h without r."""
    simd, store_part, saved, gradient = _common_kernels(isa)
    store, all_of, size, state = simd.store, simd.all_of, simd.size, _state_kernel(isa)
    multiply, subtract = simd.multiply, simd.subtract
    f, g = (_gate_kernel(name, role, isa) for role, name in enumerate(functions))

    @jit
    def gru_candidate(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any) -> None:
        sample, width, start = integer_at(p.order + 8 * row), p.hidden * FLOAT_BYTES, block * size
        z, dz = f(p, saved(p, time, block, sample, GATE_0))
        n, dn = g(p, saved(p, time, block, sample, GATE_2))
        dh, before = gradient(p, time, block, row), state(p, p.hidden_before, time, block, sample)
        store_part(p.hidden, gates + start, block, multiply(multiply(dh, subtract(before, n)), dz))
        store_part(p.hidden, gates + 2 * width + start, block, multiply(multiply(dh, subtract(all_of(_ONE), z)), dn))
        store(p.carry + (block * p.batch + row) * size, multiply(dh, z))

    return gru_candidate


def _gru_reset_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
    """The rest of it, from the gradient of r * h[t-1] at `sums`; r * h[t-1] is written if it is needed."""
    simd, store_part, saved = simd_of(isa), store_part_kernel(isa), _saved_kernel(isa)
    load, store, size, state = simd.load, simd.store, simd.size, _state_kernel(isa)
    multiply, multiply_add = simd.multiply, simd.multiply_add
    f = _gate_kernel(functions[0], 0, isa)

    @jit
    def gru_reset(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any, operand: Any, sums: Any) -> None:
        sample, width, start = integer_at(p.order + 8 * row), p.hidden * FLOAT_BYTES, block * size
        r, dr = f(p, saved(p, time, block, sample, GATE_1))
        before, dq, carry = state(p, p.hidden_before, time, block, sample), load(sums), p.carry + (block * p.batch + row) * size
        if p.candidate_dropout != 0:
            dq = multiply(dq, load(p.candidate_dropout + sample * p.dropout_row + start))
        store_part(p.hidden, gates + width + start, block, multiply(multiply(dq, before), dr))
        store_part(p.hidden, operand + start, block, multiply(r, before))
        store(carry, multiply_add(dq, r, load(carry)))

    return gru_reset


@cache
def _carry_on_kernel(isa: Isa) -> Any:
    """Adds the upstream gradient of a skipped step to dh, if its output repeats the one before: carry_on(p, time, block, row)."""
    store, size, gradient = simd_of(isa).store, simd_of(isa).size, gradient_kernel(isa)

    @jit
    def carry_on(p: GradientParameters, time: Any, block: Any, row: Any) -> None:
        if skip_of(p, time, integer_at(p.order + 8 * row)) == REPEATS:
            store(p.carry + (block * p.batch + row) * size, gradient(p, time, block, row))

    return carry_on


def _clear_kernel(gates: int, isa: Isa) -> Any:
    """Writes zeros for the gates' gradients of a skipped step: clear(p, block, gates).

    Args:
        gates: blocks of H columns in a row of the gates' gradients.
        isa: the instruction set that it is compiled for.
    """
    all_of, size, store_part = simd_of(isa).all_of, simd_of(isa).size, store_part_kernel(isa)

    @jit
    def clear(p: GradientParameters, block: Any, row_gates: Any) -> None:
        for gate in range(gates):
            store_part(p.hidden, row_gates + gate * p.hidden * FLOAT_BYTES + block * size, block, all_of(_ZERO))

    return clear


def _clear_state_kernel(isa: Isa) -> Any:
    """Writes zeros for a skipped step's gradient of h, which the projection's products read. Arguments as in `_clear_kernel`."""
    all_of, size, store_part = simd_of(isa).all_of, simd_of(isa).size, store_part_kernel(isa)

    @jit
    def clear(p: GradientParameters, block: Any, row_gates: Any) -> None:
        store_part(p.entries, row_gates + p.state_gradient + block * size, block, all_of(_ZERO))

    return clear


def _clear_operand_kernel(isa: Isa) -> Any:
    """Writes zeros for the operand of a skipped step, if it is needed: clear(p, block, gates, operand), for a second stage."""
    all_of, size, store_part = simd_of(isa).all_of, simd_of(isa).size, store_part_kernel(isa)

    @jit
    def clear(p: GradientParameters, block: Any, row_gates: Any, operand: Any) -> None:
        if p.operand != 0:
            store_part(p.hidden, operand + block * size, block, all_of(_ZERO))

    return clear


@jit
def _rows_of(p: GradientParameters, step: Any) -> Any:
    """The time of a step, the rows that take it, and the address of the first one's gates' gradients."""
    time = p.time + (step if p.backward != 0 else p.steps - 1 - step)
    base = integer_at(p.bases + 8 * time)
    return time, integer_at(p.bases + 8 * time + 8) - base, p.gates + (base - integer_at(p.bases + 8 * p.time)) * p.gates_row


@jit
def _vectors_of(p: GradientParameters, panel: Any, blocks: Any) -> Any:
    """The blocks of a panel: the last one may have fewer."""
    return min(p.panel, blocks - panel * p.panel)


def _sum_kernel(isa: Isa) -> Any:
    """The products of some panels of a matrix with rows: sum_up(p, first_panel, last_panel, rows, blocks, matrix, terms, factors, sums).

    sums[panel][row] = matrix[panel] * factors[row], a panel's rows after those of the previous one. `blocks` are those of the matrix.
    """
    size = simd_of(isa).size

    @jit
    def sum_up(
        p: GradientParameters, first_panel: Any, last_panel: Any, rows: Any, blocks: Any, matrix: Any, terms: Any, factors: Any, sums: Any
    ) -> None:
        groups = (rows + p.columns - 1) // p.columns
        for panel in range(first_panel, last_panel):
            vectors = _vectors_of(p, panel, blocks)
            of_panel, width = matrix + panel * terms * p.panel * size, vectors * size
            product = p.product if vectors == p.panel else p.narrow_product
            for group in range(groups):
                row = rows * group // groups
                columns = rows * (group + 1) // groups - row
                call_product(product, (columns, of_panel, terms, factors + row * p.gates_row, p.gates_row, p.zeros, 0, sums))
                sums += columns * width

    return sum_up


def _dropped_sum_kernel(isa: Isa) -> Any:
    """The sum of the gates' contributions to dh of some panels and rows, each times the gate's dropout of h.

    It is sum_dropped(p, first_panel, last_panel, first, rows, factors, sums), where `factors` are the gradients of the first row of all. A
    gate's product is stored after the sums until it is added.
    """
    simd = simd_of(isa)
    load, store, multiply_add, all_of, size = simd.load, simd.store, simd.multiply_add, simd.all_of, simd.size

    @jit
    def sum_dropped(p: GradientParameters, first_panel: Any, last_panel: Any, first: Any, rows: Any, factors: Any, sums: Any) -> None:
        of_gate, room = p.hidden * FLOAT_BYTES, sums + (last_panel - first_panel) * rows * p.panel * size
        groups = (rows + p.columns - 1) // p.columns
        for panel in range(first_panel, last_panel):
            vectors = _vectors_of(p, panel, p.entry_blocks)
            width, product = vectors * size, p.product if vectors == p.panel else p.narrow_product
            for at in range(sums, sums + rows * width, size):
                store(at, all_of(_ZERO))
            for gate in range(p.terms // p.hidden):
                matrix = p.recurrence + panel * p.terms * p.panel * size + gate * p.hidden * width
                multipliers = p.state_dropout + gate * p.batch * p.dropout_row + panel * p.panel * size
                of_rows, to = factors + first * p.gates_row + gate * of_gate, room
                for group in range(groups):
                    row = rows * group // groups
                    columns = rows * (group + 1) // groups - row
                    call_product(product, (columns, matrix, p.hidden, of_rows + row * p.gates_row, p.gates_row, p.zeros, 0, to))
                    to += columns * width
                for row in range(rows):
                    of_sample = multipliers + integer_at(p.order + 8 * (first + row)) * p.dropout_row
                    for vector in range(vectors):
                        at = row * width + vector * size
                        store(sums + at, multiply_add(load(room + at), load(of_sample + vector * size), load(sums + at)))
            sums += rows * width

    return sum_dropped


def _prefetch_kernel(isa: Isa) -> Any:
    """Prefetches what the next step of the loop reads and writes, prefetch(p, time, block, row, gates): time and row of gradients are its.

    A step's values are in many pieces that processors do not foresee, and in no cache but the last if there are many steps.
    """
    size = simd_of(isa).size

    @jit
    def prefetch(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any) -> None:
        sample, start, width = integer_at(p.order + 8 * row), block * size, p.hidden * FLOAT_BYTES
        for value in range(p.saved_values):
            prefetch_to_read(p.saved + ((time * p.saved_values + value) * p.batch + sample) * width + start)
            prefetch_to_write(gates + value * width + start)
        if p.memory_before != 0:
            prefetch_to_read(p.memory_before + (time * p.batch + sample) * width + start)
        elif p.saved_values > 1:  # a GRU's step reads h
            prefetch_to_read(p.hidden_before + (time * p.batch + sample) * width + start)
        if p.upstream != 0:
            prefetch_to_read(p.upstream + time * p.upstream_step + sample * p.upstream_row + start)

    return prefetch


def build_gradient_step(kind: Cell, resets_first: bool, functions: tuple[str, ...], isa: Isa) -> Stage:
    """The stage of a step, or the first of two. The arguments are `kernels.build_step`'s."""
    makes = {"RNN": _rnn_gradient, "LSTM": _lstm_gradient, "GRU": _gru_candidate_gradient if resets_first else _gru_gradient}
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3 if resets_first else 4}[kind]
    return _first_stage(makes[kind](functions, isa), _clear_kernel(gates, isa), isa)


def build_projection_step(isa: Isa) -> Stage:
    """The first stage of a step of an LSTM with a projection: the gradient of h.

    Args:
        isa: the instruction set that it is compiled for.
    """
    return _first_stage(_projection_gradient(isa), _clear_state_kernel(isa), isa)


def _first_stage(unit: Any, clear: Any, isa: Isa) -> Stage:
    """Makes the first stage of a step, which completes dh. After the last step it does only that.

    Args:
        unit: the kernel that follows.
        clear: the kernel for a sample that skips the step.
        isa: the instruction set that it is compiled for.
    """
    sum_up, sum_dropped, carry_on = _sum_kernel(isa), _dropped_sum_kernel(isa), _carry_on_kernel(isa)
    prefetch = _prefetch_kernel(isa)
    simd = simd_of(isa)
    load, store, add, size = simd.load, simd.store, simd.add, simd.size
    parameters_at = struct_view(GradientParameters)

    def run_stage(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any, step: Any) -> None:
        p = parameters_at(parameters)
        ended, time_before, before, factors = step == p.steps, 0, 0, p.gates
        if step > 0:
            time_before, before, factors = _rows_of(p, step - 1)
        time, active, gates = _rows_of(p, min(step, p.steps - 1))
        next_time, _, next_gates = _rows_of(p, min(step + 1, p.steps - 1))
        scratch = own_scratch(p, thread)
        panels, width = (p.entry_blocks + p.panel - 1) // p.panel, p.panel * size
        tiles = count_tiles(p, panels)
        tile = acquire(p, sync, thread, threads, stage, tiles, NOTHING)
        while tile >= 0:
            first_panel, last_panel, first, last = tile_bounds(p, panels, tile)
            summed = max(0, min(last, before) - first)
            if p.state_dropout != 0:
                sum_dropped(p, first_panel, last_panel, first, summed, factors, scratch)
            else:
                sum_up(p, first_panel, last_panel, summed, p.entry_blocks, p.recurrence, p.terms, factors + first * p.gates_row, scratch)
            if commit(sync, threads, stage, tile):
                first_block = first_panel * p.panel
                for block in range(first_block, min(last_panel * p.panel, p.entry_blocks)):
                    sums = scratch + (block - first_block) // p.panel * summed * width + block % p.panel * size
                    of_row = _vectors_of(p, block // p.panel, p.entry_blocks) * size
                    carry = p.carry + (block * p.batch + first) * size
                    for row in range(first, first + summed):
                        if skip_of(p, time_before, integer_at(p.order + 8 * row)) == 0:  # else the sum is 0 or, with infinite weights, NaN
                            store(carry, add(load(carry), load(sums)))
                        carry += size
                        sums += of_row
                    if not ended:
                        for row in range(first, last):
                            if row < active and skip_of(p, time, integer_at(p.order + 8 * row)) == 0:
                                unit(p, time, block, row, gates + row * p.gates_row)
                                prefetch(p, next_time, block, row, next_gates + row * p.gates_row)
                            else:
                                carry_on(p, time, block, row)
                                if row < active:
                                    clear(p, block, gates + row * p.gates_row)
                publish(sync, threads, stage, tile)
            tile = acquire(p, sync, thread, threads, stage, tiles, tile)

    return run_stage


def build_reset_step(functions: tuple[str, ...], isa: Isa) -> Stage:
    """The second stage of a step of a GRU that resets first, with the product that depends on the reset gate."""
    parameters_at = struct_view(GradientParameters)
    second_stage = _second_stage(_gru_reset_gradient(functions, isa), _clear_operand_kernel(isa), isa)

    def run_stage(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any, step: Any) -> None:
        p = parameters_at(parameters)
        second_stage(p, thread, threads, sync, stage, step, p.candidate, p.hidden, 2 * p.hidden * FLOAT_BYTES)

    return run_stage


def build_projected_step(functions: tuple[str, ...], isa: Isa) -> Stage:
    """The second stage of a step of an LSTM with a projection: the cell's, from the product that computes the gradient of its output."""
    parameters_at, clear_operand, clear_gates = struct_view(GradientParameters), _clear_operand_kernel(isa), _clear_kernel(4, isa)

    @jit
    def clear(p: GradientParameters, block: Any, gates: Any, operand: Any) -> None:
        clear_gates(p, block, gates)
        clear_operand(p, block, gates, operand)

    second_stage = _second_stage(_projected_lstm_gradient(functions, isa), clear, isa)

    def run_stage(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any, step: Any) -> None:
        p = parameters_at(parameters)
        second_stage(p, thread, threads, sync, stage, step, p.projection, p.entries, p.state_gradient)

    return run_stage


def _second_stage(unit: Any, clear: Any, isa: Isa) -> Any:
    """Makes the second stage of a step: a product of a matrix with the values `offset` after each row's gates, then `unit`.

    Args:
        unit: the kernel that follows and reads the product.
        clear: the kernel for a sample that skips the step.
        isa: the instruction set that it is compiled for.
    """
    sum_up, size = _sum_kernel(isa), simd_of(isa).size

    @jit
    def second(
        p: GradientParameters, thread: Any, threads: Any, sync: Any, stage: Any, step: Any, matrix: Any, terms: Any, offset: Any
    ) -> None:
        time, active, gates = _rows_of(p, step)
        scratch, of_row = own_scratch(p, thread), p.hidden * FLOAT_BYTES
        operand = p.operand + (gates - p.gates) // p.gates_row * of_row
        panels, width = (p.blocks + p.panel - 1) // p.panel, p.panel * size
        tiles = count_tiles(p, panels)
        tile = acquire(p, sync, thread, threads, stage, tiles, NOTHING)
        while tile >= 0:
            first_panel, last_panel, first, last = tile_bounds(p, panels, tile)
            rows = max(0, min(last, active) - first)
            sum_up(p, first_panel, last_panel, rows, p.blocks, matrix, terms, gates + offset + first * p.gates_row, scratch)
            if commit(sync, threads, stage, tile):
                first_block = first_panel * p.panel
                for block in range(first_block, min(last_panel * p.panel, p.blocks)):
                    sums = scratch + (block - first_block) // p.panel * rows * width + block % p.panel * size
                    of_sums = _vectors_of(p, block // p.panel, p.blocks) * size
                    for row in range(first, first + rows):
                        if skip_of(p, time, integer_at(p.order + 8 * row)) != 0:
                            clear(p, block, gates + row * p.gates_row, operand + row * of_row)
                        else:
                            unit(p, time, block, row, gates + row * p.gates_row, operand + row * of_row, sums)
                        sums += of_sums
                publish(sync, threads, stage, tile)
            tile = acquire(p, sync, thread, threads, stage, tiles, tile)

    return second
