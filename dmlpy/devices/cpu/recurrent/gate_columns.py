"""The columns of the gates' gradients, of which each step has a row, and which of them enter a product together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.layer import RecurrentCell

Gates = tuple[int, tuple[int, ...]]
"""The first block of H columns, and the gates of these blocks."""


class GateRange(NamedTuple):
    """Gates that enter a product together.

    Attributes:
        columns: theirs among the gates' gradients.
        rows: theirs in the product's result, or in W.
        first: the number of the first one among those that multiply the same operand.
    """

    columns: slice
    rows: slice
    first: int


@dataclass(frozen=True)
class GateColumns:
    """The gates' gradients in a row: which gates' they are, and which columns enter the products.

    Attributes:
        hidden: H.
        gates: blocks of H columns.
        of_input: the first block that multiplies x and W, and the gates of these blocks.
        of_state: the first block that multiplies h[t-1] and R, and the gates of these blocks.
    """

    hidden: int
    gates: int
    of_input: Gates
    of_state: Gates

    @classmethod
    def of(cls, cell: RecurrentCell, hidden: int) -> GateColumns:
        """The columns of a cell: in the descs' order, but with q = r * da_h before z, r, h where the reset gate comes last."""
        if cell.resets_last:
            return cls(hidden, 4, (1, (0, 1, 2)), (0, (2, 0, 1)))
        gates = tuple(range(cell.gates))
        return cls(hidden, cell.gates, (0, gates), (0, gates))

    def parts(self, gates: Gates, *, each: bool, last: bool = False) -> list[GateRange]:
        """The parts of some gates.

        Args:
            gates: `of_input` or `of_state`.
            each: whether each gate has a part of its own, as with dropout.
            last: whether the last gate has one, because it multiplies another operand.
        """
        (first, which), hidden = gates, self.hidden
        count = len(which)
        bounds = range(count + 1) if each else [0, count - 1, count] if last else [0, count]
        return [
            GateRange(slice((first + begin) * hidden, (first + end) * hidden), slice(begin * hidden, end * hidden), begin)
            for begin, end in pairwise(bounds)
        ]
