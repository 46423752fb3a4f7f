"""What goes wrong on the workers of a cluster, and what is counted there. Workers import this module: its functions run on them."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np

from dmlpy.dask import jobs
from dmlpy.devices.persistence import pickling

COUNTS = {"received": 0, "ready": 0}
"""How often this process has got constants, and packed them."""


def count() -> None:
    """Counts from now on, from 0."""
    COUNTS.update(dict.fromkeys(COUNTS, 0))
    if hasattr(jobs.unpickle_task, "counts"):
        return
    received, ready = jobs.unpickle_task, jobs.CompiledTask.__init__

    def counted_received(*arguments: Any) -> Any:
        COUNTS["received"] += 1
        return received(*arguments)

    def counted_ready(self: Any, *arguments: Any, **options: Any) -> None:
        COUNTS["ready"] += 1
        ready(self, *arguments, **options)

    counted_received.counts = True  # type: ignore[attr-defined]
    jobs.unpickle_task, jobs.CompiledTask.__init__ = counted_received, counted_ready  # type: ignore[assignment,method-assign]


def counts() -> dict[str, int]:
    return COUNTS


def killed_once(block: np.ndarray[Any, Any], marker: str, last: int, block_id: tuple[int, ...] = ()) -> np.ndarray[Any, Any]:
    """The block; the first process that computes the last one of the batch is killed."""
    if block_id[2] != last:
        return block
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return block
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def shortened(block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The block without its last utterance."""
    return block[:, :, :-1]


def bound_memory(more: int | None) -> None:
    """Lets the process take so many bytes more than it has; None lifts the bound."""
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if more is None else held + more, most))


def pretend_version(version: str) -> str:
    """Makes the process one of another version of dmlpy; the version that it was."""
    before: str = vars(pickling)["__version__"]
    vars(pickling)["__version__"] = version
    return before
