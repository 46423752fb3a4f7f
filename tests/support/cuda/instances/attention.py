"""Instances of the kernels of attention: each element type with each size of heads, of few and of many rows, plain or not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlpy.devices.cuda.attention.division import SIZES, attend_kernel, combine_kernel, finish_kernel, parts_kernel
from dmlpy.devices.cuda.kernels import Kernel


def attention_instances() -> Iterator[Kernel]:
    """All of them but those of bfloat16, which differ from those of float16 in the instructions that multiply and convert."""
    for name in ("float32", "float16"):
        data_type = np.dtype(name)
        yield finish_kernel(data_type)
        yield combine_kernel(data_type)
        yield attend_kernel(data_type)
        for (itemsize, few, plain), sizes in SIZES.items():
            for size in sizes if itemsize == data_type.itemsize else ():
                yield parts_kernel(data_type, size, few=few, plain=plain)
