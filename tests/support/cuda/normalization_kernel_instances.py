"""Instances of the kernels of batch normalization: each one with every width of vectors, within groups and across, and every activation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product

import numpy as np

from dmlpy.devices.cuda.axes import VECTOR_BYTES
from dmlpy.devices.cuda.functors import ATTRIBUTES, functor
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.normalization.forward import forward_kernel
from dmlpy.devices.cuda.normalization.gradient import gradient_kernel

HALF, FLOAT = np.dtype(np.float16), np.dtype(np.float32)
TYPES = ((FLOAT, FLOAT), (HALF, HALF), (HALF, FLOAT))
"""Of data, and of statistics."""


def normalization_instances() -> Iterator[Kernel]:
    """Both passes. Pairs of types take turns over widths, statistics of the batch and given ones over kernels and functions."""
    types, flags = cycle(TYPES), cycle((True, False))
    for of_data, of_statistics in TYPES:
        yield forward_kernel("combine", of_data, of_statistics)
        yield gradient_kernel("combine", of_data, of_statistics)
    for width, across in product((1, 2, 4, 8), (False, True)):
        fitting = [pair for pair in TYPES if width * pair[0].itemsize <= VECTOR_BYTES]
        for name in ("normalize", "gather", "apply"):
            yield forward_kernel(name, *_next(types, fitting), width, across, next(flags))
        for name in ("differentiate", "gather", "apply"):
            yield gradient_kernel(name, *_next(types, fitting), width, across, next(flags))
    # the most entries that a thread has at a time, so the most registers
    for number, function in enumerate(map(functor, ATTRIBUTES)):
        across, training = number % 2 == 0, number % 4 < 2
        yield forward_kernel("apply", HALF, FLOAT, 8, across, training, function)
        yield forward_kernel("normalize", HALF, FLOAT, 8, not across, True, function)


def _next(types: Iterator[tuple[np.dtype, np.dtype]], fitting: list[tuple[np.dtype, np.dtype]]) -> tuple[np.dtype, np.dtype]:
    return next(pair for pair in types if pair in fitting)
