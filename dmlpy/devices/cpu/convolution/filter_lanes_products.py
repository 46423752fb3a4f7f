"""Products whose lanes are filters, and how their sums become rows of positions: LLVM code, as in `vectors`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dmlpy.devices.cpu.recurrent.packing_kernels import turned
from dmlpy.devices.cpu.runtime_kernels import indirect_call
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, each_below, each_count, simd_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.isa import Isa

call_product = indirect_call(11)
"""call_product(product, arguments) calls what `build_product` gives by its address."""


def build_product(vectors: int, most: int, isa: Isa) -> Callable[..., None]:
    """The product of weights with what some positions see, to be compiled.

    Its arguments are columns, matrix, terms, places, source, step, start, start_row, sums, ahead, ahead_step:
    sums[column][vector] = start[column][vector] + matrix[term][vector] * the float at source + places[term] + column * step, summed over
    the terms, of which there are some, in their order. `columns` is 1 to `most`, `start_row` lies between rows of `start`, and `places` has
    an int64 for each term; distances are bytes.

    With each term a line of memory begins to come to the second-level cache: the first one at `ahead`, the others `ahead_step` behind each
    other. An address that is nobody's does no harm.

    Args:
        vectors: vectors of weights.
        most: columns, at most.
        isa: the instruction set that it is compiled for.
    """

    @intrinsic
    def multiply(context: Any, columns: Any, others: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            columns, others = arguments
            values = cgutils.unpack_tuple(builder, others)
            for count in each_count(builder, columns, most):
                _product(builder, vectors, count, isa, values)
            return context.get_dummy_value()

        return types.void(types.int64, types.UniTuple(types.int64, 10)), generate

    def product(
        columns: Any,
        matrix: Any,
        terms: Any,
        places: Any,
        source: Any,
        step: Any,
        start: Any,
        start_row: Any,
        sums: Any,
        ahead: Any,
        ahead_step: Any,
    ) -> None:
        multiply(columns, (matrix, terms, places, source, step, start, start_row, sums, ahead, ahead_step))

    return product


def _product(builder: Any, count: int, columns: int, isa: Isa, arguments: Sequence[Any]) -> None:
    """The code for a number of columns."""
    matrix, terms, places, source, step, start, start_row, sums, ahead, ahead_step = arguments
    simd = simd_of(isa)
    starts = []
    for column in range(columns):
        row = builder.add(start, builder.mul(start_row, ADDRESS(column)))
        starts += [simd.value_of(builder, row, vector * simd.size) for vector in range(count)]
    steps = [builder.mul(step, ADDRESS(column)) for column in range(columns)]
    end = builder.add(places, builder.shl(terms, ADDRESS(3)))
    before, loop, after = builder.block, builder.append_basic_block("term"), builder.append_basic_block("summed")
    builder.branch(loop)

    builder.position_at_end(loop)
    pointers = place, row, line = [builder.phi(ADDRESS) for _ in range(3)]
    carried = [builder.phi(simd.llvm_type) for _ in starts]
    _fetch(builder, line)
    weights = [simd.value_of(builder, row, vector * simd.size) for vector in range(count)]
    at = builder.add(source, builder.load(builder.inttoptr(place, ADDRESS.as_pointer()), align=8))
    totals = []
    for column in range(columns):
        value = simd.repeated_at(builder, builder.add(at, steps[column]))
        for vector in range(count):
            totals.append(simd.fused(builder, weights[vector], value, carried[column * count + vector]))
    following = [builder.add(place, ADDRESS(8)), builder.add(row, ADDRESS(count * simd.size)), builder.add(line, ahead_step)]
    builder.cbranch(builder.icmp_signed("<", following[0], end), loop, after)
    firsts = [places, matrix, ahead, *starts]
    for phi, first, next_value in zip([*pointers, *carried], firsts, [*following, *totals], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(next_value, loop)

    builder.position_at_end(after)
    for number, total in enumerate(totals):
        simd.write(builder, total, sums, number * simd.size)


def _fetch(builder: Any, address: Any) -> None:
    """Begins to bring a line of memory to the second-level cache."""
    pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, INDEX, INDEX, INDEX])
    # To read it, with the locality of the second level, as data.
    builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0"), [pointer, INDEX(0), INDEX(2), INDEX(1)])


@cache
def finished_tile(isa: Isa) -> Any:
    """The kernel `finish(sums, sums_row, positions, filters, coefficients, coefficients_row, low, high, target, target_row)`.

    target[filter][position] = clip((sums[position][filter] - centre) * factor + bias, low, high) for the first positions and filters, at
    most a vector's lanes of each. Centres, factors and biases of the filters are rows of `coefficients`. Sums of as many positions as there
    are lanes are read; nothing but the results is written.
    """
    simd, lanes = simd_of(isa), isa.lanes

    @intrinsic
    def finish(
        context: Any,
        sums: Any,
        sums_row: Any,
        positions: Any,
        filters: Any,
        coefficients: Any,
        coefficients_row: Any,
        low: Any,
        high: Any,
        target: Any,
        target_row: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            sums, sums_row, positions, filters, coefficients, coefficients_row, low, high, target, target_row = arguments
            rows = [builder.add(coefficients, builder.mul(coefficients_row, ADDRESS(row))) for row in range(3)]
            centre, factor, bias = (simd.first_of(builder, row, filters) for row in rows)
            limits = [simd.repeated(builder, limit) for limit in (low, high)]
            tile = []
            for _ in range(lanes):
                value = simd.fused(builder, builder.fsub(simd.value_of(builder, sums), centre), factor, bias)
                tile.append(simd.clipped(builder, value, *limits))
                sums = builder.add(sums, sums_row)
            for value in each_below(builder, turned(builder, tile), filters):
                simd.write_first(builder, value, target, positions)
                target = builder.add(target, target_row)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6, types.float32, types.float32, types.int64, types.int64), generate

    return finish
