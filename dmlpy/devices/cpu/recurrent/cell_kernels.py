"""Kernels that compute a cell from the sums of its gates, for a block of units of one sample, and the activations that they apply.

The kernels of cells take `p`, the parameters of the time loop, the time, the block and the row, the addresses of the input's
parts and of the sums, and of the states that are read and written. Gates are in the descs' order. Kernels that write h are made for
`stored`, the type of the output's elements.

The usual activations have names, by which a time loop is compiled. All others share the name `other`: one function selects
the activation by a number. For each gate a training form saves its value, or its argument if the derivative depends on
that (`parameters.saves_argument`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import called, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.recurrent.parameters import (
    CELU,
    ELU,
    GELU,
    IDENTITY,
    LEAKY,
    LINEAR,
    OF_A_ROLE,
    PARAMETRIC_SOFTPLUS,
    REPEATS,
    SCALED_ELU,
    SCALED_TANH,
    SHRINK,
    SOFTPLUS,
    SOFTSIGN,
    THRESHOLDED,
)
from dmlpy.devices.cpu.simd import float_at, integer_at, prefetch_to_write, simd_of
from dmlpy.devices.cpu.simd_math import Formula, function_of, switched_function

if TYPE_CHECKING:
    from dmlpy.devices.cpu.recurrent.parameters import LayerParameters, TimeLoopParameters

_WITH_CONSTANTS = ("hard_sigmoid", "other")
"""Names of functions that are compiled for each role, whose constants they read."""
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


_VALUES: dict[int, Formula] = {
    IDENTITY: lambda math, x, a, b: x,
    LINEAR: lambda math, x, a, b: math.linear(x, a, b),
    LEAKY: lambda math, x, a, b: math.leaky_relu(x, a),
    THRESHOLDED: lambda math, x, a, b: math.thresholded_relu(x, a),
    ELU: lambda math, x, a, b: math.elu(x, a, math.constant(1.0)),
    CELU: lambda math, x, a, b: math.elu(x, a, a),
    SCALED_ELU: lambda math, x, a, b: math.multiply(math.elu(x, a, math.constant(1.0)), b),
    SCALED_TANH: lambda math, x, a, b: math.multiply(math.tanh(math.multiply(x, b)), a),
    SOFTSIGN: lambda math, x, a, b: math.softsign(x),
    SOFTPLUS: lambda math, x, a, b: math.divided_softplus(x, a),
    PARAMETRIC_SOFTPLUS: lambda math, x, a, b: math.multiply(math.add(*math.softplus(x, b)), a),
    SHRINK: lambda math, x, a, b: math.shrink(x, a, b),
    GELU: lambda math, x, a, b: math.gelu(x),
}
"""The activations without names, by their numbers."""

_SLOPES: dict[int, Formula] = {
    IDENTITY: lambda math, x, a, b: math.constant(1.0),
    LINEAR: lambda math, x, a, b: a,
    LEAKY: lambda math, x, a, b: math.select(math.less(x, math.constant(0.0)), a, math.nan_or(x, math.constant(1.0))),
    THRESHOLDED: lambda math, x, a, b: math.select(math.less(a, x), math.constant(1.0), math.constant(0.0)),
    ELU: lambda math, x, a, b: math.elu_slope(x, a, math.constant(1.0)),
    CELU: lambda math, x, a, b: math.elu_slope(x, math.constant(1.0), a),
    SCALED_ELU: lambda math, x, a, b: math.scaled_elu_slope(x, a, b),
    SCALED_TANH: lambda math, x, a, b: math.scaled_tanh_slope(x, a, b),
    SOFTSIGN: lambda math, x, a, b: math.softsign_slope(x),
    SOFTPLUS: lambda math, x, a, b: math.sigmoid(math.multiply(x, a)),
    PARAMETRIC_SOFTPLUS: lambda math, x, a, b: math.multiply(math.multiply(math.sigmoid(math.multiply(x, b)), a), b),
    SHRINK: lambda math, x, a, b: math.select(math.less(b, math.magnitude(x)), math.constant(1.0), math.constant(0.0)),
    GELU: lambda math, x, a, b: math.gelu_slope(x),
}
"""Their derivatives at x, with the one-sided values that `devices.numpy.activation.derivatives` lists."""


@cache
def _other_function(isa: Isa, slope: bool) -> Any:
    """Another activation, or its derivative, of a vector: function(number, a, b, x). It is called, not inlined."""
    formulas = _SLOPES if slope else _VALUES
    compute = switched_function(tuple(formulas[number] for number in range(len(formulas))), isa)

    @called
    def function(number: Any, a: Any, b: Any, x: Any) -> Any:
        return compute(number, a, b, x)

    return function


def activation(name: str, role: int, isa: Isa) -> Any:
    """The activation of a name for a vector: function(p, x). NaN stays NaN.

    Args:
        name: one of `parameters.COMPILED`, or `other`.
        role: 0 for f, 1 for g, 2 for h: selects the constants.
        isa: the instruction set that it is compiled for.
    """
    return _activation(name, role if name in _WITH_CONSTANTS else 0, isa)


@cache
def _activation(name: str, role: int, isa: Isa) -> Any:
    simd = simd_of(isa)
    all_of, multiply_add, at_most, at_least = simd.all_of, simd.multiply_add, simd.at_most, simd.at_least
    first, second = (OF_A_ROLE * role + 1) * FLOAT_BYTES, (OF_A_ROLE * role + 2) * FLOAT_BYTES
    sigmoid_of, tanh_of = (function_of(name, isa) for name in ("sigmoid", "tanh"))

    @jit
    def sigmoid(p: TimeLoopParameters, x: Any) -> Any:
        return sigmoid_of(x)

    @jit
    def tanh(p: TimeLoopParameters, x: Any) -> Any:
        return tanh_of(x)

    @jit
    def relu(p: TimeLoopParameters, x: Any) -> Any:
        return at_least(x, all_of(_ZERO))

    @jit
    def hard_sigmoid(p: TimeLoopParameters, x: Any) -> Any:
        x = multiply_add(x, all_of(float_at(p.functions + first)), all_of(float_at(p.functions + second)))
        return at_least(at_most(x, all_of(_ONE)), all_of(_ZERO))

    if name != "other":
        return {"sigmoid": sigmoid, "tanh": tanh, "relu": relu, "hard_sigmoid": hard_sigmoid}[name]
    return _with_constants(_other_function(isa, False), role)


def _with_constants(function: Any, role: int) -> Any:
    start = OF_A_ROLE * role * FLOAT_BYTES

    @jit
    def other(p: TimeLoopParameters, x: Any) -> Any:
        at = p.functions + start
        return function(float_at(at), float_at(at + FLOAT_BYTES), float_at(at + 2 * FLOAT_BYTES), x)

    return other


@cache
def rest_of(name: str, isa: Isa) -> Any:
    """1 minus an activation's value: function(p, x, y) of its argument and its value. That of a sigmoid keeps its digits."""
    simd, rest_of_sigmoid = simd_of(isa), function_of("rest_of_sigmoid", isa)
    all_of, subtract = simd.all_of, simd.subtract

    @jit
    def of_argument(p: TimeLoopParameters, x: Any, y: Any) -> Any:
        return rest_of_sigmoid(x)

    @jit
    def of_value(p: TimeLoopParameters, x: Any, y: Any) -> Any:
        return subtract(all_of(_ONE), y)

    return of_argument if name == "sigmoid" else of_value


