"""The layout of the reserve of a recurrent layer on the NumPy device."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.gradient import ReserveDesc

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ReserveViews:
    """Views of a reserve, transposed like all arrays of the walk.

    Attributes:
        kept: [D, T, K, H, B]: for each gate, in the order in which the walk stores them, its value or its argument, as
            `derivatives.keeps_value` says (the argument where sums are clipped); for a GRU with linear_before_reset then
            h[t-1] Rh^T + Rbh. The f of coupled gates is not stored: the last K index is then zero. So are steps that no
            sample takes.
        hidden: [D, T + 1, S, B]: h before and after each step. A forward walk's step t leads from slot t to slot t + 1, a backward
            walk's from slot t + 1 to slot t. Slots at steps that a sample does not take hold its carried state.
        memory: [D, T + 1, H, B]: the same for the cell state; None but for LSTM.
    """

    kept: Array
    hidden: Array
    memory: Array | None

    @classmethod
    def of(cls, desc: ReserveDesc, array: Array) -> ReserveViews:
        """The parts of a reserve, from a packed array of `reserve_size` elements."""
        sizes, cell = desc.geometry, desc.cell
        walks, steps, batch = sizes.num_directions, sizes.seq_length, sizes.batch_size
        shapes = [(walks, steps, cell.kept, sizes.hidden_size, batch), (walks, steps + 1, sizes.state_size, batch)]
        if cell.has_memory:
            shapes.append((walks, steps + 1, sizes.hidden_size, batch))
        flat, parts, start = array.reshape(-1), [], 0
        for shape in shapes:
            parts.append(flat[start : start + prod(shape)].reshape(shape))
            start += prod(shape)
        return cls(parts[0], parts[1], parts[2] if cell.has_memory else None)

    def of_samples(self, samples: slice) -> ReserveViews:
        """The views of some samples."""
        return ReserveViews(self.kept[..., samples], self.hidden[..., samples], None if self.memory is None else self.memory[..., samples])
