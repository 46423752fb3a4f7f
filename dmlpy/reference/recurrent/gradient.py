"""The gradients of RNN, LSTM and GRU: backpropagation through time, step by step in reverse order.

Letters and gates as in `layer`. `da` is the gradient of a gate's argument a: of the sum that its activation is applied to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from dmlpy.reference.activation import activate
from dmlpy.reference.activation_derivatives import derivative
from dmlpy.reference.recurrent.layer import Activations, Parameters, Steps, clipped, runs_backward, unpacked_reserve
from dmlpy.reference.registry import Array, Inputs, defines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.operators.activation import ActivationDesc
    from dmlpy.operators.recurrent.layer import RecurrentCell


@dataclass(frozen=True)
class StepInputs:
    """The values of a step and the gradients of its results.

    Attributes:
        a: the arguments of the gates, as `layer.Step` has them, [K, B, H].
        h: before the step, [B, S].
        c: before the step, [B, H].
        new_c: after the step, [B, H].
        dh: gradient of h after the step, [B, S].
        dc: gradient of c after the step, [B, H].
    """

    a: Array
    h: Array
    c: Array
    new_c: Array
    dh: Array
    dc: Array


@dataclass(frozen=True)
class StepGradients:
    """The gradients of one step.

    Attributes:
        of_x: gradient of x W^T + Wb of each gate, [G, B, H].
        of_h: gradient of h R^T + Rb of each gate, [G, B, H].
        dh: gradient of h before the step, [B, S].
        dc: gradient of c before the step, [B, H].
        reset_state: r * h [B, S], which R of gate h multiplied in a GRU that resets before the product; else None.
        cell_output: what the projection multiplied, [B, H]; None without one.
    """

    of_x: Array
    of_h: Array
    dh: Array
    dc: Array
    reset_state: Array | None = None
    cell_output: Array | None = None


def by_gate(gradients: Sequence[Array]) -> Array:
    """The gates' gradients as one array [G, B, H], in which those of a sample lie side by side, as products need them."""
    return np.moveaxis(np.stack(gradients, axis=-2), -2, 0)


def products_back(gradients: Array, matrices: Array, factors: Array | None) -> Array:
    """The gradient of an x that each gate's matrix multiplied, as `layer.products` does, [..., N].

    Args:
        gradients: of the products, [G, ..., H].
        matrices: [G, H, N].
        factors: the dropout multipliers of x for each gate, [G, B, N], or None.
    """
    if factors is not None:
        gradient: Array = sum((of_gate @ matrix) * factor for of_gate, matrix, factor in zip(gradients, matrices, factors, strict=True))
        return gradient
    joined = np.moveaxis(gradients, 0, -2)
    return (joined.reshape(-1, matrices[..., 0].size) @ matrices.reshape(-1, matrices.shape[2])).reshape(*joined.shape[:-2], -1)


def matrix_gradients(gradients: Array, x: Array, factors: Array | None, counted: Steps) -> Array:
    """The gradients of the matrices that multiplied x, as `layer.products` does, summed over the steps that samples take, [G, H, N].

    Args:
        gradients: of the products, [G, T, B, H].
        x: [T, B, N]; ignored at steps that a sample does not take, where 0 times infinity would be NaN.
        factors: the dropout multipliers of x for each gate, [G, B, N], or None.
        counted: the steps that count.
    """
    if factors is not None:
        steps_and_samples = ((0, 1), (0, 1))
        pairs = zip(gradients, factors, strict=True)
        return np.stack([np.tensordot(of_gate, counted.only_taken(x * factor), steps_and_samples) for of_gate, factor in pairs])
    gates, _, _, hidden = gradients.shape
    joined = np.moveaxis(gradients, 0, -2).reshape(-1, gates * hidden)
    return (joined.T @ counted.only_taken(x).reshape(-1, x.shape[2])).reshape(gates, hidden, -1)


def _slope(cell: RecurrentCell, function: ActivationDesc, a: Array) -> Array:
    """The derivative of an activation by a gate's sum; 0 for a sum beyond the clip threshold, but not for one at it."""
    if cell.clip is None:
        return derivative(function, a)
    slope: Array = derivative(function, clipped(cell, a)) * (np.abs(a) <= cell.clip)
    return slope


def rnn_back(cell: RecurrentCell, functions: Activations, p: Parameters, s: StepInputs) -> StepGradients:
    (f,) = functions
    da = by_gate([s.dh * _slope(cell, f, s.a[0])])
    return StepGradients(of_x=da, of_h=da, dh=products_back(da, p.r, p.h_dropout), dc=s.dc)


