"""The orders in which Keras versions list a recurrent layer's weights, and their conversion to and from DirectML's order.

Keras 1 lists W, U and b gate by gate: LSTM i, c, f, o; GRU z, r, h. Later versions list three arrays whose last axis holds
all gates: LSTM i, f, c, o; GRU z, r, h (as Keras 1 does with `consume_less="gpu"`). Matrices are [in, out], DirectML's [out, in].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.gate_order import Cell, GateOrder, reorder
from dmlpy.messages.naming import alternatives, plural
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

GateLayout = Literal["keras1", "keras3"]
Values = np.ndarray[Any, Any]

GATE_LAYOUTS: dict[GateLayout, GateOrder] = {"keras1": GateOrder.KERAS_1, "keras3": GateOrder.KERAS}


class WeightArrays(NamedTuple):
    """The weights of one direction, gates in DirectML's order along the first axis.

    Attributes:
        W: [G H, I].
        U: [G H, H].
        b: [parts G H].
    """

    W: Values
    U: Values
    b: Values


@dataclass(frozen=True)
class WeightList:
    """A layer's list of weights.

    Attributes:
        cell: whose gates they are.
        input_dim: I.
        output_dim: H.
        bias_parts: biases of each gate: 1; 2 where those of x and of h are separate, as in a GRU that resets after the product.
        directions: 1; 2 for the list of the forward direction, then that of the backward one.
    """

    cell: Cell
    input_dim: int
    output_dim: int
    bias_parts: int = 1
    directions: int = 1

    def shapes(self, order: GateLayout) -> dict[str, tuple[int, ...]]:
        """The shapes of one direction's arrays, by name."""
        gates = GATE_LAYOUTS[order].gates(self.cell)
        width = self.output_dim * (len(gates) if order == "keras3" else 1)
        bias = (width,) if self.bias_parts == 1 else (self.bias_parts, width)
        sizes = ((self.input_dim, width), (self.output_dim, width), bias)
        if order == "keras3":
            return dict(zip(("kernel", "recurrent_kernel", "bias"), sizes, strict=True))
        names = ("",) if len(gates) == 1 else tuple(f"_{gate}" for gate in gates)
        return {f"{kind}{name}": size for name in names for kind, size in zip("WUb", sizes, strict=True)}

    def to_keras(self, directions: Sequence[WeightArrays], order: GateLayout) -> list[Values]:
        """Lists the weights of each direction.

        Raises:
            DescError: no such order.
        """
        self._known(order)
        return list(chain.from_iterable(self._listed(direction, order) for direction in directions))

    def from_keras(self, weights: Sequence[Any], order: GateLayout) -> list[WeightArrays]:
        """The weights of each direction, from a list.

        Raises:
            DescError: no such order, or arrays of another number or of other shapes; all problems together.
        """
        self._known(order)
        shapes = self.shapes(order)
        names = list(shapes) if self.directions == 1 else [f"{way}_{name}" for way in ("forward", "backward") for name in shapes]
        if len(weights) != len(names):
            raise DescError("weights", [self._count_problem(len(weights), names)])
        arrays = [np.asarray(array, np.float32) for array in weights]
        problems = [
            Problem(
                "weights.shape",
                f"weights[{index}]",
                f"of shape {list(array.shape)}",
                f"{list(shape)}, as {name}",
                remedy=self._bias_remedy(f"weights[{index}]", array.shape, shape) if name.endswith("bias") else None,
            )
            for index, (array, name, shape) in enumerate(zip(arrays, names, [*shapes.values()] * self.directions, strict=True))
            if array.shape != shape
        ]
        if problems:
            raise DescError("weights", problems)
        count = len(shapes)
        return [self._arrays(arrays[start : start + count], order) for start in range(0, len(arrays), count)]

    def _bias_remedy(self, name: str, given: tuple[int, ...], wanted: tuple[int, ...]) -> str | None:
        """The remedy for a two-part bias, as in cuDNN's layers, given to a layer with one bias; None if the bias is not such a one."""
        width = wanted[-1]
        if given not in ((2 * width,), (2, width)):
            return None
        if self.bias_parts == 2:
            return f"the biases of x and of h lie behind each other, as of CuDNNGRU: {name}.reshape(2, {width})"
        if self.cell == "GRU":
            return "a GRU with reset_after=True has both biases, as CuDNNGRU has"
        sums = f"{name}.sum(axis=0)" if len(given) == 2 else f"{name}[:{width}] + {name}[{width}:]"
        return f"the biases of x and of h are apart, as of CuDNN{self.cell}: add them, {sums}"

    def _listed(self, direction: WeightArrays, order: GateLayout) -> list[Values]:
        W, U, b = (
            reorder(array, self.cell, GateOrder.DIRECTML, GATE_LAYOUTS[order], axis=0, parts=parts)
            for array, parts in zip(direction, (1, 1, self.bias_parts), strict=True)
        )
        bias = b if self.bias_parts == 1 else b.reshape(self.bias_parts, -1)
        whole = (W.T, U.T, bias)
        if order == "keras3":
            return [np.array(array) for array in whole]
        split = [np.split(array, len(GATE_LAYOUTS[order].gates(self.cell)), axis=-1) for array in whole]
        return [np.array(array) for gate in zip(*split, strict=True) for array in gate]

    def _arrays(self, arrays: Sequence[Values], order: GateLayout) -> WeightArrays:
        kernel, recurrent, bias = (np.concatenate(arrays[kind::3], axis=-1) for kind in range(3))
        return WeightArrays(
            *(
                reorder(array, self.cell, GATE_LAYOUTS[order], GateOrder.DIRECTML, axis=0, parts=parts)
                for array, parts in ((kernel.T, 1), (recurrent.T, 1), (bias.reshape(-1), self.bias_parts))
            )
        )

    def _count_problem(self, given: int, names: Sequence[str]) -> Problem:
        fitting = [order for order in GATE_LAYOUTS if len(self.shapes(order)) * self.directions == given]
        remedy = f"set_weights(weights, order={fitting[0]!r}) fits" if fitting else None
        return Problem("weights.count", "weights", plural(given, "array"), f"{len(names)}: {', '.join(names)}", remedy=remedy)

    def _known(self, order: Any) -> None:
        if order not in GATE_LAYOUTS:
            expected = alternatives(repr(cast("str", name)) for name in GATE_LAYOUTS)
            raise DescError("weights", [Problem("field.form", "order", brief(order), expected)])
