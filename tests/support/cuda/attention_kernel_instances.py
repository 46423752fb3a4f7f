"""Instances of the kernels of attention: each element type with each number of queries and of elements to a thread, or to a block."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from dmlpy.devices.cuda.attention.division import COLUMNS, ROWS, SIZES, attend_kernel, combine_kernel, halves_kernel, keep_kernel
from dmlpy.devices.cuda.kernels import Kernel


def attention_instances() -> Iterator[Kernel]:
    """All of them."""
    for name in ("float32", "float16"):
        data_type = np.dtype(name)
        yield keep_kernel(data_type)
        yield combine_kernel(data_type)
        for rows, columns in product(ROWS, COLUMNS):
            yield attend_kernel(data_type, rows, columns)
    for size, few, plain in product(SIZES, (False, True), (False, True)):
        yield halves_kernel(size, few=few, plain=plain)
