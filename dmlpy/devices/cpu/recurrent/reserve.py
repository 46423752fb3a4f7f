"""The layout of the reserve of a recurrent layer as compiled time loops write it: rows of units, where NumPy's plans have columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.recurrent.activations import COMPILED

if TYPE_CHECKING:
    from dmlpy.operators.activation import ActivationDesc
    from dmlpy.operators.recurrent.gradient import ReserveDesc

Array = np.ndarray[Any, np.dtype[Any]]

RESERVE_LAYOUT = "rows"
"""The name of this layout in a reserve's configuration."""


def saves_argument(activation: ActivationDesc, clips: bool) -> bool:
    """Returns whether the reserve keeps a gate's sum, not its value: where it is clipped, or its derivative follows from the sum only."""
    return clips or type(activation) not in COMPILED


@dataclass(frozen=True)
class ReserveRows:
    """Views of a reserve.

    Attributes:
        saved: [D, T, K, B, H]: for each gate, in the desc's order, its value or its sum (`saves_argument`); for a GRU with
            linear_before_reset then h[t-1] Rh^T + Rbh. Zeros for the f of coupled gates, and past a sequence's end.
        hidden: [D, T + 1, B, S]: h before and after each step. A forward recurrence's step t leads from slot t to slot t + 1, a backward
            time loop's from slot t + 1 to slot t. Slots past a sequence's end hold the carried state.
        memory: [D, T + 1, B, H]: the same for the cell state; None but for LSTM.

    S is H, or with a projection its size.
    """

    saved: Array
    hidden: Array
    memory: Array | None

    @classmethod
    def of(cls, desc: ReserveDesc, array: Array) -> ReserveRows:
        """The parts of a reserve, from a packed array of `reserve_size` elements."""
        sizes, cell = desc.geometry, desc.cell
        directions, steps, batch, hidden = sizes.num_directions, sizes.seq_length, sizes.batch_size, sizes.hidden_size
        shapes = [(directions, steps, cell.kept, batch, hidden), (directions, steps + 1, batch, sizes.state_size)]
        if cell.has_memory:
            shapes.append((directions, steps + 1, batch, hidden))
        flat, parts, start = array.reshape(-1), [], 0
        for shape in shapes:
            parts.append(flat[start : start + prod(shape)].reshape(shape))
            start += prod(shape)
        return cls(parts[0], parts[1], parts[2] if cell.has_memory else None)
