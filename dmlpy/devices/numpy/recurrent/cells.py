"""One step of RNN, LSTM and GRU in NumPy, over arrays [gate rows, batch] that are chosen once: a step calls ufuncs and allocates nothing.

`sums` takes the gates' sums, and without a reserve everything is computed in it. With one a step leaves there what the gradient needs:
each gate's value, or its argument where the derivative follows from that only; such a gate's value then goes to `values`. The calls are
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dmlpy.devices.numpy.activation.formulas import Activation
from dmlpy.operators.recurrent.layer import RecurrentCell

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Call = Callable[[], object]

Step = Callable[..., None]
"""One step of the cell: takes the input's parts of the sums, changes the states in place."""


def packed_gates(cell: RecurrentCell) -> tuple[int, ...]:
    """The gates that are computed, in the order in which they are stored.

    LSTM stores o, i, f, c: o, i, f share an activation, and i, f, c are summed before o where peepholes let o see the new cell state.
    With coupled gates f is not computed at all.
    """
    if cell.kind == "LSTM":
        return (1, 0, 3) if cell.couple_input_forget else (1, 0, 2, 3)
    return tuple(range(cell.gates))


def product(matrix: Array, state: Array, out: Array) -> Call:
    """out = matrix state, for a matrix as packed: [rows, state], or transposed for a batch of one."""
    if state.shape[1] == 1:
        return partial(np.dot, state.reshape(-1), matrix, out.reshape(-1))
    return partial(np.dot, matrix, state, out)


@dataclass(frozen=True)
class CellArrays:
    """What a step is made of.

    Attributes:
        cell: the options.
        hidden: H.
        activations: f, then g, then h.
        keeps: whether `sums` holds what the gradient needs after a step.
        keeps_argument: for each activation that is kept, whether it is its argument.
        constants: the packed constants of one direction.
        scratch: the scratch of the walk; `state` [S, B], or [S + H, B] with a cell state below h.
    """

    cell: RecurrentCell
    hidden: int
    activations: Sequence[Activation]
    keeps: bool
    keeps_argument: Sequence[bool]
    constants: Arrays
    scratch: Arrays

    @property
    def h(self) -> Array:
        """[S, B]."""
        state = self.scratch["state"]
        return state[: -self.hidden] if self.cell.has_memory else state

    @property
    def c(self) -> Array:
        """[H, B]."""
        return self.scratch["state"][-self.hidden :]

    def values(self, role: int) -> Array:
        """Where the values of the gates with this activation go, [gate rows, B]."""
        return self.scratch["values" if self.keeps_argument[role] else "sums"]

    def activate(self, role: int, x: Array, out: Array) -> Call:
        """The activation from one array to another, both of any shape, contiguous and either the same or apart."""
        flat = out.reshape(-1)
        return self.activations[role].bind(flat if x is out else x.reshape(-1), flat, self.scratch["work"], self.scratch["mask"])

    def recurrent_product(self, block: str, state: Array, sums: Array, gates: slice) -> Call:
        """The sums' part that comes from the state: one product for all gates, or with dropout one for each gate."""
        matrix = self.constants[block]
        if "state_dropout" not in self.scratch:
            return product(matrix, state, sums)
        (entries, batch), multipliers, dropped = state.shape, self.scratch["state_dropout"][gates], self.scratch["dropped_state"][gates]
        count, flat = len(multipliers), state.reshape(-1)
        multipliers, dropped_flat = multipliers.reshape(count, -1), dropped.reshape(count, -1)
        if batch == 1:
            matrices = matrix.reshape(entries, count, -1).swapaxes(0, 1)
            multiply = partial(np.matmul, dropped.reshape(count, 1, entries), matrices, sums.reshape(count, 1, -1))
        else:
            matrices = matrix.reshape(count, -1, entries)
            multiply = partial(np.matmul, matrices, dropped, sums.reshape(count, -1, batch))

        def multiply_dropped() -> None:
            np.multiply(flat, multipliers, dropped_flat)
            multiply()

        return multiply_dropped


