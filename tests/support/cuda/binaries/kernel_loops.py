"""The loops in which convolutions and attention spend their time, and what a turn of them costs by the model of a scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.attention.division import SIZES, cycles_name, parts_kernel
from dmlpy.devices.cuda.attention.division import Block as AttentionBlock
from dmlpy.devices.cuda.common.tile_products import TILE_THREADS
from dmlpy.devices.cuda.convolution.plan import float_arithmetic, tiles_kernel
from dmlpy.devices.cuda.convolution.tiles import LINE_BYTES
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.performance.kernel_cycles import NEXT_TAP as NEXT_TAP_WAY
from dmlpy.devices.cuda.performance.kernel_cycles import TURN
from dmlpy.devices.cuda.quantized.convolution import integer_arithmetic
from dmlpy.devices.cuda.recurrent.model import MEMORY_LOAD
from dmlpy.devices.cuda.runtime.interface import Limits
from tests.support.cuda.binaries.nvrtc import compile_instance
from tests.support.cuda.binaries.sass import Block, Code, Instruction, Loop, SassError, code_of, disassemble
from tests.support.cuda.binaries.sass_paths import UsualWays
from tests.support.cuda.binaries.scheduler_model import LANES, SCHEDULERS, Scheduler, Turn, flops_of, turn_of
from tests.support.cuda.binaries.statements import Statement

# convolution: a piece of terms

CONVOLUTION = "common/convolution_tiles.cuh"
COPIED_PIECES = Statement(CONVOLUTION, "for (int piece = -2; piece < pieces; ++piece)")
COPIED_SINGLY = Statement(CONVOLUTION, "if (parameters_.wide == 0)")
COPIED_SINGLY_LOOP = Statement(CONVOLUTION, "for (int e = 0; e < in_chunk; ++e)")
NEXT_TAP = Statement(CONVOLUTION, "if (channel_ >= end_)")
SETTLE = Statement(CONVOLUTION, "while (channel_ >= of_tap_ && taps_[0] < of_phase_[0].count)")
END_OF_STAGE_OF_COPIES = Statement(CONVOLUTION, "sums.end_stage(all_taps * parameters.channels, zeros);")
QUADS_OF_FLOATS = Statement("common/tile_products.cuh", "for (int quad = 0; quad < 4; ++quad)")
PADDED = Statement(CONVOLUTION, "if (Arithmetic::has_padding && !met)", after="bool const met = left > 0")

# attention: a tile of keys

HALVES_OF_ATTENTION, FLOATS_OF_ATTENTION = "attention/tensor_cores.cu", "attention/floats.cu"
SCORES = "attention/scores.cuh"
COPIED_TILES = Statement(HALVES_OF_ATTENTION, "for (int number = work.first_tile - 1; number < work.end_tile; ++number)")
TILES_OF_FLOATS = Statement(FLOATS_OF_ATTENTION, "for (int number = work.first_tile; number < work.end_tile; ++number)")
HIDE = Statement(SCORES, "void hide(typename Own::Scores& scores")
"""Of keys that a row does not attend to, in the last tiles."""
SINGLE_HALVES = Statement("attention/half_tiles.cuh", "void copy_singly(")
SINGLE_HALVES_LOOP = Statement("attention/half_tiles.cuh", "for (int number =", after="void copy_singly(")
SINGLE_FLOATS = Statement(
    FLOATS_OF_ATTENTION, "for (int i = 0; i < copies; ++i)", after="from += stride * row_of_all + first * element_stride;"
)
PIECES_OF_KEYS = Statement(FLOATS_OF_ATTENTION, "for (int piece = 0; piece < pieces.of_keys(); ++piece)")
PIECES_OF_VALUES = Statement(FLOATS_OF_ATTENTION, "for (int key = 0; key < Own::keys; key += keys_of_piece)")
QUADS = Statement(FLOATS_OF_ATTENTION, "for (int quad = 0; quad < quads; ++quad)")
KEYS_OF_PIECE = Statement(FLOATS_OF_ATTENTION, "for (int key = 0; key < keys_of_piece; key += 4)")


def times_of_floats(size: int) -> dict[Statement, int]:
    """How often the loops in that over tiles are executed, for heads of so many elements; those of products are unrolled twice."""
    return {PIECES_OF_KEYS: size // 32, PIECES_OF_VALUES: 2, QUADS: 4, KEYS_OF_PIECE: 4, SINGLE_FLOATS: 0}


# operators that only move elements, or compute each by itself: a vector, a group of entries, two windows

VECTORS = Statement(
    "common/element_engine.cuh", "for (long long number = first_element(); number < parameters.vectors; number += element_stride())"
)
AXES = Statement("common/axes.cuh", "for (int axis = axes.count - 1; axis > 0; --axis)")
GROUPS = Statement("activation/groups.cu", "for (long long first = static_cast<long long>(blockIdx.x) * thread_groups;")
ROUNDS = Statement("activation/groups.cu", "for (int half = thread_group_size / 2; half > 0; half /= 2)")
POSITIONS = Statement("pooling/planes.cu", "for (unsigned number = static_cast<unsigned>(first_element()); number < parameters.count;")

SHARED_BYTES = {75: 64 << 10, 80: 164 << 10, 86: 100 << 10, 90: 228 << 10, 100: 228 << 10, 120: 100 << 10}
"""The shared memory of a multiprocessor, by compute capability."""
MOST_THREADS = {75: 1024, 86: 1536, 120: 1536}
"""The threads that a multiprocessor holds, if not 2048."""
REGISTERS = 65536
MOST_BLOCKS = 32
SYSTEM_BYTES = 1024
"""Of a block's shared memory, for the system: none before 8.0."""


