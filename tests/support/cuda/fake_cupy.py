"""A stand-in for CuPy's low-level bindings that obeys CUDA's rules on host memory: what `CupySeam` asks of CuPy, without a GPU.

It knows contexts by thread, current devices and streams, CuPy's pool with its arenas by stream, deferred copies, capture, and the shared
memory that a function may ask for. Whatever CUDA refuses raises as CuPy does. Functions have the names and parameters of CuPy's; a test
compares them where CuPy is installed.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

INVALID_VALUE, MEMORY_ALLOCATION, INVALID_CONTEXT, CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED = 1, 2, 201, 900, 901
COOPERATIVE_LAUNCH_TOO_LARGE = 720
DEFAULT_SHARED_BYTES = 48 << 10
LEGACY, PER_THREAD = (0, 1), 2


class CUDARuntimeError(RuntimeError):
    """As CuPy's: the code, and the name in the text."""

    def __init__(self, status: int, name: str) -> None:
        super().__init__(name)
        self.status = status


class OutOfMemoryError(MemoryError):
    """As CuPy's pool raises it."""


class NVRTCError(RuntimeError):
    pass


class MemoryPointer:
    def __init__(self, ptr: int, device: int) -> None:
        self.ptr, self.device = ptr, device


class Machine:
    """The GPUs and what the threads and streams of this process do with them.

    Attributes:
        launches: stream, device, bytes of the argument, and shared memory of each kernel that ran.
        compiled: options of each compilation.
        synchronized: streams that were waited for.
        broken: raised by every call from now on, as after a kernel's illegal access.
        parameter_bytes: the size of every kernel's parameters.
        ranges: names of NVTX ranges as they are pushed, None as they are popped.
        left: the multiprocessors that launches are given.
        refuses_graphs: blocks in every graph do not fit together.
        busy: streams whose work is not done, however little of that shows otherwise: events in them wait.
    """

    def __init__(self, devices: int = 2, optin: int = 227 << 10, static_shared: int = 0, memory: int = 1 << 30) -> None:
        self.devices, self.optin, self.static_shared, self.memory = devices, optin, static_shared, memory
        self.launches: list[tuple[int, int, bytes, int]] = []
        self.compiled: list[tuple[str, ...]] = []
        self.synchronized: list[int] = []
        self.broken: CUDARuntimeError | None = None
        self.parameter_bytes = 16
        self.ranges: list[str | None] = []
        self.busy: set[int] = set()
        self.local = threading.local()
        self.blocks: dict[int, tuple[int, Array]] = {}  # address: device, storage
        self.arenas: dict[tuple[int, int, int], list[int]] = defaultdict(list)  # device, stream, size: free blocks
        self.pending: dict[int, list[Callable[[], object]]] = defaultdict(list)  # copies that a stream has not come to
        self.recordings: dict[int, list[Callable[[], object]]] = {}
        self.streams = {0, 1, 2}
        self.handles = itertools.count(0x7000, 0x100)
        self.pinned: list[Array] = []
        self.maps_host_memory = 1
        self.left = 132
        self.refuses_graphs = False

    def device(self) -> int:
        return int(getattr(self.local, "device", 0))

    def bind_context(self) -> None:
        """What the runtime does at a thread's first call that needs a context."""
        self.local.context = self.device()

    def need_context(self) -> None:
        """The driver's functions do not make a context; the thread has to have one."""
        if getattr(self.local, "context", None) != self.device():
            raise CUDARuntimeError(INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT: invalid device context")

    def with_context(self, result: int) -> int:
        """A result that the driver gives only to a thread with a context."""
        self.need_context()
        return result

    def check(self) -> None:
        if self.broken is not None:
            raise self.broken

    def not_capturing(self, stream: int) -> None:
        if stream in self.recordings:
            raise CUDARuntimeError(CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported")

    def issue(self, stream: int, work: Callable[[], object], *, deferred: bool = False) -> None:
        self.check()
        if stream not in self.streams:
            raise CUDARuntimeError(400, "cudaErrorInvalidResourceHandle")
        if stream in self.recordings:
            self.recordings[stream].append(work)
        elif deferred:
            self.pending[stream].append(work)
        else:
            self.drain(stream)
            work()

    def drain(self, stream: int) -> None:
        for work in self.pending.pop(stream, []):
            work()

    def allocate(self, device: int, stream: int, size: int) -> int:
        free = self.arenas[device, stream, size]
        if free:
            return free.pop()
        if sum(block.nbytes for owner, block in self.blocks.values() if owner == device) + size > self.memory:
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")
        if self.recordings:
            raise CUDARuntimeError(CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported: cudaMalloc")
        storage = np.full(size + 512, 0xFF, np.uint8)
        pointer = storage.ctypes.data + -storage.ctypes.data % 512
        self.blocks[pointer] = device, storage
        return pointer


def fake_cupy(machine: Machine) -> Any:
    """The module, to be put into `sys.modules["cupy"]`."""
    runtime, current = Runtime(machine), threading.local()

    class Stream:
        def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = None) -> None:
            self.ptr, self.device_id, self.non_blocking, self.foreign = 0, -1, non_blocking, None
            if not null:
                self.ptr, self.device_id = next(machine.handles), machine.device()
                machine.streams.add(self.ptr)
                weakref.finalize(self, machine.streams.discard, self.ptr)

        @classmethod
        def from_external(cls, obj: Any) -> Any:
            version, pointer = obj.__cuda_stream__()
            assert version == 0
            stream = cls(null=True)
            stream.ptr, stream.device_id, stream.foreign = pointer, machine.device(), obj
            return stream

        def __enter__(self) -> Any:
            if self.device_id not in (-1, machine.device()):
                raise RuntimeError("the device that the stream is created on does not match with the current device")
            stack().append(self)
            return self

        def __exit__(self, *error: object) -> None:
            stack().pop()

        def begin_capture(self, mode: Any = None) -> None:
            assert self.non_blocking, "a blocking stream would forbid all work on the default stream meanwhile"
            machine.recordings[self.ptr] = []

        def end_capture(self) -> Any:
            work = machine.recordings.pop(self.ptr)
            graph: Any = SimpleNamespace(launch=lambda stream: runtime.graphLaunch(graph.graphExec, stream.ptr))
            graph.graphExec = id(graph)
            runtime.graphs[graph.graphExec] = lambda: [step() for step in work]
            return graph

    def stack() -> list[Any]:
        stacks = current.__dict__.setdefault("stacks", {})
        found: list[Any] = stacks.setdefault(machine.device(), [null])
        return found

    null = Stream(null=True)

    def get_current_stream(device_id: int = -1) -> Any:
        stacks = current.__dict__.setdefault("stacks", {})
        return stacks.setdefault(machine.device() if device_id == -1 else device_id, [null])[-1]

    class Module:
        def load(self, cubin: bytes) -> None:
            assert type(cubin) is bytes
            machine.check()
            machine.bind_context()
            self.device = machine.device()

        def get_function(self, name: str) -> Any:
            return Function(self, name)

    class Function:
        def __init__(self, module: Any, name: str) -> None:
            self.module, self.name, self.ptr = module, name, id(self)
            functions[self.ptr] = self
            self.dynamic_shared = DEFAULT_SHARED_BYTES

        def launch(self, grid: tuple[int, ...], shared_mem: int, stream: int, kernel_params: int) -> None:
            machine.check()
            machine.need_context()
            limit = max(self.dynamic_shared, DEFAULT_SHARED_BYTES - machine.static_shared)
            if machine.device() != self.module.device or shared_mem > limit or max(grid[1:]) > 65535:
                raise CUDARuntimeError(INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE: invalid argument")
            # A kernel knows how large its parameters are.
            argument = ctypes.string_at(ctypes.c_uint64.from_address(kernel_params).value, machine.parameter_bytes)
            run = (stream, machine.device(), argument, shared_mem)
            machine.issue(stream, lambda: machine.launches.append(run))

    functions: dict[int, Any] = {}

    class Event:
        def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
            self.ptr, self.device, self.recorded, self.stream = id(self), machine.device(), False, 0
            runtime.events[self.ptr] = self

        @property
        def done(self) -> bool:
            if machine.recordings:  # as while another thread captures in the global mode
                raise CUDARuntimeError(CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported: cudaEventQuery")
            return self.stream not in machine.busy

        def synchronize(self) -> None:
            if not self.recorded:
                raise CUDARuntimeError(400, "cudaErrorInvalidResourceHandle")
            machine.busy.discard(self.stream)

    def get_elapsed_time(start_event: Any, end_event: Any) -> float:
        return 1.5 if start_event.recorded and end_event.recorded else float("nan")

    def alloc(size: int) -> Any:
        machine.check()
        device, stream = machine.device(), get_current_stream().ptr
        pointer = machine.allocate(device, stream, size) if size else 0
        memory = MemoryPointer(pointer, device)
        if size:
            weakref.finalize(memory, machine.arenas[device, stream, size].append, pointer)
        return memory

    class ndarray:  # noqa: N801 - CuPy's name
        def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> None:
            self.shape, self.dtype, self.data = tuple(shape), np.dtype(dtype), memptr
            self.strides = tuple(strides) if strides is not None else np.empty(self.shape, self.dtype).strides
            self.device = SimpleNamespace(id=memptr.device)

        @property
        def host(self) -> Array:
            extent = 0 if 0 in self.shape else self.dtype.itemsize + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
            memory = (ctypes.c_char * extent).from_address(self.data.ptr) if extent else b""
            return np.ndarray(self.shape, self.dtype, memory, strides=self.strides)

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            data = (self.data.ptr, False)
            stream = get_current_stream().ptr or 1
            return {"version": 3, "shape": self.shape, "strides": self.strides, "typestr": self.dtype.str, "data": data, "stream": stream}

    def empty(shape: Any, dtype: Any = float) -> Any:
        return ndarray(shape, dtype, alloc(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize))

    def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Array:
        pointer = get_current_stream().ptr
        machine.not_capturing(pointer)
        machine.drain(pointer)
        if blocking:
            machine.synchronized.append(pointer)
        return np.array(a.host)

    def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> Any:
        if array.__dlpack_device__()[1] != machine.device():
            raise RuntimeError("the memory is another device's")
        return array.__dlpack__(stream=get_current_stream().ptr or 1)

    def launchKernel(  # noqa: N802
        f: int,
        grid_dim_x: int,
        grid_dim_y: int,
        grid_dim_z: int,
        block_dim_x: int,
        block_dim_y: int,
        block_dim_z: int,
        shared_mem_bytes: int,
        stream: int,
        kernel_params: int,
        extra: int,
    ) -> None:
        assert extra == 0
        functions[f].launch((grid_dim_x, grid_dim_y, grid_dim_z), shared_mem_bytes, stream, kernel_params)

    def launchCooperativeKernel(  # noqa: N802
        f: int,
        grid_dim_x: int,
        grid_dim_y: int,
        grid_dim_z: int,
        block_dim_x: int,
        block_dim_y: int,
        block_dim_z: int,
        shared_mem_bytes: int,
        stream: int,
        kernel_params: int,
    ) -> None:
        if grid_dim_x * grid_dim_y * grid_dim_z > machine.left:
            raise CUDARuntimeError(COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE")
        functions[f].launch((grid_dim_x, grid_dim_y, grid_dim_z), shared_mem_bytes, stream, kernel_params)

    driver = SimpleNamespace(
        launchKernel=launchKernel,
        launchCooperativeKernel=launchCooperativeKernel,
        funcGetAttribute=lambda attribute, f: machine.with_context(
            {0: 384, 1: machine.static_shared, 3: 0, 4: 128, 8: functions[f].dynamic_shared}[attribute]
        ),
        funcSetAttribute=lambda f, attribute, value: _set_attribute(machine, functions[f], attribute, value),
        occupancyMaxActiveBlocksPerMultiprocessor=lambda func, blockSize, dynamicSMemSize: machine.with_context(1),  # noqa: N803
    )
    cuda = SimpleNamespace(
        runtime=runtime,
        driver=driver,
        nvrtc=Nvrtc(machine),
        function=SimpleNamespace(Module=Module, Function=Function),
        Stream=Stream,
        Event=Event,
        alloc=alloc,
        get_current_stream=get_current_stream,
        get_elapsed_time=get_elapsed_time,
        nvtx=SimpleNamespace(
            available=True,
            RangePush=lambda message, id_color=-1: machine.ranges.append(message),
            RangePop=lambda: machine.ranges.append(None),
        ),
    )
    pool = SimpleNamespace(free_bytes=lambda: sum(size * len(free) for (_, _, size), free in machine.arenas.items()))
    return SimpleNamespace(
        cuda=cuda,
        ndarray=ndarray,
        empty=empty,
        asarray=lambda a: a,
        asnumpy=asnumpy,
        from_dlpack=from_dlpack,
        get_default_memory_pool=lambda: pool,
    )


def _set_attribute(machine: Machine, function: Any, attribute: int, value: int) -> None:
    machine.need_context()
    if attribute != 8 or value + machine.static_shared > machine.optin:
        raise CUDARuntimeError(INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE: invalid argument")
    function.dynamic_shared = value


class Runtime:
    """`cupy.cuda.runtime`."""

    cudaDevAttrClockRate = 13  # noqa: N815
    cudaDevAttrMultiProcessorCount = 16  # noqa: N815
    cudaDevAttrMemoryClockRate = 36  # noqa: N815
    cudaDevAttrGlobalMemoryBusWidth = 37  # noqa: N815
    cudaDevAttrL2CacheSize = 38  # noqa: N815
    cudaDevAttrCooperativeLaunch = 95  # noqa: N815
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97  # noqa: N815
    cudaDevAttrCanMapHostMemory = 19  # noqa: N815
    cudaDevAttrUnifiedAddressing = 41  # noqa: N815
    hostAllocPortable, hostAllocMapped = 1, 2  # noqa: N815
    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3  # noqa: N815

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.events: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.graphs: dict[int, Callable[[], object]] = {}

    def getDeviceCount(self) -> int:  # noqa: N802
        return self._machine.devices

    def getDevice(self) -> int:  # noqa: N802
        return self._machine.device()

    def setDevice(self, device: int) -> None:  # noqa: N802
        if not 0 <= device < self._machine.devices:
            raise CUDARuntimeError(101, "cudaErrorInvalidDevice: invalid device ordinal")
        self._machine.local.device = device
        self._machine.bind_context()

    def getDeviceProperties(self, device: int) -> dict[str, Any]:  # noqa: N802
        return {"name": b"Fake GPU", "major": 9, "minor": 0, "totalGlobalMem": self._machine.memory}

    def deviceGetAttribute(self, attrib: int, device: int) -> int:  # noqa: N802
        return {
            13: 1_980_000,
            19: self._machine.maps_host_memory,
            41: 1,
            16: 132,
            36: 2_619_000,
            37: 5120,
            38: 50 << 20,
            95: 1,
            97: self._machine.optin,
            75: 9,
        }[attrib]

    def driverGetVersion(self) -> int:  # noqa: N802
        return 13000

    def runtimeGetVersion(self) -> int:  # noqa: N802
        return 13000

    def memGetInfo(self) -> tuple[int, int]:  # noqa: N802
        self._machine.check()
        self._machine.bind_context()
        device = self._machine.device()
        used = sum(block.nbytes - 512 for owner, block in self._machine.blocks.values() if owner == device)
        return self._machine.memory - used, self._machine.memory

    def hostAlloc(self, size: int, flags: int) -> int:  # noqa: N802
        assert flags == self.hostAllocPortable | self.hostAllocMapped
        self._machine.check()
        if self._machine.recordings:
            raise CUDARuntimeError(CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported: cudaHostAlloc")
        self._machine.pinned.append(np.full(size, 0xFF, np.uint8))
        return int(self._machine.pinned[-1].ctypes.data)

    def memcpyAsync(self, dst: int, src: int, size: int, kind: int, stream: int) -> None:  # noqa: N802
        # A copy from pinned memory reads its source when the stream comes to it.
        self._machine.issue(stream, lambda: ctypes.memmove(dst, src, size), deferred=kind == self.memcpyHostToDevice)

    def memsetAsync(self, ptr: int, value: int, size: int, stream: int) -> None:  # noqa: N802
        self._machine.issue(stream, lambda: ctypes.memset(ptr, value, size))

    def streamSynchronize(self, stream: int) -> None:  # noqa: N802
        self._machine.not_capturing(stream)
        self._machine.check()
        self._machine.drain(stream)
        self._machine.synchronized.append(stream)

    def streamIsCapturing(self, stream: int) -> bool:  # noqa: N802
        if stream in LEGACY and self._machine.recordings:
            raise CUDARuntimeError(906, "cudaErrorStreamCaptureImplicit")
        return stream in self._machine.recordings

    def graphLaunch(self, graphExec: int, stream: int) -> None:  # noqa: N802, N803
        self._machine.not_capturing(stream)
        if self._machine.refuses_graphs:
            raise CUDARuntimeError(
                COOPERATIVE_LAUNCH_TOO_LARGE, "cudaErrorCooperativeLaunchTooLarge: too many blocks in cooperative launch"
            )
        self._machine.issue(stream, self.graphs[graphExec])

    def eventRecord(self, event: int, stream: int) -> None:  # noqa: N802
        found = self.events[event]
        if found.device != self._machine.device():
            raise CUDARuntimeError(400, "cudaErrorInvalidResourceHandle")
        found.stream = stream
        self._machine.issue(stream, lambda: setattr(found, "recorded", True))


class Nvrtc:
    """`cupy.cuda.nvrtc`; it compiles anything to a text that names it, but refuses what it is told to."""

    NVRTCError = NVRTCError

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.refused: dict[str, str] = {}  # instances, and what the log says of them
        self._programs: dict[int, list[str]] = {}

    def getVersion(self) -> tuple[int, int]:  # noqa: N802
        return 13, 0

    def getSupportedArchs(self) -> tuple[int, ...]:  # noqa: N802
        return 75, 80, 90

    def createProgram(self, src: str, name: str, headers: Any, include_names: Any) -> int:  # noqa: N802
        number = len(self._programs) + 1
        self._programs[number] = []
        return number

    def addNameExpression(self, prog: int, name: str) -> None:  # noqa: N802
        self._programs[prog].append(name)

    def compileProgram(self, prog: int, options: Any) -> None:  # noqa: N802
        self._machine.compiled.append(tuple(options))
        if self.refused.keys() & set(self._programs[prog]):
            raise NVRTCError("NVRTC_ERROR_COMPILATION (6)")

    def getProgramLog(self, prog: int) -> str:  # noqa: N802
        return "".join(self.refused.get(name, "") for name in self._programs[prog])

    def getCUBIN(self, prog: int) -> bytes:  # noqa: N802
        return f"cubin of {', '.join(self._programs[prog])}".encode()

    def getPTX(self, prog: int) -> bytes:  # noqa: N802
        return f"ptx of {', '.join(self._programs[prog])}".encode()

    def getLoweredName(self, prog: int, name: str) -> str:  # noqa: N802
        assert name in self._programs[prog]
        return f"_Z_{name}"

    def destroyProgram(self, prog: int) -> None:  # noqa: N802
        del self._programs[prog]
