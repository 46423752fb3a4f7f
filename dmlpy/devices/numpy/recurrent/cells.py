"""One step of RNN, LSTM and GRU in NumPy, over arrays [gate rows, batch] bound in advance: a step only calls ufuncs and allocates nothing.

All values of a step are blocks [H, B], one after the other in one array, so that an operation on adjacent blocks is one call.
`block_names` lists the blocks. Gates are computed in the blocks of their sums.

Weights of sigmoid gates are packed with the sign changed. Then exp(sum) + 1 is the reciprocal of the gate, and dividing by it takes fewer
calls than to compute the gate and to multiply, and rounds less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.numpy.recurrent.products import product

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


def block_names(cell: RecurrentCell) -> list[str]:
    """The blocks of a step, in order; h follows them.

    Results of two adjacent blocks lie before them or replace them: NumPy copies arrays unless it can prove quickly that they
    do not overlap.
    """
    sums = [f"sum {gate}" for gate in range(len(packed_gates(cell)))]
    if cell.kind == "RNN":
        return sums
    if cell.kind == "LSTM":
        return [*(["forget"] if cell.couple_input_forget else []), *sums, "cell"]
    return ["complement", *sums]


@dataclass(frozen=True)
class CellArrays:
    """The arrays of a step.

    Attributes:
        cell: the options.
        hidden: H.
        activations: f, then g, then h.
        sigmoid: whether f is the sigmoid, whose value at -x is 1 minus that at x.
        reciprocal: whether the gates' sums have the sign changed, and gates are computed as their reciprocals.
        direct: whether products are computed some rows at a time.
        names: of the blocks.
        constants: the packed constants of one direction.
        scratch: the scratch of the recurrence; `step` holds the blocks and h.
    """

    cell: RecurrentCell
    hidden: int
    activations: Sequence[Activation]
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
        """The state h, [H, B]."""
        return self.scratch["step"][len(self.names) * self.hidden :]

    def activate(self, role: int, x: Array, out: Array) -> Call:
        """Applies an activation, or the gates' reciprocal, from one flat array to another, which may be the same."""
        if role == 0 and self.reciprocal:
            return partial(_reciprocal_of_logistic, x, out, np.array(1.0, x.dtype))
        x = out if x.ctypes.data == out.ctypes.data else x
        return self.activations[role].bind(x, out, self.scratch["work"], self.scratch["mask"])

    def recurrent_product(self, block: str, state: Array, sums: Array) -> Call:
        """The state's part of the sums."""
        return product(self.constants[block], state, sums, direct=self.direct)


def _reciprocal_of_logistic(x: Array, out: Array, one: Array) -> None:
    """Computes 1 + exp(x), the reciprocal of 1 / (1 + exp(x)); `out` may be `x`."""
    np.exp(x, out)  # may overflow, which is right: a value divided by infinity is 0
    np.add(out, one, out)


def cell_step(arrays: CellArrays) -> Step:
    """The step of a cell, bound to its arrays."""
    return {"RNN": _rnn_step, "LSTM": _lstm_step, "GRU": _gru_step}[arrays.cell.kind](arrays)


def _rnn_step(arrays: CellArrays) -> Step:
    sums, state = arrays.flat("sum 0"), arrays.h
    multiply_recurrent = arrays.recurrent_product("recurrence", state, arrays.rows("sum 0"))
    activate = arrays.activate(0, sums, state.reshape(-1))

    def step(x: Array) -> None:
        multiply_recurrent()
        np.add(sums, x, sums)
        activate()

    return step


