"""The runtime between dmlpy and CUDA, played by the CPU: whole CUDA plans run on a machine without a GPU.

Kernels are compiled by g++ and executed for real, matrix products are NumPy's, device memory lies between guard words and starts filled
with 0xFF. The runtime is as strict as CUDA: what a driver refuses raises DeviceError here, and everything is counted in `counts`.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import ArrayView, interface_type
from dmlpy.devices.cuda.emulation.arithmetic import matrix_product
from dmlpy.devices.cuda.emulation.compiler import (
    ARITHMETICS,
    FLAGS,
    PATIENCE_S,
    LaunchShape,
    Relocation,
    SharedKernel,
    compile_sanitized,
    compile_shared,
    compiler_version,
    run_program,
)
from dmlpy.devices.cuda.emulation.launches import CooperativeLaunch, CpuFunction, file_of, pointer_offsets
from dmlpy.devices.cuda.emulation.memory import POISON, AddressMap, Allocation, CpuMemory, DeviceArray, host_view, packed_strides
from dmlpy.devices.cuda.emulation.streams import CpuStreams
from dmlpy.devices.cuda.runtime.interface import CudaRuntime, FunctionAttributes, Fusion, Limits, Matrix, MatrixProduct
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Array = np.ndarray[Any, Any]

H100 = Limits("H100 on the CPU", 90, 132, 227 * 1024, 80 << 30, 13000, 13000)
T4 = Limits("T4 on the CPU", 75, 40, 64 * 1024, 16 << 30, 13000, 13000)


def replace_occurrence(source: str, text: str, place: int, replacement: str = "") -> str:
    """The source with another text, or none, for occurrence number `place` of `text`, if it has that many."""
    parts = source.split(text)
    if place + 1 >= len(parts):
        return source
    return text.join([*parts[:place], parts[place] + replacement + parts[place + 1], *parts[place + 2 :]])


def approximates(runtime: object) -> bool:
    """Whether float functions may be off by more than the C library's are: on a GPU, and on a CPU if requested."""
    return runtime.arithmetic != "exact" if isinstance(runtime, EmulatedRuntime) else runtime is not None


