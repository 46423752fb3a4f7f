"""Quantizes sums of products of bytes: subtracts zero points, scales, rounds, and clips to the type of the results.

Quantized results are defined in float64, with a division. They are computed in float32, by a product of the scales that was divided once;
where the result is so close to a tie that another rounding of it could matter, it is computed as it is defined.
"""

from __future__ import annotations

from functools import cache, partial
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import allocated, declared, intrinsic, jit, unpacked
from dmlpy.devices.cpu.memory_kernels import byte_at, double_at, set_byte, set_word, word_at
from dmlpy.devices.cpu.quantized.byte_move_kernels import BYTES, low_bits, put_valid
from dmlpy.devices.cpu.quantized.byte_product_kernels import all_of, copy_bytes, integers, load, quad_sums, store
from dmlpy.devices.cpu.quantized.lookup_table_kernels import entries_of, look_up_in_registers
from dmlpy.devices.cpu.quantized.products import REGISTER, Dot, Output, RowTerms
from dmlpy.devices.cpu.simd import (
    ADDRESS,
    FLOAT,
    INDEX,
    each_below,
    each_count,
    first_bit,
    repeated,
    repeated_index,
    simd_of,
    struct_view,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.devices.cpu.quantized.products import ByteIsa

_DOUBLE, _BYTE = ir.DoubleType(), ir.IntType(8)
TIE_MARGIN = 2.0**-13
"""No quotient of magnitude up to 409 is off by more in float32: five roundings, each by a factor of up to 1 + 2^-24. What is larger is
beyond every type, whatever the zero point is."""
_PRODUCT_MARGIN, _FUSED_MARGIN = 2.0**-14, 2.0**-15
"""The same where the factor, the sum and the product are rounded alone, and where the product is not: of quotients up to 254.5, the largest
tie between two results of a type."""
_VECTORS = 4
"""Vectors of results of a row that are written at once, at most: a mask of 64 bits has a bit for each lane."""
_ROUNDINGS = {4: "llvm.x86.sse2.cvtps2dq", 8: "llvm.x86.avx.cvt.ps2dq.256", 16: "llvm.x86.avx512.mask.cvtps2dq.512"}
"""The instructions that convert vectors of floats to integers, by their lanes."""
_PACKS = {
    4: ("llvm.x86.sse2.packssdw.128", "llvm.x86.sse2.packsswb.128"),
    8: ("llvm.x86.avx2.packssdw", "llvm.x86.avx2.packsswb"),
    16: ("llvm.x86.avx512.packssdw.512", "llvm.x86.avx512.packsswb.512"),
}
"""Instructions that pack integers of 32 and 16 bits in halves, with saturation, by lanes."""
_FUSING_LANES = 16
"""The lanes of processors that are sure to add products in one rounding."""
ROUNDING = 1.5 * 2.0**23
"""Floats near it are whole numbers, whose bits follow each other: the sum of it and a number is rounded to the nearest one, and the bits of
the sum differ from its own by as much. They are larger the larger the number, which may be as low as `-FITTING`."""
FITTING = 2.0**22
ROUNDING_BITS = int(np.float32(ROUNDING).view(np.int32))
LEAST_FACTOR, LARGEST_FACTOR = 2.0**-60, 2.0**60
"""Factors whose products have the precision of float32."""

row_terms_at = struct_view(RowTerms)
ROW_SIZE = RowTerms.dtype.itemsize


@intrinsic
def round_even(value: Any) -> Any:
    """Rounds a float64 to a whole number, ties to even."""

    def generate(builder: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE])
        return builder.call(declared(builder.module, kind, "llvm.rint.f64"), arguments)

    return types.float64(types.float64), generate


