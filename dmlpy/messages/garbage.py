"""Pauses Python's cyclic garbage collector while many objects are made that stay."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def collections_paused() -> Iterator[None]:
    """Pauses the collector, which would look through all that was made so far again and again: a tenth of the time of such work.

    Other threads have no collections meanwhile either. What they and the block leave in cycles is found afterwards.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
