"""What a warp executes in a turn of the loops in which kernels spend their time, and which loads it waits for: tables.

Both are read from the machine code of an H100. The way through a loop on which most is executed counts, without what is not usual there. Of
a loop that claims to prefetch (its comment begins with that word) no load may be waited for before the arithmetic that is to hide it.

A limit that a change of the kernels leaves far behind is to be lowered: what it would let pass again is no longer noticed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

from dmlpy.bench.shapes import SHAPES, DataType, Pass
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.attention.division import parts_kernel
from dmlpy.devices.cuda.convolution.plan import float_arithmetic, tiles_kernel
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.quantized.convolution import integer_arithmetic
from dmlpy.devices.cuda.recurrent import grid_shapes
from dmlpy.devices.cuda.recurrent.layer import persistent_block_kernel
from tests.support.cuda.binaries.kernel_loops import (
    COPIED_PIECES,
    COPIED_SINGLY,
    COPIED_SINGLY_LOOP,
    COPIED_TILES,
    END_OF_STAGE_OF_COPIES,
    HIDE,
    NEXT_TAP,
    PADDED,
    QUADS_OF_FLOATS,
    SETTLE,
    SINGLE_HALVES,
    SINGLE_HALVES_LOOP,
    TILES_OF_FLOATS,
    times_of_floats,
)
from tests.support.cuda.binaries.machine_code import code
from tests.support.cuda.binaries.sass import Block, Loop
from tests.support.cuda.binaries.sass_paths import UsualWays, Way
from tests.support.cuda.binaries.statements import Statement
from tests.support.cuda.instances.kernels import instances
from tests.support.cuda.plan_kernels import H100, Case
from tests.support.tools import require

require("nvrtc")
require("nvdisasm")

SLACK = 1.1
"""How many times what is found a limit may be."""


class Executed(NamedTuple):
    """Instructions of a warp, by what they do: see `KINDS` of the reader.

    Attributes:
        product: of tensor cores.
        floats: arithmetic, conversions and comparisons of floating-point numbers.
        integers: those of integers and addresses, predicates, moves, constants.
        control: branches and where threads converge again.
        shared: accesses of shared memory, and shuffles.
        memory: those of global memory.
        barrier: barriers and fences.
    """

    product: int
    floats: int
    integers: int
    control: int
    shared: int
    memory: int
    barrier: int

    @classmethod
    def of(cls, way: Way) -> Executed:
        kinds = way.kinds
        integers = kinds["integer"] + kinds["constant"]
        return cls(kinds["product"], kinds["float"], integers, kinds["control"], kinds["shared"], kinds["global"], kinds["barrier"])

    def __str__(self) -> str:
        return f"Executed({', '.join(map(str, self))})"


class Prefetched(NamedTuple):
    """Loads of a loop, and what lies between each of them and the first instruction that waits for it.

    Attributes:
        by: the statements that load.
        arithmetic: instructions of arithmetic, at least.
        instructions: of any kind, at least.
    """

    by: Sequence[Statement]
    arithmetic: int
    instructions: int


@dataclass(frozen=True)
class Row:
    """A loop of a kernel and what a warp may execute in a turn of it.

    Attributes:
        name: of the row.
        kernel: makes the kernel.
        loop: of which a turn is counted.
        most: what may be executed; None: it is not counted.
        times: how often the loops within are executed.
        without: what is not usual.
        prefetched: loads that are not waited for in the turn, or late; None: the loop does not claim to have any.
        under_way: the groups of copies to shared memory that may be under way at each wait for others; 0: it does not claim to have any.
    """

    name: str
    kernel: Callable[[], Kernel]
    loop: Statement
    most: Executed | None
    times: Mapping[Statement, int] = field(default_factory=dict)
    without: Sequence[Statement] = ()
    prefetched: Prefetched | None = None
    under_way: int = 0

    def ways(self) -> tuple[UsualWays, Loop]:
        """Those of the loop, and the loop."""
        of_kernel = code(self.kernel())
        (loop,) = self.loop.loops(of_kernel)

        def times(inner: Loop) -> int | None:
            return next((number for statement, number in self.times.items() if statement.is_loop(of_kernel, inner)), None)

        def leaves_out(block: Block) -> bool:
            return any(statement.has_nearly_all_of(block) for statement in (LOOK_AGAIN, *self.without))

        return UsualWays(of_kernel, times, leaves_out), loop


LOOK_AGAIN = Statement("common/block_exchange.cuh", "__device__ __forceinline__ bool look_again")
"""What a wait does after a look that has not found all there; it is usual nowhere."""

SLOW = (
    *("convolution, TF32", "convolution, many", "convolution, floats", "convolution, bytes", "product, floats", "product, bytes"),
    *("attention of halves, 32", "attention of halves, 64", "attention of halves, 256", "attention of floats"),
    *("persistent_block of an LSTM, float32", "LSTM 128, 1 sample, FLOAT32", "LSTM 512", "LSTM 1024", "RNN 1760"),
)
"""How the names of rows begin whose kernels take long to compile, or are other instances of a template that another row has."""

# recurrent layers: a step of all passes

GRID_KERNEL = "recurrent/persistent_grid.cu"
CLUSTERS = "recurrent/clusters.cu"
GRID = "common/persistent_grid.cuh"
GRID_GRADIENT = "recurrent/persistent_grid_gradient.cu"
PRODUCTS = "common/products.cuh"


def grid(shape: str, data_type: DataType, run: Pass = "forward", file: str = GRID_KERNEL, *, tf32: bool = False) -> Callable[[], Kernel]:
    """The kernel of `persistent_grid` for a shape of `dmlpy bench`, as the model spreads it: over a cluster only in `CLUSTERS`."""

    def made() -> Kernel:
        case = Case(H100, "persistent_grid", SHAPES[shape], run, data_type, tf32)
        with patch.object(grid_shapes, "CLUSTER_BLOCKS", grid_shapes.CLUSTER_BLOCKS if file == CLUSTERS else ()):
            return next(
                kernel for kernel in case.kernels() if kernel.file == file and kernel.entry.startswith(("persistent_grid<", "clustered<"))
            )

    return made


_BEFORE_PASSES = "operand = reset_operand(0);"
STEP = Statement(GRID, "for (int step = 0; step < steps; ++step)")
PASSES = Statement(GRID, "for (int pass = 0; pass < passes; ++pass)", after=_BEFORE_PASSES)
CHANGE = Statement(GRID, "if (step == change)")
"""Where a sample of the block has come to its end."""
WAIT = Statement("common/block_exchange.cuh", "for (int block = first + static_cast<int>(threadIdx.x % 32); block <= last; block += 32)")
INPUT_GATES = Statement(GRID, "loaded_gates[p][g] = *of_gate;")
AWAITED = Statement("common/cluster_exchange.cuh", "while (!machine::have_arrived(arrivals_of(number_)")
"""What comes from the blocks of the cluster: at the first look all has come."""
NEXT_CHUNK = Statement("common/staging.cuh", "load(exchange, following")
"""Or the first one of the next pass: not usual where an operand is one chunk."""
SAMPLES = Statement(GRID, "for (int slot = 0; slot < samples; ++slot)", after="change = steps;")
CHUNKS = Statement(PRODUCTS, "for (int begin = register_steps; begin < steps_; begin += chunk - begin % chunk)")
STEPS_OF_CHUNK = Statement(PRODUCTS, "for (int first = begin; first < end; first += together)")
"""These two: of the steps of depth whose part of R is not in registers."""
LATER_CHUNK = Statement(PRODUCTS, "enter(begin);", after="if (begin % chunk == 0)")
STEP_BACK = Statement(GRID_GRADIENT, "for (int step = 0; step <= steps; ++step)")
PASSES_BACK = Statement(GRID_GRADIENT, "for (int pass = 0; pass < passes; ++pass)", after="bool const multiplies =")
EXCHANGED = "common/gradient_products.cuh"
SCALES = Statement(EXCHANGED, "for (int place = place_of_lane() + quads_of_warp; place < parts_ * samples; place += quads_of_warp)")
PARTS = Statement(EXCHANGED, "for (int part = 0; part < units / 16 && exists[i]; ++part)")
LAST_TURN = Statement(GRID_GRADIENT, "} else if (at.exists) {")
"""It has no step."""

# products of matrices by tiles: a piece of terms

TILES = "common/tile_products.cuh"
PIECES = Statement(TILES, "for (long long first = 0; first < terms; first += Sums::piece_terms)")
NEXT_PIECES = (Statement(TILES, "rows.load(next, terms);"), Statement(TILES, "columns.load(next, terms);"))
END_OF_STAGE = Statement(TILES, "if (of_stage >= Sums::stage_terms || next >= terms)")
_LOAD, _STORE = "void load(long long first, long long terms)", "void store(unsigned* staged) const {"
WIDE_TERMS = tuple(Statement(TILES, "if (order_ == Order::wide_terms)", after=where) for where in (_LOAD, _STORE))
WIDE_LINES = tuple(Statement(TILES, "else if (order_ == Order::wide_lines)", after=where) for where in (_LOAD, _STORE))
SINGLE = (
    Statement(TILES, "for (int number = 0; number < own_words; number += at_once)"),
    Statement(TILES, "for (int i = 0; i < own_words; ++i)", after="staged[word_place(first + (i ^ upper), thread / together)]"),
)

LSTM = ("Lstm<false, false, true>", *["Activations<Sigmoid, Tanh, Tanh>"] * 2)


def attention(data_type: np.dtype[Any], size: int, *, few: bool = False, plain: bool = False) -> Callable[[], Kernel]:
    return lambda: parts_kernel(data_type, size, few=few, plain=plain)


BY_TERMS = (*WIDE_LINES, *SINGLE, END_OF_STAGE)
BY_LINES = (*WIDE_TERMS, *SINGLE, END_OF_STAGE)
OF_HALVES, OF_FLOATS = "product<machine::half, machine::half", "product<float, float"

HALF: np.dtype[Any] = np.dtype(np.float16)
FLOAT: np.dtype[Any] = np.dtype(np.float32)
BYTE: np.dtype[Any] = np.dtype(np.uint8)


def convolution(data_type: np.dtype[Any], number: int, tf32: bool) -> Callable[[], Kernel]:
    """The kernel of the number of a tile."""
    of_bytes = data_type == BYTE
    arithmetic = (
        integer_arithmetic(data_type, data_type, np.dtype(np.int32)) if of_bytes else float_arithmetic(data_type, None, None, tf32=tf32)
    )
    return lambda: tiles_kernel(arithmetic, arithmetic.tiles[number])


def listed(beginning: str) -> Callable[[], Kernel]:
    """The first instance of the tests' lists whose entry begins so."""
    return lambda: next(kernel for kernel in instances() if kernel.entry.startswith(beginning))


