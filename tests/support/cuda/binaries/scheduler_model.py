"""Cycles of a loop on a GPU, from its machine code: warps of a scheduler issue in order, and wait for pipes, results and each other.

A scheduler issues one instruction a cycle, of the warp that has waited longest. An instruction issues once the stall of the one before is
over, the barriers that it waits for are down and its pipe is free, which it then occupies. What accesses of global memory move passes the
cache one after the other, and the warp goes on. Rates are those of `GpuModel` and of the table of throughputs in the CUDA C++ programming
guide; latencies are those of `GpuModel` and `recurrent.model`. Bank conflicts, accesses that do not coalesce, misses of the caches of
instructions and constants and lower clocks under load are left out. So the result is a lower bound, with which kernels can be compared; it
has never been compared with a GPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.recurrent.model import BARRIER, SHARED_LOAD
from tests.support.cuda.binaries.sass import Instruction

LANES, SCHEDULERS = 32, 4
_SPECIAL_LATENCY = 20
"""Cycles from a special function, or the load of a constant, to its result. Model."""
_CACHED_RATE = 64
"""Bytes a cycle from the L1 cache to a multiprocessor's registers."""
_LOAD_UNIT_RATE = 128
"""Bytes a cycle that the load units of a multiprocessor take."""
_LEAST_ACCESS = 4.0
"""Cycles that an access of global memory occupies a scheduler's share of them, however narrow it is."""
_CACHE = "cache"
_FOLLOWED = 8000
"""Instructions of a warp that are followed, and as many before them: whole turns, 1 to 12."""

_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_MATRICES = {"2": 2, "4": 4}
_SHAPE = re.compile(r"\.(\d{4,5})\b")
_SPECIAL = ("MUFU", "F2F", "F2I", "I2F", "FRND")
_FLOATS = ("FFMA", "FADD", "FMUL", "HADD2", "HMUL2", "HFMA2")
_MULTIPLICATIONS = ("IMAD", "IMUL", "IDP")


def bytes_of(instruction: Instruction) -> int:
    """Bytes that a thread moves by an access of memory."""
    modifiers = instruction.opcode.split(".")[1:]
    if instruction.name == "LDSM":
        return 4 * _MATRICES.get(modifiers[-1], 1)
    return next((_WIDTHS[modifier] for modifier in modifiers if modifier in _WIDTHS), 4)


def flops_of(instruction: Instruction) -> int:
    """Those of a warp by tensor cores: from m16n8k16, 16816."""
    shape = _SHAPE.search(instruction.opcode)
    if instruction.kind != "product" or shape is None:
        return 0
    digits = shape[1]
    rows, columns, terms = (16, 8, digits[3:]) if digits.startswith("168") else (8, 8, digits[2:])
    return 2 * rows * columns * int(terms)


@dataclass(frozen=True)
class Scheduler:
    """A scheduler's rates.

    Attributes:
        gpu: the model.
        capability: its compute capability.
        load_cycles: from a load of global memory to its result.
    """

    gpu: GpuModel
    capability: int
    load_cycles: int

    def pipe(self, instruction: Instruction) -> tuple[str, float]:
        """The pipe that an instruction of a warp occupies, and for how many cycles."""
        name, kind, width = instruction.name, instruction.kind, LANES * SCHEDULERS
        if kind == "product":
            rate = self.gpu.peaks["int8"] if name == "IMMA" else self.gpu.mma_tf32 if "TF32" in instruction.opcode else self.gpu.mma
            return "tensor cores", flops_of(instruction) * SCHEDULERS / rate
        if name in _SPECIAL:
            return "special functions", width / self.gpu.special
        if name in _FLOATS:
            return "floats", 2.0 if self.capability == 75 else 1.0  # 64 lanes of a multiprocessor, or 128
        if kind == "shared":
            return "shared memory", bytes_of(instruction) * width / self.gpu.shared_rate
        if kind == "global":
            return "load unit", max(_LEAST_ACCESS, bytes_of(instruction) * width / _LOAD_UNIT_RATE)
        if name in _MULTIPLICATIONS:
            return "integer products", 2.0
        if kind in ("integer", "float"):
            return ("uniform" if name.startswith("U") else "integers"), 2.0
        return "", 1.0

    def moving(self, instruction: Instruction) -> float:
        """The cycles of a scheduler's share of a cache in which it moves what an access of global memory wants."""
        if instruction.kind != "global":
            return 0.0
        rate = self.gpu.l2_rate if instruction.name == "LDGSTS" else _CACHED_RATE
        return bytes_of(instruction) * LANES * SCHEDULERS / rate

    def latency(self, instruction: Instruction) -> int:
        """Cycles until the result is there that others wait for."""
        if instruction.kind == "global":
            return self.load_cycles
        return SHARED_LOAD if instruction.kind == "shared" else _SPECIAL_LATENCY


