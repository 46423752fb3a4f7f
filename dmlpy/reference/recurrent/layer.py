"""RNN, LSTM and GRU, and their training forms: one layer, step by step.

Letters: T steps, B batch, I input size, H hidden units, S entries of h (H, with a projection its size), D directions, G gates. Arrays of
one step are [B, ...]; the gates lie along G in DirectML's order: i of RNN; i, o, f, c of LSTM; z, r, h of GRU.
"""

from __future__ import annotations

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
        wb: bias of the input products, [G, H].
        rb: bias of the recurrent products, [G, H].
        peephole: the weights of i, o, f, [3, H].
        sees_memory: whether there are peepholes.
        projection: [S, H], or None.
        x_dropout: the factors of x for each gate, [G, B, I].
        h_dropout: the factors of h for each gate, [G, B, S].
    """

    w: Array
    r: Array
    wb: Array
    rb: Array
    peephole: Array
    sees_memory: bool
    projection: Array | None
    x_dropout: Array
    h_dropout: Array

    @classmethod
    def of(cls, desc: RecurrentDesc, inputs: Inputs, d: int) -> Parameters:
        """The parameters of the direction with this index; absent tensors are zeros, absent dropout ones."""
        sizes, dtype = desc.geometry, inputs["input_tensor"].dtype
        directions, batch, hidden, gates = sizes.num_directions, sizes.batch_size, sizes.hidden_size, sizes.gates

        def part(name: str, shape: tuple[int, ...], absent: float = 0.0) -> Array:
            given = inputs.get(name)
            whole = np.full((directions, *shape), absent, dtype) if given is None else given.reshape(directions, *shape)
            own: Array = whole[d]
            return own

        biases = part("bias_tensor", (2, gates, hidden))
        return cls(
            w=part("weight_tensor", (gates, hidden, sizes.input_size)),
            r=part("recurrence_tensor", (gates, hidden, sizes.state_size)),
            wb=biases[0],
            rb=biases[1],
            peephole=part("peephole_tensor", (3, hidden)),
            sees_memory=desc.cell.peephole,
            projection=part("projection_tensor", (sizes.state_size, hidden)) if desc.cell.projection else None,
            x_dropout=part("input_dropout_tensor", (gates, batch, sizes.input_size), absent=1.0),
            h_dropout=part("state_dropout_tensor", (gates, batch, sizes.state_size), absent=1.0),
        )

    def from_x(self, gate: int, x: Array) -> Array:
        """Computes x W^T + Wb of one gate, [T, B, H], from x [T, B, I]."""
        product: Array = (x * self.x_dropout[gate]) @ self.w[gate].T + self.wb[gate]
        return product

    def from_h(self, gate: int, h: Array) -> Array:
        """Computes h R^T + Rb of one gate, [B, H]."""
        product: Array = (h * self.h_dropout[gate]) @ self.r[gate].T + self.rb[gate]
        return product

    def from_c(self, peephole: int, c: Array) -> Array | float:
        """Computes what i, o or f sees of c [B, H]: without peepholes nothing, even of an infinite one."""
        return self.peephole[peephole] * c if self.sees_memory else 0.0


Step = tuple[Array, Array, list[Array]]
"""h [B, S] and c [B, H] after a step, and the arguments of the gates' activations, each [B, H], before any clipping."""


def rnn_step(functions: Activations, p: Parameters, xw: Array, h: Array, c: Array) -> Step:
    """Computes one step of RNN; c passes through. For each cell `xw` is x W^T + Wb of all gates, [G, B, H]."""
    (f,) = functions
    a = xw[0] + p.from_h(0, h)
    return activate(f, a), c, [a]


def lstm_step(cell: RecurrentCell, functions: Activations, p: Parameters, xw: Array, h: Array, c: Array) -> Step:
    """Computes one step of LSTM. The output gate o sees the new cell state, the other gates the old one."""
    f, g, of_cell = functions
    a_i = xw[0] + p.from_h(0, h) + p.from_c(0, c)
    a_f = xw[2] + p.from_h(2, h) + p.from_c(2, c)
    a_c = xw[3] + p.from_h(3, h)
    i = activate(f, clipped(cell, a_i))
    forget = rest_of(f, clipped(cell, a_i)) if cell.couple_input_forget else activate(f, clipped(cell, a_f))
    new_c = forget * c + i * activate(g, clipped(cell, a_c))
    a_o = xw[1] + p.from_h(1, h) + p.from_c(1, new_c)
    new_h = activate(f, clipped(cell, a_o)) * activate(of_cell, new_c)
    if p.projection is not None:
        new_h = new_h @ p.projection.T
    return new_h, new_c, [a_i, a_o, a_f, a_c]


def rest_of(f: ActivationDesc, x: Array) -> Array:
    """1 - f(x); that of the sigmoid by f(-x), which keeps its digits where f(x) is near 1."""
    return activate(f, -x) if isinstance(f, ActivationSigmoidDesc) else 1.0 - activate(f, x)