def slope(name: str, role: int, isa: Isa) -> Any:
    """The derivative of an activation: function(p, x, y) of its argument and its value. Those with a name read y only, others x only."""
    return _slope(name, role if name in _WITH_CONSTANTS else 0, isa)


@cache
def _slope(name: str, role: int, isa: Isa) -> Any:
    simd = simd_of(isa)
    all_of, multiply, where_above = simd.all_of, simd.multiply, simd.where_above
    add, subtract = simd.add, simd.subtract
    first = (OF_A_ROLE * role + 1) * FLOAT_BYTES

    @jit
    def tanh(p: TimeLoopParameters, x: Any, y: Any) -> Any:
        return multiply(subtract(all_of(_ONE), y), add(all_of(_ONE), y))  # 1 - y * y would lose digits where y is near 1

    @jit
    def sigmoid(p: TimeLoopParameters, x: Any, y: Any) -> Any:
        return multiply(subtract(all_of(_ONE), y), y)

    @jit
    def relu(p: TimeLoopParameters, x: Any, y: Any) -> Any:
        return where_above(y, all_of(_ZERO), all_of(_ONE))

    @jit
    def hard_sigmoid(p: TimeLoopParameters, x: Any, y: Any) -> Any:
        alpha = all_of(float_at(p.functions + first))
        return where_above(y, all_of(_ZERO), where_above(subtract(all_of(_ONE), y), all_of(_ZERO), alpha))

    if name != "other":
        return {"sigmoid": sigmoid, "tanh": tanh, "relu": relu, "hard_sigmoid": hard_sigmoid}[name]
    function = _with_constants(_other_function(isa, True), role)

    @jit
    def other(p: TimeLoopParameters, x: Any, y: Any) -> Any:
        return function(p, x)

    return other


