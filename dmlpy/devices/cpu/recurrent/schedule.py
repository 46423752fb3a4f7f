"""The work of a layer's directions between the caller's tensors and the compiled walks: one after the other, or both at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.phased import Part
from dmlpy.devices.cpu.thread_pool import team

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.phased import Call, Work

EACH = Kernel("dmlpy.devices.cpu.sharing:each_of", 5)
"""What runs walks at the same time, each on one thread."""

Array = np.ndarray[Any, np.dtype[Any]]
Copy = tuple[Array, Array | float]
"""The target and the source of a copy."""


@dataclass(frozen=True)
class Span:
    """The steps of one call of a walk, and the copies around it."""

    before: Sequence[Copy]
    parameters: Array
    address: int
    """That of the parameters."""
    phases: int
    after: Sequence[Copy]


@dataclass(frozen=True)
class Direction:
    """The work of a direction: what comes before the first span, the spans, and what comes after the last."""

    begin: Call
    spans: Sequence[Span]
    end: Call


def copy(copies: Sequence[Copy]) -> None:
    """Makes copies in their order."""
    for target, source in copies:
        target[...] = source


def alone(walk: int, direction: Direction, threads: int, items: int) -> list[Work]:
    """The work of a direction by itself, each step on so many threads; a phase has `items` items at most."""
    work: list[Work] = [direction.begin]
    for span in direction.spans:
        before: list[Work] = [partial(copy, span.before)] if span.before else []
        after: list[Work] = [partial(copy, span.after)] if span.after else []
        work += [*before, Part(walk, span.address, span.phases, items, threads, True, span), *after]
    return [*work, direction.end]


def both(walk: int, directions: Sequence[Direction]) -> Call:
    """The work of two directions at once, on a thread each: they never wait for each other. `walk` is the walk's address."""
    each, launches = EACH(), []
    for spans in zip(*(direction.spans for direction in directions), strict=True):
        pairs = [number for span in spans for number in (walk, span.address)]
        launches.append((spans, np.array([0, 0, len(spans), *pairs], np.int64)))

    def run() -> None:
        for direction in directions:
            direction.begin()
        for spans, parameters in launches:
            for span in spans:
                copy(span.before)
            team().run(each, parameters.ctypes.data, 2, memory=(spans, parameters))
            for span in spans:
                copy(span.after)
        for direction in directions:
            direction.end()

    return run
