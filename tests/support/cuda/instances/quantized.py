"""Instances of the kernels of quantization: every pair of types, by the widest vectors and by single elements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from dmlpy.devices.cuda.common.axes import VECTOR_BYTES
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.quantized.dynamic import dynamic_kernel


def quantized_instances() -> Iterator[Kernel]:
    """Both kernels."""
    for name, data_type, quantized in product(("find", "quantize"), ("float32", "float16"), ("uint8", "int8")):
        kind: np.dtype = np.dtype(data_type)
        for width in (1, VECTOR_BYTES // kind.itemsize):
            yield dynamic_kernel(name, kind, np.dtype(quantized), width)
