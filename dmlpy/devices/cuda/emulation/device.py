"""`EmulatedDevice`: the device `cuda-emulated`."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.synchronous import is_set
from dmlpy.devices.device import shared
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.devices.device import Memory
    from dmlpy.devices.plan import Launch

NAME = "cuda-emulated"
VARIABLE = "DMLPY_SANITIZE"
SANITIZERS = ("address,undefined", "thread")
"""The values of `DMLPY_SANITIZE`: each launch then runs as a program of its own under these sanitizers of g++."""


SYMBOLS = "DMLPY_SYMBOLS"
"""Names the variable that has kernels compiled for gdb: not optimized, with their lines and variables."""


class EmulatedDevice(CudaDevice):
    """A GPU that is emulated by the processor: the kernels, launches, streams and memory rules are those of `cuda`.

    Arrays are moved with `from_host` and `to_host`, as on a GPU. After each dispatch the words around every buffer are compared, so that a
    kernel that writes beside its memory raises DeviceError at the operator that launched it.
    """

    runtime: EmulatedRuntime

    def __init__(self, runtime: EmulatedRuntime) -> None:
        super().__init__(runtime)
        self.name = NAME

    def dispatched(self, launch: Launch, name: str, memory: Iterable[Memory] = ()) -> Launch:
        run = super().dispatched(launch, name, memory)

        def dispatch(stream: int) -> None:
            run(stream)
            try:
                self.runtime.check_guards()
            except AssertionError as error:
                raise DeviceError(f"{name} writes beside its memory: {error}") from error

        return dispatch


@shared
def emulated_device(index: int) -> EmulatedDevice | str:
    """The emulated GPU, or the reason why there is none.

    Raises:
        DeviceError: `DMLPY_SANITIZE` asks for what is none of `SANITIZERS`, or `DMLPY_SYMBOLS` is neither 0 nor 1.
    """
    if index != 0:
        return f"there is one emulated GPU, {NAME!r}"
    if sys.platform == "win32":
        return "the emulation needs POSIX"
    if shutil.which("g++") is None:
        return "the emulation compiles kernels with g++, which is not installed"
    sanitize = os.environ.get(VARIABLE, "")
    if sanitize and sanitize not in SANITIZERS:
        expected = " or ".join(map(repr, SANITIZERS))
        raise DeviceError(f"{VARIABLE} is {sanitize!r}, expected {expected}", hresult=HResult.E_INVALIDARG)
    return EmulatedDevice(EmulatedRuntime(sanitize=sanitize, symbols=is_set(SYMBOLS)))
