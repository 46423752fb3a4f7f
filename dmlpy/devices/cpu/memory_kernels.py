"""Integers, bytes and float64 in memory, for kernels: loads and stores of numbers and of some lanes, and copies of elements and blocks.

Other threads may write what `simd.integer_at` reads; what these operations read and write belongs to one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, repeated

if TYPE_CHECKING:
    import numpy as np

_BYTE, _DOUBLE = ir.IntType(8), ir.DoubleType()
_LONG_BYTES = 8
_FILL_BYTES = 64
"""Bytes of a vector that fills memory."""


@intrinsic
def byte_at(address: Any) -> Any:
    """Loads an unsigned byte."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(builder.inttoptr(arguments[0], _BYTE.as_pointer()), align=1), ADDRESS)

    return types.int64(types.int64), generate


@intrinsic
def set_byte(address: Any, value: Any) -> Any:
    """Writes the low 8 bits of an integer."""

    def generate(builder: Any, arguments: Any) -> None:
        builder.store(builder.trunc(arguments[1], _BYTE), builder.inttoptr(arguments[0], _BYTE.as_pointer()), align=1)

    return types.void(types.int64, types.int64), generate


@intrinsic
def word_at(address: Any) -> Any:
    """Loads a signed integer of 32 bits, at any address."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.sext(builder.load(builder.inttoptr(arguments[0], INDEX.as_pointer()), align=1), ADDRESS)

    return types.int64(types.int64), generate


@intrinsic
def set_word(address: Any, value: Any) -> Any:
    """Writes the low 32 bits of an integer, at any address."""

    def generate(builder: Any, arguments: Any) -> None:
        builder.store(builder.trunc(arguments[1], INDEX), builder.inttoptr(arguments[0], INDEX.as_pointer()), align=1)

    return types.void(types.int64, types.int64), generate


@intrinsic
def long_at(address: Any) -> Any:
    """Loads a 64-bit integer that no other thread writes."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ADDRESS.as_pointer()), align=8)

    return types.int64(types.int64), generate


@intrinsic
def set_long(address: Any, value: Any) -> Any:
    """Stores a 64-bit integer that no other thread reads."""

    def generate(builder: Any, arguments: Any) -> None:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ADDRESS.as_pointer()), align=8)

    return types.void(types.int64, types.int64), generate


@jit
def set_index(address: Any, index: Any, width: Any) -> None:
    """Writes an index of 4 or 8 bytes."""
    if width == _LONG_BYTES:
        set_long(address, index)
    else:
        set_word(address, index)


@intrinsic
def double_at(address: Any) -> Any:
    """Loads a float64."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _DOUBLE.as_pointer()), align=8)

    return types.float64(types.int64), generate


@intrinsic
def set_double(address: Any, value: Any) -> Any:
    """Writes a float64."""

    def generate(builder: Any, arguments: Any) -> None:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _DOUBLE.as_pointer()), align=8)

    return types.void(types.int64, types.float64), generate


def ordered_integer(dtype: np.dtype[Any]) -> tuple[Any, Any, int]:
    """The operations that load and store integers of a type as ones of 64 bits in the same order, and the least one.

    Unsigned integers of 64 bits are less by 2^63.
    """
    kind, signed, is_wide = ir.IntType(8 * dtype.itemsize), dtype.kind == "i", dtype.itemsize == _LONG_BYTES
    shift, extend = (ADDRESS(-(1 << 63)) if is_wide and not signed else ADDRESS(0)), "sext" if signed else "zext"

    @intrinsic
    def load_one(address: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=dtype.itemsize)
            return builder.xor(value if is_wide else getattr(builder, extend)(value, ADDRESS), shift)

        return types.int64(types.int64), generate

    @intrinsic
    def store_one(address: Any, value: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            value = builder.xor(arguments[1], shift)
            to = builder.inttoptr(arguments[0], kind.as_pointer())
            builder.store(value if is_wide else builder.trunc(value, kind), to, align=dtype.itemsize)

        return types.void(types.int64, types.int64), generate

    return load_one, store_one, 0 if not signed and not is_wide else -(1 << 8 * dtype.itemsize - 1)


def masked_load(builder: Any, pointer: Any, align: int, chosen: Any, others: Any) -> Any:
    """Loads the integers of the lanes that a mask chooses; the others are not read and stay those of `others`."""
    kind = ir.FunctionType(others.type, [pointer.type, INDEX, chosen.type, others.type])
    name = f"llvm.masked.load.v{others.type.count}i{others.type.element.width}.p0"
    return builder.call(declared(builder.module, kind, name), [pointer, INDEX(align), chosen, others])


def masked_store(builder: Any, value: Any, pointer: Any, align: int, chosen: Any) -> None:
    """Stores the integers of the lanes that a mask chooses."""
    kind = ir.FunctionType(ir.VoidType(), [value.type, pointer.type, INDEX, chosen.type])
    name = f"llvm.masked.store.v{value.type.count}i{value.type.element.width}.p0"
    builder.call(declared(builder.module, kind, name), [value, pointer, INDEX(align), chosen])


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


@intrinsic
def fill(target: Any, source: Any, width: Any, size: Any) -> Any:
    """Fills bytes, at least one element, with the element of a width at an address."""

    def generate(builder: Any, arguments: Any) -> None:
        target, source, width, size = arguments
        end = builder.append_basic_block("filled")
        choice = builder.switch(width, end)
        for bytes_of_value in (1, 2, 4, 8):
            block = builder.append_basic_block(f"width{bytes_of_value}")
            choice.add_case(ADDRESS(bytes_of_value), block)
            builder.position_at_end(block)
            kind = ir.IntType(8 * bytes_of_value)
            value = builder.load(builder.inttoptr(source, kind.as_pointer()), align=bytes_of_value)
            _fill_loop(builder, target, value, bytes_of_value, size)
            builder.branch(end)
        builder.position_at_end(end)

    return types.void(*[types.int64] * 4), generate


def _fill_loop(builder: Any, target: Any, value: Any, width: int, size: Any) -> None:
    """The code that stores whole vectors of a value, then single ones."""
    lanes = _FILL_BYTES // width
    first = ADDRESS(0)
    for stored, step in ((repeated(builder, value, lanes), _FILL_BYTES), (value, width)):
        last = builder.sub(size, builder.srem(builder.sub(size, first), ADDRESS(step)))
        with builder.if_then(builder.icmp_signed("<", first, last)):
            loop = Loop(builder, [first])
            place = builder.inttoptr(builder.add(target, loop.values[0]), stored.type.as_pointer())
            builder.store(stored, place, align=width)
            following = builder.add(loop.values[0], ADDRESS(step))
            loop.repeat_while(builder.icmp_signed("<", following, last), [following])
        first = last
