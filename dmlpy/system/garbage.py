"""Pauses Python's cyclic garbage collector while many objects are made that stay."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_MANY = 50_000
"""The objects from which on those of a block are moved to the oldest generation at once."""


@contextmanager
def collections_paused() -> Iterator[None]:
    """Pauses the collector, which would traverse all objects again and again: a tenth of the time of such work.

    Other threads have no collections meanwhile either. What they and the block leave in cycles is found afterwards. If the block imports
    modules, what they hold stays until the process ends: only a full collection looks through it.
    """
    collects, modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if len(sys.modules) > modules:
                _settle()
            elif gc.get_count()[0] > _MANY:
                # Left alone, the collector would visit the new objects twice: with the youngest generation, then with the next one.
                gc.collect(1)
            gc.enable()


def _settle() -> None:
    """Moves all objects to the oldest generation, unless the caller has frozen some, which would lose that state.

    A block without imports never comes here: a program that makes and drops models in a loop would have none of their cycles collected.
    """
    if hasattr(gc, "freeze") and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
