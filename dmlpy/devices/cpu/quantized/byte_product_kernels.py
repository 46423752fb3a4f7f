"""Sums of products of bytes, as LLVM code, and the rearrangement of bytes that they need.

A quad is 32 bits with four bytes whose products belong to one sum. Vectors hold unsigned bytes, the factors that multiply a whole vector
are signed: that is what `vpdpbusd` multiplies. Others are moved by 128 (`products.FLIP` changes their highest bit), and so are their zero
points.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import allocated, declared, intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import byte_at, set_byte, set_word
from dmlpy.devices.cpu.quantized.products import Dot
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, each_count, repeated_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.quantized.products import ByteIsa

QUAD = 4
"""Bytes of a quad, and terms of a sum in it."""
_BYTE, _SHORT = ir.IntType(8), ir.IntType(16)
_PAIR_SUMS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}


def integers(isa: ByteIsa) -> Any:
    """LLVM's type of a vector."""
    return ir.VectorType(INDEX, isa.lanes)


def all_of(isa: ByteIsa, value: int) -> Any:
    """A constant in all lanes."""
    return ir.Constant(integers(isa), [value] * isa.lanes)


def load(builder: Any, isa: ByteIsa, address: Any) -> Any:
    """Loads the vector at any address."""
    return builder.load(builder.inttoptr(address, integers(isa).as_pointer()), align=1)


def store(builder: Any, value: Any, address: Any) -> None:
    """Stores a vector at any address."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def repeated_quad(builder: Any, isa: ByteIsa, address: Any) -> Any:
    """Repeats the 32 bits at an address in all lanes."""
    return repeated_index(builder, builder.zext(builder.load(builder.inttoptr(address, INDEX.as_pointer()), align=1), ADDRESS), isa.lanes)


def dot(builder: Any, isa: ByteIsa, sums: Any, unsigned: Any, signed: Any) -> Any:
    """Adds to each sum the four products of a quad of unsigned and a quad of signed bytes, without saturation."""
    vector = integers(isa)
    if isa.dot is Dot.VPDPBUSD:
        kind = ir.FunctionType(vector, [vector] * 3)
        function = declared(builder.module, kind, f"llvm.x86.avx512.vpdpbusd.{32 * isa.lanes}")
        return builder.call(function, [sums, unsigned, signed])
    if isa.dot is Dot.VPMADDWD:
        shorts = ir.VectorType(_SHORT, 2 * isa.lanes)
        eight = ir.Constant(shorts, [8] * 2 * isa.lanes)
        signed = builder.bitcast(signed, shorts)
        even, odd = builder.ashr(builder.shl(signed, eight), eight), builder.ashr(signed, eight)
        return _dot_of_shorts(builder, isa, sums, unsigned, (even, odd))
    for byte in range(QUAD):
        value = builder.and_(builder.lshr(unsigned, all_of(isa, 8 * byte)), all_of(isa, 255))
        factor = builder.ashr(builder.shl(signed, all_of(isa, 24 - 8 * byte)), all_of(isa, 24))
        sums = builder.add(sums, builder.mul(value, factor))
    return sums


def _dot_of_shorts(builder: Any, isa: ByteIsa, sums: Any, unsigned: Any, signed: tuple[Any, Any]) -> Any:
    """`dot` of signed factors of 16 bits: those of the even bytes of quads, and those of the odd ones."""
    shorts = ir.VectorType(_SHORT, 2 * isa.lanes)
    eight, low = (ir.Constant(shorts, [value] * 2 * isa.lanes) for value in (8, 255))
    multiply = declared(builder.module, ir.FunctionType(integers(isa), [shorts] * 2), _PAIR_SUMS[isa.lanes])
    unsigned = builder.bitcast(unsigned, shorts)
    even = builder.call(multiply, [builder.and_(unsigned, low), signed[0]])
    odd = builder.call(multiply, [builder.lshr(unsigned, eight), signed[1]])
    return builder.add(builder.add(sums, even), odd)


def _add_quads(
    builder: Any, isa: ByteIsa, sums: Sequence[Any], values: Sequence[Any], factors: Sequence[Any], factor_bytes: int
) -> list[Any]:
    """The sums, [row][vector], plus the products of each vector of quads with the quad at the address of each row's factor."""
    totals = []
    for row, factor in enumerate(factors):
        halves = [repeated_quad(builder, isa, builder.add(factor, ADDRESS(at))) for at in range(0, factor_bytes, 4)]
        for total, value in zip(sums[row * len(values) :], values, strict=False):
            if factor_bytes == QUAD:
                totals.append(dot(builder, isa, total, value, halves[0]))
            else:
                even, odd = (builder.bitcast(half, ir.VectorType(_SHORT, 2 * isa.lanes)) for half in halves)
                totals.append(_dot_of_shorts(builder, isa, total, value, (even, odd)))
    return totals


