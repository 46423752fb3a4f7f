"""Ctrl+C while a command runs: KeyboardInterrupt as in any program, so that launches end and unfinished files are removed; then a line."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dmlpy.system import interrupts

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def reported() -> Iterator[None]:
    """Turns KeyboardInterrupt in the block, and what others make of it, into one line and an exit status."""
    seen: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    previous = signal.getsignal(signal.SIGINT)
    try:
        try:
            if previous in (signal.default_int_handler, interrupts.end):  # else whoever started the process ignores it, as `nohup` does
                signal.signal(signal.SIGINT, interrupt)
            yield
        finally:
            signal.signal(signal.SIGINT, previous)
    except BaseException as error:
        is_success = isinstance(error, SystemExit) and not error.code
        # typer makes it a status without a line, extension modules an ImportError.
        if is_success or not (seen or isinstance(error, KeyboardInterrupt)):
            raise
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        interrupts.tell()
        sys.exit(interrupts.STATUS)
