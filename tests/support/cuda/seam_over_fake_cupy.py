"""`CupySeam` over the CuPy of `tests.support.cuda.fake_cupy`, and threads to call it from."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmlpy.devices.cuda import cupy_seam
from dmlpy.devices.cuda.cupy_seam import CupySeam
from dmlpy.devices.cuda.seam import Matrix
from dmlpy.validation.problems import DeviceError
from tests.support.cuda.fake_cupy import Machine, fake_cupy


class FakeCublas:
    """Notes the stream and the workspace of each product, and that its device is the current one."""

    machine: Machine

    def __init__(self) -> None:
        if self.machine.recordings:  # a handle allocates memory
            raise DeviceError("cublasCreate_v2 failed with cublasStatus_t 1")
        self.device = self.machine.device()
        self.products: list[tuple[int, tuple[int, int] | None, bool, bool]] = []

    def bind(
        self, a: Matrix, b: Matrix, c: Matrix, accumulate: bool, tf32: bool, workspace: tuple[int, int] | None
    ) -> Callable[[int], None]:
        def multiply(stream: int) -> None:
            assert self.machine.device() == self.device, "a handle works on its own device only"
            used = (stream, workspace, accumulate, tf32)
            self.machine.issue(stream, lambda: self.products.append(used))

        return multiply


def seam_over(machine: Machine, monkeypatch: pytest.MonkeyPatch, folder: Path) -> CupySeam:
    """A seam whose CuPy runs on a machine, and which keeps its kernels in a folder."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(machine))
    monkeypatch.setattr(cupy_seam, "Cublas", type("Cublas", (FakeCublas,), {"machine": machine}))
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(folder))
    return CupySeam()


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
