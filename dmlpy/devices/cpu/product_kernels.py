"""Products whose sums stay in registers, of filters with vectors of positions and of rows with a row: LLVM code, as in `simd`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, phis
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.load_store import ir_load_store_of
from dmlpy.devices.cpu.runtime_kernels import indirect_call
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, each_count, simd_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.isa import Storage

call_product = indirect_call(8)
"""call_product(product, arguments) calls the kernel of `build_product` by its address."""
call_gate_products = indirect_call(9)
"""call_gate_products(products, arguments) calls the kernel of `build_gate_products` by its address."""


def build_product(vectors: int, by_terms: bool, isa: Isa) -> Callable[..., None]:
    """The product of `Simd.product`, to be compiled."""
    multiply = simd_of(isa).product(vectors, by_terms=by_terms)

    def product(columns: Any, matrix: Any, terms: Any, factors: Any, row: Any, start: Any, start_row: Any, sums: Any) -> None:
        multiply(columns, matrix, terms, factors, row, start, start_row, sums)

    return product


def build_gate_products(gates: int, fused: int, isa: Isa) -> Callable[..., None]:
    """The products of some gates with rows of factors, to be compiled.

    It is multiply(rows, matrix, terms, factors, row, part, start, start_row, sums): sums[row][gate] = start[row][gate] + the sum over the
    terms of the matrix's vector for it * factors[row][term]. The matrix is packed [parts][terms][fused][lanes], a gate is a vector, and
    the factors of each part are `part` bytes after those of the previous one: 0 if all have the same.

    Args:
        gates: the number of gates.
        fused: the gates of a part, whose sums stay in registers at once.
        isa: the instruction set that it is compiled for.
    """
    multiply, size, most = simd_of(isa).strided_product(fused), simd_of(isa).size, isa.columns(fused)
    row_size, of_part = gates * size, fused * size

    def products(rows: Any, matrix: Any, terms: Any, factors: Any, row: Any, part: Any, start: Any, start_row: Any, sums: Any) -> None:
        groups = (rows + most - 1) // most
        for _ in range(gates // fused):
            for group in range(groups):
                first = rows * group // groups
                columns, begin, to = rows * (group + 1) // groups - first, start + first * start_row, sums + first * row_size
                multiply(columns, matrix, terms, factors + first * row, row, begin, start_row, to, row_size)
            matrix += terms * of_part
            factors += part
            start += of_part
            sums += of_part

    return products


@cache
def tile_product(filters: int, most: int, read: Storage, isa: Isa) -> Any:
    """The kernel `multiply(vectors, channels, plane, taps, offsets, source, matrix, target)`.

    target[filter][vector] is the sum over channels and taps, in order, of matrix[channel][tap][filter] times the vector at source +
    channel * plane + offsets[tap] + vector. Distances are bytes; `offsets` has an int64 for each tap. `vectors` is 1 to `most`; target's
    rows lie `most` vectors apart.

    Args:
        filters: the number of filters.
        most: vectors of positions, at most.
        read: the type of the vectors in memory.
        isa: the instruction set that it is compiled for.
    """

    @intrinsic
    def multiply(vectors: Any, channels: Any, plane: Any, taps: Any, offsets: Any, source: Any, matrix: Any, target: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            count, *others = arguments
            *factors, target = others
            for number in each_count(builder, count, most):
                for index, total in enumerate(tile_sums(builder, filters, number, read, isa, factors)):
                    row, vector = divmod(index, number)
                    simd_of(isa).write(builder, total, target, (row * most + vector) * FLOAT_BYTES * isa.lanes)

        return types.void(*[types.int64] * 8), generate

    return multiply


def tile_sums(builder: Any, filters: int, count: int, read: Storage, isa: Isa, arguments: Sequence[Any]) -> list[Any]:
    """The sums of `tile_product` for a number of vectors, [filter][vector], of its arguments from `channels` to `matrix`."""
    channels, plane, taps, offsets, source, matrix = arguments
    simd, load_store = simd_of(isa), ir_load_store_of(read, isa)
    zero = ir.Constant(ir.VectorType(FLOAT, isa.lanes), [0.0] * isa.lanes)
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
    values = [load_store.load(builder, builder.add(at, ADDRESS(vector * isa.lanes * load_store.size))) for vector in range(count)]
    totals = list(sums)
    for number in range(filters):
        weight = simd.repeated_at(builder, builder.add(factor, ADDRESS(number * FLOAT_BYTES)))
        for vector in range(count):
            index = number * count + vector
            totals[index] = simd.fused(builder, values[vector], weight, sums[index])
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
    return totals


@cache
def row_products(isa: Isa, stored: Storage = "float32") -> Any:
    """The kernel `multiply(matrix, matrix_row, terms, factors)`, which returns a vector.

    Its lane n is the sum over the terms of matrix[n][term] * factors[term]. The matrix has as many rows as a vector has lanes, `matrix_row`
    bytes apart. Neither is read beyond the terms.

    Args:
        isa: the instruction set that it is compiled for.
        stored: the type of the elements of both.
    """

    @intrinsic
    def multiply(matrix: Any, matrix_row: Any, terms: Any, factors: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            return _lane_sums(builder, _row_sums(builder, isa, stored, arguments))

        return simd_of(isa).kind(*[types.int64] * 4), generate

    return multiply


def _row_sums(builder: Any, isa: Isa, stored: Storage, arguments: Sequence[Any]) -> list[Any]:
    """The code of `row_products` up to a vector of sums for each row, whose lanes are still to be added."""
    simd, lanes, elements = simd_of(isa), isa.lanes, ir_load_store_of(stored, isa)
    zero = ir.Constant(ir.VectorType(FLOAT, lanes), [0.0] * lanes)
    matrix, matrix_row, terms, factors = arguments
    rows = [builder.add(matrix, builder.mul(matrix_row, ADDRESS(row))) for row in range(lanes)]
    before, head, body, tail, last, after = (
        builder.block,
        *(builder.append_basic_block(name) for name in ("head", "body", "tail", "last", "after")),
    )
    whole = builder.and_(terms, ADDRESS(-lanes))
    end, left = builder.mul(whole, ADDRESS(elements.size)), builder.sub(terms, whole)
    builder.branch(head)

    builder.position_at_end(head)
    offset, sums = builder.phi(ADDRESS), [builder.phi(zero.type) for _ in rows]
    builder.cbranch(builder.icmp_signed("<", offset, end), body, tail)

    builder.position_at_end(body)
    factor = elements.load(builder, builder.add(factors, offset))
    values = [elements.load(builder, builder.add(row, offset)) for row in rows]
    added = [simd.fused(builder, value, factor, total) for value, total in zip(values, sums, strict=True)]
    following = builder.add(offset, ADDRESS(lanes * elements.size))
    builder.branch(head)
    for phi, first, next_value in zip([offset, *sums], [ADDRESS(0), *[zero] * lanes], [following, *added], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(next_value, body)

    builder.position_at_end(tail)
    builder.cbranch(builder.icmp_signed(">", left, ADDRESS(0)), last, after)

    builder.position_at_end(last)
    factor = elements.load_first(builder, builder.add(factors, end), left)
    values = [elements.load_first(builder, builder.add(row, end), left) for row in rows]
    added = [simd.fused(builder, value, factor, total) for value, total in zip(values, sums, strict=True)]
    builder.branch(after)

    builder.position_at_end(after)
    return phis(builder, (tail, sums), (last, added))


def _lane_sums(builder: Any, vectors: Sequence[Any]) -> Any:
    """A vector of the sums of the lanes of as many vectors, in order."""
    lanes, sums = len(vectors), list(vectors)
    even, odd = (ir.Constant(ir.VectorType(INDEX, lanes), [2 * lane + first for lane in range(lanes)]) for first in (0, 1))
    # Each round adds neighbouring lanes, and packs the sums of two vectors into one, in order.
    while len(sums) > 1:
        pairs = zip(sums[::2], sums[1::2], strict=True)
        sums = [builder.fadd(builder.shuffle_vector(*pair, even), builder.shuffle_vector(*pair, odd)) for pair in pairs]
    return sums[0]
