"""How work grows: function calls are counted, which no other load on the machine changes."""

from __future__ import annotations

import cProfile
import gc
from functools import _lru_cache_wrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_KEEPING = ("dmlpy.compiler", "dmlpy.description.", "dmlpy.devices.graphs.", "dmlpy.graphs.", "dmlpy.x.")
"""Modules that cache results for descs and graphs. Compiled kernels stay: they are few, and take long."""


def _caches() -> list[_lru_cache_wrapper[object]]:
    """The caches of bounded size, which may forget at any time. To look through all objects of a long run takes a third of a second."""
    if frozen := gc.get_freeze_count() > 0:
        gc.unfreeze()  # what conftest has excluded is not listed
    # By its type: weak proxies, which are among them, answer `isinstance` for objects that are gone.
    found = [own for own in gc.get_objects() if type(own) is _lru_cache_wrapper and own.__module__.startswith(_KEEPING)]
    if frozen:
        gc.freeze()
    return [own for own in found if own.cache_parameters()["maxsize"]]


def calls(run: Callable[[], object], caches: Iterable[_lru_cache_wrapper[object]] | None = None) -> int:
    """The calls of functions, those of C included, that a piece of work makes, with nothing cached from earlier work.

    Args:
        run: the work.
        caches: those to empty; None for all that there are.
    """
    for cache in _caches() if caches is None else caches:
        cache.cache_clear()
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
    caches = _caches()
    first, second, third = (calls(work(times * count), caches) for times in (1, 2, 3))
    return (third - 2 * second + first) / first
