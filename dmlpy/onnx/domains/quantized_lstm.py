"""DynamicQuantizeLSTM (com.microsoft): an LSTM whose weights are bytes, and whose input and states are quantized step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator
from dmlpy.onnx.nodes.recurrent_activations import parse_activations
from dmlpy.operators.recurrent.layer import RecurrentCell
from dmlpy.reference.recurrent.layer import Parameters, lstm_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.operators.activation import ActivationDesc

_X, _W, _R, _B, _LENGTHS, _H, _C, _P, _SCALES = range(9)
_GATES = 4
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction begins at the last step."""


@dataclass(frozen=True)
class Weights:
    """The matrix of one direction as bytes.

    Attributes:
        numbers: the bytes less their zero points, integers in FLOAT64 [K, 4 H], whose products are exact.
        scales: per column or for all, FLOAT32.
    """

    numbers: Array
    scales: Array

    @classmethod
    def of(cls, node: Node, index: int, direction: int) -> Weights:
        """The weights at input `index`; scale and zero point are among the inputs after the LSTM's."""
        place = _SCALES + 2 * (index - _W)
        matrix, scales = node.array(index)[direction], node.array(place)
        zeros = node.array(place + 1) if node.has(place + 1) else np.zeros(len(scales), matrix.dtype)
        for at, given in ((place, scales), (place + 1, zeros)):
            if given.shape not in ((node.sizes(index)[0],), (node.sizes(index)[0], matrix.shape[1])):
                expected = f"[{node.sizes(index)[0]}] or [{node.sizes(index)[0]}, {matrix.shape[1]}]"
                raise node.refusal("onnx.invalid", f"input {at}", listed(given.shape), expected)
        return cls(matrix.astype(np.float64) - zeros[direction].astype(np.float64), np.asarray(scales[direction], np.float32))

    def product(self, rows: Array) -> Array:
        """Rows [n, K] in FLOAT32, quantized as DynamicQuantizeLinear does, by the weights: [n, 4 H]."""
        least, most = np.float32(min(rows.min(initial=0), 0)), np.float32(max(rows.max(initial=0), 0))
        scale = (most - least) / np.float32(255) if most > least else np.float32(1)
        zero = np.rint(np.clip(-least / scale, 0, 255))
        numbers = np.clip(np.rint(rows / scale) + zero, 0, 255).astype(np.float64) - np.float64(zero)
        product: Array = (numbers @ self.numbers).astype(np.float32) * (self.scales * scale)
        return product


class _Summed(Parameters):
    """Parameters of a step whose sums already include the products with the state."""

    def from_h(self, h: Array, gates: slice = slice(None)) -> Array:
        return np.zeros_like(h)


