"""Processes that answer each line on standard input with a line on standard output: what both sides have in common."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


def serve_lines(serve: Callable[[IO[str], IO[str]], None]) -> None:
    """Runs a process: `serve(requests, answers)`.

    Whatever libraries print goes to standard error. Ctrl-C is left to the parent process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, answers)


def receive_lines(process: subprocess.Popen[str]) -> tuple[queue.Queue[str], threading.Thread]:
    """The lines that a process answers, as they come, and the thread that reads them; an empty line says that it has ended."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as answers:
            for line in answers:
                lines.put(line)
        lines.put("")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    return lines, reader
