"""Memory that is bound twice where a graph forbids it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.binding import BoundTensor

Area = tuple[int, int]
"""The first address and the end of a block of memory."""


def shared_memory(
    inputs: Sequence[BoundTensor], outputs: Sequence[BoundTensor], areas: Mapping[str, Area], *, packing: bool = False
) -> list[Problem]:
    """Finds outputs and areas that share memory with other bindings: another node may still read or write it.

    Args:
        inputs: the inputs; they may share memory with each other, and with persistent memory that is only read.
        outputs: the outputs.
        areas: `temporary` and `persistent`, if they are given.
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
            harmless = name == "persistent" and not item.output and not packing
            if not harmless and _meet(area, (item.pointer, item.end)):
                problems.append(Problem(f"hazard.{name}", name, f"memory that {item.name} uses too", "separate memory"))
    if "temporary" in areas and "persistent" in areas and _meet(areas["temporary"], areas["persistent"]):
        problems.append(_shared_problem("hazard.temporary", "temporary", "persistent"))
    return problems


def _meet(first: Area, second: Area) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def _shared_problem(code: str, name: str, other: str) -> Problem:
    return Problem(code, name, f"memory that {other} uses too", "separate memory")
