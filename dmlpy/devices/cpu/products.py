"""The product of a block of filters with vectors of positions, summed in registers: LLVM code, as in `vectors`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dmlpy.devices.cpu.registers import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.vectors import ADDRESS, FLOAT, each_count, vectors_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@cache
def tile_product(filters: int, most: int, registers: Registers) -> Any:
    """The kernel `multiply(vectors, channels, plane, taps, offsets, source, matrix, target)`.

    target[filter][vector] is the sum over channels and taps, in order, of matrix[channel][tap][filter] times the vector at source +
    channel * plane + offsets[tap] + vector. Distances are bytes; `offsets` has an int64 for each tap. `vectors` is 1 to `most`; target's
    rows lie `most` vectors apart.

    Args:
        filters: the number of filters.
        most: vectors of positions, at most.
        registers: the registers that it is compiled for.
    """

    @intrinsic
    def multiply(
        context: Any, vectors: Any, channels: Any, plane: Any, taps: Any, offsets: Any, source: Any, matrix: Any, target: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            count, *others = arguments
            for number in each_count(builder, count, most):
                _product(builder, filters, number, most, registers, others)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), generate

    return multiply


def _product(builder: Any, filters: int, count: int, most: int, registers: Registers, arguments: Sequence[Any]) -> None:
    """The code for a number of vectors."""
    channels, plane, taps, offsets, source, matrix, target = arguments
    vectors = vectors_of(registers)
    zero = ir.Constant(ir.VectorType(FLOAT, registers.lanes), [0.0] * registers.lanes)
    begin = builder.block
    outer, inner, next_channel, after = (builder.append_basic_block(name) for name in ("channel", "tap", "channel_done", "summed"))
    builder.branch(outer)

    builder.position_at_end(outer)
    channel, row, factors = builder.phi(ADDRESS), builder.phi(ADDRESS), builder.phi(ADDRESS)
    carried = [builder.phi(zero.type) for _ in range(filters * count)]
    builder.branch(inner)

    builder.position_at_end(inner)
    tap, factor = builder.phi(ADDRESS), builder.phi(ADDRESS)
    sums = [builder.phi(zero.type) for _ in carried]
    place = builder.add(offsets, builder.shl(tap, ADDRESS(3)))
    at = builder.add(row, builder.load(builder.inttoptr(place, ADDRESS.as_pointer()), align=8))
    values = [vectors.value_of(builder, at, vector * vectors.size) for vector in range(count)]
    totals = list(sums)
    for number in range(filters):
        pointer = builder.inttoptr(builder.add(factor, ADDRESS(number * FLOAT_BYTES)), FLOAT.as_pointer())
        weight = vectors.repeated(builder, builder.load(pointer, align=FLOAT_BYTES))
        for vector in range(count):
            index = number * count + vector
            totals[index] = vectors.fused(builder, values[vector], weight, sums[index])
    next_tap, next_factor = builder.add(tap, ADDRESS(1)), builder.add(factor, ADDRESS(filters * FLOAT_BYTES))
    builder.cbranch(builder.icmp_signed("<", next_tap, taps), inner, next_channel)
    for phi, first, following in zip([tap, factor, *sums], [ADDRESS(0), factors, *carried], [next_tap, next_factor, *totals], strict=True):
        phi.add_incoming(first, outer)
        phi.add_incoming(following, inner)

    builder.position_at_end(next_channel)
    onward, next_row = builder.add(channel, ADDRESS(1)), builder.add(row, plane)
    builder.cbranch(builder.icmp_signed("<", onward, channels), outer, after)
    starts, followings = [ADDRESS(0), source, matrix, *[zero] * len(carried)], [onward, next_row, next_factor, *totals]
    for phi, first, following in zip([channel, row, factors, *carried], starts, followings, strict=True):
        phi.add_incoming(first, begin)
        phi.add_incoming(following, next_channel)

    builder.position_at_end(after)
    for index, total in enumerate(totals):
        number, vector = divmod(index, count)
        vectors.write(builder, total, target, (number * most + vector) * vectors.size)
