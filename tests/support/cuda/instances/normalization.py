"""Instances of the kernels of normalizations: each one with every width of vectors, within groups and across, and every activation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product

import numpy as np

from dmlpy.devices.cuda.common.axes import VECTOR_BYTES
from dmlpy.devices.cuda.common.functors import ATTRIBUTES, functor
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.normalization.forward import forward_kernel
from dmlpy.devices.cuda.normalization.gradient import gradient_kernel
from dmlpy.devices.cuda.normalization.groups import STATISTICS, groups_kernel
from dmlpy.devices.cuda.normalization.local_response import response_kernel

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
    yield from groups_instances()
    for data_type in (FLOAT, HALF):
        for name in ("normalize", "prepare", "differentiate"):
            yield response_kernel(name, data_type)


def groups_instances() -> Iterator[Kernel]:
    """Normalizations of groups: each statistic with each type, by the widest vectors; widths and functions in turn."""
    functions = cycle(map(functor, ATTRIBUTES))
    cases: list[tuple[np.dtype, str]] = [(data_type, statistic) for data_type in (FLOAT, HALF) for statistic in STATISTICS]
    for data_type, statistic in cases:
        widest = VECTOR_BYTES // data_type.itemsize
        for across in (False, True):
            yield groups_kernel("apply", data_type, statistic, widest, across, next(functions))
            if statistic != "Unscaled":
                yield groups_kernel("normalize", data_type, statistic, widest, across, next(functions))
                yield groups_kernel("gather", data_type, statistic, widest, across)
        if statistic != "Unscaled":
            yield groups_kernel("combine", data_type, statistic)
    for width, across in product((1, 2, 4), (False, True)):
        for name in ("normalize", "gather", "apply"):
            yield groups_kernel(name, HALF, "MeanVariance", width, across, next(functions))
    for function in map(functor, ATTRIBUTES):
        yield groups_kernel("normalize", HALF, "MeanVariance", 8, True, function)


def _next(types: Iterator[tuple[np.dtype, np.dtype]], fitting: list[tuple[np.dtype, np.dtype]]) -> tuple[np.dtype, np.dtype]:
    return next(pair for pair in types if pair in fitting)
