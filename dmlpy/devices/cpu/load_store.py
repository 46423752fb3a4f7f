"""Vectors of floats from and to memory that holds FLOAT32 or FLOAT16."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dmlpy.devices.cpu.isa import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.simd import FLOAT, INDEX, float_at, jit, lanes_below, set_float, vectors_of

if TYPE_CHECKING:
    from collections.abc import Callable

_HALF_BYTES = 2


@dataclass(frozen=True)
class Elements:
    """How elements of a type are read and written.

    Attributes:
        size: bytes of an element.
        read: read(address, count) gives a vector of the next elements; beyond `count` lanes it has zeros.
        write: write(address, value, count) stores the first `count` lanes, or all if there are more.
        one: one(address) is an element as a float32.
        set_one: set_one(address, value) stores an element.
    """

    size: int
    read: Any
    write: Any
    one: Any
    set_one: Any


@cache
def elements_of(halves: bool, registers: Registers) -> Elements:
    """The elements of FLOAT16 if `halves`, else of FLOAT32."""
    vectors, lanes = vectors_of(registers), registers.lanes
    if halves:
        load, load_some, store, store_some = (
            make(registers) for make in (_load_halves, _load_some_halves, _store_halves, _store_some_halves)
        )
    else:
        load, load_some, store, store_some = vectors.load, vectors.load_some, vectors.store, vectors.store_some

    @jit
    def read(address: Any, count: Any) -> Any:
        if count >= lanes:
            return load(address)
        return load_some(address, count)

    @jit
    def write(address: Any, value: Any, count: Any) -> None:
        if count >= lanes:
            store(address, value)
        else:
            store_some(address, value, count)

    if halves:
        return Elements(_HALF_BYTES, read, write, half_at, set_half)
    return Elements(FLOAT_BYTES, read, write, float_at, set_float)


@dataclass(frozen=True)
class Accesses:
    """How LLVM code reads and writes vectors of elements of a type.

    Attributes:
        size: bytes of an element.
        chosen: chosen(builder, address, mask, other) loads the lanes that a mask chooses; the others are not read and get a value.
        write: write(builder, value, address) stores a vector.
        write_first: write_first(builder, value, address, count) stores the first `count` lanes.
    """

    size: int
    chosen: Callable[[Any, Any, Any, float], Any]
    write: Callable[[Any, Any, Any], None]
    write_first: Callable[[Any, Any, Any, Any], None]


def accesses_of(halves: bool, registers: Registers) -> Accesses:
    """The accesses to elements of FLOAT16 if `halves`, else of FLOAT32."""
    if halves:
        chosen, write, write_first = (partial(access, registers) for access in (_chosen_halves, _write_halves, _write_first_halves))
        return Accesses(_HALF_BYTES, chosen, write, write_first)
    vectors = vectors_of(registers)
    return Accesses(FLOAT_BYTES, vectors.chosen_of, vectors.write, vectors.write_first)


@cache
def spread_writer(halves: bool, registers: Registers) -> Any:
    """The kernel `write(address, value, count, step, scratch)`, which stores the first `count` lanes, `step` bytes apart.

    `scratch` is the address of room for a vector. The arguments are those of `elements_of`.
    """
    elements, store, lanes = elements_of(halves, registers), vectors_of(registers).store, registers.lanes
    side_by_side, set_one, size = elements.write, elements.set_one, elements.size

    @jit
    def write(address: Any, value: Any, count: Any, step: Any, scratch: Any) -> None:
        if step == size:
            side_by_side(address, value, count)
        else:
            store(scratch, value)
            for lane in range(min(lanes, count)):
                set_one(address + lane * step, float_at(scratch + lane * FLOAT_BYTES))

    return write


@cache
def row_copy(halves: bool, registers: Registers) -> Any:
    """The kernel `copy(source, target, count)`, which copies elements that lie side by side to floats.

    The arguments are those of `elements_of`, for the source.
    """
    elements, write, lanes = elements_of(halves, registers), elements_of(False, registers).write, registers.lanes
    read, size = elements.read, elements.size

    @jit
    def copy(source: Any, target: Any, count: Any) -> None:
        for entry in range(0, count, lanes):
            write(target + entry * FLOAT_BYTES, read(source + entry * size, count - entry), count - entry)

    return copy


@intrinsic
def half_at(context: Any, address: Any) -> Any:
    """Loads a half as a float."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.HalfType().as_pointer())
        return builder.fpext(builder.load(pointer, align=_HALF_BYTES), FLOAT)

    return types.float32(types.int64), generate


