"""`dmlpy info`: what it shows, and its reasons why there is no GPU. Over a CuPy that fails as CUDA does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dmlpy as dml
from dmlpy.cli import main
from dmlpy.devices.cuda.device import CudaDevice, cuda_device
from dmlpy.devices.cuda.runtime import availability
from dmlpy.devices.device import DEVICE_KINDS
from tests.support.cuda.fakes.captures import CUDARuntimeError
from tests.support.cuda.fakes.cupy_bindings import FakeGpus
from tests.support.cuda.fakes.runtime_over_fake_cupy import runtime_over

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
BOTH = "dmlpy[cuda13] (driver 580 or newer) or dmlpy[cuda12] (driver 525 or newer)"
TWO = f"cupy-cuda12x and cupy-cuda13x are installed together and overwrite each other: uninstall them all, then install {BOTH}"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGpus:
    """A machine with two GPUs, of which nothing is known yet, and one CuPy."""
    machine = FakeGpus()
    runtime_over(machine, monkeypatch, tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(DEVICE_KINDS, "cuda", cuda_device.__wrapped__)  # type: ignore[attr-defined]
    installed(monkeypatch, "cupy-cuda13x")
    return machine


def installed(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Makes these packages of CuPy appear installed."""

    def version(package: str) -> str:
        if package in packages:
            return "14.2.0"
        raise PackageNotFoundError(package)

    monkeypatch.setattr(availability, "version", version)


