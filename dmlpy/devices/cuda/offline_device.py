"""`offline_device`: a GPU that need not be present, for which plans are made and kernels compiled, and on which nothing runs."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from dmlpy.devices.cuda.runtime.interface import Limits
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import numpy as np

_KIB, _GIB, _CUDA = 1 << 10, 1 << 30, 13000
GPUS = {
    limits.name: limits
    for limits in (
        Limits("T4", 75, 40, 64 * _KIB, 16 * _GIB, _CUDA, _CUDA),
        Limits("A100", 80, 108, 163 * _KIB, 40 * _GIB, _CUDA, _CUDA),
        Limits("A10", 86, 72, 99 * _KIB, 24 * _GIB, _CUDA, _CUDA),
        Limits("RTX4090", 89, 128, 99 * _KIB, 24 * _GIB, _CUDA, _CUDA),
        Limits("H100", 90, 132, 227 * _KIB, 80 * _GIB, _CUDA, _CUDA),
        Limits("H200", 90, 132, 227 * _KIB, 141 * _GIB, _CUDA, _CUDA),
        Limits("B200", 100, 148, 227 * _KIB, 180 * _GIB, _CUDA, _CUDA),
        Limits("RTX5090", 120, 170, 99 * _KIB, 32 * _GIB, _CUDA, _CUDA),
    )
}
"""GPUs by name, with the limits that they report. The first of an architecture represents it."""
_ARCHITECTURE = re.compile(r"sm_(\d{2,3})", re.IGNORECASE)


def limits_of(name: str) -> Limits:
    """The limits of a GPU, named in any case, or of an architecture: `H200`, `sm_90`.

    Plans for an architecture that is not in `GPUS` use the next older one.

    Raises:
        DeviceError: the name is unknown, or the GPU is too old.
    """
    named = {gpu.lower(): limits for gpu, limits in GPUS.items()}
    if name.lower() in named:
        return named[name.lower()]
    architecture = _ARCHITECTURE.fullmatch(name)
    if architecture is None:
        raise DeviceError(f"{name!r} is neither an architecture, like sm_90, nor one of the GPUs {', '.join(GPUS)}")
    capability = int(architecture[1])
    older = [limits for limits in GPUS.values() if limits.compute_capability <= capability]
    if not older:
        raise DeviceError(f"{name} is too old: dmlpy has kernels for compute capability 7.5 (sm_75) and newer")
    highest = max(limits.compute_capability for limits in older)
    near = next(limits for limits in older if limits.compute_capability == highest)
    return near if highest == capability else replace(near, name=name.lower(), compute_capability=capability)


class OfflineRuntime(CupyRuntime):
    """CuPy's compiler for a GPU that need not be present. Its kernels have the same keys as on the GPU's machine.

    Methods that need the GPU raise DeviceError. The number of resident blocks of a multiprocessor is reported as one.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits

    def device_count(self) -> int:
        return 1

    def limits(self, device: int) -> Limits:
        return self._limits

    def free_memory(self, device: int) -> int:
        return self._limits.total_memory

    def use(self, device: int) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def load(self, device: int, image: bytes, symbol: str, shared_bytes: int) -> Any:
        return symbol

    def occupancy(self, function: Any, threads: int, shared_bytes: int) -> int:
        return 1

    def workspace_size(self, device: int) -> int:
        return 0

    def allocate(self, device: int, size: int, stream: int) -> Any:
        raise self._absent("allocate")

    def empty(self, device: int, sizes: Sequence[int], strides: Sequence[int], data_type: np.dtype[Any], stream: int) -> Any:
        raise self._absent("empty")

    def current_stream(self, device: int) -> int:
        raise self._absent("current_stream")

    def _absent(self, what: str) -> DeviceError:
        return DeviceError(f"{what}: the {self._limits.name} is planned for, and need not be there: nothing can run on it")


def offline_device(name: str) -> CudaDevice:
    """The device of a GPU or an architecture, to compile for.

    Raises:
        DeviceError: what `limits_of` raises, or the name is that of an architecture that the installed NVRTC does not know.
    """
    limits = limits_of(name)
    runtime = OfflineRuntime(limits)
    # NVRTC compiles a GPU of the list for an older architecture if need be, and its driver translates that.
    if limits.name not in GPUS and limits.compute_capability not in (known := runtime.architectures()):
        names, compiler = ", ".join(f"sm_{architecture}" for architecture in known), " ".join(runtime.compiler_version().split()[:2])
        raise DeviceError(f"{limits.name} is not an architecture that {compiler} compiles for: {names}")
    return CudaDevice(runtime)
