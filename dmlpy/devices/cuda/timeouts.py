"""`Timeouts`: how long the blocks of a launch wait for each other, and the operators whose blocks have timed out.

A kernel whose block has waited too long reports it in host memory and ends, see raw_kernels/common/block_exchange.cuh. No thread is
notified: `CudaDevice` checks the memory before each launch and after waiting for a stream.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from dmlpy.devices.cuda.runtime.interface import CudaRuntime

TIMEOUT = np.dtype([*((name, np.uint64) for name in ("expired", "report", "any_report")), ("limit", np.uint32)], align=True)
"""`Timeout` of raw_kernels/common/block_exchange.cuh."""

VARIABLE = "DMLPY_TIMEOUT_S"
SECONDS = 2.0
"""The default limit on a wait. No step takes so long."""
_SHORTEST, _LONGEST = 0.01, 100.0
_UNIT_NS = 1024
_PLACES = 1024
"""Words of host memory, a page: one for all operators, and one for each. Operators beyond that share the last word."""
_WORD = 4


def limit_s() -> float:
    """The limit on a wait in seconds: `DMLPY_TIMEOUT_S`, else `SECONDS`.

    Raises:
        DeviceError: the variable is not such a number.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST <= seconds <= _LONGEST:
        raise DeviceError(f"{VARIABLE} is {text!r}, expected seconds from {_SHORTEST:g} to {_LONGEST:g}", hresult=HResult.E_INVALIDARG)
    return seconds


class Timeouts:
    """The reports of one device's kernels. Threads may share it.

    Attributes:
        words: the words that kernels write: the first is 1 if any other may be.

    Args:
        runtime: the CUDA implementation.
        device: the device's ordinal.
    """

    def __init__(self, runtime: CudaRuntime, device: int) -> None:
        self._runtime, self._device = runtime, device
        self._lock = forks.lock()
        self._places: dict[str, int] = {}
        self._address = 0
        self.words: Any = [0]

    def of(self, what: str, expired: int) -> np.ndarray[Any, Any]:
        """The struct `Timeout` for a launch.

        Args:
            what: the operator's name, for messages.
            expired: the address of a word that is set before each launch, to anything but 1.

        Raises:
            DeviceError: the limit is not a number.
        """
        argument = np.zeros(1, TIMEOUT)
        argument["expired"], argument["limit"] = expired, int(limit_s() * 1e9 / _UNIT_NS)
        self.allocate()
        with self._lock:
            if self._address:
                place = self._places.setdefault(what, min(len(self._places) + 1, _PLACES - 1))
                argument["report"], argument["any_report"] = self._address + _WORD * place, self._address
        return argument

    def allocate(self) -> None:
        """Allocates the words, once; while a stream is being captured that may not be allowed.

        Without them, a timeout ends with a trap.
        """
        with self._lock:
            if len(self.words) > 1:
                return
            try:
                self._address, self.words = self._runtime.host_words(self._device, _PLACES)
            except DeviceError:
                self._address, self.words = 0, [0, 0]

    def check(self) -> None:
        """Raises DeviceError if blocks have timed out since the last call, and names their operators."""
        if not self.words[0]:
            return
        with self._lock:
            self.words[0] = 0  # first: a concurrent report sets it again
            late = {what: place for what, place in self._places.items() if self.words[place]}
            for place in late.values():
                self.words[place] = 0
        if late:
            raise DeviceError(
                f"{', '.join(late)}: blocks of a kernel waited for others that have to run at the same time and did not, and the kernel "
                "gave up. Its results are NaN, and what was computed from them since is worth nothing: run it again. "
                f"{VARIABLE} sets another limit in seconds; CudaDevice(dmlpy.device('cuda').runtime, strategy='per_step') of "
                "dmlpy.devices.cuda.device has kernels that never wait"
            )