# the strategy `persistent_block`: a step

PERSISTENT_BLOCK = "recurrent/layer.cu"
BLOCK_STEP = Statement(PERSISTENT_BLOCK, "for (int step = 0; step < steps; ++step)")
BLOCK_QUADS = Statement(PERSISTENT_BLOCK, "for (int k = 0; k < quads; ++k)")
BLOCK_INPUT = Statement(PERSISTENT_BLOCK, "loaded[s][g] = row[g * hidden_size];", after="__device__ void persistent_block_direction")

ROWS = [
    *(
        Row(
            f"persistent_block of an LSTM, {data_type}",
            functools.partial(persistent_block_kernel, data_type, 2, "Inference", *LSTM),
            BLOCK_STEP,
            None,
            {BLOCK_QUADS: 1},
            (),
            Prefetched([BLOCK_INPUT], *least),
        )
        for data_type, least in ((HALF, (50, 83)), (FLOAT, (34, 68)))
    ),
    *(
        Row(
            f"convolution, {name}, {'next' if without == () else 'same'} tap",
            convolution(data_type, number, tf32),
            COPIED_PIECES,
            most,
            {QUADS_OF_FLOATS: 4, SETTLE: 0, COPIED_SINGLY_LOOP: 0},
            (*without, COPIED_SINGLY, PADDED, *[END_OF_STAGE_OF_COPIES] * ("stage" not in name)),
            under_way=1,
        )
        for name, data_type, number, tf32, without, most in (
            ("halves", HALF, 0, False, (NEXT_TAP,), Executed(16, 0, 50, 9, 11, 4, 3)),
            ("halves", HALF, 0, False, (), Executed(16, 0, 131, 12, 20, 4, 3)),
            ("many halves", HALF, 1, False, (NEXT_TAP,), Executed(64, 0, 60, 8, 19, 8, 3)),
            ("many halves", HALF, 1, False, (), Executed(64, 0, 177, 11, 32, 8, 3)),
            ("TF32", FLOAT, 0, True, (NEXT_TAP,), Executed(16, 32, 78, 9, 11, 4, 3)),
            ("many TF32", FLOAT, 1, True, (NEXT_TAP,), Executed(64, 64, 135, 8, 19, 8, 3)),
            ("floats, the end of a stage", FLOAT, 0, False, (NEXT_TAP,), Executed(0, 747, 154, 13, 51, 4, 3)),
            ("many floats", FLOAT, 1, False, (NEXT_TAP,), Executed(0, 1024, 119, 13, 67, 6, 3)),
            ("bytes", BYTE, 0, False, (NEXT_TAP,), Executed(28, 0, 88, 15, 17, 4, 3)),
        )
    ),
    *(
        Row(f"product, {name}", listed(entry), PIECES, most, {QUADS_OF_FLOATS: 4}, without, Prefetched(NEXT_PIECES, *least))
        for name, entry, without, most, least in (
            ("halves by terms", OF_HALVES, BY_TERMS, Executed(16, 0, 96, 6, 12, 4, 1), (16, 52)),
            ("halves by lines", OF_HALVES, BY_LINES, Executed(16, 0, 170, 20, 24, 4, 1), (16, 52)),
            ("floats by terms", OF_FLOATS, BY_TERMS, Executed(0, 513, 138, 14, 52, 4, 1), (128, 177)),
            ("bytes by terms", "byte_product<", BY_TERMS, Executed(28, 0, 146, 6, 12, 4, 1), (28, 93)),
        )
    ),
    # R in registers, and one chunk of an operand to each step; two chunks; R in shared memory too, with flags
    Row(
        "LSTM 256, 64 samples",
        grid("lstm-256-b64-t150", "FLOAT16"),
        STEP,
        Executed(8, 124, 85, 28, 27, 8, 4),
        {SAMPLES: 0, PASSES: 1, CHUNKS: 0},
        [CHANGE, NEXT_CHUNK],
        Prefetched([INPUT_GATES], *(1, 44)),
    ),
    Row(
        "LSTM 256, 64 samples, training",
        grid("lstm-256-b64-t150", "FLOAT16", "training"),
        STEP,
        Executed(8, 125, 169, 36, 30, 15, 4),
        {SAMPLES: 0, PASSES: 1, CHUNKS: 0},
        [CHANGE, NEXT_CHUNK],
        Prefetched([INPUT_GATES], *(0, 51)),
    ),
    Row(
        "LSTM 128, 1 sample, one block",
        grid("lstm-128-b1-t512", "FLOAT16"),
        STEP,
        Executed(32, 112, 49, 16, 25, 5, 2),
        {SAMPLES: 0, PASSES: 1, CHUNKS: 0},
        [CHANGE],
        Prefetched([INPUT_GATES], *(2, 33)),
    ),
    *(
        Row(
            f"LSTM 128, 1 sample, {data_type}, {name}",
            grid("lstm-128-b1-t512", data_type, file=file),
            STEP,
            most,
            {SAMPLES: 0, PASSES: 1, CHUNKS: 0, AWAITED: 1},
            [CHANGE, NEXT_CHUNK],
            Prefetched([INPUT_GATES], *least),
        )
        for data_type, name, file, most, least in (
            ("FLOAT16", "a cluster", CLUSTERS, Executed(8, 116, 76, 20, 25, 7, 5), (2, 45)),
            ("FLOAT32", "a cluster", CLUSTERS, Executed(0, 204, 73, 19, 48, 7, 5), (1, 47)),
            ("FLOAT32", "32 blocks", GRID_KERNEL, Executed(0, 153, 92, 30, 42, 8, 3), (0, 47)),
        )
    ),
    Row(
        "LSTM 512, 32 samples",
        grid("lstm-512x2-b32-t100", "FLOAT16"),
        STEP,
        Executed(16, 124, 126, 22, 35, 8, 4),
        {SAMPLES: 0, PASSES: 1, CHUNKS: 0},
        [CHANGE, NEXT_CHUNK],
        Prefetched([INPUT_GATES], *(1, 38)),
    ),
    Row(
        "LSTM 1024, 32 samples",
        grid("lstm-240-1024x2-b32-t200", "FLOAT16"),
        STEP,
        Executed(68, 124, 374, 38, 101, 18, 6),
        {SAMPLES: 0, PASSES: 1, CHUNKS: 1, STEPS_OF_CHUNK: 1},
        [CHANGE, LATER_CHUNK],
        Prefetched([INPUT_GATES], *(1, 40)),
    ),
    Row(
        "RNN 1760, 16 samples",
        grid("rnn-1760-b16-t50", "FLOAT16"),
        STEP,
        Executed(28, 37, 282, 32, 47, 15, 6),
        {SAMPLES: 0, PASSES: 1, CHUNKS: 0},
        [CHANGE],
        Prefetched([INPUT_GATES], *(1, 47)),
    ),
    Row(
        "GRU 1024, 64 samples",
        grid("gru-1024-b64-t1500", "FLOAT16"),
        STEP,
        Executed(96, 186, 576, 79, 140, 29, 8),
        {SAMPLES: 0, PASSES: 1, WAIT: 1, CHUNKS: 2, STEPS_OF_CHUNK: 3},
        [CHANGE],
    ),
    Row(
        "LSTM 256, 64 samples, FLOAT32",
        grid("lstm-256-b64-t150", "FLOAT32"),
        STEP,
        Executed(0, 699, 169, 41, 116, 8, 3),
        {SAMPLES: 0, PASSES: 1, CHUNKS: 1, STEPS_OF_CHUNK: 3},
        [CHANGE, NEXT_CHUNK, LATER_CHUNK],
        Prefetched([INPUT_GATES], *(0, 41)),
    ),
    Row(
        "LSTM 256, 64 samples, TF32",
        grid("lstm-256-b64-t150", "FLOAT32", tf32=True),
        STEP,
        Executed(16, 123, 130, 22, 34, 8, 4),
        {SAMPLES: 0, PASSES: 1, CHUNKS: 0},
        [CHANGE, NEXT_CHUNK],
        Prefetched([INPUT_GATES], *(0, 35)),
    ),
    Row(
        "gradient of LSTM 256, 64 samples",
        grid("lstm-256-b64-t150", "FLOAT16", "training", GRID_GRADIENT),
        STEP_BACK,
        Executed(16, 137, 333, 42, 44, 23, 6),
        {PASSES_BACK: 1, SCALES: 0, PARTS: 2, CHUNKS: 0},
        [NEXT_CHUNK, LAST_TURN],
    ),
    *(
        Row(
            f"attention of halves, {size} elements, {name}",
            attention(HALF, size, few=few, plain=plain),
            COPIED_TILES,
            most,
            {SINGLE_HALVES_LOOP: 0},
            (HIDE, SINGLE_HALVES),
            under_way=1,
        )
        for size, name, few, plain, most in (
            (32, "plain", False, True, Executed(64, 348, 145, 20, 30, 4, 10)),
            (64, "plain", False, True, Executed(128, 380, 161, 20, 46, 8, 10)),
            (128, "plain", False, True, Executed(128, 222, 146, 20, 74, 8, 10)),
            (256, "plain", False, True, Executed(128, 214, 178, 20, 90, 16, 10)),
            (64, "masks and biases", False, False, Executed(64, 382, 616, 32, 46, 68, 10)),
            (128, "masks and biases", False, False, Executed(64, 262, 433, 32, 54, 40, 10)),
            (256, "masks and biases", False, False, Executed(64, 250, 345, 32, 62, 24, 10)),
            (128, "few queries", True, False, Executed(32, 186, 413, 22, 38, 32, 6)),
            (256, "few queries", True, False, Executed(64, 250, 464, 22, 62, 48, 6)),
        )
    ),
    *(
        Row(
            f"attention of floats, 128 elements, {name}",
            attention(FLOAT, 128, few=few, plain=plain),
            TILES_OF_FLOATS,
            most,
            times_of_floats(128),
            (HIDE,),
            under_way=1,
        )
        for name, few, plain, most in (
            ("plain", False, True, Executed(0, 8453, 1746, 87, 836, 32, 24)),
            ("masks and biases", False, False, Executed(0, 4311, 1985, 111, 692, 64, 24)),
            ("few queries", True, False, Executed(0, 2159, 1831, 109, 614, 48, 24)),
        )
    ),
]


