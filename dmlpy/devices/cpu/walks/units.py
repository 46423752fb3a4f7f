"""Kernels that compute a cell from the sums of its gates, for a block of units of one sample; the walk calls them.

All take `p`, the parameters of the walk (see `parameters.PARAMETERS`), the time, the block and the row they are for, the addresses of the
input's parts and of the sums, and of the states that are read and written. Gates lie in the descs' order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dmlpy.devices.cpu.registers import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.vectors import integer_at, jit, vectors_of
from dmlpy.devices.cpu.walks.functions import activation
from dmlpy.devices.cpu.walks.rows import REPEATS

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
def put_part_kernel(registers: Registers) -> Any:
    """Writes as many of a vector's floats as belong to units of this block: put_part(p, address, block, value)."""
    vectors = vectors_of(registers)
    store, store_some, lanes = vectors.store, vectors.store_some, registers.lanes

    @jit
    def put_part(p: Any, address: Any, block: Any, value: Any) -> None:
        width = p.hidden - block * lanes
        if width >= lanes:
            store(address, value)
        else:
            store_some(address, value, width)

    return put_part


@cache
def reserve_kernels(registers: Registers) -> Any:
    """What a reserve gets: keep_gate(p, time, block, sample, gate, value) and keep_state(p, slots, time, block, sample, value)."""
    put_part, size = put_part_kernel(registers), vectors_of(registers).size

    @jit
    def keep_gate(p: Any, time: Any, block: Any, sample: Any, gate: Any, value: Any) -> None:
        if p.kept != 0:
            row = (time * p.kept_values + gate) * p.batch + sample
            put_part(p, p.kept + row * p.hidden * FLOAT_BYTES + block * size, block, value)

    @jit
    def keep_state(p: Any, slots: Any, time: Any, block: Any, sample: Any, value: Any) -> None:
        if slots != 0:
            put_part(p, slots + (time * p.batch + sample) * p.hidden * FLOAT_BYTES + block * size, block, value)

    return keep_gate, keep_state


@cache
def put_kernel(registers: Registers) -> Any:
    """Writes h to the new state, to the reserve, and to the output sequence, as far as there are such."""
    store, size, put_part = vectors_of(registers).store, vectors_of(registers).size, put_part_kernel(registers)
    _, keep_state = reserve_kernels(registers)

    @jit
    def put(p: Any, time: Any, block: Any, row: Any, sample: Any, new: Any, value: Any) -> None:
        store(new + row * p.state_row + block * size, value)
        if p.output != 0:
            put_part(p, p.output + time * p.output_step + sample * p.output_row + block * size, block, value)
        keep_state(p, p.kept_hidden, time, block, sample, value)

    return put


@jit
def skip_of(p: Any, time: Any, sample: Any) -> Any:
    """What the mask says of a step of a sample: 0 if it takes the step, or if there is no mask."""
    return integer_at(p.skips + 8 * (time * p.batch + sample)) if p.skips != 0 else 0


@cache
def pass_kernel(registers: Registers) -> Any:
    """Where a step is skipped, carries the states, and writes zeros to what the reserve keeps of gates and zeros or h to the output."""
    vectors = vectors_of(registers)
    load, store, all_of, size, put_part = vectors.load, vectors.store, vectors.all_of, vectors.size, put_part_kernel(registers)
    keep_gate, keep_state = reserve_kernels(registers)

    @jit
    def pass_by(p: Any, time: Any, block: Any, row: Any, old: Any, new: Any) -> None:
        sample, at = integer_at(p.order + 8 * row), row * p.state_row + block * size
        h = load(old + at)
        store(new + at, h)
        if p.output != 0:
            shown = h if skip_of(p, time, sample) == REPEATS else all_of(_ZERO)
            put_part(p, p.output + time * p.output_step + sample * p.output_row + block * size, block, shown)
        for gate in range(p.kept_values):
            keep_gate(p, time, block, sample, gate, all_of(_ZERO))
        keep_state(p, p.kept_hidden, time, block, sample, h)
        if p.kept_memory != 0:
            keep_state(p, p.kept_memory, time, block, sample, load(p.memory + at))

    return pass_by


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
        put(p, time, block, row, sample, new, h)

    return rnn


