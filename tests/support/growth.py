"""How work grows: function calls are counted, which no other load on the machine changes."""

from __future__ import annotations

import cProfile
import gc
from functools import _lru_cache_wrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_KEEPING = ("dmlpy.compiler", "dmlpy.description.", "dmlpy.devices.graphs.", "dmlpy.graphs.", "dmlpy.x.")
"""Modules that cache results for descs and graphs. Compiled kernels stay: they are few, and take long."""


def calls(run: Callable[[], object]) -> int:
    """The calls of functions, those of C included, that a piece of work makes, with nothing cached from earlier work."""
    if frozen := gc.get_freeze_count() > 0:
        gc.unfreeze()  # what conftest has excluded is not listed
    for found in gc.get_objects():
        # By its type: weak proxies, which are among them, answer `isinstance` for objects that are gone.
        if type(found) is _lru_cache_wrapper and found.__module__.startswith(_KEEPING) and found.cache_parameters()["maxsize"]:
            found.cache_clear()  # one of bounded size: it may forget at any time
    if frozen:
        gc.freeze()
    profile = cProfile.Profile()
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())


def curvature(work: Callable[[int], Callable[[], object]], count: int) -> float:
    """How far the calls are from growing by the same number with each further `count` of parts, as a share of those for `count`.

    Args:
        work: makes a piece of work of that many parts; its own calls are not counted.
        count: the parts. Work that looks at all parts for each part makes about 2 * count**2 more calls than it should.
    """
    for times in (1, 2, 3):
        work(times * count)()  # kernels that are compiled, and what is imported once, are not part of the work
    first, second, third = (calls(work(times * count)) for times in (1, 2, 3))
    return (third - 2 * second + first) / first
