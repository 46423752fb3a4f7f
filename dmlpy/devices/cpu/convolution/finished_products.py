"""Products of filters with vectors of positions whose sums are finished in registers and written once: LLVM code, as in `vectors`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.product_kernels import tile_sums
from dmlpy.devices.cpu.simd import ADDRESS, each_count, lanes_below, simd_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@cache
def finished_product(filters: int, most: int, isa: Isa) -> Any:
    """The kernel `multiply(vectors, factors, rows, coefficients, low, high, target)`.

    Its sums are those of `tile_product`, of which `factors` are the arguments from `channels` to `matrix`. The other tuples are:

    - rows: the first position's column, the columns of a row, those from where a row begins to where the next one does, of which there are
      no fewer than lanes, and how many positions there are: up to the end of the vectors or of a row;
    - coefficients: the address of the first filter's centre, the bytes from there to its factor and on to its bias, and how many filters
      there are;
    - target: the address of what the first filter gives for the row, and the bytes to the next row and to the next filter.

    What a filter gives for a position is clip((sum - centre) * factor + bias, low, high). Only positions in the columns of a row are
    written, and their elements lie side by side.

    Args:
        filters: the number of filters whose sums are in registers.
        most: vectors of positions, at most.
        isa: the instruction set that it is compiled for.
    """
    simd = simd_of(isa)

    @intrinsic
    def multiply(context: Any, count: Any, factors: Any, rows: Any, coefficients: Any, low: Any, high: Any, target: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            count, *tuples, low, high, target = arguments
            factors, rows, coefficients, target = (cgutils.unpack_tuple(builder, given) for given in (*tuples, target))
            limits = [simd.repeated(builder, limit) for limit in (low, high)]
            for number in each_count(builder, count, most):
                sums = tile_sums(builder, filters, number, isa, factors)
                places = _places(builder, number, rows, target, isa)
                _write(builder, sums, places, coefficients, limits, target[2], isa)
            return context.get_dummy_value()

        six, four, three = (types.UniTuple(types.int64, size) for size in (6, 4, 3))
        return types.void(types.int64, six, four, three, types.float32, types.float32, three), generate

    return multiply


class _Place(NamedTuple):
    """Where a vector of positions goes.

    Attributes:
        address: of the first lane, as far as its row goes.
        lanes: the mask of these lanes.
        goes_on: whether other lanes are in the next row.
        next_address: of the first lane, if it were in the next row.
        next_lanes: the mask of those that are.
    """

    address: Any
    lanes: Any
    goes_on: Any
    next_address: Any
    next_lanes: Any


def _places(builder: Any, count: int, rows: Sequence[Any], target: Sequence[Any], isa: Isa) -> list[_Place]:
    """The places of so many vectors, for the first filter."""
    (column, width, pitch, positions), (row, row_step, _), lanes = rows, target, isa.lanes
    places = []
    for _ in range(count):
        to_next, next_row = builder.sub(pitch, column), builder.add(row, row_step)
        before, behind = (lanes_below(builder, limit, lanes) for limit in (to_next, builder.add(to_next, width)))
        left = builder.select(builder.icmp_signed("<", positions, ADDRESS(lanes)), positions, ADDRESS(lanes))
        places.append(
            _Place(
                address=builder.add(row, builder.mul(column, ADDRESS(FLOAT_BYTES))),
                lanes=lanes_below(builder, builder.sub(width, column), lanes),
                goes_on=builder.icmp_signed("<", to_next, left),
                next_address=builder.sub(next_row, builder.mul(to_next, ADDRESS(FLOAT_BYTES))),
                next_lanes=builder.and_(behind, builder.not_(before)),
            )
        )
        column, positions = builder.add(column, ADDRESS(lanes)), builder.sub(positions, ADDRESS(lanes))
        wraps = builder.icmp_signed(">=", column, pitch)
        column, row = builder.select(wraps, builder.sub(column, pitch), column), builder.select(wraps, next_row, row)
    return places


def _write(
    builder: Any,
    sums: Sequence[Any],
    places: Sequence[_Place],
    coefficients: Sequence[Any],
    limits: Sequence[Any],
    step: Any,
    isa: Isa,
) -> None:
    """Finishes sums [filter][vector] and writes them; those of a filter lie `step` bytes behind those of the one before."""
    simd, (first, apart, kept), count = simd_of(isa), coefficients, len(places)
    end, offset = builder.append_basic_block("written"), ADDRESS(0)
    for number in range(len(sums) // count):
        there = builder.append_basic_block("filter")
        builder.cbranch(builder.icmp_signed(">", kept, ADDRESS(number)), there, end)
        builder.position_at_end(there)
        own = builder.add(first, ADDRESS(number * FLOAT_BYTES))
        centre, factor, bias = (simd.repeated_at(builder, builder.add(own, builder.mul(apart, ADDRESS(row)))) for row in range(3))
        for place, total in zip(places, sums[number * count :], strict=False):
            value = simd.fused(builder, builder.fsub(total, centre), factor, bias)
            value = simd.clipped(builder, value, *limits)
            simd.write_chosen(builder, value, builder.add(place.address, offset), place.lanes)
            with builder.if_then(place.goes_on):
                simd.write_chosen(builder, value, builder.add(place.next_address, offset), place.next_lanes)
        offset = builder.add(offset, step)
    builder.branch(end)
    builder.position_at_end(end)
