"""The kernels of raw_kernels/attention/, and how the work of an attention is divided among their blocks.

Rows are the queries of all heads that share keys and values: where there are few, blocks read keys and values once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.kernels import STRIDED, Kernel, scalar_type, struct

if TYPE_CHECKING:
    from dmlpy.devices.cuda.seam import Limits

FILE = "attention/forward.cu"
TENSOR_CORES_FILE = "attention/tensor_cores.cu"
COMBINE_FILE = "attention/combine.cu"

_SOURCE = struct(
    ("past", STRIDED), ("fresh", STRIDED), ("bias", np.uint64), ("bias_stride", np.int64), ("size", np.int32), ("wide", np.int32)
)
_LIMIT = struct(("data", np.uint64), ("stride", np.int64))
_COUNTS = ("query_tiles", "value_tiles", "parts", "result_parts", "heads", "groups", "group_heads", "rows", "wide_output")

PARAMETERS = struct(
    *((name, _SOURCE) for name in ("query", "key", "value")),
    ("position_bias", STRIDED),
    ("mask", STRIDED),
    *((name, _LIMIT) for name in ("ends", "starts", "past_lengths")),
    *((name, STRIDED) for name in ("output", "present_key", "present_value")),
    *((name, np.uint64) for name in ("part_results", "part_states")),
    *((name, np.int64) for name in ("all_rows", "tiles", "present_rows")),
    *((name, np.int32) for name in (*_COUNTS, "queries", "most_valid", "fresh", "total")),
    ("scale", np.float32),
    ("filter_value", np.float32),
)

SIZES = (32, 64, 128, 256)
"""Of `attend_halves`: elements of a head that it has room for."""
FEW_ROWS = 16
"""The rows that all warps of its blocks share where there are few."""
MOST_FEW_ROWS = FEW_ROWS
"""The most rows that count as few."""
_QUERY_TILE, _VALUE_TILE = 64, 128
"""Queries, and elements of a value, of a block of `attend`."""
ROWS, COLUMNS = (1, 4), (4, 8)
"""Queries, and elements of a value, that a thread of `attend` owns: the second if there are more than 16 times the first."""
_LANES, _THREADS = 16, 256
"""Threads along a row of a block, and in total: `lanes` and `attend_threads` of the kernel."""
MOST_BLOCKS = 2**31 - 1
_HALF_BYTES = 2
_STAGES = 3
_BLOCKS_TOGETHER = {True: 4, False: 1}
"""The blocks of few rows, and of many, that a multiprocessor is to have at least before keys are not divided further. Model."""
_LEAST_TILES = {True: 4, False: 8}
"""The fewest tiles of keys in a part of them, where there are few rows and many. Model."""


def attend_kernel(data_type: np.dtype[Any], rows: int, columns: int) -> Kernel:
    """The kernel whose threads own so many queries and elements of their results."""
    scalar = scalar_type(data_type)
    return Kernel(FILE, f"attend<{scalar}, {rows}, {columns}>", PARAMETERS, f"AttentionParameters<{scalar}>")


def halves_kernel(size: int, *, few: bool, plain: bool) -> Kernel:
    """The kernel on tensor cores for heads of at most `size` elements; of few rows, and of nothing but queries, keys and values."""
    flags = ", ".join("true" if flag else "false" for flag in (few, plain))
    struct_name = "AttentionParameters<machine::half>"
    return Kernel(TENSOR_CORES_FILE, f"attend_halves<{size}, {flags}>", PARAMETERS, struct_name, dynamic_shared=True)


def combine_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel that merges the results of parts of the keys."""
    scalar = scalar_type(data_type)
    return Kernel(COMBINE_FILE, f"combine<{scalar}>", PARAMETERS, f"AttentionParameters<{scalar}>")