def unimportable(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Refusing:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            if name == "cupy":
                raise error

    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.setattr(sys, "meta_path", [Refusing, *sys.meta_path])


def not_installed(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    monkeypatch.setitem(sys.modules, "cupy", None)


def framed(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = "=" * 64
    text = (
        f"\n{frame}\nFailed to import CuPy.\n\nA page of advice.\n\nOriginal error:\n  ImportError: libnvrtc.so.13: no such file\n{frame}\n"
    )
    unimportable(monkeypatch, ImportError(text))


def two_and_broken(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "cupy-cuda12x", "cupy-cuda13x")
    unimportable(monkeypatch, ImportError("undefined symbol"))


def two_and_an_old_driver(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "cupy-cuda12x", "cupy-cuda13x")
    machine.driver = 12040


def versions(driver: int, runtime: int) -> Callable[[FakeGpus, pytest.MonkeyPatch], None]:
    def set_up(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
        machine.driver, machine.runtime = driver, runtime

    return set_up


def no_device(visible: str | None) -> Callable[[FakeGpus, pytest.MonkeyPatch], None]:
    def set_up(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
        machine.devices = 0
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return set_up


def not_starting(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise CUDARuntimeError(802, "cudaErrorSystemNotReady: system not yet initialized")

    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "getDeviceCount", fail)


CASES: dict[str, tuple[Callable[[FakeGpus, pytest.MonkeyPatch], None], str]] = {
    "CuPy is missing": (not_installed, f"CuPy is not installed: install {BOTH}"),
    "CuPy lacks a library": (framed, "CuPy 14.2.0 cannot be imported: ImportError: libnvrtc.so.13: no such file"),
    "two CuPys, and neither is imported": (two_and_broken, TWO),
    "two CuPys, and the driver is too old for the one that won": (two_and_an_old_driver, TWO),
    "no driver": (
        versions(0, 13020),
        f"NVIDIA's driver is not installed ({LIBRARY} cannot be loaded): install driver 580 or newer",
    ),
    "no driver, CUDA 12": (
        versions(0, 12090),
        f"NVIDIA's driver is not installed ({LIBRARY} cannot be loaded): install driver 525 or newer",
    ),
    "a driver of CUDA 12": (
        versions(12040, 13020),
        "CUDA driver 12.4 is too old for CUDA 13: install dmlpy[cuda12] in place of cupy-cuda13x, or driver 580 or newer",
    ),
    "a driver of CUDA 11": (versions(11080, 12090), "CUDA driver 11.8 is too old for CUDA 12: install driver 525 or newer"),
    "a CUDA that is yet to come": (
        versions(13000, 14000),
        "CUDA driver 13.0 is too old for CUDA 14: install dmlpy[cuda13] in place of cupy-cuda14x, or a newer driver",
    ),
    "no GPU": (no_device(None), "NVIDIA's driver finds no GPU: see what nvidia-smi says"),
    "hidden GPUs": (no_device(""), "CUDA_VISIBLE_DEVICES is '', which leaves no GPU: unset it, or name one, such as 0"),
    "hidden GPUs, by a number": (no_device("-1"), "CUDA_VISIBLE_DEVICES is '-1', which leaves no GPU: unset it, or name one, such as 0"),
    "CUDA fails": (not_starting, "CUDA does not start: cudaErrorSystemNotReady: system not yet initialized"),
}


def info(*options: str) -> str:
    done = CliRunner().invoke(main.app, ["info", *options])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("case", CASES)
def test_info_says_why_there_is_no_gpu(case: str, machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up, reason = CASES[case]
    set_up(machine, monkeypatch)
    out = info()
    assert out.splitlines()[-1] == f"device cuda: not available: {reason}"
    assert out.count(reason) == 1
    assert json.loads(info("--json"))["unavailable"] == {"cuda": reason}
    with pytest.raises(dml.DeviceError) as error:
        dml.device("cuda")
    told = "'cuda-emulated' executes its kernels on the processor, slowly, and has their plans"
    assert str(error.value) == f"device 'cuda' does not exist on this machine: {reason}; {told}"
    assert dml.device() is dml.device("cpu")


def test_a_machine_with_gpus(machine: FakeGpus) -> None:
    out = info()
    assert "not available" not in out
    assert "CuPy: 14.2.0 (cupy-cuda13x)" in out.splitlines()
    found = json.loads(info("--json"))
    assert [device["name"] for device in found["devices"]] == ["numpy", "cpu", "cuda:0", "cuda:1"]
    assert found["devices"][2]["properties"]["name"] == "Fake GPU"
    assert (found["unavailable"], found["warnings"]) == ({}, [])
    assert found["versions"]["dmlpy"] == dml.__version__
    assert found["feature_levels"] == {"1_0": "1.0.0", "6_4": "1.15.0"}
    assert found["operators"] == found["devices"][0]["runs"]


def test_two_cupys_are_reported_even_if_one_works(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "cupy-cuda12x", "cupy-cuda13x")
    assert f"warning: {TWO}" in info().splitlines()
    assert json.loads(info("--json"))["warnings"] == [TWO]


def test_a_gpu_that_is_too_old_is_passed_over(machine: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = sys.modules["cupy"].cuda.runtime.getDeviceProperties

    def of_device(device: int) -> dict[str, Any]:
        return properties(device) | ({"name": b"Old GPU", "major": 7, "minor": 0} if device == 0 else {})

    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "getDeviceProperties", of_device)
    reason = "Old GPU has compute capability 7.0, and dmlpy needs 7.5 or newer"
    assert info().splitlines()[-1] == f"device cuda:0: not available: {reason}"
    assert [device.name for device in dml.list_devices()] == ["numpy", "cpu", "cuda:1"]
    found = dml.device()
    assert isinstance(found, CudaDevice)
    assert found.name == "cuda:1"
    with pytest.raises(dml.DeviceError, match=rf"^device 'cuda' cannot be used: {reason}$"):
        dml.device("cuda")
    with pytest.raises(dml.DeviceError, match=r"does not exist on this machine: there are 2 GPUs[^;]*$"):
        dml.device("cuda:2")


def test_no_gpu_that_is_new_enough(machine: FakeGpus) -> None:
    machine.capability = 61
    reason = "Fake GPU has compute capability 6.1, and dmlpy needs 7.5 or newer"
    assert json.loads(info("--json"))["unavailable"] == {"cuda:0": reason, "cuda:1": reason}
    assert dml.device() is dml.device("cpu")


def test_the_oldest_gpu_is_what_the_page_says(machine: FakeGpus) -> None:
    machine.capability = 75
    assert [device.name for device in dml.list_devices()][2:] == ["cuda:0", "cuda:1"]
