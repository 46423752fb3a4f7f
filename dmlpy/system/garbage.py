"""Pauses Python's cyclic garbage collector while many objects are made that stay."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
            gc.enable()


def _settle() -> None:
    """Moves all objects to the oldest generation, unless the caller has frozen some, which would lose that state.

    A block without imports never comes here: a program that makes and drops models in a loop would have none of their cycles collected.
    """
    if hasattr(gc, "freeze") and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
