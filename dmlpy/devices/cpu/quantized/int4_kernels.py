"""The compiled unpacking of 4-bit elements to a byte each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.memory_kernels import byte_at, set_byte
from dmlpy.devices.cpu.quantized.int4_plan import UNIT, UnpackingParameters
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_LOW, _SIGN = 15, 8
"""The bits of the low half of a byte, and the sign's bit of an element."""


def build_unpacking(signed: bool, isa: Isa) -> TaskBody:
    """Builds a thread's part of the unpacking, to be compiled.

    Args:
        signed: whether the elements have a sign.
        isa: the instruction set that it is compiled for.
    """
    width, of_vectors, sign = FLOAT_BYTES * isa.lanes, _of_vectors(signed, isa), _SIGN if signed else 0

    @jit
    def run(p: UnpackingParameters, first: Any, last: Any, state: Any) -> None:
        begin, end = first * UNIT, min(last * UNIT, p.count // 2)
        whole = (end - begin) // width
        if whole > 0:
            of_vectors(p.source + begin, p.target + 2 * begin, whole)
        for at in range(begin + max(whole, 0) * width, end):
            both = byte_at(p.source + at)
            set_byte(p.target + 2 * at, ((both & _LOW) ^ sign) - sign)
            set_byte(p.target + 2 * at + 1, ((both >> 4 & _LOW) ^ sign) - sign)
        if last == p.units and p.count % 2 != 0:
            set_byte(p.target + p.count - 1, ((byte_at(p.source + p.count // 2) & _LOW) ^ sign) - sign)

    return share_units(UnpackingParameters, run)


def _of_vectors(signed: bool, isa: Isa) -> Any:
    """The intrinsic `of_vectors(source, target, count)`, which unpacks so many registers, at least one."""
    width = FLOAT_BYTES * isa.lanes
    kind, wide = (ir.VectorType(ir.IntType(8), count) for count in (width, 2 * width))
    order = ir.Constant(ir.VectorType(INDEX, 2 * width), [at // 2 + at % 2 * width for at in range(2 * width)])

    def all_of(vector: Any, value: int) -> Any:
        return ir.Constant(vector, [value] * vector.count)

    @intrinsic
    def of_vectors(source: Any, target: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            loop = Loop(builder, arguments)
            source, target, left = loop.values
            both = builder.load(builder.inttoptr(source, kind.as_pointer()), align=1)
            values = builder.shuffle_vector(builder.and_(both, all_of(kind, _LOW)), builder.lshr(both, all_of(kind, 4)), order)
            if signed:
                values = builder.sub(builder.xor(values, all_of(wide, _SIGN)), all_of(wide, _SIGN))
            builder.store(values, builder.inttoptr(target, wide.as_pointer()), align=1)
            following = builder.add(source, ADDRESS(width)), builder.add(target, ADDRESS(2 * width)), builder.sub(left, ADDRESS(1))
            loop.repeat_while(builder.icmp_signed(">", following[-1], ADDRESS(0)), following)

        return types.void(*[types.int64] * 3), generate

    return of_vectors