def lstm_back(cell: RecurrentCell, functions: Activations, p: Parameters, s: StepInputs) -> StepGradients:
    f, g, of_cell = functions
    a_i, a_o, a_f, a_c = s.a
    i, o, new = activate(f, clipped(cell, a_i)), activate(f, clipped(cell, a_o)), activate(g, clipped(cell, a_c))
    forget = 1.0 - i if cell.couple_input_forget else activate(f, clipped(cell, a_f))
    cell_output = activate(of_cell, s.new_c)
    dh = s.dh if p.projection is None else s.dh @ p.projection
    da_o = dh * cell_output * _slope(cell, f, a_o)
    dc = s.dc + dh * o * derivative(of_cell, s.new_c)
    if p.peephole is not None:
        dc = dc + p.peephole[1] * da_o
    if cell.couple_input_forget:
        da_i = dc * (new - s.c) * _slope(cell, f, a_i)
        da_f = np.zeros_like(da_i)
    else:
        da_i = dc * new * _slope(cell, f, a_i)
        da_f = dc * s.c * _slope(cell, f, a_f)
    da_c = dc * i * _slope(cell, g, a_c)
    da = by_gate([da_i, da_o, da_f, da_c])
    dc = dc * forget
    if p.peephole is not None:
        dc = dc + p.peephole[0] * da_i + p.peephole[2] * da_f
    projected = None if p.projection is None else o * cell_output
    return StepGradients(of_x=da, of_h=da, dh=products_back(da, p.r, p.h_dropout), dc=dc, cell_output=projected)


def gru_back(cell: RecurrentCell, functions: Activations, p: Parameters, s: StepInputs) -> StepGradients:
    f, g = functions
    a_z, a_r, a_h, *recurrent = s.a
    z, r, new = activate(f, a_z), activate(f, a_r), activate(g, a_h)
    da_h = s.dh * (1.0 - z) * derivative(g, a_h)
    da_z = s.dh * (s.h - new) * derivative(f, a_z)
    if recurrent:  # linear_before_reset: a_h = x W^T + Wb + r * recurrent
        da_r = da_h * recurrent[0] * derivative(f, a_r)
        of_h = by_gate([da_z, da_r, r * da_h])
        dh = s.dh * z + products_back(of_h, p.r, p.h_dropout)
        return StepGradients(of_x=by_gate([da_z, da_r, da_h]), of_h=of_h, dh=dh, dc=s.dc)
    # a_h = x W^T + Wb + (r * h) R^T + Rb
    factors = (None, None) if p.h_dropout is None else (p.h_dropout[:2], p.h_dropout[2:])
    of_reset = products_back(da_h[None], p.r[2:], factors[1])
    da_r = of_reset * s.h * derivative(f, a_r)
    da = by_gate([da_z, da_r, da_h])
    dh = s.dh * z + of_reset * r + products_back(da[:2], p.r[:2], factors[0])
    return StepGradients(of_x=da, of_h=da, dh=dh, dc=s.dc, reset_state=r * s.h)


_BACK: dict[str, Callable[[RecurrentCell, Activations, Parameters, StepInputs], StepGradients]] = {
    "RNN": rnn_back,
    "LSTM": lstm_back,
    "GRU": gru_back,
}


