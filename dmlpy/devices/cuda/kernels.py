"""`Kernel`, one CUDA entry point, and `KernelLibrary`, which compiles each of them once for a device."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dmlpy.debugging import CACHE, SOURCES
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.timeouts import Timeouts
from dmlpy.devices.host.processors import processors
from dmlpy.devices.persistence.image_store import ImageStore
from dmlpy.devices.plan import log_launch
from dmlpy.messages.problems import DeviceError
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.runtime.interface import CudaRuntime
    from dmlpy.devices.plan import Launch

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Struct = np.ndarray[Any, np.dtype[np.void]]
"""One element of a kernel's parameter struct."""


def struct(*fields: tuple[Any, ...]) -> np.dtype[np.void]:
    """The NumPy type of a C struct with these fields, laid out as a C++ compiler does."""
    return np.dtype(list(fields), align=True)


STRIDED = struct(("data", np.uint64), ("strides", np.int64, (4,)))
"""`Strided<T>` of raw_kernels/common/strided.cuh."""


def strided(desc: TensorDesc | None, pointer: int | None) -> tuple[int, tuple[int, ...]]:
    """The value of a `STRIDED` field for a four-dimensional tensor; marked absent without a desc or an address."""
    if desc is None or pointer is None:
        return 0, (0, 0, 0, 0)
    return pointer, desc.element_strides


ALIGNMENT = 256
"""The alignment in bytes of each array of scratch and packed constants, as cudaMalloc's blocks have."""


def scalar_type(data_type: np.dtype[Any]) -> str:
    """A floating-point element type as the kernels spell it."""
    return {"float32": "float", "float16": "machine::half", "bfloat16": "machine::bfloat16"}[data_type.name]


@dataclass(frozen=True)
class Kernel:
    """One CUDA entry point.

    Attributes:
        file: its source in raw_kernels/.
        entry: the C++ expression of the instance: `persistent_block<float, 1, Rnn, Activations<Tanh>, Activations<Tanh>>`.
        parameters: the struct that it takes by value.
        parameter_struct: the struct's C++ name.
        dynamic_shared: whether launches ask for dynamic shared memory.
        lowest_capability: the lowest compute capability that it runs on, as in `Limits.compute_capability`.
    """

    file: str
    entry: str
    parameters: np.dtype[np.void]
    parameter_struct: str
    dynamic_shared: bool = False
    lowest_capability: int = 75


