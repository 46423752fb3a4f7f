"""The compiled movement of elements: copies of blocks between strided tensors, conversions, tests for NaN and infinities, reversals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import called, intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.load_store import bfloat16_of, floats_of_bfloat16, floats_of_halves, halves_of_floats
from dmlpy.devices.cpu.memory_kernels import block_copy, element_copy, fill, long_at, masked_load, masked_store, memory_copy, word_at
from dmlpy.devices.cpu.movement.plan import NEGATIVE, NOT_A_NUMBER, POSITIVE, CopiesParameters, EncodedCopy, ReversalParameters
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, integer_at, lanes_below, repeated, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import share_units, unit_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.thread_pool import TaskBody

    _Convert = Callable[[Any, Any, int], Any]
    """Converts the bits of elements: converted(builder, bits, lanes)."""


_STRIP = 32
"""Columns of a transposed block that are copied row by row, so that the cache lines of the source are read once."""
_TILED = 128
"""Columns of a transposed block whose cache lines are read in several tiles."""
_LARGEST_SIDE = 16
"""Rows and columns of a tile, at most: each row takes a register."""
_SMALL_SIDE = 4
"""Rows and columns of a tile, where the block is too small for larger ones."""
_THIN = 8
"""Rows of fewer elements are copied column by column, if there are more of them."""
_NARROW_BYTES = 2
_SIZE = EncodedCopy.dtype.itemsize


def build_copies(isa: Isa) -> TaskBody:
    """Builds a thread's part of copies of elements as they are, to be compiled."""
    ones, twos, fours, eights = (_strided(width, isa) for width in (1, 2, 4, 8))
    copy_bytes, fill_row = memory_copy, fill

    @jit
    def copy_block(p: Any, to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any) -> None:
        width = p.width
        size, is_thin = columns * width, columns < _THIN and rows > columns
        if to_column == width and of_column == width and (not is_thin or to_row == size == of_row):
            if to_row == size == of_row:
                copy_bytes(to, source, rows * size)
            else:
                for row in range(rows):
                    copy_bytes(to + row * to_row, source + row * of_row, size)
        elif to_column == width and of_column == 0 and not is_thin:
            for row in range(rows):
                fill_row(to + row * to_row, source + row * of_row, width, size)
        elif width == 1:
            ones(to, to_row, to_column, source, of_row, of_column, rows, columns)
        elif width == 2:
            twos(to, to_row, to_column, source, of_row, of_column, rows, columns)
        elif width == 4:
            fours(to, to_row, to_column, source, of_row, of_column, rows, columns)
        else:
            eights(to, to_row, to_column, source, of_row, of_column, rows, columns)

    return for_each_block(copy_block)


def build_conversions(isa: Isa) -> TaskBody:
    """Builds a thread's part of conversions between FLOAT16 and FLOAT32, to be compiled."""
    return _conversions(_floats_of, _halves_of, isa)


def build_bfloat16_conversions(isa: Isa) -> TaskBody:
    """Builds a thread's part of conversions between BFLOAT16 and FLOAT32, to be compiled."""
    return _conversions(floats_of_bfloat16, bfloat16_of, isa)


def _conversions(floats_of: _Convert, narrow_of: _Convert, isa: Isa) -> TaskBody:
    """The conversions of elements of 2 bytes to floats and back; the width of a copy is that of its results."""
    to_narrow, to_floats = _converted_row(narrow_of, True, isa), _converted_row(floats_of, False, isa)

    @jit
    def convert_block(
        p: Any, to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any
    ) -> None:
        if columns == 1:  # rows are then vectors
            to_column, of_column, rows, columns = to_row, of_row, 1, rows
        for row in range(rows):
            if p.width == _NARROW_BYTES:
                to_narrow(to + row * to_row, to_column, source + row * of_row, of_column, columns)
            else:
                to_floats(to + row * to_row, to_column, source + row * of_row, of_column, columns)

    return for_each_block(convert_block)


