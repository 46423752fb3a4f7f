"""The compiled conversions from or to integers: floating point is truncated and held within an integer's range, and NaN becomes 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.movement.kernels import for_each_block

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_FLOATS = {2: ir.HalfType(), 4: ir.FloatType(), 8: ir.DoubleType()}


def build_casts(source: str, target: str, isa: Isa) -> TaskBody:
    """Builds a thread's part of a conversion, to be compiled.

    Args:
        source: NumPy's name of the elements' type.
        target: that of the results' type.
        isa: the instruction set that it is compiled for.
    """
    of, to_type, lanes = np.dtype(source), np.dtype(target), isa.lanes
    of_size, to_size = of.itemsize, to_type.itemsize
    convert_vector, convert_one = (_conversion(of, to_type, count) for count in (lanes, 1))

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


def _conversion(source: np.dtype[Any], target: np.dtype[Any], lanes: int) -> Any:
    """The intrinsic `convert(target, source)`."""

    def kind(dtype: np.dtype[Any]) -> Any:
        return ir.VectorType(_FLOATS[dtype.itemsize] if dtype.kind == "f" else ir.IntType(8 * dtype.itemsize), lanes)

    @intrinsic
    def convert(to: Any, of: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            place, address = arguments
            value = builder.load(builder.inttoptr(address, kind(source).as_pointer()), align=source.itemsize)
            found = _converted(builder, value, source, target, kind(target))
            builder.store(found, builder.inttoptr(place, found.type.as_pointer()), align=target.itemsize)

        return types.void(types.int64, types.int64), generate

    return convert


def _converted(builder: Any, value: Any, source: np.dtype[Any], target: np.dtype[Any], kind: Any) -> Any:
    """A vector of another type."""
    floats = ir.VectorType(ir.FloatType(), kind.count)
    if source.kind == "f":
        value = builder.fpext(value, floats) if source.itemsize == 2 else value
        return _truncated(builder, value, target, kind)
    if target.kind == "f":
        # As in NumPy, FLOAT16 is rounded from FLOAT32.
        to = floats if target.itemsize == 2 else kind
        whole = (builder.sitofp if source.kind == "i" else builder.uitofp)(value, to)
        return builder.fptrunc(whole, kind) if target.itemsize == 2 else whole
    if source.itemsize >= target.itemsize:
        return value if source.itemsize == target.itemsize else builder.trunc(value, kind)
    return (builder.sext if source.kind == "i" else builder.zext)(value, kind)


def _truncated(builder: Any, value: Any, target: np.dtype[Any], kind: Any) -> Any:
    """Floats as integers; LLVM's saturating conversion is one element after the other."""
    floating, limits = np.dtype(np.float32 if value.type.element == ir.FloatType() else np.float64), np.iinfo(target)

    def number(of: Any) -> Any:
        return ir.Constant(value.type, [float(of)] * kind.count)

    beyond = float(limits.max) + 1.0  # a power of two, as the largest integer need not be a float
    most = np.nextafter(floating.type(beyond), floating.type(0))
    held = builder.select(builder.fcmp_ordered("<", value, number(limits.min)), number(limits.min), value)
    held = builder.select(builder.fcmp_ordered(">", held, number(most)), number(most), held)
    held = builder.select(builder.fcmp_unordered("uno", value, value), number(0.0), held)
    short = target.itemsize < 4
    wide = ir.VectorType(ir.IntType(32), kind.count) if short else kind
    whole = (builder.fptoui if target.kind == "u" and not short else builder.fptosi)(held, wide)
    whole = builder.trunc(whole, kind) if short else whole
    return builder.select(builder.fcmp_ordered(">=", value, number(beyond)), ir.Constant(kind, [int(limits.max)] * kind.count), whole)
