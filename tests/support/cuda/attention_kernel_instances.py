"""Instances of the kernels of attention: both element types with each number of queries and of elements to a thread."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from dmlpy.devices.cuda.attention import COLUMNS, ROWS, attend_kernel, keep_kernel
from dmlpy.devices.cuda.kernels import Kernel


def attention_instances() -> Iterator[Kernel]:
    """All of them."""
    for name in ("float32", "float16"):
        data_type = np.dtype(name)
        yield keep_kernel(data_type)
        for rows, columns in product(ROWS, COLUMNS):
            yield attend_kernel(data_type, rows, columns)
