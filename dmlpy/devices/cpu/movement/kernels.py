"""The compiled copies: blocks of rows and columns between strided tensors, of elements of any width or converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.load_store import bfloat16_of, floats_of_bfloat16
from dmlpy.devices.cpu.movement.plan import CopiesParameters, EncodedCopy
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, Loop, integer_at, lanes_below, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.thread_pool import TaskBody

    _Convert = Callable[[Any, Any, int], Any]
    """Converts the bits of elements: converted(builder, bits, lanes)."""

_STRIP = 32
"""Columns of a transposed block that are copied row by row, so that the cache lines of the source are read once."""
_THIN = 8
"""Rows of fewer elements are copied column by column, if there are more of them."""
_FILL_BYTES = 64
_NARROW_BYTES = 2
_SIZE = EncodedCopy.dtype.itemsize


def build_copies(isa: Isa) -> TaskBody:
    """Builds a thread's part of copies of elements as they are, to be compiled."""
    ones, twos, fours, eights = (_strided(width) for width in (1, 2, 4, 8))
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
    """The conversions of elements of 2 bytes to floats and back. A width of 2 is that of results that are none."""
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
    def copy(p: CopiesParameters, first: Any, last: Any, own: Any) -> None:
        for at in range(p.copies):
            c = copy_at(p.table + at * _SIZE)
            for block in range(max(first, c.first_block), min(last, c.first_block + c.blocks)):
                run_block(p, c, at, block - c.first_block)

    return share_units(CopiesParameters, copy)


@intrinsic
def memory_copy(target: Any, source: Any, size: Any) -> Any:
    """Copies bytes."""

    def generate(builder: Any, arguments: Any) -> None:
        target, source, size = arguments
        to, of = (builder.inttoptr(address, ir.IntType(8).as_pointer()) for address in (target, source))
        kind = ir.FunctionType(ir.VoidType(), [to.type, of.type, ADDRESS, ir.IntType(1)])
        function = declared(builder.module, kind, "llvm.memcpy.p0.p0.i64")
        builder.call(function, [to, of, size, ir.IntType(1)(0)])

    return types.void(*[types.int64] * 3), generate


@intrinsic
def fill(target: Any, source: Any, width: Any, size: Any) -> Any:
    """Fills bytes, at least one element, with the element of a width at an address."""

    def generate(builder: Any, arguments: Any) -> None:
        target, source, width, size = arguments
        end = builder.append_basic_block("filled")
        choice = builder.switch(width, end)
        for own in (1, 2, 4, 8):
            block = builder.append_basic_block(f"width{own}")
            choice.add_case(ADDRESS(own), block)
            builder.position_at_end(block)
            kind = ir.IntType(8 * own)
            value = builder.load(builder.inttoptr(source, kind.as_pointer()), align=own)
            _fill_loop(builder, target, value, own, size)
            builder.branch(end)
        builder.position_at_end(end)

    return types.void(*[types.int64] * 4), generate


def _fill_loop(builder: Any, target: Any, value: Any, width: int, size: Any) -> None:
    """The code that stores whole vectors of a value, then single ones."""
    lanes = _FILL_BYTES // width
    vectors = ir.VectorType(value.type, lanes)
    none = ir.Constant(vectors, ir.Undefined)
    repeated = builder.shuffle_vector(
        builder.insert_element(none, value, INDEX(0)), none, ir.Constant(ir.VectorType(INDEX, lanes), [0] * lanes)
    )
    first = ADDRESS(0)
    for stored, step in ((repeated, _FILL_BYTES), (value, width)):
        last = builder.sub(size, builder.srem(builder.sub(size, first), ADDRESS(step)))
        with builder.if_then(builder.icmp_signed("<", first, last)):
            loop = Loop(builder, [first])
            place = builder.inttoptr(builder.add(target, loop.values[0]), stored.type.as_pointer())
            builder.store(stored, place, align=width)
            following = builder.add(loop.values[0], ADDRESS(step))
            loop.repeat_while(builder.icmp_signed("<", following, last), [following])
        first = last


def _strided(width: int) -> Any:
    """The kernel that copies elements of a width one by one, the longer axis innermost."""
    copy_one = element_copy(width)

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
        if columns < _THIN and rows > columns:
            to_row, to_column, of_row, of_column, rows, columns = to_column, to_row, of_column, of_row, columns, rows
        strip = _STRIP if of_row == width else columns
        for first in range(0, columns, strip):
            copy_strip(to, to_row, to_column, source, of_row, of_column, rows, first, min(columns, first + strip))

    return copy