def cell_step(arrays: CellArrays) -> Step:
    """The step of a cell, bound to its arrays."""
    return {"RNN": _rnn_step, "LSTM": _lstm_step, "GRU": _gru_step}[arrays.cell.kind](arrays)


def _rnn_step(arrays: CellArrays) -> Step:
    sums, state = arrays.scratch["sums"], arrays.h
    sums_flat, h = sums.reshape(-1), state.reshape(-1)
    multiply_recurrent = arrays.recurrent_product("recurrence", state, sums, slice(None))
    if not arrays.keeps or arrays.keeps_argument[0]:
        activate = arrays.activate(0, sums, state)

        def step(x: Array) -> None:
            multiply_recurrent()
            np.add(sums_flat, x, sums_flat)
            activate()

        return step

    activate_in_place = arrays.activate(0, sums, sums)

    def value_keeping_step(x: Array) -> None:
        multiply_recurrent()
        np.add(sums_flat, x, sums_flat)
        activate_in_place()
        np.copyto(h, sums_flat)

    return value_keeping_step


def _lstm_step(arrays: CellArrays) -> Step:
    cell, scratch, hidden = arrays.cell, arrays.scratch, arrays.hidden
    sums, h_state, c_state = scratch["sums"], arrays.h, arrays.c
    flat, c, size = sums.reshape(-1), c_state.reshape(-1), c_state.size
    coupled, clips, bound = cell.couple_input_forget, cell.clip is not None, cell.clip or 0.0
    one, low, high = (np.array(value, sums.dtype) for value in (1.0, -bound, bound))

    gate_values, candidate_value = arrays.values(0)[:-hidden], arrays.values(1)[-hidden:]
    o, i, candidate = gate_values[:hidden].reshape(-1), gate_values[hidden : 2 * hidden].reshape(-1), candidate_value.reshape(-1)
    forget = scratch["forget"] if coupled else gate_values[2 * hidden :].reshape(-1)
    weighted = scratch["product"].reshape(-1) if arrays.keeps else i
    cell_output_2d = scratch["product"] if cell.projection else h_state
    cell_output = cell_output_2d.reshape(-1)

    multiply_recurrent = arrays.recurrent_product("recurrence", h_state, sums, slice(None))
    activate_cell = arrays.activate(2, c_state, cell_output_2d)
    project = product(arrays.constants["projection"], cell_output_2d, h_state) if cell.projection else None

    def activate_gates_of(role: int, rows: slice) -> Call:
        # Clipped sums lie where the values go.
        values, own_sums = arrays.values(role)[rows], sums[rows]
        return arrays.activate(role, values if clips or not arrays.keeps_argument[role] else own_sums, values)

    activate_candidate = activate_gates_of(1, slice(-hidden, None))

    def clip(sums: Array, clipped: Array) -> None:
        np.minimum(sums, high, out=clipped)
        np.maximum(clipped, low, out=clipped)

    def update_cell() -> None:
        if coupled:
            np.subtract(one, i, forget)
        np.multiply(c, forget, c)
        np.multiply(i, candidate, weighted)
        np.add(c, weighted, c)

    clipped = arrays.values(0).reshape(-1) if arrays.keeps else flat
    if not cell.peephole:
        activate_gates = activate_gates_of(0, slice(0, -hidden))

        def step(x: Array) -> None:
            multiply_recurrent()
            np.add(flat, x, flat)
            if clips:
                clip(flat, clipped)
            activate_gates()
            activate_candidate()
            update_cell()
            activate_cell()
            np.multiply(cell_output, o, cell_output)
            if project is not None:
                project()

        return step

    before, output_sums = flat[size:], flat[:size]
    before_clipped, output_clipped = (clipped[size:], clipped[:size]) if arrays.keeps else (before, output_sums)
    input_gates_2d = flat[size:-size].reshape(-1, size)
    peephole = scratch["peephole"].reshape(3, size)
    output_peephole, input_peepholes = peephole[0], peephole[1 : 1 + len(input_gates_2d)]
    peephole_product = scratch["peephole_product"].reshape(2, size)[: len(input_gates_2d)]
    output_product = peephole_product[0]
    activate_input_gates = activate_gates_of(0, slice(hidden, -hidden))
    activate_output_gate = activate_gates_of(0, slice(0, hidden))

    def peephole_step(x: Array) -> None:
        multiply_recurrent()
        np.add(flat, x, flat)
        np.multiply(input_peepholes, c, peephole_product)
        np.add(input_gates_2d, peephole_product, input_gates_2d)
        if clips:
            clip(before, before_clipped)
        activate_input_gates()
        activate_candidate()
        update_cell()
        np.multiply(output_peephole, c, output_product)
        np.add(output_sums, output_product, output_sums)
        if clips:
            clip(output_sums, output_clipped)
        activate_output_gate()
        activate_cell()
        np.multiply(cell_output, o, cell_output)
        if project is not None:
            project()

    return peephole_step


