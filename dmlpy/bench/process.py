"""The libraries' processes, as used by the measuring process, and functions with a time limit."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import dmlpy as dml
from dmlpy.bench.worker import encode
from dmlpy.system.line_protocol import receive_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

# The package is located by its file, so this dmlpy runs regardless of the interpreter's path.
_BOOT = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("dmlpy", sys.argv[1])
sys.modules["dmlpy"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from dmlpy.bench.worker import main
main()
"""


class AbsentError(Exception):
    """A library cannot be measured; `everywhere` is true if this holds for all cases."""

    def __init__(self, reason: str, *, everywhere: bool) -> None:
        super().__init__(reason)
        self.everywhere = everywhere


class FailedError(Exception):
    """A worker failed, died or took too long."""


class LateError(FailedError):
    """A worker had not answered when the total time was over."""


class TimeOverError(Exception):
    """No time is left for another case, or for a part of one."""


Result = TypeVar("Result")


def in_time(compute: Callable[[], Result], until: float | None) -> Result:
    """Returns a function's result. It is abandoned at the time `until`: some references take longer than everything else.

    Raises:
        TimeOverError: it had not finished by then.
    """
    if until is None:
        return compute()
    results: queue.SimpleQueue[Callable[[], Result]] = queue.SimpleQueue()

    def put() -> None:
        try:
            value = compute()
        except BaseException as error:
            results.put(partial(_raise, error))
        else:
            results.put(lambda: value)

    threading.Thread(target=put, daemon=True).start()
    try:
        return results.get(timeout=max(0.0, until - time.monotonic()))()
    except queue.Empty:
        raise TimeOverError from None


def _raise(error: BaseException) -> NoReturn:
    raise error


class Worker:
    """A process of `dmlpy.bench.worker`, as a context manager that terminates the process.

    Attributes:
        limit_s: timeout per answer, in seconds.
        until: the time, by the monotonic clock, at which waiting ends; None for no limit.

    Args:
        name: the library's name, for the file of its output.
        folder: the folder of that file.
        python: the interpreter.
        threads: the number of threads that the libraries below may use.
        limit_s: the limit.
        variables: more environment variables of the process.
        until: the time at which waiting ends.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        python: str,
        threads: int,
        limit_s: float,
        variables: Mapping[str, str] | None = None,
        until: float | None = None,
    ) -> None:
        self.limit_s, self.until = limit_s, until
        self._printed = folder / f"{name}.txt"
        command = [python, "-P", "-c", _BOOT, str(Path(dml.__file__).resolve())]
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), **(variables or {})}
        with self._printed.open("wb") as printed:
            try:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=printed,
                    encoding="utf-8",
                    env=environment,
                )
            except OSError as error:
                raise FailedError(f"{python} cannot be started: {error.strerror}") from error
        self._over: FailedError | None = None
        self._responses, self._reader = receive_lines(self.process)

    def send(self, request: str, **arguments: Any) -> None:
        """Sends a request; the answer must then be received."""
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):  # it has ended, or its pipe was closed with it, which `receive` reports
            print(encode(request, **arguments), file=self.process.stdin, flush=True)

    def receive(self) -> Any:
        """Receives the answer to the previous request.

        Raises:
            AbsentError: the library is missing, or does not support this.
            LateError: it had not answered at the time `until`, and is killed.
            FailedError: it failed, the process died, or it took too long: then it is killed.
        """
        if self._over is None:
            left = self.limit_s if self.until is None else max(0.0, min(self.limit_s, self.until - time.monotonic()))
            try:
                line = self._responses.get(timeout=left)
            except queue.Empty:
                self.close()
                late = left != self.limit_s
                self._over = (LateError if late else FailedError)(f"no answer within {left:.3g} s{', which were left' if late else ''}")
            else:
                self._over = None if line else FailedError(self._ending())
        if self._over is not None:
            raise self._over
        response = json.loads(line)
        for kind in ("not installed", "absent"):
            if kind in response:
                raise AbsentError(response[kind], everywhere=kind == "not installed")
        if "failed" in response:
            raise FailedError(response["failed"])
        return response["value"]

    def ask(self, request: str, **arguments: Any) -> Any:
        """Sends a request and receives its answer."""
        self.send(request, **arguments)
        return self.receive()

    def _ending(self) -> str:
        status = self.process.wait()
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        lines = self._printed.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"its process {how}" + (f": {lines[-1]}" if lines else "")

    def close(self) -> None:
        """Terminates the process, whatever it is doing."""
        assert self.process.stdin is not None
        self.process.kill()
        self.process.wait()
        with suppress(OSError):  # of what it has not read
            self.process.stdin.close()
        self._reader.join()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
