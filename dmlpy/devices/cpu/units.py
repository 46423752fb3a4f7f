"""Kernels that compute a cell from the sums of its gates, for a block of units of one sample; the walk calls them.

All take `p`, the parameters of the walk (see `walk_parameters.PARAMETERS`), the time, the block and the sample they are for, the addresses
of the input's parts and of the sums, and of the states that are read and written. Gates lie in the descs' order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dmlpy.devices.cpu.registers import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.vectors import clear_float, copy_float, jit, vectors_of

_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_TANH_BOUND = np.float32(7.90531110763549805)
"""Beyond this argument tanh is 1 in float32."""
_ABOVE = tuple(
    np.float32(factor)
    for factor in (
        *(4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08),
        *(-8.60467152213735e-11, 2.00018790482477e-13, -2.76076847742355e-16),
    )
)
_BELOW = tuple(np.float32(factor) for factor in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06))
"""tanh(x) is x times a quotient of two polynomials in x squared: `_ABOVE` and `_BELOW` are their coefficients, the constant one first."""


@cache
def activation(name: str, registers: Registers) -> Any:
    """The activation of a name for a vector: `sigmoid`, `tanh` or `relu`. NaN stays NaN."""
    vectors = vectors_of(registers)
    all_of, multiply, multiply_add = vectors.all_of, vectors.multiply, vectors.multiply_add
    at_most, at_least, divide = vectors.at_most, vectors.at_least, vectors.divide
    a0, a1, a2, a3, a4, a5, a6 = _ABOVE
    b0, b1, b2, b3 = _BELOW

    @jit
    def tanh(x: Any) -> Any:
        x = at_least(at_most(x, all_of(_TANH_BOUND)), all_of(-_TANH_BOUND))
        s = multiply(x, x)
        above = multiply_add(s, multiply_add(s, all_of(a6), all_of(a5)), all_of(a4))
        above = multiply_add(s, multiply_add(s, above, all_of(a3)), all_of(a2))
        above = multiply_add(s, multiply_add(s, above, all_of(a1)), all_of(a0))
        below = multiply_add(s, multiply_add(s, multiply_add(s, all_of(b3), all_of(b2)), all_of(b1)), all_of(b0))
        return divide(multiply(x, above), below)

    @jit
    def sigmoid(x: Any) -> Any:
        return multiply_add(tanh(multiply(x, all_of(_HALF))), all_of(_HALF), all_of(_HALF))

    @jit
    def relu(x: Any) -> Any:
        return at_least(x, all_of(_ZERO))

    return {"sigmoid": sigmoid, "tanh": tanh, "relu": relu}[name]


@cache
def put_kernel(registers: Registers) -> Any:
    """Writes h to the new state, and to the output sequence if there is one."""
    vectors = vectors_of(registers)
    store, lanes, size = vectors.store, registers.lanes, vectors.size

    @jit
    def put(p: Any, time: Any, block: Any, sample: Any, new: Any, value: Any) -> None:
        at = new + sample * p.state_row + block * size
        store(at, value)
        if p.output != 0:
            target = p.output + time * p.output_step + sample * p.output_row + block * size
            width = p.hidden - block * lanes
            if width >= lanes:
                store(target, value)
            else:
                for lane in range(width):
                    copy_float(target + lane * FLOAT_BYTES, at + lane * FLOAT_BYTES)

    return put


@cache
def keep_kernel(registers: Registers) -> Any:
    """Past a sequence's end, keeps h and writes zeros to the output."""
    vectors = vectors_of(registers)
    load, store, lanes, size = vectors.load, vectors.store, registers.lanes, vectors.size

    @jit
    def keep(p: Any, time: Any, block: Any, sample: Any, old: Any, new: Any) -> None:
        at = sample * p.state_row + block * size
        store(new + at, load(old + at))
        if p.output != 0:
            target = p.output + time * p.output_step + sample * p.output_row + block * size
            for lane in range(min(lanes, p.hidden - block * lanes)):
                clear_float(target + lane * FLOAT_BYTES)

    return keep


