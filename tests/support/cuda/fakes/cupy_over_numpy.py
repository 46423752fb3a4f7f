"""CuPy, played by NumPy: arrays in the memory of the emulated CUDA device, which no function of NumPy or dmlpy takes for host memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from dmlpy.devices import Device
from dmlpy.devices.cuda.emulation.memory import host_view


class GpuArray(np.ndarray[Any, Any]):
    """An array in the emulated device's memory."""

    owner: Any = None

    def __array_finalize__(self, parent: Any) -> None:
        self.owner = getattr(parent, "owner", None)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        pointer = self.__array_interface__["data"][0]
        return {"version": 3, "shape": self.shape, "strides": self.strides, "typestr": self.dtype.str, "data": (pointer, False)}

    def __dlpack_device__(self) -> Any:
        return 2, 0

    def get(self) -> np.ndarray[Any, Any]:
        return np.array(self)


class FakeCuPy:
    """The part of CuPy that dmlpy.nn and dmlpy.thinc use; `made` counts the arrays."""

    __name__ = "cupy"
    ndarray = GpuArray

    def __init__(self, device: Device) -> None:
        self._device, self.made = device, 0
        self.cuda = SimpleNamespace()

    def zeros(self, shape: Any, dtype: Any = np.float32) -> GpuArray:
        self.made += 1
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        blank = np.zeros(sizes, dtype)
        runtime: Any = self._device.runtime  # type: ignore[attr-defined]  # of the emulated device
        owner = runtime.allocate(0, blank.nbytes, runtime.stream)
        view = host_view(owner.pointer, blank.shape, blank.strides, blank.dtype).view(GpuArray)
        view.owner = owner
        view[...] = blank
        return view

    empty = zeros

    def asarray(self, values: Any, dtype: Any = None) -> GpuArray:
        given = np.asarray(values, dtype)
        made = self.zeros(given.shape, given.dtype)
        made[...] = given
        return made

    array = asarray

    def concatenate(self, arrays: Any, axis: int = 0) -> GpuArray:
        return self.asarray(np.concatenate(arrays, axis))
