"""What tests of the CUDA device ask for: the seam of either device, and a `CupySeam` over a likeness of CuPy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dmlpy.devices.cuda.cupy_seam import CupySeam
from dmlpy.devices.cuda.seam import Seam
from tests.support.cuda.fake_cupy import FakeGpus
from tests.support.cuda.seam_over_fake_cupy import seam_over


@pytest.fixture
def cuda_seam(cuda_device: Any) -> Seam:
    """The seam of either device: the one that the CPU plays, and CuPy's where a GPU answers."""
    found: Seam = cuda_device.seam
    return found


@pytest.fixture
def gpus() -> FakeGpus:
    """The GPUs below the likeness of CuPy."""
    return FakeGpus()


@pytest.fixture
def seam(gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CupySeam:
    """CuPy's seam, whose CuPy runs on `gpus`."""
    return seam_over(gpus, monkeypatch, tmp_path)


@pytest.fixture
def stream(seam: CupySeam) -> Any:
    """A stream of the fake CuPy, other than the default one."""
    return sys.modules["cupy"].cuda.Stream(non_blocking=True)


@pytest.fixture
def small_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that hold many of cuBLAS's."""
    monkeypatch.setattr(CupySeam, "workspace_size", lambda seam, device: 512)
