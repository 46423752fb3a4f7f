"""RNN, LSTM and GRU, and their training forms: one layer, step by step.

Letters: T steps, B batch, I input size, H hidden units, S entries of h (H, with a projection its size), D directions, G gates. Arrays of
one step are [B, ...]. A gate's sum is x W^T + Wb + h R^T + Rb; the sums of all gates are [G, B, H], in DirectML's order: i of RNN; i, o,
f, c of LSTM; z, r, h of GRU. One product gives the input's part of them for all steps, and one for each step that of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.operators.activation import ActivationDesc, ActivationSigmoidDesc
from dmlpy.operators.recurrent.gradient import ReserveDesc
from dmlpy.operators.recurrent.layer import RecurrentCell, RecurrentDesc
from dmlpy.reference.activation import activate
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Callable

Activations = tuple[ActivationDesc, ...]


@dataclass(frozen=True)
class Parameters:
    """The parameters of one direction, and its dropout multipliers.

    Attributes:
        w: [G, H, I].
        r: [G, H, S].
        r_transposed: R^T of all gates side by side, [S, G H]: BLAS multiplies a few rows by it in half the time.
        wb: bias of the input products, [G, H].
        rb: bias of the recurrent products, [G, H].
        peephole: the weights of i, o, f, [3, H], or None.
        projection: [S, H], or None.
        x_dropout: the factors of x for each gate, [G, B, I], or None.
        h_dropout: the factors of h for each gate, [G, B, S], or None.
    """

    w: Array
    r: Array
    r_transposed: Array
    wb: Array
    rb: Array
    peephole: Array | None
    projection: Array | None
    x_dropout: Array | None
    h_dropout: Array | None

    @classmethod
    def of(cls, desc: RecurrentDesc, inputs: Inputs, d: int) -> Parameters:
        """The parameters of the direction with this index; absent biases are zeros."""
        sizes, dtype = desc.geometry, inputs["input_tensor"].dtype
        batch, hidden, gates = sizes.batch_size, sizes.hidden_size, sizes.gates

        def of_direction(name: str, *shape: int) -> Array | None:
            given: Array | None = inputs.get(name)
            return None if given is None else given.reshape(sizes.num_directions, *shape)[d]

        biases = of_direction("bias_tensor", 2, gates, hidden)
        wb, rb = np.zeros((2, gates, hidden), dtype) if biases is None else biases
        r = inputs["recurrence_tensor"][0, d]
        return cls(
            w=inputs["weight_tensor"][0, d].reshape(gates, hidden, sizes.input_size),
            r=r.reshape(gates, hidden, sizes.state_size),
            r_transposed=np.ascontiguousarray(r.T),
            wb=wb,
            rb=rb,
            peephole=of_direction("peephole_tensor", 3, hidden),
            projection=of_direction("projection_tensor", sizes.state_size, hidden),
            x_dropout=of_direction("input_dropout_tensor", gates, batch, sizes.input_size),
            h_dropout=of_direction("state_dropout_tensor", gates, batch, sizes.state_size),
        )

    def from_x(self, x: Array) -> Array:
        """Computes x W^T + Wb of all gates, [G, T, B, H], from x [T, B, I]."""
        gates, hidden, size = self.w.shape
        return products(x, self.w.reshape(gates * hidden, size).T, gates, self.x_dropout) + self.wb[:, None, None]

    def from_h(self, h: Array, gates: slice = slice(None)) -> Array:
        """Computes h R^T + Rb of some gates, [G, B, H], from h [B, S]."""
        biases, factors = self.rb[gates], None if self.h_dropout is None else self.h_dropout[gates]
        first = (gates.start or 0) * biases.shape[1]
        return products(h, self.r_transposed[:, first : first + biases.size], len(biases), factors) + biases[:, None]


def products(x: Array, matrix: Array, gates: int, factors: Array | None) -> Array:
    """Computes the product of x and each gate's columns of a matrix, [G, ..., H].

    Args:
        x: [..., N].
        matrix: [N, G H].
        gates: G.
        factors: the dropout multipliers of x for each gate, [G, B, N], or None. Without them one product serves all gates.
    """
    if factors is not None:
        return np.stack([(x * factor) @ columns for factor, columns in zip(factors, np.split(matrix, gates, axis=1), strict=True)])
    joined = x.reshape(-1, len(matrix)) @ matrix
    return np.moveaxis(joined.reshape(*x.shape[:-1], gates, -1), -2, 0)


Step = tuple[Array, Array, Sequence[Array]]
"""h [B, S] and c [B, H] after a step, and the arguments of the gates' activations, each [B, H], before any clipping."""


def rnn_step(functions: Activations, p: Parameters, xw: Array, h: Array, c: Array) -> Step:
    """Computes one step of RNN; c passes through. For each cell `xw` is x W^T + Wb of all gates, [G, B, H]."""
    (f,) = functions
    sums = xw + p.from_h(h)
    return activate(f, sums[0]), c, [sums[0]]


