"""The worker's process as its parent sees it: requests with a time limit, and a new process after a crash."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from dmlpy.messages.problems import DmlError
from dmlpy.system.line_protocol import receive_lines

if TYPE_CHECKING:
    from types import TracebackType

COMMAND = (sys.executable, "-m", "dmlpy.conformance.worker")
START_LIMIT_S = 120.0
"""The most seconds until DirectML is loaded and a device is open."""


class EndedError(Exception):
    """The worker did not survive a request, or gave no answer in time; the text says which. The next request starts another one."""


class StartError(DmlError):
    """DirectML, or a device, could not be opened."""


@dataclass(frozen=True)
class Opened:
    """The device and its library.

    Attributes:
        file: where DirectML.dll is.
        version: its version; may be empty.
        system: the version of Windows.
        adapter: the adapter's name.
        debug_layer: whether the debug layer is on.
        highest_level: the highest feature level that dmlpy and DirectML both know.
    """

    file: str
    version: str
    system: str
    adapter: str
    debug_layer: bool
    highest_level: str


class Worker:
    """A process of `dmlpy.conformance.worker`, as a context manager that ends it.

    Attributes:
        endings: how often a process did not survive a request.

    Args:
        dll: DirectML.dll; None for the usual one.
        hardware: the first GPU in place of the software adapter.
        debug: the debug layer, where there is one.
        limit_s: the most seconds for a request.
    """

    def __init__(self, dll: str | None, *, hardware: bool, debug: bool, limit_s: float) -> None:
        self._dll, self._hardware, self._debug, self._limit_s = dll, hardware, debug, limit_s
        self._level = "1_0"
        self._process: subprocess.Popen[str] | None = None
        self._responses: queue.Queue[str] = queue.Queue()
        self.endings = 0

    def open(self, level: str) -> Opened:
        """Opens a device that has at least this feature level; later requests, also in other processes, are to such a device.

        Raises:
            StartError: DirectML, the adapter or the level is missing, or opening the device fails.
        """
        self._level = level
        if not self.is_running:
            return self.start()
        try:
            return Opened(**self._loaded, **self._request(self._limit_s, "open", **self._options()))
        except EndedError as error:
            raise StartError(f"a device of feature level {level} could not be opened: {error}") from error
        except DmlError as error:
            self.close()
            raise StartError(str(error)) from error

    def check(self, desc: dict[str, Any]) -> dict[str, Any]:
        """Creates and compiles an operator.

        Raises:
            EndedError: the process ended, or there was no answer in time.
            StartError: a new process could not be started after an earlier one ended.
            DmlError: a call failed.
        """
        return self._call("check", desc=desc)  # type: ignore[no-any-return]

    def run(self, desc: dict[str, Any], inputs: list[str | None]) -> list[str | None]:
        """Runs an operator; errors as for `check`."""
        return self._call("run", desc=desc, inputs=inputs)  # type: ignore[no-any-return]

    def _call(self, name: str, **arguments: Any) -> Any:
        if not self.is_running:
            self.start()
        return self._request(self._limit_s, name, **arguments)

    def _options(self) -> dict[str, Any]:
        return {"level": self._level, "hardware": self._hardware, "debug": self._debug}

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    def _launch(self) -> None:
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._responses, _ = receive_lines(self._process)

    def start(self) -> Opened:
        """Starts a process with a device of the last level.

        Raises:
            StartError: as for `open`.
        """
        self._launch()
        try:
            self._loaded = self._request(START_LIMIT_S, "load", dll=self._dll)
            return Opened(**self._loaded, **self._request(START_LIMIT_S, "open", **self._options()))
        except EndedError as error:
            raise StartError(f"DirectML could not be loaded: {error}") from error
        except DmlError as error:
            self.close()
            raise StartError(str(error)) from error

    def _request(self, limit_s: float, name: str, **arguments: Any) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with suppress(OSError):  # it has ended, which the missing answer shows
            print(json.dumps([name, arguments]), file=process.stdin, flush=True)
        try:
            line = self._responses.get(timeout=limit_s)
        except queue.Empty:
            raise self._ended(f"no answer within {limit_s:g} s") from None
        if not line:
            status = process.wait()
            raise self._ended(f"the process ended with status {status if status < 0 else f'0x{status:X}'}")
        response = json.loads(line)
        if "ended" in response:
            raise self._ended(response["ended"])
        if "failed" in response:
            raise DmlError(response["failed"])
        return response["value"]

    def _ended(self, reason: str) -> EndedError:
        self.endings += 1
        self.close()
        return EndedError(reason)

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            with suppress(OSError):  # of what it has not read
                self._process.stdin.close()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


class PydirectmlWorker(Worker):
    """A process that runs operators with pydirectml, which brings a DirectML.dll of its own."""

    def start(self) -> Any:
        """Starts a process with a device of pydirectml.

        Raises:
            StartError: pydirectml is not installed, or opens no device.
        """
        self._launch()
        try:
            self._request(START_LIMIT_S, "open_pydirectml", hardware=self._hardware, debug=self._debug)
        except EndedError as error:
            raise StartError(f"pydirectml could not be loaded: {error}") from error
        except DmlError as error:
            self.close()
            raise StartError(str(error)) from error
