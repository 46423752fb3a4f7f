"""Gate orders: the blocks are where each library's documentation puts them, and round trips change nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dmlpy.description.gate_order import Cell, GateOrder, reorder

DOCUMENTED = [
    ("LSTM", GateOrder.DIRECTML, "i o f c"),
    ("LSTM", GateOrder.CUDNN, "i f c o"),
    ("LSTM", GateOrder.KERAS_1, "i c f o"),
    ("LSTM", GateOrder.KERAS, "i f c o"),
    ("GRU", GateOrder.DIRECTML, "z r h"),
    ("GRU", GateOrder.CUDNN, "r z h"),
    ("GRU", GateOrder.KERAS_1, "z r h"),
    ("GRU", GateOrder.KERAS, "z r h"),
    ("RNN", GateOrder.DIRECTML, "i"),
    ("RNN", GateOrder.CUDNN, "i"),
    ("RNN", GateOrder.KERAS_1, "i"),
    ("RNN", GateOrder.KERAS, "i"),
]


@pytest.mark.parametrize(("cell", "order", "gates"), DOCUMENTED)
def test_orders_are_the_documented_ones(cell: Cell, order: GateOrder, gates: str) -> None:
    assert order.gates(cell) == tuple(gates.split())


@pytest.mark.parametrize(("cell", "source", "gates"), DOCUMENTED)
@pytest.mark.parametrize("target", GateOrder)
def test_blocks_move_with_their_gate(cell: Cell, source: GateOrder, gates: str, target: GateOrder) -> None:
    # Each block holds its gate's letter, so that the result spells the target's order.
    labels = np.repeat(np.array(gates.split()), 5)
    moved = reorder(labels, cell, source, target, axis=0)
    assert "".join(moved[::5]) == "".join(target.gates(cell))
    assert all(len(set(block)) == 1 for block in moved.reshape(-1, 5))


@pytest.mark.pairwise
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize(("source", "target"), list(itertools.product(GateOrder, GateOrder)))
@pytest.mark.parametrize(("axis", "parts"), [(0, 1), (1, 1), (2, 1), (-1, 2), (-2, 3)])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_round_trips_are_exact(cell: Cell, source: GateOrder, target: GateOrder, axis: int, parts: int, dtype: Any) -> None:
    rng = np.random.default_rng(7)
    sizes = [2, 3, 4]
    sizes[axis] = parts * len(source.gates(cell)) * 3
    array = rng.integers(0, 2**16, sizes, np.uint16).view(np.float16).astype(dtype)
    there = reorder(array, cell, source, target, axis=axis, parts=parts)
    back = reorder(there, cell, target, source, axis=axis, parts=parts)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back.view(np.uint8), array.view(np.uint8))


def test_parts_keep_their_places() -> None:
    # DirectML's bias: Wb of i, o, f, c, then Rb of the same.
    bias = np.array([10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 70, 71, 80, 81])
    moved = reorder(bias, "LSTM", GateOrder.DIRECTML, GateOrder.CUDNN, axis=0, parts=2)
    assert moved.tolist() == [10, 11, 30, 31, 40, 41, 20, 21, 50, 51, 70, 71, 80, 81, 60, 61]


def test_the_array_is_left_alone() -> None:
    array = np.arange(12.0)
    moved = reorder(array, "GRU", GateOrder.DIRECTML, GateOrder.CUDNN, axis=0)
    assert not np.shares_memory(moved, array)
    np.testing.assert_array_equal(array, np.arange(12.0))


@pytest.mark.parametrize(
    ("shape", "cell", "axis", "parts", "message"),
    [
        ((10, 3), "LSTM", 0, 1, r"LSTM: axis 0 has 10 elements.*4 gates \(i, o, f, c\)$"),
        ((3, 10), "GRU", -1, 1, r"GRU: axis 1 has 10 elements.*3 gates \(z, r, h\)$"),
        ((12,), "LSTM", 0, 2, r"LSTM: axis 0 has 12 elements.*4 gates \(i, o, f, c\) in 2 parts$"),
        ((12,), "LSTM", 0, 0, r"in 0 parts$"),
        ((12,), "LSTM", 1, 1, r"axis 1 is out of range for an array of 1 dimensions$"),
        ((12,), "MGU", 0, 1, r"unknown cell 'MGU', expected one of RNN, GRU, LSTM$"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(shape: tuple[int, ...], cell: Any, axis: int, parts: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reorder(np.zeros(shape), cell, GateOrder.DIRECTML, GateOrder.CUDNN, axis=axis, parts=parts)
