"""`CupySeam`: the CUDA seam by CuPy. CuPy is imported when the first of its functions is called.

Streams come in as integers, so the runtime's and the driver's functions are called by CuPy's thin bindings. Kernels are CuPy functions
over modules that dmlpy compiles: CuPy's compiler adds options (`-ftz=true`) that would change results, and its cache knows nothing of ours.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from dmlpy.arrays import ArrayView
from dmlpy.description.enums import HResult
from dmlpy.devices.cuda.cublas import Cublas
from dmlpy.devices.cuda.seam import FunctionAttributes, Limits, Matrix, NotResidentError, Seam
from dmlpy.validation.problems import DeviceError

Array = np.ndarray[Any, Any]
Method = TypeVar("Method", bound=Callable[..., Any])

_COMPILE_OPTIONS = ("--std=c++17", "--device-as-default-execution-space")
"""Without the second, NVRTC before 13.2 compiles the kernels' generic lambdas as host functions, and lambdas cannot be annotated there."""
_MINIMAL_SINCE = (12, 9)
"""The oldest NVRTC that `--minimal` was tried with. It leaves out declarations of CUDA's, which no kernel here needs, to read less."""

# CUfunction_attribute of cuda.h
_MAX_THREADS_PER_BLOCK, _SHARED_BYTES, _LOCAL_BYTES, _REGISTERS, _MAX_DYNAMIC_SHARED_BYTES = 0, 1, 3, 4, 8
_COMPUTE_CAPABILITY_MAJOR = 75
"""A cudaDeviceAttr that CuPy has no name for."""
_MEMORY_ALLOCATION, _COOPERATIVE_LAUNCH_TOO_LARGE = 2, 720
"""cudaError_t and CUresult."""
_LEGACY_STREAMS = (0, 1)
"""Handles of the default stream that orders itself with all others; it cannot be captured."""


def compile_options(version: tuple[int, int]) -> tuple[str, ...]:
    """The compile options for a version of NVRTC, without the architecture."""
    return (*_COMPILE_OPTIONS, "--minimal") if version >= _MINIMAL_SINCE else _COMPILE_OPTIONS


