"""Kernels that compute a cell from the sums of its gates, for a block of units of one sample; the walk calls them.

All take `p`, the parameters of the walk (see `parameters.PARAMETERS`), the time, the block and the row they are for, the addresses of the
input's parts and of the sums, and of the states that are read and written. Gates lie in the descs' order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.recurrent.functions import activation, rest_of
from dmlpy.devices.cpu.recurrent.rows import REPEATS
from dmlpy.devices.cpu.simd import integer_at, jit, vectors_of

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
GATE_0, GATE_1, GATE_2, GATE_3 = map(np.int64, range(4))
"""Places in the desc's order. Numba would compile what takes a place once for each Python integer, but not for each of these."""


@cache
def clip_kernel(registers: Registers) -> Any:
    """Holds a gate's sum between the bounds, if there are some: clipped(p, x)."""
    vectors = vectors_of(registers)
    all_of, at_most, at_least = vectors.all_of, vectors.at_most, vectors.at_least

    @jit
    def clipped(p: Any, x: Any) -> Any:
        if p.clip > 0:
            bound = np.float32(p.clip)
            x = at_least(at_most(x, all_of(bound)), all_of(-bound))
        return x

    return clipped


@cache
def _mix_kernel(registers: Registers) -> Any:
    """The state of a GRU: mixed(z, h, n) is z h + (1 - z) n. The shorter z (h - n) + n would leave of the larger one what z shuts out."""
    vectors = vectors_of(registers)
    all_of, multiply, multiply_add, subtract = vectors.all_of, vectors.multiply, vectors.multiply_add, vectors.subtract

    @jit
    def mixed(z: Any, h: Any, n: Any) -> Any:
        return multiply_add(z, h, multiply(subtract(all_of(_ONE), z), n))

    return mixed


@cache
def put_part_kernel(registers: Registers) -> Any:
    """Writes as many of a vector's floats as belong to units of this block, of `count` units: put_part(count, address, block, value)."""
    vectors = vectors_of(registers)
    store, store_some, lanes = vectors.store, vectors.store_some, registers.lanes

    @jit
    def put_part(count: Any, address: Any, block: Any, value: Any) -> None:
        width = count - block * lanes
        if width >= lanes:
            store(address, value)
        else:
            store_some(address, value, width)

    return put_part


@cache
def reserve_kernels(registers: Registers) -> Any:
    """What a reserve gets: keep_gate(p, time, block, sample, gate, value) and keep_state(p, slots, count, time, block, sample, value).

    A state has `count` units.
    """
    put_part, size = put_part_kernel(registers), vectors_of(registers).size

    @jit
    def keep_gate(p: Any, time: Any, block: Any, sample: Any, gate: Any, value: Any) -> None:
        if p.kept != 0:
            row = (time * p.kept_values + gate) * p.batch + sample
            put_part(p.hidden, p.kept + row * p.hidden * FLOAT_BYTES + block * size, block, value)

    @jit
    def keep_state(p: Any, slots: Any, count: Any, time: Any, block: Any, sample: Any, value: Any) -> None:
        if slots != 0:
            put_part(count, slots + (time * p.batch + sample) * count * FLOAT_BYTES + block * size, block, value)

    return keep_gate, keep_state


@cache
def put_kernel(registers: Registers) -> Any:
    """Writes h to the new state, with what each gate sees of it, to the reserve, and to the output, as far as there are such.

    The kernel is put(p, time, block, row, sample, new, value, shown), where `shown` is what goes to the output.
    """
    vectors, put_part = vectors_of(registers), put_part_kernel(registers)
    load, store, multiply, size = vectors.load, vectors.store, vectors.multiply, vectors.size
    _, keep_state = reserve_kernels(registers)

    @jit
    def put(p: Any, time: Any, block: Any, row: Any, sample: Any, new: Any, value: Any, shown: Any) -> None:
        at = new + row * p.state_row + block * size
        store(at, value)
        if p.state_dropout != 0:
            multipliers = p.state_dropout + sample * p.state_gates * p.state_gate + block * size
            for gate in range(p.state_gates):
                multiplier = load(multipliers + gate * p.state_gate)
                store(at + (gate + 1) * p.state_gate, multiply(value, multiplier))
        if p.output != 0:
            put_part(p.entries, p.output + time * p.output_step + sample * p.output_row + block * size, block, shown)
        keep_state(p, p.kept_hidden, p.entries, time, block, sample, value)

    return put


