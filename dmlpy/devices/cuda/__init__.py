"""The CUDA device: the kernels of `raw_kernels/`, launched through one CUDA runtime. Its modules are imported on first use of a GPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dmlpy.devices.device import DEVICE_KINDS

if TYPE_CHECKING:
    from dmlpy.devices.cuda.device import CudaDevice

_AFTER_A_FORK = (
    "this process was forked from one that had used it, and CUDA does not work in both; start processes with the method spawn or forkserver"
)

_used_by: set[int] = set()
"""The process that has found a GPU, to detect forks."""


def _device(index: int) -> CudaDevice | str:
    from dmlpy.devices.cuda.device import CudaDevice, cuda_device

    if _used_by - {os.getpid()}:
        return _AFTER_A_FORK
    device = cuda_device(index)
    if isinstance(device, CudaDevice):
        _used_by.add(os.getpid())
    return device


def _emulated_device(index: int) -> CudaDevice | str:
    from dmlpy.devices.cuda.emulation.device import emulated_device

    return emulated_device(index)


DEVICE_KINDS["cuda"] = _device
DEVICE_KINDS["cuda-emulated"] = _emulated_device
