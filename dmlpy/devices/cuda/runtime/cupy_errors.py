"""Errors of CuPy, and of allocators set in CuPy, as `DeviceError`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from dmlpy.devices.cuda.runtime.interface import NotResidentError
from dmlpy.devices.cuda.synchronous import hint
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError

Method = TypeVar("Method", bound=Callable[..., Any])

_MEMORY_ALLOCATION, _COOPERATIVE_LAUNCH_TOO_LARGE, _INVALID_CLUSTER_SIZE = 2, 720, 912
"""cudaError_t and CUresult."""


def translated(function: Method) -> Method:
    """Wraps a method so that errors of CuPy and CUDA become `DeviceError`."""

    @functools.wraps(function)
    def method(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except DeviceError:
            raise
        except Exception as error:
            raise device_error(function.__name__, error) from error

    return cast("Method", method)


def device_error(what: str, error: Exception) -> DeviceError:
    """An error as `DeviceError`, or `NotResidentError` if the blocks do not all fit on the device; `what` names the attempted action."""
    if getattr(error, "status", None) in (_COOPERATIVE_LAUNCH_TOO_LARGE, _INVALID_CLUSTER_SIZE):
        return NotResidentError(f"{what}: {error}")
    text = f"{what}: {error or type(error).__name__}{hint(getattr(error, 'status', None))}"
    return DeviceError(text, hresult=HResult.E_OUTOFMEMORY if lacks_memory(error) else None)


def lacks_memory(error: Exception) -> bool:
    """Whether an allocator has no memory left, CuPy's or another one: PyTorch's raises a RuntimeError of that name."""
    named_so = any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__)
    return isinstance(error, MemoryError) or getattr(error, "status", None) == _MEMORY_ALLOCATION or named_so