def _gru_step(arrays: CellArrays) -> Step:
    cell, scratch, hidden, keeps = arrays.cell, arrays.scratch, arrays.hidden, arrays.keeps
    sums, h_state = scratch["sums"], arrays.h
    h, one = h_state.reshape(-1), np.array(1.0, sums.dtype)
    gate_sums, candidate_sums = sums[: 2 * hidden], sums[2 * hidden : 3 * hidden]
    gate_values, candidate_value = gate_sums, candidate_sums
    if arrays.keeps_argument[0]:
        gate_values = scratch["values"][: 2 * hidden]
    if arrays.keeps_argument[1]:
        candidate_value = scratch["values"][2 * hidden :]
    reset_value = gate_values[hidden:]
    gates, update, reset = gate_sums.reshape(-1), gate_values[:hidden].reshape(-1), reset_value.reshape(-1)
    candidate, value = candidate_sums.reshape(-1), candidate_value.reshape(-1)
    # Without a reserve r and n are overwritten once they are used.
    spare = scratch["product"] if keeps else reset_value
    complement = spare.reshape(-1) if keeps else reset
    weighted = complement if keeps else value
    activate_gates = arrays.activate(0, gate_sums, gate_values)
    activate_candidate = arrays.activate(1, candidate_sums, candidate_value)

    def interpolate() -> None:
        np.subtract(one, update, complement)
        np.multiply(value, complement, weighted)
        np.multiply(h, update, h)
        np.add(h, weighted, h)

    if cell.linear_before_reset:
        multiply_recurrent = arrays.recurrent_product("recurrence", h_state, sums[: 3 * hidden], slice(None))
        hidden_bias = scratch["hidden_bias"].reshape(-1) if "hidden_bias" in scratch else None
        recurrent_part = sums[3 * hidden :].reshape(-1) if keeps else candidate

        def step(x_gates: Array, x_candidate: Array) -> None:
            multiply_recurrent()
            np.add(gates, x_gates, gates)
            activate_gates()
            if hidden_bias is not None:
                np.add(candidate, hidden_bias, recurrent_part)
            elif keeps:
                np.copyto(recurrent_part, candidate)
            np.multiply(recurrent_part, reset, candidate)
            np.add(candidate, x_candidate, candidate)
            activate_candidate()
            interpolate()

        return step

    multiply_gates = arrays.recurrent_product("recurrence", h_state, gate_sums, slice(0, 2))
    multiply_candidate = arrays.recurrent_product("candidate_recurrence", spare, candidate_sums, slice(2, 3))

    def step_reset_first(x_gates: Array, x_candidate: Array) -> None:
        multiply_gates()
        np.add(gates, x_gates, gates)
        activate_gates()
        np.multiply(reset, h, complement)
        multiply_candidate()
        np.add(candidate, x_candidate, candidate)
        activate_candidate()
        interpolate()

    return step_reset_first
