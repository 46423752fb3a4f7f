"""`DMLPY_DEBUG`: what dmlpy decides and does, line by line, by Python's `logging`.

The variable lists topics: `DMLPY_DEBUG=plans,launches`. Each is a logger, `dmlpy.plans` for one, that logs at level DEBUG. With the
variable, its lines go to stderr; programs that configure `logging` themselves need no variable. What is bound while a topic is off stays
silent, so that a dispatch costs nothing more while nobody listens.
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
    "plans": "the strategy that a device chooses for each desc, and why",
    "launches": "each dispatch and each node of a graph as it begins; on CUDA each kernel with its grid, threads and shared memory",
    "cache": "each kernel that is loaded from disk or compiled, with the time that it took",
    "sources": "on CUDA the text of each kernel's file that is compiled, headers included: it is written to a folder, which the line names",
}
"""The topics, each with what is logged."""

PLANS, LAUNCHES, CACHE, SOURCES = (logging.getLogger(f"dmlpy.{topic}") for topic in TOPICS)


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


def log_launch(launch: Callable[[int], None], text: Callable[[], str]) -> Callable[[int], None]:
    """A launch that logs a line before it runs; the launch itself while nobody listens to `launches`."""
    if not LAUNCHES.isEnabledFor(logging.DEBUG):
        return launch
    line = text()

    def logged(stream: int) -> None:
        LAUNCHES.debug("%s", line)
        launch(stream)

    return logged
