"""Byte moves within a register of 512 bits: results of some positions are written side by side."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import masked_store
from dmlpy.devices.cpu.quantized.products import REGISTER
from dmlpy.devices.cpu.simd import ADDRESS, INDEX

BIT = ir.IntType(1)
BYTES = ir.VectorType(ir.IntType(8), REGISTER)


def flags(builder: Any, bits: Any, lanes: int = REGISTER) -> Any:
    """The lowest bits of an integer as a mask."""
    return builder.bitcast(builder.trunc(bits, ir.IntType(lanes)), ir.VectorType(BIT, lanes))


def moved(builder: Any, name: str, value: Any, others: Any, chosen: Any) -> Any:
    """The bytes or words of a register, moved by `compress` or `expand`."""
    kind = ir.FunctionType(value.type, [value.type, value.type, chosen.type])
    element = f"v{value.type.count}i{value.type.element.width}"
    return builder.call(declared(builder.module, kind, f"llvm.x86.avx512.mask.{name}.{element}"), [value, others, chosen])


def put_some(builder: Any, value: Any, address: Any, chosen: Any) -> None:
    """Stores some elements of a register."""
    masked_store(builder, value, builder.inttoptr(address, value.type.as_pointer()), 1, chosen)


def low_bits(builder: Any, count: Any) -> Any:
    """The lowest bits of an integer of 64, 0 to 64 of them."""
    some = builder.lshr(ADDRESS(-1), builder.and_(builder.sub(ADDRESS(REGISTER), count), ADDRESS(REGISTER - 1)))
    return builder.select(builder.icmp_signed("==", count, ADDRESS(0)), ADDRESS(0), some)


def put_valid(builder: Any, value: Any, address: Any, valid: Any, written: Any) -> None:
    """Stores the bytes of a register, or of its first words, that have a bit in `valid` side by side; `written` has as many, the lowest."""
    words, count = REGISTER // 4, value.type.count
    if count < words:
        every = [min(at, count - 1) for at in range(words)]
        value = builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(INDEX, words), every))
    side_by_side = moved(builder, "compress", builder.bitcast(value, BYTES), ir.Constant(BYTES, None), flags(builder, valid))
    put_some(builder, side_by_side, address, flags(builder, written))


@intrinsic
def write_valid(source: Any, target: Any, valid: Any) -> Any:
    """Writes those of 64 bytes side by side that have a bit in `valid`."""

    def generate(builder: Any, arguments: Any) -> None:
        source, target, valid = arguments
        value = builder.load(builder.inttoptr(source, BYTES.as_pointer()), align=1)
        put_valid(builder, value, target, valid, low_bits(builder, builder.ctpop(valid)))

    return types.void(*[types.int64] * 3), generate


@intrinsic
def _bits(first: Any, count: Any) -> Any:
    """Some bits, 1 to 64 of them, from one on."""
    kind = types.int64(types.int64, types.int64)
    return kind, lambda builder, arguments: builder.shl(low_bits(builder, arguments[1]), arguments[0])


@jit
def valid_positions(column: Any, count: Any, pitch: Any, width: Any) -> Any:
    """A bit for each of some positions, up to 64, that a row has: rows begin `pitch` positions apart and have `width` of them."""
    valid, done = 0, 0
    while done < count:
        in_row = min(count - done, pitch - column)
        count_in_row = min(in_row, width - column)
        if count_in_row > 0:
            valid |= _bits(done, count_in_row)
        done, column = done + in_row, 0
    return valid
