"""`CudaDevice`: one GPU and the runtime that drives it, and the plans of the packages next to this file."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description import arrays
from dmlpy.description.enums import ExecutionFlags
from dmlpy.devices.bfloat16 import bfloat16_plan
from dmlpy.devices.cuda.common.matrix_products import BFLOAT16_CAPABILITY, TF32_CAPABILITY
from dmlpy.devices.cuda.elementwise.chain import element_step, is_element_wise
from dmlpy.devices.cuda.kernels import KernelLibrary, in_range
from dmlpy.devices.cuda.performance.autotuning import Autotuner
from dmlpy.devices.cuda.plans import Target, check_strategy, plan, plan_of
from dmlpy.devices.cuda.runtime.interface import NotResidentError
from dmlpy.devices.cuda.runtime.streams import identity
from dmlpy.devices.cuda.synchronous import is_set, synchronous
from dmlpy.devices.device import Device, Memory, Unusable, shared
from dmlpy.devices.plan import log_launch
from dmlpy.messages.problems import DeviceError
from dmlpy.messages.quantities import show_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dmlpy.description.arrays import ArrayView
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.runtime.interface import CudaRuntime
    from dmlpy.devices.plan import Launch, Plan

_DLPACK_CUDA = (2, 13)
"""kDLCUDA and kDLCUDAManaged of dlpack.h: memory that a kernel can use."""
OLDEST_CAPABILITY = 75
"""The first compute capability that the kernels are written for."""
_READ_BFLOAT16 = frozenset({"activation", "attention", "normalization", "optimization", "pooling", "reduction", "resampling"})
"""The families whose kernels read and write BFLOAT16, beside the element engine."""
_MULTIPLY_BFLOAT16 = frozenset({"convolution", "matrix", "recurrent"})
"""The families that do so by tensor cores or the library, of compute capability 8.0 on."""


class CudaDevice(Device):
    """A GPU.

    Args:
        runtime: the CUDA implementation.
        ordinal: the GPU's index.
        strategy: the strategy of kernels for every recurrent desc, `persistent_block`, `persistent_grid` or `per_step`, to test or measure
            one; None leaves the choice to the estimates of `recurrent.strategies`. A desc that it does not support raises DeviceError.
    """

    memory_kind = "cuda"
    replays = True
    sizes_to_check = None

    def __init__(self, runtime: CudaRuntime, ordinal: int = 0, strategy: str | None = None) -> None:
        check_strategy(strategy)
        self.name = f"cuda:{ordinal}"
        self.ordinal = ordinal
        self.runtime = runtime
        self.limits = runtime.limits(ordinal)
        self.library = KernelLibrary(runtime, ordinal)
        self.strategy = strategy
        self._is_synchronous = is_set()
        self._autotuner = Autotuner(self, (runtime.name, *map(str, astuple(self.limits))))
        self._waits_for_producers = os.environ.get("CUPY_CUDA_ARRAY_INTERFACE_SYNC", "1") != "0"

    def plan(self, desc: OperatorDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> Plan | None:
        tf32 = ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION in flags and self.limits.compute_capability >= TF32_CAPABILITY
        target = Target(self.library, tf32, self.strategy)
        return self._bfloat16_plan(desc, target) if desc.has_bfloat16 else plan_of(desc, target)

    def _bfloat16_plan(self, desc: OperatorDesc, target: Target) -> Plan | None:
        """The plan of a desc with tensors of BFLOAT16: by kernels that read and write them, or on copies."""
        from dmlpy.devices.cuda.movement.copies import bfloat16_conversion

        family = desc.family()
        multiplies = self.limits.compute_capability >= BFLOAT16_CAPABILITY and family in _MULTIPLY_BFLOAT16
        if multiplies or family in _READ_BFLOAT16 or is_element_wise(desc):
            return plan_of(desc, target)
        return bfloat16_plan(desc, lambda other: plan_of(other, target), lambda source, result: bfloat16_conversion(source, result, target))

    def tuned(self, desc: OperatorDesc, plan: Plan, stream: int) -> Plan:
        return self._autotuner.tuned(desc, plan, stream)

    def is_element_wise(self, desc: OperatorDesc, plan_of: Callable[[OperatorDesc], Plan]) -> bool:
        return element_step(desc, plan_of(desc)) is not None

    @classmethod
    def runs(cls, kind: type[OperatorDesc]) -> bool:
        return plan.find(kind) is not None

    def describe(self) -> dict[str, str]:
        limits = self.limits
        return {
            "name": limits.name,
            "compute capability": f"{limits.compute_capability // 10}.{limits.compute_capability % 10}",
            "multiprocessors": str(limits.multiprocessors),
            "shared memory per block": show_bytes(limits.shared_memory_per_block),
            "memory": f"{show_bytes(self.available_memory())} free of {show_bytes(limits.total_memory)}",
            "CUDA driver, runtime": f"{limits.driver_version}, {limits.runtime_version}",
            "through": self.runtime.name,
        }

    def available_memory(self) -> int:
        return self.runtime.free_memory(self.ordinal)

    def _allocate(self, size: int, stream: int) -> Memory:
        memory = self.runtime.allocate(self.ordinal, size, stream)
        return Memory(memory.pointer, size, memory, memory.used_in)

    def memory_of(self, array: Any, stream: int) -> Memory:
        memory = self.runtime.memory_of(self.ordinal, array, stream)
        return Memory(memory.pointer, memory.size, memory, memory.used_in)

    def empty(self, desc: TensorDesc, stream: int) -> Any:
        desc = desc.memory
        array = self.runtime.empty(self.ordinal, desc.sizes, desc.element_strides, desc.data_type.numpy, stream)
        if not desc.is_packed:
            self.clear(self.view(array).pointer, desc.extent_in_bytes, stream)
        return array

    def from_host(self, array: np.ndarray[Any, Any], stream: int | None = None) -> Any:
        return self.runtime.to_device(self.ordinal, array, self.current_stream() if stream is None else stream)

    def to_host(self, array: Any, stream: int | None = None) -> np.ndarray[Any, Any]:
        if isinstance(array, np.ndarray):
            return array
        if not hasattr(array, "__cuda_array_interface__"):  # a number or a list, which CuPy would copy to its current GPU and back
            return np.asarray(array)
        copy = self.runtime.to_host(array, self.current_stream() if stream is None else stream)
        self.library.timeouts.check()
        return copy

    def upload(self, data: np.ndarray[Any, Any], stream: int) -> Memory:
        memory = self.runtime.upload(self.ordinal, np.ascontiguousarray(data), stream)
        return Memory(memory.pointer, memory.size, memory, memory.used_in)

    def read(self, pointer: int, size: int, stream: int) -> bytes:
        with self.runtime.use(self.ordinal):
            content = self.runtime.read(pointer, size, stream)
        self.library.timeouts.check()
        return content

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        with self.runtime.use(self.ordinal):
            self.runtime.copy(destination, source, size, stream)

    def clear(self, pointer: int, size: int, stream: int) -> None:
        with self.runtime.use(self.ordinal):
            self.runtime.memset(pointer, 0, size, stream)

    def view(self, value: Any) -> ArrayView:
        seen = self.runtime.view(value)
        if seen is not None and seen.device == self.name:
            return seen
        if seen is None:
            try:
                only_dlpack = not hasattr(value, "__cuda_array_interface__") and value.__dlpack_device__()[0] in _DLPACK_CUDA
            except Exception:
                only_dlpack = False  # no such method, or another library's failure, which `arrays.view` reports
            seen = self._view_dlpack(value) if only_dlpack else arrays.view(value)
            if seen.stream is not None and not (only_dlpack or self._waits_for_producers):
                seen = seen._replace(stream=None)
        if seen.device in (self.name, "cpu"):
            return seen
        place = self.place_of(seen.pointer) if seen.pointer else None
        if place == "cpu":
            raise TypeError(f"its memory is the host's, which {self.name} cannot access")
        location = place or self.memory_kind
        return seen if seen.device == location else seen._replace(device=location)

    def _view_dlpack(self, value: Any) -> ArrayView:
        """An array with only DLPack: its producer orders its work before CuPy's current stream."""
        array = self.runtime.from_dlpack(arrays.resolved(value))
        seen = self.runtime.view(array) or arrays.view(array)
        return seen._replace(stream=self.runtime.current_stream(int(value.__dlpack_device__()[1])))

    def is_capturing(self, stream: int) -> bool:
        return self.runtime.is_capturing(stream)

    def place_of(self, pointer: int) -> str | None:
        return self.runtime.place_of(self.ordinal, pointer)  # each time: it may have been freed, and be another GPU's now

    def stream_identity(self, stream: int) -> int:
        return identity(stream)

    def wait_for(self, producer: int) -> Callable[[int], bool]:
        return self.runtime.wait_for(self.ordinal, producer)

    def order(self, producer: int, stream: int) -> None:
        if identity(producer) == identity(stream):
            return
        runtime = self.runtime
        with runtime.use(self.ordinal):
            if runtime.is_capturing(producer) == runtime.is_capturing(
                stream
            ):  # else an event in the legacy stream may invalidate the capture
                runtime.wait_for(self.ordinal, producer)(stream)

    def current_stream(self) -> int:
        return self.runtime.current_stream(self.ordinal)

    def synchronize(self, stream: int) -> None:
        with self.runtime.use(self.ordinal):
            self.runtime.synchronize(stream)
        self.library.timeouts.check()

    def start_timer(self, stream: int) -> Callable[[], float] | None:
        with self.runtime.use(self.ordinal):
            start = self.runtime.record_event(stream)

        def stop() -> float:
            with self.runtime.use(self.ordinal):
                elapsed = self.runtime.elapsed_ms(start, self.runtime.record_event(stream))
            self.library.timeouts.check()
            return elapsed

        return stop

    def dispatched(self, launch: Launch, name: str, memory: Iterable[Memory] = ()) -> Launch:
        runtime, ordinal, timeouts = self.runtime, self.ordinal, self.library.timeouts
        uses = [item.used_in for item in memory if item.used_in is not None]

        launch = self.part(launch, lambda: name)

        def dispatch(stream: int) -> None:
            if timeouts.words[0]:
                timeouts.check()
            with runtime.use(ordinal):
                try:
                    launch(stream)
                except BaseException:  # work enqueued before an error or an interrupt still runs
                    with suppress(DeviceError):  # of a broken context: the first error says more
                        for used_in in uses:
                            used_in(stream)
                    raise
                for used_in in uses:
                    used_in(stream)

        return in_range(runtime, name, dispatch)

    def part(self, launch: Launch, name: Callable[[], str]) -> Launch:
        launch = log_launch(launch, lambda: f"{name()} on {self.name}")
        return synchronous(self.runtime, launch, name(), self.library.timeouts.check) if self._is_synchronous else launch

    def replayed(self, launch: Launch) -> Launch:
        if self._is_synchronous:
            return launch
        runtime = self.runtime
        graph = self._captured(launch)

        def replay(stream: int) -> None:
            nonlocal graph
            # A graph cannot be launched into a stream that is itself being captured: then the plan issues its launches one by one.
            if runtime.is_capturing(stream):
                launch(stream)
                return
            if graph is not None:
                try:
                    runtime.launch_graph(graph, stream)
                except NotResidentError:
                    graph = None
                else:
                    return
            launch(stream)  # if blocks do not fit, the launch finds out and uses other kernels
            graph = self._captured(launch)

        return replay

    def _captured(self, launch: Launch) -> Any:
        """The graph of a launch; None if only instantiating the graph shows that its blocks do not fit together."""
        try:
            return self.runtime.capture(self.ordinal, launch)
        except NotResidentError:
            return None


@shared
def cuda_device(index: int) -> CudaDevice | str:
    """The GPU with an index, or the reason why there is none."""
    from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime

    runtime = CupyRuntime()
    try:
        count = runtime.device_count()
    except DeviceError as error:
        return str(error)
    if index >= count:
        return f"there {'is 1 GPU' if count == 1 else f'are {count} GPUs'}"
    limits = runtime.limits(index)
    if limits.compute_capability < OLDEST_CAPABILITY:
        given, needed = limits.compute_capability / 10, OLDEST_CAPABILITY / 10
        return Unusable(f"{limits.name} has compute capability {given}, and dmlpy needs {needed} or newer")
    return CudaDevice(runtime, index)