class DirectionBack:
    """Backpropagation through the steps of one direction.

    Attributes:
        of_x: gradient of x W^T + Wb of each gate and step, [G, T, B, H]; zero at steps that a sample does not take.
        of_h: gradient of h R^T + Rb likewise.
        dh: gradient of h before the first step, [B, S].
        dc: gradient of c before the first step, [B, H].

    Args:
        desc: a checked desc.
        inputs: its inputs.
        d: the direction's index.
        counted: the steps that count.
    """

    def __init__(self, desc: RecurrentGradDesc, inputs: Inputs, d: int, counted: Steps) -> None:
        sizes, dtype = desc.geometry, inputs["input_tensor"].dtype
        t, b, h, s, g = sizes.seq_length, sizes.batch_size, sizes.hidden_size, sizes.state_size, sizes.gates
        self._desc, self._inputs, self._d, self._counted = desc, inputs, d, counted
        self._p = Parameters.of(desc, inputs, d)
        self._arguments, hidden, memory = (values[d] for values in unpacked_reserve(desc, inputs["reserve_tensor"]))
        self._backward = runs_backward(desc, d)
        before, after = (slice(1, None), slice(t)) if self._backward else (slice(t), slice(1, None))
        self._h, self._c, self._new_c = hidden[before], memory[before], memory[after]
        self.of_x = self.of_h = np.moveaxis(np.empty((t, b, g, h), dtype), 2, 0)
        if desc.cell.resets_last:  # else x W^T + Wb and h R^T + Rb have the same gradients
            self.of_h = np.moveaxis(np.empty((t, b, g, h), dtype), 2, 0)
        self._reset_states, self._d_projection = np.zeros((t, b, s), dtype), np.zeros((s, h), dtype)
        self.dh = _upstream(inputs, "output_single_gradient_tensor", (1, sizes.num_directions, b, s), dtype)[0, d]
        self.dc = _upstream(inputs, "output_cell_single_gradient_tensor", (1, sizes.num_directions, b, h), dtype)[0, d]
        self._run()

    def _run(self) -> None:
        desc, counted, steps = self._desc, self._counted, len(self._h)
        step_back, functions = _BACK[desc.cell.kind], desc.activations_of(self._d)
        upstream: Array | None = self._inputs.get("output_sequence_gradient_tensor")
        repeated = np.zeros_like(self.dh)  # upstream gradients of outputs that repeat an earlier step's
        for time in range(steps) if self._backward else reversed(range(steps)):
            within, taken = counted.within[time], counted.taken[time]
            if upstream is not None:
                repeated = repeated + np.where(within, upstream[time, self._d], 0.0)
            dh = self.dh + repeated
            given = StepInputs(self._arguments[time], self._h[time], self._c[time], self._new_c[time], dh, self.dc)
            step = step_back(desc.cell, functions, self._p, given)
            if step.reset_state is not None:
                self._reset_states[time] = step.reset_state
            if step.cell_output is not None:
                self._d_projection += np.where(taken, dh, 0.0).T @ np.where(taken, step.cell_output, 0.0)
            self.of_x[:, time], self.of_h[:, time] = step.of_x, step.of_h
            if counted.by_all[time]:
                self.dh, self.dc, repeated = step.dh, step.dc, np.zeros_like(repeated)
            else:
                self.of_x[:, time][:, counted.not_by[time]] = 0.0
                self.of_h[:, time][:, counted.not_by[time]] = 0.0
                self.dh, self.dc = np.where(taken, step.dh, self.dh), np.where(taken, step.dc, self.dc)
                repeated = np.where(taken, 0.0, repeated)

    def of_input(self) -> Array:
        """The gradient of x, [T, B, I]."""
        return self._counted.only_taken(products_back(self.of_x, self._p.w, self._p.x_dropout))

    def of_parameters(self) -> dict[str, Array]:
        """The gradients of the direction's parameters by field name."""
        p, counted = self._p, self._counted
        of_r = matrix_gradients(self.of_h, self._h, p.h_dropout, counted)
        if self._desc.cell.resets_first:
            of_r[2:] = matrix_gradients(self.of_h[2:], self._reset_states, None if p.h_dropout is None else p.h_dropout[2:], counted)
        gradients = {
            "weight_gradient_tensor": matrix_gradients(self.of_x, self._inputs["input_tensor"][0], p.x_dropout, counted),
            "recurrence_gradient_tensor": of_r,
            "bias_gradient_tensor": np.stack([self.of_x.sum((1, 2)), self.of_h.sum((1, 2))]),
            "projection_gradient_tensor": self._d_projection,
        }
        if self._desc.cell.peephole:
            seen = (self._c, self._new_c, self._c)  # what i, o and f see of the cell state
            sums = [np.sum(counted.only_taken(da * c), axis=(0, 1)) for da, c in zip(self.of_x[:3], seen, strict=True)]
            gradients["peephole_gradient_tensor"] = np.stack(sums)
        return gradients


@defines(RecurrentGradDesc)
def gradient(desc: RecurrentGradDesc, inputs: Inputs) -> dict[str, Array]:
    """Computes every gradient that the cell has by field name, described or not, from the reserve of the training form's definition."""
    sizes, counted = desc.geometry, Steps.of(desc, inputs)
    d, h, rows = sizes.num_directions, sizes.hidden_size, sizes.gates * sizes.hidden_size
    directions = [DirectionBack(desc, inputs, at, counted) for at in range(d)]
    shapes: dict[str, tuple[int, ...]] = {
        "weight_gradient_tensor": (1, d, rows, sizes.input_size),
        "recurrence_gradient_tensor": (1, d, rows, sizes.state_size),
        "bias_gradient_tensor": (1, 1, d, 2 * rows),
        "peephole_gradient_tensor": (1, 1, d, 3 * h),
        "projection_gradient_tensor": (1, d, sizes.state_size, h),
    }
    parameters = [direction.of_parameters() for direction in directions]
    return {
        "input_gradient_tensor": np.sum([direction.of_input() for direction in directions], axis=0)[None],
        **{name: np.stack([of_direction[name] for of_direction in parameters]).reshape(shapes[name]) for name in parameters[0]},
        "hidden_init_gradient_tensor": np.stack([direction.dh for direction in directions])[None],
        "cell_mem_init_gradient_tensor": np.stack([direction.dc for direction in directions])[None],
    }


def _upstream(inputs: Inputs, name: str, shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> Array:
    """An upstream gradient, zeros if it is absent."""
    given: Array | None = inputs.get(name)
    return np.zeros(shape, dtype) if given is None else given
