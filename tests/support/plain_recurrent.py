"""RNN, LSTM and GRU as the equations say, one sample and one step at a time in float64: slow, and plain enough to be read as the oracle.

Nothing here is shared with the devices. The activations are scalar functions of Python's `math`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RNNDesc
from dmlpy.operators.recurrent.training import LSTMTrainingDesc

Array = np.ndarray[Any, np.dtype[Any]]
AnyRecurrentDesc = RNNDesc | LSTMDesc | GRUDesc


def _exp(x: float) -> float:
    return math.inf if x >= 709.0 else math.exp(x)


def activate(desc: ActivationDesc, x: float) -> float:
    """One value of an activation, by its definition."""
    name = desc.type_name.removeprefix("DML_OPERATOR_").removeprefix("ACTIVATION_")
    get: Any = desc
    match name:
        case "IDENTITY":
            return x
        case "LINEAR":
            return get.alpha * x + get.beta
        case "RELU":
            return x if math.isnan(x) else max(0.0, x)
        case "LEAKY_RELU":
            return x if x >= 0 else get.alpha * x
        case "THRESHOLDED_RELU":
            return x if x > get.alpha else 0.0
        case "ELU":
            return x if x >= 0 else get.alpha * math.expm1(x)
        case "CELU":
            if math.isnan(x):
                return x
            exponent = x / get.alpha
            return max(0.0, x) + min(0.0, get.alpha * (math.expm1(exponent) if exponent < 709.0 else math.inf))
        case "SCALED_ELU":
            return get.gamma * x if x > 0 else get.gamma * get.alpha * math.expm1(x)
        case "SIGMOID":
            return 1.0 / (1.0 + _exp(-x))
        case "HARD_SIGMOID":
            value = get.alpha * x + get.beta
            return value if math.isnan(value) else max(0.0, min(value, 1.0))
        case "TANH":
            return math.tanh(x)
        case "SCALED_TANH":
            return get.alpha * math.tanh(get.beta * x)
        case "SOFTSIGN":
            return math.copysign(1.0, x) if math.isinf(x) else x / (1.0 + abs(x))
        case "SOFTPLUS":
            # Past 40 the logarithm's 1 is beyond the last digit.
            return x if get.steepness * x > 40.0 else math.log1p(_exp(get.steepness * x)) / get.steepness
        case "PARAMETRIC_SOFTPLUS":
            exponent = get.beta * x
            return get.alpha * (exponent if exponent > 40.0 else math.log1p(_exp(exponent)))
        case "GELU":
            return 0.0 if x == -math.inf else 0.5 * x * math.erfc(-x / math.sqrt(2.0))
        case "SHRINK":
            if x > get.threshold:
                return x - get.bias
            return x + get.bias if x < -get.threshold else 0.0
    raise AssertionError(f"no definition of {name}")


def _apply(desc: ActivationDesc, values: Array) -> Array:
    return np.array([activate(desc, float(value)) for value in values])


@dataclass(frozen=True)
class Weights:
    """The parameters of one direction, and what dropout multiplies for one sample.

    Attributes:
        w, r: [G, H, I] and [G, H, S].
        b: Wb and Rb, [2, G, H].
        p: peepholes of i, o, f, [3, H].
        projection: [S, H], or None.
        of_x, of_h: multipliers, [G, I] and [G, S].
    """

    w: Array
    r: Array
    b: Array
    p: Array
    projection: Array | None
    of_x: Array
    of_h: Array

    def from_x(self, gate: int, x: Array) -> Array:
        return self.w[gate] @ (x * self.of_x[gate]) + self.b[0, gate]

    def from_h(self, gate: int, h: Array) -> Array:
        return self.r[gate] @ (h * self.of_h[gate]) + self.b[1, gate]

    def sums(self, gate: int, x: Array, h: Array) -> Array:
        """x W^T + h R^T + Wb + Rb of one gate."""
        return self.from_x(gate, x) + self.from_h(gate, h)


Stepped = tuple[Array, Array, list[Array]]
"""h, c, and the arguments of the gates' activations before any clipping; for a GRU that resets last also h R^T + Rb of its last gate."""


def _rnn(activations: tuple[ActivationDesc, ...], weights: Weights, x: Array, h: Array, c: Array) -> Stepped:
    argument = weights.sums(0, x, h)
    return _apply(activations[0], argument), c, [argument]


def _gru(desc: GRUDesc, activations: tuple[ActivationDesc, ...], weights: Weights, x: Array, h: Array, c: Array) -> Stepped:
    f, g = activations
    of_update, of_reset = weights.sums(0, x, h), weights.sums(1, x, h)
    update, reset = _apply(f, of_update), _apply(f, of_reset)
    if desc.linear_before_reset:
        recurrent = weights.from_h(2, h)
        of_candidate = weights.from_x(2, x) + reset * recurrent
        arguments = [of_update, of_reset, of_candidate, recurrent]
    else:
        of_candidate = weights.from_x(2, x) + weights.from_h(2, reset * h)
        arguments = [of_update, of_reset, of_candidate]
    return (1.0 - update) * _apply(g, of_candidate) + update * h, c, arguments