class KernelLibrary:
    """The kernels of one device. Each is compiled on first request and stored on disk for later processes.

    Threads may share it.

    Attributes:
        runtime: the CUDA implementation.
        device: the device's ordinal.
        limits: the device's capabilities.
        keys: the keys of the requested kernels in the image store.
        compiled: those that were not in the store.
        timeouts: the reports of kernels whose blocks wait for each other.
    """

    def __init__(self, runtime: CudaRuntime, device_ordinal: int) -> None:
        self.runtime = runtime
        self.device = device_ordinal
        self.limits = runtime.limits(device_ordinal)
        self.keys: dict[Kernel, str] = {}
        self.compiled: dict[Kernel, None] = {}
        self.timeouts = Timeouts(runtime, device_ordinal)
        self._functions: dict[Kernel, Any] = {}
        self._pending: dict[Kernel, Future[Any]] = {}
        """The kernels that threads are compiling."""
        self._lock = forks.lock()

    def function(self, kernel: Kernel) -> Any:
        """The loaded kernel, as the runtime's launches take it. Raises what `functions` raises."""
        function = self._functions.get(kernel)
        return self.functions([kernel])[0] if function is None else function

    def functions(self, kernels: Iterable[Kernel]) -> list[Any]:
        """The loaded kernels, as the runtime's launches take them. A plan requests all its kernels in one call.

        Missing ones are compiled: instances of the same file in one program, different files in parallel threads. The call waits for
        kernels that another thread is compiling.

        Raises:
            DeviceError: one cannot be compiled or loaded, or the device is too old for it.
        """
        wanted = list(kernels)
        while any(kernel not in self._functions for kernel in wanted):
            with self._lock:
                missing = [kernel for kernel in wanted if kernel not in self._functions]
                others = [self._pending[kernel] for kernel in missing if kernel in self._pending]
                futures = {kernel: Future[Any]() for kernel in missing if kernel not in self._pending}
                self._pending |= futures
            if futures:  # before waiting, so that threads cannot wait for each other in a cycle
                self._make(futures)
            for other in others:
                with contextlib.suppress(CancelledError):  # the other thread was interrupted: this one compiles
                    other.result()
        return [self._functions[kernel] for kernel in wanted]

    def _make(self, futures: Mapping[Kernel, Future[Any]]) -> None:
        """Loads kernels and wakes the threads that wait for them; `futures` holds those that this thread has put into `_pending`."""
        failure: DeviceError | None = None
        loaded: dict[Kernel, Any] = {}
        try:
            for kernel, (image, symbol) in self.images(list(futures)).items():
                shared_bytes = self.limits.shared_memory_per_block if kernel.dynamic_shared else 0
                loaded[kernel] = self.runtime.load(self.device, image, symbol, shared_bytes)
        except DeviceError as error:
            failure = error
            raise
        finally:
            with self._lock:
                self._functions |= loaded
                for kernel in futures:
                    del self._pending[kernel]
            for kernel, future in futures.items():
                if kernel in loaded:
                    future.set_result(loaded[kernel])
                elif failure is not None:
                    future.set_exception(failure)
                else:
                    future.cancel()

    def launch(
        self, kernel: Kernel, grid: Sequence[int], threads: int, argument: Struct, shared_bytes: int = 0, cooperative: bool = False
    ) -> Launch:
        """A launch of a kernel with everything bound except the stream. Missing grid axes have size 1.

        The blocks of a `cooperative` launch run at the same time, so they may wait for each other.
        """
        width, height, depth = (*grid, 1, 1)[:3]
        launch = self.runtime.bind_launch(self.function(kernel), (width, height, depth), threads, shared_bytes, argument, cooperative)

        def text() -> str:
            size = f"grid {width}x{height}x{depth}, {threads} threads, {shared_bytes} bytes of dynamic shared memory"
            return f"  {kernel.entry} of {kernel.file}: {size}{', cooperative' if cooperative else ''}"

        return log_launch(launch, text)

    def launch_elements(self, kernel: Kernel, count: int, argument: Struct) -> Launch:
        """A launch of a kernel whose threads stride over the elements, so that the grid may have any size."""
        return self.launch(kernel, (self.element_blocks(count),), ELEMENT_THREADS, argument)

    def element_blocks(self, count: int) -> int:
        """The number of blocks of `ELEMENT_THREADS` for `count` elements: enough to fill the device, but no more than have work."""
        return max(1, min(-(-count // ELEMENT_THREADS), _WAVES * self.limits.multiprocessors))

    def images(self, kernels: Sequence[Kernel]) -> dict[Kernel, tuple[bytes, str]]:
        """The image and symbol of each kernel, from the store or newly compiled. Raises what `functions` raises, but loads nothing."""
        architecture, version = self.limits.compute_capability, self.runtime.compiler_version()
        store = ImageStore.open()
        keys = self.keys
        results: dict[Kernel, tuple[bytes, str]] = {}
        for kernel in kernels:
            if architecture < kernel.lowest_capability:
                lowest = kernel.lowest_capability / 10
                raise DeviceError(f"{kernel.entry} needs compute capability {lowest}, the device has {architecture / 10}")
            identity = (sources.read(kernel.file), kernel.entry, str(architecture), self.runtime.name, version)
            keys[kernel] = hashlib.sha256("\0".join(identity).encode()).hexdigest()
            stored = None if store is None else store.read(keys[kernel])
            if stored is not None:
                results[kernel] = stored
                CACHE.debug("%s of %s: loaded from disk", kernel.entry, kernel.file)
        by_file: dict[str, list[Kernel]] = {}
        for kernel in kernels:
            if kernel not in results:
                by_file.setdefault(kernel.file, []).append(kernel)

        def compile_file(file: str) -> dict[Kernel, tuple[bytes, str]]:
            same = by_file[file]
            text, started = sources.read(file), time.perf_counter()
            if SOURCES.isEnabledFor(logging.DEBUG):
                sources.save_expanded(file)
            compiled = self.runtime.compile(text, [kernel.entry for kernel in same], architecture)
            CACHE.info("%s of %s: compiled in %.2f s", ", ".join(kernel.entry for kernel in same), file, time.perf_counter() - started)
            images = dict(zip(same, compiled, strict=True))
            self.compiled |= dict.fromkeys(same)
            if store is not None:
                for kernel, (image, symbol) in images.items():
                    store.write(keys[kernel], image, symbol)
            return images

        for images in _side_by_side(compile_file, list(by_file)):
            results |= images
        return results


def _side_by_side(work: Callable[[Argument], Result], arguments: Sequence[Argument]) -> list[Result]:
    """Runs independent work on as many threads as there are processors. A failure is raised once the running work has ended."""
    threads = min(len(arguments), processors())
    if threads <= 1:
        return [work(argument) for argument in arguments]
    with ThreadPoolExecutor(threads, "dmlpy-compile") as executor:
        return list(executor.map(work, arguments))


def in_range(runtime: CudaRuntime, name: str, launch: Launch) -> Launch:
    """Wraps a launch in a range that profilers show by name; the range ends even if the launch fails."""

    def ranged(stream: int) -> None:
        runtime.push_range(name)
        try:
            launch(stream)
        finally:
            runtime.pop_range()

    return ranged


ELEMENT_THREADS = 256
"""Threads of a block where each thread owns independent elements."""

_WAVES = 16
"""Blocks of `ELEMENT_THREADS` for each multiprocessor, at most: two rounds of eight resident ones."""
