"""Kernels for tests: of the kernel store, with little to compile, and of functions that cells apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa

STORE = Kernel("tests.support.cpu.small_kernels:store_of", 2)
"""Writes a number, plus the one that it was made with, to an address."""


def store_of(plus: int) -> Callable[..., None]:
    from dmlpy.devices.cpu.simd import set_integer

    def store(address: Any, number: Any) -> None:
        set_integer(address, number + plus)

    return store


SUM = Kernel("tests.support.cpu.small_kernels:sum_of", 2)
"""Writes the sum of the numbers below one to an address: optimisations change its code."""


def sum_of() -> Callable[..., None]:
    from dmlpy.devices.cpu.simd import set_integer

    def store(address: Any, number: Any) -> None:
        total = 0
        for term in range(number):
            total += term
        set_integer(address, total)

    return store


def calls_nothing() -> Callable[..., None]:
    """A function that calls one that the process does not have."""
    from dmlpy.devices.cpu.compiler import types
    from dmlpy.devices.cpu.compiler.functions import ExternalFunction

    missing = ExternalFunction("dmlpy_has_no_such_function", types.void(types.int64))

    def call(size: Any) -> None:
        missing(size)

    return call


def build_scaling() -> Callable[..., None]:
    """A function of the addresses of a float and of an integer: multiplies one by a constant, and the other positive by C's library."""
    from dmlpy.devices.cpu.compiler import types
    from dmlpy.devices.cpu.compiler.functions import ExternalFunction
    from dmlpy.devices.cpu.simd import float_at, integer_at, set_float, set_integer

    factor, magnitude = np.float32(0.3), ExternalFunction("llabs", types.int64(types.int64))

    def scale(number: Any, integer: Any) -> None:
        set_float(number, float_at(number) * factor)
        set_integer(integer, magnitude(integer_at(integer)))

    return scale


SLOPES = Kernel("tests.support.cpu.small_kernels:slopes_of", 4)
"""Writes the slopes of an activation that has no name of its own: the instruction set."""


def slopes_of(isa: Isa) -> Callable[..., None]:
    """It is compute(parameters, x, slopes, count): addresses of `LayerParameters` and floats, and how many there are."""
    from dmlpy.devices.cpu.load_store import load_store_of
    from dmlpy.devices.cpu.recurrent.cell_kernels import slope
    from dmlpy.devices.cpu.recurrent.parameters import LayerParameters
    from dmlpy.devices.cpu.simd import struct_view

    load_store, of_activation, parameters_at = load_store_of("float32", isa), slope("other", 0, isa), struct_view(LayerParameters)
    load, store, lanes = load_store.load, load_store.store, isa.lanes

    def compute(parameters: Any, x: Any, slopes: Any, count: Any) -> None:
        p = parameters_at(parameters)
        for first in range(0, count, lanes):
            values = load(x + 4 * first, count - first)
            store(slopes + 4 * first, of_activation(p, values, values), count - first)

    return compute


FUNCTION = Kernel("tests.support.cpu.small_kernels:function_of_vectors", 3)
"""Writes a function of `SimdMath`: its name, and the instruction set."""


def function_of_vectors(name: str, isa: Isa) -> Callable[..., None]:
    """It is compute(x, y, count): addresses of floats, and how many there are."""
    from dmlpy.devices.cpu.load_store import load_store_of
    from dmlpy.devices.cpu.simd_math import function_of

    load_store, function, lanes = load_store_of("float32", isa), function_of(name, isa), isa.lanes
    load, store = load_store.load, load_store.store

    def compute(x: Any, y: Any, count: Any) -> None:
        for first in range(0, count, lanes):
            store(y + 4 * first, function(load(x + 4 * first, count - first)), count - first)

    return compute


HALVES = Kernel("tests.support.cpu.small_kernels:build_halves", 3)
"""Converts vectors of FLOAT16 to floats, or floats to FLOAT16: addresses of what is written and read, and the number of vectors."""


def build_halves(to_floats: bool, isa: Isa) -> Callable[..., None]:
    from dmlpy.devices.cpu.load_store import load_store_of

    names = ("float32", "float16") if to_floats else ("float16", "float32")
    to, of = (load_store_of(name, isa) for name in names)
    lanes, write, read, to_size, of_size = isa.lanes, to.store, of.load, to.size, of.size

    def convert(target: Any, source: Any, count: Any) -> None:
        for at in range(count):
            write(target + at * lanes * to_size, read(source + at * lanes * of_size, lanes), lanes)

    return convert
