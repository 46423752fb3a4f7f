"""`CupyRuntime`: the CUDA runtime by CuPy. CuPy is imported on first use.

Streams are passed as integers, so the runtime's and the driver's functions are called by CuPy's thin bindings. Kernels are CuPy functions
over modules that dmlpy compiles: CuPy's compiler adds options (`-ftz=true`) that would change results, and its cache does not depend on
dmlpy's options.
"""

from __future__ import annotations

import ctypes
import functools
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import ArrayView
from dmlpy.devices.cuda.runtime.availability import without_cupy, without_gpu
from dmlpy.devices.cuda.runtime.captures import CaptureDriver
from dmlpy.devices.cuda.runtime.cublas import Cublas
from dmlpy.devices.cuda.runtime.cublas_lt import CublasLt
from dmlpy.devices.cuda.runtime.cupy_errors import device_error, translated
from dmlpy.devices.cuda.runtime.cupy_pool import CupyMemory, CupyPool, Use
from dmlpy.devices.cuda.runtime.interface import CudaRuntime, FunctionAttributes, Fusion, Limits, MatrixProduct, NotResidentError
from dmlpy.devices.cuda.runtime.streams import Wait, arena
from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Array = np.ndarray[Any, Any]

_COMPILE_OPTIONS = ("--std=c++17", "--device-as-default-execution-space")
"""Without the second, NVRTC before 13.2 compiles the kernels' generic lambdas as host functions, and lambdas cannot be annotated."""
_OLDEST_COMPLETE = (12, 1)
"""The oldest NVRTC that compiles all kernels: 12.0 does not know how the blocks of a cluster write to each other."""
_MINIMAL_SINCE = (12, 9)
"""The oldest NVRTC that `--minimal` was tested with. It omits CUDA declarations that no kernel here needs, which saves compile time."""

# CUfunction_attribute of cuda.h
_SHARED_BYTES, _LOCAL_BYTES, _REGISTERS, _MAX_DYNAMIC_SHARED_BYTES = 1, 3, 4, 8
_COMPUTE_CAPABILITY_MAJOR = 75
"""A cudaDeviceAttr without a name in CuPy."""
_PAGEABLE_MEMORY_ACCESS = 88
"""A cudaDeviceAttr, too: whether kernels can access all memory of the host."""
_UNREGISTERED, _DEVICE = 0, 2
"""cudaMemoryType: memory unknown to CUDA, and memory of one GPU. Every GPU accesses page-locked (1) and managed memory (3)."""


def compile_options(version: tuple[int, int]) -> tuple[str, ...]:
    """The compile options for a version of NVRTC, without the architecture."""
    return (*_COMPILE_OPTIONS, "--minimal") if version >= _MINIMAL_SINCE else _COMPILE_OPTIONS


def compiler_name(version: tuple[int, int]) -> str:
    """A version of NVRTC with its options: part of the key of compiled kernels."""
    major, minor = version
    return " ".join([f"NVRTC {major}.{minor}", *compile_options(version)])


def _too_old(version: tuple[int, int]) -> str:
    """Why a version of NVRTC may refuse a kernel, as part of a sentence; empty if it compiles all of them."""
    if version >= _OLDEST_COMPLETE:
        return ""
    given, needed = (".".join(map(str, numbers)) for numbers in (version, _OLDEST_COMPLETE))
    return f", as NVRTC {given} is older than {needed}, which all kernels need: install a newer CUDA toolkit, or dmlpy[cuda12]"


class _Names(dict[int, str]):
    """The names of GPUs by ordinal."""

    def __missing__(self, ordinal: int) -> str:
        name = self[ordinal] = f"cuda:{ordinal}"
        return name


@dataclass(frozen=True)
class CupyFunction:
    """A loaded kernel; `launcher` is CuPy's `Function`, which holds its module."""

    launcher: Any
    device: int