@jit
def skip_of(p: Any, time: Any, sample: Any) -> Any:
    """What the mask says of a step of a sample: 0 if it takes the step, or if there is no mask."""
    return integer_at(p.skips + 8 * (time * p.batch + sample)) if p.skips != 0 else 0


@cache
def pass_kernels(registers: Registers) -> tuple[Any, Any]:
    """What a skipped step leaves.

    pass_state(p, time, block, row, old, new) carries h, and shows zeros or h as the output. pass_cell, of the same arguments, carries the
    cell state and keeps zeros of the gates, and does what the other does unless h follows in a phase of its own.
    """
    vectors = vectors_of(registers)
    load, all_of, size, put = vectors.load, vectors.all_of, vectors.size, put_kernel(registers)
    keep_gate, keep_state = reserve_kernels(registers)

    @jit
    def pass_state(p: Any, time: Any, block: Any, row: Any, old: Any, new: Any) -> None:
        sample, h = integer_at(p.order + 8 * row), load(old + row * p.state_row + block * size)
        put(p, time, block, row, sample, new, h, h if skip_of(p, time, sample) == REPEATS else all_of(_ZERO))

    @jit
    def pass_cell(p: Any, time: Any, block: Any, row: Any, old: Any, new: Any) -> None:
        sample = integer_at(p.order + 8 * row)
        for gate in range(p.kept_values):
            keep_gate(p, time, block, sample, gate, all_of(_ZERO))
        if p.kept_memory != 0:
            memory = p.memory + row * p.memory_row + block * size
            keep_state(p, p.kept_memory, p.hidden, time, block, sample, load(memory))
        if p.projection == 0:
            pass_state(p, time, block, row, old, new)

    return pass_state, pass_cell


