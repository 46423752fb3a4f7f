"""Programs that run until a moment, and are then asked to end: pytest tells what it has when it is interrupted."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import IO

LINES = "DMLPY_GPU_CHECK_LINES"
"""The variable that names the descriptor for what a program with a log tells of itself."""
PATIENCE_S = {signal.SIGINT: 12.0, signal.SIGTERM: 3.0}
"""How long a program has to end after each of these signals."""
HURRIED_S = {signal.SIGINT: 6.0, signal.SIGTERM: 1.0}
"""The same where this process is itself asked to end: whoever asks may kill it 10 s later."""
TAIL = 12
"""Lines of a log that are told where a program failed and told nothing."""


@dataclass(frozen=True)
class Program:
    """Something to run.

    Attributes:
        name: begins each line that is told of it.
        command: the program and its arguments.
        log: all that it prints is added to it, and told is what it writes to the descriptor that `LINES` names; without one what it prints
            is told.
        environment: variables beside those of this process.
        right: the exit statuses of a program that has passed.
        folder: where it runs; None for here.
    """

    name: str
    command: Sequence[str]
    log: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    right: tuple[int, ...] = (0,)
    folder: Path | None = None


@dataclass(frozen=True)
class Ending:
    """How a program ended.

    Attributes:
        status: the exit status, negative for a signal.
        seconds: from its start.
        asked: whether it had to be asked to end.
    """

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
    """Runs programs, and passes on that this process was asked to end.

    Attributes:
        stopped: the signal by which this process was asked to end; None as long as it was not.

    Args:
        tell: takes a line for people.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.stopped: signal.Signals | None = None
        self._tell = tell
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        self.stopped = signal.Signals(number)

    def run(self, program: Program, until: float) -> Ending | None:
        """Runs a program until it has ended or the moment has come (of the monotonic clock); None where this process was asked to end."""
        if self.stopped is not None:
            return None
        running = _Running(program, self._tell)
        try:
            while not running.has_ended():
                if self.stopped is not None or monotonic() >= until:
                    running.end(PATIENCE_S if self.stopped is None else HURRIED_S)
                sleep(0.05)
        finally:
            running.close()
        return running.ending()


class _Running:
    """A program that was started, in a separate process group: a signal to this one's group is passed on, not shared."""

    def __init__(self, program: Program, tell: Callable[[str], None]) -> None:
        self._program, self._tell = program, tell
        self._start = monotonic()
        self._seconds: float | None = None
        self._asked: list[tuple[signal.Signals, float]] = []
        self._told = 0
        reading, writing = os.pipe()
        output = writing if program.log is None else os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._process = subprocess.Popen(
            program.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=program.folder,
            env={**os.environ, **program.environment, LINES: str(writing)},
            pass_fds=(writing,),
            process_group=0,
            preexec_fn=_end_with_parent,
        )
        for descriptor in {output, writing}:
            os.close(descriptor)
        self._reader = threading.Thread(target=self._read, args=(os.fdopen(reading, encoding="utf-8", errors="replace"),), daemon=True)
        self._reader.start()

    def _read(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._told += 1
                self._tell(f"{self._program.name}: {line.rstrip()}")

    def has_ended(self) -> bool:
        """Whether it has. It is not waited for yet: until `close` no other process group can get its number."""
        if self._seconds is None and os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self._seconds = monotonic() - self._start
        return self._seconds is not None

    def end(self, patience_s: Mapping[signal.Signals, float]) -> None:
        """Asks it to end, and when the patience is over, more firmly. Returns at once: it is to be called again."""
        if not self._asked:
            self._ask(signal.SIGINT)
            return
        last, when = self._asked[-1]
        if monotonic() - when > patience_s.get(last, 1.0):
            self._ask(signal.SIGTERM if last == signal.SIGINT else signal.SIGKILL)

    def _ask(self, number: signal.Signals) -> None:
        self._asked.append((number, monotonic()))
        if number == signal.SIGKILL:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def close(self) -> None:
        """Leaves none of its processes behind."""
        with suppress(ProcessLookupError, PermissionError):  # what some systems say of a group whose only process has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(2)  # a process that left the group may hold the pipe open

    def ending(self) -> Ending:
        status, log = self._process.returncode, self._program.log
        if status != 0 and log is not None and not self._told:
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:]:
                self._tell(f"{self._program.name}: {line}")
        seconds = self._seconds if self._seconds is not None else monotonic() - self._start
        return Ending(self._program, status, seconds, bool(self._asked))


_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """Asks the system to end a program that was just started as soon as this process is gone, be it killed."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def python(*arguments: str) -> list[str]:
    """A command of this Python, which tells where it was if it dies."""
    return [sys.executable, "-X", "faulthandler", *arguments]
