"""A kernel for tests of how kernels are kept: little to compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlpy.devices.cpu.jit import Kernel

STORE = Kernel("tests.support.small_kernels:store_of", 2)
"""Writes a number, plus the one that it was made with, to an address."""


def store_of(plus: int) -> Callable[..., None]:
    from dmlpy.devices.cpu.simd import set_integer

    def store(address: Any, number: Any) -> None:
        set_integer(address, number + plus)

    return store


SUM = Kernel("tests.support.small_kernels:sum_of", 2)
"""Writes the sum of the numbers below one to an address: optimisations change its code."""


def sum_of() -> Callable[..., None]:
    from dmlpy.devices.cpu.simd import set_integer

    def store(address: Any, number: Any) -> None:
        total = 0
        for term in range(number):
            total += term
        set_integer(address, total)

    return store


def allocating() -> Callable[..., None]:
    """A function that needs Numba's allocator."""
    import numpy as np

    from dmlpy.devices.cpu.simd import set_integer

    def allocate(size: Any) -> None:
        array = np.zeros(size)
        set_integer(array.ctypes.data, size)

    return allocate
