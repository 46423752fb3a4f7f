"""The reader of machine code, over made-up kernels: what a turn of their loops executes and which loads they prefetch is known."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.cuda.binaries.nvrtc import NEWEST, PROMISED, compile_instance
from tests.support.cuda.binaries.sass import Block, Code, Instruction, Loop, SassError, code_of, disassemble
from tests.support.cuda.binaries.sass_paths import UsualWays
from tests.support.cuda.binaries.statements import Statement, StatementError
from tests.support.pairwise import first_few
from tests.support.tools import require

require("nvrtc")
require("nvdisasm")

SOURCE = """#line 2 "made_up.cu"
template <int steps>
__global__ void counted(float* values, int turns) {
    float sum = values[threadIdx.x];
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            sum = sum * sum + sum;
        }
    }
    values[threadIdx.x] = sum;
}

template <bool ahead>
__global__ void piecewise(float const* values, float* sums, int pieces) {
    __shared__ float staged[32];
    float sum = 0.0f;
    float piece = values[threadIdx.x];
#pragma unroll 1
    for (int number = 1; number <= pieces; ++number) {
        staged[threadIdx.x] = piece;
        __syncthreads();
        piece = values[number * 32 + threadIdx.x];
        if (!ahead) {
            sum += piece;
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            sum = sum * staged[i] + sum;
        }
        __syncthreads();
    }
    sums[threadIdx.x] = sum;
}

template <int steps>
__global__ void nested(float* values, int const* lengths, int rows) {
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        float sum = values[row];
#pragma unroll 1
        for (int place = 0; place < lengths[row]; ++place) {
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                sum = sum * sum + sum;
            }
        }
        values[row] = sum;
        if (lengths[row] == 7) {
#pragma unroll
            for (int step = 0; step < 2 * steps; ++step) {
                sum = sum * sum - sum;
            }
            values[row + rows] = sum;
            __threadfence();
        }
    }
}

template <int steps>
__global__ void behind(float* values, int rows) {
    float sum = values[rows];
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
        float value = values[row];
#pragma unroll 1
        for (int place = 0; place < rows - row - 5; ++place) {
#pragma unroll
            for (int step = 0; step < steps; ++step) {
                sum = sum * sum + sum;
            }
        }
        values[row + 2 * rows] = value + sum;
    }
    values[rows] = sum;
}

template <bool at_first>
__global__ void waiting(unsigned const volatile* flags, float* values, int turns) {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        if (at_first) {
            while (flags[turn] == 0) {
                asm volatile("nanosleep.u32 20;");
            }
        } else {
            for (;;) {
                if (flags[turn] != 0 && flags[turn + turns] != 0) {
                    break;
                }
                asm volatile("nanosleep.u32 20;");
            }
        }
        values[turn] = values[turn + turns] * 2.0f;
    }
}

