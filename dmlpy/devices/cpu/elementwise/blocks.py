"""The blocks of tensors that share their sizes: some rows and columns of their merged axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmlpy.devices.axes import Axis, merged

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Blocks:
    """The blocks of some tensors.

    Attributes:
        rows: elements of a block along the outer of its two axes.
        columns: along the inner one.
        row: the strides along the rows, in elements, of each tensor.
        column: along the columns.
        splits_rows: whether the rows are split, not the columns.
        split_size: the elements along the axis that is split.
        sizes: the blocks along each axis, the innermost first.
        strides: from one block to the next, in elements, of each tensor [tensor][axis].
    """

    rows: int
    columns: int
    row: tuple[int, ...]
    column: tuple[int, ...]
    splits_rows: bool
    split_size: int
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, sizes: Sequence[int], strides: Sequence[Sequence[int]], lanes: int, most: int, shortest: int = 1) -> Blocks:
        """The blocks of tensors, the output first.

        Args:
            sizes: entries along each dimension.
            strides: for each tensor, the elements from one entry to the next along each dimension.
            lanes: elements of a vector: columns that are split are whole vectors.
            most: elements of a block, at most.
            shortest: rows of a block, at least, if an axis has so many: a shorter axis next to the columns is passed over.
        """
        none = (0,) * len(strides)
        *outer, inner = merged(sizes, strides) or (Axis(1, none),)
        splits_rows = bool(outer) and inner.size <= most // 2
        if splits_rows:
            across, columns = outer.pop(_rows_of(outer, shortest)), inner.size
            pieces = -(-across.size // (most // columns))
            rows = -(-across.size // pieces)
            pieces, length, split = -(-across.size // rows), rows, across
        else:
            across, rows = Axis(1, none), 1
            pieces = -(-inner.size // most)
            columns = min(inner.size, -(-inner.size // (pieces * lanes)) * lanes)
            pieces, length, split = -(-inner.size // columns), columns, inner
        axes = [Axis(pieces, tuple(stride * length for stride in split.strides)), *reversed(outer)]
        along = tuple(tuple(axis.strides[tensor] for axis in axes) for tensor in range(len(strides)))
        return cls(rows, columns, across.strides, inner.strides, splits_rows, split.size, tuple(axis.size for axis in axes), along)

    def is_contiguous(self, tensor: int) -> bool:
        """Whether the elements of a block are contiguous."""
        return (self.columns == 1 or self.column[tensor] == 1) and (self.rows == 1 or self.row[tensor] == self.columns)

    def is_invariant(self, tensor: int) -> bool:
        """Whether all blocks have the same elements."""
        return not any(stride for size, stride in zip(self.sizes, self.strides[tensor], strict=True) if size > 1)


def _rows_of(axes: Sequence[Axis], shortest: int) -> int:
    """The index of the axis of rows: the innermost of so many entries, or else the longest."""
    return max(range(len(axes)), key=lambda at: (min(axes[at].size, shortest), at))
