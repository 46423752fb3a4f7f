"""The device of a model's arrays, and the array library of its memory (NumPy, or CuPy on a GPU)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.compiler import compile as compile_desc
from dmlpy.description.coercion import brief
from dmlpy.devices import Device
from dmlpy.devices import device as find_device
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.outputs import Outputs

Array = Any
"""An array in the device's memory: NumPy's, or CuPy's."""


class Backend:
    """A device, with the array operations around its operators.

    Attributes:
        device: the device that operators run on.
        xp: the array library: `numpy` or `cupy`.
        random: the generator of initial weights, dropout masks and shuffles. It runs on the host, so a seed means the same on each device.
    """

    def __init__(self, device: Device | str | None = None, seed: int | None = None) -> None:
        try:
            random = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise DescError("Sequential", [Problem("field.form", "seed", brief(seed), "an integer of at least 0, or None")]) from None
        self._set(find_device(device), random)

    def _set(self, device: Device, random: np.random.Generator) -> None:
        self.device, self.random = device, random
        if self.device.memory_kind == "cpu":
            self.xp: Any = np
        else:
            import cupy

            self.xp = cupy

    def __getstate__(self) -> dict[str, Any]:
        return {"device": self.device.name, "random": self.random}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(find_device(state["device"]), state["random"])

    def current(self) -> AbstractContextManager[Any]:
        """Makes `xp` allocate and compute on the device within the block, and restores the previous GPU."""
        if self.device.memory_kind == "cpu":
            return nullcontext()
        device: AbstractContextManager[Any] = self.xp.cuda.Device(int(self.device.name.partition(":")[2]))
        return device

    def array(self, values: Any, dtype: Any = np.float32) -> Array:
        """Makes a packed array in the device's memory with these values."""
        if isinstance(values, self.xp.ndarray):
            with self.current():
                return self.xp.ascontiguousarray(values, dtype)
        return self.device.from_host(np.ascontiguousarray(values, dtype))

    def fill(self, arrays: Iterable[Array], values: Iterable[Array]) -> None:
        """Copies values into arrays, all in the device's memory."""
        with self.current():
            for array, given in zip(arrays, values, strict=True):
                array[...] = given

    def host(self, array: Array) -> np.ndarray[Any, Any]:
        """Copies values to host memory."""
        return self.device.to_host(array)

    def values(self, values: Any) -> np.ndarray[Any, Any]:
        """Converts anything that NumPy accepts, or an array in the device's memory, to values in host memory."""
        return self.host(values) if isinstance(values, self.xp.ndarray) else np.asarray(values)

    def run(self, desc: OperatorDesc, **tensors: Array) -> Outputs:
        """Runs an operator. Equal descs are compiled once; outputs that are not passed are allocated."""
        outputs: Outputs = compile_desc(desc, self.device)(**tensors)
        return outputs
