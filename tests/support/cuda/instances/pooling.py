"""Instances of the kernels of pooling: each of them with every element type."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.pooling.align import align_kernel, choose_samples_kernel, corner_gradient_kernel, image_gradient_kernel
from dmlpy.devices.cuda.pooling.forward import average_kernel, largest_kernel, norm_kernel
from dmlpy.devices.cuda.pooling.gradient import average_gradient_kernel, largest_gradient_kernel
from dmlpy.devices.cuda.pooling.planes import Reduction, planes_kernel
from dmlpy.devices.cuda.pooling.regions import pool_regions_kernel
from dmlpy.devices.cuda.pooling.unpooling import choose_kernel, collect_kernel, forget_kernel
from dmlpy.devices.cuda.quantized.pooling import quantized_average_kernel

FLOATS: tuple[np.dtype[Any], ...] = (np.dtype(np.float32), np.dtype(np.float16))
INTEGERS: tuple[np.dtype[Any], ...] = tuple(np.dtype(f"{sign}{size}") for sign, size in product("iu", (1, 2, 4, 8)))
WORDS: tuple[np.dtype[Any], ...] = tuple(np.dtype(f"u{size}") for size in (1, 2, 4, 8))
INDICES = WORDS[2:]


def pooling_instances() -> Iterator[Kernel]:
    """All of them."""
    for data_type in FLOATS:
        yield average_kernel(data_type)
        yield norm_kernel(data_type)
        yield average_gradient_kernel(data_type)
        yield pool_regions_kernel(data_type)
        for reduction in ("Mean", "Maximum"):
            yield align_kernel(data_type, reduction)
        yield choose_samples_kernel(data_type)
        yield image_gradient_kernel(data_type)
        yield corner_gradient_kernel(data_type)
        for index_type in INDICES:
            yield largest_gradient_kernel(data_type, index_type)
    for data_type in FLOATS + INTEGERS:
        yield largest_kernel(data_type)
    reductions: tuple[Reduction, ...] = ("MaximumOf", "IndexedOf")
    turns, adjacent = cycle(product(reductions, (2, 3, 0))), cycle((True, False, False, True, True))
    for data_type in INTEGERS:
        yield planes_kernel(data_type, *next(turns), next(adjacent))
    for data_type, taps in product(FLOATS, (2, 3, 0)):
        for reduction in (*reductions, "AverageOf"):
            yield planes_kernel(data_type, reduction, taps, next(adjacent))
    for input_type, output_type in product((np.dtype(np.int8), np.dtype(np.uint8)), repeat=2):
        yield quantized_average_kernel(input_type, output_type)
    for number_type in INDICES:
        yield forget_kernel(number_type)
        for index_type in INDICES:
            yield choose_kernel(index_type, number_type)
        for word in WORDS:
            yield collect_kernel(word, number_type)
