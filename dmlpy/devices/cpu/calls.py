"""Calls of compiled functions by their addresses: what several kernels use is compiled once, apart from them."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dmlpy.devices.cpu.simd import ADDRESS, INDEX


@cache
def caller(count: int) -> Any:
    """The kernel `call(function, arguments)`, which calls what `Kernel.address` gives with a tuple of integers and returns its result."""

    @intrinsic
    def call(context: Any, function: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            function, given = arguments
            # Numba's convention: the results' addresses come first, that of an error behind that of the result.
            result, error = (cgutils.alloca_once(builder, ADDRESS) for _ in range(2))
            kind = ir.FunctionType(INDEX, [result.type] * 2 + [ADDRESS] * count)
            values = [builder.extract_value(given, place) for place in range(count)]
            builder.call(builder.inttoptr(function, kind.as_pointer()), [result, error, *values])
            return builder.load(result)

        return types.int64(types.int64, types.UniTuple(types.int64, count)), generate

    return call
