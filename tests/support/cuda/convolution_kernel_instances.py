"""Instances of the kernels of convolutions: each arithmetic, both directions, each fused function."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np

from dmlpy.devices.cuda.convolution.plan import convolution_kernel, float_arithmetic
from dmlpy.devices.cuda.functors import ATTRIBUTES
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.quantized.convolution import integer_arithmetic
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

FLOATS: tuple[np.dtype[Any], ...] = (np.dtype(np.float32), np.dtype(np.float16))
BYTES: tuple[np.dtype[Any], ...] = (np.dtype(np.int8), np.dtype(np.uint8))
INT32 = np.dtype(np.int32)


def convolution_instances() -> Iterator[Kernel]:
    """All of them but for fused functions, which take turns with the element types, kernels and directions."""
    turns = cycle(list(product(FLOATS, (True, False), (True, False))))
    for data_type, tiles, backward in product(FLOATS, (True, False), (True, False)):
        yield convolution_kernel(float_arithmetic(data_type, None, None), tiles=tiles, backward=backward)
    for function in (ElementWiseClipDesc(min=0.0, max=1.0), *(activation() for activation in ATTRIBUTES)):
        data_type, tiles, backward = next(turns)
        yield convolution_kernel(float_arithmetic(data_type, function, None), tiles=tiles, backward=backward)
    for x, w, y, tiles in product(BYTES, BYTES, (INT32, *BYTES), (True, False)):
        yield convolution_kernel(integer_arithmetic(x, w, y), tiles=tiles, backward=False)
