"""`DMLPY_DEBUG`: what dmlpy decides and does, line by line, by Python's `logging`.

The variable lists topics: `DMLPY_DEBUG=plans,launches`. Each is a logger, `dmlpy.plans` for one. What is rare and worth knowing is logged
at level INFO: the choice of a device, kernels that are compiled, fallbacks; the rest at level DEBUG. With the variable, the lines go to
stderr; programs that configure `logging` themselves need no variable. What is bound while a topic is off stays silent, so that a dispatch
costs nothing more while logging is off.
"""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "DMLPY_DEBUG"

TOPICS = {
    "devices": "the device that is chosen, once for each name, and why it is no GPU where none is named",
    "fallbacks": "once each: ONNX nodes that run on the host, operators of `cpu` that NumPy runs, CUDA kernels that others replace",
    "plans": "the strategy that a device chooses for each desc, and why",
    "launches": "each dispatch and each node of a graph as it begins; on CUDA each kernel with its grid, threads and shared memory",
    "cache": "each kernel that is loaded from disk or compiled, with the time that it took",
    "sources": "on CUDA the text of each kernel's file that is compiled, headers included: it is written to a folder, which the line names",
}
"""The topics, each with what is logged."""

DEVICES, FALLBACKS, PLANS, LAUNCHES, CACHE, SOURCES = (logging.getLogger(f"dmlpy.{topic}") for topic in TOPICS)


def follow_environment() -> None:
    """Logs the topics that `DMLPY_DEBUG` lists to stderr; `all` means all of them. A topic that does not exist is warned of."""
    from difflib import get_close_matches  # slow to import, and seldom needed

    names = [name.strip().lower() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    for name in names:
        if name not in TOPICS and name != "all":
            nearest = get_close_matches(name, TOPICS, 1)
            remedy = f"; did you mean {nearest[0]!r}?" if nearest else ""
            warnings.warn(f"{VARIABLE} lists {name!r}, expected all or some of {', '.join(TOPICS)}{remedy}", RuntimeWarning, stacklevel=2)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    for topic in TOPICS:
        if topic in names or "all" in names:
            logger = logging.getLogger(f"dmlpy.{topic}")
            logger.setLevel(logging.DEBUG)
            logger.addHandler(handler)
            logger.propagate = False


_MOST_SAID = 10_000
_said: set[str] = set()
"""The lines that were logged once; no more than `_MOST_SAID`."""


def log_once(logger: logging.Logger, text: Callable[[], str]) -> None:
    """Logs a line at level INFO, unless it was logged before."""
    if not logger.isEnabledFor(logging.INFO):
        return
    line = text()
    if line not in _said:
        if len(_said) >= _MOST_SAID:
            _said.clear()
        _said.add(line)
        logger.info("%s", line)