GATE_0, GATE_1, GATE_2, GATE_3 = range(4)
"""Places in the desc's order."""


@cache
def clip_kernel(isa: Isa) -> Any:
    """Clips a gate's sum to the bounds, if there are some: clipped(p, x)."""
    simd = simd_of(isa)
    all_of, at_most, at_least = simd.all_of, simd.at_most, simd.at_least

    @jit
    def clipped(p: TimeLoopParameters, x: Any) -> Any:
        if p.clip > 0:
            bound = np.float32(p.clip)
            x = at_least(at_most(x, all_of(bound)), all_of(-bound))
        return x

    return clipped


@cache
def _mix_kernel(isa: Isa) -> Any:
    """The state of a GRU: mixed(z, h, n) is z h + (1 - z) n. The shorter z (h - n) + n loses digits where one is much larger."""
    simd = simd_of(isa)
    all_of, multiply, multiply_add, subtract = simd.all_of, simd.multiply, simd.multiply_add, simd.subtract

    @jit
    def mixed(z: Any, h: Any, n: Any) -> Any:
        return multiply_add(z, h, multiply(subtract(all_of(_ONE), z), n))

    return mixed


@cache
def store_part_kernel(isa: Isa) -> Any:
    """Writes as many of a vector's floats as belong to units of this block, of `count` units: put_part(count, address, block, value)."""
    simd = simd_of(isa)
    store, store_some, lanes = simd.store, simd.store_some, isa.lanes

    @jit
    def store_part(count: Any, address: Any, block: Any, value: Any) -> None:
        width = count - block * lanes
        if width >= lanes:
            store(address, value)
        else:
            store_some(address, value, width)

    return store_part


@cache
def reserve_kernels(isa: Isa) -> Any:
    """The writes to a reserve: keep_gate(p, time, block, sample, gate, value) and keep_state(p, slots, count, time, block, sample, value).

    A state has `count` units.
    """
    store_part, size = store_part_kernel(isa), simd_of(isa).size

    @jit
    def save_gate(p: LayerParameters, time: Any, block: Any, sample: Any, gate: Any, value: Any) -> None:
        if p.saved != 0:
            row = (time * p.saved_values + gate) * p.batch + sample
            store_part(p.hidden, p.saved + row * p.hidden * FLOAT_BYTES + block * size, block, value)

    @jit
    def save_state(p: LayerParameters, slots: Any, count: Any, time: Any, block: Any, sample: Any, value: Any) -> None:
        if slots != 0:
            store_part(count, slots + (time * p.batch + sample) * count * FLOAT_BYTES + block * size, block, value)

    return save_gate, save_state


