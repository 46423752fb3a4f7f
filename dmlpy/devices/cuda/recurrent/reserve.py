"""The layout of the reserve of a recurrent layer on CUDA."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.gradient import ReserveDesc


@dataclass(frozen=True)
class ReserveAddresses:
    """Addresses of the parts of a reserve; all float32, packed.

    Attributes:
        saved: [T][B][D][K][H]: for each gate, in DirectML's order, its value or its argument, as the activation's functor specifies (the
            argument where sums are clipped); for a GRU with linear_before_reset then H[t-1] Rh^T + Rbh. Steps that a sample does not take,
            and the f of coupled gates, hold the product of the input in all cells but that GRU, whose K differs from the gates': zero
            there.
        hidden: [D][T + 1][B][S]: h before and after each step. A forward direction's step t leads from slot t to slot t + 1, a backward
            one's from slot t + 1 to slot t. Slots at steps that a sample does not take hold its carried state.
        memory: [D][T + 1][B][H]: the same for the cell state; 0 except for LSTM.
    """

    saved: int
    hidden: int
    memory: int

    @classmethod
    def of(cls, desc: ReserveDesc, pointer: int) -> ReserveAddresses:
        """The parts of the reserve at an address."""
        sizes, cell = desc.geometry, desc.cell
        directions, steps, batch = sizes.num_directions, sizes.seq_length, sizes.batch_size
        item = np.dtype(np.float32).itemsize
        hidden = pointer + item * prod((steps, batch, directions, cell.saved, sizes.hidden_size))
        memory = hidden + item * prod((directions, steps + 1, batch, sizes.state_size))
        return cls(pointer, hidden, memory if cell.has_memory else 0)
