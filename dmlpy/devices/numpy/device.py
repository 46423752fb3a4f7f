"""`NumpyDevice`: host memory, and the plans of the families next to this file."""

from __future__ import annotations

import ctypes
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description import arrays
from dmlpy.description.arrays import ArrayView, array_at
from dmlpy.description.enums import ExecutionFlags
from dmlpy.devices.bfloat16 import WidenedPlan, moved_desc, widened
from dmlpy.devices.device import Device, Memory, shared
from dmlpy.devices.host.threads import apart_from_forks, available_threads
from dmlpy.devices.numpy.array_functions import WholePlan, whole_plan
from dmlpy.devices.numpy.conversion import ConversionPlan
from dmlpy.devices.numpy.plans import plan, plan_of
from dmlpy.devices.plan import log_launch
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError
from dmlpy.reference.registry import definition, why_undefined

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.plan import Launch, Plan

_ALIGNMENT = 64  # bytes: a cache line, and the widest vector registers


class NumpyDevice(Device):
    """Host memory and NumPy. It has no streams: work is done when a launch returns. Execution flags have no effect.

    A process may fork while other threads launch: `os.fork`, and functions that call it, wait until their launches are over. It does not
    know of matrix products of other libraries on other threads; with those, start processes by `spawn` or `forkserver`.
    """

    name = "numpy"
    memory_kind = "cpu"
    plans_all_sizes = True

    def plan(self, desc: OperatorDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> Plan | None:
        if desc.has_bfloat16:
            return self._bfloat16_plan(desc, flags)
        return plan_of(desc) or whole_plan(desc, self._whole_plan_kind(desc))

    def planning_key(self) -> Hashable:
        return available_threads()

    def _bfloat16_plan(self, desc: OperatorDesc, flags: ExecutionFlags) -> Plan | None:
        """The plan of a desc with tensors of BFLOAT16: whole arrays are converted as they are read, others in scratch."""
        if (moved := moved_desc(desc)) is not None:
            return self.plan(moved, flags)
        wide = plan_of(widened(desc))
        return whole_plan(desc) if wide is None else WidenedPlan(desc, wide, ConversionPlan)

    def _whole_plan_kind(self, desc: OperatorDesc) -> type[WholePlan]:
        """The plan of an operator on whole arrays."""
        return WholePlan

    def why_not(self, desc: OperatorDesc) -> str:
        return why_undefined(desc) or super().why_not(desc)

    @classmethod
    def runs(cls, kind: type[OperatorDesc]) -> bool:
        return plan.find(kind) is not None or definition(kind) is not None

    def describe(self) -> dict[str, str]:
        return {"name": "NumPy on the CPU", "NumPy": np.__version__, "processor": platform.processor() or platform.machine()}

    def available_memory(self) -> int:
        import psutil

        return int(psutil.virtual_memory().available)

    def _allocate(self, size: int, stream: int) -> Memory:
        try:
            block = np.empty(size + _ALIGNMENT, np.uint8)
        except MemoryError:
            raise DeviceError(f"the host has no {size} bytes of memory left", hresult=HResult.E_OUTOFMEMORY) from None
        start = block.ctypes.data
        return Memory(start + -start % _ALIGNMENT, size, block)

    def empty(self, desc: TensorDesc, stream: int) -> np.ndarray[Any, Any]:
        desc = desc.memory
        try:
            if desc.is_packed:
                return np.empty(desc.sizes, desc.data_type.numpy)
            flat = np.zeros(desc.span, desc.data_type.numpy)
        except MemoryError:
            raise DeviceError(f"the host has no memory left for {desc.summary()}", hresult=HResult.E_OUTOFMEMORY) from None
        return np.lib.stride_tricks.as_strided(flat, desc.sizes, desc.numpy_strides())

    def from_host(self, array: np.ndarray[Any, Any], stream: int | None = None) -> np.ndarray[Any, Any]:
        return np.ascontiguousarray(array)

    def to_host(self, array: Any, stream: int | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(array)

    def upload(self, data: np.ndarray[Any, Any], stream: int) -> Memory:
        return Memory(data.ctypes.data, data.nbytes, data)

    def read(self, pointer: int, size: int, stream: int) -> bytes:
        return array_at(pointer, (size,), np.uint8, (1,)).tobytes()

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(destination, source, size)

    def clear(self, pointer: int, size: int, stream: int) -> None:
        ctypes.memset(pointer, 0, size)

    def view(self, value: Any) -> ArrayView:
        return arrays.view(value)

    def current_stream(self) -> int:
        return 0

    def synchronize(self, stream: int) -> None:
        return None

    def start_timer(self, stream: int) -> Callable[[], float] | None:
        return None

    def dispatched(self, launch: Launch, name: str, memory: Iterable[Memory] = ()) -> Launch:
        return apart_from_forks(log_launch(launch, lambda: f"{name} on {self.name}"))

    def replayed(self, launch: Launch) -> Launch:
        return launch


@shared
def numpy_device(index: int) -> NumpyDevice | str:
    """The NumPy device, or the reason why it does not exist."""
    return NumpyDevice() if index == 0 else "there is one NumPy device, 'numpy'"