class CupyRuntime:
    """The CUDA runtime over CuPy 14 or newer. Threads may share it; see `CudaRuntime` for the methods.

    Calls that CUDA may reject while another thread captures a stream use the relaxed mode: allocating, loading, waiting.
    """

    name = "CuPy"

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._cublas: dict[int, Cublas] = {}
        self._cublas_lt: dict[int, CublasLt] = {}
        self._names = _Names()

    @functools.cached_property
    def _cupy(self) -> Any:
        try:
            import cupy
        except Exception as error:  # CuPy and its CUDA libraries fail in many ways
            raise DeviceError(without_cupy(error)) from error
        return cupy

    @functools.cached_property
    def _array_type(self) -> Any:
        return self._cupy.ndarray

    @functools.cached_property
    def _cudart(self) -> Any:
        return self._cupy.cuda.runtime

    @functools.cached_property
    def _captures(self) -> CaptureDriver:
        return CaptureDriver()

    @functools.cached_property
    def pool(self) -> CupyPool:
        """The source of memory."""
        return CupyPool(self._cupy, self._captures)

    @property
    def _driver(self) -> Any:
        return self._cupy.cuda.driver

    # the device

    def device_count(self) -> int:
        try:
            count = int(self._cudart.getDeviceCount())
        except DeviceError:
            raise
        except Exception as error:
            raise DeviceError(without_gpu(self._cudart, error)) from error
        return count

    @translated
    def limits(self, device: int) -> Limits:
        cudart = self._cudart
        properties = cudart.getDeviceProperties(device)
        name = properties["name"]
        memory_khz = cudart.deviceGetAttribute(cudart.cudaDevAttrMemoryClockRate, device)
        return Limits(
            name=name.decode() if isinstance(name, bytes) else str(name),
            compute_capability=10 * int(properties["major"]) + int(properties["minor"]),
            multiprocessors=int(cudart.deviceGetAttribute(cudart.cudaDevAttrMultiProcessorCount, device)),
            shared_memory_per_block=int(cudart.deviceGetAttribute(cudart.cudaDevAttrMaxSharedMemoryPerBlockOptin, device)),
            total_memory=int(properties["totalGlobalMem"]),
            driver_version=int(cudart.driverGetVersion()),
            runtime_version=int(cudart.runtimeGetVersion()),
            clock_hz=1e3 * cudart.deviceGetAttribute(cudart.cudaDevAttrClockRate, device),
            memory_rate=2e3 * memory_khz * cudart.deviceGetAttribute(cudart.cudaDevAttrGlobalMemoryBusWidth, device) / 8,
            l2_bytes=int(cudart.deviceGetAttribute(cudart.cudaDevAttrL2CacheSize, device)),
            cooperative=bool(cudart.deviceGetAttribute(cudart.cudaDevAttrCooperativeLaunch, device)),
        )

    @translated
    def free_memory(self, device: int) -> int:
        with self.use(device):
            free, _ = self._cudart.memGetInfo()
            return int(free) + int(self._cupy.get_default_memory_pool().free_bytes())

    def use(self, device: int) -> AbstractContextManager[None]:
        return Use(self._cudart, device)

    # kernels

    @translated
    def compiler_version(self) -> str:
        return compiler_name(self._cupy.cuda.nvrtc.getVersion())

    @translated
    def architectures(self) -> list[int]:
        """The architectures that this NVRTC makes binary images for, such as 90 for sm_90, in ascending order."""
        return sorted(int(supported) for supported in self._cupy.cuda.nvrtc.getSupportedArchs())

    @translated
    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        known = self.architectures()
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
                refused, log = ", ".join(entries), nvrtc.getProgramLog(program)
                raise DeviceError(f"NVRTC refuses {refused} for {target}{_too_old(nvrtc.getVersion())}:\n{log}") from error
            image = bytes(nvrtc.getCUBIN(program) if target.startswith("sm_") else nvrtc.getPTX(program))
            return [(image, str(nvrtc.getLoweredName(program, entry))) for entry in entries]
        finally:
            nvrtc.destroyProgram(program)

    @translated
    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> CupyFunction:
        with self.use(device), self._captures.relaxed():
            module = self._cupy.cuda.function.Module()
            module.load(image)
            launcher = module.get_function(symbol)
            if shared_bytes:
                static_bytes = self._driver.funcGetAttribute(_SHARED_BYTES, launcher.ptr)
                self._driver.funcSetAttribute(launcher.ptr, _MAX_DYNAMIC_SHARED_BYTES, shared_bytes - static_bytes)
            return CupyFunction(launcher, device)

    @translated
    def attributes(self, function: CupyFunction) -> FunctionAttributes:
        def read(attribute: int) -> int:
            return int(self._driver.funcGetAttribute(attribute, function.launcher.ptr))

        with self.use(function.device):
            return FunctionAttributes(read(_REGISTERS), read(_LOCAL_BYTES), read(_SHARED_BYTES))

    @translated
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

    @translated
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
            multiprocessors = self._cudart.deviceGetAttribute(self._cudart.cudaDevAttrMultiProcessorCount, function.device)
            resident = self.occupancy(function, threads, shared_bytes) * multiprocessors
            if grid[0] * grid[1] * grid[2] > resident:
                raise NotResidentError.of(grid[0] * grid[1] * grid[2], resident)
        call = self._driver.launchCooperativeKernel if cooperative else self._driver.launchKernel
        fixed = (function.launcher.ptr, *grid, threads, 1, 1, shared_bytes)
        parameters = np.array([argument.ctypes.data], np.uintp)
        pointers = (parameters.ctypes.data,) if cooperative else (parameters.ctypes.data, 0)

        def launch(stream: int, kept: Any = (function, argument, parameters)) -> None:  # keeps the pointers' targets alive
            try:
                call(*fixed, stream, *pointers)
            except Exception as error:
                failure = device_error("launch", error)
                if isinstance(failure, NotResidentError) and cooperative:
                    failure = NotResidentError.of(grid[0] * grid[1] * grid[2])
                raise failure from error

        return launch

    def _blas(self, device: int) -> Cublas:
        """The device's cuBLAS handle; it needs some hundred MB of libraries and of the GPU's memory, so it is created only for products."""
        library = self._cublas.get(device)
        if library is not None:
            return library
        with self._lock, self.use(device), self._captures.relaxed():
            if device not in self._cublas:
                self._cublas[device] = Cublas()
            return self._cublas[device]

    @translated
    def workspace_size(self, device: int) -> int:
        """The workspace that lets cuBLAS choose among all its kernels: 32 MiB from Hopper on, 4 MiB before.

        A plan with a product asks for it long before the product is bound or captured, so the handle is created here.
        """
        self._blas(device)
        major = self._cudart.deviceGetAttribute(_COMPUTE_CAPABILITY_MAJOR, device)
        return (32 if major >= 9 else 4) << 20

    def gemm(self, device: int, product: MatrixProduct, stream: int, workspace: int = 0) -> None:
        self.bind_gemm(device, product, workspace)(stream)

    @translated
    def bind_gemm(self, device: int, product: MatrixProduct, workspace: int = 0) -> Callable[[int], None]:
        memory = (workspace, self.workspace_size(device)) if workspace else None
        launch = self._blas(device).bind(product, memory)

        def multiply(stream: int) -> None:
            try:
                launch(stream)
            except DeviceError:
                raise
            except Exception as error:
                raise device_error("gemm", error) from error

        return multiply

    @translated
    def bind_fused_gemm(self, device: int, product: MatrixProduct, fusion: Fusion, workspace: int) -> Callable[[int], None] | None:
        library = self._cublas_lt.get(device)
        if library is None:
            with self._lock, self.use(device), self._captures.relaxed():
                try:
                    library = self._cublas_lt.setdefault(device, CublasLt())
                except DeviceError:
                    return None
        memory = workspace, self.workspace_size(device)
        with self.use(device):  # binding asks the library for an algorithm
            return library.bind(product, fusion, memory)

    # memory

    @translated
    def host_words(self, device: int, count: int) -> tuple[int, Any]:
        cudart, size = self._cudart, count * ctypes.sizeof(ctypes.c_uint32)
        needed = (cudart.cudaDevAttrCanMapHostMemory, cudart.cudaDevAttrUnifiedAddressing)
        if not all(cudart.deviceGetAttribute(attribute, device) for attribute in needed):
            raise DeviceError("kernels of this device cannot write to host memory at its own address")
        with self.use(device), self._captures.relaxed():
            # Not from CuPy's pool, and never freed: a running kernel may still write there.
            address = int(cudart.hostAlloc(size, cudart.hostAllocPortable | cudart.hostAllocMapped))
        ctypes.memset(address, 0, size)
        return address, (ctypes.c_uint32 * count).from_address(address)

    @translated
    def allocate(self, device: int, size: int, stream: int) -> CupyMemory:
        return self.pool.allocate(device, size, stream)

    def memory_of(self, device: int, array: Any, stream: int) -> CupyMemory:
        return CupyMemory(self.pool, device, array.nbytes, stream, array.data)

    @translated
    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        self._cudart.memcpyAsync(destination, source, size, self._cudart.memcpyDeviceToDevice, stream)

    @translated
    def memset(self, pointer: int, value: int, size: int, stream: int) -> None:
        self._cudart.memsetAsync(pointer, value, size, stream)

    @translated
    def empty(self, device: int, sizes: Sequence[int], strides: Sequence[int], data_type: np.dtype[Any], stream: int) -> Any:
        data_type = np.dtype(data_type)
        byte_strides = tuple([stride * data_type.itemsize for stride in strides])
        span = 0 if 0 in sizes else data_type.itemsize
        for size, stride in zip(sizes, byte_strides, strict=True) if span else ():
            span += (size - 1) * stride
        memory = self.pool.allocate(device, span, stream)
        return self._cupy.ndarray(tuple(sizes), data_type, memptr=memory.owner, strides=byte_strides)

    @translated
    def to_device(self, device: int, array: Array, stream: int) -> Any:
        packed = np.ascontiguousarray(array)
        return self._cupy.ndarray(packed.shape, packed.dtype, memptr=self.upload(device, packed, stream).owner)

    @translated
    def upload(self, device: int, data: Array, stream: int) -> CupyMemory:
        self._refuse_capture(stream)
        memory = self.pool.allocate(device, data.nbytes, stream)
        if data.nbytes:
            with self.use(device), self._captures.relaxed():
                self._cudart.memcpyAsync(memory.pointer, data.ctypes.data, data.nbytes, self._cudart.memcpyHostToDevice, stream)
                self._cudart.streamSynchronize(stream)  # the GPU reads pinned memory itself, so `data` must live until then
        return memory

    @translated
    def to_host(self, array: Any, stream: int) -> Array:
        self._refuse_capture(stream)
        given = self._cupy.asarray(array)
        with self.use(given.device.id), self._captures.relaxed(), self.pool.current(arena(stream)):
            result: Array = self._cupy.asnumpy(given)
        return result

    @translated
    def read(self, pointer: int, size: int, stream: int) -> bytes:
        self._refuse_capture(stream)
        data = np.empty(size, np.uint8)
        with self._captures.relaxed():
            self._cudart.memcpyAsync(data.ctypes.data, pointer, size, self._cudart.memcpyDeviceToHost, stream)
            self._cudart.streamSynchronize(stream)
        return data.tobytes()

    def _refuse_capture(self, stream: int) -> None:
        """Raises DeviceError in a stream that is being captured, where waiting would invalidate the capture."""
        if self.is_capturing(stream):
            raise DeviceError(
                f"a copy between host and GPU waits for its stream, and stream {stream:#x} is being captured in a CUDA graph: copy before "
                "the capture begins, or after its end"
            )

    def view(self, value: Any) -> ArrayView | None:
        # __cuda_array_interface__ creates a dictionary each time and queries the current stream.
        if type(value) is not self._array_type:
            return None
        data = value.data
        fields = data.ptr, value.shape, value.strides, value.dtype, self._names[data.device_id], False, value, None
        return tuple.__new__(ArrayView, fields)  # half the time of the class's own, once for each array of a call

    @translated
    def place_of(self, device: int, pointer: int) -> str | None:
        with self.use(device):
            attributes = self._cudart.pointerGetAttributes(pointer)
            if attributes.type == _DEVICE:
                return None if attributes.device == device else self._names[attributes.device]
            if attributes.type == _UNREGISTERED and not self._cudart.deviceGetAttribute(_PAGEABLE_MEMORY_ACCESS, device):
                return "cpu"
        return None

    @translated
    def from_dlpack(self, value: Any) -> Any:
        _, device = value.__dlpack_device__()
        with self.use(device):
            return self._cupy.from_dlpack(value)

    # order

    @translated
    def current_stream(self, device: int) -> int:
        return int(self._cupy.cuda.get_current_stream(device).ptr)

    @translated
    def synchronize(self, stream: int) -> None:
        with self._captures.relaxed():
            self._cudart.streamSynchronize(stream)

    def is_capturing(self, stream: int) -> bool:
        return self.pool.is_capturing(stream)

    @translated
    def wait_for(self, device: int, producer: int) -> Callable[[int], bool]:
        return Wait(self, device, producer)

    def record(self, device: int, stream: int) -> Any:
        """Records a new event after all work that is now on the stream."""
        return self.pool.record(device, stream)

    @translated
    def wait_event(self, stream: int, event: Any) -> None:
        """Makes a stream wait for an event."""
        self._cudart.streamWaitEvent(stream, event.ptr)

    @translated
    def capture(self, device: int, issue: Callable[[int], None]) -> Any:
        with self.use(device), self._captures.relaxed():
            stream = self._cupy.cuda.Stream(non_blocking=True)
            stream.begin_capture()
            try:
                issue(stream.ptr)
            except BaseException:
                with suppress(Exception):  # errors of ending the capture follow from the first failure
                    stream.end_capture()
                raise
            return stream.end_capture()

    @translated
    def launch_graph(self, graph: Any, stream: int) -> None:
        self._cudart.graphLaunch(graph.graphExec, stream)

    @translated
    def record_event(self, stream: int) -> Any:
        event = self._cupy.cuda.Event()
        self._cudart.eventRecord(event.ptr, stream)
        return event

    @translated
    def elapsed_ms(self, start: Any, end: Any) -> float:
        with self._captures.relaxed():
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


_is_a_runtime: type[CudaRuntime] = CupyRuntime
