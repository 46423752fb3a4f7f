"""The kernel of one step of sums of products of bytes, for tests of instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic
from dmlpy.devices.cpu.quantized.byte_isa import ByteIsa
from dmlpy.devices.cpu.quantized.byte_product_kernels import dot, load, store


def build_dot(isa: ByteIsa) -> Callable[..., None]:
    """The kernel of the addresses of sums, unsigned bytes, signed bytes, and results."""

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def add(context: Any, sums: Any, unsigned: Any, signed: Any, results: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            *operands, results = arguments
            store(builder, dot(builder, isa, *(load(builder, isa, address) for address in operands)), results)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), generate

    def kernel(sums: Any, unsigned: Any, signed: Any, results: Any) -> None:
        add(sums, unsigned, signed, results)

    return kernel
