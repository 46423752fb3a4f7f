"""Remainders of vectors of floats as LLVM code, exact as C's fmod has them."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler.functions import declared
from dmlpy.devices.cpu.simd import ADDRESS, Loop

if TYPE_CHECKING:
    from dmlpy.devices.cpu.simd_math import SimdMath

_MOST = 2.0**24
"""A quotient below it is one too large at most, once it is rounded and truncated, and never too small."""
_FRACTION_BITS = 52
_STEP = 24
"""The bits of a quotient that a step of the long division finds: with a float's, they fit into a double."""


def remainder(math: SimdMath, builder: Any, x: Any, y: Any) -> Any:
    """The remainder of x / y with the sign of x."""
    size, divisor = math.magnitude(x), math.magnitude(y)
    quotient = math.divide(size, divisor)
    near = _corrected(builder, math, size, divisor, math.built_in("trunc", quotient))
    are_near = builder.and_(math.less(quotient, math.constant(_MOST)), math.less(divisor, math.constant(inf)))
    lanes = ir.IntType(are_near.type.count)
    others = builder.icmp_unsigned("!=", builder.bitcast(are_near, lanes), lanes(-1))
    before = builder.block
    with builder.if_then(others, likely=False):
        long = _long_division(builder, math, size, divisor)
        after = builder.block
    found = builder.phi(x.type)
    found.add_incoming(near, before)
    found.add_incoming(long, after)
    return math.built_in("copysign", found, x)


def floored_remainder(math: SimdMath, builder: Any, x: Any, y: Any) -> Any:
    """The remainder of x / y with the sign of y."""
    found, zero = remainder(math, builder, x, y), math.constant(0.0)
    differ = builder.icmp_signed("!=", math.less(found, zero), math.less(y, zero))
    moved = math.select(differ, math.add(found, y), found)
    return math.select(builder.fcmp_ordered("==", found, zero), math.built_in("copysign", zero, y), moved)


def _corrected(builder: Any, math: SimdMath, size: Any, divisor: Any, quotient: Any) -> Any:
    """What is left of a size, given its whole quotient or one more. Nothing is rounded."""
    left = math.fused(builder.fneg(quotient), divisor, size)
    return math.select(math.less(left, math.constant(0.0)), math.add(left, divisor), left)


def _long_division(builder: Any, math: SimdMath, size: Any, divisor: Any) -> Any:
    """The remainder of any magnitudes, in double precision, in which all floats are normal numbers."""
    count = size.type.count
    doubles, longs = ir.VectorType(ir.DoubleType(), count), ir.VectorType(ADDRESS, count)

    def number(value: float) -> Any:
        return ir.Constant(doubles, [value] * count)

    def integer(value: int) -> Any:
        return ir.Constant(longs, [value] * count)

    x, y = (builder.fpext(value, doubles) for value in (size, divisor))
    undefined = builder.or_(builder.fcmp_unordered("==", x, number(inf)), builder.fcmp_unordered("==", y, number(0.0)))
    whole = builder.or_(undefined, builder.fcmp_unordered("==", y, number(inf)))
    loop = Loop(builder, [builder.select(whole, number(0.0), x)])
    y = builder.select(whole, number(1.0), y)
    (left,) = loop.values
    bits_of_y = builder.bitcast(y, longs)
    gap = builder.sub(builder.lshr(builder.bitcast(left, longs), integer(_FRACTION_BITS)), builder.lshr(bits_of_y, integer(_FRACTION_BITS)))
    power = builder.sub(gap, integer(_STEP))
    power = builder.select(builder.icmp_signed("<", power, integer(0)), integer(0), power)
    scaled = builder.bitcast(builder.add(bits_of_y, builder.shl(power, integer(_FRACTION_BITS))), doubles)
    trunc = declared(builder.module, ir.FunctionType(doubles, [doubles]), f"llvm.trunc.v{count}f64")
    quotient = builder.call(trunc, [builder.fdiv(left, scaled)])
    rest = builder.fsub(left, builder.fmul(quotient, scaled))
    rest = builder.select(builder.fcmp_ordered("<", rest, number(0.0)), builder.fadd(rest, scaled), rest)
    mask = ir.IntType(count)
    again = builder.icmp_unsigned("!=", builder.bitcast(builder.fcmp_ordered(">=", rest, y), mask), mask(0))
    loop.repeat_while(again, [rest])
    found = builder.select(whole, x, rest)
    return builder.fptrunc(builder.select(undefined, number(nan), found), size.type)