def lstm_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The step of LSTM."""
    vectors, put, clipped = vectors_of(registers), put_kernel(registers), clip_kernel(registers)
    load, store, all_of, size = vectors.load, vectors.store, vectors.all_of, vectors.size
    multiply, multiply_add, subtract = vectors.multiply, vectors.multiply_add, vectors.subtract
    f, g, h = (activation(name, role, registers) for role, name in enumerate(functions))
    f_argument, g_argument = (name == "other" for name in functions[:2])
    keep_gate, keep_state = reserve_kernels(registers)

    @jit
    def keep(p: Any, time: Any, block: Any, sample: Any, gate: Any, total: Any, value: Any, argument: Any) -> None:
        keep_gate(p, time, block, sample, gate, total if argument or p.clip > 0 else value)

    @jit
    def lstm(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, memory = integer_at(p.order + 8 * row), p.memory + row * p.state_row + block * size
        input_sum, output_sum = load(sums), load(sums + size)
        forget_sum, candidate_sum = load(sums + 2 * size), load(sums + 3 * size)
        c = load(memory)
        peephole = p.peephole + 3 * block * size
        if p.peephole != 0:
            input_sum = multiply_add(load(peephole), c, input_sum)
            forget_sum = multiply_add(load(peephole + 2 * size), c, forget_sum)
        input_gate, candidate = f(p, clipped(p, input_sum)), g(p, clipped(p, candidate_sum))
        keep(p, time, block, sample, GATE_0, input_sum, input_gate, f_argument)
        keep(p, time, block, sample, GATE_3, candidate_sum, candidate, g_argument)
        if p.couple != 0:
            forget_gate = subtract(all_of(_ONE), input_gate)
            keep_gate(p, time, block, sample, GATE_2, all_of(_ZERO))
        else:
            forget_gate = f(p, clipped(p, forget_sum))
            keep(p, time, block, sample, GATE_2, forget_sum, forget_gate, f_argument)
        c = multiply_add(forget_gate, c, multiply(input_gate, candidate))
        store(memory, c)
        keep_state(p, p.kept_memory, time, block, sample, c)
        if p.peephole != 0:
            output_sum = multiply_add(load(peephole + size), c, output_sum)
        output_gate = f(p, clipped(p, output_sum))
        keep(p, time, block, sample, GATE_1, output_sum, output_gate, f_argument)
        put(p, time, block, row, sample, new, multiply(output_gate, h(p, c)))

    return lstm


def gru_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The step of a GRU whose reset gate comes after the product. The sums exclude the input's part."""
    vectors, put = vectors_of(registers), put_kernel(registers)
    load, add, subtract, multiply_add, size = vectors.load, vectors.add, vectors.subtract, vectors.multiply_add, vectors.size
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
        put(p, time, block, row, sample, new, multiply_add(z, subtract(h, n), n))

    return gru


def gru_gates_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The gates of a GRU whose reset gate comes before the product: z, and h multiplied by r."""
    vectors = vectors_of(registers)
    load, store, multiply, size = vectors.load, vectors.store, vectors.multiply, vectors.size
    f, argument = activation(functions[0], 0, registers), functions[0] == "other"
    keep_gate, _ = reserve_kernels(registers)

    @jit
    def gru_gates(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, at = integer_at(p.order + 8 * row), row * p.state_row + block * size
        z_sum, r_sum = load(sums), load(sums + size)
        z, r = f(p, z_sum), f(p, r_sum)
        keep_gate(p, time, block, sample, GATE_0, z_sum if argument else z)
        keep_gate(p, time, block, sample, GATE_1, r_sum if argument else r)
        store(p.update + at, z)
        store(p.reset + at, multiply(r, load(old + at)))

    return gru_gates


def gru_candidate_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The rest of that GRU's step, after the product."""
    vectors, put = vectors_of(registers), put_kernel(registers)
    load, subtract, multiply_add, size = vectors.load, vectors.subtract, vectors.multiply_add, vectors.size
    g, argument = activation(functions[1], 1, registers), functions[1] == "other"
    keep_gate, _ = reserve_kernels(registers)

    @jit
    def gru_candidate(p: Any, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, at = integer_at(p.order + 8 * row), row * p.state_row + block * size
        n_sum = load(sums)
        n = g(p, n_sum)
        keep_gate(p, time, block, sample, GATE_2, n_sum if argument else n)
        put(p, time, block, row, sample, new, multiply_add(load(p.update + at), subtract(load(old + at), n), n))

    return gru_candidate
