"""RNN, LSTM and GRU with their gradients in float64, as the equations say: forward on a tape, which then runs backwards.

Nothing here is shared with the devices, and no derivative of a cell is written down: the tape knows sums, products and choices, and takes
the slope of an activation from differences of its values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.recurrent.gradient import ReserveDesc
from tests.support.plain_recurrent import activate

Array = np.ndarray[Any, np.dtype[Any]]
Back = Callable[[Array], Array]

KEEPS_VALUE = frozenset({"IDENTITY", "LINEAR", "RELU", "TANH", "SIGMOID", "HARD_SIGMOID"})
"""Activations whose derivative follows from their value; of the others training keeps the argument."""

_numbers = itertools.count()


class Node:
    """A value on the tape, and the gradient of the loss with respect to it."""

    def __init__(self, value: Any, sources: Sequence[tuple[Node, Back]] = ()) -> None:
        self.value: Array = np.asarray(value, np.float64)
        self.gradient = np.zeros_like(self.value)
        self.sources = sources
        self.number = next(_numbers)

    def __add__(self, other: Node) -> Node:
        return Node(self.value + other.value, [(self, _like(self)), (other, _like(other))])

    def __mul__(self, other: Node) -> Node:
        return Node(
            self.value * other.value,
            [(self, lambda g: _like(self)(g * other.value)), (other, lambda g: _like(other)(g * self.value))],
        )

    def one_minus(self) -> Node:
        return Node(1.0 - self.value, [(self, np.negative)])

    def by(self, weights: Node) -> Node:
        """self weights^T."""
        return Node(self.value @ weights.value.T, [(self, lambda g: g @ weights.value), (weights, lambda g: g.T @ self.value)])

    def clip(self, bound: float | None) -> Node:
        if bound is None:
            return self
        inside = np.abs(self.value) <= bound
        return Node(np.clip(self.value, -bound, bound), [(self, lambda g: g * inside)])

    def through(self, desc: ActivationDesc) -> Node:
        step = 1e-6
        value, above, below = (_activate(desc, self.value + offset) for offset in (0.0, step, -step))
        return Node(value, [(self, lambda g: g * ((above - below) / (2 * step)))])


def choose(chosen: Array, one: Node, other: Node) -> Node:
    """`one` for the samples that are chosen, `other` for the rest."""
    rows = chosen[:, None]
    sources: list[tuple[Node, Back]] = [(one, lambda g: np.where(rows, g, 0.0)), (other, lambda g: np.where(rows, 0.0, g))]
    return Node(np.where(rows, one.value, other.value), sources)


def _activate(desc: ActivationDesc, values: Array) -> Array:
    return np.array([activate(desc, float(value)) for value in values.ravel()]).reshape(values.shape)


def _like(node: Node) -> Back:
    """The sum of a gradient over what was broadcast."""

    def back(gradient: Array) -> Array:
        return gradient if gradient.shape == node.value.shape else gradient.sum(axis=0)

    return back


def _run_back(seeds: Sequence[tuple[Node, Array]]) -> None:
    waiting: dict[int, Node] = {}
    for node, gradient in seeds:
        node.gradient = node.gradient + gradient
        waiting[node.number] = node
    while waiting:
        node = waiting.pop(max(waiting))
        for source, back in node.sources:
            source.gradient = source.gradient + back(node.gradient)
            waiting[source.number] = source


class PlainTraining:
    """One pass of a layer.

    Attributes:
        outputs: the operator's outputs by name.
        kept: [T, B, D, K, H], of each gate its value or its argument; NaN at steps that a sample does not take.
        hidden: [D, T + 1, B, S], the states before and after each step.
        memory: [D, T + 1, B, H].

    Args:
        desc: the layer, as a training form or its gradient.
        arrays: the inputs of the training form, described or not, absent ones as the operator takes them.
    """

    def __init__(self, desc: ReserveDesc, arrays: Mapping[str, Array]) -> None:
        self._desc, self._cell, self._sizes = desc, desc.cell, desc.geometry
        sizes = self._sizes
        t, b, d, g, h, s = sizes.seq_length, sizes.batch_size, sizes.num_directions, sizes.gates, sizes.hidden_size, sizes.state_size
        lengths = np.minimum(arrays.get("sequence_lengths_tensor", np.full((1, 1, 1, b), t))[0, 0, 0], t)
        self._within = np.arange(t)[:, None] < lengths
        self._taken = self._within & (arrays.get("step_mask_tensor", np.ones((1, 1, t, b)))[0, 0] != 0)

        def by_gate(name: str, shape: tuple[int, ...], missing: float = 0.0) -> Array:
            return np.asarray(arrays.get(name, np.full(shape, missing)), np.float64).reshape(shape)

        def leaves(name: str, shape: tuple[int, ...], axes: int) -> dict[tuple[int, ...], Node]:
            values = by_gate(name, shape)
            return {index: Node(values[index]) for index in np.ndindex(*shape[:axes])}

        inputs = np.where(self._taken[:, :, None], np.asarray(arrays["input_tensor"][0], np.float64), 0.0)
        self._x = [Node(inputs[time]) for time in range(t)]
        self._w = leaves("weight_tensor", (d, g, h, sizes.input_size), 2)
        self._r = leaves("recurrence_tensor", (d, g, h, s), 2)
        self._b = leaves("bias_tensor", (d, 2, g, h), 3)
        self._p = leaves("peephole_tensor", (d, 3, h), 2)
        self._projection = leaves("projection_tensor", (d, s, h), 1)
        self._h = leaves("hidden_init_tensor", (d, b, s), 1)
        self._c = leaves("cell_mem_init_tensor", (d, b, h), 1)
        self._drop_x = by_gate("input_dropout_tensor", (d, g, b, sizes.input_size), 1.0)
        self._drop_h = by_gate("state_dropout_tensor", (d, g, b, s), 1.0)
        self.kept = np.full((t, b, d, self._cell.kept, h), np.nan)
        self.hidden, self.memory = np.zeros((d, t + 1, b, s)), np.zeros((d, t + 1, b, h))
        self._sequence: dict[tuple[int, int], Node] = {}
        self._single: list[tuple[Node, Node]] = []
        for direction in range(d):
            self._walk(direction, desc.direction is RecurrentDirection.BACKWARD or direction == 1)
        self.outputs = {
            "output_sequence_tensor": np.array([[self._sequence[time, direction].value for direction in range(d)] for time in range(t)]),
            "output_single_tensor": np.array([[hidden.value for hidden, _ in self._single]]),
            "output_cell_single_tensor": np.array([[memory.value for _, memory in self._single]]),
        }

    def _walk(self, d: int, backward: bool) -> None:
        steps = len(self._within)
        h, c = self._h[(d,)], self._c[(d,)]
        shown = Node(np.zeros_like(h.value))
        for time in reversed(range(steps)) if backward else range(steps):
            taken = self._taken[time]
            before, after = (time + 1, time) if backward else (time, time + 1)
            self.hidden[d, before], self.memory[d, before] = h.value, c.value
            new_h, new_c, kept = self._step(d, self._x[time], h, c)
            self.kept[time, taken, d] = np.stack(kept, axis=1)[taken]
            h, c, shown = choose(taken, new_h, h), choose(taken, new_c, c), choose(taken, new_h, shown)
            self._sequence[time, d] = choose(self._within[time], shown, Node(np.zeros_like(h.value)))
            self.hidden[d, after], self.memory[d, after] = h.value, c.value
        self._single.append((h, c))

    def _step(self, d: int, x: Node, h: Node, c: Node) -> tuple[Node, Node, list[Array]]:
        cell = self._cell
        functions = self._desc.activations_of(d)
        kept: list[Array] = [np.zeros((len(x.value), self._sizes.hidden_size))] * cell.kept

        def product(gate: int, state: Node = h) -> Node:
            return (state * Node(self._drop_h[d, gate])).by(self._r[d, gate])

        def of_input(gate: int) -> Node:
            return (x * Node(self._drop_x[d, gate])).by(self._w[d, gate]) + self._b[d, 0, gate]

        def gate_of(place: int, total: Node, function: ActivationDesc) -> Node:
            value = total.clip(cell.clip).through(function)
            name = function.type_name.removeprefix("DML_OPERATOR_").removeprefix("ACTIVATION_")
            kept[place] = value.value if name in KEEPS_VALUE and cell.clip is None else total.value
            return value

        def total(gate: int) -> Node:
            return of_input(gate) + product(gate) + self._b[d, 1, gate]

        if cell.kind == "RNN":
            return gate_of(0, total(0), functions[0]), c, kept
        if cell.kind == "GRU":
            update, reset = gate_of(0, total(0), functions[0]), gate_of(1, total(1), functions[0])
            if cell.linear_before_reset:
                recurrent = product(2) + self._b[d, 1, 2]
                kept[3] = recurrent.value
                candidate = of_input(2) + reset * recurrent
            else:
                candidate = of_input(2) + product(2, reset * h) + self._b[d, 1, 2]
            return update.one_minus() * gate_of(2, candidate, functions[1]) + update * h, c, kept
        entry = gate_of(0, total(0) + self._p[d, 0] * c, functions[0])
        forget = entry.one_minus() if cell.couple_input_forget else gate_of(2, total(2) + self._p[d, 2] * c, functions[0])
        memory = forget * c + entry * gate_of(3, total(3), functions[1])
        exit_gate = gate_of(1, total(1) + self._p[d, 1] * memory, functions[0])
        hidden = exit_gate * memory.through(functions[2])
        return hidden.by(self._projection[(d,)]) if cell.projection else hidden, memory, kept

    def gradients(self, upstream: Mapping[str, Array]) -> dict[str, Array]:
        """Every gradient by name, for the upstream gradients of some outputs; once for each pass."""
        nodes = {
            "output_sequence_gradient_tensor": [(node, index) for index, node in self._sequence.items()],
            "output_single_gradient_tensor": [(node, (0, d)) for d, (node, _) in enumerate(self._single)],
            "output_cell_single_gradient_tensor": [(node, (0, d)) for d, (_, node) in enumerate(self._single)],
        }
        seeds = []
        for name, outputs in nodes.items():
            if name in upstream:
                # what lies where there is no output does not count, whatever it is
                seeds += [(node, np.nan_to_num(np.asarray(upstream[name][index], np.float64))) for node, index in outputs]
        _run_back(seeds)
        sizes = self._sizes
        walks, rows, hidden = sizes.num_directions, sizes.gates * sizes.hidden_size, sizes.hidden_size

        def gathered(nodes: Mapping[tuple[int, ...], Node], *shape: int) -> Array:
            return np.array([node.gradient for node in nodes.values()]).reshape(shape)

        return {
            "input_gradient_tensor": np.array([[node.gradient for node in self._x]]),
            "weight_gradient_tensor": gathered(self._w, 1, walks, rows, sizes.input_size),
            "recurrence_gradient_tensor": gathered(self._r, 1, walks, rows, sizes.state_size),
            "bias_gradient_tensor": gathered(self._b, 1, 1, walks, 2 * rows),
            "hidden_init_gradient_tensor": gathered(self._h, 1, walks, sizes.batch_size, sizes.state_size),
            "cell_mem_init_gradient_tensor": gathered(self._c, 1, walks, sizes.batch_size, hidden),
            "peephole_gradient_tensor": gathered(self._p, 1, 1, walks, 3 * hidden),
            "projection_gradient_tensor": gathered(self._projection, 1, walks, sizes.state_size, hidden),
        }