def element_copy(width: int) -> Any:
    """The operation that copies an element of a width."""
    kind = ir.IntType(8 * width)

    @intrinsic
    def copy_one(target: Any, source: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            to, of = (builder.inttoptr(address, kind.as_pointer()) for address in arguments)
            builder.store(builder.load(of, align=width), to, align=width)

        return types.void(types.int64, types.int64), generate

    return copy_one


def block_copy() -> Any:
    """The kernel `copy(target, source, size)`, which copies bytes: single elements without a call."""
    one, two, four, eight, copy_bytes = (*(element_copy(width) for width in (1, 2, 4, 8)), memory_copy)

    @jit
    def copy(to: Any, source: Any, size: Any) -> None:
        if size == 4:
            four(to, source)
        elif size == 2:
            two(to, source)
        elif size == 8:
            eight(to, source)
        elif size == 1:
            one(to, source)
        else:
            copy_bytes(to, source, size)

    return copy


def _signed_load(bits: int) -> Any:
    """The intrinsic that loads a signed integer."""
    kind = ir.IntType(bits)

    @intrinsic
    def load(address: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=bits // 8)
            return value if bits == ADDRESS.width else builder.sext(value, ADDRESS)

        return types.int64(types.int64), generate

    return load


word_at, long_at = _signed_load(32), _signed_load(64)


@intrinsic
def set_long(address: Any, value: Any) -> Any:
    """Stores a 64-bit integer that no other thread reads."""

    def generate(builder: Any, arguments: Any) -> None:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ADDRESS.as_pointer()), align=8)

    return types.void(types.int64, types.int64), generate


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
            bits = _masked_load(builder, of, of_align, lanes, count) if some else builder.load(of, align=of_align)
            found = converted(builder, bits, lanes)
            if some:
                _masked_store(builder, found, to, to_align, lanes, count)
            else:
                builder.store(found, to, align=to_align)

        return types.void(*[types.int64] * 3), generate

    return convert


def _masked_load(builder: Any, pointer: Any, align: int, lanes: int, count: Any) -> Any:
    kind = pointer.type.pointee
    mask, zeros = lanes_below(builder, count, lanes), ir.Constant(kind, [0] * lanes)
    function = ir.FunctionType(kind, [pointer.type, INDEX, mask.type, kind])
    name = f"llvm.masked.load.v{lanes}i{kind.element.width}.p0"
    return builder.call(declared(builder.module, function, name), [pointer, INDEX(align), mask, zeros])


def _masked_store(builder: Any, value: Any, pointer: Any, align: int, lanes: int, count: Any) -> None:
    mask = lanes_below(builder, count, lanes)
    function = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, INDEX, mask.type])
    name = f"llvm.masked.store.v{lanes}i{value.type.element.width}.p0"
    builder.call(declared(builder.module, function, name), [value, pointer, INDEX(align), mask])


def _floats_of(builder: Any, bits: Any, lanes: int) -> Any:
    """The bits of halves as those of floats. A NaN keeps its bits, as in NumPy, where the processor's instruction makes it quiet."""
    halves, wide = ir.VectorType(ir.HalfType(), lanes), ir.VectorType(INDEX, lanes)

    def all_of(value: int) -> Any:
        return ir.Constant(wide, [value] * lanes)

    value = builder.fpext(builder.bitcast(bits, halves), ir.VectorType(FLOAT, lanes))
    whole = builder.zext(bits, wide)
    sign = builder.shl(builder.and_(whole, all_of(0x8000)), all_of(16))
    kept = builder.or_(builder.or_(sign, all_of(0x7F800000)), builder.shl(builder.and_(whole, all_of(0x3FF)), all_of(13)))
    return builder.select(builder.fcmp_unordered("uno", value, value), kept, builder.bitcast(value, wide))


def _halves_of(builder: Any, bits: Any, lanes: int) -> Any:
    """The bits of floats, rounded, as those of halves. Of a NaN the highest bits are kept, or its lowest one set, as in NumPy."""
    halves, wide = ir.VectorType(ir.HalfType(), lanes), ir.VectorType(INDEX, lanes)
    short = ir.VectorType(ir.IntType(16), lanes)

    def all_of(value: int) -> Any:
        return ir.Constant(wide, [value] * lanes)

    value = builder.bitcast(bits, ir.VectorType(FLOAT, lanes))
    rounded = builder.bitcast(builder.fptrunc(value, halves), short)
    payload = builder.and_(builder.lshr(bits, all_of(13)), all_of(0x3FF))
    payload = builder.select(builder.icmp_signed("==", payload, all_of(0)), all_of(1), payload)
    sign = builder.and_(builder.lshr(bits, all_of(16)), all_of(0x8000))
    kept = builder.trunc(builder.or_(builder.or_(sign, all_of(0x7C00)), payload), short)
    return builder.select(builder.fcmp_unordered("uno", value, value), kept, rounded)
