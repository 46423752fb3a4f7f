"""Kernels of a backward step: from dh, and for LSTM dc, the gradients of the gates' sums, for a block of units of one sample.

All take `p`, the parameters of the time loop (see `parameters.GradientParameters`), the time, the block, the row, and the address of the
row's gradients; those of a second stage also the address of its operand's row and the sums of the previous product. dh and dc of a row
are changed in place: afterwards `carry` holds the part of dh that reaches h of the previous step without the gates' products, which the
time loop then adds.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
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
from dmlpy.devices.cpu.recurrent.rows import REPEATS
from dmlpy.devices.cpu.simd import integer_at, simd_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.recurrent.parameters import GradientParameters

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


def rnn_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
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


def lstm_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
    """The backward step of LSTM without a projection."""
    simd, gradient, cell = simd_of(isa), gradient_kernel(isa), _lstm_cell_kernel(functions, isa)
    store, all_of, size = simd.store, simd.all_of, simd.size

    @jit
    def lstm(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any) -> None:
        cell(p, time, block, row, gates, gradient(p, time, block, row))
        store(p.carry + (block * p.batch + row) * size, all_of(_ZERO))

    return lstm


def projection_gradient(isa: Isa) -> Any:
    """The gradient of a projected h, the operand of the product with the projection."""
    simd, store_part, _, gradient = _common_kernels(isa)
    store, all_of, size = simd.store, simd.all_of, simd.size

    @jit
    def project(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any) -> None:
        store_part(p.entries, gates + p.state_gradient + block * size, block, gradient(p, time, block, row))
        store(p.carry + (block * p.batch + row) * size, all_of(_ZERO))

    return project


def projected_lstm_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
    """The backward step of LSTM after that product; the projection's input is written if it is needed."""
    simd, store_part, cell = simd_of(isa), store_part_kernel(isa), _lstm_cell_kernel(functions, isa)
    load, size = simd.load, simd.size

    @jit
    def lstm(p: GradientParameters, time: Any, block: Any, row: Any, gates: Any, operand: Any, sums: Any) -> None:
        output = cell(p, time, block, row, gates, load(sums))
        if p.operand != 0:
            store_part(p.hidden, operand + block * size, block, output)

    return lstm


def gru_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
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


def gru_candidate_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
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


def gru_reset_gradient(functions: tuple[str, ...], isa: Isa) -> Any:
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


_ZERO = np.float32(0.0)


@cache
def carry_on_kernel(isa: Isa) -> Any:
    """Adds the upstream gradient of a skipped step to dh, if its output repeats the one before: carry_on(p, time, block, row)."""
    store, size, gradient = simd_of(isa).store, simd_of(isa).size, gradient_kernel(isa)

    @jit
    def carry_on(p: GradientParameters, time: Any, block: Any, row: Any) -> None:
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
    def clear(p: GradientParameters, block: Any, row_gates: Any) -> None:
        for gate in range(gates):
            store_part(p.hidden, row_gates + gate * p.hidden * FLOAT_BYTES + block * size, block, all_of(_ZERO))

    return clear


def clear_state_kernel(isa: Isa) -> Any:
    """Writes zeros for a skipped step's gradient of h, which the projection's products read. Arguments as in `clear_kernel`."""
    all_of, size, store_part = simd_of(isa).all_of, simd_of(isa).size, store_part_kernel(isa)

    @jit
    def clear(p: GradientParameters, block: Any, row_gates: Any) -> None:
        store_part(p.entries, row_gates + p.state_gradient + block * size, block, all_of(_ZERO))

    return clear


def clear_operand_kernel(isa: Isa) -> Any:
    """Writes zeros for the operand of a skipped step, if it is needed: clear(p, block, gates, operand), for a second stage."""
    all_of, size, store_part = simd_of(isa).all_of, simd_of(isa).size, store_part_kernel(isa)

    @jit
    def clear(p: GradientParameters, block: Any, row_gates: Any, operand: Any) -> None:
        if p.operand != 0:
            store_part(p.hidden, operand + block * size, block, all_of(_ZERO))

    return clear