class Turn(NamedTuple):
    """What a turn of a loop costs.

    Attributes:
        cycles: of a scheduler, in which each of its warps makes one turn.
        bound: what is busy for three quarters of them, the busiest: a pipe, or "issue"; "waits" if nothing is.
    """

    cycles: float
    bound: str


class _Step(NamedTuple):
    """An instruction as the scheduler sees it."""

    pipe: str
    taken: float
    moving: float
    latency: int
    stall: int
    waits: tuple[int, ...]
    raises: int | None
    copies: bool
    """To shared memory, in the group that is open."""
    closes: bool
    """A group of copies."""
    left: int | None
    """Groups of copies that may be under way; None: it does not wait for them."""
    meets: bool
    """It waits for the warps of its block."""


@dataclass(order=True)
class _Warp:
    number: int
    block: int
    place: int = 0
    ready: float = 0.0
    issued: float = -1.0
    barriers: list[float] = field(default_factory=lambda: [0.0] * 6)
    copied: float = 0.0
    groups: list[float] = field(default_factory=list)
    """When the copies of each closed group are there."""
    ends: list[float] = field(default_factory=list)
    """When each of its turns ended."""


def turn_of(instructions: Sequence[Instruction], scheduler: Scheduler, warps: int, of_block: int) -> Turn:
    """A turn of a loop that all warps execute in the same way.

    Args:
        instructions: of a turn.
        scheduler: the rates.
        warps: of the scheduler.
        of_block: how many of them are of one block, and meet at its barriers.
    """
    steps = [_step(instruction, scheduler) for instruction in instructions]
    before = min(12, max(1, _FOLLOWED // len(steps)))
    turns = 2 * before
    states = [_Warp(number, number // of_block) for number in range(warps)]
    free: dict[str, float] = {}
    now = 0.0
    going = list(states)
    while going:
        now, _, warp = min((max(now, _earliest(one, steps[one.place], free)), one.issued, one) for one in going)
        _issue(warp, steps, free, now)
        if steps[warp.place - 1].meets:
            _meet([one for one in states if one.block == warp.block], now)
        if len(warp.ends) == turns:
            going.remove(warp)
        now += 1
    cycles = sum(warp.ends[-1] - warp.ends[before - 1] for warp in states) / warps / (turns - before)
    busy = {"issue": float(len(steps)), _CACHE: sum(step.moving for step in steps)}
    for pipe in {step.pipe for step in steps if step.pipe}:
        busy[pipe] = sum(step.taken for step in steps if step.pipe == pipe)
    busiest = max(busy, key=lambda name: busy[name])
    cycles = max(cycles, busy[busiest] * warps)  # the last turns of a warp have less beside them, and a cache's queue only grows
    return Turn(cycles, busiest if busy[busiest] * warps > 0.75 * cycles else "waits")


def _step(instruction: Instruction, scheduler: Scheduler) -> _Step:
    pipe, taken = scheduler.pipe(instruction)
    left = int(instruction.operands.rpartition(" ")[2], 16) if instruction.name == "DEPBAR" else None
    return _Step(
        pipe,
        taken,
        scheduler.moving(instruction),
        scheduler.latency(instruction),
        max(1, instruction.stall),
        tuple(instruction.waits),
        instruction.write_barrier,
        copies=instruction.name == "LDGSTS",
        closes=instruction.name == "LDGDEPBAR",
        left=left,
        meets=instruction.opcode.startswith("BAR.SYNC"),
    )


def _earliest(warp: _Warp, step: _Step, free: dict[str, float]) -> float:
    """When a warp's next instruction can issue."""
    at = max(warp.ready, free.get(step.pipe, 0.0))
    for barrier in step.waits:
        at = max(at, warp.barriers[barrier])
    if step.left is not None and len(warp.groups) > step.left:
        at = max(at, warp.groups[-step.left - 1])
    return at


def _issue(warp: _Warp, steps: Sequence[_Step], free: dict[str, float], now: float) -> None:
    step = steps[warp.place]
    if step.pipe:
        free[step.pipe] = now + step.taken
    if step.moving:
        free[_CACHE] = max(now, free.get(_CACHE, 0.0)) + step.moving
    done = (free[_CACHE] if step.moving else now + step.taken) + step.latency
    if step.raises is not None:
        warp.barriers[step.raises] = max(warp.barriers[step.raises], done)
    if step.copies:
        warp.copied = done
    if step.closes:
        warp.groups = [*warp.groups[-8:], warp.copied]
    warp.issued, warp.ready = now, math.inf if step.meets else now + step.stall
    warp.place += 1
    if warp.place == len(steps):
        warp.ends.append(now)
        warp.place = 0


def _meet(block: Sequence[_Warp], now: float) -> None:
    """Lets the warps of a block go on if the last one has come to the barrier."""
    if all(math.isinf(warp.ready) for warp in block):
        for warp in block:
            warp.ready = now + BARRIER
