"""Kernels compiled for a GPU that is not there: the machine that has it finds them, and `dmlpy warmup` makes them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing

import dmlpy as dml
from dmlpy import compiler
from dmlpy.cli import warmup, warmup_work
from dmlpy.cli.main import app
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.offline_device import GPUS, OfflineRuntime, limits_of, offline_device
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.device import DEVICE_KINDS
from dmlpy.devices.persistence import image_archive
from dmlpy.devices.persistence.image_store import ImageStore
from dmlpy.messages.problems import DeviceError
from tests.support.cuda import emulated_gpu
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.programs import COPY
from tests.support.tools import require


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of kernels."""
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "kernels"))
    for cached in (compiler._compile, compiler._compile_operator):
        cached.cache_clear()
    return tmp_path / "kernels"


class There(CupyRuntime):
    """The runtime of a machine that has the GPU, as far as kernels are looked for: it compiles nothing."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._there = limits_of(name)

    def limits(self, device: int) -> Any:
        return self._there

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        return image, symbol

    def compile(self, *arguments: Any) -> Any:
        raise DeviceError("it was not found")

    def workspace_size(self, device: int) -> int:
        return 0

    def occupancy(self, *arguments: Any) -> int:
        return 1


def run(*arguments: str) -> tuple[int, str]:
    """`dmlpy warmup`: its exit status and its output, in a line."""
    result = typer.testing.CliRunner().invoke(app, ["warmup", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_the_machine_with_the_gpu_finds_what_was_compiled_without_it(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kernels of an LSTM, taken there in an archive; for another architecture there are none."""
    pytest.importorskip("cupy")
    require("nvrtc")
    archive = tmp_path / "folder" / "kernels.tar.gz"
    status, printed = run("--device", "cuda", "--for", "H200", "LSTM", "--output", str(archive))
    assert status == 0, printed
    assert "Kernels of the H200" in printed
    assert f"stored in {store}" in printed
    with tarfile.open(archive) as packed:
        names = packed.getnames()
        assert f"{len(names)} kernels for sm_90 by NVRTC " in printed
        assert names
        monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "there"))
        packed.extractall(tmp_path / "there", filter="data")
    (tmp_path / "there").chmod(0o700)
    (lstm,) = {desc for _, desc in warmup_work.WORK["lstm"]("FLOAT32", False) if desc.input_tensor.sizes[2] == 16}  # type: ignore[attr-defined]
    device = CudaDevice(There("H200"))
    dml.compile(lstm, device)
    assert set(device.library.keys.values()) <= set(names)
    assert not device.library.compiled
    with pytest.raises(DeviceError, match="it was not found"):
        dml.compile(lstm, CudaDevice(There("A100")))


def test_what_is_there_is_not_compiled_again(store: Path) -> None:
    pytest.importorskip("cupy")
    require("nvrtc")
    arguments = ("--device", "cuda", "--for", "sm_75", "elements")
    assert "element-wise operators compiled 1 " in run(*arguments)[1]
    stored = sorted(store.iterdir())
    for cached in (compiler._compile, compiler._compile_operator):
        cached.cache_clear()
    assert "element-wise operators found 1 on disk " in run(*arguments)[1]
    assert sorted(store.iterdir()) == stored


def test_kernels_of_the_gpu_that_is_there(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(emulated_gpu.VARIABLE, "null A100")
    monkeypatch.setitem(DEVICE_KINDS, "cuda", DEVICE_KINDS["cuda"])
    emulated_gpu.install()
    status, printed = run("--device", "cuda", "pooling")
    assert status == 0, printed
    assert "Kernels of the A100" in printed
    assert "MAX_POOLING compiled 1 " in printed


@pytest.mark.parametrize(
    ("name", "capability", "multiprocessors"),
    [("sm_90", 90, 132), ("SM_75", 75, 40), ("h200", 90, 132), ("A100", 80, 108), ("sm_103", 103, 148), ("sm_87", 87, 72)],
)
def test_limits_by_name(name: str, capability: int, multiprocessors: int) -> None:
    limits = limits_of(name)
    assert (limits.compute_capability, limits.multiprocessors) == (capability, multiprocessors)


def test_each_architecture_has_the_limits_of_a_gpu() -> None:
    for gpu in GPUS.values():
        assert limits_of(gpu.name) is gpu
        assert limits_of(f"sm_{gpu.compute_capability}").compute_capability == gpu.compute_capability
    assert limits_of("sm_90") is GPUS["H100"]


def test_nothing_runs_on_it() -> None:
    pytest.importorskip("cupy")
    device = CudaDevice(OfflineRuntime(limits_of("H100")))
    with pytest.raises(DeviceError, match="the H100 is planned for, and need not be there: nothing can run on it"):
        device.from_host(np.ones(3, np.float32))
    with pytest.raises(DeviceError, match="nothing can run on it"):
        device.empty(dml.TensorDesc(data_type="FLOAT32", sizes=(3,)), 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--for", "sm_90"], "--for and --output are for GPUs: add --device cuda"),
        (["--output", "file"], "--for and --output are for GPUs: add --device cuda"),
        (["--device", "numpy"], "'numpy' has no kernels to compile: --device is cpu, cuda or cuda:1"),
        (["--device", "cuda", "--for", "hopper"], "'hopper' is neither an architecture, like sm_90, nor one of the GPUs T4, A100,"),
        (["--device", "cuda", "--for", "sm_90a"], "'sm_90a' is neither"),
        (["--device", "cuda", "--for", "sm_70"], "sm_70 is too old: dmlpy has kernels for compute capability 7.5 (sm_75) and newer"),
    ],
)
def test_what_cannot_be_made_is_reported(arguments: list[str], message: str) -> None:
    status, printed = run(*arguments)
    assert status != 0
    assert message in printed


@pytest.mark.parametrize("name", ["sm_999", "sm_95", "SM_130"])
def test_an_unknown_architecture_is_reported_with_the_known_ones(name: str) -> None:
    pytest.importorskip("cupy")
    require("nvrtc")
    status, printed = run("--device", "cuda", "--for", name, "elements")
    assert status != 0
    assert f"{name.lower()} is not an architecture that NVRTC" in printed
    assert "sm_80" in printed


def packed(tmp_path: Path, *keys: str) -> Any:
    opened = ImageStore.open()
    assert opened is not None
    return image_archive.pack(opened, keys, tmp_path / "kernels.tar.gz")


def test_only_what_is_whole_is_packed(store: Path, tmp_path: Path) -> None:
    library = KernelLibrary(DryRunRuntime(), 0)
    library.images([COPY])
    (key,) = library.keys.values()
    assert packed(tmp_path, key, key) == 1
    (store / key).write_bytes(b"damaged")
    with pytest.raises(DeviceError, match=f"the kernel {key} is not kept"):
        packed(tmp_path, key)


def test_without_a_folder_there_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(DeviceError, match=r"not stored: .* so no archive can be made of them"):
        warmup.pack(offline_device("H100"), tmp_path / "archive")
