"""The compiled test of elements for NaN and infinities, by their bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.movement.kernels import for_each_block
from dmlpy.devices.cpu.movement.plan import NEGATIVE, NOT_A_NUMBER, POSITIVE
from dmlpy.devices.cpu.simd import ADDRESS, INDEX

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


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

            def where(asked: int, found: Any) -> Any:
                """The lanes found, if their class is asked for."""
                chosen = builder.icmp_signed("!=", builder.and_(classes, ADDRESS(asked)), ADDRESS(0))
                none = ir.Constant(found.type, [0] * lanes)
                first = builder.insert_element(none, chosen, INDEX(0))
                return builder.and_(found, builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(INDEX, lanes), [0] * lanes)))

            bits = builder.load(builder.inttoptr(source, kind.as_pointer()), align=size)
            magnitude = builder.and_(bits, all_of(sign - 1))
            found = where(NOT_A_NUMBER, builder.icmp_unsigned(">", magnitude, all_of(infinity)))
            found = builder.or_(found, where(POSITIVE, builder.icmp_unsigned("==", bits, all_of(infinity))))
            found = builder.or_(found, where(NEGATIVE, builder.icmp_unsigned("==", bits, all_of(infinity | sign))))
            builder.store(builder.zext(found, truths), builder.inttoptr(target, truths.as_pointer()), align=1)

        return types.void(*[types.int64] * 3), generate

    return classify