template <class T>
__global__ void dividing(T* values, int turns) {
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        values[turn] = T(1) / values[turn];
    }
}
"""


def statement(text: str, after: str = "") -> Statement:
    return Statement("made_up.cu", text, after, SOURCE)


TURNS = "for (int turn = 0; turn < turns; ++turn)"
PIECES = statement("for (int number = 1; number <= pieces; ++number)")
ROWS = statement("for (int row = 0; row < rows; ++row)", after="void nested")
ROWS_BEHIND = statement("for (int row = 0; row < rows; ++row)", after="void behind")
PLACES = statement("for (int place = 0; place < lengths[row]; ++place)")


@functools.cache
def made_up(entry: str, version: str = NEWEST, architecture: int = 90) -> Code:
    compiled = compile_instance(SOURCE, entry, architecture, version, lines=True)
    return code_of(disassemble(compiled.image), compiled.symbol)


def in_a_turn(
    code: Code, loop: Statement, times: Callable[[Loop], int | None] = lambda _: None, without: Statement | None = None
) -> Counter[str]:
    (found,) = loop.loops(code)
    return UsualWays(code, times, lambda block: without is not None and without.has_nearly_all_of(block)).once(found).kinds


@pytest.mark.parametrize("version", first_few(PROMISED[::-1], 1))
@pytest.mark.parametrize("steps", first_few([3, 11], 1))
def test_a_turn_executes_what_the_loop_says(steps: int, version: str) -> None:
    """So many multiplications, and a counter, a comparison and a branch."""
    require("nvrtc" if version == NEWEST else f"nvrtc {version}")
    loop = statement(TURNS, after="void counted")
    assert in_a_turn(made_up(f"counted<{steps}>", version), loop) == {"float": steps, "integer": 2, "control": 1}


@pytest.mark.parametrize("architecture", first_few([90, 75, 80, 100, 120], 1))
def test_a_prefetched_load_is_distinguished_from_one_that_is_waited_for(architecture: int) -> None:
    ahead, at_once = (made_up(f"piecewise<{flag}>", architecture=architecture) for flag in ("true", "false"))
    (prefetched,) = UsualWays(ahead).loads(*PIECES.loops(ahead))
    (awaited,) = UsualWays(at_once).loads(*PIECES.loops(at_once))
    assert prefetched.products == 32
    assert 32 < prefetched.distance < math.inf
    assert awaited.products <= 1
    assert awaited.distance < 16


def test_the_shortest_way_to_a_wait_counts() -> None:
    """Around the loop too; where none leads to a wait the load is infinitely far. Another barrier is none of it."""

    def plain(opcode: str, *waits: int, barrier: int | None = None) -> Instruction:
        return Instruction(opcode, "", None, 1, barrier, frozenset(waits))

    load = plain("LDG.E", barrier=2)
    waits = Block((plain("FFMA", 1), plain("STS", 2)), (0,))
    around = Block((plain("IADD3"), plain("IADD3"), plain("IADD3")), (0,))
    for blocks, distance, products in (
        ((Block((plain("STS", 2), load, plain("FFMA")), (0, 1)), Block((), ())), 2, 1),
        ((Block((load, plain("FFMA")), (1, 2)), waits, around), 3, 2),
        ((Block((load, plain("FFMA")), (2,)), waits, around), math.inf, math.inf),
    ):
        code = Code(blocks)
        (loop,) = code.loops
        (found,) = UsualWays(code).loads(loop)
        assert (found.distance, found.products) == (distance, products)


def block_of(count: int, *to: int, opcode: str = "IADD3") -> Block:
    return Block((Instruction(opcode, "", None, 1, None, frozenset()),) * count, to)


def test_gathering_threads_that_have_parted_does_not_count() -> None:
    code = Code((block_of(2, 1, 2), block_of(3, 0, opcode="WARPSYNC.COLLECTIVE"), block_of(1, 0, opcode="SHFL.BFLY")))
    (loop,) = code.loops
    assert UsualWays(code).once(loop).kinds == {"integer": 2, "shared": 1}


@pytest.mark.parametrize(("following", "total"), [((1,), 2 + 3), ((1, 2), 2 + 1)])
def test_what_every_way_passes_is_not_left_out(following: tuple[int, ...], total: int) -> None:
    code = Code((block_of(2, *following), block_of(3, 0), block_of(1, 0)))
    (loop,) = code.loops
    assert UsualWays(code, leaves_out=lambda one: len(one.instructions) == 3).once(loop).total == total


def test_a_poll_that_may_give_up_is_passed_by() -> None:
    """A look before the loop finds all there; looks in it are many or few before it pauses, and in the end it continues by another way."""
    look, again, pause, more, gives_up, goes_on = 0, 1, 2, 3, 4, 5
    code = Code(
        (
            block_of(2, again, goes_on),
            block_of(3, pause, more),
            block_of(1, more, opcode="NANOSLEEP"),
            block_of(3, again, gives_up, goes_on),
            block_of(7, goes_on),
            block_of(1, look),
        )
    )
    (loop,) = (found for found in code.loops if found.header == look)
    assert UsualWays(code).once(loop).total == 2 + 1


def test_a_wait_behind_an_inner_loop_is_as_far_as_its_turn() -> None:
    """Where it is known to be executed; else the way around it is the shortest."""
    code = made_up("behind<8>")
    (loop,) = ROWS_BEHIND.loops(code)
    (load,) = UsualWays(code).loads(loop)
    assert load.products == 1, "the sum itself"
    (load,) = UsualWays(code, lambda inner: 1).loads(loop)
    assert load.products == 1 + 8


@pytest.mark.parametrize("times", [0, 1, 5])
def test_an_inner_loop_counts_as_often_as_is_said(times: int) -> None:
    code = made_up("nested<4>")
    rare = statement("if (lengths[row] == 7)")
    found = in_a_turn(code, ROWS, lambda inner: times if PLACES.is_loop(code, inner) else None, rare)
    assert found["float"] == 4 * times
    with_rare = in_a_turn(code, ROWS, lambda inner: times if PLACES.is_loop(code, inner) else None)
    assert with_rare["float"] == 4 * times + 8
    assert with_rare["barrier"] > found["barrier"] == 0


def test_it_is_asked_how_often_an_inner_loop_runs() -> None:
    code = made_up("nested<4>")
    with pytest.raises(SassError, match=rf"how often is the loop at \S*made_up.cu:{PLACES.lines[0]} executed"):
        in_a_turn(code, ROWS)


@pytest.mark.parametrize(("at_first", "looks"), [("true", 1), ("false", 2)])
def test_of_a_poll_the_first_look_counts(at_first: str, looks: int) -> None:
    """Whether the compiler moves it before the loop or not: with it a load and a store."""
    code = made_up(f"waiting<{at_first}>")
    (loop,) = statement(TURNS, after="void waiting").loops(code)
    assert any(block.has("NANOSLEEP") for block in code.blocks)
    assert sum(one.kind == "global" for one in code.instructions(loop)) >= looks + 2
    found = in_a_turn(code, statement(TURNS, after="void waiting"))
    assert found["global"] == looks + 2
    assert found["barrier"] == 0


def test_what_is_called_for_rare_numbers_does_not_count() -> None:
    code = made_up("dividing<float>")
    (loop,) = statement(TURNS, after="void dividing").loops(code)
    called = [block for number in loop.blocks if (block := code.blocks[number]).has("CALL")]
    assert called, "a division of floats calls a function where they are tiny or huge"
    found = in_a_turn(code, statement(TURNS, after="void dividing")).total()
    assert found <= sum(1 for _ in code.instructions(loop)) - sum(len(block.instructions) for block in called)


def test_line_information_changes_no_instruction() -> None:
    plain, with_lines = (compile_instance(SOURCE, "nested<4>", 90, lines=lines) for lines in (False, True))
    codes = [code_of(disassemble(compiled.image), compiled.symbol) for compiled in (plain, with_lines)]
    texts = [[(one.opcode, one.operands, one.stall, one.waits) for block in code.blocks for one in block.instructions] for code in codes]
    assert texts[0] == texts[1]
    assert not any(one.places for block in codes[0].blocks for one in block.instructions)


def test_a_statement_has_to_be_said_once() -> None:
    for text, after, message in (
        ("for (int turn", "", "occurs 3 times"),
        ("for (int turn", "values", r"occurs \d+ times"),
        ("for (int turn", "void dividing(T* values, int turns)", ""),
        ("no such line", "", "occurs 0 times"),
        ("for (int row", "void dividing", "no 'for"),
    ):
        if message:
            with pytest.raises(StatementError, match=message):
                assert statement(text, after).lines
        else:
            assert len(statement(text, after).lines) == 3


def test_a_kernel_that_is_not_there_is_reported() -> None:
    with pytest.raises(SassError, match="other is not among"):
        code_of(disassemble(compile_instance(SOURCE, "counted<3>", 90).image), "other")
    with pytest.raises(SassError, match="nvdisasm: "):
        disassemble(b"no cubin")
