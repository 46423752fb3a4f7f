"""Instances of the kernels of UNFOLD and FOLD: each of them with every element type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.movement.blocks import fold_kernel, unfold_kernel


def blocks_instances() -> Iterator[Kernel]:
    """All of them."""
    for data_type in (np.dtype(np.float32), np.dtype(np.float16)):
        yield unfold_kernel(data_type)
        yield fold_kernel(data_type)
