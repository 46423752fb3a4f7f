"""The libraries that `dmlpy bench` measures: a module for each, and what every one of them offers the worker that runs it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.bench.work import Array, Case, Work
    from dmlpy.devices import Device

Mode = Literal["eager", "graph"]
EAGER: tuple[Mode, ...] = ("eager",)
BOTH_MODES: tuple[Mode, ...] = ("eager", "graph")
SETS = {"cpu": 1, "cuda": 3}
"""Inputs that take turns, by the kind of the device's memory: a GPU shall not find the last pass's input in its cache."""


class NotInstalledError(Exception):
    """The library, or what it needs, is missing: it takes part in nothing. The text says how to install it."""


class UnsupportedError(Exception):
    """The library does not do this work. The text says what it lacks."""


class Runner(ABC):
    """One piece of work of one library, ready to be repeated.

    Attributes:
        plan: what the library says that it runs.
        floor_us: the least microseconds of a pass by a model of the device, if the library has one.
        estimate_us: what the model says of the library's own kernels; `estimate_step_us` of one step more.
        packs: whether parameters are prepared before the passes.
    """

    plan: tuple[str, ...] = ()
    floor_us: float | None = None
    estimate_us: float | None = None
    estimate_step_us: float | None = None
    packs: bool = False

    @abstractmethod
    def run(self, number: int) -> None:
        """One pass over the input of a set. On a GPU it only enqueues the work."""

    @abstractmethod
    def load_upstream(self, upstream: Array) -> None:
        """Overwrites the gradient of y, in training."""

    @abstractmethod
    def results(self) -> dict[str, Array]:
        """All results of the last pass, named as in `work`."""

    def pack(self) -> None:
        """Prepares the parameters once more, where `packs`."""
        raise UnsupportedError("nothing is packed")


class Subject(ABC):
    """A library on a device.

    Args:
        device: `numpy` or `cuda:<index>`.
        threads: how many it may use on the processor.

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
        """The number of inputs that take turns."""
        return SETS["cuda" if self.on_gpu else "cpu"]

    @property
    def reusable(self) -> bool:
        """Whether one process may do one case after the other: `release` gives all memory back, and `peak_bytes` tells each case's own."""
        return False

    def release(self) -> None:
        """Gives back the memory of runners that are gone, as far as the library keeps it."""
        return None

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the library, under the subject's name, and of the libraries that its speed depends on."""

    def modes(self) -> tuple[Mode, ...]:
        """The modes in which it can run its passes here."""
        return BOTH_MODES if self.on_gpu else EAGER

    @abstractmethod
    def build(self, work: Work, mode: Mode) -> Runner:
        """Everything that is not part of a pass. `mark` is to be called where inputs and parameters are in place.

        Raises:
            UnsupportedError: the library does not do this.
        """

    def microseconds(self, issue: Callable[[], None], repeats: int) -> float:
        """Microseconds of one of `repeats` calls."""
        start = time.perf_counter()
        for _ in range(repeats):
            issue()
        return 1e6 * (time.perf_counter() - start) / repeats

    def mark(self) -> None:
        """Starts counting memory."""
        self._before = resident_bytes(peak=True, reset=True)

    def peak_bytes(self) -> int | None:
        """The most memory in use since `mark`, beyond what was in use then; None where the system does not tell."""
        peak = resident_bytes(peak=True)
        return None if peak is None or self._before is None else max(peak - self._before, 0)

    _before: int | None = None


def resident_bytes(*, peak: bool = False, reset: bool = False) -> int | None:
    """This process's memory in use, now or at most; `reset` makes now the most. None where the system is not Linux."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    name = "VmHWM:" if peak else "VmRSS:"
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), None)


@dataclass(frozen=True)
class Peer:
    """A library that can stand in a benchmark.

    Attributes:
        name: in records and in `--peer`.
        target: module and class of its subject.
        help: what it is, and what has to be installed.
        kinds: the kinds of device memory that it can run on.
        works: the kinds of shapes that it is asked for.
        device: if it is dmlpy on another device, which: it is not put beside itself.
    """

    name: str
    target: str
    help: str
    kinds: tuple[str, ...] = ("cpu", "cuda")
    works: tuple[str, ...] = ("Recurrent", "BatchNorm")
    device: str | None = None

    def stands_beside(self, device: Device) -> bool:
        """Whether it can be measured where dmlpy runs on this device."""
        return device.memory_kind in self.kinds and device.name != self.device

    def applies(self, case: Case) -> bool:
        """Whether it is asked for this at all."""
        return type(case.shape).__name__ in self.works


OWN = Peer("dmlpy", "dmlpy.bench.subjects.dmlpy:Dmlpy", "this library")
PEERS = (
    Peer(
        "dmlpy-numba",
        "dmlpy.bench.subjects.dmlpy:OnNumba",
        "this library's compiled device (pip install 'dmlpy[numba]')",
        kinds=("cpu",),
        works=("Recurrent",),
        device="numba",
    ),
    Peer("torch", "dmlpy.bench.subjects.torch:Torch", "PyTorch; cuDNN on a GPU (pip install torch)"),
    Peer(
        "torch-native",
        "dmlpy.bench.subjects.torch:TorchNative",
        "PyTorch's own kernels, without cuDNN (pip install torch)",
        kinds=("cuda",),
        works=("BatchNorm",),
    ),
    Peer(
        "onnxruntime",
        "dmlpy.bench.subjects.onnxruntime:OnnxRuntime",
        "ONNX Runtime, forward only (pip install onnx onnxruntime)",
        works=("Recurrent",),
    ),
    Peer(
        "cupy",
        "dmlpy.bench.subjects.cupy:PlainCupy",
        "a plain loop over steps in CuPy, forward only",
        kinds=("cuda",),
        works=("Recurrent",),
    ),
)
"""The libraries that dmlpy is put beside, if they are installed. A new one is a module of `subjects` and a row here."""