def keep_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel that writes present keys and values."""
    scalar = scalar_type(data_type)
    return Kernel(FILE, f"keep<{scalar}>", PARAMETERS, f"AttentionParameters<{scalar}>")


@dataclass(frozen=True)
class Work:
    """An attention's sizes.

    Attributes:
        batch: entries.
        groups: heads of keys and values.
        group_heads: of the queries, for each of these.
        queries: of a head.
        keys: the most that a query may attend to.
        key_size: elements of a key.
        value_size: elements of a value.
    """

    batch: int
    groups: int
    group_heads: int
    queries: int
    keys: int
    key_size: int
    value_size: int

    @property
    def rows(self) -> int:
        """Queries that share keys and values."""
        return self.queries * self.group_heads


@dataclass(frozen=True)
class Division:
    """What the blocks of a launch own.

    Attributes:
        kernel: that computes the output.
        rows: of a block; of one head where it is not on tensor cores.
        columns: elements of a value of a block.
        threads: of a block.
        query_tiles: of the rows, or of a head's queries.
        value_tiles: of the columns.
        tiles: the blocks' work.
        parts: among which keys are divided.
        result_parts: the same times the warps of a block that divide a tile of keys among them; 0 where there is nothing to combine.
        shared_bytes: of a block, dynamic.
    """

    kernel: Kernel
    rows: int
    columns: int
    threads: int
    query_tiles: int
    value_tiles: int
    tiles: int
    parts: int = 1
    result_parts: int = 0
    shared_bytes: int = 0

    @property
    def on_tensor_cores(self) -> bool:
        return self.kernel.file == TENSOR_CORES_FILE

    @classmethod
    def of(cls, work: Work, data_type: np.dtype[Any], limits: Limits, *, plain: bool) -> Division:
        """The division of some work; `plain` as in `halves_kernel`."""
        halves = cls._of_halves(work, limits, plain=plain) if data_type == np.float16 else None
        return halves or cls._of_any(work, data_type)

    @classmethod
    def _of_any(cls, work: Work, data_type: np.dtype[Any]) -> Division:
        rows, columns = ROWS[work.queries > _LANES * ROWS[0]], COLUMNS[work.value_size > _LANES * COLUMNS[0]]
        query_tiles, value_tiles = -(-work.queries // (rows * _LANES)), -(-work.value_size // (columns * _LANES))
        tiles = query_tiles * value_tiles * work.groups * work.group_heads * work.batch
        kernel = attend_kernel(data_type, rows, columns)
        return cls(kernel, rows * _LANES, columns * _LANES, _THREADS, query_tiles, value_tiles, tiles)

    @classmethod
    def _of_halves(cls, work: Work, limits: Limits, *, plain: bool) -> Division | None:
        """None for heads that are too large, for the kernel or for its shared memory, and more work than a grid has blocks."""
        size = min((size for size in SIZES if size >= max(work.key_size, work.value_size)), default=0)
        if not size:
            return None
        few = work.rows <= MOST_FEW_ROWS
        keys, rows, threads, in_registers = _blocks_of_halves(size, few=few, plain=plain)
        shared = _STAGES * keys * size * _HALF_BYTES + (0 if in_registers else rows * size * _HALF_BYTES)
        query_tiles = -(-work.rows // rows)
        blocks = query_tiles * work.groups * work.batch
        parts = _parts(blocks, -(-work.keys // keys), few, limits)
        if shared > limits.shared_memory_per_block or blocks * parts > MOST_BLOCKS:
            return None
        result_parts = parts * keys // FEW_ROWS if few else parts if parts > 1 else 0
        kernel = halves_kernel(size, few=few, plain=plain)
        return cls(kernel, rows, size, threads, query_tiles, 1, blocks * parts, parts, result_parts, shared)


def _blocks_of_halves(size: int, *, few: bool, plain: bool) -> tuple[int, int, int, bool]:
    """Keys of a tile, rows of a block, threads, and whether queries stay in registers: `Division` of the kernel."""
    keys = 32 if size > 128 else 64
    in_registers = size <= (128 if plain else 64)
    if few:
        return keys, FEW_ROWS, 32 * keys // FEW_ROWS, in_registers
    rows = 128 if in_registers else 64
    return keys if plain or size < 128 else keys // 2, rows, rows if plain and size <= 64 else 2 * rows, in_registers


def _parts(blocks: int, key_tiles: int, few: bool, limits: Limits) -> int:
    """Among how many blocks the tiles of keys are divided, so that all multiprocessors have work."""
    wanted = _BLOCKS_TOGETHER[few] * limits.multiprocessors // blocks
    return max(1, min(wanted, key_tiles // _LEAST_TILES[few]))