@dataclass(frozen=True)
class KernelLoop:
    """A loop in which a kernel spends its time.

    Attributes:
        name: in `kernel_cycles`.
        kernel: the kernel.
        loop: the loop.
        times: how often the loops within are executed.
        ways: what is left out of each way through it, by name.
        threads: of a block.
        shared_bytes: of a block, dynamic.
        flops: of a block in a turn, at least.
        from_memory: whether its loads go to memory, or to the L2 cache.
    """

    name: str
    kernel: Kernel
    loop: Statement
    times: Mapping[Statement, int]
    ways: Mapping[str, Sequence[Statement]]
    threads: int
    shared_bytes: int
    flops: int
    from_memory: bool = False

    def runs_on(self, limits: Limits) -> bool:
        """Whether a device has the instructions and the shared memory."""
        return self.kernel.lowest_capability <= limits.compute_capability and self.shared_bytes <= limits.shared_memory_per_block

    def cycles(self, limits: Limits) -> dict[str, list[float]]:
        """The cycles of a turn on a device, by way and number of resident blocks."""
        return {way: [turn.cycles for turn in turns] for way, (_, turns) in self.executed(limits).items()}

    def executed(self, limits: Limits, *, full: bool = False) -> dict[str, tuple[int, list[Turn]]]:
        """The instructions of a turn and what it costs on a device, by way and number of resident blocks.

        With `full` the cost with as many blocks as a multiprocessor holds stands for fewer, too.
        """
        capability = limits.compute_capability
        compiled = compile_instance(sources.read(self.kernel.file), self.kernel.entry, capability, lines=True)
        code, gpu = code_of(disassemble(compiled.image), compiled.symbol), GpuModel.of(limits)
        scheduler = Scheduler(gpu, capability, MEMORY_LOAD if self.from_memory else gpu.l2_cycles)
        of_block = max(1, self.threads // (LANES * SCHEDULERS))
        most = self._resident(capability, compiled.registers)
        found = {}
        for way, without in self.ways.items():
            instructions = self._turn(code, without)
            counts = [most] if full else range(1, most + 1)
            turns = [turn_of(instructions, scheduler, blocks * of_block, of_block) for blocks in counts]
            found[way] = (len(instructions), turns * (most if full else 1))
        return found

    def _turn(self, code: Code, without: Sequence[Statement]) -> tuple[Instruction, ...]:
        """The instructions of a turn.

        Where the compiler has put products into blocks of what is left out, these are passed.

        Raises:
            SassError: no way has all products.
        """
        found = []
        for loop in self.loop.loops(code):
            for left_out in (without, *([one for one in without if one is not other] for other in without), ()):
                with suppress(SassError):
                    found.append(self._way(code, loop, left_out))
        of_warp = self.flops * LANES // self.threads
        whole = [way for way in found if sum(map(_flops, way)) >= of_warp]
        if not whole:
            raise SassError(f"no way through the loop of {self.name} has {of_warp} flops")
        return min(whole, key=len)

    def _way(self, code: Code, loop: Loop, without: Sequence[Statement]) -> tuple[Instruction, ...]:
        def times(inner: Loop) -> int | None:
            if self.loop.is_loop(code, inner):
                return 1  # the compiler has made two loops of it, one in the other
            return next((number for statement, number in self.times.items() if statement.is_loop(code, inner)), None)

        def leaves_out(block: Block) -> bool:
            return any(statement.has_nearly_all_of(block) for statement in without)

        return UsualWays(code, times, leaves_out).once(loop).instructions

    def _resident(self, capability: int, registers: int) -> int:
        """The blocks that a multiprocessor holds."""
        of_block = self.shared_bytes + (SYSTEM_BYTES if capability >= 80 else 0)
        registers = -(-registers // 8) * 8 * self.threads
        by_memory = SHARED_BYTES[capability] // of_block if of_block else MOST_BLOCKS
        return min(REGISTERS // registers, by_memory, MOST_THREADS.get(capability, 2048) // self.threads)


def _flops(instruction: Instruction) -> int:
    """Those of a warp, by tensor cores or by multiply-adds, of which that with a sum of 0 is a multiplication."""
    return 2 * LANES if instruction.name in ("FFMA", "FMUL") else flops_of(instruction)


def convolution_loops() -> Iterator[KernelLoop]:
    """Those of `convolve_tiles`, for each kind of sums. That of floats has the end of a stage in every turn, not in every second."""
    half, float_, byte = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.uint8)
    floats = [float_arithmetic(data_type, None, None, tf32=tf32) for data_type, tf32 in ((half, False), (float_, True), (float_, False))]
    of_bytes = integer_arithmetic(byte, byte, np.dtype(np.int32))
    for arithmetic, size in zip((*floats, of_bytes), (2, 4, 4, 1), strict=True):
        for tile in arithmetic.tiles:
            usual = [COPIED_SINGLY, PADDED, *[END_OF_STAGE_OF_COPIES] * (tile.sums != "WholeFloats")]
            yield KernelLoop(
                tile.cycles_name,
                tiles_kernel(arithmetic, tile),
                COPIED_PIECES,
                {QUADS_OF_FLOATS: 4, SETTLE: 0, COPIED_SINGLY_LOOP: 0},
                {TURN: [NEXT_TAP, *usual], NEXT_TAP_WAY: usual},
                TILE_THREADS,
                tile.shared_bytes,
                2 * tile.rows * tile.columns * (LINE_BYTES // size),
            )


def attention_loops() -> Iterator[KernelLoop]:
    """Those of `attend_halves` and `attend_floats`."""
    for (item_bytes, few, plain), sizes in SIZES.items():
        data_type, halves = np.dtype(f"f{item_bytes}"), item_bytes == 2
        for size in sizes:
            block = AttentionBlock.of(data_type, size, few=few, plain=plain)
            yield KernelLoop(
                cycles_name(data_type, size, few=few, plain=plain),
                parts_kernel(data_type, size, few=few, plain=plain),
                COPIED_TILES if halves else TILES_OF_FLOATS,
                {SINGLE_HALVES_LOOP: 0} if halves else times_of_floats(size),
                {TURN: [HIDE, SINGLE_HALVES] if halves else [HIDE]},
                block.threads,
                block.shared_bytes,
                4 * block.rows * block.keys * size,
                from_memory=few,
            )


def kernel_loops() -> Iterator[KernelLoop]:
    """All of them."""
    yield from convolution_loops()
    yield from attention_loops()