def lstm_step(cell: RecurrentCell, functions: Activations, p: Parameters, xw: Array, h: Array, c: Array) -> Step:
    """Computes one step of LSTM. The output gate o sees the new cell state, the other gates the old one."""
    f, g, of_cell = functions
    a_i, a_o, a_f, a_c = xw + p.from_h(h)
    if p.peephole is not None:
        a_i, a_f = a_i + p.peephole[0] * c, a_f + p.peephole[2] * c
    i = activate(f, clipped(cell, a_i))
    forget = rest_of(f, clipped(cell, a_i)) if cell.couple_input_forget else activate(f, clipped(cell, a_f))
    new_c = forget * c + i * activate(g, clipped(cell, a_c))
    if p.peephole is not None:
        a_o = a_o + p.peephole[1] * new_c
    new_h = activate(f, clipped(cell, a_o)) * activate(of_cell, new_c)
    if p.projection is not None:
        new_h = new_h @ p.projection.T
    return new_h, new_c, (a_i, a_o, a_f, a_c)


def rest_of(f: ActivationDesc, x: Array) -> Array:
    """1 - f(x); that of the sigmoid by f(-x), which stays accurate where f(x) is near 1."""
    return activate(f, -x) if isinstance(f, ActivationSigmoidDesc) else 1.0 - activate(f, x)


def gru_step(cell: RecurrentCell, functions: Activations, p: Parameters, xw: Array, h: Array, c: Array) -> Step:
    """Computes one step of GRU; c passes through. With linear_before_reset the last argument is h R^T + Rb of gate h, multiplied by r."""
    f, g = functions
    recurrent = p.from_h(h, slice(None if cell.linear_before_reset else 2))
    a_z, a_r = xw[:2] + recurrent[:2]
    z, r = activate(f, a_z), activate(f, a_r)
    if cell.linear_before_reset:
        a_h = xw[2] + r * recurrent[2]
        arguments = [a_z, a_r, a_h, recurrent[2]]
    else:
        a_h = xw[2] + p.from_h(r * h, slice(2, 3))[0]
        arguments = [a_z, a_r, a_h]
    return (1.0 - z) * activate(g, a_h) + z * h, c, arguments


def clipped(cell: RecurrentCell, sums: Array) -> Array:
    """Clips the gates' sums at the threshold, if one is used."""
    return sums if cell.clip is None else np.clip(sums, -cell.clip, cell.clip)


def step_of(desc: RecurrentDesc, d: int) -> Callable[[Parameters, Array, Array, Array], Step]:
    """One step of the desc's cell, with the activations of the direction with this index."""
    cell, functions = desc.cell, desc.activations_of(d)
    if cell.kind == "LSTM":
        return lambda p, xw, h, c: lstm_step(cell, functions, p, xw, h, c)
    if cell.kind == "GRU":
        return lambda p, xw, h, c: gru_step(cell, functions, p, xw, h, c)
    return lambda p, xw, h, c: rnn_step(functions, p, xw, h, c)


@dataclass(frozen=True)
class Steps:
    """The steps that count for each sample.

    Attributes:
        within: whether a step lies before the sequence's end, [T, B, 1].
        taken: whether it is not masked either, [T, B, 1]: at other steps the state is carried.
        by_all: for each t, whether all samples take the step.
        not_by: for each t, the samples that do not take it, [B].
    """

    within: Array
    taken: Array
    by_all: Sequence[bool]
    not_by: Array

    @classmethod
    def of(cls, desc: RecurrentDesc, inputs: Inputs) -> Steps:
        steps, batch = desc.geometry.seq_length, desc.geometry.batch_size
        lengths, mask = inputs.get("sequence_lengths_tensor"), inputs.get("step_mask_tensor")
        within = np.arange(steps)[:, None] < (np.full(batch, steps) if lengths is None else lengths.reshape(batch))
        taken = within if mask is None else within & (mask.reshape(steps, batch) != 0)
        by_all: list[bool] = np.all(taken, axis=1).tolist()
        return cls(within[..., None], taken[..., None], by_all, ~taken)

    def only_taken(self, values: Array) -> Array:
        """Returns values of all steps and samples, [T, B, N], with zeros at steps that a sample does not take."""
        return values if all(self.by_all) else np.where(self.taken, values, 0.0)


def runs_backward(desc: RecurrentDesc, d: int) -> bool:
    """Returns whether the direction with this index begins at the last step."""
    return desc.direction is RecurrentDirection.BACKWARD or d == 1


@dataclass(frozen=True)
class Trace:
    """All values that a layer computes.

    Attributes:
        outputs: every output by field name, described or not, except the reserve.
        arguments: the arguments of the gates' activations, [D, T, K, B, H], as `Step` has them; NaN at steps that a sample does not take.
        hidden: h before and after each step, [D, T + 1, B, S]: step t leads from slot t to slot t + 1, backward from t + 1 to t.
        memory: c likewise, [D, T + 1, B, H].
        taken: which samples take a step, [T, B, 1].
    """

    outputs: dict[str, Array]
    arguments: Array
    hidden: Array
    memory: Array
    taken: Array


