"""One step of RNN, LSTM and GRU in NumPy, over arrays [gate rows, batch] bound in advance: a step only calls ufuncs and allocates nothing.

All values of a step are blocks [H, B], one after the other in one array, so that what is done to neighbours takes one call.
`block_names` says which blocks there are. The gates' sums are taken in separate blocks, and without a reserve everything is computed
in them. With one a step leaves there what the gradient needs: each gate's value, or its argument where the derivative follows from that
only; such a gate's value then goes to another block. The calls are the same.

Weights of sigmoid gates are packed with the sign changed. Then exp(sum) + 1 is the reciprocal of the gate, and dividing by it takes fewer
calls than to compute the gate and to multiply, and rounds less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.numpy.recurrent.products import direct_product, product

if TYPE_CHECKING:
    from dmlpy.devices.numpy.activation.formulas import Activation
    from dmlpy.operators.recurrent.layer import RecurrentCell

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Call = Callable[[], object]

Step = Callable[..., None]
"""One step of the cell: takes the input's parts of the sums, changes the states in place."""


def packed_gates(cell: RecurrentCell) -> tuple[int, ...]:
    """The gates that are computed, in storage order.

    LSTM stores o, i, f, c: o, i, f share an activation, and i, f, c are summed before o where peepholes let o see the new cell state.
    With coupled gates f is not computed at all.
    """
    if cell.kind == "LSTM":
        return (1, 0, 3) if cell.couple_input_forget else (1, 0, 2, 3)
    return tuple(range(cell.gates))


def block_names(cell: RecurrentCell, keeps: bool, keeps_arguments: bool) -> list[str]:
    """The blocks of a step, in order; h follows them.

    What two blocks become together lies before them or takes their place: NumPy copies arrays of which it cannot tell quickly that they
    do not overlap.

    Args:
        cell: the options.
        keeps: whether there is a reserve.
        keeps_arguments: whether it takes arguments of gates.
    """
    gates = len(packed_gates(cell))
    values = [f"value {gate}" for gate in range(gates)] if keeps_arguments else []
    sums = [f"sum {gate}" for gate in range(gates)]
    products = ["product", "second product"][: 2 if keeps else int(cell.projection)]
    if cell.kind == "RNN":
        return [*sums, *values]
    if cell.kind == "LSTM":
        return [*products, *(["forget"] if cell.couple_input_forget else []), *sums, *values, "cell"]
    recurrent_part = ["recurrent part"] if keeps and cell.resets_last else []
    return [*products, "complement", *sums, *recurrent_part, *values]


