"""The compiled Lp poolings: the norms of windows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.elementwise.function_kernels import Functions
from dmlpy.devices.cpu.elementwise.program import Code
from dmlpy.devices.cpu.lane_kernels import horizontal_maximum_or_nan, horizontal_sum, maximum_of
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.pooling.kernels import pooling_of, reduced_taps, within_window
from dmlpy.devices.cpu.simd import ADDRESS, lanes_below, simd_of
from dmlpy.devices.cpu.simd_math import SimdMath, function_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.pooling.plan import PoolingParameters
    from dmlpy.devices.cpu.thread_pool import TaskBody

_ONE, _INFINITY = np.float32(1.0), np.float32(np.inf)
_LEAST_SQUARE = np.float32(1e-30)
"""The least sum of squares to which each has added its digits: smaller ones leave the range of float32."""


def build_norms(kind: Literal["magnitudes", "squares", "powers"], stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of an Lp pooling, to be compiled.

    Args:
        kind: the terms that are added: those of P = 1, of P = 2, or of any P. Squares in the range of float32 are added as they are;
            others and all powers as those of shares of each window's largest magnitude.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, set_one = simd_of(isa), load_store_of(stored, isa).store_one
    all_of, multiply, lane = simd.all_of, simd.multiply, simd.lane
    are_in_range, unit_of, (term, share, magnitude_of) = _range_check(isa), _unit(isa), _terms(kind, isa)
    root_of, power_of = function_of("square_root", isa), _power_with_inverse_order(isa)
    sum_lanes, largest_lane = horizontal_sum(isa), horizontal_maximum_or_nan(isa)
    largest_of, sum_of, sum_of_shares = (
        reduced_taps(combine, of, isa) for combine, of in ((maximum_of(isa), magnitude_of), (simd.add, term), (simd.add, share))
    )
    largest_within, sum_within, sum_of_shares_within = (
        within_window(sums, of, stored, isa) for sums, of in ((False, magnitude_of), (True, term), (True, share))
    )

    @jit
    def scaled(p: PoolingParameters, unit: Any, total: Any) -> Any:
        return multiply(unit, root_of(total) if kind == "squares" else power_of(total, p.inverse_order))

    @jit
    def pool_vector(p: PoolingParameters, at: Any, y: Any, x: Any, left: Any) -> Any:
        norm = all_of(_ONE)
        if kind != "powers":
            total = sum_of(p, at, norm)
            if kind == "magnitudes":
                return total
            if are_in_range(total, left) != 0:
                return root_of(total)
        unit = unit_of(largest_of(p, at, norm))
        return scaled(p, unit, sum_of_shares(p, at, unit))

    @jit
    def pool_window(p: PoolingParameters, source: Any, y: Any, x: Any) -> Any:
        one = all_of(_ONE)
        if kind != "powers":
            total = sum_lanes(sum_within(p, source, y, x, one))
            if kind == "magnitudes":
                return total
            if _LEAST_SQUARE < total < _INFINITY:
                return np.float32(math.sqrt(total))
        unit = unit_of(all_of(largest_lane(largest_within(p, source, y, x, one))))
        return lane(scaled(p, unit, all_of(sum_lanes(sum_of_shares_within(p, source, y, x, unit)))), 0)

    @jit
    def pool_planes(p: PoolingParameters, source: Any, output: Any, count: Any, scratch: Any) -> None:
        for plane in range(count):
            set_one(output + plane * p.output_channel, pool_window(p, source + plane * p.input_channel, 0, 0))

    return pooling_of(pool_vector, pool_window, pool_planes, stored, isa)


def _terms(kind: str, isa: Isa) -> tuple[Any, Any, Any]:
    """The terms of an element, as `reduced_taps` takes them: what is added in the range of float32, a share's power, the magnitude."""
    simd, magnitude = simd_of(isa), function_of("magnitude", isa)
    all_of, multiply, divide = simd.all_of, simd.multiply, simd.divide

    @jit
    def term(p: PoolingParameters, value: Any, unit: Any) -> Any:
        return multiply(value, value) if kind == "squares" else magnitude(value)

    @jit
    def share(p: PoolingParameters, value: Any, unit: Any) -> Any:
        base, order, power = divide(magnitude(value), unit), p.order, all_of(_ONE)
        while order > 0:
            if order % 2 == 1:
                power = multiply(power, base)
            base = multiply(base, base)
            order //= 2
        return power

    @jit
    def magnitude_of(p: PoolingParameters, value: Any, unit: Any) -> Any:
        return magnitude(value)

    return term, share, magnitude_of


def _range_check(isa: Isa) -> Any:
    """The intrinsic `are_in_range(sums, count)`: 1 if the first `count` sums of squares are in the range of float32, else 0."""
    simd, bits = simd_of(isa), ir.IntType(isa.lanes)

    @intrinsic
    def are_in_range(sums: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            sums, count = arguments
            in_range = builder.and_(
                builder.fcmp_ordered(">", sums, simd.all(float(_LEAST_SQUARE))), builder.fcmp_ordered("<", sums, simd.all(float(_INFINITY)))
            )
            others = builder.not_(lanes_below(builder, count, isa.lanes))
            return builder.zext(builder.icmp_signed("==", builder.bitcast(builder.or_(in_range, others), bits), bits(-1)), ADDRESS)

        return types.int64(simd.kind, types.int64), generate

    return are_in_range


def _unit(isa: Isa) -> Any:
    """The intrinsic `unit_of(largest)`: the largest magnitudes, or 1 where a division by these would give NaN."""
    simd = simd_of(isa)

    @intrinsic
    def unit_of(largest: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            (largest,) = arguments
            divides = builder.and_(
                builder.fcmp_ordered(">", largest, simd.all(0.0)), builder.fcmp_ordered("<", largest, simd.all(float(_INFINITY)))
            )
            return builder.select(divides, largest, simd.all(1.0))

        return simd.kind(simd.kind), generate

    return unit_of


def _power_with_inverse_order(isa: Isa) -> Any:
    """The intrinsic `power_of(total, exponent)`: sums to the power of one exponent."""
    simd = simd_of(isa)

    @intrinsic
    def power_of(total: Any, exponent: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            total, exponent = arguments
            formulas = Functions(SimdMath(builder, simd), builder).formulas()
            return formulas[Code.CONSTANT_POWER](total, None, simd.repeated(builder, exponent), None)

        return simd.kind(simd.kind, types.float32), generate

    return power_of