@dataclass(frozen=True)
class _Direction:
    """One direction of the layer.

    Attributes:
        node: the node.
        number: its index.
        backward: whether it begins at the last step.
        functions: the activations.
        lengths: of the sequences, [B].
    """

    node: Node
    number: int
    backward: bool
    functions: tuple[ActivationDesc, ...]
    lengths: Array

    def run(self, x: Array) -> tuple[Array, Array, Array]:
        """Y [T, B, H], Y_h and Y_c [B, H] of the input [T, B, I]."""
        steps, batch, width = x.shape
        inputs, recurrent = Weights.of(self.node, _W, self.number), Weights.of(self.node, _R, self.number)
        units = recurrent.numbers.shape[0]
        cell = RecurrentCell(
            kind="LSTM",
            gates=_GATES,
            clip=self.node.attribute("clip") or None,
            couple_input_forget=bool(self.node.attribute("input_forget", 0)),
            linear_before_reset=False,
            peephole=self.node.has(_P),
            projection=False,
        )
        parameters = self._parameters(units)
        # ONNX Runtime's order: a row that runs backward begins at its last valid step, which determines what ranges cover.
        longest = int(self.lengths.max(initial=0))
        steps_taken, rows = np.arange(longest)[:, None], np.arange(batch)
        within = steps_taken < self.lengths
        times = np.where(within & self.backward, self.lengths - 1 - steps_taken, steps_taken)
        x = x[times, rows]
        sums = inputs.product(x.reshape(-1, width)).reshape(longest, batch, -1) + self._bias(units)
        h, c = self._state(_H, batch, units), self._state(_C, batch, units)
        outputs = np.zeros((steps, batch, units), np.float32)
        for step in range(longest):
            # If all of Y is requested, the range of the states excludes rows that have ended: they are zeros then.
            seen = np.where(within[step - 1][:, None], h, 0) if step and self.node.proto.output[0] else h
            gates = (sums[step] + recurrent.product(seen)).reshape(batch, _GATES, units).swapaxes(0, 1)
            new_h, new_c, _ = lstm_step(cell, self.functions, parameters, gates, h, c)
            taken = within[step][:, None]
            h, c = np.where(taken, new_h, h), np.where(taken, new_c, c)
            outputs[times[step], rows] = np.where(taken, new_h, 0)
        return outputs, h, c

    def _bias(self, units: int) -> Array:
        """The sum of both biases, [4 H]."""
        if not self.node.has(_B):
            return np.zeros(_GATES * units, np.float32)
        whole: Array = self.node.array(_B)[self.number].reshape(2, -1).sum(0)
        return whole

    def _state(self, index: int, batch: int, units: int) -> Array:
        if not self.node.has(index):
            return np.zeros((batch, units), np.float32)
        state: Array = self.node.array(index)[self.number]
        return state

    def _parameters(self, units: int) -> _Summed:
        none = np.zeros(0, np.float32)
        peepholes = self.node.array(_P)[self.number].reshape(3, units) if self.node.has(_P) else None
        return _Summed(none, none, none, none, none, peepholes, projection=None, x_dropout=None, h_dropout=None)


def _describe_outputs(node: Node) -> Sequence[OutputType]:
    """The outputs of LSTM: Y [T, D, B, H], Y_h and Y_c [D, B, H]."""
    x, r = node.value(_X).sizes, node.value(_R).sizes
    if x is None or r is None:
        return [(TensorProto.FLOAT, None)] * 3
    last = (TensorProto.FLOAT, (r[0], x[1], r[1]))
    return [(TensorProto.FLOAT, (x[0], r[0], x[1], r[1])), last, last]


@register_host_operator("DynamicQuantizeLSTM", _describe_outputs)
def quantized_lstm(node: Node) -> Sequence[Array]:
    """The LSTM; the quantized input has one scale for all steps, a quantized state one for the batch."""
    x = node.array(_X)
    steps, batch = x.shape[:2]
    direction = node.attribute("direction", "forward")
    if direction not in _DIRECTIONS:
        raise node.invalid("direction", *_DIRECTIONS)
    backwards = _DIRECTIONS[direction]
    _check(node, len(backwards))
    functions = tuple(parse_activations(node, "LSTM", len(backwards)))
    lengths = node.array(_LENGTHS) if node.has(_LENGTHS) else np.full(batch, steps)
    by_direction = [
        _Direction(node, number, backward, functions[3 * number : 3 * number + 3], lengths).run(x)
        for number, backward in enumerate(backwards)
    ]
    sequences, hidden, memory = zip(*by_direction, strict=True)
    return [np.stack(sequences, 1), np.stack(hidden), np.stack(memory)]


def _check(node: Node, directions: int) -> None:
    """Rejects inputs whose sizes contradict each other."""
    (steps, batch, width), units = node.sizes(_X), node.sizes(_R)[1]
    gates = _GATES * units
    wanted = {
        _W: (directions, width, gates),
        _R: (directions, units, gates),
        _B: (directions, 2 * gates),
        _LENGTHS: (batch,),
        _H: (directions, batch, units),
        _C: (directions, batch, units),
        _P: (directions, 3 * units),
    }
    for index, sizes in wanted.items():
        if node.has(index) and node.sizes(index) != sizes:
            raise node.refusal("onnx.invalid", f"input {index}", listed(node.sizes(index)), listed(sizes))
    if node.has(_LENGTHS) and not 0 <= node.array(_LENGTHS).min(initial=0) <= node.array(_LENGTHS).max(initial=0) <= steps:
        raise node.refusal(
            "onnx.invalid", f"input {_LENGTHS}", listed(node.array(_LENGTHS).tolist()), f"lengths of 0 to {steps}, the steps"
        )