@cache
def put_kernel(stored: Storage, isa: Isa) -> Any:
    """Writes h to the new state, with each gate's dropout, and, where they exist, to the reserve and to the output.

    The kernel is put(p, time, block, row, sample, new, value, shown), where `shown` is the value for the output.

    Args:
        stored: the type of the output's elements.
        isa: the instruction set that it is compiled for.
    """
    simd, output = simd_of(isa), load_store_of(stored, isa)
    load, store, multiply, size, lanes = simd.load, simd.store, simd.multiply, simd.size, isa.lanes
    show, shown_size = output.store, output.size * isa.lanes
    _, save_state = reserve_kernels(isa)

    @jit
    def put(p: LayerParameters, time: Any, block: Any, row: Any, sample: Any, new: Any, value: Any, shown: Any) -> None:
        at = new + row * p.state_row + block * size
        store(at, value)
        if p.state_dropout != 0:
            multipliers = p.state_dropout + sample * p.state_gates * p.state_gate + block * size
            for gate in range(p.state_gates):
                multiplier = load(multipliers + gate * p.state_gate)
                store(at + (gate + 1) * p.state_gate, multiply(value, multiplier))
        if p.output != 0:
            of_sample = p.output + time * p.output_step + sample * p.output_row
            show(of_sample + block * shown_size, shown, p.entries - block * lanes)
        save_state(p, p.saved_hidden, p.entries, time, block, sample, value)

    return put


@jit
def skip_of(p: TimeLoopParameters, time: Any, sample: Any) -> Any:
    """The mask's entry for a step of a sample: 0 if it takes the step, or without a mask."""
    return integer_at(p.skips + 8 * (time * p.batch + sample)) if p.skips != 0 else 0


@cache
def pass_kernels(stored: Storage, isa: Isa) -> tuple[Any, Any]:
    """The results of a skipped step.

    pass_state(p, time, block, row, old, new) carries h and writes zeros or h to the output. pass_cell, with the same arguments, carries the
    cell state, saves zeros for the gates, and also does the work of pass_state unless a second stage computes h.
    """
    simd = simd_of(isa)
    load, all_of, size, put = simd.load, simd.all_of, simd.size, put_kernel(stored, isa)
    save_gate, save_state = reserve_kernels(isa)

    @jit
    def pass_state(p: LayerParameters, time: Any, block: Any, row: Any, old: Any, new: Any) -> None:
        sample, h = integer_at(p.order + 8 * row), load(old + row * p.state_row + block * size)
        put(p, time, block, row, sample, new, h, h if skip_of(p, time, sample) == REPEATS else all_of(_ZERO))

    @jit
    def pass_cell(p: LayerParameters, time: Any, block: Any, row: Any, old: Any, new: Any) -> None:
        sample = integer_at(p.order + 8 * row)
        for gate in range(p.saved_values):
            save_gate(p, time, block, sample, gate, all_of(_ZERO))
        if p.saved_memory != 0:
            memory = p.memory + row * p.memory_row + block * size
            save_state(p, p.saved_memory, p.hidden, time, block, sample, load(memory))
        if p.projection == 0:
            pass_state(p, time, block, row, old, new)

    return pass_state, pass_cell


