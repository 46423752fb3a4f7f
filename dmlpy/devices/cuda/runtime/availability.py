"""Why there is no GPU: one sentence, with a remedy."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")
"""The packages that contain CuPy; only one of them may be installed."""
_LEAST_DRIVERS = {12: 525, 13: 580}
"""The first series of NVIDIA's drivers that run a major version of CUDA, for the versions that have an extra."""
_EXTRAS = " or ".join(f"dmlpy[cuda{major}] (driver {_LEAST_DRIVERS[major]} or newer)" for major in sorted(_LEAST_DRIVERS, reverse=True))
_INSUFFICIENT_DRIVER, _NO_DEVICE = 35, 100
"""cudaError_t."""


def installed_cupys() -> dict[str, str]:
    """The version of each installed package that contains CuPy."""
    versions = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def conflict() -> str | None:
    """The problem if several packages of CuPy are installed: they write the same files."""
    packages = list(installed_cupys())
    if len(packages) < 2:
        return None
    return f"{' and '.join(packages)} are installed together and overwrite each other: uninstall them all, then install {_EXTRAS}"


def without_cupy(error: Exception) -> str:
    """Why CuPy cannot be imported."""
    if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
        return f"CuPy is not installed: install {_EXTRAS}"
    name = " ".join(["CuPy", *installed_cupys().values()])
    return conflict() or f"{name} cannot be imported: {_cause(error)}"


def without_gpu(cudart: Any, error: Exception) -> str:
    """Why CUDA does not start, or finds no GPU.

    Args:
        cudart: `cupy.cuda.runtime`.
        error: the error that it raises when asked for the number of GPUs.
    """
    status = getattr(error, "status", None)
    if status == _INSUFFICIENT_DRIVER:
        return conflict() or _old_driver(int(cudart.driverGetVersion()), int(cudart.runtimeGetVersion()))
    if status == _NO_DEVICE:
        return _no_device()
    return conflict() or f"CUDA does not start: {_cause(error)}"


def _old_driver(driver: int, built: int) -> str:
    """Versions are in CUDA's form, 12040 for 12.4; 0 for a missing driver."""
    major = built // 1000
    needed = f"driver {_LEAST_DRIVERS[major]} or newer" if major in _LEAST_DRIVERS else "a newer driver"
    if not driver:
        library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        return f"NVIDIA's driver is not installed ({library} cannot be loaded): install {needed}"
    older = driver // 1000
    instead = f"dmlpy[cuda{older}] in place of cupy-cuda{major}x, or " if older in _LEAST_DRIVERS else ""
    return f"CUDA driver {shown(driver)} is too old for CUDA {major}: install {instead}{needed}"


def _no_device() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return "NVIDIA's driver finds no GPU: see what nvidia-smi says"
    return f"CUDA_VISIBLE_DEVICES is {visible!r}, which leaves no GPU: unset it, or name one, such as 0"


def shown(number: int) -> str:
    """A version in CUDA's form as text: 12.4 for 12040."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _cause(error: Exception) -> str:
    """The line of an error with the cause: CuPy puts it in a frame, below a page of advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" =")]
    heads = [at for at, line in enumerate(lines) if line == "Original error:"]
    causes = lines[heads[-1] + 1 :] if heads else lines
    return causes[0] if causes else type(error).__name__
