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
    from collections.abc import Callable

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
        states: the states that R multiplied for each gate, before dropout, [G, B, S].
        dh: gradient of h before the step, [B, S].
        dc: gradient of c before the step, [B, H].
        peephole: gradients of the peepholes of i, o, f by sample, [3, B, H].
        projection: gradient of the projection by sample, [B, S, H]; zeros without one.
    """

    of_x: list[Array]
    of_h: list[Array]
    states: list[Array]
    dh: Array
    dc: Array
    peephole: list[Array]
    projection: Array


def _back(p: Parameters, gate: int, gradient: Array) -> Array:
    """The gradient of the h that a gate's R multiplied, [B, S]."""
    back: Array = (gradient @ p.r[gate]) * p.h_dropout[gate]
    return back


def _slope(cell: RecurrentCell, function: ActivationDesc, a: Array) -> Array:
    """The derivative of an activation by a gate's sum; 0 for a sum beyond the clip threshold, but not for one at it."""
    inside = 1.0 if cell.clip is None else np.abs(a) <= cell.clip
    slope: Array = derivative(function, clipped(cell, a)) * inside
    return slope


def rnn_back(cell: RecurrentCell, functions: Activations, p: Parameters, s: StepInputs) -> StepGradients:
    (f,) = functions
    da = s.dh * _slope(cell, f, s.a[0])
    return _gradients(p, s, of_x=[da], of_h=[da], states=[s.h], dh=_back(p, 0, da), dc=s.dc)


def lstm_back(cell: RecurrentCell, functions: Activations, p: Parameters, s: StepInputs) -> StepGradients:
    f, g, of_cell = functions
    p_i, p_o, p_f = p.peephole
    a_i, a_o, a_f, a_c = s.a
    i, o, new = activate(f, clipped(cell, a_i)), activate(f, clipped(cell, a_o)), activate(g, clipped(cell, a_c))
    forget = 1.0 - i if cell.couple_input_forget else activate(f, clipped(cell, a_f))
    cell_output = activate(of_cell, s.new_c)
    dh, projection = s.dh, None
    if p.projection is not None:
        projection = s.dh[:, :, None] * (o * cell_output)[:, None, :]
        dh = s.dh @ p.projection
    da_o = dh * cell_output * _slope(cell, f, a_o)
    dc = s.dc + dh * o * derivative(of_cell, s.new_c) + p_o * da_o
    if cell.couple_input_forget:
        da_i = dc * (new - s.c) * _slope(cell, f, a_i)
        da_f = np.zeros_like(da_i)
    else:
        da_i = dc * new * _slope(cell, f, a_i)
        da_f = dc * s.c * _slope(cell, f, a_f)
    da_c = dc * i * _slope(cell, g, a_c)
    da = [da_i, da_o, da_f, da_c]
    dh = sum((_back(p, gate, gradient) for gate, gradient in enumerate(da)), np.zeros_like(s.h))
    dc = dc * forget + p_i * da_i + p_f * da_f
    peephole = [da_i * s.c, da_o * s.new_c, da_f * s.c]
    return _gradients(p, s, of_x=da, of_h=da, states=[s.h] * 4, dh=dh, dc=dc, peephole=peephole, projection=projection)


def gru_back(cell: RecurrentCell, functions: Activations, p: Parameters, s: StepInputs) -> StepGradients:
    f, g = functions
    a_z, a_r, a_h, *recurrent = s.a
    z, r, new = activate(f, a_z), activate(f, a_r), activate(g, a_h)
    da_h = s.dh * (1.0 - z) * derivative(g, a_h)
    da_z = s.dh * (s.h - new) * derivative(f, a_z)
    if recurrent:  # linear_before_reset: a_h = x W^T + Wb + r * recurrent
        da_r = da_h * recurrent[0] * derivative(f, a_r)
        of_h, states = [da_z, da_r, r * da_h], [s.h, s.h, s.h]
        dh = s.dh * z + _back(p, 2, r * da_h)
    else:  # a_h = x W^T + Wb + (r * h) R^T + Rb
        of_reset = _back(p, 2, da_h)
        da_r = of_reset * s.h * derivative(f, a_r)
        of_h, states = [da_z, da_r, da_h], [s.h, s.h, r * s.h]
        dh = s.dh * z + of_reset * r
    dh = dh + _back(p, 0, da_z) + _back(p, 1, da_r)
    return _gradients(p, s, of_x=[da_z, da_r, da_h], of_h=of_h, states=states, dh=dh, dc=s.dc)


def _gradients(
    p: Parameters,
    s: StepInputs,
    *,
    of_x: list[Array],
    of_h: list[Array],
    states: list[Array],
    dh: Array,
    dc: Array,
    peephole: list[Array] | None = None,
    projection: Array | None = None,
) -> StepGradients:
    if projection is None:
        projection = np.zeros((*s.dh.shape, p.w.shape[1]), s.dh.dtype)
    return StepGradients(of_x, of_h, states, dh, dc, peephole or [np.zeros_like(s.c)] * 3, projection)


