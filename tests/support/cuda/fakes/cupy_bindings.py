"""A fake of CuPy's low-level bindings that obeys CUDA's rules on host memory: what `CupyRuntime` asks of CuPy, without a GPU.

It knows contexts by thread, current devices and streams, CuPy's pool with its arenas by stream, deferred copies, capture, and the shared
memory that a function may ask for. Whatever CUDA refuses raises as CuPy does. Functions have the names and parameters of CuPy's; a test
compares them where CuPy is installed. `fake_captures` describes captures; in addition:

- An event that was never recorded counts as done.
- Where memory lacks, the pool gives its free blocks back to CUDA and tries again. CUDA calls all memory used that an allocator holds.
- Another allocator below CuPy may raise errors of its own.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.support.cuda.fakes.captures import (
    CAPTURE_INVALIDATED,
    CAPTURED_EVENT,
    LEGACY,
    PER_THREAD,
    RELAXED,
    Capture,
    Captures,
    CUDARuntimeError,
)
from tests.support.cuda.fakes.cudart import COOPERATIVE_LAUNCH_TOO_LARGE, INVALID_HANDLE, Nvrtc, Runtime

Array = np.ndarray[Any, Any]

INVALID_VALUE, INVALID_CONTEXT = 1, 201
UNREGISTERED, REGISTERED, ON_DEVICE, MANAGED = 0, 1, 2, 3
DEFAULT_SHARED_BYTES = 48 << 10
NEVER = -1
"""The stream of an event that was never recorded."""


class OutOfMemoryError(MemoryError):
    """As CuPy's pool raises it."""


class MemoryPointer:
    def __init__(self, ptr: int, device: int) -> None:
        self.ptr, self.device_id = ptr, device

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self.device_id)