def _lstm_step(arrays: CellArrays) -> Step:
    cell, scratch = arrays.cell, arrays.scratch
    coupled, last = cell.couple_input_forget, len(packed_gates(cell)) - 1
    sums, c, h_state = arrays.flat("sum 0", last + 1), arrays.flat("cell"), arrays.h

    forget_block = "forget" if coupled else "sum 2"
    o, i, forget = (arrays.flat(name) for name in ("sum 0", "sum 1", forget_block))
    gates, gated = arrays.pair("sum 1", forget_block), arrays.pair(f"sum {last}", "cell")
    scale = np.divide if arrays.reciprocal else np.multiply
    cell_output = h_state.reshape(-1)
    multiply_recurrent = arrays.recurrent_product("recurrence", h_state, arrays.rows("sum 0", last + 1))

    def activated(first: int, stop: int) -> list[Call]:
        """Clips and activates some gates, i with the gate coupled to it."""
        some = sums[first * c.size : stop * c.size]
        clipped = [] if cell.clip is None else _clip(some, cell.clip)
        activate = arrays.activate(0 if stop <= last else 1, some, some)
        if not coupled or not first <= 1 < stop:
            return [*clipped, activate]
        if not arrays.sigmoid:
            return [*clipped, activate, partial(np.subtract, np.array(1.0, c.dtype), i, forget)]
        mirror = partial(np.multiply, i, np.array(-1.0, c.dtype), forget)  # 1 - i would lose the digits of a nearly closed gate
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
    calls += [partial(scale, gated, gates, gates), partial(np.add, gates[0], gates[1], c)]
    if cell.peephole:
        output_sums = sums[: c.size]
        calls += [
            partial(np.multiply, peephole[0], c, products[0]),
            partial(np.add, output_sums, products[0], output_sums),
            *activated(0, 1),
        ]
    calls += [arrays.activate(2, c, cell_output), partial(scale, cell_output, o, cell_output)]

    def step(x: Array) -> None:
        multiply_recurrent()
        np.add(sums, x, sums)
        for call in calls:
            call()

    return step


def _clip(sums: Array, bound: float) -> list[Call]:
    low, high = (np.array(value, sums.dtype) for value in (-bound, bound))
    return [partial(np.minimum, sums, high, out=sums), partial(np.maximum, sums, low, out=sums)]


def _gru_step(arrays: CellArrays) -> Step:
    cell, scratch = arrays.cell, arrays.scratch
    h_state, complement, one = arrays.h, arrays.flat("complement"), np.array(1.0, arrays.h.dtype)
    h, candidate_sums = h_state.reshape(-1), arrays.flat("sum 2")
    gates, update, reset = arrays.flat("sum 0", 2), arrays.flat("sum 0"), arrays.flat("sum 1")
    mixed, weights = arrays.pair("sum 2", "h"), arrays.pair("complement", "sum 0")
    scale = np.divide if arrays.reciprocal else np.multiply

    first: list[Call] = [arrays.activate(0, gates, gates)]
    if cell.linear_before_reset:
        multiply_recurrent = arrays.recurrent_product("recurrence", h_state, arrays.rows("sum 0", 3))
        if "hidden_bias" in scratch:
            first.append(partial(np.add, candidate_sums, scratch["hidden_bias"].reshape(-1), candidate_sums))
        first.append(partial(scale, candidate_sums, reset, candidate_sums))
    else:
        multiply_recurrent = arrays.recurrent_product("recurrence", h_state, arrays.rows("sum 0", 2))
        first += [
            partial(scale, h, reset, complement),
            arrays.recurrent_product("candidate_recurrence", arrays.rows("complement"), arrays.rows("sum 2")),
        ]
    then: list[Call] = [arrays.activate(1, candidate_sums, candidate_sums)]
    if arrays.reciprocal:
        then.append(partial(np.divide, one, update, update))
    then += [
        partial(np.subtract, one, update, complement),
        partial(np.multiply, mixed, weights, weights),
        partial(np.add, weights[0], weights[1], h),
    ]

    def step(x_gates: Array, x_candidate: Array) -> None:
        multiply_recurrent()
        np.add(gates, x_gates, gates)
        for call in first:
            call()
        np.add(candidate_sums, x_candidate, candidate_sums)
        for call in then:
            call()

    return step