def quad_sums(
    builder: Any,
    rows: int,
    count: int,
    isa: ByteIsa,
    factors: Sequence[Any],
    matrix: Sequence[Any],
    initial: Sequence[Any] | None = None,
    factor_bytes: int = QUAD,
) -> list[Any]:
    """The code that sums `rows` times `count` vectors, [row][vector], and what they begin with: see `quad_product`.

    If the matrix's quads have 8 bytes, they are two pairs of signed factors of 16 bits: of the even bytes and of the odd ones.
    """
    channels, plane, taps, offsets, source = factors
    first, term_step, row_step = matrix
    size, zero = isa.lanes * QUAD, all_of(isa, 0)
    before = list(initial or [zero] * (rows * count))
    begin = builder.block
    outer, inner, next_channel, after = (builder.append_basic_block(name) for name in ("channel", "tap", "channel_done", "summed"))
    places = [builder.mul(row_step, ADDRESS(row)) for row in range(rows)]
    builder.branch(outer)

    builder.position_at_end(outer)
    channel, plane_at, factor_at = builder.phi(ADDRESS), builder.phi(ADDRESS), builder.phi(ADDRESS)
    carried = [builder.phi(zero.type) for _ in range(rows * count)]
    builder.branch(inner)

    builder.position_at_end(inner)
    tap, factor = builder.phi(ADDRESS), builder.phi(ADDRESS)
    sums = [builder.phi(zero.type) for _ in carried]
    place = builder.add(offsets, builder.shl(tap, ADDRESS(3)))
    at = builder.add(plane_at, builder.load(builder.inttoptr(place, ADDRESS.as_pointer()), align=8))
    values = [load(builder, isa, builder.add(at, ADDRESS(vector * size))) for vector in range(count)]
    totals = _add_quads(builder, isa, sums, values, [builder.add(factor, place) for place in places], factor_bytes)
    next_tap, next_factor = builder.add(tap, ADDRESS(1)), builder.add(factor, term_step)
    builder.cbranch(builder.icmp_signed("<", next_tap, taps), inner, next_channel)
    for phi, initial, following in zip(
        [tap, factor, *sums], [ADDRESS(0), factor_at, *carried], [next_tap, next_factor, *totals], strict=True
    ):
        phi.add_incoming(initial, outer)
        phi.add_incoming(following, inner)

    builder.position_at_end(next_channel)
    onward, next_plane = builder.add(channel, ADDRESS(1)), builder.add(plane_at, plane)
    builder.cbranch(builder.icmp_signed("<", onward, channels), outer, after)
    starts, followings = [ADDRESS(0), source, first, *before], [onward, next_plane, next_factor, *totals]
    for phi, initial, following in zip([channel, plane_at, factor_at, *carried], starts, followings, strict=True):
        phi.add_incoming(initial, begin)
        phi.add_incoming(following, next_channel)

    builder.position_at_end(after)
    return totals


