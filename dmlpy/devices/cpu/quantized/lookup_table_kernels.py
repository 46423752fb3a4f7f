"""The compiled lookups of bytes in tables of 256 entries."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import byte_at, masked_load, set_byte
from dmlpy.devices.cpu.quantized.byte_move_kernels import BYTES, flags, low_bits, put_some
from dmlpy.devices.cpu.quantized.lookup_table import LookupParameters
from dmlpy.devices.cpu.quantized.products import REGISTER
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, integer_at
from dmlpy.devices.cpu.thread_pool_kernels import share_units, unit_addresses
from dmlpy.devices.graphs.lookup_table_desc import ENTRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.quantized.products import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_BYTE = ir.IntType(8)


def entries_of(builder: Any, table: Any) -> Callable[[Any], Any]:
    """Loads a table into four registers; what it returns appends the code that gives the entries at a register of places.

    An instruction takes bytes from any places of two registers.
    """
    pointer = BYTES.as_pointer()
    quarters = [builder.load(builder.inttoptr(builder.add(table, ADDRESS(REGISTER * at)), pointer), align=1) for at in range(4)]
    kind = ir.FunctionType(BYTES, [BYTES] * 3)
    take = declared(builder.module, kind, "llvm.x86.avx512.vpermi2var.qi.512")

    def found(places: Any) -> Any:
        low, high = (builder.call(take, [quarters[at], places, quarters[at + 1]]) for at in (0, 2))
        return builder.select(builder.icmp_signed("<", places, ir.Constant(BYTES, None)), high, low)

    return found


@intrinsic
def look_up_in_registers(target: Any, source: Any, count: Any, table: Any) -> Any:
    """Looks up bytes, 1 or more, in a table that is in registers."""

    def generate(builder: Any, arguments: Any) -> None:
        target, source, count, table = arguments
        pointer, look_up = BYTES.as_pointer(), entries_of(builder, table)
        whole = builder.lshr(count, ADDRESS(6))
        with builder.if_then(builder.icmp_signed(">", whole, ADDRESS(0))):
            loop = Loop(builder, [ADDRESS(0)])
            at = builder.mul(loop.values[0], ADDRESS(REGISTER))
            places = builder.load(builder.inttoptr(builder.add(source, at), pointer), align=1)
            builder.store(look_up(places), builder.inttoptr(builder.add(target, at), pointer), align=1)
            following = builder.add(loop.values[0], ADDRESS(1))
            loop.repeat_while(builder.icmp_signed("<", following, whole), [following])
        rest = builder.and_(count, ADDRESS(REGISTER - 1))
        with builder.if_then(builder.icmp_signed(">", rest, ADDRESS(0))):
            at, chosen = builder.sub(count, rest), flags(builder, low_bits(builder, rest))
            places = masked_load(builder, builder.inttoptr(builder.add(source, at), pointer), 1, chosen, ir.Constant(BYTES, None))
            put_some(builder, look_up(places), builder.add(target, at), chosen)

    return types.void(*[types.int64] * 4), generate


_ROW = 16
"""Entries that a shuffle chooses from."""
_HALF = 8
"""Rows of bytes without their highest bit."""


class _Shuffles:
    """Lookups by shuffles, of which each takes bytes from one row of 16 entries.

    A shuffle gives 0 for places with their highest bit. So row r is the exclusive or of itself and the one before, and the places lose 16
    before each row: the exclusive or of all shuffles is that of the rows up to a place's own, which is the entry.

    Args:
        builder: where the code is appended.
        table: the address of the table.
        width: bytes of a register.
    """

    def __init__(self, builder: Any, table: Any, width: int) -> None:
        self._builder, self.kind = builder, ir.VectorType(_BYTE, width)
        row, every = ir.VectorType(_BYTE, _ROW), ir.Constant(ir.VectorType(INDEX, width), [at % _ROW for at in range(width)])
        places = [builder.inttoptr(builder.add(table, ADDRESS(_ROW * at)), row.as_pointer()) for at in range(2 * _HALF)]
        rows = [builder.load(place, align=1) for place in places]
        self._rows = [builder.xor(each, rows[at - 1]) if at % _HALF else each for at, each in enumerate(rows)]
        self._rows = [builder.shuffle_vector(each, each, every) for each in self._rows]
        name = {32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}[width]
        pair = ir.FunctionType(self.kind, [self.kind] * 2)
        self._shuffle = declared(builder.module, pair, name)
        self._subtract = declared(builder.module, pair, f"llvm.ssub.sat.v{width}i8")

    def read(self, address: Any) -> Any:
        """The bytes of a register at an address."""
        return self._builder.load(self._builder.inttoptr(address, self.kind.as_pointer()), align=1)

    def write(self, vectors: Sequence[Any], address: Any) -> None:
        """Writes what is at places, given as vectors, side by side."""
        builder, width = self._builder, self.kind.count
        results = [ir.Constant(self.kind, None) for _ in vectors]
        for half in range(2):
            left = [builder.xor(each, ir.Constant(self.kind, [-128] * width)) if half else each for each in vectors]
            for at, row in enumerate(self._rows[half * _HALF : (half + 1) * _HALF]):
                if at:
                    left = [builder.call(self._subtract, [each, ir.Constant(self.kind, [_ROW] * width)]) for each in left]
                results = [
                    builder.xor(result, builder.call(self._shuffle, [row, each])) for result, each in zip(results, left, strict=True)
                ]
        for at, result in enumerate(results):
            builder.store(result, builder.inttoptr(builder.add(address, ADDRESS(at * width)), self.kind.as_pointer()), align=1)


@cache
def _look_up_by_shuffles(width: int) -> Any:
    """The intrinsic `look_up(target, source, count, table)` on a register of bytes or more."""

    @intrinsic
    def look_up(target: Any, source: Any, count: Any, table: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            target, source, count, table = arguments
            shuffles, pair = _Shuffles(builder, table, width), 2 * width
            # The last register overlaps the one before. Where results overwrite their places, it has to be read first.
            at_end = builder.sub(count, ADDRESS(width))
            last = shuffles.read(builder.add(source, at_end))
            pairs = builder.udiv(count, ADDRESS(pair))
            with builder.if_then(builder.icmp_signed(">", pairs, ADDRESS(0))):
                loop = Loop(builder, [ADDRESS(0)])
                at = builder.mul(loop.values[0], ADDRESS(pair))
                from_, to = builder.add(source, at), builder.add(target, at)
                shuffles.write([shuffles.read(from_), shuffles.read(builder.add(from_, ADDRESS(width)))], to)
                following = builder.add(loop.values[0], ADDRESS(1))
                loop.repeat_while(builder.icmp_signed("<", following, pairs), [following])
            rest, at = builder.and_(count, ADDRESS(pair - 1)), builder.mul(pairs, ADDRESS(pair))
            with builder.if_then(builder.icmp_signed(">", rest, ADDRESS(width))):
                shuffles.write([shuffles.read(builder.add(source, at))], builder.add(target, at))
            with builder.if_then(builder.icmp_signed(">", rest, ADDRESS(0))):
                shuffles.write([last], builder.add(target, at_end))

        return types.void(*[types.int64] * 4), generate

    return look_up


@jit
def _look_up_one_by_one(target: Any, source: Any, count: Any, table: Any) -> None:
    for at in range(count):
        set_byte(target + at, byte_at(table + byte_at(source + at)))


def _look_up_of(isa: ByteIsa) -> Any:
    """The kernel `look_up(target, source, count, table)`."""
    if isa.moves_bytes:
        return look_up_in_registers
    if not isa.shuffles_bytes:
        return _look_up_one_by_one
    width = 4 * isa.lanes
    by_shuffles = _look_up_by_shuffles(width)

    @jit
    def look_up(target: Any, source: Any, count: Any, table: Any) -> None:
        if count >= width:
            by_shuffles(target, source, count, table)
        else:
            _look_up_one_by_one(target, source, count, table)

    return look_up


def build_lookups(by_rows: bool, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of the lookups, to be compiled.

    Args:
        by_rows: whether bytes choose rows of one table; else each run has a table.
        isa: the instruction set that it is compiled for.
    """
    look_up = _look_up_of(isa)

    @jit
    def table_at(p: LookupParameters, address: Any) -> Any:
        """The table of a run."""
        return p.tables + byte_at(address) * ENTRIES if by_rows else address

    @jit
    def run(p: LookupParameters, first_unit: Any, last_unit: Any, state: Any) -> None:
        axes, steps, count, pieces = p.axes, p.steps, p.count, p.pieces
        unit = first_unit
        while unit < last_unit:
            source, target, place = unit_addresses(axes, steps, unit // pieces, p.input, p.output, p.rows if by_rows else p.tables)
            if pieces > 1:
                first = unit % pieces * p.piece
                look_up(target + first, source + first, min(p.piece, count - first), table_at(p, place))
                unit += 1
            elif axes == 0:
                look_up(target, source, count, table_at(p, place))
                unit += 1
            else:
                size = integer_at(steps)
                of_input, of_output, of_place = integer_at(steps + 8), integer_at(steps + 16), integer_at(steps + 24)
                following = min(last_unit, unit + size - unit % size)
                for at in range(following - unit):
                    look_up(target + at * of_output, source + at * of_input, count, table_at(p, place + at * of_place))
                unit = following

    return share_units(LookupParameters, run)
