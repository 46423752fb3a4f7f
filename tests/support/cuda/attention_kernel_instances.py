"""Instances of the kernels of attention: each element type with each size of heads, of few and of many rows, plain or not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlpy.devices.cuda.attention.division import SIZES, attend_kernel, combine_kernel, keep_kernel, parts_kernel
from dmlpy.devices.cuda.kernels import Kernel


def attention_instances() -> Iterator[Kernel]:
    """All of them."""
    for name in ("float32", "float16"):
        data_type = np.dtype(name)
        yield keep_kernel(data_type)
        yield combine_kernel(data_type)
        yield attend_kernel(data_type)
    for (name, few, plain), sizes in SIZES.items():
        for size in sizes:
            yield parts_kernel(np.dtype(name), size, few=few, plain=plain)
