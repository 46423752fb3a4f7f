"""The kernels of raw_kernels/attention/, and how the work of an attention is divided among their blocks.

Rows are the queries of all heads that share keys and values: where there are few, blocks read keys and values once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.matrix_products import BFLOAT16_CAPABILITY
from dmlpy.devices.cuda.kernels import STRIDED, Kernel, scalar_type, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel
from dmlpy.devices.cuda.performance.kernel_cycles import cycles_of, launch_us, unsure

if TYPE_CHECKING:
    from dmlpy.devices.cuda.performance.kernel_cycles import Cycles
    from dmlpy.devices.cuda.runtime.interface import Limits

FILE = "attention/forward.cu"
TENSOR_CORES_FILE = "attention/tensor_cores.cu"
FLOATS_FILE = "attention/floats.cu"
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
    *((name, np.int64) for name in ("all_rows", "tiles", "present_rows", "mended_rows")),
    *((name, np.int32) for name in (*_COUNTS, "queries", "most_valid", "fresh", "total")),
    ("scale", np.float32),
    ("filter_value", np.float32),
)

SIZES = {
    (2, False, True): (32, 64, 128, 256),
    (2, False, False): (64, 128, 256),
    (4, False, True): (64, 128, 256),
    (4, False, False): (128, 256),
    (2, True, False): (128, 256),
    (4, True, False): (128, 256),
}
"""Elements of a head that instances of `attend_halves` and `attend_floats` have room for: by bytes of an element, of few rows, plain.

Few rows leave time for everything while keys and values come from memory: they need no instances of their own for plain attention.
"""
_SIZES_FROM_80 = (64, 256)
"""The sizes of `attend_halves` that have too few registers below compute capability 8.0, where products take two instructions."""
FEW_ROWS = 16
"""The rows of a block where there are few: in `attend_halves` all warps share them."""
MOST_FEW_ROWS = FEW_ROWS
"""The most rows that count as few."""
_ROWS, _COLUMNS = 4, 8
"""Queries, and elements of a value, that a thread of `attend` owns."""
_LANES, _THREADS = 16, 256
"""Threads along a row of a block of `attend`, and in total: `lanes` and `attend_threads`."""
MOST_BLOCKS = 2**31 - 1
_STAGES = 3
_PIECE_BYTES, _WEIGHT_PITCH, _FLOAT_KEYS, _FLOAT_THREADS = 8192, 72, 64, 128
"""Of `attend_floats`: bytes of a stage, floats of a row of weights, keys of a tile, threads of a block."""
_BLOCKS_TOGETHER = {True: 4, False: 1}
"""The blocks of few rows, and of many, that a multiprocessor is to have at least before keys are not divided further. Model."""
_LEAST_TILES = {True: 4, False: 8}
"""The fewest tiles of keys in a part of them, where there are few rows and many. Model."""
_OTHER_TURNS = 2
"""Turns of the loop that what comes before and after it takes as long as: queries, results, and the first copies. Model."""
_STATE_FLOATS = 4
"""Numbers of a partial result beside the sums of values."""


def attend_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel for everything: heads of any size, any strides, any GPU."""
    scalar = scalar_type(data_type)
    return Kernel(FILE, f"attend<{scalar}, {_ROWS}, {_COLUMNS}>", PARAMETERS, f"AttentionParameters<{scalar}>")


def parts_kernel(data_type: np.dtype[Any], size: int, *, few: bool, plain: bool) -> Kernel:
    """The kernel for heads of at most `size` elements; of few rows, and of nothing but queries, keys and values."""
    flags = ", ".join("true" if flag else "false" for flag in (few, plain))
    scalar = scalar_type(data_type)
    file, name = (FLOATS_FILE, "attend_floats") if data_type == np.float32 else (TENSOR_CORES_FILE, "attend_halves")
    of_type = f", {scalar}" if data_type.name == "bfloat16" else ""
    lowest = BFLOAT16_CAPABILITY if data_type.name == "bfloat16" else 80 if data_type == np.float16 and size in _SIZES_FROM_80 else 75
    entry, struct_name = f"{name}<{size}, {flags}{of_type}>", f"AttentionParameters<{scalar}>"
    return Kernel(file, entry, PARAMETERS, struct_name, dynamic_shared=True, lowest_capability=lowest)


