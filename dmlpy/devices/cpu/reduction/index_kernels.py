"""The compiled ARGMIN and ARGMAX: the index of an extreme of each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.quantized.byte_product_kernels import set_quad
from dmlpy.devices.cpu.reduction.index_plan import IndexReductionParameters
from dmlpy.devices.cpu.reduction.kernels import horizontal_maximum, lane_selector
from dmlpy.devices.cpu.simd import ADDRESS, lanes_below, set_integer, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_LOWEST = np.float32(-np.inf)
_EIGHT = 8


def build_index_reduction(isa: Isa) -> TaskBody:
    """Builds a thread's part of the indices of extremes, to be compiled.

    A NaN is ignored. The index of a row of nothing else is that of the element that would count first.

    Args:
        isa: the instruction set that it is compiled for.
    """
    simd, lanes = simd_of(isa), isa.lanes
    load, multiply, all_of, at_least = simd.load_some, simd.multiply, simd.all_of, simd.at_least
    select_first, largest_of, equal_lanes = lane_selector(isa), horizontal_maximum(isa), _equal_lanes(isa)

    @jit
    def index_of(p: IndexReductionParameters, row: Any) -> Any:
        sign, lowest = all_of(p.sign), all_of(_LOWEST)
        best = lowest
        for at in range(0, p.entries, lanes):
            found = multiply(sign, load(row + at * FLOAT_BYTES, p.entries - at))
            best = at_least(best, select_first(p.entries - at, found, lowest))  # a NaN is not above it
        largest, vectors = all_of(largest_of(best)), (p.entries + lanes - 1) // lanes
        for vector in range(vectors):
            at = (vectors - 1 - vector if p.backward != 0 else vector) * lanes
            equal = equal_lanes(multiply(sign, load(row + at * FLOAT_BYTES, p.entries - at)), largest, p.entries - at)
            if equal != 0:
                return at + (_last_bit(equal) if p.backward != 0 else _first_bit(equal))
        return p.entries - 1 if p.backward != 0 else 0

    @jit
    def run(p: IndexReductionParameters, first: Any, last: Any, own: Any) -> None:
        for number in range(first, last):
            outer, inner = number // p.row_size, number % p.row_size
            index = index_of(p, p.x + outer * p.x_row + inner * p.x_row1)
            target = p.y + outer * p.y_row + inner * p.y_row1
            if p.y_width == _EIGHT:
                set_integer(target, index)
            else:
                set_quad(target, index)

    return share_units(IndexReductionParameters, run)


def _equal_lanes(isa: Isa) -> Any:
    """The kernel `equal_lanes(x, y, count)`: an integer with a bit for each of the first `count` lanes that are equal."""
    kind, lanes = simd_of(isa).kind, isa.lanes

    @intrinsic
    def equal_lanes(x: Any, y: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            x, y, count = arguments
            equal = builder.and_(builder.fcmp_ordered("==", x, y), lanes_below(builder, count, lanes))
            return builder.zext(builder.bitcast(equal, ir.IntType(lanes)), ADDRESS)

        return types.int64(kind, kind, types.int64), generate

    return equal_lanes


def _zeros(builder: Any, name: str, bits: Any) -> Any:
    """The zeros at one end of an integer that is not 0."""
    kind = ir.FunctionType(ADDRESS, [ADDRESS, ir.IntType(1)])
    return builder.call(declared(builder.module, kind, f"llvm.{name}.i64"), [bits, ir.IntType(1)(1)])


@intrinsic
def _first_bit(bits: Any) -> Any:
    """The number of the lowest bit that is set."""
    return types.int64(types.int64), lambda builder, arguments: _zeros(builder, "cttz", arguments[0])


@intrinsic
def _last_bit(bits: Any) -> Any:
    """The number of the highest bit that is set."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.sub(ADDRESS(63), _zeros(builder, "ctlz", arguments[0]))

    return types.int64(types.int64), generate
