"""The interface between dmlpy and a CUDA implementation: everything that a CUDA plan needs from the machine.

`cupy_runtime.CupyRuntime` implements it with CuPy. The tests use `emulation.runtime.EmulatedRuntime`, which executes the same kernels on
the CPU, so a plan, including its Python code, runs end to end without a GPU. Addresses and streams are plain integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from dmlpy.description.arrays import ArrayView


class NotResidentError(DeviceError):
    """Raised when the blocks of a cooperative launch, or of a cluster, cannot all be resident."""

    @classmethod
    def of(cls, blocks: int, resident: int | None = None) -> NotResidentError:
        """The error for this many blocks, of which `resident` fit at a time if that is known."""
        return cls(f"{blocks} blocks have to run at the same time, and the device holds {'fewer' if resident is None else resident}")


@dataclass(frozen=True)
class Limits:
    """The capabilities of a device, read from the device itself."""

    name: str
    compute_capability: int
    """10 * major + minor: 90 for an H100."""
    multiprocessors: int
    shared_memory_per_block: int
    """Bytes of dynamic shared memory that one block may have after opting in."""
    total_memory: int
    driver_version: int
    runtime_version: int
    clock_hz: float = 0.0
    """The multiprocessors' highest clock. This field and those below are 0 if the device does not report them."""
    memory_rate: float = 0.0
    """The highest memory bandwidth in bytes a second."""
    l2_bytes: int = 0
    cooperative: bool = True
    """Whether blocks of one launch may wait for each other; some virtual GPUs reject such launches."""


@dataclass(frozen=True)
class FunctionAttributes:
    """The properties of a compiled kernel."""

    registers: int
    local_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True)
class Matrix:
    """A matrix in device memory.

    Attributes:
        rows: and `columns`: the sizes in the product, whatever the order in memory.
        row_stride: the stride in elements. Element (i, j) lies at i * row_stride + j, or with `transposed` at j * row_stride + i.
        transposed: whether memory holds the rows of the matrix's transpose.
        step: elements from one matrix of a batch to the next; 0 repeats it.
    """

    pointer: int
    rows: int
    columns: int
    row_stride: int
    data_type: np.dtype[Any]
    transposed: bool = False
    step: int = 0


@dataclass(frozen=True)
class MatrixProduct:
    """Products C = A @ transpose(B), or C += A @ transpose(B).

    Sums are float32, rounded once for another c.

    Attributes:
        a: [m, k], of float32, float16, or bfloat16 from compute capability 8.0 on; it may be transposed in memory.
        b: [n, k], of the same type; it may be transposed in memory.
        c: [m, n], of the same type or float32; not transposed in memory.
        accumulate: whether the product is added to c, which is then float32.
        tf32: whether factors of float32 may be rounded to TF32, which has 10 bits of mantissa. Other factors have no more bits, and are
            never rounded.
        batch: the number of products, of matrices that are each one's `step` apart; those of c do not overlap.
    """

    a: Matrix
    b: Matrix
    c: Matrix
    accumulate: bool = False
    tf32: bool = False
    batch: int = 1

    @property
    def rounds(self) -> bool:
        """Whether factors are rounded to TF32."""
        return self.tf32 and self.a.data_type.name == "float32"


@dataclass(frozen=True)
class Fusion:
    """The function of a product P that is stored: f(alpha P + beta C + bias).

    Attributes:
        alpha: the factor of the product.
        beta: that of the addend.
        addend: C, of the result's type and order in memory; None adds nothing.
        bias: the address of a row that is added to each row, packed and of the result's type; 0 adds nothing.
        relu: whether f is max(0, x).
    """

    alpha: float
    beta: float
    addend: Matrix | None
    bias: int
    relu: bool


class Memory(Protocol):
    """Device memory that lives as long as this object."""

    @property
    def pointer(self) -> int: ...
    @property
    def size(self) -> int: ...
    def used_in(self, stream: int) -> None:
        """Records that work on this stream uses the memory.

        The memory is not reused before that work is done, even if this object is deleted by then. In a stream that is being captured,
        including that of the allocation, the memory is held until the graph is destroyed.
        """