def combine_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel that merges the results of parts of the keys."""
    scalar = scalar_type(data_type)
    return Kernel(COMBINE_FILE, f"combine<{scalar}>", PARAMETERS, f"AttentionParameters<{scalar}>")


def finish_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel that writes present keys and values, and computes rows anew that became NaN by what they leave out."""
    scalar = scalar_type(data_type)
    return Kernel(FILE, f"finish<{scalar}>", PARAMETERS, f"AttentionParameters<{scalar}>")


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
        is_far: whether masks or position biases of a row lie further from each other than 32 bits count.
    """

    batch: int
    groups: int
    group_heads: int
    queries: int
    keys: int
    key_size: int
    value_size: int
    is_far: bool = False

    @property
    def rows(self) -> int:
        """Queries that share keys and values."""
        return self.queries * self.group_heads


@dataclass(frozen=True)
class Division:
    """The work of the blocks of a launch.

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
        us: the estimate of its launches, without the memory of the tensors; 0 where there is none.
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
    us: float = 0.0

    @property
    def is_of_any(self) -> bool:
        """Whether its kernel is `attend`, which is there for all that the others cannot have."""
        return self.kernel.file == FILE

    @property
    def on_tensor_cores(self) -> bool:
        return self.kernel.file == TENSOR_CORES_FILE

    @classmethod
    def of(cls, work: Work, data_type: np.dtype[Any], limits: Limits, *, plain: bool) -> Division:
        """The division of some work; `plain` as in `parts_kernel`."""
        return cls.variants(work, data_type, limits, plain=plain)[0]

    @classmethod
    def variants(cls, work: Work, data_type: np.dtype[Any], limits: Limits, *, plain: bool) -> list[Division]:
        """The divisions that may be the fastest, by the model: the best one first. They differ in the parts of the keys."""
        divisions = cls._of_rows(work, data_type, limits, plain=plain)
        return [divisions[number] for number in unsure([division.us for division in divisions])] or [cls._of_any(work, data_type)]

    @classmethod
    def _of_any(cls, work: Work, data_type: np.dtype[Any]) -> Division:
        rows, columns = _ROWS * _LANES, _COLUMNS * _LANES
        query_tiles, value_tiles = -(-work.queries // rows), -(-work.value_size // columns)
        tiles = query_tiles * value_tiles * work.groups * work.group_heads * work.batch
        return cls(attend_kernel(data_type), rows, columns, _THREADS, query_tiles, value_tiles, tiles)

    @classmethod
    def _of_rows(cls, work: Work, data_type: np.dtype[Any], limits: Limits, *, plain: bool) -> list[Division]:
        """One for each number of parts; none for heads too large for a kernel or its memory, too much work for a grid, and far masks."""
        if work.is_far:
            return []
        few, largest = work.rows <= MOST_FEW_ROWS, max(work.key_size, work.value_size)
        plain = plain and not few
        kernels = {
            size: parts_kernel(data_type, size, few=few, plain=plain) for size in SIZES[data_type.itemsize, few, plain] if size >= largest
        }
        size = min((size for size, kernel in kernels.items() if kernel.lowest_capability <= limits.compute_capability), default=0)
        if not size:
            return []
        block = Block.of(data_type, size, few=few, plain=plain)
        query_tiles = -(-work.rows // block.rows)
        blocks = query_tiles * work.groups * work.batch
        if block.shared_bytes > limits.shared_memory_per_block:
            return []
        key_tiles = -(-work.keys // block.keys)
        cycles = cycles_of(cycles_name(data_type, size, few=few, plain=plain), limits.compute_capability)
        gpu, most, divisions = GpuModel.of(limits), _most_parts(blocks, key_tiles, few, limits), []
        # of the numbers of parts that give a block as many tiles the lowest
        for parts in sorted({-(-key_tiles // -(-key_tiles // parts)) for parts in range(1, most + 1)}):
            result_parts = parts * block.key_warps if parts * block.key_warps > 1 else 0
            us = _launches_us(work, gpu, cycles, blocks * parts, -(-key_tiles // parts), result_parts)
            of_parts = (blocks * parts, parts, result_parts, block.shared_bytes, us)
            if blocks * parts <= MOST_BLOCKS:
                divisions.append(cls(kernels[size], block.rows, size, block.threads, query_tiles, 1, *of_parts))
        return divisions


def _launches_us(work: Work, gpu: GpuModel, cycles: Cycles, blocks: int, key_tiles: int, result_parts: int) -> float:
    """The estimate for a division whose blocks have that many tiles of keys, without the memory of the tensors."""
    results = result_parts * work.batch * work.groups * work.rows * (work.value_size + _STATE_FLOATS) * 4
    combined = gpu.memory_us(2 * results) + CAPTURED_LAUNCH_US if result_parts else 0.0
    return launch_us(gpu, blocks, [(key_tiles + _OTHER_TURNS, cycles)]) + combined


@dataclass(frozen=True)
class Block:
    """A block of a kernel: `Division` of its file.

    Attributes:
        keys: of a tile.
        rows: of the block.
        threads: of the block.
        shared_bytes: dynamic.
        key_warps: warps that divide a tile's keys among them.
    """

    keys: int
    rows: int
    threads: int
    shared_bytes: int
    key_warps: int = 1

    @classmethod
    def of(cls, data_type: np.dtype[Any], size: int, *, few: bool, plain: bool) -> Block:
        """The block of `parts_kernel`."""
        return (cls._of_halves if data_type.itemsize == 2 else cls._of_floats)(size, few=few, plain=plain)

    @classmethod
    def _of_halves(cls, size: int, *, few: bool, plain: bool) -> Block:
        in_registers = size <= (128 if plain else 64)  # where queries are
        keys = 32 if size > 128 else 64
        if few:
            rows, threads, key_warps = FEW_ROWS, 2 * keys, keys // 16
        else:
            rows, key_warps = 128 if in_registers else 64, 1
            threads = rows if plain and size <= 64 else 2 * rows
            keys //= 1 if plain or size < 128 else 2
        shared = 2 * size * (_STAGES * keys + (0 if in_registers else rows))
        return cls(keys, rows, threads, shared, key_warps)

    @classmethod
    def _of_floats(cls, size: int, *, few: bool, plain: bool) -> Block:
        rows = 16 * (1 if few else 2 if size > (128 if plain else 64) else 4)
        return cls(_FLOAT_KEYS, rows, _FLOAT_THREADS, _STAGES * _PIECE_BYTES + 4 * rows * (size + _WEIGHT_PITCH))


def cycles_name(data_type: np.dtype[Any], size: int, *, few: bool, plain: bool) -> str:
    """The name in `kernel_cycles` of the loop over tiles of keys of `parts_kernel`."""
    elements, rows = ("halves" if data_type.itemsize == 2 else "floats"), ("few" if few else "many")
    return f"attention of {elements}, heads of {size}, {rows} rows{', plain' if plain else ''}"


def _most_parts(blocks: int, key_tiles: int, few: bool, limits: Limits) -> int:
    """Among how many blocks tiles of keys may be divided: at most as many as occupy all multiprocessors."""
    wanted = _BLOCKS_TOGETHER[few] * limits.multiprocessors // blocks
    return max(1, min(wanted, key_tiles // _LEAST_TILES[few]))