@intrinsic
def set_half(context: Any, address: Any, value: Any) -> Any:
    """Writes a float as a half."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.HalfType().as_pointer())
        builder.store(builder.fptrunc(arguments[1], ir.HalfType()), pointer, align=_HALF_BYTES)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32), generate


def _half(registers: Registers) -> Any:
    return ir.VectorType(ir.HalfType(), registers.lanes)


def _masked(builder: Any, registers: Registers, name: str, result: Any, arguments: list[Any]) -> Any:
    """Calls LLVM's masked load or store of halves; their bits go as integers, which every processor's code has."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.{name}.v{registers.lanes}i16.p0")
    return builder.call(function, arguments)


def _load_halves(registers: Registers) -> Any:
    vectors = vectors_of(registers)

    @intrinsic
    def load(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], _half(registers).as_pointer())
            return builder.fpext(builder.load(pointer, align=_HALF_BYTES), vectors.llvm_type)

        return vectors.kind(types.int64), generate

    return load


def _chosen_halves(registers: Registers, builder: Any, address: Any, chosen: Any, other: float) -> Any:
    bits = ir.VectorType(ir.IntType(16), registers.lanes)
    pointer, others = builder.inttoptr(address, bits.as_pointer()), [int(np.float16(other).view(np.uint16))] * registers.lanes
    found = _masked(builder, registers, "load", bits, [pointer, INDEX(_HALF_BYTES), chosen, ir.Constant(bits, others)])
    return builder.fpext(builder.bitcast(found, _half(registers)), vectors_of(registers).llvm_type)


def first_halves(builder: Any, registers: Registers, address: Any, count: Any) -> Any:
    """Loads the first `count` lanes as floats; the others are 0."""
    return _chosen_halves(registers, builder, address, lanes_below(builder, count, registers.lanes), 0.0)


def _write_halves(registers: Registers, builder: Any, value: Any, address: Any) -> None:
    pointer = builder.inttoptr(address, _half(registers).as_pointer())
    builder.store(builder.fptrunc(value, _half(registers)), pointer, align=_HALF_BYTES)


def _write_first_halves(registers: Registers, builder: Any, value: Any, address: Any, count: Any) -> None:
    bits = ir.VectorType(ir.IntType(16), registers.lanes)
    pointer, chosen = builder.inttoptr(address, bits.as_pointer()), lanes_below(builder, count, registers.lanes)
    rounded = builder.bitcast(builder.fptrunc(value, _half(registers)), bits)
    _masked(builder, registers, "store", ir.VoidType(), [rounded, pointer, INDEX(_HALF_BYTES), chosen])


def _load_some_halves(registers: Registers) -> Any:
    vectors = vectors_of(registers)

    @intrinsic
    def load_some(context: Any, address: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return first_halves(builder, registers, *arguments)

        return vectors.kind(types.int64, types.int64), generate

    return load_some


def _store_halves(registers: Registers) -> Any:
    vectors = vectors_of(registers)

    @intrinsic
    def store(context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, value = arguments
            _write_halves(registers, builder, value, address)
            return context.get_dummy_value()

        return types.void(types.int64, vectors.kind), generate

    return store


def _store_some_halves(registers: Registers) -> Any:
    vectors = vectors_of(registers)

    @intrinsic
    def store_some(context: Any, address: Any, value: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, value, count = arguments
            _write_first_halves(registers, builder, value, address, count)
            return context.get_dummy_value()

        return types.void(types.int64, vectors.kind, types.int64), generate

    return store_some
