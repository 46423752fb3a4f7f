"""The cycles of a turn of the loops in which convolutions and attention spend their time, read from machine code, and what launches take.

`kernel_cycles.json` has them for each architecture and number of blocks that a multiprocessor holds at the same time. `python -m
tests.support.generators.kernel_cycles` writes it: it compiles the kernels, and a model of a scheduler executes the machine code of the
loop, with its mix of instructions, the distances between loads and their uses, and the bytes that are moved. Nothing is measured: the
figures rank variants of a kernel, and are a lower bound of the time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dmlpy.devices.cuda.performance.gpu_model import GpuModel

FILE = Path(__file__).with_suffix(".json")
TURN, NEXT_TAP = "turn", "next tap"
"""The ways through a loop: the usual one, and that of a convolution where a piece begins another tap."""
UNSURE = 0.15
"""Variants whose estimates differ by less, as a share of the lower one, may be ranked wrongly."""

Cycles = tuple[float, ...]
"""Cycles in which each resident block makes a turn: with one block on a multiprocessor, with two, and so on."""
_Table = Mapping[str, Mapping[str, Mapping[str, Cycles]]]


@cache
def _table() -> _Table:
    """By architecture, name and way."""
    read: dict[str, dict[str, dict[str, list[float]]]] = json.loads(FILE.read_text("utf-8"))
    return {
        architecture: {name: {way: tuple(cycles) for way, cycles in ways.items()} for name, ways in kernels.items()}
        for architecture, kernels in read.items()
    }


def cycles_of(name: str, capability: int, way: str = TURN) -> Cycles:
    """The cycles of a kernel, on the newest architecture in the table that is not newer than the device and has the kernel.

    Raises:
        KeyError: it is not in the table.
    """
    table = _table()
    having = [int(architecture) for architecture, kernels in table.items() if name in kernels and int(architecture) <= capability]
    if not having:
        raise KeyError(name)
    return table[str(max(having))][name][way]


def launch_us(gpu: GpuModel, blocks: int, turns: Iterable[tuple[float, Cycles]]) -> float:
    """The microseconds of a launch whose blocks all make the same turns.

    Args:
        gpu: the model.
        blocks: of the grid.
        turns: how often each way is taken, and its cycles.
    """
    ways = list(turns)
    most = min(len(cycles) for _, cycles in ways)
    full, left = divmod(blocks, most * gpu.multiprocessors)
    last = -(-left // gpu.multiprocessors)
    return gpu.us(sum(count * (full * cycles[most - 1] + (cycles[last - 1] if last else 0.0)) for count, cycles in ways))


def unsure(estimates_us: Sequence[float]) -> list[int]:
    """The numbers of the variants whose estimates are within `UNSURE` of the lowest, the lowest first; of equal ones the first."""
    ranked = sorted(range(len(estimates_us)), key=lambda number: estimates_us[number])
    return [number for number in ranked if estimates_us[number] <= estimates_us[ranked[0]] * (1 + UNSURE)]
