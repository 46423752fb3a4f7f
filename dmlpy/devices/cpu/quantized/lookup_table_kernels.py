"""The compiled lookups of bytes in tables of 256 entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import byte_at, set_byte
from dmlpy.devices.cpu.quantized.byte_move_kernels import BIT, BYTES, flags, low_bits, put_some
from dmlpy.devices.cpu.quantized.lookup_table import LookupParameters
from dmlpy.devices.cpu.quantized.products import REGISTER
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, integer_at
from dmlpy.devices.cpu.thread_pool_kernels import share_units, unit_addresses

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


@intrinsic
def _look_up_in_registers(target: Any, source: Any, count: Any, table: Any) -> Any:
    """Looks up bytes, 1 or more, in a table that is in four registers: an instruction takes bytes from any places of two of them."""

    def generate(builder: Any, arguments: Any) -> None:
        target, source, count, table = arguments
        pointer = BYTES.as_pointer()
        quarters = [builder.load(builder.inttoptr(builder.add(table, ADDRESS(REGISTER * at)), pointer), align=1) for at in range(4)]
        kind = ir.FunctionType(BYTES, [BYTES] * 3)
        take = declared(builder.module, kind, "llvm.x86.avx512.vpermi2var.qi.512")

        def found(places: Any) -> Any:
            low, high = (builder.call(take, [quarters[at], places, quarters[at + 1]]) for at in (0, 2))
            return builder.select(builder.icmp_signed("<", places, ir.Constant(BYTES, None)), high, low)

        whole = builder.lshr(count, ADDRESS(6))
        with builder.if_then(builder.icmp_signed(">", whole, ADDRESS(0))):
            loop = Loop(builder, [ADDRESS(0)])
            at = builder.mul(loop.values[0], ADDRESS(REGISTER))
            places = builder.load(builder.inttoptr(builder.add(source, at), pointer), align=1)
            builder.store(found(places), builder.inttoptr(builder.add(target, at), pointer), align=1)
            following = builder.add(loop.values[0], ADDRESS(1))
            loop.repeat_while(builder.icmp_signed("<", following, whole), [following])
        rest = builder.and_(count, ADDRESS(REGISTER - 1))
        with builder.if_then(builder.icmp_signed(">", rest, ADDRESS(0))):
            at, chosen = builder.sub(count, rest), flags(builder, low_bits(builder, rest))
            kind = ir.FunctionType(BYTES, [pointer, INDEX, ir.VectorType(BIT, REGISTER), BYTES])
            load = declared(builder.module, kind, f"llvm.masked.load.v{REGISTER}i8.p0")
            none = ir.Constant(BYTES, None)
            places = builder.call(load, [builder.inttoptr(builder.add(source, at), pointer), INDEX(1), chosen, none])
            put_some(builder, found(places), builder.add(target, at), chosen)

    return types.void(*[types.int64] * 4), generate


@jit
def _look_up_one_by_one(target: Any, source: Any, count: Any, table: Any) -> None:
    for at in range(count):
        set_byte(target + at, byte_at(table + byte_at(source + at)))


def build_lookups(moves_bytes: bool) -> TaskBody:
    """Builds a thread's part of the lookups, to be compiled.

    Args:
        moves_bytes: as `ByteIsa` has it.
    """
    look_up = _look_up_in_registers if moves_bytes else _look_up_one_by_one

    @jit
    def run(p: LookupParameters, first_unit: Any, last_unit: Any, own: Any) -> None:
        axes, steps, count, pieces = p.axes, p.steps, p.count, p.pieces
        unit = first_unit
        while unit < last_unit:
            source, target, table = unit_addresses(axes, steps, unit // pieces, p.input, p.output, p.tables)
            if pieces > 1:
                first = unit % pieces * p.piece
                look_up(target + first, source + first, min(p.piece, count - first), table)
                unit += 1
            elif axes == 0:
                look_up(target, source, count, table)
                unit += 1
            else:
                size = integer_at(steps)
                of_input, of_output, of_tables = integer_at(steps + 8), integer_at(steps + 16), integer_at(steps + 24)
                following = min(last_unit, unit + size - unit % size)
                for at in range(following - unit):
                    look_up(target + at * of_output, source + at * of_input, count, table + at * of_tables)
                unit = following

    return share_units(LookupParameters, run)
