"""The CUDA device: the kernels of `raw_kernels/`, launched through one seam. Its modules are imported when a GPU is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.device import DEVICE_KINDS

if TYPE_CHECKING:
    from dmlpy.devices.cuda.device import CudaDevice


def _device(index: int) -> CudaDevice | str:
    from dmlpy.devices.cuda.device import cuda_device

    return cuda_device(index)


DEVICE_KINDS["cuda"] = _device
