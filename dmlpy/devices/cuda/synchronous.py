"""`DMLPY_SYNCHRONIZE=1`: the host waits for each operator, so that an error of a kernel is raised by the operator that launched it.

CUDA runs kernels after the call that launches them has returned. An error in one is reported by some later call, of dmlpy or another
library, and from then on by every one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cuda.runtime.interface import CudaRuntime
    from dmlpy.devices.plan import Launch

VARIABLE = "DMLPY_SYNCHRONIZE"

_OF_KERNELS = {700, 702, 710, *range(714, 720)}
"""cudaError_t and CUresult of kernels: illegal addresses and instructions, failed assertions, traps, time limits."""


def is_set(variable: str = VARIABLE) -> bool:
    """Whether a variable of the environment is 1.

    Raises:
        DeviceError: it is neither 0 nor 1.
    """
    text = os.environ.get(variable, "")
    if text not in ("", "0", "1"):
        raise DeviceError(f"{variable} is {text!r}, expected 0 or 1", hresult=HResult.E_INVALIDARG)
    return text == "1"


def hint(status: object) -> str:
    """The hint for errors that an earlier launch may have caused."""
    if status not in _OF_KERNELS or os.environ.get(VARIABLE) == "1":
        return ""
    return f"; a kernel that was launched earlier may have caused it: {VARIABLE}=1 tells which operator"


def synchronous(runtime: CudaRuntime, launch: Launch, name: str, check: Callable[[], None]) -> Launch:
    """A launch whose work is done when it returns, unless the stream is being captured; its errors name the operator.

    Args:
        runtime: the CUDA implementation.
        launch: the launch.
        name: the operator's.
        check: raises DeviceError if kernels have reported a timeout meanwhile.
    """

    def run(stream: int) -> None:
        waits = not runtime.is_capturing(stream)
        if waits:
            _wait(runtime, stream, f"work before {name} on its stream")
        try:
            launch(stream)
        except DeviceError as error:
            raise DeviceError(f"{name}: {error}", hresult=error.hresult) from error
        if waits:
            _wait(runtime, stream, name)
            check()

    return run


def _wait(runtime: CudaRuntime, stream: int, name: str) -> None:
    try:
        runtime.synchronize(stream)
    except DeviceError as error:
        raise DeviceError(f"{name} failed: {error}", hresult=error.hresult) from error