@dataclass(frozen=True)
class CellArrays:
    """The arrays of a step.

    Attributes:
        cell: the options.
        hidden: H.
        activations: f, then g, then h.
        keeps: whether the sums hold what the gradient needs after a step.
        keeps_argument: for each activation that is kept, whether it is its argument.
        sigmoid: whether f is the sigmoid, which of -x is 1 less that of x.
        reciprocal: whether the gates' sums have the sign changed, and gates are computed as their reciprocals.
        direct: whether products are taken some rows at a time.
        names: of the blocks.
        constants: the packed constants of one direction.
        scratch: the scratch of the walk; `step` holds the blocks and h.
    """

    cell: RecurrentCell
    hidden: int
    activations: Sequence[Activation]
    keeps: bool
    keeps_argument: Sequence[bool]
    sigmoid: bool
    reciprocal: bool
    direct: bool
    names: Sequence[str]
    constants: Arrays
    scratch: Arrays

    def flat(self, first: str, count: int = 1) -> Array:
        """Some blocks as a flat array [count * H * B]."""
        at, size = self._place(first), self.hidden * self.h.shape[1]
        return self._step[at * size : (at + count) * size]

    def rows(self, first: str, count: int = 1) -> Array:
        """Some blocks as [count * H, B]."""
        return self.flat(first, count).reshape(count * self.hidden, -1)

    def pair(self, first: str, second: str) -> Array:
        """Two blocks, one of which may be h, as an array [2, H * B]."""
        size = self.hidden * self.h.shape[1]
        blocks = self._step[: self._step.size // size * size].reshape(-1, size)
        at, other = self._place(first), self._place(second)
        return blocks[at :: other - at][:2]

    @property
    def _step(self) -> Array:
        step: Array = self.scratch["step"].reshape(-1)
        return step

    def _place(self, name: str) -> int:
        return len(self.names) if name == "h" else self.names.index(name)

    @property
    def h(self) -> Array:
        """The state h, [S, B]."""
        return self.scratch["step"][len(self.names) * self.hidden :]

    def value(self, role: int, gate: int) -> str:
        """The block that receives a gate's value by this activation."""
        return f"{'value' if self.keeps_argument[role] else 'sum'} {gate}"

    def activate(self, role: int, x: Array, out: Array) -> Call:
        """Applies an activation, or the gates' reciprocal, from one flat array to another, which may be the same."""
        if role == 0 and self.reciprocal:
            return partial(_reciprocal_of_logistic, x, out, np.array(1.0, x.dtype))
        x = out if x.ctypes.data == out.ctypes.data else x
        return self.activations[role].bind(x, out, self.scratch["work"], self.scratch["mask"])

    def recurrent_product(self, block: str, state: Array, sums: Array, gates: slice) -> Call:
        """The state's part of the sums: one product for all gates, or with dropout one per gate."""
        matrix = self.constants[block]
        if "state_dropout" not in self.scratch:
            return product(matrix, state, sums, direct=self.direct)
        (entries, batch), multipliers, dropped = state.shape, self.scratch["state_dropout"][gates], self.scratch["dropped_state"][gates]
        count, flat = len(multipliers), state.reshape(-1)
        multipliers, dropped_flat = multipliers.reshape(count, -1), dropped.reshape(count, -1)
        multiply: Call
        if batch == 1:
            matrices = matrix.reshape(entries, count, -1).swapaxes(0, 1)
            multiply = partial(np.matmul, dropped.reshape(count, 1, entries), matrices, sums.reshape(count, 1, -1))
        else:
            operands = matrix.reshape(count, -1, entries), dropped, sums.reshape(count, -1, batch)
            multiply = direct_product(*operands) if self.direct else partial(np.matmul, *operands)

        def multiply_dropped() -> None:
            np.multiply(flat, multipliers, dropped_flat)
            multiply()

        return multiply_dropped


def _reciprocal_of_logistic(x: Array, out: Array, one: Array) -> None:
    """Computes 1 + exp(x), the reciprocal of 1 / (1 + exp(x)); `out` may be `x`."""
    np.exp(x, out)  # may overflow, which is right: a value divided by infinity is 0
    np.add(out, one, out)


def cell_step(arrays: CellArrays) -> Step:
    """The step of a cell, bound to its arrays."""
    step = {"RNN": _rnn_step, "LSTM": _lstm_step, "GRU": _gru_step}[arrays.cell.kind](arrays)
    if not (arrays.keeps and arrays.reciprocal):
        return step
    restore = _restoration(arrays)

    def restoring_step(*parts: Array) -> None:
        step(*parts)
        restore()

    return restoring_step


def _restoration(arrays: CellArrays) -> Call:
    """Converts the gates' reciprocals, or arguments with the sign changed, to the values that the reserve keeps."""
    gates = len(packed_gates(arrays.cell)) - 1
    if arrays.keeps_argument[0]:
        sums = arrays.flat("sum 0", gates)
        return partial(np.multiply, sums, np.array(-1.0, sums.dtype), sums)
    first = 1 if arrays.cell.kind == "GRU" else 0  # the step itself needs z
    values = arrays.flat(f"sum {first}", gates - first)
    return partial(np.divide, np.array(1.0, values.dtype), values, values)


def _rnn_step(arrays: CellArrays) -> Step:
    sums_2d, state = arrays.rows("sum 0"), arrays.h
    sums, h = arrays.flat("sum 0"), state.reshape(-1)
    multiply_recurrent = arrays.recurrent_product("recurrence", state, sums_2d, slice(None))
    if not arrays.keeps or arrays.keeps_argument[0]:
        activate = arrays.activate(0, sums, h)

        def step(x: Array) -> None:
            multiply_recurrent()
            np.add(sums, x, sums)
            activate()

        return step

    activate_in_place = arrays.activate(0, sums, sums)

    def value_keeping_step(x: Array) -> None:
        multiply_recurrent()
        np.add(sums, x, sums)
        activate_in_place()
        np.copyto(h, sums)

    return value_keeping_step


def _lstm_step(arrays: CellArrays) -> Step:
    cell, scratch, keeps = arrays.cell, arrays.scratch, arrays.keeps
    coupled, last = cell.couple_input_forget, len(packed_gates(cell)) - 1
    sums, c, h_state = arrays.flat("sum 0", last + 1), arrays.flat("cell"), arrays.h

    o_block, i_block, candidate_block = arrays.value(0, 0), arrays.value(0, 1), arrays.value(1, last)
    forget_block = "forget" if coupled else arrays.value(0, 2)
    o, i, forget = (arrays.flat(name) for name in (o_block, i_block, forget_block))
    gates, gated = arrays.pair(i_block, forget_block), arrays.pair(candidate_block, "cell")
    parts = arrays.pair("product", "second product") if keeps else gates
    scale = np.divide if arrays.reciprocal else np.multiply
    cell_output_2d = arrays.rows("product") if cell.projection else h_state
    cell_output = cell_output_2d.reshape(-1)
    multiply_recurrent = arrays.recurrent_product("recurrence", h_state, arrays.rows("sum 0", last + 1), slice(None))

    def activated(first: int, stop: int) -> list[Call]:
        """Clips and activates some gates, i with what is coupled to it. With a reserve the clipped sums lie where the values go."""
        some = sums[first * c.size : stop * c.size]
        role = 0 if stop <= last else 1
        values = arrays.flat(arrays.value(role, first), stop - first)
        clipped = [] if cell.clip is None else _clip(some, values, cell.clip)
        arguments = values if clipped else some
        activate = arrays.activate(role, arguments, values)
        if not coupled or not first <= 1 < stop:
            return [*clipped, activate]
        if not arrays.sigmoid:
            return [*clipped, activate, partial(np.subtract, np.array(1.0, c.dtype), i, forget)]
        of_input = arguments[(1 - first) * c.size :][: c.size]
        mirror = partial(np.multiply, of_input, np.array(-1.0, c.dtype), forget)  # 1 - i would lose the digits of a gate that shuts
        return [*clipped, mirror, arrays.activate(0, forget, forget), activate]

    calls: list[Call] = []
    if cell.peephole:
        input_sums = sums[c.size : last * c.size].reshape(-1, c.size)
        peephole = scratch["peephole"].reshape(3, c.size)
        products = scratch["peephole_product"].reshape(2, c.size)[: len(input_sums)]
        calls += [
            partial(np.multiply, peephole[1 : 1 + len(input_sums)], c, products),
            partial(np.add, input_sums, products, input_sums),
        ]
    calls += [*activated(1 if cell.peephole else 0, last), *activated(last, last + 1)]
    calls += [partial(scale, gated, gates, parts), partial(np.add, parts[0], parts[1], c)]
    if cell.peephole:
        output_sums = sums[: c.size]
        calls += [
            partial(np.multiply, peephole[0], c, products[0]),
            partial(np.add, output_sums, products[0], output_sums),
            *activated(0, 1),
        ]
    calls += [arrays.activate(2, c, cell_output), partial(scale, cell_output, o, cell_output)]
    if cell.projection:
        calls.append(product(arrays.constants["projection"], cell_output_2d, h_state, direct=arrays.direct))

    def step(x: Array) -> None:
        multiply_recurrent()
        np.add(sums, x, sums)
        for call in calls:
            call()

    return step


def _clip(sums: Array, clipped: Array, bound: float) -> list[Call]:
    low, high = (np.array(value, sums.dtype) for value in (-bound, bound))
    return [partial(np.minimum, sums, high, out=clipped), partial(np.maximum, clipped, low, out=clipped)]


def _gru_step(arrays: CellArrays) -> Step:
    cell, scratch, keeps = arrays.cell, arrays.scratch, arrays.keeps
    h_state, complement, one = arrays.h, arrays.flat("complement"), np.array(1.0, arrays.h.dtype)
    h, gate_sums, candidate_sums = h_state.reshape(-1), arrays.flat("sum 0", 2), arrays.flat("sum 2")
    update_block, value_block = arrays.value(0, 0), arrays.value(1, 2)
    gates, update, reset = arrays.flat(update_block, 2), arrays.flat(update_block), arrays.flat(arrays.value(0, 1))
    mixed, weights = arrays.pair(value_block, "h"), arrays.pair("complement", update_block)
    parts = arrays.pair("product", "second product") if keeps else weights
    scale = np.divide if arrays.reciprocal else np.multiply

    first: list[Call] = [arrays.activate(0, gate_sums, gates)]
    if cell.linear_before_reset:
        multiply_recurrent = arrays.recurrent_product("recurrence", h_state, arrays.rows("sum 0", 3), slice(None))
        recurrent_part = arrays.flat("recurrent part") if keeps else candidate_sums
        if "hidden_bias" in scratch:
            first.append(partial(np.add, candidate_sums, scratch["hidden_bias"].reshape(-1), recurrent_part))
        elif keeps:
            first.append(partial(np.copyto, recurrent_part, candidate_sums))
        first.append(partial(scale, recurrent_part, reset, candidate_sums))
    else:
        multiply_recurrent = arrays.recurrent_product("recurrence", h_state, arrays.rows("sum 0", 2), slice(0, 2))
        first += [
            partial(scale, h, reset, complement),
            arrays.recurrent_product("candidate_recurrence", arrays.rows("complement"), arrays.rows("sum 2"), slice(2, 3)),
        ]
    then: list[Call] = [arrays.activate(1, candidate_sums, arrays.flat(value_block))]
    if arrays.reciprocal:
        then.append(partial(np.divide, one, update, update))
    then += [
        partial(np.subtract, one, update, complement),
        partial(np.multiply, mixed, weights, parts),
        partial(np.add, parts[0], parts[1], h),
    ]

    def step(x_gates: Array, x_candidate: Array) -> None:
        multiply_recurrent()
        np.add(gate_sums, x_gates, gate_sums)
        for call in first:
            call()
        np.add(candidate_sums, x_candidate, candidate_sums)
        for call in then:
            call()

    return step
