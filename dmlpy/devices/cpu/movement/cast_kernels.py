"""The compiled conversions between types of numbers: of vectors from one type to another, and of few elements between any two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import allocated, intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.load_store import floats_of_halves, halves_of_floats
from dmlpy.devices.cpu.movement.kernels import for_each_block
from dmlpy.devices.cpu.movement.plan import CAST_TYPES
from dmlpy.devices.cpu.simd import ADDRESS, INDEX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.thread_pool import TaskBody

_FLOATS = {2: ir.IntType(16), 4: ir.FloatType(), 8: ir.DoubleType()}
"""LLVM's types of floats by their bytes; those of FLOAT16 are bits."""


_INTEGERS, _UNSIGNED, _DOUBLES = (np.dtype(name) for name in ("int64", "uint64", "float64"))
"""The types that hold the elements of all others."""


def build_casts(source: str, target: str, isa: Isa) -> TaskBody:
    """Builds a thread's part of a conversion, to be compiled.

    Args:
        source: NumPy's name of the elements' type.
        target: that of the results' type.
        isa: the instruction set that it is compiled for.
    """
    of, to_type, lanes = np.dtype(source), np.dtype(target), isa.lanes
    of_size, to_size = of.itemsize, to_type.itemsize
    convert_vector, convert_one = (_cast(of, to_type, count) for count in (lanes, 1))

    @jit
    def convert_block(
        p: Any, to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any
    ) -> None:
        if columns == 1:  # rows are then vectors
            to_column, of_column, rows, columns = to_row, of_row, 1, rows
        whole = columns // lanes * lanes if to_column == to_size and of_column == of_size else 0
        for row in range(rows):
            into, out_of = to + row * to_row, source + row * of_row
            for at in range(0, whole, lanes):
                convert_vector(into + at * to_size, out_of + at * of_size)
            for at in range(whole, columns):
                convert_one(into + at * to_column, out_of + at * of_column)

    return for_each_block(convert_block)