class CudaRuntime(Protocol):
    """Every call acts on the device of the given ordinal. Failures of the machine are raised as `DeviceError`.

    Methods with a stream and no ordinal act on the device that `use` made current, and so do launches of functions, products and graphs:
    callers that issue several make their device current once.
    """

    name: str

    def device_count(self) -> int:
        """The number of GPUs, at least one. Raises DeviceError if there is no CUDA library, no driver or no GPU."""

    def limits(self, device: int) -> Limits: ...
    def free_memory(self, device: int) -> int: ...
    def use(self, device: int) -> AbstractContextManager[None]:
        """Makes the device current for the calling thread."""

    # kernels
    def compiler_version(self) -> str: ...
    def compile(self, source: str, entries: Sequence[str], architecture: int) -> list[tuple[bytes, str]]:
        """Compiles kernel instances of a self-contained source for one architecture; the source is parsed once for all of them.

        `entries` are the C++ expressions of the instances, `persistent_block<float, Lstm<true>>`. Returns for each the binary image and the
        symbol to look up in it; one image may hold several. Threads may compile at the same time.

        Raises:
            DeviceError: an instance fails to compile; the error has its name and the compiler's message.
        """

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        """Loads a launchable function; a block may have `shared_bytes` of shared memory, with what the kernel declares itself."""

    def attributes(self, function: Any) -> FunctionAttributes: ...
    def occupancy(self, function: Any, threads: int, shared_bytes: int) -> int:
        """The number of blocks of this size that one multiprocessor can hold."""

    def launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        argument: np.ndarray[Any, Any],
        stream: int,
        cooperative: bool = False,
    ) -> None:
        """Launches a kernel with one struct passed by value: `argument` is an array of one element of the struct's dtype."""

    def bind_launch(
        self,
        function: Any,
        grid: tuple[int, int, int],
        threads: int,
        shared_bytes: int,
        argument: np.ndarray[Any, Any],
        cooperative: bool = False,
    ) -> Callable[[int], None]:
        """Binds everything of `launch` but the stream, for repeated work; the argument's value is read on each launch.

        Raises:
            NotResidentError: the blocks of a cooperative grid do not all fit the device. The returned launch may raise it too.
        """

    def workspace_size(self, device: int) -> int:
        """The bytes of device memory that a matrix product uses as workspace."""

    def gemm(self, device: int, product: MatrixProduct, stream: int, workspace: int = 0) -> None:
        """Computes matrix products.

        `workspace` is the address of `workspace_size` bytes, a multiple of 256, which must not be used otherwise while the product runs.
        With 0 the library allocates memory; in a stream that is being captured it then adds an allocation to the graph.
        """

    def bind_gemm(self, device: int, product: MatrixProduct, workspace: int = 0) -> Callable[[int], None]:
        """Binds everything of `gemm` but the stream."""

    def bind_fused_gemm(self, device: int, product: MatrixProduct, fusion: Fusion, workspace: int) -> Callable[[int], None] | None:
        """Binds products with what follows them, else as `bind_gemm`; None if the library has none for these matrices, or is missing.

        c has the type of a and b, and nothing is accumulated.
        """

    # memory
    def host_words(self, device: int, count: int) -> tuple[int, Any]:
        """Zeroed words of host memory that kernels can write while they run, and that live as long as the process.

        Returns:
            Their address, which is the same for kernels, and the words as a sequence that can be read and written.
        """

    def allocate(self, device: int, size: int, stream: int) -> Memory:
        """Allocates memory for work on a stream; if that is being captured, until the graph is destroyed.

        Raises:
            DeviceError: with E_OUTOFMEMORY if there is none left.
        """

    def memory_of(self, device: int, array: Any, stream: int) -> Memory:
        """The memory of a whole array that its library (CuPy) has allocated for work on a stream."""

    def copy(self, destination: int, source: int, size: int, stream: int) -> None: ...
    def memset(self, pointer: int, value: int, size: int, stream: int) -> None: ...
    def empty(self, device: int, sizes: Sequence[int], strides: Sequence[int], data_type: np.dtype[Any], stream: int) -> Any:
        """An array in device memory (CuPy's) of these sizes and element strides, allocated as `allocate` does."""

    def to_device(self, device: int, array: np.ndarray[Any, Any], stream: int) -> Any:
        """Copies an array to device memory; waits for the stream, so that the array may be changed afterwards.

        Raises:
            DeviceError: the stream is being captured, as for `upload`, `to_host` and `read`.
        """

    def upload(self, device: int, data: np.ndarray[Any, Any], stream: int) -> Memory:
        """Copies a packed array as `to_device` does, to memory that `allocate` would give."""

    def to_host(self, array: Any, stream: int) -> np.ndarray[Any, Any]:
        """Copies an array in device memory to NumPy; waits for the stream."""

    def read(self, pointer: int, size: int, stream: int) -> bytes:
        """Reads bytes of device memory; waits for the stream."""

    def view(self, value: Any) -> ArrayView | None:
        """An array of this implementation's type as memory, without a copy; None for other objects."""

    def place_of(self, device: int, pointer: int) -> str | None:
        """The location of memory that the device cannot use: `cpu`, or another GPU's name, `cuda:1`. None for memory that it can use.

        Memory of another GPU counts as unusable even where peer access is enabled.
        """

    def from_dlpack(self, value: Any) -> Any:
        """Wraps a DLPack object's memory as an array with `__cuda_array_interface__`, without a copy."""

    # order
    def current_stream(self, device: int) -> int: ...
    def synchronize(self, stream: int) -> None: ...
    def is_capturing(self, stream: int) -> bool: ...
    def wait_for(self, device: int, producer: int) -> Callable[[int], bool]:
        """Returns a function that makes a stream wait for the work which is on the stream `producer` now.

        A wait cannot cross the boundary of a capture: if only one of the two streams is being captured, the function does nothing and
        returns False.
        """

    def capture(self, device: int, issue: Callable[[int], None]) -> Any:
        """Runs `issue` on a capturing stream that the runtime creates, and returns the instantiated graph.

        Raises:
            NotResidentError: blocks of a launch in it do not all fit, which `issue` did not detect.
        """

    def launch_graph(self, graph: Any, stream: int) -> None:
        """Launches a graph. Raises NotResidentError as `capture` does, before any of it runs."""

    # profiling
    def push_range(self, name: str) -> None:
        """Begins a range of the calling thread that profilers show by name (NVTX). Ranges nest and are nearly free without a profiler."""

    def pop_range(self) -> None:
        """Ends the range that began last."""

    def record_event(self, stream: int) -> Any: ...
    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two recorded events; waits for the second."""
