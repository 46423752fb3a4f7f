"""Vectors of floats from and to memory that holds FLOAT32 or FLOAT16."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.code import declared
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.simd import FLOAT, INDEX, float_at, lanes_below, set_float, simd_of

if TYPE_CHECKING:
    from collections.abc import Callable

_HALF_BYTES = 2


@dataclass(frozen=True)
class LoadStore:
    """Kernels that load and store elements of a type.

    Attributes:
        size: bytes of an element.
        load: load(address, count) returns a vector of the next elements, with zeros beyond `count` lanes.
        store: store(address, value, count) stores the first `count` lanes, or all if there are more.
        load_one: load_one(address) is an element as a float32.
        store_one: store_one(address, value) stores an element.
    """

    size: int
    load: Any
    store: Any
    load_one: Any
    store_one: Any


@cache
def load_store_of(halves: bool, isa: Isa) -> LoadStore:
    """Loads and stores of FLOAT16 if `halves`, else of FLOAT32."""
    simd, lanes = simd_of(isa), isa.lanes
    if halves:
        load, load_some, store, store_some = (make(isa) for make in (_load_halves, _load_some_halves, _store_halves, _store_some_halves))
    else:
        load, load_some, store, store_some = simd.load, simd.load_some, simd.store, simd.store_some

    read, write = counted(lanes, load, load_some, store, store_some)
    if halves:
        return LoadStore(_HALF_BYTES, read, write, half_at, set_half)
    return LoadStore(FLOAT_BYTES, read, write, float_at, set_float)


def counted(lanes: int, load: Any, load_some: Any, store: Any, store_some: Any) -> tuple[Any, Any]:
    """The kernels that load and store as many elements as are left: a whole vector, or its first ones.

    Args:
        lanes: elements of a vector.
        load: loads a vector.
        load_some: loads the first elements of one.
        store: stores a vector.
        store_some: stores the first elements of one.
    """

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

    return read, write


@dataclass(frozen=True)
class IrLoadStore:
    """How LLVM code loads and stores vectors of elements of a type.

    Attributes:
        size: bytes of an element.
        load: load(builder, address) loads a vector.
        load_first: load_first(builder, address, count) loads the first `count` lanes; the others are 0.
        load_masked: load_masked(builder, address, mask, other) loads the lanes of a mask; the others are not read and get `other`.
        store: store(builder, value, address) stores a vector.
        store_first: store_first(builder, value, address, count) stores the first `count` lanes.
    """

    size: int
    load: Callable[[Any, Any], Any]
    load_first: Callable[[Any, Any, Any], Any]
    load_masked: Callable[[Any, Any, Any, float], Any]
    store: Callable[[Any, Any, Any], None]
    store_first: Callable[[Any, Any, Any, Any], None]


def ir_load_store_of(halves: bool, isa: Isa) -> IrLoadStore:
    """Loads and stores of FLOAT16 if `halves`, else of FLOAT32."""
    if halves:
        loads = (partial(access, isa) for access in (_value_of_halves, first_halves, _chosen_halves))
        return IrLoadStore(_HALF_BYTES, *loads, *(partial(access, isa) for access in (_write_halves, _write_first_halves)))
    simd = simd_of(isa)
    return IrLoadStore(FLOAT_BYTES, simd.value_of, simd.first_of, simd.chosen_of, simd.write, simd.write_first)


@cache
def spread_writer(halves: bool, isa: Isa) -> Any:
    """The kernel `write(address, value, count, step, scratch)`, which stores the first `count` lanes, `step` bytes apart.

    `scratch` is the address of room for a vector. The arguments are those of `load_store_of`.
    """
    load_store, store, lanes = load_store_of(halves, isa), simd_of(isa).store, isa.lanes
    side_by_side, set_one, size = load_store.store, load_store.store_one, load_store.size

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
def row_copy(halves: bool, isa: Isa) -> Any:
    """The kernel `copy(source, target, count)`, which copies contiguous elements to floats.

    The arguments are those of `load_store_of`, for the source.
    """
    load_store, write, lanes = load_store_of(halves, isa), load_store_of(False, isa).store, isa.lanes
    read, size = load_store.load, load_store.size

    @jit
    def copy(source: Any, target: Any, count: Any) -> None:
        for entry in range(0, count, lanes):
            write(target + entry * FLOAT_BYTES, read(source + entry * size, count - entry), count - entry)

    return copy


@intrinsic
def half_at(address: Any) -> Any:
    """Loads a half as a float."""

    def generate(builder: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.HalfType().as_pointer())
        return builder.fpext(builder.load(pointer, align=_HALF_BYTES), FLOAT)

    return types.float32(types.int64), generate


@intrinsic
def set_half(address: Any, value: Any) -> Any:
    """Writes a float as a half."""

    def generate(builder: Any, arguments: Any) -> None:
        pointer = builder.inttoptr(arguments[0], ir.HalfType().as_pointer())
        builder.store(builder.fptrunc(arguments[1], ir.HalfType()), pointer, align=_HALF_BYTES)

    return types.void(types.int64, types.float32), generate


def _half(isa: Isa) -> Any:
    return ir.VectorType(ir.HalfType(), isa.lanes)


def _masked(builder: Any, isa: Isa, name: str, result: Any, arguments: list[Any]) -> Any:
    """Calls LLVM's masked load or store of halves, as integers, which every processor supports."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = declared(builder.module, kind, f"llvm.masked.{name}.v{isa.lanes}i16.p0")
    return builder.call(function, arguments)


