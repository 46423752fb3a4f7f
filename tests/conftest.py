"""What every test module can ask for: the devices, and the skipping of tests that need a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import dmlpy as dml
from tests.tools import require


@cache
def _gpu_answers() -> bool:
    try:
        dml.device("cuda")
    except dml.DeviceError:
        return False
    return True


@pytest.fixture(scope="session", autouse=True)
def _own_kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels that the product compiles in tests do not go to the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLPY_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not _gpu_answers():
        pytest.skip("no GPU answers here")


def cuda_on_cpu(*, family: str | None = None, **options: Any) -> dml.Device:
    """The CUDA device over kernels that run on the CPU: the whole of dmlpy's CUDA side, without a GPU. `family` is the device's."""
    require("g++")
    from dmlpy.devices.cuda.device import CudaDevice
    from tests.cpu_seam import CpuSeam

    return CudaDevice(CpuSeam(**options), family=family)


CUDA_DEVICES = ["cuda on the CPU", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=["numpy", *CUDA_DEVICES])
def any_device(request: pytest.FixtureRequest) -> Iterator[dml.Device]:
    """Each device in turn. After a test on the CPU's stand-in for CUDA, the guard words around every allocation are checked."""
    yield from _device(request.param)


@pytest.fixture(params=CUDA_DEVICES)
def cuda_device(request: pytest.FixtureRequest) -> Iterator[dml.Device]:
    """The devices with memory of their own, as `any_device`."""
    yield from _device(request.param)


def _device(name: str) -> Iterator[dml.Device]:
    if name != "cuda on the CPU":
        yield dml.device(name)
        return
    device = cuda_on_cpu()
    yield device
    device.seam.check_guards()  # type: ignore[attr-defined]
