"""The kernel of one step of sums of products of bytes, for tests of instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic
from dmlpy.devices.cpu.quantized.byte_product_kernels import dot, load, store
from dmlpy.devices.cpu.quantized.products import ByteIsa


def build_dot(isa: ByteIsa) -> Callable[..., None]:
    """The kernel of the addresses of sums, unsigned bytes, signed bytes, and results."""

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def add(sums: Any, unsigned: Any, signed: Any, results: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            *operands, results = arguments
            store(builder, dot(builder, isa, *(load(builder, isa, address) for address in operands)), results)

        return types.void(*[types.int64] * 4), generate

    def kernel(sums: Any, unsigned: Any, signed: Any, results: Any) -> None:
        add(sums, unsigned, signed, results)

    return kernel