def _value_of_halves(isa: Isa, builder: Any, address: Any) -> Any:
    pointer = builder.inttoptr(address, _half(isa).as_pointer())
    return builder.fpext(builder.load(pointer, align=_HALF_BYTES), simd_of(isa).llvm_type)


def _load_halves(isa: Isa) -> Any:
    @intrinsic
    def load(address: Any) -> Any:
        return simd_of(isa).kind(types.int64), lambda builder, arguments: _value_of_halves(isa, builder, *arguments)

    return load


def _chosen_halves(isa: Isa, builder: Any, address: Any, chosen: Any, other: float) -> Any:
    bits = ir.VectorType(ir.IntType(16), isa.lanes)
    pointer, others = builder.inttoptr(address, bits.as_pointer()), [int(np.float16(other).view(np.uint16))] * isa.lanes
    found = _masked(builder, isa, "load", bits, [pointer, INDEX(_HALF_BYTES), chosen, ir.Constant(bits, others)])
    return builder.fpext(builder.bitcast(found, _half(isa)), simd_of(isa).llvm_type)


def first_halves(isa: Isa, builder: Any, address: Any, count: Any) -> Any:
    """Loads the first `count` lanes as floats; the others are 0."""
    return _chosen_halves(isa, builder, address, lanes_below(builder, count, isa.lanes), 0.0)


def _write_halves(isa: Isa, builder: Any, value: Any, address: Any) -> None:
    pointer = builder.inttoptr(address, _half(isa).as_pointer())
    builder.store(builder.fptrunc(value, _half(isa)), pointer, align=_HALF_BYTES)


def _write_first_halves(isa: Isa, builder: Any, value: Any, address: Any, count: Any) -> None:
    bits = ir.VectorType(ir.IntType(16), isa.lanes)
    pointer, chosen = builder.inttoptr(address, bits.as_pointer()), lanes_below(builder, count, isa.lanes)
    rounded = builder.bitcast(builder.fptrunc(value, _half(isa)), bits)
    _masked(builder, isa, "store", ir.VoidType(), [rounded, pointer, INDEX(_HALF_BYTES), chosen])


def _load_some_halves(isa: Isa) -> Any:
    simd = simd_of(isa)

    @intrinsic
    def load_some(address: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            return first_halves(isa, builder, *arguments)

        return simd.kind(types.int64, types.int64), generate

    return load_some


def _store_halves(isa: Isa) -> Any:
    simd = simd_of(isa)

    @intrinsic
    def store(address: Any, value: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            address, value = arguments
            _write_halves(isa, builder, value, address)

        return types.void(types.int64, simd.kind), generate

    return store


def _store_some_halves(isa: Isa) -> Any:
    simd = simd_of(isa)

    @intrinsic
    def store_some(address: Any, value: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            address, value, count = arguments
            _write_first_halves(isa, builder, value, address, count)

        return types.void(types.int64, simd.kind, types.int64), generate

    return store_some
