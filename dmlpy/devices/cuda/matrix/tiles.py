"""Matrices as the kernels of raw_kernels/matrix/ take them: `Tiles`, operands of four dimensions, and launches over tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.cuda.common.tile_products import TILE_SIDE
from dmlpy.devices.cuda.kernels import struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc

TILES = struct(*((name, np.int64) for name in ("rows", "columns", "terms", "inner", "row_tiles", "column_tiles", "count")))

STAGE_TERMS = 256
"""Terms of a stage: `stage_terms`."""
_MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True)
class Matrices:
    """A tensor as a batch of matrices.

    Attributes:
        sizes: outer and inner entries of the batch, rows and columns.
        strides: elements from one entry to the next along each of them.
    """

    sizes: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]

    @classmethod
    def of(cls, tensor: TensorDesc, *, transposed: bool = False) -> Matrices:
        """A tensor of 2 to 4 dimensions, its last two exchanged if `transposed`."""
        missing = 4 - len(tensor.sizes)
        sizes, strides = [*(1,) * missing, *tensor.sizes], [*(0,) * missing, *tensor.element_strides]
        if transposed:
            sizes[2:], strides[2:] = sizes[:1:-1], strides[:1:-1]
        first, second, rows, columns = sizes
        return cls((first, second, rows, columns), (strides[0], strides[1], strides[2], strides[3]))

    def first_of(self, axis: int) -> Matrices:
        """The first entries along a dimension of the batch."""
        return replace(self, sizes=_with(self.sizes, {axis: 1}))

    def with_rows_of(self, axis: int) -> Matrices | None:
        """All matrices along a dimension of the batch as the rows of one; None if the rows have no constant stride."""
        count, rows = self.sizes[axis], self.sizes[2]
        step = self.strides[2] if rows > 1 else self.strides[axis]
        if self.strides[axis] != rows * step:
            return None
        return Matrices(_with(self.sizes, {axis: 1, 2: rows * count}), _with(self.strides, {2: step}))


def _with(four: tuple[int, int, int, int], changed: Mapping[int, int]) -> tuple[int, int, int, int]:
    """Four numbers with some replaced."""
    first, second, third, fourth = (changed.get(at, number) for at, number in enumerate(four))
    return first, second, third, fourth


@dataclass(frozen=True)
class ProductSizes:
    """The sizes of a product of matrices, for each entry of a batch."""

    outer: int
    inner: int
    rows: int
    columns: int
    terms: int

    @classmethod
    def of(cls, a: Matrices, b: Matrices) -> ProductSizes:
        """The sizes of the product of two matrices."""
        outer, inner, rows, terms = a.sizes
        return cls(outer, inner, rows, b.sizes[3], terms)

    @property
    def batch(self) -> int:
        """Entries of the batch."""
        return self.outer * self.inner

    @property
    def multiplications(self) -> int:
        """The multiplications of the whole batch."""
        return prod((self.outer, self.inner, self.rows, self.columns, self.terms))

    @property
    def tiles(self) -> int:
        """Tiles of all results."""
        return self.batch * self.own_tiles

    @property
    def own_tiles(self) -> int:
        """Tiles of the results of one entry."""
        return -(-self.rows // TILE_SIDE) * -(-self.columns // TILE_SIDE)

    def value(self) -> tuple[int, ...]:
        """The value of a `TILES` field."""
        across = -(-self.rows // TILE_SIDE), -(-self.columns // TILE_SIDE)
        return (self.rows, self.columns, self.terms, self.inner, *across, self.tiles)

    @property
    def blocks(self) -> int:
        """The blocks of the grid, which stride over the tiles if there are too many."""
        return min(self.tiles, _MOST_BLOCKS)
