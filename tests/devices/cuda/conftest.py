"""What tests of the CUDA device ask for: the runtime of either device, and a `CupyRuntime` over a likeness of CuPy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.cuda.fakes.runtime_over_fake_cupy import runtime_over


@pytest.fixture
def cuda_runtime(cuda_device: Any) -> CudaRuntime:
    """The runtime of either device: the emulated one, and CuPy's where a GPU answers."""
    found: CudaRuntime = cuda_device.runtime
    return found


@pytest.fixture
def gpus() -> FakeGpus:
    """The GPUs below the likeness of CuPy."""
    return FakeGpus()


@pytest.fixture
def runtime(gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CupyRuntime:
    """CuPy's runtime, whose CuPy runs on `gpus`."""
    return runtime_over(gpus, monkeypatch, tmp_path)


@pytest.fixture
def stream(runtime: CupyRuntime) -> Any:
    """A stream of the fake CuPy, other than the default one."""
    return sys.modules["cupy"].cuda.Stream(non_blocking=True)


@pytest.fixture
def small_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that hold many of cuBLAS's."""
    monkeypatch.setattr(CupyRuntime, "workspace_size", lambda runtime, device: 512)
