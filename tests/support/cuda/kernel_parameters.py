"""Arguments of small kernels, and arrays for them, on the emulated runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.devices.cuda.emulation.memory import DeviceArray
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime

Array = np.ndarray[Any, Any]


PARAMETERS = np.dtype([("input", "u8"), ("output", "u8"), ("words", "u8"), ("count", "i8")])


def parameters(count: int = 0, **arrays: DeviceArray) -> Array:
    argument = np.zeros(1, PARAMETERS)
    argument["count"] = count
    for name, array in arrays.items():
        argument[name] = array.pointer
    return argument


def device(runtime: EmulatedRuntime, values: Array) -> DeviceArray:
    return runtime.to_device(0, values, 0)


def unset(runtime: EmulatedRuntime, size: int, data_type: Any = np.float32) -> DeviceArray:
    return runtime.empty(0, [size], [1], np.dtype(data_type), 0)