class EmulatedRuntime(CpuStreams):
    """A `CudaRuntime` over the CPU.

    Attributes:
        arithmetic: as given.
        counts: how often each of the runtime's functions was called, by name.
        ranges: what was pushed and popped for profilers, in order.
        stream: what `current_stream` answers.
        left: how many multiprocessors a launch is given, if that is fewer than the device has.

    Args:
        limits: the device that it claims to be.
        devices: how many of them.
        sanitize: "thread" or "address,undefined": each launch then runs as a program of its own under these sanitizers, over copies of
            the allocations that its argument points into, and what they find raises DeviceError.
        sanitized: how the entries begin to which that applies; all others run as without.
        symbols: kernels are compiled for a debugger: not optimized, and with their variables and lines.
        seed: shuffles the order in which CUDA threads run.
        patience_s: how long a block may wait for another before the launch counts as hung.
        delay_us: bounds the random pause of a block before it releases something to others.
        arithmetic: one of `ARITHMETICS`. In all but "exact" approximate functions are off by all that is documented, sums on tensor
            cores are cut off, and so are the factors of a TF32 product. With " fused" behind it products and sums are rounded together
            where NVRTC does so. By default the value of the variable DMLPY_TEST_ARITHMETIC, else "exact".
        fault: `("__syncthreads();", 2)` deletes the third such text from each source that has one, to see that the loss is noticed; a
            third member takes its place.
    """

    name = "cpu"

    def __init__(
        self,
        limits: Limits = H100,
        *,
        devices: int = 1,
        sanitize: str = "",
        sanitized: tuple[str, ...] = ("",),
        symbols: bool = False,
        seed: int = 0,
        patience_s: float = PATIENCE_S,
        delay_us: int = 0,
        arithmetic: str | None = None,
        fault: tuple[str, int] | tuple[str, int, str] | None = None,
    ) -> None:
        super().__init__()
        self.ranges: deque[tuple[str, str]] = deque(maxlen=1000)
        self.stream = 0
        self.left = limits.multiprocessors
        self._limits = limits
        self._devices = devices
        self._sanitize = sanitize
        self._sanitized = sanitized
        self._symbols = symbols
        self._seed = seed
        self._patience_s = patience_s
        self._delay_us = delay_us
        self.arithmetic, _, fused = (arithmetic or os.environ.get("DMLPY_TEST_ARITHMETIC", "exact")).partition(" ")
        self._fused = fused == "fused"
        if self.arithmetic not in ARITHMETICS or fused not in ("", "fused"):
            raise ValueError(f"{self.arithmetic!r} {fused!r} is none of the arithmetics {ARITHMETICS}, fused or not")
        self._fault = fault
        self._lock = forks.lock()
        self._memory = AddressMap()
        self._kernels: dict[Path, SharedKernel] = {}
        self._host_words: list[CpuMemory] = []

    # the device

    def device_count(self) -> int:
        return self._devices

    def limits(self, device: int) -> Limits:
        self._check_device(device)
        return self._limits

    def free_memory(self, device: int) -> int:
        self._check_device(device)
        return self._limits.total_memory - self._memory.live_bytes()

    def use(self, device: int) -> contextlib.nullcontext[None]:
        self._check_device(device)
        return contextlib.nullcontext()

    def _check_device(self, device: int) -> None:
        if not 0 <= device < self._devices:
            raise DeviceError(f"there is no device {device} among {self._devices}")

    # kernels

    def compiler_version(self) -> str:
        return f"{compiler_version()} {' '.join(FLAGS)} {self._sanitize} {self._sanitized} {self._symbols} {self._fault} {self._fused}"

    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        with self._lock:  # the library compiles files side by side
            self._count_outside_capture("compile")
        if self._fault is not None:
            source = replace_occurrence(source, *self._fault)
        return [(self._compile(source, entry).read_bytes(), entry) for entry in entries]

    def _compile(self, source: str, entry: str) -> Path:
        if self._sanitizes(entry):
            return compile_sanitized(source, entry, self._sanitize)
        return compile_shared(source, entry, fused=self._fused, symbols=self._symbols)

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        self._count_outside_capture("load")
        self._check_device(device)
        if shared_bytes > self._limits.shared_memory_per_block:
            raise DeviceError(f"{shared_bytes} bytes of shared memory are more than {self._limits.shared_memory_per_block}")
        path = file_of(image)
        if self._sanitizes(symbol):
            return CpuFunction(path, shared_bytes)
        with self._lock:
            kernel = self._kernels.get(path)
            if kernel is None:
                kernel = self._kernels[path] = self._open(path, symbol)
        return CpuFunction(kernel, shared_bytes)

    def _open(self, path: Path, entry: str) -> SharedKernel:
        return SharedKernel(path)

    def _sanitizes(self, entry: str) -> bool:
        return bool(self._sanitize) and entry.startswith(self._sanitized)

    def attributes(self, function: CpuFunction) -> FunctionAttributes:
        return FunctionAttributes(64, 0, function.static_shared_bytes)

    def occupancy(self, function: CpuFunction, threads: int, shared_bytes: int) -> int:
        """Bounded by threads, by shared memory (1 KiB of it the system's for each block) and by 64 registers a thread."""
        per_block = shared_bytes + function.static_shared_bytes
        if per_block > self._limits.shared_memory_per_block or threads > 1024:
            return 0
        warps = -(-threads // 32)
        resident_warps = 32 if self._limits.compute_capability == 75 else 64
        by_shared_memory = (self._limits.shared_memory_per_block + 1024) // (per_block + 1024)
        return min(resident_warps // warps, by_shared_memory, 65536 // (64 * 32 * warps), resident_warps // 2)

    def launch(
        self,
        function: CpuFunction,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        argument: Array,
        stream: int,
        cooperative: bool = False,
    ) -> None:
        self.counts["launch"] += 1
        if not (0 < threads <= 1024 and 0 < grid[0] < 2**31 and 0 < grid[1] < 2**16 and 0 < grid[2] < 2**16):
            raise DeviceError(f"a grid of {grid} blocks of {threads} threads cannot be launched")
        if shared_bytes > max(0, function.shared_bytes - function.static_shared_bytes):
            static = f", of which the kernel has {function.static_shared_bytes} itself" if function.static_shared_bytes else ""
            raise DeviceError(f"launched with {shared_bytes} bytes of shared memory, loaded for {function.shared_bytes}{static}")
        if argument.size != 1:
            raise DeviceError(f"a kernel's argument is one struct, not {argument.size}")
        shape = LaunchShape(grid, threads, shared_bytes, cooperative, self._seed, self._patience_s, self._delay_us, self.arithmetic)
        own_argument = argument.copy()  # as a launch does: the caller may change its argument at once
        kernel = function.kernel

        def run() -> None:
            if isinstance(kernel, Path):
                self._run_program(kernel, shape, own_argument)
            else:
                self._run_here(kernel, shape, own_argument)

        if not cooperative:
            self._issue(stream, run)
            return
        together = CooperativeLaunch(run, grid[0] * grid[1] * grid[2], self.occupancy(function, threads, shared_bytes))
        together.check(self)
        self._issue(stream, together)

    def bind_launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        argument: Array,
        cooperative: bool = False,
    ) -> Callable[[int], None]:
        return lambda stream: self.launch(function, grid, threads, shared_bytes, argument, stream, cooperative)

    def _run_here(self, kernel: SharedKernel, shape: LaunchShape, argument: Array) -> None:
        list(self._pointed_at(argument))  # raises where a pointer leads to freed memory
        kernel.run(shape, argument)

    def _pointed_at(self, argument: Array) -> Iterator[tuple[int, int, Allocation]]:
        """Each pointer of an argument: its offset, its address, and what it points into. DeviceError if that is freed."""
        struct = argument.tobytes()
        for offset in pointer_offsets(argument.dtype):
            address = int.from_bytes(struct[offset : offset + 8], "little")
            allocation = self._memory.find(address)
            if allocation is not None:
                yield offset, address, allocation

    def _run_program(self, program: Path, shape: LaunchShape, argument: Array) -> None:
        """Runs a sanitized program over copies of the allocations that the argument points into."""
        relocations: list[Relocation] = []
        reached: list[Allocation] = []
        for offset, address, allocation in self._pointed_at(argument):
            if allocation not in reached:
                reached.append(allocation)
            relocations.append(Relocation(offset, reached.index(allocation), address - allocation.pointer))
        contents = [ctypes.string_at(allocation.pointer, allocation.size) for allocation in reached]
        after, report = run_program(program, shape, argument.tobytes(), relocations, contents)
        if report:
            raise DeviceError(report)
        for allocation, data in zip(reached, after, strict=True):
            ctypes.memmove(allocation.pointer, data, allocation.size)

    def workspace_size(self, device: int) -> int:
        self._check_device(device)
        return 512

    def gemm(self, device: int, product: MatrixProduct, stream: int, workspace: int = 0) -> None:
        a, b, c = product.a, product.b, product.c
        self.counts["gemm"] += 1
        self._check_device(device)
        if workspace % 256:
            raise DeviceError(f"a workspace at {workspace:#x} is not aligned")
        if not workspace and stream in self._recordings:
            self.counts["allocation in a graph"] += 1  # by cuBLAS
        if (a.rows, b.rows, a.columns) != (c.rows, c.columns, b.columns):
            raise DeviceError(f"the sizes of {a}, {b} and {c} do not fit")
        results = [np.dtype(np.float32), *([a.data_type] if not product.accumulate else [])]
        if a.data_type != b.data_type or a.data_type.name not in ("float32", "float16", "bfloat16") or c.data_type not in results:
            raise DeviceError(f"no product of {a.data_type} and {b.data_type} into {c.data_type}")
        if c.transposed:
            raise DeviceError(f"a product is written row by row, not into {c}")

        def multiply() -> None:
            if workspace:  # whatever was there is spoilt
                self._memory.check_range(workspace, self.workspace_size(device))
                ctypes.memset(workspace, POISON, self.workspace_size(device))
            for number in range(product.batch):
                left, right, result = (self._matrix(matrix, number) for matrix in (a, b, c))
                with np.errstate(all="ignore"):  # a GPU does not warn
                    value = matrix_product(left, right, tf32=product.rounds, truncates=self.arithmetic != "exact")
                    result[...] = result + value if product.accumulate else value

        self._issue(stream, multiply)

    def bind_gemm(self, device: int, product: MatrixProduct, workspace: int = 0) -> Callable[[int], None]:
        return lambda stream: self.gemm(device, product, stream, workspace)

    def bind_fused_gemm(self, device: int, product: MatrixProduct, fusion: Fusion, workspace: int) -> Callable[[int], None] | None:
        a, b, c = product.a, product.b, product.c
        self._check_device(device)
        if c.data_type != a.data_type or c.transposed or (fusion.addend is not None and fusion.addend.transposed):
            raise DeviceError(f"no product of {a} and {b} into {c} with {fusion}")

        def multiply() -> None:
            self._memory.check_range(workspace, self.workspace_size(device))
            ctypes.memset(workspace, POISON, self.workspace_size(device))
            for number in range(product.batch):
                left, right, result = (self._matrix(matrix, number) for matrix in (a, b, c))
                with np.errstate(all="ignore"):  # a GPU does not warn
                    value: Array = np.float32(fusion.alpha) * matrix_product(
                        left, right, tf32=product.rounds, truncates=self.arithmetic != "exact"
                    )
                    if fusion.addend is not None:
                        value = value + np.float32(fusion.beta) * self._matrix(fusion.addend, number)
                    if fusion.bias:
                        self._memory.check_range(fusion.bias, c.columns * c.data_type.itemsize)
                        value = value + host_view(fusion.bias, (c.columns,), (c.data_type.itemsize,), c.data_type)
                    result[...] = np.where(value < 0, 0, value) if fusion.relu else value

        def issue(stream: int) -> None:
            self.counts["fused gemm"] += 1
            self._issue(stream, multiply)

        return issue

    def _matrix(self, given: Matrix, number: int) -> Array:
        """One matrix of a batch as an array."""
        item = given.data_type.itemsize
        matrix = dataclasses.replace(given, pointer=given.pointer + number * given.step * item)
        sizes = (matrix.columns, matrix.rows) if matrix.transposed else (matrix.rows, matrix.columns)
        if matrix.row_stride < sizes[1] or matrix.pointer % item:
            raise DeviceError(f"rows overlap or are misaligned: {matrix}")
        if matrix.rows and matrix.columns:
            self._memory.check_range(matrix.pointer, ((sizes[0] - 1) * matrix.row_stride + sizes[1]) * item)
        stored = host_view(matrix.pointer, sizes, (matrix.row_stride * item, item), matrix.data_type)
        return stored.T if matrix.transposed else stored

    # memory

    def host_words(self, device: int, count: int) -> tuple[int, Any]:
        self._count_outside_capture("host_words")
        self._check_device(device)
        memory = self._memory.allocate(4 * count)
        self._host_words.append(memory)
        ctypes.memset(memory.pointer, 0, 4 * count)
        return memory.pointer, (ctypes.c_uint32 * count).from_address(memory.pointer)

    def allocate(self, device: int, size: int, stream: int) -> CpuMemory:
        self.counts["allocate"] += 1
        free = self.free_memory(device)
        if size > free:
            raise DeviceError(f"out of memory: {size} bytes asked for, {free} free", hresult=HResult.E_OUTOFMEMORY)
        memory = self._memory.allocate(size)
        memory.used = self._hold
        memory.used_in(stream)
        return memory

    def memory_of(self, device: int, array: Any, stream: int) -> CpuMemory:
        memory: CpuMemory = array.owner
        return memory

    def _hold(self, memory: CpuMemory, stream: int) -> None:
        """Keeps memory alive for the graph, if the stream is being captured. Other work is done when it is enqueued."""
        if stream in self._recordings:
            self._recordings[stream].retained.append(memory)

    def check_guards(self) -> None:
        """Raises AssertionError if a byte outside any allocation was written, be it freed since or not."""
        self._memory.check_guards()

    def copy(self, destination: int, source: int, size: int, stream: int) -> None:
        self.counts["copy"] += 1

        def move() -> None:
            self._memory.check_range(destination, size)
            self._memory.check_range(source, size)
            ctypes.memmove(destination, source, size)

        self._issue(stream, move)

    def memset(self, pointer: int, value: int, size: int, stream: int) -> None:
        self.counts["memset"] += 1

        def fill() -> None:
            self._memory.check_range(pointer, size)
            ctypes.memset(pointer, value, size)

        self._issue(stream, fill)

    def empty(self, device: int, sizes: Sequence[int], strides: Sequence[int], data_type: np.dtype[Any], stream: int) -> DeviceArray:
        data_type = np.dtype(data_type)
        elements = 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        memory = self.allocate(device, elements * data_type.itemsize, stream)
        return DeviceArray(memory, memory.pointer, sizes, [stride * data_type.itemsize for stride in strides], data_type)

    def to_device(self, device: int, array: Array, stream: int) -> DeviceArray:
        self.counts["to_device"] += 1
        self._refuse_capture("to_device", stream)
        copy = self.empty(device, array.shape, packed_strides(array.shape), array.dtype, stream)
        copy.set(array)
        return copy

    def upload(self, device: int, data: Array, stream: int) -> CpuMemory:
        self.counts["upload"] += 1
        self._refuse_capture("upload", stream)
        memory = self.allocate(device, data.nbytes, stream)
        ctypes.memmove(memory.pointer, data.ctypes.data, data.nbytes)
        return memory

    def to_host(self, array: Any, stream: int) -> Array:
        self._count_outside_capture("to_host")
        described = array.__cuda_array_interface__
        data_type = interface_type(array, described["typestr"])
        sizes = described["shape"]
        strides = described.get("strides") or [stride * data_type.itemsize for stride in packed_strides(sizes)]
        return host_view(described["data"][0], sizes, strides, data_type).copy()

    def read(self, pointer: int, size: int, stream: int) -> bytes:
        self._count_outside_capture("read")
        self._memory.check_range(pointer, size)
        return ctypes.string_at(pointer, size)

    def place_of(self, device: int, pointer: int) -> str | None:
        return None

    def view(self, value: Any) -> ArrayView | None:
        if type(value) is not DeviceArray:
            return None
        return ArrayView(value.pointer, value.shape, value.strides, value.dtype, "cuda:0", False, value)

    def from_dlpack(self, value: Any) -> DeviceArray:
        kind, device = value.__dlpack_device__()
        if kind != 2:
            raise DeviceError(f"the DLPack device type {kind} is not CUDA's")
        self._check_device(device)

        class OnHost:
            """The same capsule, marked as the host's: NumPy takes no other."""

            def __dlpack_device__(self) -> tuple[int, int]:
                return 1, 0

            def __dlpack__(self, **_: Any) -> Any:
                return value.__dlpack__()

        array: Array = np.from_dlpack(OnHost())
        return DeviceArray((value, array), array.ctypes.data, array.shape, array.strides, array.dtype)

    # order

    def current_stream(self, device: int) -> int:
        self._check_device(device)
        return self.stream

    def wait_for(self, device: int, producer: int) -> Callable[[int], bool]:
        """Work is done when it is enqueued: there is nothing to wait for."""
        self.counts["wait_for"] += 1
        return lambda stream: True

    def capture(self, device: int, issue: Callable[[int], None]) -> Any:
        self.counts["capture"] += 1
        self._check_device(device)
        stream = self.begin_capture()
        try:
            issue(stream)
        finally:
            graph = self.end_capture(stream)
        return graph

    def launch_graph(self, graph: Any, stream: int) -> None:
        self._count_outside_capture("launch_graph")
        self._check_stream(stream)
        for operation in graph:
            if isinstance(operation, CooperativeLaunch):
                operation.check(self)
        for operation in graph:
            operation()

    # profiling

    def push_range(self, name: str) -> None:
        self.ranges.append(("push", name))

    def pop_range(self) -> None:
        self.ranges.append(("pop", ""))


_is_a_runtime: type[CudaRuntime] = EmulatedRuntime
