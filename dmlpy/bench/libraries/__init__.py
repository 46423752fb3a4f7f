"""The libraries that `dmlpy bench` measures: a module for each, and their interface to the worker."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dmlpy.bench.memory import Mark, mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.bench.work import Array, Case, Work

Mode = str
"""`eager`, or `graph` if the pass is captured in a CUDA graph; a second word names the kernels that the library must use."""
EAGER: tuple[Mode, ...] = ("eager",)
BOTH_MODES: tuple[Mode, ...] = ("eager", "graph")
SETS = {"cpu": 1, "cuda": 3}
"""The number of input sets used in turn, by the device's memory kind: a GPU must not find the last pass's input in its cache."""


class NotInstalledError(Exception):
    """The library, or one that it needs, is missing, so it is not measured. The text says how to install it."""


class UnsupportedError(Exception):
    """The library does not support this work. The text says what it lacks."""


class Runner(ABC):
    """One piece of work of one library, ready to be repeated.

    Attributes:
        plan: the library's description of what it runs.
        floor_us: the roofline time of a pass in microseconds, if the library has a cost model of the device.
        estimate_us: the cost model's estimate for the library's kernels; `estimate_step_us` for one more step.
        packs: whether parameters are packed before the passes.
        sets: the number of input sets that are used in turn; None for the library's default.
    """

    plan: tuple[str, ...] = ()
    floor_us: float | None = None
    estimate_us: float | None = None
    estimate_step_us: float | None = None
    packs: bool = False
    sets: int | None = None

    @abstractmethod
    def run(self, number: int) -> None:
        """Runs one pass over a set's input. On a GPU it only enqueues the work."""

    def load_upstream(self, upstream: Array) -> None:
        """Overwrites the gradient of y, in training."""
        raise UnsupportedError("there is no training")

    @abstractmethod
    def results(self) -> dict[str, Array]:
        """All results of the last pass, named as in `work`."""

    def pack(self) -> None:
        """Packs the parameters again, if `packs`."""
        raise UnsupportedError("nothing is packed")


class Library(ABC):
    """A library on a device.

    Args:
        device: `cpu`, `numpy` or `cuda:<index>`.
        threads: the number of threads that it may use on the processor.

    Raises:
        NotInstalledError: it cannot be imported, or has no such device.
    """

    def __init__(self, device: str, threads: int) -> None:
        self.device = device
        self.threads = threads

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def sets(self) -> int:
        """The number of input sets that are used in turn, unless a runner has another."""
        return SETS["cuda" if self.on_gpu else "cpu"]

    @property
    def reusable(self) -> bool:
        """Whether one process may run several cases: `release` frees all memory, and `peak_bytes` is measured per case."""
        return False

    def release(self) -> None:
        """Releases the memory of deleted runners that the library caches."""
        return None

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """The versions of the library, under the library's name, and of the libraries that its speed depends on."""

    def instruction_set(self) -> str | None:
        """The instruction set that it takes on the processor, in its own words; None if it does not say, or runs elsewhere."""
        return None

    def device_facts(self) -> dict[str, str]:
        """The device's description of itself in this process, if the library is dmlpy."""
        return {}

    def modes(self, work: Work) -> tuple[Mode, ...]:
        """The modes in which it can run passes here."""
        return BOTH_MODES if self.on_gpu else EAGER

    @abstractmethod
    def build(self, work: Work, mode: Mode) -> Runner:
        """Prepares everything outside a pass. Calls `mark` once inputs and parameters are in place.

        Raises:
            UnsupportedError: the library does not support the work.
        """

    def microseconds(self, issue: Callable[[], None], repeats: int) -> float:
        """The microseconds of one of `repeats` calls."""
        start = self.clock()
        for _ in range(repeats):
            issue()
        return 1e6 * (self.clock() - start) / repeats

    def clock(self) -> float:
        """The clock that times work on the CPU, in seconds."""
        return time.perf_counter()

    def mark(self) -> None:
        """Starts counting memory."""
        self._mark = mark()

    def peak_bytes(self) -> int | None:
        """The peak memory since `mark`, minus that in use then; None if the system does not report it."""
        return None if self._mark is None else self._mark.peak_since()

    _mark: Mark | None = None
    _before: int | None = None
    """The bytes at the mark, of libraries that count a GPU's memory."""


