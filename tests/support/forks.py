"""Forked processes that report by their exit codes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def forked(child: Callable[[], int]) -> int:
    """The exit code of a forked process that ends with what `child` returns; 99 if it raises, and a signal's if it takes ten seconds."""
    process = os.fork()
    if process == 0:
        signal.alarm(10)
        try:
            os._exit(child())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