def trace(desc: RecurrentDesc, inputs: Inputs, *, saves: bool = True) -> Trace:
    """Runs the layer of a checked desc over all steps. Unless it `saves` them, the arguments are left out."""
    sizes, x = desc.geometry, inputs["input_tensor"][0]
    t, b, directions, h_size, s = sizes.seq_length, sizes.batch_size, sizes.num_directions, sizes.hidden_size, sizes.state_size
    counted = Steps.of(desc, inputs)
    sequence = np.empty((t, directions, b, s), x.dtype)
    arguments = np.empty((directions, t if saves else 0, desc.cell.saved, b, h_size), x.dtype)
    hidden, memory = np.empty((directions, t + 1, b, s), x.dtype), np.zeros((directions, t + 1, b, h_size), x.dtype)
    for d in range(directions):
        step, p, backward = step_of(desc, d), Parameters.of(desc, inputs, d), runs_backward(desc, d)
        xw = p.from_x(x)
        h, c = (initial(inputs, name, d, slots) for name, slots in (("hidden_init_tensor", hidden), ("cell_mem_init_tensor", memory)))
        output = np.zeros_like(h)
        hidden[d, t if backward else 0], memory[d, t if backward else 0] = h, c
        for time in reversed(range(t)) if backward else range(t):
            new_h, new_c, kept = step(p, xw[:, time], h, c)
            if saves:
                arguments[d, time] = kept
            if counted.by_all[time]:
                h, c, output = new_h, new_c, new_h
                sequence[time, d] = output
            else:
                within, taken = counted.within[time], counted.taken[time]
                h, c, output = np.where(taken, new_h, h), np.where(taken, new_c, c), np.where(taken, new_h, output)
                sequence[time, d] = np.where(within, output, 0.0)
                if saves:
                    arguments[d, time][:, counted.not_by[time]] = np.nan
            after = time if backward else time + 1
            hidden[d, after], memory[d, after] = h, c
    last = [0 if runs_backward(desc, d) else t for d in range(directions)]
    outputs = {
        "output_sequence_tensor": sequence,
        "output_single_tensor": hidden[range(directions), last][None],
        "output_cell_single_tensor": memory[range(directions), last][None],
    }
    return Trace(outputs, arguments, hidden, memory, counted.taken)


def initial(inputs: Inputs, name: str, d: int, slots: Array) -> Array:
    """The state before the first step of the direction with this index; zeros of a slot's sizes if it is absent."""
    given: Array | None = inputs.get(name)
    return np.zeros(slots.shape[2:], slots.dtype) if given is None else given[0, d]


@defines(RecurrentDesc)
def layer(desc: RecurrentDesc, inputs: Inputs) -> dict[str, Array]:
    """Computes RNN, LSTM, GRU or a training form."""
    if not isinstance(desc, ReserveDesc) or desc.reserve_tensor is None:
        return trace(desc, inputs, saves=False).outputs
    traced = trace(desc, inputs)
    return {**traced.outputs, "reserve_tensor": packed_reserve(desc, traced).reshape(desc.reserve_tensor.sizes)}


# the reserve: arguments (0 at steps that a sample does not take), then hidden, then memory where the cell has one


def packed_reserve(desc: ReserveDesc, traced: Trace) -> Array:
    """Packs the values of a trace that the gradient needs, [reserve_size]."""
    parts = [traced.arguments, traced.hidden, traced.memory] if desc.cell.has_memory else [traced.arguments, traced.hidden]
    reserve = np.concatenate([part.reshape(-1) for part in parts])
    if not traced.taken.all():
        np.copyto(unpacked_reserve(desc, reserve)[0], 0.0, where=~traced.taken[:, None])
    return reserve


def unpacked_reserve(desc: ReserveDesc, reserve: Array) -> tuple[Array, Array, Array]:
    """Unpacks a reserve to arguments, hidden and memory, as `Trace` has them; memory is zeros for a cell without one."""
    sizes, cell, flat = desc.geometry, desc.cell, reserve.reshape(-1)
    directions, steps, batch, hidden = sizes.num_directions, sizes.seq_length, sizes.batch_size, sizes.hidden_size
    shapes = [(directions, steps, cell.saved, batch, hidden), (directions, steps + 1, batch, sizes.state_size)]
    arguments_end = prod(shapes[0])
    hidden_end = arguments_end + prod(shapes[1])
    arguments, states = flat[:arguments_end].reshape(shapes[0]), flat[arguments_end:hidden_end].reshape(shapes[1])
    memory_shape = (directions, steps + 1, batch, hidden)
    memory = flat[hidden_end:].reshape(memory_shape) if cell.has_memory else np.zeros(memory_shape, flat.dtype)
    return arguments, states, memory