def _cast(source: np.dtype[Any], target: np.dtype[Any], lanes: int) -> Any:
    """The intrinsic `convert(target, source)`."""

    @intrinsic
    def convert(to: Any, of: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            place, address = arguments
            value = _loaded(builder, address, source, lanes)
            _store(builder, place, target, _converted(builder, value, source, target, _type_of(target, lanes)))

        return types.void(types.int64, types.int64), generate

    return convert


def build_small_casts() -> TaskBody:
    """Builds the conversions between any two types, to be compiled: element by element, through 64-bit integers or FLOAT64."""
    convert_one = _cast_between(CAST_TYPES)

    @jit
    def convert_block(
        p: Any, to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any
    ) -> None:
        for row in range(rows):
            for column in range(columns):
                convert_one(
                    to + row * to_row + column * to_column, source + row * of_row + column * of_column, p.source_type, p.target_type
                )

    return for_each_block(convert_block)


def _cast_between(names: Sequence[str]) -> Any:
    """The intrinsic `convert(target, source, type of the source, type of the target)` of one element; types are numbers of these names."""
    dtypes = [np.dtype(name) for name in names]
    wide_dtypes = [_DOUBLES if each.kind == "f" else _UNSIGNED if each == _UNSIGNED else _INTEGERS for each in dtypes]

    @intrinsic
    def convert(to: Any, of: Any, of_type: Any, to_type: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            place, address, of_type, to_type = arguments
            end = builder.append_basic_block("converted")
            rooms = {each: allocated(builder, _type_of(each, 1)) for each in (_INTEGERS, _UNSIGNED, _DOUBLES)}
            targets = {each: builder.append_basic_block(each.name) for each in rooms}
            sources = builder.switch(of_type, end)
            for number, (dtype, wide) in enumerate(zip(dtypes, wide_dtypes, strict=True)):
                sources.add_case(ADDRESS(number), block := builder.append_basic_block(dtype.name))
                builder.position_at_end(block)
                loaded = _loaded(builder, address, dtype, 1)
                builder.store(_converted(builder, loaded, dtype, wide, _type_of(wide, 1)), rooms[wide])
                builder.branch(targets[wide])
            for wide, start in targets.items():
                builder.position_at_end(start)
                value, cases = builder.load(rooms[wide]), builder.switch(to_type, end)
                for number, dtype in enumerate(dtypes):
                    cases.add_case(ADDRESS(number), block := builder.append_basic_block(f"{wide.name}_{dtype.name}"))
                    builder.position_at_end(block)
                    _store(builder, place, dtype, _converted(builder, value, wide, dtype, _type_of(dtype, 1)))
                    builder.branch(end)
            builder.position_at_end(end)

        return types.void(*[types.int64] * 4), generate

    return convert


def _type_of(dtype: np.dtype[Any], lanes: int) -> Any:
    """LLVM's type of some elements in memory."""
    return ir.VectorType(_FLOATS[dtype.itemsize] if dtype.kind == "f" else ir.IntType(8 * dtype.itemsize), lanes)


def _loaded(builder: Any, address: Any, dtype: np.dtype[Any], lanes: int) -> Any:
    return builder.load(builder.inttoptr(address, _type_of(dtype, lanes).as_pointer()), align=dtype.itemsize)


def _store(builder: Any, address: Any, dtype: np.dtype[Any], value: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=dtype.itemsize)


def _converted(builder: Any, value: Any, source: np.dtype[Any], target: np.dtype[Any], kind: Any) -> Any:
    """A vector of another type."""
    floats = ir.VectorType(ir.FloatType(), kind.count)
    if source.kind == "f":
        value = floats_of_halves(builder, value) if source.itemsize == 2 else value
        if target.kind == "f" and target.itemsize == 2 and source.itemsize > FLOAT_BYTES:
            return halves_of_floats(builder, _rounded_to_odd(builder, value))
        if value.type == kind:
            return value
        if target.kind == "f":
            return (builder.fpext if target.itemsize > FLOAT_BYTES else builder.fptrunc)(value, kind)
        return _truncated(builder, value, target, kind)
    if target.kind == "f":
        # As in NumPy, FLOAT16 is rounded from FLOAT32.
        to = floats if target.itemsize == 2 else kind
        whole = (builder.sitofp if source.kind == "i" else builder.uitofp)(value, to)
        return halves_of_floats(builder, whole) if target.itemsize == 2 else whole
    if source.itemsize >= target.itemsize:
        return value if source.itemsize == target.itemsize else builder.trunc(value, kind)
    return (builder.sext if source.kind == "i" else builder.zext)(value, kind)


def _rounded_to_odd(builder: Any, value: Any) -> Any:
    """Doubles as floats whose last bit is 1 if they are not exact: what these are rounded to is what the doubles are rounded to."""
    lanes = value.type.count
    floats, words, longs = (ir.VectorType(kind, lanes) for kind in (ir.FloatType(), INDEX, ADDRESS))

    def magnitude(of: Any) -> Any:
        return builder.and_(builder.bitcast(of, longs), ir.Constant(longs, [(1 << 63) - 1] * lanes))

    nearest, one = builder.fptrunc(value, floats), ir.Constant(words, [1] * lanes)
    again, bits = builder.fpext(nearest, value.type), builder.bitcast(nearest, words)
    towards_zero = builder.select(builder.icmp_unsigned(">", magnitude(again), magnitude(value)), builder.sub(bits, one), bits)
    odd = builder.select(builder.fcmp_ordered("!=", again, value), builder.or_(towards_zero, one), bits)
    return builder.bitcast(odd, floats)


def _truncated(builder: Any, value: Any, target: np.dtype[Any], kind: Any) -> Any:
    """Floats as integers; LLVM's saturating conversion is one element after the other."""
    floating, limits = np.dtype(np.float32 if value.type.element == ir.FloatType() else np.float64), np.iinfo(target)

    def number(of: Any) -> Any:
        return ir.Constant(value.type, [float(of)] * kind.count)

    beyond = float(limits.max) + 1.0  # a power of two, as the largest integer need not be a float
    most = np.nextafter(floating.type(beyond), floating.type(0))
    clamped = builder.select(builder.fcmp_ordered("<", value, number(limits.min)), number(limits.min), value)
    clamped = builder.select(builder.fcmp_ordered(">", clamped, number(most)), number(most), clamped)
    clamped = builder.select(builder.fcmp_unordered("uno", value, value), number(0.0), clamped)
    short = target.itemsize < 4
    wide = ir.VectorType(ir.IntType(32), kind.count) if short else kind
    whole = (builder.fptoui if target.kind == "u" and not short else builder.fptosi)(clamped, wide)
    whole = builder.trunc(whole, kind) if short else whole
    return builder.select(builder.fcmp_ordered(">=", value, number(beyond)), ir.Constant(kind, [int(limits.max)] * kind.count), whole)