def rnn_kernel(functions: tuple[str, ...], stored: Storage, isa: Isa) -> Any:
    """The step of RNN."""
    load, put = simd_of(isa).load, put_kernel(stored, isa)
    f, saves_argument = activation(functions[0], 0, isa), functions[0] == "other"
    save_gate, _ = reserve_kernels(isa)

    @jit
    def rnn(p: LayerParameters, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, total = integer_at(p.order + 8 * row), load(sums)
        h = f(p, total)
        save_gate(p, time, block, sample, GATE_0, total if saves_argument else h)
        put(p, time, block, row, sample, new, h, h)

    return rnn


@cache
def _reserve_prefetch(isa: Isa) -> Any:
    """Prefetches what the step after the one of `time` writes to an LSTM's reserve, if there is one: prefetch(p, time, block, sample).

    The reserve is larger than a core's caches, and a step writes six pieces of it for each unit, which processors do not foresee.
    """
    size = simd_of(isa).size

    @jit
    def prefetch(p: LayerParameters, time: Any, block: Any, sample: Any) -> None:
        if p.saved != 0:
            row = (time - 1 if p.backward != 0 else time + 1) * p.batch
            width, start = p.hidden * FLOAT_BYTES, block * size
            for gate in range(4):
                prefetch_to_write(p.saved + (row * 4 + gate * p.batch + sample) * width + start)
            prefetch_to_write(p.saved_memory + (row + sample) * width + start)
            prefetch_to_write(p.saved_hidden + (row + sample) * p.entries * FLOAT_BYTES + start)

    return prefetch


def lstm_kernel(functions: tuple[str, ...], stored: Storage, isa: Isa) -> Any:
    """The step of LSTM; with a projection h follows in the next stage."""
    simd, put, clipped = simd_of(isa), put_kernel(stored, isa), clip_kernel(isa)
    load, store, all_of, size = simd.load, simd.store, simd.all_of, simd.size
    multiply, multiply_add, rest = simd.multiply, simd.multiply_add, rest_of(functions[0], isa)
    f, g, h = (activation(name, role, isa) for role, name in enumerate(functions))
    f_argument, g_argument = (name == "other" for name in functions[:2])
    (save_gate, save_state), prefetch = reserve_kernels(isa), _reserve_prefetch(isa)

    @jit
    def save(p: LayerParameters, time: Any, block: Any, sample: Any, gate: Any, total: Any, value: Any, argument: Any) -> None:
        save_gate(p, time, block, sample, gate, total if argument or p.clip > 0 else value)

    @jit
    def lstm(p: LayerParameters, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, at = integer_at(p.order + 8 * row), row * p.memory_row + block * size
        input_sum, output_sum = load(sums), load(sums + size)
        forget_sum, candidate_sum = load(sums + 2 * size), load(sums + 3 * size)
        c = load(p.memory + at)
        peephole = p.peephole + 3 * block * size
        if p.peephole != 0:
            input_sum = multiply_add(load(peephole), c, input_sum)
            forget_sum = multiply_add(load(peephole + 2 * size), c, forget_sum)
        input_gate, candidate = f(p, clipped(p, input_sum)), g(p, clipped(p, candidate_sum))
        save(p, time, block, sample, GATE_0, input_sum, input_gate, f_argument)
        save(p, time, block, sample, GATE_3, candidate_sum, candidate, g_argument)
        if p.couple != 0:
            forget_gate = rest(p, clipped(p, input_sum), input_gate)
            save_gate(p, time, block, sample, GATE_2, all_of(_ZERO))
        else:
            forget_gate = f(p, clipped(p, forget_sum))
            save(p, time, block, sample, GATE_2, forget_sum, forget_gate, f_argument)
        c = multiply_add(forget_gate, c, multiply(input_gate, candidate))
        store(p.memory + at, c)
        save_state(p, p.saved_memory, p.hidden, time, block, sample, c)
        if p.peephole != 0:
            output_sum = multiply_add(load(peephole + size), c, output_sum)
        output_gate = f(p, clipped(p, output_sum))
        save(p, time, block, sample, GATE_1, output_sum, output_gate, f_argument)
        output = multiply(output_gate, h(p, c))
        prefetch(p, time, block, sample)
        if p.projection != 0:
            store(p.cell_output + at, output)
        else:
            put(p, time, block, row, sample, new, output, output)

    return lstm


def projection_kernel(stored: Storage, isa: Isa) -> Any:
    """The rest of an LSTM's step with a projection, after the product."""
    load, put = simd_of(isa).load, put_kernel(stored, isa)

    @jit
    def project(p: LayerParameters, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        h = load(sums)
        put(p, time, block, row, integer_at(p.order + 8 * row), new, h, h)

    return project


def gru_kernel(functions: tuple[str, ...], stored: Storage, isa: Isa) -> Any:
    """The step of a GRU whose reset gate comes after the product. The sums exclude the input's part."""
    simd, put, mixed = simd_of(isa), put_kernel(stored, isa), _mix_kernel(isa)
    load, add, multiply_add, size = simd.load, simd.add, simd.multiply_add, simd.size
    f, g = (activation(name, role, isa) for role, name in enumerate(functions))
    f_argument, g_argument = (name == "other" for name in functions)
    save_gate, _ = reserve_kernels(isa)

    @jit
    def gru(p: LayerParameters, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, h = integer_at(p.order + 8 * row), load(old + row * p.state_row + block * size)
        product = load(sums + 2 * size)
        z_sum, r_sum = add(load(sums), load(parts)), add(load(sums + size), load(parts + size))
        z, r = f(p, z_sum), f(p, r_sum)
        n_sum = multiply_add(r, product, load(parts + 2 * size))
        n = g(p, n_sum)
        save_gate(p, time, block, sample, GATE_0, z_sum if f_argument else z)
        save_gate(p, time, block, sample, GATE_1, r_sum if f_argument else r)
        save_gate(p, time, block, sample, GATE_2, n_sum if g_argument else n)
        save_gate(p, time, block, sample, GATE_3, product)
        h = mixed(z, h, n)
        put(p, time, block, row, sample, new, h, h)

    return gru


def gru_gates_kernel(functions: tuple[str, ...], isa: Isa) -> Any:
    """The gates of a GRU whose reset gate comes before the product: z, and the product's operand: h times r, with dropout."""
    simd = simd_of(isa)
    load, store, multiply, size = simd.load, simd.store, simd.multiply, simd.size
    f, argument = activation(functions[0], 0, isa), functions[0] == "other"
    save_gate, _ = reserve_kernels(isa)

    @jit
    def gru_gates(p: LayerParameters, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, at = integer_at(p.order + 8 * row), row * p.memory_row + block * size
        z_sum, r_sum = load(sums), load(sums + size)
        z, r = f(p, z_sum), f(p, r_sum)
        product = multiply(r, load(old + row * p.state_row + block * size))
        if p.candidate_dropout != 0:
            product = multiply(product, load(p.candidate_dropout + sample * p.memory_row + block * size))
        save_gate(p, time, block, sample, GATE_0, z_sum if argument else z)
        save_gate(p, time, block, sample, GATE_1, r_sum if argument else r)
        store(p.update + at, z)
        store(p.reset + at, product)

    return gru_gates


def gru_candidate_kernel(functions: tuple[str, ...], stored: Storage, isa: Isa) -> Any:
    """The rest of that GRU's step, after the product."""
    put, mixed = put_kernel(stored, isa), _mix_kernel(isa)
    load, size = simd_of(isa).load, simd_of(isa).size
    g, argument = activation(functions[1], 1, isa), functions[1] == "other"
    save_gate, _ = reserve_kernels(isa)

    @jit
    def gru_candidate(p: LayerParameters, time: Any, block: Any, row: Any, parts: Any, sums: Any, old: Any, new: Any) -> None:
        sample, start, n_sum = integer_at(p.order + 8 * row), block * size, load(sums)
        n = g(p, n_sum)
        save_gate(p, time, block, sample, GATE_2, n_sum if argument else n)
        z, h = load(p.update + row * p.memory_row + start), load(old + row * p.state_row + start)
        h = mixed(z, h, n)
        put(p, time, block, row, sample, new, h, h)

    return gru_candidate
