"""Programs that run for so long at most and are then asked to end: pytest and the measurements print what they have when interrupted."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

PATIENCE_S = {signal.SIGINT: 13.0, signal.SIGTERM: 2.0, signal.SIGKILL: 5.0}
"""How long a program has to end after each of these signals. pytest-xdist waits 10 s for its workers."""
HURRIED_S = 6.0
"""The same where this process is itself asked to end: whoever asks may kill it 10 s later."""
TAIL = 25
"""Lines of a program's log that are shown: pytest's last ones name the tests that failed and count all."""
WIDTH, TEE_S = 300, 5.0


@dataclass(frozen=True)
class Program:
    """Something to run, with variables in addition to those of this process, in a folder or here.

    Attributes:
        quiet: whether only the end of its output is shown; else its lines are shown as they come.
        right: the exit statuses of a program that has passed.
    """

    name: str
    command: Sequence[str]
    quiet: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    right: tuple[int, ...] = (0,)
    folder: Path | None = None


@dataclass(frozen=True)
class Ending:
    """How a program ended: the exit status, negative for a signal; the seconds since its start; whether it had to be asked to end."""

    program: Program
    status: int
    seconds: float
    asked: bool

    @property
    def passed(self) -> bool:
        return self.status in self.program.right and not self.asked

    def __str__(self) -> str:
        how = "passed" if self.passed else "WAS ASKED TO END" if self.asked else f"FAILED with status {self.status}"
        return f"{self.program.name} {how} after {self.seconds:.0f} s"


class Runner:
    """Runs programs, until this process is asked to end.

    Attributes:
        stopped: the signal by which this process was asked to end; None as long as it was not.

    Args:
        log: the file to which all messages and all output of programs are added.
    """

    def __init__(self, log: Path) -> None:
        self.stopped: signal.Signals | None = None
        self._log = log
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        self.stopped = signal.Signals(number)

    def tell(self, line: str) -> None:
        """Prints a message for people."""
        print(line, flush=True)
        with self._log.open("a") as log:
            print(line, file=log)

    def run(self, program: Program, seconds: float) -> Ending | None:
        """Runs a program for so long at most; None where this process was asked to end before."""
        if self.stopped is not None:
            return None
        start = monotonic()
        with self._log.open("ab") as log, subprocess.Popen(["tee", "-a", self._log], stdin=subprocess.PIPE, process_group=0) as tee:
            printed = os.fstat(log.fileno()).st_size
            process = subprocess.Popen(
                program.command,
                stdin=subprocess.DEVNULL,
                stdout=log if program.quiet else tee.stdin,
                stderr=subprocess.STDOUT,
                cwd=program.folder,
                env={**os.environ, **program.environment},
                process_group=0,  # a signal to this one's group is passed on, not shared
                preexec_fn=_end_with_parent,
            )
            asked = self._wait(process, seconds)
            with suppress(subprocess.TimeoutExpired):  # what left the program's group may still hold the pipe
                tee.communicate(timeout=TEE_S)
            tee.kill()
        if program.quiet:
            lines = self._log.read_bytes()[printed:].decode(errors="replace").splitlines()
            print(*(line[:WIDTH] for line in lines[-TAIL:]), sep="\n", flush=True)
        return Ending(program, process.returncode, monotonic() - start, asked)

    def _wait(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Waits until it has ended, and leaves none of its processes behind. Whether it had to be asked to end."""
        until, asked = monotonic() + seconds, False
        while process.poll() is None and monotonic() < until and self.stopped is None:
            sleep(0.05)
        for number, patience in PATIENCE_S.items():
            if process.poll() is not None:
                break
            asked = True
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience if self.stopped is None else min(patience, HURRIED_S))
        with suppress(ProcessLookupError, PermissionError):  # what some systems raise for a group whose only process has ended
            os.killpg(process.pid, signal.SIGKILL)
        return asked


_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """Asks Linux to end a program that was just started as soon as this process is gone, be it killed."""
    if hasattr(_LIBC, "prctl"):
        _LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def python(*arguments: str) -> list[str]:
    """A command of this Python, which prints its stack if it dies."""
    return [sys.executable, "-X", "faulthandler", *arguments]