_BACK: dict[str, Callable[[RecurrentCell, Activations, Parameters, StepInputs], StepGradients]] = {
    "RNN": rnn_back,
    "LSTM": lstm_back,
    "GRU": gru_back,
}


@defines(RecurrentGradDesc)
def gradient(desc: RecurrentGradDesc, inputs: Inputs) -> dict[str, Array]:
    """Computes every gradient by field name, described or not, from the reserve of the training form's definition."""
    sizes, dtype = desc.geometry, inputs["input_tensor"].dtype
    t, b, i, h = sizes.seq_length, sizes.batch_size, sizes.input_size, sizes.hidden_size
    d, g, s = sizes.num_directions, sizes.gates, sizes.state_size
    counted = Steps.of(desc, inputs)
    arguments, hidden, memory = unpacked_reserve(desc, inputs["reserve_tensor"])
    # Values at steps that no sample takes are ignored.
    x = np.where(counted.taken[:, :, None], inputs["input_tensor"][0], 0.0)
    upstream = _upstream(inputs, "output_sequence_gradient_tensor", (t, d, b, s), dtype)
    of_single = _upstream(inputs, "output_single_gradient_tensor", (1, d, b, s), dtype)[0]
    of_cell_single = _upstream(inputs, "output_cell_single_gradient_tensor", (1, d, b, h), dtype)[0]

    dx, dw, dr = np.zeros((t, b, i), dtype), np.zeros((d, g, h, i), dtype), np.zeros((d, g, h, s), dtype)
    db, dp, d_projection = np.zeros((d, 2, g, h), dtype), np.zeros((d, 3, h), dtype), np.zeros((d, s, h), dtype)
    dh_init, dc_init = np.zeros((d, b, s), dtype), np.zeros((d, b, h), dtype)
    for at in range(d):
        p, backward = Parameters.of(desc, inputs, at), runs_backward(desc, at)
        of_x, of_h, states = np.zeros((g, t, b, h), dtype), np.zeros((g, t, b, h), dtype), np.zeros((g, t, b, s), dtype)
        dh, dc = of_single[at], of_cell_single[at]
        repeated = np.zeros_like(dh)  # upstream gradients of outputs that repeat an earlier step's
        for time in range(t) if backward else reversed(range(t)):
            before, after = (time + 1, time) if backward else (time, time + 1)
            within, taken = counted.within[time, :, None], counted.taken[time, :, None]
            repeated = repeated + np.where(within, upstream[time, at], 0.0)
            given = StepInputs(arguments[at, time], hidden[at, before], memory[at, before], memory[at, after], dh + repeated, dc)
            step = _BACK[desc.cell.kind](desc.cell, desc.activations_of(at), p, given)
            of_x[:, time], of_h[:, time] = np.where(taken, step.of_x, 0.0), np.where(taken, step.of_h, 0.0)
            states[:, time] = step.states
            dp[at] += np.sum(np.where(taken, step.peephole, 0.0), axis=1)
            d_projection[at] += np.sum(np.where(taken[:, :, None], step.projection, 0.0), axis=0)
            dh, dc, repeated = np.where(taken, step.dh, dh), np.where(taken, step.dc, dc), np.where(taken, 0.0, repeated)
        for gate in range(g):
            dx += (of_x[gate] @ p.w[gate]) * p.x_dropout[gate]
            dw[at, gate] = _summed_products(of_x[gate], x * p.x_dropout[gate])
            dr[at, gate] = _summed_products(of_h[gate], states[gate] * p.h_dropout[gate])
            db[at, :, gate] = of_x[gate].sum((0, 1)), of_h[gate].sum((0, 1))
        dh_init[at], dc_init[at] = dh, dc
    return {
        "input_gradient_tensor": dx[None],
        "weight_gradient_tensor": dw.reshape(1, d, g * h, i),
        "recurrence_gradient_tensor": dr.reshape(1, d, g * h, s),
        "bias_gradient_tensor": db.reshape(1, 1, d, 2 * g * h),
        "hidden_init_gradient_tensor": dh_init[None],
        "cell_mem_init_gradient_tensor": dc_init[None],
        "peephole_gradient_tensor": dp.reshape(1, 1, d, 3 * h),
        "projection_gradient_tensor": d_projection[None],
    }


def _summed_products(gradients: Array, operands: Array) -> Array:
    """The products of gradients [T, B, H] and operands [T, B, N], summed over steps and samples, [H, N]."""
    return np.tensordot(gradients, operands, axes=((0, 1), (0, 1)))


def _upstream(inputs: Inputs, name: str, shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> Array:
    """An upstream gradient, zeros if it is absent."""
    given: Array | None = inputs.get(name)
    return np.zeros(shape, dtype) if given is None else given
