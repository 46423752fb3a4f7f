"""Every instance of the kernels between and around the layers of stacked networks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.cudnn import CLAMP_LENGTHS_KERNEL, WRITE_HEADER_KERNEL, drop_kernel, identity_kernel, move_gates_kernel


def cudnn_instances() -> Iterator[Kernel]:
    """Each kernel, those of values for each element type."""
    yield CLAMP_LENGTHS_KERNEL
    yield WRITE_HEADER_KERNEL
    for data_type in (np.float32, np.float16):
        for kernel in (move_gates_kernel, identity_kernel, drop_kernel):
            yield kernel(np.dtype(data_type))