@cache
def quad_product(rows: int, most: int, packed: bool, isa: ByteIsa) -> Any:
    """The kernel `multiply(count, channels, plane, taps, offsets, source, matrix, row_step, sums)`.

    It sums `rows` times `count` vectors, 1 to `most`: over channels, whose quads lie `plane` bytes apart from `source` on, and over taps,
    which lie at `offsets` (int64) from there. Sums are stored as [row][most][lanes].

    Args:
        rows: rows of the matrix of signed factors.
        most: vectors, at most.
        packed: whether the matrix is [term][row], with each row's quad after the one before; else [row][term], `row_step` bytes apart. A
            quad has `isa.factor_bytes`.
        isa: the instruction set that it is compiled for.
    """
    size, factor_bytes = isa.lanes * QUAD, isa.factor_bytes

    @intrinsic
    def multiply(count: Any, channels: Any, plane: Any, taps: Any, offsets: Any, source: Any, matrix: Any, row_step: Any, sums: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            count, *factors, matrix, row_step, sums = arguments
            steps = (ADDRESS(rows * factor_bytes), ADDRESS(factor_bytes)) if packed else (ADDRESS(factor_bytes), row_step)
            for number in each_count(builder, count, most):
                totals = quad_sums(builder, rows, number, isa, factors, (matrix, *steps), factor_bytes=factor_bytes)
                for place, total in enumerate(totals):
                    row, vector = divmod(place, number)
                    store(builder, total, builder.add(sums, ADDRESS((row * most + vector) * size)))

        return types.void(*[types.int64] * 9), generate

    return multiply


@cache
def byte_sums(most: int, isa: ByteIsa) -> Any:
    """The kernel `add(count, channels, plane, taps, offsets, source, sums)`: as `quad_product`, of one row with factors of 1."""
    size = isa.lanes * QUAD

    @intrinsic
    def add(count: Any, channels: Any, plane: Any, taps: Any, offsets: Any, source: Any, sums: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            count, *factors, sums = arguments
            ones = allocated(builder, INDEX)
            builder.store(INDEX(0x01010101), ones)
            matrix = builder.ptrtoint(ones, ADDRESS)
            for number in each_count(builder, count, most):
                totals = quad_sums(builder, 1, number, isa, factors, (matrix, ADDRESS(0), ADDRESS(0)))
                for vector, total in enumerate(totals):
                    store(builder, total, builder.add(sums, ADDRESS(vector * size)))

        return types.void(*[types.int64] * 7), generate

    return add


@cache
def interleaving(columns: int, step: int) -> Any:
    """The kernel `interleave(first, second, third, fourth, flip, mask, target)`, which writes quads of as many columns.

    A quad has the byte of a column in four rows, changed by `flip` and held to `mask`. Columns lie `step` bytes apart; `step * columns`
    bytes are read.
    """

    @intrinsic
    def interleave(first: Any, second: Any, third: Any, fourth: Any, flip: Any, mask: Any, target: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            *rows, flip, mask, target = arguments
            read = ir.VectorType(_BYTE, columns * step)
            bytes_of = [builder.load(builder.inttoptr(row, read.as_pointer()), align=1) for row in rows]
            if step > 1:
                every = ir.Constant(ir.VectorType(INDEX, columns), [column * step for column in range(columns)])
                bytes_of = [builder.shuffle_vector(row, row, every) for row in bytes_of]
            pair = ir.Constant(ir.VectorType(INDEX, 2 * columns), [at // 2 + at % 2 * columns for at in range(2 * columns)])
            shorts = ir.VectorType(_SHORT, columns)
            low, high = (builder.bitcast(builder.shuffle_vector(bytes_of[at], bytes_of[at + 1], pair), shorts) for at in (0, 2))
            quads = builder.bitcast(builder.shuffle_vector(low, high, pair), ir.VectorType(INDEX, columns))
            quads = builder.and_(builder.xor(quads, repeated_index(builder, flip, columns)), repeated_index(builder, mask, columns))
            store(builder, quads, target)

        return types.void(*[types.int64] * 7), generate

    return interleave


@cache
def chunk_copy(size: int) -> Any:
    """The kernel `copy(source, target, flip)`: as many bytes, changed by `flip`."""

    @intrinsic
    def copy(source: Any, target: Any, flip: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            source, target, flip = arguments
            kind = ir.VectorType(INDEX, size // 4)
            value = builder.load(builder.inttoptr(source, kind.as_pointer()), align=1)
            store(builder, builder.xor(value, repeated_index(builder, flip, size // 4)), target)

        return types.void(*[types.int64] * 3), generate

    return copy


@cache
def _widening(quads: int) -> Any:
    """The kernel `widen(source, target)`: as many quads of signed bytes as quads of 16 bits, their even bytes first."""

    @intrinsic
    def widen(source: Any, target: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            source, target = arguments
            words, shorts = ir.VectorType(INDEX, quads), ir.VectorType(_SHORT, 2 * quads)
            pairs = builder.bitcast(builder.load(builder.inttoptr(source, words.as_pointer()), align=1), shorts)
            eight = ir.Constant(shorts, [8] * 2 * quads)
            even, odd = (
                builder.bitcast(each, words) for each in (builder.ashr(builder.shl(pairs, eight), eight), builder.ashr(pairs, eight))
            )
            by_turns = ir.Constant(ir.VectorType(INDEX, 2 * quads), [at // 2 + at % 2 * quads for at in range(2 * quads)])
            store(builder, builder.shuffle_vector(even, odd, by_turns), target)

        return types.void(types.int64, types.int64), generate

    return widen


_widen_8, _widen_1 = _widening(8), _widening(1)


@jit
def widen_quads(source: Any, target: Any, count: Any) -> None:
    """Writes quads of signed bytes as factors of 16 bits: see `quad_sums`. The source may be the last half of the target."""
    at = 0
    while at + 8 <= count:
        _widen_8(source + at * 4, target + at * 8)
        at += 8
    while at < count:
        _widen_1(source + at * 4, target + at * 8)
        at += 1


_copy_16, _copy_8, _copy_4 = (chunk_copy(size) for size in (16, 8, 4))


@jit
def copy_bytes(source: Any, target: Any, count: Any, flip: Any) -> None:
    """Copies bytes, changed by `flip`. The last chunk may overlap the one before, which then is written again, alike.

    Chunks are no larger than the vectors of results: a load of bytes that two stores have just written would wait for both.
    """
    at = 0
    if count >= 16:
        while at + 16 <= count:
            _copy_16(source + at, target + at, flip)
            at += 16
        if at < count:
            _copy_16(source + count - 16, target + count - 16, flip)
    elif count >= 8:
        _copy_8(source, target, flip)
        _copy_8(source + count - 8, target + count - 8, flip)
    elif count >= 4:
        _copy_4(source, target, flip)
        _copy_4(source + count - 4, target + count - 4, flip)
    else:
        for byte in range(count):
            set_byte(target + byte, byte_at(source + byte) ^ (flip & 255))


@cache
def row_interleaving() -> Any:
    """The kernel `interleave(source, row, rows, column, count, flip, target)`, which writes `count` quads.

    A quad has the byte of a column in 1 to 4 rows, `row` bytes apart, and zeros for the others. Columns lie `column` bytes apart.
    """
    sixteen, eight, four = (interleaving(columns, 1) for columns in (16, 8, 4))
    of_second = interleaving(16, 2)

    @jit
    def interleave(source: Any, row: Any, rows: Any, column: Any, count: Any, flip: Any, target: Any) -> None:
        second, third, fourth = source + min(1, rows - 1) * row, source + min(2, rows - 1) * row, source + min(3, rows - 1) * row
        mask, at = (1 << (8 * rows)) - 1, 0
        if column == 1 and count >= 16:
            while at < count:
                at = min(at, count - 16)
                sixteen(source + at, second + at, third + at, fourth + at, flip, mask, target + at * 4)
                at += 16
        elif column == 1 and count >= 8:
            for at in range(0, count, 8):
                to = min(at, count - 8)
                eight(source + to, second + to, third + to, fourth + to, flip, mask, target + to * 4)
            at = count
        elif column == 1 and count >= 4:
            for at in range(0, count, 4):
                to = min(at, count - 4)
                four(source + to, second + to, third + to, fourth + to, flip, mask, target + to * 4)
            at = count
        elif column == 2:
            while at + 17 <= count:  # a vector reads a byte behind its last column
                place = at * 2
                of_second(source + place, second + place, third + place, fourth + place, flip, mask, target + at * 4)
                at += 16
        while at < count:
            place = at * column
            word = byte_at(source + place) | byte_at(second + place) << 8 | byte_at(third + place) << 16 | byte_at(fourth + place) << 24
            set_word(target + at * 4, (word ^ flip) & mask)
            at += 1

    return interleave


@jit
def quad_of_padding(p: Any) -> Any:
    """The input's zero point as an unsigned byte, four times, given the parameters of a convolution."""
    return ((byte_at(p.input_zero) if p.input_zero != 0 else 0) ^ (p.input_flip & 255)) * 0x01010101
