"""Tries in a child process with limits on time and memory; the child may crash, hang or be killed, and the fuzzing continues."""

from __future__ import annotations

import json
import resource
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

MEGABYTE = 10**6
WAITS = (4.0, 20.0)
"""Wall time that an answer is waited for: so many times the limit, and seconds in addition. The machine may be busy: the processor's time
is what is judged."""


@dataclass(frozen=True)
class Outcome:
    """What came of a try.

    Attributes:
        told: `accepted`, the code of the first problem of a refusal, or what went wrong.
        broken: whether that breaks a promise: another error than dmlpy's own, a crash, or more time or memory than allowed.
        seconds: the processor's time.
        megabytes: the most resident memory of the try, beyond what the child had before it.
    """

    told: str
    broken: bool
    seconds: float = 0.0
    megabytes: float = 0.0


class Child:
    """A process that answers tries one by one; a new one takes over where it ends.

    Args:
        module: the module that is run as a program, with `--child` and nothing else; it calls `serve`.
        seconds: of a try.
        megabytes: of memory that a try may take.
    """

    def __init__(self, module: str, seconds: float, megabytes: float) -> None:
        self.module, self.seconds, self.megabytes = module, seconds, megabytes
        self._process: subprocess.Popen[str] | None = None

    def answer(self, kind: str, path: Path) -> Outcome:
        """The outcome of a try with a file."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        began = time.perf_counter()
        process.stdin.write(json.dumps({"kind": kind, "path": str(path)}) + "\n")
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            in_time = bool(selector.select(WAITS[0] * self.seconds + WAITS[1]))
        line = process.stdout.readline() if in_time else ""
        if not line:
            if in_time:
                process.wait()
            self.end()
            spent = time.perf_counter() - began
            return Outcome("no answer" if not in_time else f"the process ended with {process.returncode}", True, spent)
        outcome = Outcome(**json.loads(line))
        if not outcome.broken and outcome.seconds > self.seconds:
            return Outcome(f"{outcome.told} after {outcome.seconds:.1f} s", True, outcome.seconds, outcome.megabytes)
        if not outcome.broken and outcome.megabytes > self.megabytes:
            return Outcome(f"{outcome.told} with {outcome.megabytes:.0f} MB", True, outcome.seconds, outcome.megabytes)
        return outcome

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            command = [sys.executable, "-m", self.module, "--child", str(self.megabytes)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return self._process

    def end(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None


def serve(tries: Mapping[str, Callable[[Path], str]], own: type[Exception], megabytes: float) -> None:
    """The child: answers each line of the standard input with a line of the standard output.

    Args:
        tries: what is done with a file, by kind; it returns the outcome.
        own: the only errors that a try may raise.
        megabytes: of address space beyond what is used when the first try begins, with room for what is measured more exactly.
    """
    answers = sys.stdout
    sys.stdout = sys.stderr
    limit = psutil.Process().memory_info().vms + int(3 * megabytes * MEGABYTE)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for line in sys.stdin:
        asked = json.loads(line)
        before, began = _resident(), time.process_time()
        broken = False
        try:
            told = tries[asked["kind"]](Path(asked["path"]))
        except own as error:
            problems: Any = getattr(error, "problems", ())
            told = problems[0].code if problems else type(error).__name__
        except BaseException as error:
            told, broken = f"{type(error).__name__}: {str(error)[:200]}", True
        spent = time.process_time() - began
        answer = {"told": told, "broken": broken, "seconds": spent, "megabytes": _resident("VmHWM") - before}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _resident(which: str = "") -> float:
    """Resident memory in MB: `VmHWM` is the most since the call without it. (The value of getrusage includes the parent's, before exec.)"""
    if not which:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which or "VmRSS")) * 1024 / MEGABYTE
