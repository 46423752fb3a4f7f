"""The resident products of raw_kernels/common/products.cuh: their C++ names and the resources of a block that they use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from dmlpy.devices.cuda.common.matrix_products import FLOAT
from dmlpy.devices.cuda.kernels import scalar_type

if TYPE_CHECKING:
    import numpy as np

    from dmlpy.devices.cuda.recurrent.model import Protocol

PRODUCT_WARPS = 8
PRODUCT_THREADS = 32 * PRODUCT_WARPS
LANE_BYTES = 16
"""Bytes of one tile that a lane holds in one step, and loads at a time."""
FEW_LOADS, MOST_LOADS = 2, 4
"""The most loads of an operand that a thread has in flight. When all multiprocessors read the L2 cache, each gets some 21 bytes a cycle
with a latency of some 500
cycles: four loads keep it busy, two are enough for small operands. Model."""
BANK_ROW_BYTES = 128
"""Bytes of one row of all banks of shared memory."""


def divide_up(number: int, by: int) -> int:
    """The quotient, rounded up."""
    return -(-number // by)


def whole_pieces(*sizes: int) -> int:
    """The bytes of shared memory for parts of these sizes, each padded to a multiple of 16."""
    return sum(divide_up(size, 16) * 16 for size in sizes)


@dataclass(frozen=True)
class Product(ABC):
    """A matrix that stays on chip in a block and is multiplied by one operand after another.

    Attributes:
        data_type: the type of the operand and the matrix.
        tiles: the tiles of which a lane holds `LANE_BYTES` in each step.
        row_warps: warps with different rows, 1, 2, 4 or 8; the others share the depth.
        register_steps: depth steps whose part of the matrix is in registers, of all `steps`.
        samples: the samples of a pass.
        loads: a thread's concurrent loads of an operand from other blocks, 16 bytes each.
    """

    data_type: np.dtype[Any]
    tiles: int
    row_warps: int
    register_steps: int
    samples: int
    loads: int

    @property
    @abstractmethod
    def type_name(self) -> str:
        """The C++ type."""

    @property
    @abstractmethod
    def lowest_capability(self) -> int:
        """The lowest compute capability that supports the product, as in `Limits.compute_capability`."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows that fit."""

    @property
    @abstractmethod
    def loaded_samples(self) -> int:
        """The samples of a pass that may come from other blocks."""

    @property
    @abstractmethod
    def step_depth(self) -> int:
        """The part of the depth that a warp processes in a step."""

    @property
    @abstractmethod
    def sums_bytes(self) -> int:
        """The bytes of shared memory for the partial sums of a pass."""

    @abstractmethod
    def arrangement(self) -> Product:
        """The simplest product whose matrix has the same arrangement."""

    @property
    def depth_warps(self) -> int:
        return PRODUCT_WARPS // self.row_warps

    def with_registers(self, steps: int) -> Self:
        """The product with this many of its steps in registers."""
        return replace(self, register_steps=steps)

    def steps(self, depth: int) -> int:
        """The number of steps of each warp."""
        return divide_up(depth, self.step_depth * self.depth_warps)

    def padded_depth(self, depth: int) -> int:
        return self.steps(depth) * self.step_depth * self.depth_warps

    def row(self, depth: int, protocol: Protocol) -> int:
        """Elements between the samples of an operand; in shared memory four neighbouring rows lie in different banks."""
        padded, in_bank_row = self.padded_depth(depth), BANK_ROW_BYTES // self.data_type.itemsize
        return padded + ((in_bank_row // 4 - padded) % in_bank_row if protocol in ("alone", "cluster") else 0)

    def arranged_bytes(self, depth: int) -> int:
        """The bytes of a block's arranged matrix in global memory."""
        return PRODUCT_WARPS * self.steps(depth) * self.tiles * 32 * LANE_BYTES

    def staged_bytes(self, depth: int) -> int:
        """The bytes of shared memory for operands that arrive from other blocks."""
        samples = 1 << (self.loaded_samples - 1).bit_length()
        chunk_units = self.loads * 32 * self.row_warps // samples
        chunk_depth = chunk_units * LANE_BYTES // self.data_type.itemsize
        buffers = 2 if self.steps(depth) * self.step_depth > chunk_depth else 1
        return self.depth_warps * buffers * samples * (chunk_units + (2 - chunk_units) % 8) * LANE_BYTES

    def shared_bytes(self, depth: int) -> int:
        """The bytes of shared memory for the part of the matrix outside registers, and for the sums."""
        resident = PRODUCT_WARPS * (self.steps(depth) - self.register_steps) * self.tiles * 32 * LANE_BYTES
        return whole_pieces(resident, self.sums_bytes)


@dataclass(frozen=True)
class TensorCores(Product):
    """Tiles of 16 rows on tensor cores, of float16, of bfloat16, or of float32 as TF32. A pass takes samples in groups of eight.

    Attributes:
        loaded: the samples of a pass that may come from other blocks: 1, 2, 4, or a multiple of 8.
    """

    loaded: int

    @property
    def type_name(self) -> str:
        numbers = (self.tiles, self.row_warps, self.register_steps, self.samples // 8, self.loaded, self.loads)
        return f"TensorCores<{scalar_type(self.data_type)}, {', '.join(map(str, numbers))}>"

    @property
    def lowest_capability(self) -> int:
        return 75 if self.data_type.name == "float16" else 80

    @property
    def rows(self) -> int:
        return 16 * self.tiles * self.row_warps

    @property
    def loaded_samples(self) -> int:
        return self.loaded

    @property
    def step_depth(self) -> int:
        return 32 // self.data_type.itemsize

    @property
    def sums_bytes(self) -> int:
        return self.depth_warps * self.rows * self.samples * FLOAT.itemsize

    def arrangement(self) -> TensorCores:
        return replace(self, register_steps=0, samples=8, loaded=8, loads=MOST_LOADS)


@dataclass(frozen=True)
class Fma(Product):
    """Rows of floats by multiply-add.

    Attributes:
        row_lanes: neighbouring lanes that own rows, `tiles` each: 8, 16 or 32; groups of this many lanes split the depth.
    """

    data_type: np.dtype[Any] = field(default=FLOAT, init=False)
    row_warps: int = field(default=1, init=False)
    row_lanes: int

    @property
    def type_name(self) -> str:
        return f"Fma<{self.row_lanes}, {self.tiles}, {self.register_steps}, {self.samples}, {self.loads}>"

    @property
    def lowest_capability(self) -> int:
        return 75

    @property
    def rows(self) -> int:
        return self.row_lanes * self.tiles

    @property
    def loaded_samples(self) -> int:
        return self.samples

    @property
    def step_depth(self) -> int:
        return 4 * 32 // self.row_lanes

    @property
    def sums_bytes(self) -> int:
        return PRODUCT_WARPS * self.rows * (self.samples | 1) * FLOAT.itemsize

    def arrangement(self) -> Fma:
        return replace(self, register_steps=0, samples=1, loads=MOST_LOADS)


def loads_of(size: int) -> int:
    """`Product.loads` for an operand of this many bytes: enough to load it in two trips, but at most four, as registers are scarce."""
    return FEW_LOADS if size <= 2 * FEW_LOADS * PRODUCT_THREADS * LANE_BYTES else MOST_LOADS


def loaded_samples(samples: int, pass_samples: int) -> int:
    """`TensorCores.loaded` for blocks with this many samples, and this many in a pass."""
    needed = min(samples, pass_samples)
    return next((few for few in (1, 2, 4) if needed <= few), divide_up(needed, 8) * 8)
