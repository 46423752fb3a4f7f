"""The resident products of raw_kernels/common/products.cuh: their C++ names and what they take of a block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import scalar_type
from dmlpy.devices.cuda.recurrent.common import FLOAT

PRODUCT_WARPS = 8
PRODUCT_THREADS = 32 * PRODUCT_WARPS
LANE_BYTES = 16
"""What a lane holds of one tile in one step."""


def divide_up(number: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-number // by)


def whole_pieces(*sizes: int) -> int:
    """Bytes of shared memory that pieces of these sizes take, each at a multiple of 16."""
    return sum(divide_up(size, 16) * 16 for size in sizes)


@dataclass(frozen=True)
class TensorCores:
    """Tiles of 16 rows on tensor cores.

    Attributes:
        data_type: of the operand and the matrix: float16, or float32 as TF32.
        row_tiles: of one warp.
        row_warps: warps with different rows, 1, 2, 4 or 8; the others share the depth.
        register_steps: depth steps whose part of the matrix is in registers, of all `steps`.
        sample_tiles: tiles of 8 samples in a pass.
    """

    data_type: np.dtype[Any]
    row_tiles: int
    row_warps: int
    register_steps: int
    sample_tiles: int

    @property
    def type_name(self) -> str:
        numbers = (self.row_tiles, self.row_warps, self.register_steps, self.sample_tiles)
        return f"TensorCores<{scalar_type(self.data_type)}, {', '.join(map(str, numbers))}>"

    @property
    def lowest_capability(self) -> int:
        return 80 if self.data_type == FLOAT else 75

    @property
    def tiles(self) -> int:
        return self.row_tiles

    @property
    def rows(self) -> int:
        """That fit."""
        return 16 * self.row_tiles * self.row_warps

    @property
    def samples(self) -> int:
        """Of a pass."""
        return 8 * self.sample_tiles

    @property
    def depth_warps(self) -> int:
        return PRODUCT_WARPS // self.row_warps

    @property
    def depth_step(self) -> int:
        return 32 // self.data_type.itemsize

    def with_registers(self, steps: int) -> TensorCores:
        """The same with so many steps in registers."""
        return replace(self, register_steps=steps)

    def arrangement(self) -> TensorCores:
        """The plainest product whose matrix is arranged as this one's."""
        return replace(self, register_steps=0, sample_tiles=1)

    def steps(self, depth: int) -> int:
        """Of each warp."""
        return divide_up(depth, self.depth_step * self.depth_warps)

    def padded_depth(self, depth: int) -> int:
        return self.steps(depth) * self.depth_step * self.depth_warps

    def arranged_bytes(self, depth: int) -> int:
        """A block's arrangement of its matrix in global memory."""
        return PRODUCT_WARPS * self.steps(depth) * self.tiles * 32 * LANE_BYTES

    def shared_bytes(self, depth: int, operand_in_shared: bool) -> int:
        """The matrix beyond the registers, and the sums."""
        stride = self.samples + (8 if self.sample_tiles % 2 == 0 else 0)
        resident = PRODUCT_WARPS * (self.steps(depth) - self.register_steps) * self.tiles * 32 * LANE_BYTES
        return whole_pieces(resident, self.depth_warps * self.rows * stride * FLOAT.itemsize)


@dataclass(frozen=True)
class Fma:
    """Rows of floats by multiply and add.

    Attributes:
        row_lanes: lanes side by side that own rows, 8, 16 or 32; the groups of so many lanes share the depth.
        row_slots: rows of a lane.
        register_quads: steps of four values whose part of the matrix is in registers, of all `steps`.
        samples: of a pass.
    """

    row_lanes: int
    row_slots: int
    register_quads: int
    samples: int

    lowest_capability = 75
    row_warps = 1
    depth_warps = PRODUCT_WARPS
    depth_step = 4

    @property
    def type_name(self) -> str:
        return f"Fma<{self.row_lanes}, {self.row_slots}, {self.register_quads}, {self.samples}>"

    @property
    def tiles(self) -> int:
        return self.row_slots

    @property
    def rows(self) -> int:
        """That fit."""
        return self.row_lanes * self.row_slots

    @property
    def register_steps(self) -> int:
        return self.register_quads

    def with_registers(self, steps: int) -> Fma:
        """The same with so many steps in registers."""
        return replace(self, register_quads=steps)

    def arrangement(self) -> Fma:
        """The plainest product whose matrix is arranged as this one's."""
        return replace(self, register_quads=0, samples=1)

    def steps(self, depth: int) -> int:
        """Of each group of lanes."""
        return divide_up(depth, self.depth_step * (32 // self.row_lanes) * PRODUCT_WARPS)

    def padded_depth(self, depth: int) -> int:
        return self.steps(depth) * self.depth_step * (32 // self.row_lanes) * PRODUCT_WARPS

    def arranged_bytes(self, depth: int) -> int:
        """A block's arrangement of its matrix in global memory."""
        return PRODUCT_WARPS * self.steps(depth) * self.tiles * 32 * LANE_BYTES

    def shared_bytes(self, depth: int, operand_in_shared: bool) -> int:
        """The matrix beyond the registers, the sums, and the operand on its way from other blocks."""
        resident = PRODUCT_WARPS * (self.steps(depth) - self.register_quads) * self.tiles * 32 * LANE_BYTES
        staged = 0 if operand_in_shared else self.samples * self.padded_depth(depth) * FLOAT.itemsize
        return whole_pieces(resident, PRODUCT_WARPS * self.rows * (self.samples | 1) * FLOAT.itemsize, staged)


Product = TensorCores | Fma
