"""The errors where the host has no memory left."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any, TypeVar, cast

from dmlpy.description.coercion import brief
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError
from dmlpy.messages.quantities import show_bytes

Method = TypeVar("Method", bound=Callable[..., Any])


def without_memory_error(step: str = "") -> Callable[[Method], Method]:
    """Makes a method of an object with a name raise `DeviceError` where the host has no memory left.

    Args:
        step: the method's name in messages; empty where the object's is enough.
    """

    def decorated(method: Method) -> Method:
        @wraps(method)
        def called(self: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return method(self, *arguments, **options)
            except MemoryError as error:
                raise no_memory(f"{self.name}.{step}" if step else self.name, error) from None

        return cast("Method", called)

    return decorated


def no_memory(purpose: str, error: MemoryError) -> DeviceError:
    """The error to raise in place of the host's MemoryError; NumPy's error names the array that it could not allocate."""
    import psutil

    shape, data_type = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or data_type is None:
        return DeviceError(f"{purpose} needs more memory than the host has left", hresult=HResult.E_OUTOFMEMORY)
    size, available = prod(shape) * data_type.itemsize, psutil.virtual_memory().available
    what = f"for a temporary array {brief(list(shape))} of {data_type}; {show_bytes(available)} are available on the host"
    return DeviceError(f"{purpose} needs {show_bytes(size)} {what}", hresult=HResult.E_OUTOFMEMORY)