def rnn_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The step of RNN."""
    load, put = vectors_of(registers).load, put_kernel(registers)
    f = activation(functions[0], registers)

    @jit
    def rnn(p: Any, time: Any, block: Any, sample: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        put(p, time, block, sample, new, f(load(sums)))

    return rnn


def lstm_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The step of LSTM."""
    vectors, put = vectors_of(registers), put_kernel(registers)
    load, store, all_of, size = vectors.load, vectors.store, vectors.all_of, vectors.size
    multiply, multiply_add, subtract = vectors.multiply, vectors.multiply_add, vectors.subtract
    at_most, at_least = vectors.at_most, vectors.at_least
    f, g, h = (activation(name, registers) for name in functions)

    @jit
    def clipped(p: Any, x: Any) -> Any:
        if p.clip > 0:
            bound = np.float32(p.clip)
            x = at_least(at_most(x, all_of(bound)), all_of(-bound))
        return x

    @jit
    def lstm(p: Any, time: Any, block: Any, sample: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        memory = p.memory + sample * p.state_row + block * size
        input_gate, output_gate = load(sums), load(sums + size)
        forget_gate, candidate = load(sums + 2 * size), load(sums + 3 * size)
        c = load(memory)
        peephole = p.peephole + 3 * block * size
        if p.peephole != 0:
            input_gate = multiply_add(load(peephole), c, input_gate)
            forget_gate = multiply_add(load(peephole + 2 * size), c, forget_gate)
        input_gate, candidate = f(clipped(p, input_gate)), g(clipped(p, candidate))
        forget_gate = subtract(all_of(_ONE), input_gate) if p.couple != 0 else f(clipped(p, forget_gate))
        c = multiply_add(forget_gate, c, multiply(input_gate, candidate))
        store(memory, c)
        if p.peephole != 0:
            output_gate = multiply_add(load(peephole + size), c, output_gate)
        put(p, time, block, sample, new, multiply(f(clipped(p, output_gate)), h(c)))

    return lstm


def gru_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The step of a GRU whose reset gate comes after the product. The sums exclude the input's part."""
    vectors, put = vectors_of(registers), put_kernel(registers)
    load, add, subtract, multiply_add, size = vectors.load, vectors.add, vectors.subtract, vectors.multiply_add, vectors.size
    f, g = (activation(name, registers) for name in functions)

    @jit
    def gru(p: Any, time: Any, block: Any, sample: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        h = load(old + sample * p.state_row + block * size)
        z = f(add(load(sums), load(parts)))
        r = f(add(load(sums + size), load(parts + size)))
        n = g(multiply_add(r, load(sums + 2 * size), load(parts + 2 * size)))
        put(p, time, block, sample, new, multiply_add(z, subtract(h, n), n))

    return gru


def gru_gates_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The gates of a GRU whose reset gate comes before the product: z, and h multiplied by r."""
    vectors = vectors_of(registers)
    load, store, multiply, size = vectors.load, vectors.store, vectors.multiply, vectors.size
    f = activation(functions[0], registers)

    @jit
    def gru_gates(p: Any, time: Any, block: Any, sample: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        at = sample * p.state_row + block * size
        store(p.update + at, f(load(sums)))
        store(p.reset + at, multiply(f(load(sums + size)), load(old + at)))

    return gru_gates


def gru_candidate_kernel(functions: tuple[str, ...], registers: Registers) -> Any:
    """The rest of that GRU's step, after the product."""
    vectors, put = vectors_of(registers), put_kernel(registers)
    load, subtract, multiply_add, size = vectors.load, vectors.subtract, vectors.multiply_add, vectors.size
    g = activation(functions[1], registers)

    @jit
    def gru_candidate(p: Any, time: Any, block: Any, sample: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        at = sample * p.state_row + block * size
        n = g(load(sums))
        put(p, time, block, sample, new, multiply_add(load(p.update + at), subtract(load(old + at), n), n))

    return gru_candidate
