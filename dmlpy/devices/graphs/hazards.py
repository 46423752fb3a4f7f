"""Memory that is bound twice where a graph forbids it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dmlpy.devices.graphs.packing import BorrowingMemory
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.device import Memory
    from dmlpy.devices.dispatch import Area
    from dmlpy.devices.memory.binding import BoundTensor

_WRITTEN = ("temporary", "persistent")
"""The areas that dmlpy writes itself."""


def shared_memory(
    inputs: Sequence[BoundTensor], outputs: Sequence[BoundTensor], areas: Mapping[str, Area], *, packing: bool = False
) -> list[Problem]:
    """Finds outputs and areas that share memory with other bindings: another node may still read or write it.

    Args:
        inputs: the inputs; they may share memory with each other, and with persistent memory that is only read.
        outputs: the outputs.
        areas: `temporary` and `persistent`, if they are given, and the immutable inputs by name: see `areas_of`.
        packing: whether `persistent` is being written from the inputs.
    """
    spans = sorted([(item.pointer, item.end) for item in (*inputs, *outputs)] + list(areas.values()))
    if all(first[1] <= second[0] for first, second in pairwise(spans)):
        return []  # the usual case: no memory is shared
    problems = []
    for index, output in enumerate(outputs):
        for other in (*inputs, *outputs[:index]):
            if _meet((output.pointer, output.end), (other.pointer, other.end)):
                code = "hazard.outputs" if other.output else "hazard.in_place"
                problems.append(_shared_problem(code, output.name, other.name))
    for name, area in areas.items():
        for item in (*inputs, *outputs):
            harmless = name != "temporary" and not item.output and not packing
            if not harmless and _meet(area, (item.pointer, item.end)):
                names = (f"hazard.{name}", name, item.name) if name in _WRITTEN else ("hazard.in_place", item.name, name)
                problems.append(_shared_problem(*names))
        if name != "temporary" and "temporary" in areas and _meet(areas["temporary"], area):
            problems.append(_shared_problem("hazard.temporary", "temporary", name))
    return problems


def areas_of(temporary: Memory | None, persistent: Memory | None) -> dict[str, Area]:
    """The memory besides the tensors: scratch, what `prepare` filled, and the immutable inputs that are read where they are."""
    areas = {name: memory.area for name, memory in zip(_WRITTEN, (temporary, persistent), strict=True) if memory is not None}
    return {**areas, **persistent.immutable} if isinstance(persistent, BorrowingMemory) else areas


def _meet(first: Area, second: Area) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def _shared_problem(code: str, name: str, other: str) -> Problem:
    return Problem(code, name, f"memory that {other} uses too", "separate memory")
