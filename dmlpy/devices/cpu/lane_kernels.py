"""Kernels of vectors that choose or combine lanes."""

from __future__ import annotations

from functools import cache
from math import nan
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic
from dmlpy.devices.cpu.simd import FLOAT, INDEX, lanes_below, maximum, simd_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.isa import Isa


def maximum_of(isa: Isa) -> Any:
    """The kernel of two vectors that returns the larger number of each lane, or NaN if there is one."""
    kind = simd_of(isa).kind

    @intrinsic
    def larger(x: Any, y: Any) -> Any:
        return kind(kind, kind), lambda builder, arguments: maximum(builder, *arguments)

    return larger


@cache
def lane_selector(isa: Isa) -> Any:
    """The kernel `select_first(count, x, other)`: the first `count` lanes of x and the others of `other`."""
    kind = simd_of(isa).kind

    @intrinsic
    def select_first(count: Any, x: Any, other: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            count, x, other = arguments
            return builder.select(lanes_below(builder, count, isa.lanes), x, other)

        return kind(types.int64, kind, kind), generate

    return select_first


@cache
def horizontal_sum(isa: Isa) -> Any:
    """The kernel of a vector that adds up its lanes."""
    return _horizontal(isa, lambda builder, x, y: builder.fadd(x, y))


@cache
def horizontal_maximum(isa: Isa) -> Any:
    """The kernel of a vector that returns its largest lane; it may miss a NaN."""
    return _horizontal(isa, lambda builder, x, y: builder.select(builder.fcmp_ordered("<", x, y), y, x))


@cache
def horizontal_maximum_or_nan(isa: Isa) -> Any:
    """The kernel of a vector that returns its largest lane, or NaN if there is one."""
    largest_of, kind, lanes = horizontal_maximum(isa), simd_of(isa).kind, isa.lanes

    @intrinsic
    def largest_or_nan(x: Any) -> Any:
        _, largest = largest_of.define(kind)

        def generate(builder: Any, arguments: Any) -> Any:
            wrong = builder.bitcast(builder.fcmp_unordered("uno", arguments[0], arguments[0]), ir.IntType(lanes))
            has_nan = builder.icmp_unsigned("!=", wrong, ir.IntType(lanes)(0))
            return builder.select(has_nan, FLOAT(nan), largest(builder, arguments))

        return types.float32(kind), generate

    return largest_or_nan


def _horizontal(isa: Isa, combine: Callable[[Any, Any, Any], Any]) -> Any:
    @intrinsic
    def reduce_lanes(x: Any) -> Any:
        return types.float32(simd_of(isa).kind), lambda builder, arguments: combined_lanes(builder, arguments[0], combine)

    return reduce_lanes


def combined_lanes(builder: Any, x: Any, combine: Callable[[Any, Any, Any], Any]) -> Any:
    """The lanes of a vector as one number: combine(builder, x, y) of its halves, until one lane is left."""
    lanes = x.type.count
    half = lanes // 2
    while half:
        order = ir.Constant(ir.VectorType(INDEX, lanes), [(lane + half) % lanes for lane in range(lanes)])
        x = combine(builder, x, builder.shuffle_vector(x, x, order))
        half //= 2
    return builder.extract_element(x, INDEX(0))