@jit
def wrapped(value: Any) -> Any:
    """An integer modulo 2^32, as a signed integer of 32 bits."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def _whole_sums(builder: Any, isa: ByteIsa, of_filters: bool, total: Any, first: Any, second: Any, columns: tuple[Any, Any]) -> Any:
    """The sums with both products added. Of filters the column's first term is 1, and `add_seconds` has added the second product."""
    sums, of_row = load(builder, isa, total), repeated_index(builder, first, isa.lanes)
    if of_filters:
        return builder.add(sums, of_row)
    sums = builder.add(sums, builder.mul(of_row, load(builder, isa, columns[0])))
    return builder.add(sums, builder.mul(repeated_index(builder, second, isa.lanes), load(builder, isa, columns[1])))


@cache
def _add_seconds(isa: ByteIsa) -> Any:
    """The intrinsic that adds a number times a vector of the columns' second terms to a vector of sums."""

    @intrinsic
    def add(total: Any, second: Any, column_second: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            total, second, column_second = arguments
            product = builder.mul(repeated_index(builder, second, isa.lanes), load(builder, isa, column_second))
            store(builder, builder.add(load(builder, isa, total), product), total)

        return types.void(*[types.int64] * 3), generate

    return add


@cache
def _quantize(of_filters: bool, isa: ByteIsa) -> Any:
    """The intrinsic that writes 1 to `_VECTORS` vectors of quantized results; returns the mask of those that may be wrong."""
    simd, size, narrow = simd_of(isa.floats), isa.lanes * 4, _narrow_portably if isa.dot is Dot.PORTABLE else _narrow

    @intrinsic
    def quantize(
        count: Any, total: Any, first: Any, second: Any, factor: Any, columns: Any, low: Any, high: Any, zero_point: Any, target: Any
    ) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            count, total, first, second, factor, columns, low, high, zero_point, target = arguments
            of_columns = unpacked(builder, columns)
            factor, mask = simd.repeated(builder, builder.fptrunc(factor, FLOAT)), allocated(builder, ADDRESS)
            builder.store(ADDRESS(0), mask)
            for number in each_count(builder, count, _VECTORS):
                steps = []
                for vector in range(number):
                    of_first, of_second, factors = (builder.add(address, ADDRESS(vector * size)) for address in of_columns)
                    at = builder.add(total, ADDRESS(vector * size))
                    sums = _whole_sums(builder, isa, of_filters, at, first, second, (of_first, of_second))
                    factors_of_row = factor if of_filters else builder.fmul(factor, simd.value_of(builder, factors))
                    steps.append(builder.fmul(builder.sitofp(sums, simd.llvm_type), factors_of_row))
                results, off = narrow(builder, isa, steps, zero_point, (low, high))
                store(builder, results, target)
                with builder.if_then(_are_unsure(builder, isa, off, TIE_MARGIN), likely=False):
                    builder.store(_mask_of_unsure(builder, isa, off), mask)
            return builder.load(mask)

        three, integer = types.UniTuple(types.int64, 3), types.int64
        return integer(integer, integer, integer, integer, types.float64, three, integer, integer, integer, integer), generate

    return quantize


def _narrow(builder: Any, isa: ByteIsa, steps: list[Any], zero_point: Any, limits: tuple[Any, Any]) -> tuple[Any, list[Any]]:
    """The bytes of vectors of results, and by how much each was rounded, as bits of floats: by the instructions of x86.

    A conversion that overflows gives the least integer, which is far off.
    """
    whole = [_rounded(builder, isa, value) for value in steps]
    remainders = [builder.fsub(value, builder.sitofp(number, value.type)) for value, number in zip(steps, whole, strict=True)]
    offset = builder.add(limits[0], ADDRESS(128))
    short = builder.sub(zero_point, offset)
    moved = builder.or_(builder.and_(short, ADDRESS(0xFFFF)), builder.shl(short, ADDRESS(16)))
    shorts = ir.VectorType(ir.IntType(16), 2 * isa.lanes)
    zero_points = builder.bitcast(repeated_index(builder, moved, isa.lanes), shorts)
    add = declared(builder.module, ir.FunctionType(shorts, [shorts] * 2), f"llvm.sadd.sat.v{2 * isa.lanes}i16")
    narrowed = _packed(builder, isa, whole, offset, lambda pair: builder.call(add, [pair, zero_points]))
    return narrowed, [builder.bitcast(value, integers(isa)) for value in remainders]


def _packed(builder: Any, isa: ByteIsa, whole: list[Any], offset: Any, of_pair: Callable[[Any], Any] = lambda pair: pair) -> Any:
    """The bytes of vectors of integers, less `offset`, 128 for unsigned bytes, else 0: packed with saturation, as signed ones.

    Args:
        builder: where the code is appended.
        isa: the instruction set.
        whole: the integers, 1 to `_VECTORS` vectors.
        offset: what was subtracted, and is added again.
        of_pair: of_pair(pair) is what becomes of two vectors of 16 bits meanwhile.
    """
    lanes, shorts, bytes_ = isa.lanes, ir.VectorType(ir.IntType(16), 2 * isa.lanes), ir.VectorType(_BYTE, 4 * isa.lanes)
    padded = whole + [whole[-1]] * (_VECTORS - len(whole))
    to_shorts, to_bytes = (
        declared(builder.module, ir.FunctionType(result, [operand] * 2), name)
        for name, result, operand in zip(_PACKS[lanes], (shorts, bytes_), (integers(isa), shorts), strict=True)
    )
    pairs = [of_pair(builder.call(to_shorts, padded[at : at + 2])) for at in range(0, 2 * ceil(len(whole) / 2), 2)]
    packed = builder.bitcast(builder.call(to_bytes, [pairs[0], pairs[-1]]), integers(isa))
    # Registers are packed in parts of 128 bits: each has four bytes of every vector.
    order = [part * 4 + vector for vector in range(len(whole)) for part in range(lanes // 4)]
    packed = builder.shuffle_vector(packed, packed, ir.Constant(ir.VectorType(INDEX, len(order)), order))
    return builder.xor(packed, repeated_index(builder, builder.mul(offset, ADDRESS(0x01010101)), len(order)))


def _rounded(builder: Any, isa: ByteIsa, value: Any) -> Any:
    """The nearest integers, ties to even; the least integer where they need more than 32 bits."""
    if isa.lanes < 16:
        kind = ir.FunctionType(integers(isa), [value.type])
        return builder.call(declared(builder.module, kind, _ROUNDINGS[isa.lanes]), [value])
    kind = ir.FunctionType(integers(isa), [value.type, integers(isa), ir.IntType(16), INDEX])
    usual = [all_of(isa, 0), ir.IntType(16)(-1), INDEX(4)]
    return builder.call(declared(builder.module, kind, _ROUNDINGS[isa.lanes]), [value, *usual])


def _narrow_portably(builder: Any, isa: ByteIsa, steps: list[Any], zero_point: Any, limits: tuple[Any, Any]) -> tuple[Any, list[Any]]:
    """`_narrow` by instructions of any processor."""
    simd, narrowed, off = simd_of(isa.floats), [], []
    kind = ir.FunctionType(simd.llvm_type, [simd.llvm_type])
    rounded = declared(builder.module, kind, f"llvm.rint.v{isa.lanes}f32")
    # Limits are whole numbers: what is beyond them is as sure as they are.
    bounds = [simd.repeated(builder, builder.sitofp(builder.sub(limit, zero_point), FLOAT)) for limit in limits]
    for value in steps:
        clipped = simd.clipped(builder, value, *bounds)
        whole = builder.call(rounded, [clipped])
        off.append(builder.bitcast(builder.fsub(clipped, whole), integers(isa)))
        narrowed.append(builder.add(builder.fptosi(whole, integers(isa)), repeated_index(builder, zero_point, isa.lanes)))
    every = narrowed[0]
    for number, value in enumerate(narrowed[1:], 1):
        both = ir.Constant(ir.VectorType(INDEX, (number + 1) * isa.lanes), list(range((number + 1) * isa.lanes)))
        widened = ir.Constant(ir.VectorType(INDEX, number * isa.lanes), [min(at, isa.lanes - 1) for at in range(number * isa.lanes)])
        every = builder.shuffle_vector(every, builder.shuffle_vector(value, value, widened), both)
    return builder.trunc(every, ir.VectorType(_BYTE, len(narrowed) * isa.lanes)), off


def _are_unsure(builder: Any, isa: ByteIsa, off: list[Any], margin: float) -> Any:
    """Whether a result was rounded by so much that it may be wrong. The bits of positive floats are ordered as they are, NaN last."""
    most = _magnitude(builder, isa, off[0])
    kind = ir.FunctionType(most.type, [most.type] * 2)
    larger = declared(builder.module, kind, f"llvm.umax.v{isa.lanes}i32")
    for each in off[1:]:
        most = builder.call(larger, [most, _magnitude(builder, isa, each)])
    unsure = builder.icmp_unsigned(">=", most, all_of(isa, _least_unsure(margin)))
    return builder.icmp_unsigned("!=", builder.bitcast(unsure, ir.IntType(isa.lanes)), ir.IntType(isa.lanes)(0))


def _least_unsure(margin: float) -> int:
    """The bits of the least distance of a quotient from what it is rounded to that may be wrong."""
    return int(np.float32(0.5 - margin).view(np.int32))


def _mask_of_unsure(builder: Any, isa: ByteIsa, off: list[Any]) -> Any:
    """A bit for each result that may be wrong."""
    mask = ADDRESS(0)
    for vector, each in enumerate(off):
        unsure = builder.icmp_unsigned(">=", _magnitude(builder, isa, each), all_of(isa, _least_unsure(TIE_MARGIN)))
        bits = builder.zext(builder.bitcast(unsure, ir.IntType(isa.lanes)), ADDRESS)
        mask = builder.or_(mask, builder.shl(bits, ADDRESS(vector * isa.lanes)))
    return mask


def _magnitude(builder: Any, isa: ByteIsa, bits: Any) -> Any:
    """The bits of floats without their signs."""
    return builder.and_(bits, all_of(isa, 0x7FFFFFFF))


@cache
def _complete(of_filters: bool, isa: ByteIsa) -> Any:
    """The intrinsic that writes a vector of sums."""

    @intrinsic
    def complete(total: Any, first: Any, second: Any, columns: Any, target: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            total, first, second, columns, target = arguments
            of_first, of_second = unpacked(builder, columns)
            store(builder, _whole_sums(builder, isa, of_filters, total, first, second, (of_first, of_second)), target)

        return types.void(*[types.int64] * 3, types.UniTuple(types.int64, 2), types.int64), generate

    return complete


@cache
def _dequantize(of_filters: bool, isa: ByteIsa) -> Any:
    """The intrinsic that writes a vector of sums times both scales, plus a bias."""
    doubles = ir.VectorType(_DOUBLE, isa.lanes)
    simd = simd_of(isa.floats)

    @intrinsic
    def dequantize(total: Any, first: Any, second: Any, scale: Any, columns: Any, bias: Any, target: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            total, first, second, scale, columns, bias, target = arguments
            of_first, of_second, scales = unpacked(builder, columns)
            values = builder.sitofp(_whole_sums(builder, isa, of_filters, total, first, second, (of_first, of_second)), doubles)
            values = builder.fmul(values, repeated(builder, scale, isa.lanes))
            values = builder.fmul(values, builder.load(builder.inttoptr(scales, doubles.as_pointer()), align=8))
            values = builder.fadd(values, builder.fpext(simd.value_of(builder, bias), doubles))
            simd.write(builder, builder.fptrunc(values, simd.llvm_type), target)

        integer = types.int64
        return types.void(integer, integer, integer, types.float64, types.UniTuple(integer, 3), integer, integer), generate

    return dequantize


def _term(builder: Any, row: Any, name: str, kind: Any = ADDRESS) -> Any:
    """Loads a field of the `RowTerms` at an address."""
    fields: Mapping[str, Any] = RowTerms.dtype.fields or {}
    return builder.load(builder.inttoptr(builder.add(row, ADDRESS(fields[name][1])), kind.as_pointer()), align=4)


def first_term(builder: Any, isa: ByteIsa, row: Any) -> Any:
    """The first value of the sums of the filter whose `RowTerms` are at an address, in all lanes."""
    return repeated_index(builder, _term(builder, row, "first"), isa.lanes)


class FilterResults:
    """The code that makes sums of a filter, whose second term is 0, quantized results in registers.

    Args:
        builder: where code is appended that loads the terms.
        isa: the instruction set.
        row: the address of the filter's `RowTerms`.
        limits: the least and the largest result.
        looks_up: whether results are looked up in the filter's table.
    """

    def __init__(self, builder: Any, isa: ByteIsa, row: Any, limits: tuple[Any, Any], *, looks_up: bool) -> None:
        self._isa, self._row, self._limits, self._simd, self._looks_up = isa, row, limits, simd_of(isa.floats), looks_up
        self._factor = self._simd.repeated(builder, _term(builder, row, "fitting_factor", FLOAT))
        self._zero_point, self._fuses = _term(builder, row, "zero_point"), isa.lanes == _FUSING_LANES
        self._rounded_zero = repeated_index(builder, _term(builder, row, "rounded_zero"), isa.lanes)

    def write(self, builder: Any, totals: list[Any], sums: Any, put: Callable[[Any], None]) -> Any:
        """Writes results side by side. If some may be wrong, which it returns, it stores the sums; `row_results` writes the results again.

        Args:
            builder: where the code is appended.
            totals: the sums with the first term, 1 to `_VECTORS` vectors.
            sums: the address of the sums without the first term.
            put: appends the code that stores the results, given as one vector.
        """
        isa, numbers = self._isa, [builder.sitofp(total, self._simd.llvm_type) for total in totals]
        if isa.dot is Dot.PORTABLE:
            steps = [builder.fmul(number, self._factor) for number in numbers]
            (results, off), margin = _narrow_portably(builder, isa, steps, self._zero_point, self._limits), TIE_MARGIN
        else:
            (results, off), margin = self._rounded_results(builder, numbers), _FUSED_MARGIN if self._fuses else _PRODUCT_MARGIN
        put(self._entries(builder, results) if self._looks_up else results)
        unsure = _are_unsure(builder, isa, off, margin)
        with builder.if_then(unsure, likely=False):
            first = first_term(builder, isa, self._row)
            for vector, total in enumerate(totals):
                store(builder, builder.sub(total, first), builder.add(sums, ADDRESS(vector * isa.lanes * 4)))
        return unsure

    def _entries(self, builder: Any, results: Any) -> Any:
        """What the filter's table has for results, given as words of four bytes."""
        words, count = REGISTER // 4, results.type.count
        every = ir.Constant(ir.VectorType(INDEX, words), [min(at, count - 1) for at in range(words)])
        places = builder.bitcast(builder.shuffle_vector(results, results, every), BYTES)
        entries = builder.bitcast(entries_of(builder, self._table(builder))(places), ir.VectorType(INDEX, words))
        return builder.shuffle_vector(entries, entries, ir.Constant(ir.VectorType(INDEX, count), list(range(count))))

    def _table(self, builder: Any) -> Any:
        """The address of the filter's table."""
        return builder.add(self._row, _term(builder, self._row, "table"))

    def _rounded_results(self, builder: Any, numbers: list[Any]) -> tuple[Any, list[Any]]:
        """`_narrow` of products that are known to be less than `FITTING`, or to be NaN."""
        isa, simd, factor = self._isa, self._simd, self._factor
        move, whole, off = simd.all(ROUNDING), [], []
        for number in numbers:
            step = builder.fmul(number, factor)
            moved = simd.fused(builder, number, factor, move) if self._fuses else builder.fadd(step, move)
            rounded = builder.fsub(moved, move)
            remainder = simd.fused(builder, number, factor, builder.fneg(rounded)) if self._fuses else builder.fsub(step, rounded)
            whole.append(builder.sub(builder.bitcast(moved, integers(isa)), self._rounded_zero))
            off.append(builder.bitcast(remainder, integers(isa)))
        return _packed(builder, isa, whole, builder.add(self._limits[0], ADDRESS(128))), off


@cache
def quantized_product(filters: int, most: int, looks_up: bool, isa: ByteIsa) -> Any:
    """The kernel of quantized results of filters, which leave the registers as such, written side by side.

    `multiply(count, channels, plane, taps, offsets, source, weights, sums, results)` has the arguments of `quad_product` first. Results are
    how many of the filters there are, whose second terms are 0, the address of the first one's `RowTerms`, the limits, the target of the
    first filter, the bytes to the next one's, and a bit for each position whose results are written, all if the processor does not move
    bytes. It returns a bit for each filter that has results which may be wrong, whose sums it stores; `row_results` writes them again.

    Args:
        filters: filters of a block.
        most: vectors, at most.
        looks_up: whether results are looked up in the filters' tables.
        isa: the instruction set that it is compiled for.
    """
    size = isa.lanes * 4

    @intrinsic
    def multiply(count: Any, channels: Any, plane: Any, taps: Any, offsets: Any, source: Any, weights: Any, sums: Any, results: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            count, *factors, weights, sums, results = arguments
            used, rows, low, high, target, step, valid = unpacked(builder, results)
            written = low_bits(builder, builder.ctpop(valid))
            flags = allocated(builder, ADDRESS)
            builder.store(ADDRESS(0), flags)
            terms = [builder.add(rows, ADDRESS(row * ROW_SIZE)) for row in range(filters)]
            starts = [first_term(builder, isa, row) for row in terms]  # those of filters that are missing are never used
            for number in each_count(builder, count, most):
                matrix = (weights, ADDRESS(filters * isa.factor_bytes), ADDRESS(isa.factor_bytes))
                before = [start for start in starts for _ in range(number)]
                totals = quad_sums(builder, filters, number, isa, factors, matrix, before, isa.factor_bytes)
                for row in each_below(builder, range(filters), used):
                    to, sums_of_row = builder.add(target, builder.mul(step, ADDRESS(row))), totals[row * number : (row + 1) * number]
                    of_row = builder.add(sums, ADDRESS(row * most * size))
                    of_filter = FilterResults(builder, isa, terms[row], (low, high), looks_up=looks_up)
                    put = partial(put_valid, builder, address=to, valid=valid, written=written)
                    unsure = of_filter.write(builder, sums_of_row, of_row, put if isa.moves_bytes else partial(store, builder, address=to))
                    flagged = builder.shl(builder.zext(unsure, ADDRESS), ADDRESS(row))
                    builder.store(builder.or_(builder.load(flags), flagged), flags)
            return builder.load(flags)

        return types.int64(*[types.int64] * 8, types.UniTuple(types.int64, 7)), generate

    return multiply


@cache
def filter_results(output: Output, looks_up: bool, isa: ByteIsa) -> Any:
    """The kernel `finish` of `row_results`, whose rows are filters, which looks quantized results up in the filter's table.

    Args:
        output: what becomes of the sums.
        looks_up: whether there are tables.
        isa: the instruction set that it is compiled for.
    """
    finish, width = row_results(output, True, isa), isa.lanes

    @jit
    def finish_by_table(p: Any, row: Any, second: Any, total: Any, columns: Any, count: Any, bias: Any, target: Any) -> None:
        finish(p, row, second, total, columns, count, bias, target)
        look_up_in_registers(target, target, count * width, row + row_terms_at(row).table)

    return finish_by_table if looks_up else finish


@cache
def row_results(output: Output, of_filters: bool, isa: ByteIsa) -> Any:
    """The kernel `finish(p, row, second, total, columns, count, bias, target)`, which writes results of a row side by side.

    Its arguments are the product's parameters, the address of the `RowTerms`, the second term, the addresses of the sums, which it may
    change, and of the columns' terms (first, second, factor, scale), the number of vectors, 1 to `_VECTORS`, the address of as many biases
    (FLOAT32 only), and the target.

    Args:
        output: what becomes of the sums.
        of_filters: whether rows are filters, whose columns have no first terms and no scales of their own.
        isa: the instruction set that it is compiled for.
    """
    size = isa.lanes * 4
    quantize, complete, dequantize = (make(of_filters, isa) for make in (_quantize, _complete, _dequantize))
    add_seconds = _add_seconds(isa)
    keeps_sums, is_float = output is Output.INT32, output is Output.FLOAT32

    @jit
    def correct(p: Any, r: RowTerms, second: Any, total: Any, columns: Any, target: Any) -> None:
        """Writes one quantized result as it is defined."""
        whole = wrapped(word_at(total) + r.first * word_at(columns[0]) + second * word_at(columns[1]))
        value = (whole + r.bias) * r.scale * r.second_scale * double_at(columns[3]) / r.output_scale
        steps = 0.0 if value != value else round_even(value)
        set_byte(target, int(min(max(steps + r.zero_point, float(p.low)), float(p.high))))

    @jit
    def finish(p: Any, row: Any, second: Any, total: Any, columns: Any, count: Any, bias: Any, target: Any) -> None:
        r = row_terms_at(row)
        # Read once: LLVM cannot know that the stores below do not write the terms.
        of_row, factor_of_row, zero_point, low, high = r.first, r.factor, r.zero_point, p.low, p.high
        if of_filters and second != 0:
            for vector in range(count):
                add_seconds(total + vector * size, second, columns[1] + vector * size)
            second = 0
        if not keeps_sums and not is_float:
            own_columns = columns[0], columns[1], columns[2]
            unsure = quantize(count, total, of_row, second, factor_of_row, own_columns, low, high, zero_point, target)
            while unsure != 0:
                index = first_bit(unsure)
                four, unsure = index * 4, unsure & (unsure - 1)
                terms = columns[0] + four, columns[1] + four, columns[2] + four, columns[3] + index * 8
                correct(p, r, second, total + four, terms, target + index)
            return
        for vector in range(count):
            at, first, of_second = total + vector * size, columns[0] + vector * size, columns[1] + vector * size
            if keeps_sums:
                complete(at, of_row, second, (first, of_second), target + vector * size)
            else:
                scale = columns[3] + vector * size * 2
                dequantize(at, of_row, second, r.scale, (first, of_second, scale), bias + vector * size, target + vector * size)

    return finish


@cache
def run_writer(output: Output) -> Any:
    """The kernel `write(source, target, count, step)`, which writes results to elements `step` bytes apart."""
    element = 1 if output is Output.BYTES else 4

    @jit
    def write(source: Any, target: Any, count: Any, step: Any) -> None:
        if step == element:
            copy_bytes(source, target, count * element, 0)
        else:
            for at in range(count):
                if element == 1:
                    set_byte(target + at * step, byte_at(source + at))
                else:
                    set_word(target + at * step, word_at(source + at * 4))

    return write


@cache
def row_writer(output: Output) -> Any:
    """The kernel `write(p, results, target, column, count)`, which writes results for `count` positions of rows.

    Rows begin `pitch` positions apart and have `out_width` of them; the first position is the `column` of the row at `target`. Returns the
    column and the row of the position that follows.
    """
    write, element = run_writer(output), 1 if output is Output.BYTES else 4

    @jit
    def write_rows(p: Any, results: Any, target: Any, column: Any, count: Any) -> Any:
        done, pitch, width, row, step = 0, p.pitch, p.out_width, p.output_row, p.output_element
        while done < count:
            in_row = min(count - done, pitch - column)
            useful = min(in_row, width - column)
            if useful > 0:
                write(results + done * element, target + column * step, useful, step)
            done, column = done + in_row, column + in_row
            if column == pitch:
                column, target = 0, target + row
        return column, target

    return write_rows