def _lstm(desc: LSTMDesc, activations: tuple[ActivationDesc, ...], weights: Weights, x: Array, h: Array, c: Array) -> Stepped:
    f, g, of_cell = activations
    p = weights.p

    def clip(sums: Array) -> Array:
        bound = desc.clip_threshold
        return np.where(sums > bound, bound, np.where(sums < -bound, -bound, sums)) if desc.use_clip_threshold else sums

    of_i = weights.sums(0, x, h) + p[0] * c
    of_f = weights.sums(2, x, h) + p[2] * c
    of_c = weights.sums(3, x, h)
    i = _apply(f, clip(of_i))
    forget = 1.0 - i if desc.couple_input_forget else _apply(f, clip(of_f))
    new_c = forget * c + i * _apply(g, clip(of_c))
    of_o = weights.sums(1, x, h) + p[1] * new_c
    new_h = _apply(f, clip(of_o)) * _apply(of_cell, new_c)
    if weights.projection is not None:
        new_h = weights.projection @ new_h
    return new_h, new_c, [of_i, of_o, of_f, of_c]


@dataclass(frozen=True)
class Walked:
    """All that happens in the walks.

    Attributes:
        outputs: every output of the operator in float64, described or not.
        hidden: h before and after each step, [D, T + 1, B, S]: t leads from slot t to slot t + 1, backwards from slot t + 1 to slot t.
        memory: the same of c, [D, T + 1, B, H].
        arguments: what `Stepped` has of each step, [D, T, K, B, H]; NaN at steps that a sample does not take.
    """

    outputs: dict[str, Array]
    hidden: Array
    memory: Array
    arguments: Array


def walk(desc: AnyRecurrentDesc, arrays: Mapping[str, Array]) -> Walked:
    """The operator, or its training form, from the arrays of the described inputs."""
    inputs = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
    x = inputs["input_tensor"][0]
    steps, batch, width = x.shape
    gates = len(desc.gate_names)
    _, directions, rows, entries = inputs["recurrence_tensor"].shape
    hidden = rows // gates
    lbr = isinstance(desc, GRUDesc) and desc.linear_before_reset

    w = inputs["weight_tensor"].reshape(directions, gates, hidden, width)
    r = inputs["recurrence_tensor"].reshape(directions, gates, hidden, entries)
    bias = inputs.get("bias_tensor", np.zeros((1, 1, directions, 2 * gates * hidden))).reshape(directions, 2, gates, hidden)
    peephole = inputs.get("peephole_tensor", np.zeros((1, 1, directions, 3 * hidden))).reshape(directions, 3, hidden)
    projects = isinstance(desc, LSTMTrainingDesc) and desc.projection_tensor is not None
    hidden_init = inputs.get("hidden_init_tensor", np.zeros((1, directions, batch, entries)))[0]
    cell_init = inputs.get("cell_mem_init_tensor", np.zeros((1, directions, batch, hidden)))[0]
    lengths = inputs.get("sequence_lengths_tensor", np.full((1, 1, 1, batch), steps))[0, 0, 0]
    mask = inputs.get("step_mask_tensor", np.ones((1, 1, steps, batch)))[0, 0]
    of_x = inputs.get("input_dropout_tensor", np.ones((directions, gates, batch, width)))
    of_h = inputs.get("state_dropout_tensor", np.ones((directions, gates, batch, entries)))

    sequence = np.zeros((steps, directions, batch, entries))
    single, cell_single = np.zeros((1, directions, batch, entries)), np.zeros((1, directions, batch, hidden))
    hidden_slots, memory_slots = np.zeros((directions, steps + 1, batch, entries)), np.zeros((directions, steps + 1, batch, hidden))
    arguments = np.full((directions, steps, gates + lbr, batch, hidden), np.nan)
    for d in range(directions):
        backward = desc.direction is RecurrentDirection.BACKWARD or d == 1
        count = len(desc.activation_roles)
        functions = desc.activation_descs[d * count : (d + 1) * count]
        projection = inputs["projection_tensor"][0, d] if projects else None
        for sample in range(batch):
            weights = Weights(w[d], r[d], bias[d], peephole[d], projection, of_x[d, :, sample], of_h[d, :, sample])
            h, c = hidden_init[d, sample], cell_init[d, sample]
            last_output = np.zeros(entries)
            first_slot = steps if backward else 0
            hidden_slots[d, first_slot, sample], memory_slots[d, first_slot, sample] = h, c
            for t in reversed(range(steps)) if backward else range(steps):
                ended = t >= lengths[sample]
                if not ended and mask[t, sample] != 0:
                    if isinstance(desc, LSTMDesc):
                        h, c, found = _lstm(desc, functions, weights, x[t, sample], h, c)
                    elif isinstance(desc, GRUDesc):
                        h, c, found = _gru(desc, functions, weights, x[t, sample], h, c)
                    else:
                        h, c, found = _rnn(functions, weights, x[t, sample], h, c)
                    arguments[d, t, :, sample] = found
                    last_output = h
                if not ended:
                    sequence[t, d, sample] = last_output
                slot = t if backward else t + 1
                hidden_slots[d, slot, sample], memory_slots[d, slot, sample] = h, c
            single[0, d, sample], cell_single[0, d, sample] = h, c
    outputs = {"output_sequence_tensor": sequence, "output_single_tensor": single, "output_cell_single_tensor": cell_single}
    return Walked(outputs, hidden_slots, memory_slots, arguments)


def run(desc: AnyRecurrentDesc, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """All outputs of the operator in float64, described or not, from the arrays of the described inputs."""
    return walk(desc, arrays).outputs


def loss(desc: AnyRecurrentDesc, arrays: Mapping[str, Array], upstream: Mapping[str, Array]) -> float:
    """The sum of all outputs, each multiplied by what `upstream` has under its name: its gradient is what backpropagation gives."""
    outputs = run(desc, arrays)
    return sum(float(np.sum(outputs[name] * np.asarray(factors, np.float64))) for name, factors in upstream.items())
