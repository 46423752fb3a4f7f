"""Instances of the kernels of reductions: each function with each type of its kernels, widths of vectors, along groups and across."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product

import numpy as np

from dmlpy.devices.cuda.common.axes import VECTOR_BYTES
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.reduction.functions import FUNCTIONS, Reduction
from dmlpy.devices.cuda.reduction.reduce import MOST_WIDTH, reduce_kernel
from dmlpy.devices.cuda.reduction.scan import scan_kernel
from dmlpy.devices.cuda.reduction.top_k import top_k_kernel

FLOATS, SUMS, INTEGERS = ("float32", "float16"), ("uint32", "uint64"), ("int8", "int16", "int32", "int64")
TYPES = dict.fromkeys(FUNCTIONS.values(), FLOATS) | {
    "Sum": FLOATS + SUMS,
    "Multiply": FLOATS + SUMS,
    "SumSquare": FLOATS + SUMS,
    "L1": (*FLOATS, "int32", "int64", *SUMS),
    "Extreme": FLOATS + INTEGERS,
    "ArgExtreme": FLOATS + INTEGERS,
}
"""One type for each that the kernels distinguish."""


def reduction_instances() -> Iterator[Kernel]:
    """All kernels of each function and type with the widest vectors, and functions in turn with narrower ones."""
    reductions = [Reduction(function, np.dtype(name)) for function, names in TYPES.items() for name in names]
    flags = cycle((False, True))
    for reduction in reductions:
        widest = _widest(reduction)
        for across in (False, True):
            yield reduce_kernel("reduce", reduction, widest, across)
        yield reduce_kernel("gather", reduction, widest, next(flags))
        yield reduce_kernel("combine", reduction)
    for width, across in product((1, 2, 4), (False, True)):
        for reduction in reductions[width::4]:
            if width < _widest(reduction):
                yield reduce_kernel("reduce", reduction, width, across)
    yield from scan_instances()
    for kernel, name in product(("sort", "select", "merge"), FLOATS + INTEGERS):
        yield top_k_kernel(kernel, np.dtype(name))


def scan_instances() -> Iterator[Kernel]:
    """Sums and products of each type, by single entries and by the widest vectors."""
    for function, name in product(("Sum", "Multiply"), FLOATS + SUMS):
        reduction = Reduction(function, np.dtype(name))
        for width in {1, _widest(reduction)}:
            yield scan_kernel("scan", reduction, width)
        yield scan_kernel("total", reduction, _widest(reduction))


def _widest(reduction: Reduction) -> int:
    return min(VECTOR_BYTES // reduction.data_type.itemsize, MOST_WIDTH)