def rnn_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The step of RNN."""
    load, put = vectors_of(registers).load, put_kernel(registers)
    f, keeps_argument = activation(functions[0], 0, registers), functions[0] == "other"
    keep_gate, _ = reserve_kernels(registers)

    @jit
    def rnn(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, total = integer_at(p.order + 8 * row), load(sums)
        h = f(p, total)
        keep_gate(p, time, block, sample, GATE_0, total if keeps_argument else h)
        put(p, time, block, row, sample, new, h, h)

    return rnn


def lstm_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The step of LSTM; with a projection h follows in the next phase."""
    vectors, put, clipped = vectors_of(registers), put_kernel(registers), clip_kernel(registers)
    load, store, all_of, size = vectors.load, vectors.store, vectors.all_of, vectors.size
    multiply, multiply_add, rest = vectors.multiply, vectors.multiply_add, rest_of(functions[0], registers)
    f, g, h = (activation(name, role, registers) for role, name in enumerate(functions))
    f_argument, g_argument = (name == "other" for name in functions[:2])
    keep_gate, keep_state = reserve_kernels(registers)

    @jit
    def keep(p: Any, time: Any, block: Any, sample: Any, gate: Any, total: Any, value: Any, argument: Any) -> None:
        keep_gate(p, time, block, sample, gate, total if argument or p.clip > 0 else value)

    @jit
    def lstm(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, at = integer_at(p.order + 8 * row), row * p.memory_row + block * size
        input_sum, output_sum = load(sums), load(sums + size)
        forget_sum, candidate_sum = load(sums + 2 * size), load(sums + 3 * size)
        c = load(p.memory + at)
        peephole = p.peephole + 3 * block * size
        if p.peephole != 0:
            input_sum = multiply_add(load(peephole), c, input_sum)
            forget_sum = multiply_add(load(peephole + 2 * size), c, forget_sum)
        input_gate, candidate = f(p, clipped(p, input_sum)), g(p, clipped(p, candidate_sum))
        keep(p, time, block, sample, GATE_0, input_sum, input_gate, f_argument)
        keep(p, time, block, sample, GATE_3, candidate_sum, candidate, g_argument)
        if p.couple != 0:
            forget_gate = rest(p, clipped(p, input_sum), input_gate)
            keep_gate(p, time, block, sample, GATE_2, all_of(_ZERO))
        else:
            forget_gate = f(p, clipped(p, forget_sum))
            keep(p, time, block, sample, GATE_2, forget_sum, forget_gate, f_argument)
        c = multiply_add(forget_gate, c, multiply(input_gate, candidate))
        store(p.memory + at, c)
        keep_state(p, p.kept_memory, p.hidden, time, block, sample, c)
        if p.peephole != 0:
            output_sum = multiply_add(load(peephole + size), c, output_sum)
        output_gate = f(p, clipped(p, output_sum))
        keep(p, time, block, sample, GATE_1, output_sum, output_gate, f_argument)
        output = multiply(output_gate, h(p, c))
        if p.projection != 0:
            store(p.cell_output + at, output)
        else:
            put(p, time, block, row, sample, new, output, output)

    return lstm


def projection_kernel(registers: Registers) -> Any:
    """The rest of an LSTM's step with a projection, after the product."""
    load, put = vectors_of(registers).load, put_kernel(registers)

    @jit
    def project(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        h = load(sums)
        put(p, time, block, row, integer_at(p.order + 8 * row), new, h, h)

    return project


def gru_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The step of a GRU whose reset gate comes after the product. The sums exclude the input's part."""
    vectors, put, mixed = vectors_of(registers), put_kernel(registers), _mix_kernel(registers)
    load, add, multiply_add, size = vectors.load, vectors.add, vectors.multiply_add, vectors.size
    f, g = (activation(name, role, registers) for role, name in enumerate(functions))
    f_argument, g_argument = (name == "other" for name in functions)
    keep_gate, _ = reserve_kernels(registers)

    @jit
    def gru(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, h = integer_at(p.order + 8 * row), load(old + row * p.state_row + block * size)
        product = load(sums + 2 * size)
        z_sum, r_sum = add(load(sums), load(parts)), add(load(sums + size), load(parts + size))
        z, r = f(p, z_sum), f(p, r_sum)
        n_sum = multiply_add(r, product, load(parts + 2 * size))
        n = g(p, n_sum)
        keep_gate(p, time, block, sample, GATE_0, z_sum if f_argument else z)
        keep_gate(p, time, block, sample, GATE_1, r_sum if f_argument else r)
        keep_gate(p, time, block, sample, GATE_2, n_sum if g_argument else n)
        keep_gate(p, time, block, sample, GATE_3, product)
        h = mixed(z, h, n)
        put(p, time, block, row, sample, new, h, h)

    return gru


def gru_gates_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The gates of a GRU whose reset gate comes before the product: z, and what the product sees of h multiplied by r."""
    vectors = vectors_of(registers)
    load, store, multiply, size = vectors.load, vectors.store, vectors.multiply, vectors.size
    f, argument = activation(functions[0], 0, registers), functions[0] == "other"
    keep_gate, _ = reserve_kernels(registers)

    @jit
    def gru_gates(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, at = integer_at(p.order + 8 * row), row * p.memory_row + block * size
        z_sum, r_sum = load(sums), load(sums + size)
        z, r = f(p, z_sum), f(p, r_sum)
        product = multiply(r, load(old + row * p.state_row + block * size))
        if p.candidate_dropout != 0:
            product = multiply(product, load(p.candidate_dropout + sample * p.memory_row + block * size))
        keep_gate(p, time, block, sample, GATE_0, z_sum if argument else z)
        keep_gate(p, time, block, sample, GATE_1, r_sum if argument else r)
        store(p.update + at, z)
        store(p.reset + at, product)

    return gru_gates


def gru_candidate_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The rest of that GRU's step, after the product."""
    put, mixed = put_kernel(registers), _mix_kernel(registers)
    load, size = vectors_of(registers).load, vectors_of(registers).size
    g, argument = activation(functions[1], 1, registers), functions[1] == "other"
    keep_gate, _ = reserve_kernels(registers)

    @jit
    def gru_candidate(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, start, n_sum = integer_at(p.order + 8 * row), block * size, load(sums)
        n = g(p, n_sum)
        keep_gate(p, time, block, sample, GATE_2, n_sum if argument else n)
        z, h = load(p.update + row * p.memory_row + start), load(old + row * p.state_row + start)
        h = mixed(z, h, n)
        put(p, time, block, row, sample, new, h, h)

    return gru_candidate