def for_each_block(copy_block: Any) -> TaskBody:
    """Calls copy_block(p, target, its row and column, source, its row and column, rows, columns) for each block."""
    copy_at = struct_view(EncodedCopy)

    @jit
    def run_block(p: CopiesParameters, c: EncodedCopy, at: Any, block: Any) -> None:
        to, source, split = integer_at(p.bases + 16 * at), integer_at(p.bases + 16 * at + 8), 0
        for axis in range(c.axes):
            place = p.axes + 24 * (c.first_axis + axis)
            size = integer_at(place)
            index = block % size
            block //= size
            if axis == 0:
                split = index
            to += index * integer_at(place + 8)
            source += index * integer_at(place + 16)
        rows, columns = c.rows, c.columns
        if c.splits_rows != 0:
            rows = min(rows, c.split_size - split * rows)
        else:
            columns = min(columns, c.split_size - split * columns)
        copy_block(p, to, c.to_row, c.to_column, source, c.of_row, c.of_column, rows, columns)

    @jit
    def copy(p: CopiesParameters, first: Any, last: Any, state: Any) -> None:
        for at in range(p.copies):
            c = copy_at(p.table + at * _SIZE)
            for block in range(max(first, c.first_block), min(last, c.first_block + c.blocks)):
                run_block(p, c, at, block - c.first_block)

    return share_units(CopiesParameters, copy)


def _strided(width: int, isa: Isa) -> Any:
    """The kernel that copies elements of a width: by vectors those that it transposes or interleaves, others one by one."""
    copy_one, interleave, halve, side = element_copy(width), _interleaving(width, isa), _halving(width, isa), _tile_side(width, isa)
    copy_large_tiles, copy_small_tiles, small_side = _tiles(width, side), _tiles(width, _SMALL_SIDE), _SMALL_SIDE

    @called
    def copy_tiles(to: Any, to_row: Any, source: Any, of_column: Any, rows: Any, columns: Any) -> None:
        if min(rows, columns) >= side:
            copy_large_tiles(to, to_row, source, of_column, rows, columns)
        else:
            copy_small_tiles(to, to_row, source, of_column, rows, columns)

    @jit
    def copy_strip(
        to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, first: Any, last: Any
    ) -> None:
        for row in range(rows):
            into, out_of = to + row * to_row, source + row * of_row
            for at in range(first, last):
                copy_one(into + at * to_column, out_of + at * of_column)

    @jit
    def copy(to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any) -> None:
        if min(rows, columns) >= small_side and (to_column == width == of_row or to_row == width == of_column):
            if to_column == width:
                copy_tiles(to, to_row, source, of_column, rows, columns)
            else:
                copy_tiles(to, to_column, source, of_row, columns, rows)
            rows = 0
        if columns == 2 and to_column == width and to_row == 2 * width and of_row == width:
            interleave(to, source, source + of_column, rows)
            rows = 0
        if columns < _THIN and rows > columns:
            to_row, to_column, of_row, of_column, rows, columns = to_column, to_row, of_column, of_row, columns, rows
        if to_column == width and of_column == 2 * width:
            for row in range(rows):
                halve(to + row * to_row, source + row * of_row, columns)
            rows = 0
        strip = _STRIP if of_row == width else columns
        for first in range(0, columns, strip):
            copy_strip(to, to_row, to_column, source, of_row, of_column, rows, first, min(columns, first + strip))

    return copy