def gru_step(cell: RecurrentCell, functions: Activations, p: Parameters, xw: Array, h: Array, c: Array) -> Step:
    """Computes one step of GRU; c passes through. With linear_before_reset the last argument is h R^T + Rb of gate h, multiplied by r."""
    f, g = functions
    a_z, a_r = xw[0] + p.from_h(0, h), xw[1] + p.from_h(1, h)
    z, r = activate(f, a_z), activate(f, a_r)
    if cell.linear_before_reset:
        recurrent = p.from_h(2, h)
        a_h = xw[2] + r * recurrent
        arguments = [a_z, a_r, a_h, recurrent]
    else:
        a_h = xw[2] + p.from_h(2, r * h)
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
        within: whether a step lies before the sequence's end, [T, B].
        taken: whether it is not masked either, [T, B]: at other steps the state is carried.
    """

    within: Array
    taken: Array

    @classmethod
    def of(cls, desc: RecurrentDesc, inputs: Inputs) -> Steps:
        steps, batch = desc.geometry.seq_length, desc.geometry.batch_size
        lengths, mask = inputs.get("sequence_lengths_tensor"), inputs.get("step_mask_tensor")
        within = np.arange(steps)[:, None] < (np.full(batch, steps) if lengths is None else lengths.reshape(batch))
        return cls(within, within if mask is None else within & (mask.reshape(steps, batch) != 0))


def runs_backward(desc: RecurrentDesc, d: int) -> bool:
    """Returns whether the direction with this index begins at the last step."""
    return desc.direction is RecurrentDirection.BACKWARD or d == 1


@dataclass(frozen=True)
class Trace:
    """All values that a layer computes.

    Attributes:
        outputs: every output by field name, described or not, but for the reserve.
        arguments: the arguments of the gates' activations, [D, T, K, B, H], as `Step` has them; NaN at steps that a sample does not take.
        hidden: h before and after each step, [D, T + 1, B, S]: step t leads from slot t to slot t + 1, backward from t + 1 to t.
        memory: c likewise, [D, T + 1, B, H].
    """

    outputs: dict[str, Array]
    arguments: Array
    hidden: Array
    memory: Array


def trace(desc: RecurrentDesc, inputs: Inputs) -> Trace:
    """Runs the layer of a checked desc over all steps."""
    sizes, x = desc.geometry, inputs["input_tensor"][0]
    t, b, directions, h_size, s = sizes.seq_length, sizes.batch_size, sizes.num_directions, sizes.hidden_size, sizes.state_size
    counted = Steps.of(desc, inputs)
    sequence = np.zeros((t, directions, b, s), x.dtype)
    arguments = np.full((directions, t, desc.cell.kept, b, h_size), np.nan, x.dtype)
    hidden, memory = np.zeros((directions, t + 1, b, s), x.dtype), np.zeros((directions, t + 1, b, h_size), x.dtype)
    for d in range(directions):
        step, p, backward = step_of(desc, d), Parameters.of(desc, inputs, d), runs_backward(desc, d)
        xw = np.stack([p.from_x(gate, x) for gate in range(sizes.gates)], axis=1)
        h, c = (initial(inputs, name, d, slots) for name, slots in (("hidden_init_tensor", hidden), ("cell_mem_init_tensor", memory)))
        output = np.zeros_like(h)
        for time in reversed(range(t)) if backward else range(t):
            before, after = (time + 1, time) if backward else (time, time + 1)
            hidden[d, before], memory[d, before] = h, c
            new_h, new_c, found = step(p, xw[time], h, c)
            taken, within = counted.taken[time, :, None], counted.within[time, :, None]
            arguments[d, time] = np.where(taken, found, np.nan)
            h, c, output = np.where(taken, new_h, h), np.where(taken, new_c, c), np.where(taken, new_h, output)
            sequence[time, d] = np.where(within, output, 0.0)
            hidden[d, after], memory[d, after] = h, c
    last = [0 if runs_backward(desc, d) else t for d in range(directions)]
    outputs = {
        "output_sequence_tensor": sequence,
        "output_single_tensor": hidden[range(directions), last][None],
        "output_cell_single_tensor": memory[range(directions), last][None],
    }
    return Trace(outputs, arguments, hidden, memory)


def initial(inputs: Inputs, name: str, d: int, slots: Array) -> Array:
    """The state before the first step of the direction with this index; zeros like `slots[d, 0]` if it is absent."""
    given: Array | None = inputs.get(name)
    return np.zeros_like(slots[d, 0]) if given is None else given[0, d]


@defines(RecurrentDesc)
def layer(desc: RecurrentDesc, inputs: Inputs) -> dict[str, Array]:
    """Computes RNN, LSTM, GRU or a training form."""
    found = trace(desc, inputs)
    if not isinstance(desc, ReserveDesc) or desc.reserve_tensor is None:
        return found.outputs
    return {**found.outputs, "reserve_tensor": packed_reserve(desc, found).reshape(desc.reserve_tensor.sizes)}


# the reserve: arguments (0 at steps that a sample does not take), then hidden, then memory where the cell has one


def packed_reserve(desc: ReserveDesc, found: Trace) -> Array:
    """Packs the values of a trace that the gradient needs, [reserve_size]."""
    kept = np.where(np.isnan(found.arguments), 0.0, found.arguments)
    parts = [kept, found.hidden, found.memory] if desc.cell.has_memory else [kept, found.hidden]
    return np.concatenate([part.reshape(-1) for part in parts])


def unpacked_reserve(desc: ReserveDesc, reserve: Array) -> tuple[Array, Array, Array]:
    """Unpacks a reserve to arguments, hidden and memory, as `Trace` has them; memory is zeros for a cell without one."""
    sizes, cell, flat = desc.geometry, desc.cell, reserve.reshape(-1)
    directions, steps, batch, hidden = sizes.num_directions, sizes.seq_length, sizes.batch_size, sizes.hidden_size
    shapes = [(directions, steps, cell.kept, batch, hidden), (directions, steps + 1, batch, sizes.state_size)]
    arguments_end = prod(shapes[0])
    hidden_end = arguments_end + prod(shapes[1])
    arguments, states = flat[:arguments_end].reshape(shapes[0]), flat[arguments_end:hidden_end].reshape(shapes[1])
    memory_shape = (directions, steps + 1, batch, hidden)
    memory = flat[hidden_end:].reshape(memory_shape) if cell.has_memory else np.zeros(memory_shape, flat.dtype)
    return arguments, states, memory
