"""What kernels of groups do with the lanes of a vector beside arithmetic: take some of them, and fold all into one float."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dmlpy.devices.cpu.simd import INDEX, lanes_below, simd_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.isa import Isa


@cache
def lanes_up_to(isa: Isa) -> Any:
    """The kernel `chosen(count, x, other)`: the first `count` lanes of x and the others of `other`."""
    kind = simd_of(isa).kind

    @intrinsic
    def chosen(context: Any, count: Any, x: Any, other: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            count, x, other = arguments
            return builder.select(lanes_below(builder, count, isa.lanes), x, other)

        return kind(types.int64, kind, kind), generate

    return chosen


@cache
def folded_sum(isa: Isa) -> Any:
    """The kernel of a vector that adds up its lanes."""
    return _folded(isa, lambda builder, x, y: builder.fadd(x, y))


@cache
def folded_maximum(isa: Isa) -> Any:
    """The kernel of a vector that gives its largest lane; a NaN may be passed over."""
    return _folded(isa, lambda builder, x, y: builder.select(builder.fcmp_ordered("<", x, y), y, x))


def _folded(isa: Isa, combine: Callable[[Any, Any, Any], Any]) -> Any:
    simd, lanes = simd_of(isa), isa.lanes

    @intrinsic
    def folded(context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (x,), half = arguments, lanes // 2
            while half:
                order = ir.Constant(ir.VectorType(INDEX, lanes), [(lane + half) % lanes for lane in range(lanes)])
                x = combine(builder, x, builder.shuffle_vector(x, x, order))
                half //= 2
            return builder.extract_element(x, INDEX(0))

        return types.float32(simd.kind), generate

    return folded