def _tile_side(width: int, isa: Isa) -> int:
    """Rows and columns of a tile of elements that registers transpose."""
    return max(_SMALL_SIDE, min(_LARGEST_SIDE, isa.lanes * FLOAT_BYTES // width))


def _tiles(width: int, side: int) -> Any:
    """The kernel that transposes a block of elements of a width by tiles."""
    transpose = _transposition(width, side)

    @jit
    def copy_tiles(to: Any, to_row: Any, source: Any, of_column: Any, rows: Any, columns: Any) -> None:
        """Transposes a block. The last tiles overlap the ones before."""
        for first in range(0, columns, _TILED):
            last = min(columns, first + _TILED)
            for number in range(0, rows, side):
                row = min(number, rows - side)
                for at in range(first, last, side):
                    column = min(at, columns - side)
                    transpose(to + row * to_row + column * width, to_row, source + row * width + column * of_column, of_column)

    return copy_tiles


def _transposition(width: int, side: int) -> Any:
    """The intrinsic `transpose(to, to_row, source, of_row)` of a tile, whose rows are contiguous."""
    kind = ir.VectorType(ir.IntType(8 * width), side)
    halves = [[at // 2 + at % 2 * side + half * side // 2 for at in range(side)] for half in range(2)]
    low, high = (ir.Constant(ir.VectorType(INDEX, side), lanes) for lanes in halves)

    @intrinsic
    def transpose(to: Any, to_row: Any, source: Any, of_row: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            to, to_row, source, of_row = arguments

            def row(address: Any, step: Any, number: int) -> Any:
                return builder.inttoptr(builder.add(address, builder.mul(step, ADDRESS(number))), kind.as_pointer())

            rows = [builder.load(row(source, of_row, at), align=width) for at in range(side)]
            for _ in range(side.bit_length() - 1):  # each moves a bit of the columns' numbers to those of the rows
                pairs = zip(rows[: side // 2], rows[side // 2 :], strict=True)
                rows = [builder.shuffle_vector(x, y, lanes) for x, y in pairs for lanes in (low, high)]
            for at, value in enumerate(rows):
                builder.store(value, row(to, to_row, at), align=width)

        return types.void(*[types.int64] * 4), generate

    return transpose


def _interleaving(width: int, isa: Isa) -> Any:
    """The kernel `interleave(to, first, second, count)`, which writes elements of a width from two rows in turn."""
    copy_one, many = element_copy(width), isa.lanes * FLOAT_BYTES // width
    few = max(2, many // 4)
    interleave_many, interleave_few = _interleaved(width, many), _interleaved(width, few)

    @jit
    def interleave(to: Any, first: Any, second: Any, count: Any) -> None:
        whole, most = count // many * many, count // few * few
        for at in range(0, whole, many):
            interleave_many(to + 2 * at * width, first + at * width, second + at * width)
        for at in range(whole, most, few):
            interleave_few(to + 2 * at * width, first + at * width, second + at * width)
        for at in range(most, count):
            copy_one(to + 2 * at * width, first + at * width)
            copy_one(to + (2 * at + 1) * width, second + at * width)

    return interleave


def _interleaved(width: int, lanes: int) -> Any:
    """The intrinsic `interleave(target, first, second)`, which writes the elements of two vectors in turn."""
    kind = ir.VectorType(ir.IntType(8 * width), lanes)
    turns = [[lane // 2 + lane % 2 * lanes for lane in range(start, start + lanes)] for start in (0, lanes)]

    @intrinsic
    def interleave(target: Any, first: Any, second: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            to, *places = arguments
            x, y = (builder.load(builder.inttoptr(place, kind.as_pointer()), align=width) for place in places)
            for half, lanes_of_half in enumerate(turns):
                value = builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(INDEX, lanes), lanes_of_half))
                builder.store(value, builder.inttoptr(builder.add(to, ADDRESS(half * lanes * width)), kind.as_pointer()), align=width)

        return types.void(*[types.int64] * 3), generate

    return interleave


def _halving(width: int, isa: Isa) -> Any:
    """The kernel `halve(to, source, count)`, which copies every second element of a width."""
    copy_one, many = element_copy(width), isa.lanes * FLOAT_BYTES // width
    few = max(2, many // 4)
    halve_many, halve_few = _halved(width, many), _halved(width, few)

    @jit
    def halve(to: Any, source: Any, count: Any) -> None:
        last = count - 1  # what follows the last element is none of the source's
        whole, most = last // many * many, last // few * few
        for at in range(0, whole, many):
            halve_many(to + at * width, source + 2 * at * width)
        for at in range(whole, most, few):
            halve_few(to + at * width, source + 2 * at * width)
        for at in range(most, count):
            copy_one(to + at * width, source + 2 * at * width)

    return halve


def _halved(width: int, lanes: int) -> Any:
    """The intrinsic `halve(target, source)`, which writes a vector of every second element; it reads the one behind the last, too."""
    kind = ir.VectorType(ir.IntType(8 * width), lanes)
    even = ir.Constant(ir.VectorType(INDEX, lanes), list(range(0, 2 * lanes, 2)))

    @intrinsic
    def halve(target: Any, source: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            to, of = arguments
            places = (builder.inttoptr(builder.add(of, ADDRESS(lanes * width * part)), kind.as_pointer()) for part in range(2))
            first, second = (builder.load(place, align=width) for place in places)
            builder.store(builder.shuffle_vector(first, second, even), builder.inttoptr(to, kind.as_pointer()), align=width)

        return types.void(types.int64, types.int64), generate

    return halve


def _converted_row(converted: _Convert, narrows: bool, isa: Isa) -> Any:
    """The kernel that converts a row of elements."""
    of_size, to_size = (FLOAT_BYTES, _NARROW_BYTES) if narrows else (_NARROW_BYTES, FLOAT_BYTES)
    convert_vector, convert_some, convert_one = (
        _conversion(converted, narrows, lanes, some) for lanes, some in ((isa.lanes, False), (isa.lanes, True), (1, False))
    )
    lanes = isa.lanes

    @jit
    def convert(to: Any, to_step: Any, source: Any, of_step: Any, count: Any) -> None:
        if to_step == to_size and of_step == of_size:
            whole = count // lanes * lanes
            for at in range(0, whole, lanes):
                convert_vector(to + at * to_size, source + at * of_size, lanes)
            if whole < count:
                convert_some(to + whole * to_size, source + whole * of_size, count - whole)
        else:
            for at in range(count):
                convert_one(to + at * to_step, source + at * of_step, 1)

    return convert


def _conversion(converted: _Convert, narrows: bool, lanes: int, some: bool) -> Any:
    """The intrinsic `convert(target, source, count)`: a vector, or with `some` its first lanes."""
    narrow, floats = (ir.VectorType(kind, lanes) for kind in (ir.IntType(16), INDEX))
    source_kind, target_kind = (floats, narrow) if narrows else (narrow, floats)
    of_align, to_align = (FLOAT_BYTES, _NARROW_BYTES) if narrows else (_NARROW_BYTES, FLOAT_BYTES)

    @intrinsic
    def convert(target: Any, source: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            target, source, count = arguments
            to, of = builder.inttoptr(target, target_kind.as_pointer()), builder.inttoptr(source, source_kind.as_pointer())
            if some:
                chosen = lanes_below(builder, count, lanes)
                bits = masked_load(builder, of, of_align, chosen, ir.Constant(source_kind, [0] * lanes))
                masked_store(builder, converted(builder, bits, lanes), to, to_align, chosen)
            else:
                builder.store(converted(builder, builder.load(of, align=of_align), lanes), to, align=to_align)

        return types.void(*[types.int64] * 3), generate

    return convert


def _floats_of(builder: Any, bits: Any, lanes: int) -> Any:
    """The bits of halves as those of floats. A NaN keeps its bits, as in NumPy, where the processor's instruction makes it quiet."""
    wide = ir.VectorType(INDEX, lanes)

    def all_of(value: int) -> Any:
        return ir.Constant(wide, [value] * lanes)

    value = floats_of_halves(builder, bits)
    whole = builder.zext(bits, wide)
    sign = builder.shl(builder.and_(whole, all_of(0x8000)), all_of(16))
    kept = builder.or_(builder.or_(sign, all_of(0x7F800000)), builder.shl(builder.and_(whole, all_of(0x3FF)), all_of(13)))
    return builder.select(builder.fcmp_unordered("uno", value, value), kept, builder.bitcast(value, wide))


def _halves_of(builder: Any, bits: Any, lanes: int) -> Any:
    """The bits of floats, rounded, as those of halves. Of a NaN the highest bits are kept, or its lowest one set, as in NumPy."""
    wide, short = ir.VectorType(INDEX, lanes), ir.VectorType(ir.IntType(16), lanes)

    def all_of(value: int) -> Any:
        return ir.Constant(wide, [value] * lanes)

    value = builder.bitcast(bits, ir.VectorType(FLOAT, lanes))
    rounded = halves_of_floats(builder, value)
    payload = builder.and_(builder.lshr(bits, all_of(13)), all_of(0x3FF))
    payload = builder.select(builder.icmp_signed("==", payload, all_of(0)), all_of(1), payload)
    sign = builder.and_(builder.lshr(bits, all_of(16)), all_of(0x8000))
    kept = builder.trunc(builder.or_(builder.or_(sign, all_of(0x7C00)), payload), short)
    return builder.select(builder.fcmp_unordered("uno", value, value), kept, rounded)


def build_classes(halves: bool, isa: Isa) -> TaskBody:
    """Builds a thread's part of a test, to be compiled.

    Args:
        halves: whether elements are of FLOAT16.
        isa: the instruction set that it is compiled for.
    """
    size, lanes = FLOAT_BYTES // 2 if halves else FLOAT_BYTES, isa.lanes
    classify_vector, classify_one = _classification(halves, lanes), _classification(halves, 1)

    @jit
    def classify_block(
        p: Any, to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any
    ) -> None:
        if columns == 1:  # rows are then vectors
            to_column, of_column, rows, columns = to_row, of_row, 1, rows
        classes = p.classes
        whole = columns // lanes * lanes if to_column == 1 and of_column == size else 0
        for row in range(rows):
            into, out_of = to + row * to_row, source + row * of_row
            for at in range(0, whole, lanes):
                classify_vector(into + at, out_of + at * size, classes)
            for at in range(whole, columns):
                classify_one(into + at * to_column, out_of + at * of_column, classes)

    return for_each_block(classify_block)


def _classification(halves: bool, lanes: int) -> Any:
    """The intrinsic `classify(target, source, classes)`: a byte for each lane."""
    size = FLOAT_BYTES // 2 if halves else FLOAT_BYTES
    kind, truths = ir.VectorType(ir.IntType(8 * size), lanes), ir.VectorType(ir.IntType(8), lanes)
    infinity, sign = (0x7C00, 0x8000) if halves else (0x7F800000, 0x80000000)

    @intrinsic
    def classify(target: Any, source: Any, classes: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            target, source, classes = arguments

            def all_of(value: int) -> Any:
                return ir.Constant(kind, [value] * lanes)

            def where(asked: int, lanes_of_class: Any) -> Any:
                """The lanes of a class, if it is asked for."""
                chosen = builder.icmp_signed("!=", builder.and_(classes, ADDRESS(asked)), ADDRESS(0))
                return builder.and_(lanes_of_class, repeated(builder, chosen, lanes))

            bits = builder.load(builder.inttoptr(source, kind.as_pointer()), align=size)
            magnitude = builder.and_(bits, all_of(sign - 1))
            result = where(NOT_A_NUMBER, builder.icmp_unsigned(">", magnitude, all_of(infinity)))
            result = builder.or_(result, where(POSITIVE, builder.icmp_unsigned("==", bits, all_of(infinity))))
            result = builder.or_(result, where(NEGATIVE, builder.icmp_unsigned("==", bits, all_of(infinity | sign))))
            builder.store(builder.zext(result, truths), builder.inttoptr(target, truths.as_pointer()), align=1)

        return types.void(*[types.int64] * 3), generate

    return classify


_WORD_BYTES, _WORD = 4, 0xFFFFFFFF


def build_reversal() -> TaskBody:
    """Builds a thread's part of a reversal, to be compiled."""
    copy = block_copy()

    @jit
    def length_at(p: ReversalParameters, address: Any) -> Any:
        length = word_at(address) & _WORD if p.length_bytes == _WORD_BYTES else long_at(address)
        return p.size if length < 0 else min(length, p.size)  # lengths are unsigned

    @jit
    def reverse(p: ReversalParameters, output: Any, source: Any, lengths: Any) -> None:
        column = 0
        while column < p.columns:
            length, last = length_at(p, lengths + column * p.length_step), column + 1
            if p.length_step == 0:
                last = p.columns
            while last < p.columns and length_at(p, lengths + last * p.length_step) == length:
                last += 1
            to, of, run = output + column * p.width, source + column * p.width, (last - column) * p.width
            for place in range(length):
                copy(to + place * p.output_step, of + (length - 1 - place) * p.input_step, run)
            for place in range(length, p.size):
                copy(to + place * p.output_step, of + place * p.input_step, run)
            column = last

    @jit
    def run(p: ReversalParameters, first: Any, last: Any, state: Any) -> None:
        for group in range(first, last):
            output, source, lengths = unit_addresses(p.axes, p.table, group, p.output, p.input, p.lengths)
            reverse(p, output, source, lengths)

    return share_units(ReversalParameters, run)
