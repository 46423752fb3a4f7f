"""Instances of the kernels of resampling: each of them with every element type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.resampling.plan import gradient_kernel, interpolate_kernel, pick_kernel, scale_values_kernel
from dmlpy.devices.cuda.resampling.tables import invert_kernel, tabulate_kernel

FLOATS: tuple[np.dtype[Any], ...] = (np.dtype(np.float32), np.dtype(np.float16))
BYTES: tuple[np.dtype[Any], ...] = (np.dtype(np.int8), np.dtype(np.uint8))


def resampling_instances() -> Iterator[Kernel]:
    """All of them."""
    yield tabulate_kernel("Nearest")
    yield tabulate_kernel("Linear")
    yield invert_kernel()
    for data_type in FLOATS + BYTES:
        yield interpolate_kernel(data_type)
    for data_type in FLOATS:
        yield gradient_kernel(data_type)
        yield scale_values_kernel(data_type)
    for data_type in (*FLOATS, np.dtype(np.uint8)):
        yield pick_kernel(data_type)
