"""Copies of matrices and biases between the buffers of a layer and arrays whose gates have another order."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dmlpy.description.gate_order import Cell, GateOrder
    from dmlpy.nn.arrays import Native


class _Move(NamedTuple):
    """Gates that follow each other in both orders.

    Attributes:
        target: the number of the first one in the target.
        source: its number in the source.
        length: how many there are.
    """

    target: int
    source: int
    length: int


@lru_cache
def _moves(cell: Cell, source: GateOrder, target: GateOrder) -> tuple[int, tuple[_Move, ...]]:
    """The number of gates, and the moves from one order to the other."""
    given, moves = source.gates(cell), list[_Move]()
    for place, gate in enumerate(target.gates(cell)):
        at = given.index(gate)
        if moves and moves[-1].source + moves[-1].length == at:
            moves[-1] = moves[-1]._replace(length=moves[-1].length + 1)
        else:
            moves.append(_Move(place, at, 1))
    return len(given), tuple(moves)


def copy_gates(target: Native, source: Native, cell: Cell, source_order: GateOrder, target_order: GateOrder) -> None:
    """Copies all gates.

    Args:
        target: [D, G H, ...], in the order `target_order`.
        source: the same in `source_order`.
        cell: whose gates they are.
        source_order: the order in the source.
        target_order: the order in the target.
    """
    gates, moves = _moves(cell, source_order, target_order)
    units = target.shape[1] // gates
    for move in moves:
        end, source_end = move.target + move.length, move.source + move.length
        target[:, move.target * units : end * units] = source[:, move.source * units : source_end * units]
