"""What a warp executes in a turn of the loops in which kernels spend their time, counted in the machine code of an H100, as a table.

Each row takes the way through a loop on which most is executed, and leaves out what is not usual there. A limit that a change of the
kernels leaves far behind is to be lowered: what it would let pass again is no longer noticed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from dmlpy.bench.shapes import SHAPES, DataType, Pass
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import Kernel
from tests.support.cuda.nvrtc import compile_instance
from tests.support.cuda.plan_kernels import H100, Case
from tests.support.cuda.sass import Block, Code, Loop, code_of, disassemble
from tests.support.cuda.sass_paths import UsualWay, Way
from tests.support.cuda.statements import Statement
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


@functools.cache
def code(kernel: Kernel) -> Code:
    """Its machine code on an H100."""
    compiled = compile_instance(sources.read(kernel.file), kernel.entry, H100.compute_capability, lines=True)
    return code_of(disassemble(compiled.image), compiled.symbol)


@dataclass(frozen=True)
class Row:
    """A loop of a kernel and what a warp may execute in a turn of it.

    Attributes:
        name: of the row.
        kernel: makes the kernel.
        loop: of which a turn is counted.
        most: what may be executed.
        times: how often the loops within are executed.
        without: what is not usual.
    """

    name: str
    kernel: Callable[[], Kernel]
    loop: Statement
    most: Executed
    times: Mapping[Statement, int] = field(default_factory=dict)
    without: Sequence[Statement] = ()

    def executed(self) -> Executed:
        of_kernel = code(self.kernel())
        (loop,) = self.loop.loops(of_kernel)

        def times(inner: Loop) -> int | None:
            return next((number for statement, number in self.times.items() if statement.is_loop(of_kernel, inner)), None)

        def leaves_out(block: Block) -> bool:
            return any(statement.has_nearly_all_of(block) for statement in self.without)

        return Executed.of(UsualWay(of_kernel, times, leaves_out).once(loop))


# recurrent layers: a step of all passes

GRID = "recurrent/grid.cu"
GRID_GRADIENT = "recurrent/grid_gradient.cu"
PRODUCTS = "common/products.cuh"


def grid(shape: str, data_type: DataType, run: Pass = "forward", file: str = GRID, *, tf32: bool = False) -> Callable[[], Kernel]:
    """The kernel of the strategy `grid` for a shape of `dmlpy bench`, as the model spreads it."""

    def made() -> Kernel:
        case = Case(H100, "grid", SHAPES[shape], run, data_type, tf32)
        return next(kernel for kernel in case.kernels() if kernel.file == file and kernel.entry.startswith("grid<"))

    return made


_BEFORE_PASSES = "operand = reset_operand(0);"
STEP = Statement(GRID, "for (int step = 0; step < steps; ++step)")
PASSES = Statement(GRID, "for (int pass = 0; pass < passes; ++pass)", after=_BEFORE_PASSES)
NEXT_PASS = Statement(GRID, "hidden_operand(step, pass + 1)", after=_BEFORE_PASSES)
WAIT = Statement("common/exchange.cuh", "for (int block = first + static_cast<int>(threadIdx.x % 32); block <= last; block += 32)")
NEXT_CHUNK = Statement("common/staging.cuh", "load(exchange, following")
"""Or the first one of the next pass: not usual where an operand is one chunk."""
CHUNKS = Statement(PRODUCTS, "for (int begin = register_steps; begin < steps_; begin += chunk - begin % chunk)")
STEPS_OF_CHUNK = Statement(PRODUCTS, "for (int first = begin; first < end; first += together)")
"""These two: of the steps of depth whose part of R is not in registers."""
LATER_CHUNK = Statement(PRODUCTS, "enter(begin);", after="if (begin % chunk == 0)")
STEP_BACK = Statement(GRID_GRADIENT, "for (int step = 0; step <= steps; ++step)")
PASSES_BACK = Statement(GRID_GRADIENT, "for (int pass = 0; pass < passes; ++pass)", after="bool const multiplies =")
SCALES = Statement(GRID_GRADIENT, "for (int place = threadIdx.x % 32 * 4; place < parts * samples; place += 128)")
PARTS = Statement(GRID_GRADIENT, "for (int part = 0; part < units / 16 && exists[i]; ++part)")
LAST_TURN = Statement(GRID_GRADIENT, "} else if (at.exists) {")
"""It has no step."""

ROWS = [
    # R in registers, and one chunk of an operand to each step; two chunks; R in shared memory too, with flags
    Row(
        "LSTM 256, 64 samples",
        grid("lstm-256-b64-t150", "FLOAT16"),
        STEP,
        Executed(8, 106, 291, 37, 39, 8, 4),
        {PASSES: 1, CHUNKS: 0},
        [NEXT_PASS, NEXT_CHUNK],
    ),
    Row(
        "LSTM 256, 64 samples, training",
        grid("lstm-256-b64-t150", "FLOAT16", "training"),
        STEP,
        Executed(8, 102, 429, 46, 43, 15, 4),
        {PASSES: 1, CHUNKS: 0},
        [NEXT_PASS, NEXT_CHUNK],
    ),
    Row(
        "LSTM 512, 32 samples",
        grid("lstm-512x2-b32-t100", "FLOAT16"),
        STEP,
        Executed(16, 106, 352, 37, 47, 8, 4),
        {PASSES: 1, CHUNKS: 0},
        [NEXT_PASS, NEXT_CHUNK],
    ),
    Row(
        "LSTM 1024, 32 samples",
        grid("lstm-240-1024x2-b32-t200", "FLOAT16"),
        STEP,
        Executed(68, 106, 709, 72, 115, 18, 6),
        {PASSES: 1, CHUNKS: 1, STEPS_OF_CHUNK: 1},
        [NEXT_PASS, LATER_CHUNK],
    ),
    Row(
        "RNN 1760, 16 samples",
        grid("rnn-1760-b16-t50", "FLOAT16"),
        STEP,
        Executed(28, 37, 618, 68, 58, 15, 6),
        {PASSES: 1, CHUNKS: 0},
        [NEXT_PASS],
    ),
    Row(
        "GRU 1024, 64 samples",
        grid("gru-1024-b64-t1500", "FLOAT16"),
        STEP,
        Executed(96, 162, 958, 75, 160, 29, 8),
        {PASSES: 1, WAIT: 1, CHUNKS: 2, STEPS_OF_CHUNK: 3},
        [NEXT_PASS],
    ),
    Row(
        "LSTM 256, 64 samples, FLOAT32",
        grid("lstm-256-b64-t150", "FLOAT32"),
        STEP,
        Executed(0, 682, 426, 61, 126, 8, 20),
        {PASSES: 1, CHUNKS: 1, STEPS_OF_CHUNK: 3},
        [NEXT_PASS, NEXT_CHUNK, LATER_CHUNK],
    ),
    Row(
        "LSTM 256, 64 samples, TF32",
        grid("lstm-256-b64-t150", "FLOAT32", tf32=True),
        STEP,
        Executed(16, 101, 358, 37, 46, 8, 4),
        {PASSES: 1, CHUNKS: 0},
        [NEXT_PASS, NEXT_CHUNK],
    ),
    Row(
        "gradient of LSTM 256, 64 samples",
        grid("lstm-256-b64-t150", "FLOAT16", "training", GRID_GRADIENT),
        STEP_BACK,
        Executed(16, 133, 658, 56, 58, 25, 7),
        {PASSES_BACK: 1, SCALES: 1, PARTS: 2, CHUNKS: 0},
        [NEXT_CHUNK, LAST_TURN],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_turn_executes_no_more_than_before(row: Row) -> None:
    found = row.executed()
    problems = []
    for name, count, limit in zip(Executed._fields, found, row.most, strict=True):
        if count > limit:
            problems.append(f"{name}: found {count}, allowed {limit}")
        elif count * SLACK + 2 < limit:
            problems.append(f"{name}: found {count}, lower the limit of {limit}")
    assert not problems, "\n".join([*problems, f"found: {found}, {sum(found)} in all"])