class Place(Protocol):
    """The device to measure on, or the description of one that is not here."""

    @property
    def memory_kind(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Peer:
    """A library that can be compared in a benchmark.

    Attributes:
        name: the name in records and in `--peer`.
        target: module and class of its library.
        help: a description, with what must be installed.
        kinds: the kinds of device memory that it can run on.
        works: the kinds of shapes that it is measured with.
        device: the device, if it is dmlpy on another one; it is not compared with itself.
        threads: its number of threads on the CPU, if it differs from the others'. It is then measured under background load only.
    """

    name: str
    target: str
    help: str
    kinds: tuple[str, ...] = ("cpu", "cuda")
    works: tuple[str, ...] = ("Recurrent", "BatchNorm")
    device: str | None = None
    threads: int | None = None

    def stands_beside(self, device: Place, load: int = 0) -> bool:
        """Returns whether it can be compared with dmlpy on this device, under this background load."""
        return device.memory_kind in self.kinds and device.name != self.device and (load > 0 or self.threads is None)

    def applies(self, case: Case) -> bool:
        """Returns whether it is measured in this case."""
        return type(case.shape).__name__ in self.works


OWN = Peer("dmlpy", "dmlpy.bench.libraries.dmlpy:Dmlpy", "this library")
PEERS = (
    Peer(
        "dmlpy-numpy",
        "dmlpy.bench.libraries.dmlpy:OnNumpy",
        "this library's device that needs NumPy alone",
        kinds=("cpu",),
        device="numpy",
    ),
    Peer(
        "dmlpy-one-thread",
        "dmlpy.bench.libraries.dmlpy:OnOneThread",
        "this library on one thread, which loses the least where busy loops take the processors (--load)",
        kinds=("cpu",),
        works=("Recurrent",),
        threads=1,
    ),
    Peer("torch", "dmlpy.bench.libraries.torch:Torch", "PyTorch; cuDNN on a GPU (pip install torch)"),
    Peer(
        "torch-native",
        "dmlpy.bench.libraries.torch:TorchNative",
        "PyTorch's own kernels, without cuDNN (pip install torch)",
        kinds=("cuda",),
        works=("BatchNorm",),
    ),
    Peer(
        "onnxruntime",
        "dmlpy.bench.libraries.onnxruntime:OnnxRuntime",
        "ONNX Runtime, forward only (pip install onnx onnxruntime)",
        works=("Recurrent",),
    ),
    Peer(
        "cupy",
        "dmlpy.bench.libraries.cupy:PlainCupy",
        "a plain loop over steps in CuPy, forward only",
        kinds=("cuda",),
        works=("Recurrent",),
    ),
)
"""The libraries that dmlpy is compared with if they are installed. A new one is a module of `libraries` and a row here."""

EVERY_WORK = ("Recurrent", "BatchNorm", "OperatorShape", "LargeShape")
OPERATORS_OWN = Peer("dmlpy", "dmlpy.bench.operators.libraries:DmlpyOperators", OWN.help, works=EVERY_WORK)
OF_OPERATORS = (
    Peer(
        "openvino",
        "dmlpy.bench.libraries.openvino:OpenVino",
        "OpenVINO (pip install onnx openvino)",
        kinds=("cpu",),
        works=("OperatorShape",),
    ),
    Peer(
        "jax",
        "dmlpy.bench.libraries.jax:Jax",
        "JAX (pip install 'jax[cpu]')",
        kinds=("cpu",),
        works=("OperatorShape",),
    ),
)
"""The libraries that are compared with in single operators on the CPU alone."""
OPERATORS_PEERS = (
    *(
        Peer(peer.name, f"dmlpy.bench.operators.libraries:{target}", peer.help.replace(", forward only", ""), works=works)
        for name, target, works in (
            ("onnxruntime", "OnnxRuntimeOperators", ("Recurrent", "OperatorShape")),
            ("torch", "TorchOperators", EVERY_WORK),
        )
        for peer in PEERS
        if peer.name == name
    ),
    *OF_OPERATORS,
)
"""The same for `--operators`. Their processes are reused for all cases, and measure layers, too."""
GPU_PEERS = (*OPERATORS_PEERS, *(peer for peer in PEERS if peer.name not in {own.name for own in OPERATORS_PEERS}))
"""The libraries for layers and operators on a GPU, where a process takes seconds to start."""
