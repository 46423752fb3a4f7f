"""The model of a scheduler over made-up loops, of which the cycles of a turn are known by hand."""

from __future__ import annotations

import pytest

from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.recurrent.model import BARRIER
from tests.support.cuda.binaries.sass import Instruction
from tests.support.cuda.binaries.scheduler_model import Scheduler, bytes_of, flops_of, turn_of
from tests.support.cuda.gpu_models import H200, T4

LOAD_CYCLES = 400
HOPPER, TURING = (Scheduler(GpuModel.of(limits), limits.compute_capability, LOAD_CYCLES) for limits in (H200, T4))


def one(opcode: str, stall: int = 1, raises: int | None = None, waits: int | None = None, operands: str = "R0") -> Instruction:
    return Instruction(opcode, operands, None, stall, raises, frozenset() if waits is None else frozenset({waits}))


MULTIPLY_ADD = one("FFMA")
LOAD, USE = one("LDG.E.128", raises=0), one("FADD", waits=0)
PRODUCT = one("HMMA.16816.F32")
COPY, CLOSE, WAIT = one("LDGSTS.E.BYPASS.128"), one("LDGDEPBAR"), one("DEPBAR.LE", operands="SB0, 0x1")
MEET = one("BAR.SYNC.DEFER_BLOCKING")
CACHED, FROM_L2 = 32, 16 * 32 * 4 / 21  # cycles of the scheduler's share of either cache
OF_PRODUCT = 4096 * 4 / (0.63 * 4096)

ROWS = {
    "an instruction a cycle": (HOPPER, [MULTIPLY_ADD] * 40, 1, 1, 40, "issue"),
    "of warps together": (HOPPER, [MULTIPLY_ADD] * 40, 3, 1, 120, "issue"),
    "half as many floats on Turing": (TURING, [MULTIPLY_ADD] * 40, 1, 1, 80, "floats"),
    "stalls of a lone warp": (HOPPER, [one("FFMA", stall=4)] * 40, 1, 1, 160, "waits"),
    "which others fill": (HOPPER, [one("FFMA", stall=4)] * 40, 4, 1, 160, "issue"),
    "integers go at half the rate": (HOPPER, [one("IADD3")] * 40, 2, 1, 160, "integers"),
    "beside floats for nothing": (HOPPER, [one("IADD3"), MULTIPLY_ADD] * 20, 1, 1, 40, "issue"),
    "special functions": (HOPPER, [one("MUFU.EX2")] * 10, 1, 1, 80, "special functions"),
    "products fill the tensor cores": (HOPPER, [PRODUCT] * 20, 2, 1, 40 * OF_PRODUCT, "tensor cores"),
    "a load that is waited for": (HOPPER, [LOAD, USE, *[MULTIPLY_ADD] * 100], 1, 1, CACHED + LOAD_CYCLES + 101, "waits"),
    "a load that is waited for late": (HOPPER, [LOAD, *[MULTIPLY_ADD] * 600, USE], 1, 1, 602, "issue"),
    "many loads wait for the cache": (HOPPER, [LOAD] * 40, 1, 1, 40 * CACHED, "cache"),
    "a copy has two turns to arrive": (HOPPER, [WAIT, COPY, CLOSE, *[MULTIPLY_ADD] * 600], 1, 1, 603, "issue"),
    "but not less": (HOPPER, [WAIT, COPY, CLOSE, *[MULTIPLY_ADD] * 20], 1, 1, (FROM_L2 + LOAD_CYCLES + 1) / 2, "waits"),
    "warps of a block meet": (HOPPER, [MEET, *[MULTIPLY_ADD] * 40], 2, 2, 82 + BARRIER - 1, "issue"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_turn_takes_what_it_takes_by_hand(name: str) -> None:
    scheduler, instructions, warps, of_block, cycles, bound = ROWS[name]
    found = turn_of(instructions, scheduler, warps, of_block)
    assert found.bound == bound
    assert found.cycles == pytest.approx(cycles, rel=0.03)


def test_opcodes_tell_bytes_and_flops() -> None:
    moved = {"LDG.E": 4, "LDG.E.U16.CONSTANT": 2, "LDG.E.128": 16, "STS.64": 8, "LDSM.16.M88.4": 16, "LDSM.16.MT88.2": 8, "STG.E.U8": 1}
    assert {opcode: bytes_of(one(opcode)) for opcode in moved} == moved
    made = {"HMMA.16816.F32": 4096, "HMMA.1688.F32.TF32": 2048, "IMMA.16832.S8.S8": 8192, "IMMA.8816.U8.U8": 2048, "FFMA": 0}
    assert {opcode: flops_of(one(opcode)) for opcode in made} == made
