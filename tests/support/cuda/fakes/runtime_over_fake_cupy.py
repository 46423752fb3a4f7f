"""`CupyRuntime` over the CuPy of `tests.support.cuda.fakes.cupy_bindings`, and threads to call it from."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmlpy.devices.cuda.runtime import cupy_runtime as cupy_runtime
from dmlpy.devices.cuda.runtime.captures import CaptureDriver, GraphEnd
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.cuda.runtime.interface import MatrixProduct
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.fakes.captures import GLOBAL, Capture
from tests.support.cuda.fakes.cupy_bindings import FakeGpus, fake_cupy


class FakeCublas:
    """Notes the stream and the workspace of each product, and that its device is the current one."""

    gpus: FakeGpus

    def __init__(self) -> None:
        self.gpus.unsafe("cudaMalloc")  # cublasCreate allocates
        self.device = self.gpus.device()
        self.products: list[tuple[int, tuple[int, int] | None, bool, bool]] = []

    def bind(self, product: MatrixProduct, workspace: tuple[int, int] | None) -> Callable[[int], None]:
        def multiply(stream: int) -> None:
            assert self.gpus.device() == self.device, "a handle works on its own device only"
            used = (stream, workspace, product.accumulate, product.tf32)
            self.gpus.issue(stream, lambda: self.products.append(used))

        return multiply


class FakeEnd(GraphEnd):
    """The end of a graph of the machine's."""

    def __init__(self, gpus: FakeGpus, captured: Capture) -> None:
        self.gpus, self.captured = gpus, captured

    def come(self) -> bool:
        return self.captured.is_destroyed and not self.captured.launched & self.gpus.busy


class FakeCaptures(CaptureDriver):
    """The driver of a gpus. A graph's handle is the number of its capture."""

    gpus: FakeGpus

    def __init__(self) -> None:
        self.exchange_mode = self._exchange

    def _exchange(self, pointer: Any) -> int:
        local, mode = self.gpus.local, pointer._obj
        local.mode, mode.value = mode.value, getattr(local, "mode", GLOBAL)
        return 0

    def capture(self, stream: int) -> tuple[int, int]:
        found = self.gpus.recordings.get(stream)
        if found is None or not found.is_valid:
            raise DeviceError(f"stream {stream:#x} is not being captured")
        return found.number, found.number

    def node_count(self, graph: int) -> int:
        return len(self._captured(graph).work)

    def watch(self, graph: int) -> GraphEnd:
        return FakeEnd(self.gpus, self._captured(graph))

    def _captured(self, graph: int) -> Capture:
        return next(capture for capture in self.gpus.recordings.values() if capture.number == graph)


def runtime_over(gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch, folder: Path) -> CupyRuntime:
    """A runtime whose CuPy runs on a gpus, and which stores its kernels in a folder."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(gpus))
    monkeypatch.setattr(cupy_runtime, "Cublas", type("Cublas", (FakeCublas,), {"gpus": gpus}))
    monkeypatch.setattr(cupy_runtime, "CaptureDriver", type("CaptureDriver", (FakeCaptures,), {"gpus": gpus}))
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(folder))
    return CupyRuntime()


def in_a_fresh_thread(work: Callable[[], Any]) -> Any:
    """The result of work in a thread that has not called CUDA yet."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]