def in_half(number: int, row: Row) -> bool:
    """Whether a stage of CI reads the row: every second one whose kernels take little time to compile."""
    return number % 2 == 0 and not row.name.startswith(SLOW)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=f"half {row.name}" if in_half(number, row) else row.name,
            marks=[pytest.mark.slow] * (not in_half(number, row) or number % 8 > 0),
        )
        for number, row in enumerate(ROWS)
    ],
)
def test_a_turn_executes_no_more_than_before_and_waits_no_earlier(row: Row) -> None:
    ways, loop = row.ways()
    problems = []
    if row.most is not None:
        found = Executed.of(ways.once(loop))
        for name, count, limit in zip(Executed._fields, found, row.most, strict=True):
            if count > limit:
                problems.append(f"{name}: found {count}, allowed {limit}")
            elif count * SLACK + 2 < limit:
                problems.append(f"{name}: found {count}, lower the limit of {limit}")
        problems += [f"found: {found}, {sum(found)} in all"] * bool(problems)
    if row.under_way:
        of_loop = list(ways.code.instructions(loop))
        left = [int(instruction.operands.rpartition(" ")[2], 16) for instruction in of_loop if instruction.name == "DEPBAR"]
        assert any(instruction.name == "LDGSTS" for instruction in of_loop), "nothing is copied"
        if not left or min(left) < row.under_way:
            problems.append(f"waits leave {left} groups of copies under way, each at least {row.under_way}")
    if row.prefetched is not None:
        by, *limits = row.prefetched
        loads = [load for load in ways.loads(loop) if any(statement.has(load.instruction) for statement in by)]
        assert loads, "there are no such loads"
        for name, limit, least in zip(
            ("instructions of arithmetic", "instructions"),
            limits,
            (min(load.products for load in loads), min(load.distance for load in loads)),
            strict=True,
        ):
            if not limit <= least <= limit * SLACK + 2:
                problems.append(f"{least} {name} before a load is waited for, of at least {limit}:")
                problems += [f"  {load.products}, {load.distance}: {load.instruction}" for load in loads]
    assert not problems, "\n".join(problems)


def test_every_loop_that_claims_to_prefetch_has_a_row() -> None:
    claims = set()
    for path in sources.directory().rglob("*.cu*"):
        file, lines = path.relative_to(sources.directory()).as_posix(), path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if line.strip().startswith("// Prefetches"):
                claims.add((file, next(after for after, text in enumerate(lines[number:], number + 1) if re.match(r" *for \(", text))))
    assert claims == {(row.loop.file, row.loop.lines[0]) for row in ROWS if row.prefetched is not None or row.under_way}
