"""The gate orders of other libraries, and the one conversion between them.

Weights, recurrence and bias of GRU and LSTM concatenate the gates' blocks along one axis; libraries differ in the order. Blocks are
moved, never changed, so a round trip gives the same bits. Not part of the order: where the GRU's reset gate acts (cuDNN and
PyTorch after the recurrent product, `linear_before_reset`), and whether weights are stored `[out, in]` or `[in, out]`.
"""

from __future__ import annotations

import enum
from typing import Any, Literal

Cell = Literal["RNN", "GRU", "LSTM"]


class GateOrder(enum.Enum):
    """The library whose order concatenated gates have; `gates(cell)` gives that order."""

    DIRECTML = "DirectML"
    """Also ONNX: GRU z, r, h; LSTM i, o, f, c."""
    CUDNN = "cuDNN"
    """Also PyTorch, which call the last GRU gate n and the LSTM's cell gate g: GRU r, z, h; LSTM i, f, c, o."""
    KERAS_1 = "Keras 1"
    """The order of a layer's weight list: GRU z, r, h; LSTM i, c, f, o."""
    KERAS = "Keras"
    """Keras 2 and later: GRU z, r, h; LSTM i, f, c, o."""
    THINC = "Thinc"
    """The order of Thinc's LSTM: f, i, o, c. It has no GRU; dmlpy.thinc's has DirectML's order."""

    def gates(self, cell: Cell) -> tuple[str, ...]:
        """The gates of a cell in this order, by DirectML's names.

        Raises:
            ValueError: no such cell.
        """
        if cell not in _ORDERS:
            raise ValueError(f"unknown cell {cell!r}, expected one of {', '.join(_ORDERS)}")
        return tuple(_ORDERS[cell][self])


_ORDERS: dict[str, dict[GateOrder, str]] = {
    "RNN": dict.fromkeys(GateOrder, "i"),
    "GRU": dict.fromkeys(GateOrder, "zrh") | {GateOrder.CUDNN: "rzh"},
    "LSTM": {
        GateOrder.DIRECTML: "iofc",
        GateOrder.CUDNN: "ifco",
        GateOrder.KERAS_1: "icfo",
        GateOrder.KERAS: "ifco",
        GateOrder.THINC: "fioc",
    },
}


def reorder(array: Any, cell: Cell, source: GateOrder, target: GateOrder, *, axis: int, parts: int = 1) -> Any:
    """Returns a copy of an array with its gate blocks moved from one library's order to another's.

    Args:
        array: a NumPy or CuPy array.
        cell: whose gates they are.
        source: the order in the array.
        target: the order in the result.
        axis: the axis along which the gates are concatenated, of size parts * gates * block.
        parts: the number of whole sets of gates along the axis: 2 for a bias that holds Wb, then Rb.

    Raises:
        ValueError: no such cell or axis, or the axis does not hold whole blocks.
    """
    order = source.gates(cell)
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"axis {axis} is out of range for an array of {array.ndim} dimensions")
    axis %= array.ndim
    size = array.shape[axis]
    if parts < 1 or size % (parts * len(order)):
        sets = f"{len(order)} gates ({', '.join(order)})" + (f" in {parts} parts" if parts != 1 else "")
        raise ValueError(f"{cell}: axis {axis} has {size} elements, which cannot be shared out evenly to {sets}")
    positions = [order.index(gate) for gate in target.gates(cell)]
    before, after = array.shape[:axis], array.shape[axis + 1 :]
    blocks = array.reshape(*before, parts, len(order), size // (parts * len(order)), *after)
    return blocks[(slice(None),) * (axis + 1) + (positions,)].reshape(array.shape)