def _translated(function: Method) -> Method:
    """Wraps a method so that errors of CuPy and CUDA become `DeviceError`."""

    @functools.wraps(function)
    def method(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except DeviceError:
            raise
        except Exception as error:
            raise _device_error(function.__name__, error) from error

    return cast("Method", method)


def _device_error(what: str, error: Exception) -> DeviceError:
    status = getattr(error, "status", None)
    if status == _COOPERATIVE_LAUNCH_TOO_LARGE:
        return NotResidentError(f"{what}: {error}")
    out_of_memory = isinstance(error, MemoryError) or status == _MEMORY_ALLOCATION
    return DeviceError(f"{what}: {error or type(error).__name__}", hresult=HResult.E_OUTOFMEMORY if out_of_memory else None)


@dataclass(frozen=True)
class _Stream:
    """A stream handle as CuPy's functions take it."""

    ptr: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr


class _Use:
    """Makes a device current for the thread, and restores the previous one afterwards."""

    __slots__ = ("_before", "_device", "_runtime")

    def __init__(self, runtime: Any, device: int) -> None:
        self._runtime, self._device = runtime, device

    def __enter__(self) -> None:
        runtime = self._runtime
        try:
            self._before = runtime.getDevice()
            runtime.setDevice(self._device)  # even if it is current: in a fresh thread this binds the context that driver calls need
        except Exception as error:
            raise _device_error("use", error) from error

    def __exit__(self, *error: object) -> None:
        if self._before != self._device:
            self._runtime.setDevice(self._before)


class CupyMemory:
    """A block of CuPy's memory pool, returned to the pool when this object is deleted.

    The pool gives a block that came back to the stream that asked for it, at once. If other streams have used it, it has to wait for them
    first: `CupySeam.allocate` looks whether they are done, since whoever drops the object may be in the middle of a capture, where CUDA
    must not be asked.

    Attributes:
        pointer: its address.
        size: the size in bytes.
        owner: CuPy's `MemoryPointer`.
    """

    def __init__(self, seam: CupySeam, device: int, size: int, stream: int, owner: Any) -> None:
        self.pointer = int(owner.ptr)
        self.size = size
        self.owner = owner
        self._seam, self._device, self._stream = seam, device, stream
        self._last_uses: dict[int, Any] = {}  # by stream: an event behind the last work that uses the memory

    def used_in(self, stream: int) -> None:
        if stream != self._stream and not self._seam.is_capturing(stream):
            self._last_uses[stream] = self._seam.record(self._device, stream, self._last_uses.get(stream))

    def __del__(self) -> None:
        if self._last_uses:
            self._seam.returning.append((self.owner, tuple(self._last_uses.values())))


@dataclass(frozen=True)
class CupyFunction:
    """A loaded kernel; `launcher` is CuPy's `Function`, which keeps its module."""

    launcher: Any
    device: int
    max_threads: int


class CupySeam:
    """The CUDA seam over CuPy 14 or newer. Threads may share it; see `Seam` for the methods.

    Attributes:
        returning: blocks of memory on their way back to the pool, each with the events that it waits for.
    """

    name = "CuPy"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cublas: dict[int, Cublas] = {}
        self.returning: deque[tuple[Any, tuple[Any, ...]]] = deque()

    @functools.cached_property
    def _cupy(self) -> Any:
        try:
            import cupy
        except ImportError as error:
            raise DeviceError(f"CuPy cannot be imported (pip install dmlpy[cuda13] or dmlpy[cuda12] brings it): {error}") from error
        return cupy

    @property
    def _runtime(self) -> Any:
        return self._cupy.cuda.runtime

    @property
    def _driver(self) -> Any:
        return self._cupy.cuda.driver

    # the device

    def device_count(self) -> int:
        try:
            count = int(self._runtime.getDeviceCount())
        except DeviceError:
            raise
        except Exception as error:
            raise DeviceError(f"no GPU answers: {error or type(error).__name__}") from error
        if count == 0:
            raise DeviceError("no GPU answers: CUDA finds none")
        return count

    @_translated
    def limits(self, device: int) -> Limits:
        runtime = self._runtime
        properties = runtime.getDeviceProperties(device)
        name = properties["name"]
        memory_khz = runtime.deviceGetAttribute(runtime.cudaDevAttrMemoryClockRate, device)
        return Limits(
            name=name.decode() if isinstance(name, bytes) else str(name),
            compute_capability=10 * int(properties["major"]) + int(properties["minor"]),
            multiprocessors=int(runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device)),
            shared_memory_per_block=int(runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device)),
            total_memory=int(properties["totalGlobalMem"]),
            driver_version=int(runtime.driverGetVersion()),
            runtime_version=int(runtime.runtimeGetVersion()),
            clock_hz=1e3 * runtime.deviceGetAttribute(runtime.cudaDevAttrClockRate, device),
            memory_rate=2e3 * memory_khz * runtime.deviceGetAttribute(runtime.cudaDevAttrGlobalMemoryBusWidth, device) / 8,
            l2_bytes=int(runtime.deviceGetAttribute(runtime.cudaDevAttrL2CacheSize, device)),
            cooperative=bool(runtime.deviceGetAttribute(runtime.cudaDevAttrCooperativeLaunch, device)),
        )

    @_translated
    def free_memory(self, device: int) -> int:
        with self.use(device):
            free, _ = self._runtime.memGetInfo()
            return int(free) + int(self._cupy.get_default_memory_pool().free_bytes())

    def use(self, device: int) -> AbstractContextManager[None]:
        return _Use(self._runtime, device)

    # kernels

    @_translated
    def compiler_version(self) -> str:
        major, minor = self._cupy.cuda.nvrtc.getVersion()
        return " ".join([f"NVRTC {major}.{minor}", *compile_options((major, minor))])

    @_translated
    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        known = [int(supported) for supported in self._cupy.cuda.nvrtc.getSupportedArchs()]
        if architecture < min(known):
            oldest = f"{min(known) / 10}, the oldest that this NVRTC compiles for"
            raise DeviceError(f"compute capability {architecture / 10} is older than {oldest}")
        # A GPU newer than the compiler gets the newest intermediate code, which its driver translates.
        target = f"sm_{architecture}" if architecture in known else f"compute_{max(arch for arch in known if arch <= architecture)}"
        try:
            return self._compile(source, entries, target)
        except DeviceError:
            if len(entries) > 1:
                for entry in entries:  # a log for several would not tell which one failed
                    self._compile(source, [entry], target)
            raise

    def _compile(self, source: str, entries: Sequence[str], target: str) -> list[tuple[bytes, str]]:
        """`compile` for a target in NVRTC's terms: sm_90 means a binary image, compute_90 intermediate code."""
        nvrtc = self._cupy.cuda.nvrtc
        program = nvrtc.createProgram(source, "kernel.cu", (), ())
        try:
            for entry in entries:
                nvrtc.addNameExpression(program, entry)
            try:
                nvrtc.compileProgram(program, (*compile_options(nvrtc.getVersion()), f"--gpu-architecture={target}"))
            except nvrtc.NVRTCError as error:
                refused = ", ".join(entries)
                raise DeviceError(f"NVRTC refuses {refused} for {target}:\n{nvrtc.getProgramLog(program)}") from error
            image = bytes(nvrtc.getCUBIN(program) if target.startswith("sm_") else nvrtc.getPTX(program))
            return [(image, str(nvrtc.getLoweredName(program, entry))) for entry in entries]
        finally:
            nvrtc.destroyProgram(program)

    @_translated
    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> CupyFunction:
        with self.use(device):
            self._blas(device)  # made now, since a stream that is being captured later on may not allow it
            module = self._cupy.cuda.function.Module()
            module.load(image)
            launcher = module.get_function(symbol)
            if shared_bytes:
                own = self._driver.funcGetAttribute(_SHARED_BYTES, launcher.ptr)
                self._driver.funcSetAttribute(launcher.ptr, _MAX_DYNAMIC_SHARED_BYTES, shared_bytes - own)
            return CupyFunction(launcher, device, int(self._driver.funcGetAttribute(_MAX_THREADS_PER_BLOCK, launcher.ptr)))

    @_translated
    def attributes(self, function: CupyFunction) -> FunctionAttributes:
        def read(attribute: int) -> int:
            return int(self._driver.funcGetAttribute(attribute, function.launcher.ptr))

        with self.use(function.device):
            return FunctionAttributes(read(_REGISTERS), read(_LOCAL_BYTES), read(_SHARED_BYTES), function.max_threads)

    @_translated
    def occupancy(self, function: CupyFunction, threads: int, shared_bytes: int) -> int:
        with self.use(function.device):
            return int(self._driver.occupancyMaxActiveBlocksPerMultiprocessor(function.launcher.ptr, threads, shared_bytes))

    def launch(
        self,
        function: CupyFunction,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        argument: Array,
        stream: int,
        cooperative: bool = False,
    ) -> None:
        self.bind_launch(function, grid, threads, shared_bytes, argument, cooperative)(stream)

    @_translated
    def bind_launch(
        self,
        function: CupyFunction,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        argument: Array,
        cooperative: bool = False,
    ) -> Callable[[int], None]:
        # The driver is called directly: CuPy's wrappers inspect every argument each time, and shrink a cooperative grid that is too large.
        if cooperative:
            multiprocessors = self._runtime.deviceGetAttribute(self._runtime.cudaDevAttrMultiProcessorCount, function.device)
            resident = self.occupancy(function, threads, shared_bytes) * multiprocessors
            if grid[0] * grid[1] * grid[2] > resident:
                raise NotResidentError.of(grid[0] * grid[1] * grid[2], resident)
        call = self._driver.launchCooperativeKernel if cooperative else self._driver.launchKernel
        fixed = (function.launcher.ptr, *grid, threads, 1, 1, shared_bytes)
        parameters = np.array([argument.ctypes.data], np.uintp)
        pointers = (parameters.ctypes.data,) if cooperative else (parameters.ctypes.data, 0)

        def launch(stream: int, kept: Any = (function, argument, parameters)) -> None:  # keeps alive what the pointers point into
            try:
                call(*fixed, stream, *pointers)
            except Exception as error:
                failure = _device_error("launch", error)
                if isinstance(failure, NotResidentError):
                    failure = NotResidentError.of(grid[0] * grid[1] * grid[2])
                raise failure from error

        return launch

    def _blas(self, device: int) -> Cublas:
        """The device's cuBLAS handle."""
        found = self._cublas.get(device)
        if found is not None:
            return found
        with self._lock, self.use(device):
            if device not in self._cublas:
                self._cublas[device] = Cublas()
            return self._cublas[device]

    @_translated
    def workspace_size(self, device: int) -> int:
        """The workspace that lets cuBLAS choose among all its kernels: 32 MiB from Hopper on, 4 MiB before."""
        major = self._runtime.deviceGetAttribute(_COMPUTE_CAPABILITY_MAJOR, device)
        return (32 if major >= 9 else 4) << 20

    def gemm(
        self,
        device: int,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        stream: int,
        accumulate: bool = False,
        tf32: bool = False,
        workspace: int = 0,
    ) -> None:
        self.bind_gemm(device, a, b, c, accumulate, tf32, workspace)(stream)

    @_translated
    def bind_gemm(
        self, device: int, a: Matrix, b: Matrix, c: Matrix, accumulate: bool = False, tf32: bool = False, workspace: int = 0
    ) -> Callable[[int], None]:
        memory = (workspace, self.workspace_size(device)) if workspace else None
        product = self._blas(device).bind(a, b, c, accumulate, tf32, memory)

        def multiply(stream: int) -> None:
            try:
                product(stream)
            except DeviceError:
                raise
            except Exception as error:
                raise _device_error("gemm", error) from error

        return multiply

    # memory

    @contextmanager
    def _on(self, device: int, stream: int) -> Iterator[None]:
        """Makes the device and the stream CuPy's current ones: its memory pool returns a freed block to the stream that asked for it."""
        cuda = self._cupy.cuda
        with self.use(device):
            if cuda.get_current_stream().ptr == stream:
                yield
                return
            wrap = getattr(cuda.Stream, "from_external", None)
            with cuda.ExternalStream(stream) if wrap is None else wrap(_Stream(stream)):
                yield

    @_translated
    def host_words(self, device: int, count: int) -> tuple[int, Any]:
        runtime, size = self._runtime, count * ctypes.sizeof(ctypes.c_uint32)
        needed = (runtime.cudaDevAttrCanMapHostMemory, runtime.cudaDevAttrUnifiedAddressing)
        if not all(runtime.deviceGetAttribute(attribute, device) for attribute in needed):
            raise DeviceError("kernels of this device cannot write to host memory at its own address")
        with self.use(device):
            # Not of CuPy's pool, and never freed: a kernel that is under way may still write there.
            address = int(runtime.hostAlloc(size, runtime.hostAllocPortable | runtime.hostAllocMapped))
        ctypes.memset(address, 0, size)
        return address, (ctypes.c_uint32 * count).from_address(address)

    @_translated
    def allocate(self, device: int, size: int, stream: int) -> CupyMemory:
        self._take_back()
        with self._on(device, stream):
            try:
                memory = self._cupy.cuda.alloc(size)
            except MemoryError:
                if not self._take_back(wait=True):
                    raise
                memory = self._cupy.cuda.alloc(size)
        return CupyMemory(self, device, size, stream, memory)

    def _take_back(self, *, wait: bool = False) -> int:
        """Frees the returning blocks whose work is done, or with `wait` all of them, and returns how many were freed."""
        taken = 0
        for _ in range(len(self.returning)):
            try:
                block, events = self.returning.popleft()
            except IndexError:  # another thread took it
                break
            done = False
            with suppress(Exception):  # while a stream is being captured, the query may fail
                if wait:
                    for event in events:
                        event.synchronize()
                done = all(event.done for event in events)
            if done:
                taken += 1
            else:
                self.returning.append((block, events))
        return taken

    def record(self, device: int, stream: int, event: Any = None) -> Any:
        """Records an event, the given or a new one, after all work that is now on the stream."""
        with self.use(device):
            if event is None:
                event = self._cupy.cuda.Event(disable_timing=True)
            self._runtime.eventRecord(event.ptr, stream)
        return event

    @_translated
    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        self._runtime.memcpyAsync(destination, source, size, self._runtime.memcpyDeviceToDevice, stream)

    @_translated
    def memset(self, pointer: int, value: int, size: int, stream: int) -> None:
        self._runtime.memsetAsync(pointer, value, size, stream)

    @_translated
    def empty(self, device: int, sizes: Sequence[int], strides: Sequence[int], data_type: np.dtype[Any], stream: int) -> Any:
        item = np.dtype(data_type).itemsize
        span = 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        memory = self.allocate(device, span * item, stream)
        return self._cupy.ndarray(tuple(sizes), data_type, memptr=memory.owner, strides=tuple(stride * item for stride in strides))

    @_translated
    def to_device(self, device: int, array: Array, stream: int) -> Any:
        packed = np.ascontiguousarray(array)
        with self._on(device, stream):
            made = self._cupy.empty(packed.shape, packed.dtype)
            if packed.nbytes:
                self._runtime.memcpyAsync(made.data.ptr, packed.ctypes.data, packed.nbytes, self._runtime.memcpyHostToDevice, stream)
                self._runtime.streamSynchronize(stream)  # the GPU reads pinned memory itself, so `packed` must live until then
        return made

    @_translated
    def to_host(self, array: Any, stream: int) -> Array:
        given = self._cupy.asarray(array)
        with self._on(given.device.id, stream):
            result: Array = self._cupy.asnumpy(given)
        return result

    @_translated
    def read(self, pointer: int, size: int, stream: int) -> bytes:
        data = np.empty(size, np.uint8)
        self._runtime.memcpyAsync(data.ctypes.data, pointer, size, self._runtime.memcpyDeviceToHost, stream)
        self._runtime.streamSynchronize(stream)
        return data.tobytes()

    def view(self, value: Any) -> ArrayView | None:
        # __cuda_array_interface__ makes a dictionary each time, and asks for the current stream.
        if type(value) is not self._cupy.ndarray:
            return None
        return ArrayView(int(value.data.ptr), value.shape, value.strides, value.dtype, "cuda", False, value)

    @_translated
    def from_dlpack(self, value: Any) -> Any:
        _, device = value.__dlpack_device__()
        with self.use(device):
            return self._cupy.from_dlpack(value)

    # order

    @_translated
    def current_stream(self, device: int) -> int:
        return int(self._cupy.cuda.get_current_stream(device).ptr)

    @_translated
    def synchronize(self, stream: int) -> None:
        self._runtime.streamSynchronize(stream)

    @_translated
    def is_capturing(self, stream: int) -> bool:
        return stream not in _LEGACY_STREAMS and bool(self._runtime.streamIsCapturing(stream))

    @_translated
    def capture(self, device: int, issue: Callable[[int], None]) -> Any:
        with self.use(device):
            stream = self._cupy.cuda.Stream(non_blocking=True)
            stream.begin_capture()
            try:
                issue(stream.ptr)
            except BaseException:
                with suppress(Exception):  # errors of ending the capture follow from the first failure
                    stream.end_capture()
                raise
            return stream.end_capture()

    @_translated
    def launch_graph(self, graph: Any, stream: int) -> None:
        self._runtime.graphLaunch(graph.graphExec, stream)

    @_translated
    def record_event(self, stream: int) -> Any:
        event = self._cupy.cuda.Event()
        self._runtime.eventRecord(event.ptr, stream)
        return event

    @_translated
    def elapsed_ms(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(start, end))

    # profiling

    @functools.cached_property
    def _ranges(self) -> tuple[Callable[[str], object], Callable[[], object]]:
        """NVTX's functions; they do nothing if CuPy was built without NVTX."""
        nvtx: Any = getattr(self._cupy.cuda, "nvtx", None)
        if getattr(nvtx, "available", False):
            return nvtx.RangePush, nvtx.RangePop
        return lambda name: None, lambda: None

    def push_range(self, name: str) -> None:
        self._ranges[0](name)

    def pop_range(self) -> None:
        self._ranges[1]()


_is_a_seam: type[Seam] = CupySeam
