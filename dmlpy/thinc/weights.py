"""The layout of a model's one parameter: that of Thinc's `LSTM.v1`.

For each layer and direction it holds the matrices that multiply the input, one gate after the other, their biases, the matrices that
multiply h, and their biases.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.description.gate_order import GateOrder
from dmlpy.nn.gates import copy_gates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.description.gate_order import Cell
    from dmlpy.nn.layers import Workspace

Native = Any


class Shape(NamedTuple):
    """The sizes of a model.

    Attributes:
        cell: `LSTM`, `GRU` or `RNN`.
        inputs: entries of each input.
        units: entries of h of a direction.
        depth: the number of layers.
        directions: 1 or 2.
    """

    cell: Cell
    inputs: int
    units: int
    depth: int
    directions: int

    @property
    def gates(self) -> int:
        """The number of gates."""
        return len(GateOrder.THINC.gates(self.cell))

    def inputs_of(self, layer: int) -> int:
        """The entries of a layer's input."""
        return self.directions * self.units if layer else self.inputs

    def block(self, layer: int) -> int:
        """The number of elements of a direction of a layer."""
        rows = self.gates * self.units
        return rows * (self.inputs_of(layer) + self.units + 2)

    @property
    def size(self) -> int:
        """The number of elements of the parameter."""
        return _ends(self)[-1]


class LayerWeights(NamedTuple):
    """Views of a layer's parts: D directions, G gates of H rows each.

    Attributes:
        w: [D, G H, inputs].
        bw: [D, G H], added to the products of w.
        r: [D, G H, H].
        br: [D, G H], added to the products of r.
    """

    w: Native
    bw: Native
    r: Native
    br: Native

    @classmethod
    def of(cls, elements: Native, shape: Shape, layer: int) -> LayerWeights:
        """The parts of a layer, as views of its elements."""
        rows, inputs, units = shape.gates * shape.units, shape.inputs_of(layer), shape.units
        whole = elements.reshape(shape.directions, -1)
        at = [0, rows * inputs, rows * inputs + rows, rows * (inputs + 1 + units), rows * (inputs + units + 2)]
        w, bw, r, br = (whole[:, first:last] for first, last in pairwise(at))
        return cls(w.reshape(-1, rows, inputs), bw, r.reshape(-1, rows, units), br)

    def fill(self, space: Workspace, cell: Cell) -> None:
        """Copies them into a workspace."""
        rows = self.bw.shape[1]
        pairs = ((space.w, self.w), (space.r, self.r), (space.b[:, :rows], self.bw), (space.b[:, rows:], self.br))
        for target, source in pairs:
            copy_gates(target, source, cell, GateOrder.THINC, GateOrder.DIRECTML)

    def take(self, space: Workspace, cell: Cell) -> None:
        """Copies a workspace's gradients into them."""
        rows, found = self.bw.shape[1], space.gradients
        pairs = ((self.w, found["w"]), (self.r, found["r"]), (self.bw, found["b"][:, :rows]), (self.br, found["b"][:, rows:]))
        for target, source in pairs:
            copy_gates(target, source, cell, GateOrder.DIRECTML, GateOrder.THINC)


@lru_cache
def _ends(shape: Shape) -> tuple[int, ...]:
    """The places in the parameter at which the elements of the layers end."""
    return tuple(accumulate(shape.directions * shape.block(layer) for layer in range(shape.depth)))


def slices(flat: Native, shape: Shape) -> Iterator[Native]:
    """The elements of each layer, as views of the parameter or of an array of its size."""
    for start, end in pairwise((0, *_ends(shape))):
        yield flat[start:end]


def split(flat: Native, shape: Shape) -> Iterator[LayerWeights]:
    """The parts of each layer, as views of the parameter or of an array of its size."""
    for layer, elements in enumerate(slices(flat, shape)):
        yield LayerWeights.of(elements, shape, layer)