class FakeGpus(Captures):
    """The GPUs and what the threads and streams of this process do with them.

    Attributes:
        launches: stream, device, bytes of the argument, and shared memory of each kernel that ran.
        compiled: options of each compilation.
        synchronized: streams that were waited for.
        broken: raised by every call from now on, as after a kernel's illegal access.
        faulty: parts of the symbols of kernels that break the context when they run, which their launch does not report.
        asked: the addresses that CUDA was asked about.
        recorded: the events that were recorded, in order.
        waits: the streams that were made to wait for an event, in order.
        capability: of the GPUs: 10 * major + minor.
        driver: the version that the driver supports, 0 where there is none; `runtime` is the version that CuPy was built for.
        pageable: whether kernels can access all memory of the host.
        parameter_bytes: the size of every kernel's parameters.
        ranges: names of NVTX ranges as they are pushed, None as they are popped.
        pinned: the memory of the host that `hostAlloc` gave.
        maps_host_memory: whether kernels can write to that, 1 or 0.
        left: the multiprocessors that launches are given.
        refuses_graphs: blocks in every graph do not fit together.
        busy: streams whose work is not done, however little of that shows otherwise: events in them wait.
        stream_ordered: whether CuPy's allocator is one like cudaMallocAsync.
        held_elsewhere: bytes that an allocator below CuPy holds and would give, and that CUDA calls used.
        out_of_memory: makes the error of the allocator below CuPy.
    """

    def __init__(self, devices: int = 2, optin: int = 227 << 10, static_shared: int = 0, memory: int = 1 << 30) -> None:
        super().__init__()
        self.devices, self.optin, self.static_shared, self.memory = devices, optin, static_shared, memory
        self.launches: list[tuple[int, int, bytes, int]] = []
        self.compiled: list[tuple[str, ...]] = []
        self.synchronized: list[int] = []
        self.broken: CUDARuntimeError | None = None
        self.faulty: set[str] = set()
        self.asked: list[int] = []
        self.recorded: list[int] = []
        self.waits: list[int] = []
        self.capability, self.driver, self.runtime, self.pageable = 90, 13000, 13000, False
        self.parameter_bytes = 16
        self.ranges: list[str | None] = []
        self.busy: set[int] = set()
        self.blocks: dict[int, tuple[int, Array]] = {}  # address: device, storage
        self.kinds: dict[int, int] = {}  # address of a block: what cudaMemoryType it is, where it is not a GPU's own
        self.arenas: dict[tuple[int, int, int], list[int]] = defaultdict(list)  # device, stream, size: free blocks
        self.pending: dict[int, list[Callable[[], object]]] = defaultdict(list)  # copies that a stream has not come to
        self.stream_ordered, self.held_elsewhere = False, 0
        self.out_of_memory: Callable[[str], Exception] = OutOfMemoryError
        self.streams: dict[int, int | None] = {0: None, 1: None, 2: None}  # handle: device; those of all devices have the current one
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

    def device_of(self, stream: int) -> int:
        """The device of a stream; those that each device has are the current one's."""
        if stream not in self.streams:
            raise CUDARuntimeError(INVALID_HANDLE, "cudaErrorInvalidResourceHandle")
        device = self.streams[stream]
        return self.device() if device is None else device

    def issue(self, stream: int, work: Callable[[], object], *, deferred: bool = False) -> None:
        self.check()
        self.device_of(stream)
        self.legacy_use(stream)
        stream = one_handle(stream)
        if stream in self.recordings:
            if not self.recordings[stream].is_valid:
                raise CUDARuntimeError(CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated")
            self.recordings[stream].work.append(work)
        elif deferred:
            self.pending[stream].append(work)
        else:
            self.drain(stream)
            work()

    def drain(self, stream: int) -> None:
        for work in self.pending.pop(one_handle(stream), []):
            work()

    def has_pending(self, stream: int) -> bool:
        """Whether there are copies that a stream has not come to."""
        return bool(self.pending.get(one_handle(stream)))

    def reach(self, event: Any) -> None:
        """Does the work of an event's stream that lies before the event."""
        work = self.pending.get(one_handle(event.stream), [])
        while work and not event.recorded:
            work.pop(0)()

    def new_memory(self, kind: int, size: int = 4096, device: int = 0) -> int:
        """The address of new memory of a kind, from another allocator than CuPy's pool: a GPU's, managed, or the host's."""
        storage = np.full(size + 512, 0xFF, np.uint8)
        pointer = int(storage.ctypes.data + -storage.ctypes.data % 512)
        self.blocks[pointer] = device, storage
        self.kinds[pointer] = kind
        return pointer

    def found(self, address: int) -> tuple[int, int]:
        """The device and the kind of the memory at an address; of memory that CUDA does not know device -2, cudaInvalidDeviceId."""
        for pointer, (device, storage) in self.blocks.items():
            if pointer <= address < pointer + storage.nbytes - 512:
                kind = self.kinds.get(pointer, ON_DEVICE)
                return (device, kind) if kind != UNREGISTERED else (-2, UNREGISTERED)
        return -2, UNREGISTERED

    def allocate(self, arena: tuple[int, int, int], stream: int) -> int:
        """Memory of an arena: a device, a stream of the calling thread, the size of its blocks."""
        device, _, size = arena
        if self.stream_ordered:
            self.issue(stream, lambda: None)
        if free := self.arenas[arena]:
            return free.pop()
        if not self.stream_ordered:
            self.unsafe("cudaMalloc")
        if self._used(device) + size > self.memory:
            self._empty_arenas(device)
        if self._used(device) + size > self.memory:
            raise self.out_of_memory(f"Out of memory allocating {size:,} bytes")
        storage = np.full(size + 512, 0xFF, np.uint8)
        pointer = storage.ctypes.data + -storage.ctypes.data % 512
        self.blocks[pointer] = device, storage
        return pointer

    def free(self, arena: tuple[int, int, int], stream: int, pointer: int) -> None:
        """Gives a block back to the arena that it is from."""
        if self.stream_ordered and stream in self.recordings:
            self.issue(stream, lambda: None)
        else:
            self.arenas[arena].append(pointer)

    def _used(self, device: int) -> int:
        return sum(block.nbytes for owner, block in self.blocks.values() if owner == device)

    def _empty_arenas(self, device: int) -> None:
        for (owner, _, _), free in self.arenas.items():
            while owner == device and free:
                del self.blocks[free.pop()]


def one_handle(stream: int) -> int:
    """The legacy default stream has two handles."""
    return 0 if stream in LEGACY else stream


def fake_cupy(gpus: FakeGpus) -> Any:
    """The module, to be put into `sys.modules["cupy"]`."""
    runtime, current = Runtime(gpus), threading.local()

    class Stream:
        def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = None) -> None:
            self.ptr, self.device_id, self.non_blocking, self.foreign = 0, -1, non_blocking, None
            if not null:
                self.ptr, self.device_id = next(gpus.handles), gpus.device()
                gpus.streams[self.ptr] = gpus.device()
                weakref.finalize(self, gpus.streams.pop, self.ptr, None)

        @classmethod
        def from_external(cls, obj: Any) -> Any:
            version, pointer = obj.__cuda_stream__()
            assert version == 0
            stream = cls(null=True)
            stream.ptr, stream.device_id, stream.foreign = pointer, gpus.device(), obj
            return stream

        def __enter__(self) -> Any:
            if self.device_id not in (-1, gpus.device()):
                raise RuntimeError("the device that the stream is created on does not match with the current device")
            stack().append(self)
            return self

        def __exit__(self, *error: object) -> None:
            stack().pop()

        def begin_capture(self, mode: Any = None) -> None:
            gpus.begin_capture(self.ptr, RELAXED if mode is None else mode, is_blocking=not self.non_blocking)

        def end_capture(self) -> Any:
            captured = gpus.end_capture(self.ptr)
            gpus.unsafe("cudaGraphInstantiate")
            return Graph(captured)

    class Graph:
        def __init__(self, captured: Capture) -> None:
            self.graphExec = captured.number
            runtime.graphs[captured.number] = captured
            weakref.finalize(self, runtime.graphExecDestroy, captured.number)

        def launch(self, stream: Any = None) -> None:
            runtime.graphLaunch(self.graphExec, (stream or get_current_stream()).ptr)

    def stack() -> list[Any]:
        stacks = current.__dict__.setdefault("stacks", {})
        found: list[Any] = stacks.setdefault(gpus.device(), [null])
        return found

    null = Stream(null=True)

    def get_current_stream(device_id: int = -1) -> Any:
        stacks = current.__dict__.setdefault("stacks", {})
        return stacks.setdefault(gpus.device() if device_id == -1 else device_id, [null])[-1]

    class Module:
        def load(self, cubin: bytes) -> None:
            assert type(cubin) is bytes
            gpus.check()
            gpus.unsafe("cuModuleLoadData")
            gpus.bind_context()
            self.device = gpus.device()

        def get_function(self, name: str) -> Any:
            return Function(self, name)

    class Function:
        def __init__(self, module: Any, name: str) -> None:
            self.module, self.name, self.ptr = module, name, id(self)
            functions[self.ptr] = self
            self.dynamic_shared = DEFAULT_SHARED_BYTES

        def launch(self, grid: tuple[int, ...], shared_mem: int, stream: int, kernel_params: int) -> None:
            gpus.check()
            gpus.need_context()
            limit = max(self.dynamic_shared, DEFAULT_SHARED_BYTES - gpus.static_shared)
            if gpus.device() != self.module.device or shared_mem > limit or max(grid[1:]) > 65535:
                raise CUDARuntimeError(INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE: invalid argument")
            # A kernel knows how large its parameters are.
            argument = ctypes.string_at(ctypes.c_uint64.from_address(kernel_params).value, gpus.parameter_bytes)
            run = (stream, gpus.device(), argument, shared_mem)
            if gpus.device_of(stream) != gpus.device():
                raise CUDARuntimeError(INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE: invalid resource handle")
            gpus.issue(stream, lambda: self.execute(run))

        def execute(self, run: tuple[int, int, bytes, int]) -> None:
            gpus.launches.append(run)
            if any(part in self.name for part in gpus.faulty):
                gpus.broken = CUDARuntimeError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")

    functions: dict[int, Any] = {}

    class Event:
        def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
            self.ptr, self.device, self.recorded, self.stream = id(self), gpus.device(), False, NEVER
            self.capture: Capture | None = None  # the one that it was recorded in
            runtime.events[self.ptr] = self

        @property
        def done(self) -> bool:
            return runtime.eventQuery(self.ptr) == 0

        def synchronize(self) -> None:
            gpus.unsafe("cudaEventSynchronize")
            if self.capture is not None:
                self.capture.is_valid = False
                raise CUDARuntimeError(CAPTURED_EVENT, "cudaErrorCapturedEvent")
            gpus.reach(self)
            gpus.busy.discard(self.stream)

    def get_elapsed_time(start_event: Any, end_event: Any) -> float:
        return 1.5 if start_event.recorded and end_event.recorded else float("nan")

    def alloc(size: int) -> Any:
        gpus.check()
        device, stream = gpus.device(), get_current_stream().ptr
        arena = device, -threading.get_ident() if stream == PER_THREAD else stream, size  # 0 and 1 are two arenas, though one stream
        pointer = gpus.allocate(arena, stream) if size else 0
        memory = MemoryPointer(pointer, device)
        if size:
            weakref.finalize(memory, gpus.free, arena, stream, pointer).atexit = False
        return memory

    class ndarray:
        def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> None:
            self.shape, self.dtype, self.data = tuple(shape), np.dtype(dtype), memptr
            self.strides = tuple(strides) if strides is not None else np.empty(self.shape, self.dtype).strides
            self.device = memptr.device

        @property
        def nbytes(self) -> int:
            return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

        @property
        def host(self) -> Array:
            extent = 0 if 0 in self.shape else self.dtype.itemsize + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
            memory = (ctypes.c_char * extent).from_address(self.data.ptr) if extent else b""
            return np.ndarray(self.shape, self.dtype, memory, strides=self.strides)

        def reshape(self, shape: Any) -> Any:
            assert self.host.flags.c_contiguous, "the emulation reshapes packed arrays only"
            return ndarray(shape, self.dtype, self.data)

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            data = (self.data.ptr, False)
            stream = get_current_stream().ptr or 1
            return {"version": 3, "shape": self.shape, "strides": self.strides, "typestr": self.dtype.str, "data": data, "stream": stream}

    def empty(shape: Any, dtype: Any = float) -> Any:
        return ndarray(shape, dtype, alloc(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize))

    def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Array:
        pointer = get_current_stream().ptr
        gpus.not_capturing(pointer)
        gpus.unsafe("cudaStreamSynchronize")
        gpus.drain(pointer)
        if blocking:
            gpus.synchronized.append(pointer)
        return np.array(a.host)

    def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> Any:
        if array.__dlpack_device__()[1] != gpus.device():
            raise RuntimeError("the memory is another device's")
        return array.__dlpack__(stream=get_current_stream().ptr or 1)

    cuda = SimpleNamespace(
        runtime=runtime,
        driver=_fake_driver(gpus, functions),
        nvrtc=Nvrtc(gpus),
        function=SimpleNamespace(Module=Module, Function=Function),
        Stream=Stream,
        Event=Event,
        alloc=alloc,
        get_current_stream=get_current_stream,
        get_elapsed_time=get_elapsed_time,
        nvtx=SimpleNamespace(
            available=True,
            RangePush=lambda message, id_color=-1: gpus.ranges.append(message),
            RangePop=lambda: gpus.ranges.append(None),
        ),
    )
    pool = SimpleNamespace(free_bytes=lambda: sum(size * len(free) for (_, _, size), free in gpus.arenas.items()))
    return SimpleNamespace(
        cuda=cuda,
        ndarray=ndarray,
        empty=empty,
        asarray=lambda a: a,
        asnumpy=asnumpy,
        from_dlpack=from_dlpack,
        get_default_memory_pool=lambda: pool,
    )


def _fake_driver(gpus: FakeGpus, functions: Mapping[int, Any]) -> Any:
    """`cupy.cuda.driver`, over functions by address."""

    def launchKernel(
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

    def launchCooperativeKernel(
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
        if grid_dim_x * grid_dim_y * grid_dim_z > gpus.left:
            raise CUDARuntimeError(COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE")
        functions[f].launch((grid_dim_x, grid_dim_y, grid_dim_z), shared_mem_bytes, stream, kernel_params)

    return SimpleNamespace(
        launchKernel=launchKernel,
        launchCooperativeKernel=launchCooperativeKernel,
        funcGetAttribute=lambda attribute, f: gpus.with_context(
            {0: 384, 1: gpus.static_shared, 3: 0, 4: 128, 8: functions[f].dynamic_shared}[attribute]
        ),
        funcSetAttribute=lambda f, attribute, value: _set_attribute(gpus, functions[f], attribute, value),
        occupancyMaxActiveBlocksPerMultiprocessor=lambda func, blockSize, dynamicSMemSize: gpus.with_context(1),
    )


def _set_attribute(gpus: FakeGpus, function: Any, attribute: int, value: int) -> None:
    gpus.need_context()
    if attribute != 8 or value + gpus.static_shared > gpus.optin:
        raise CUDARuntimeError(INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE: invalid argument")
    function.dynamic_shared = value
