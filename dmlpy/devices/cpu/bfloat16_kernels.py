"""Vectors of floats from and to memory that holds BFLOAT16, the upper halves of floats."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.code import declared
from dmlpy.devices.cpu.compiler.functions import intrinsic
from dmlpy.devices.cpu.load_store import IrLoadStore, LoadStore, counted
from dmlpy.devices.cpu.simd import FLOAT, INDEX, lanes_below, simd_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.isa import Isa

_BYTES = 2
_BITS = 16
_SHORT = ir.IntType(_BITS)


def floats_of_bfloat16(builder: Any, bits: Any, lanes: int) -> Any:
    """The bits of numbers of BFLOAT16 as those of floats."""
    wide = ir.VectorType(INDEX, lanes)
    return builder.shl(builder.zext(bits, wide), ir.Constant(wide, [_BITS] * lanes))


def bfloat16_of(builder: Any, bits: Any, lanes: int) -> Any:
    """The bits of floats, rounded to even ones of equally near numbers, as those of BFLOAT16; a NaN becomes a quiet one of its sign."""
    wide, short = ir.VectorType(INDEX, lanes), ir.VectorType(_SHORT, lanes)

    def all_of(value: int) -> Any:
        return ir.Constant(wide, [value] * lanes)

    odd = builder.and_(builder.lshr(bits, all_of(_BITS)), all_of(1))
    rounded = builder.add(bits, builder.add(odd, all_of(0x7FFF)))
    value = builder.bitcast(bits, ir.VectorType(FLOAT, lanes))
    quiet = builder.or_(bits, all_of(0x400000))
    chosen = builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded)
    return builder.trunc(builder.lshr(chosen, all_of(_BITS)), short)


def ir_bfloat16(isa: Isa) -> IrLoadStore:
    """How LLVM code loads and stores vectors of BFLOAT16."""
    accesses = (_value, _first, _chosen, _write, _write_first)
    return IrLoadStore(_BYTES, *(partial(access, isa) for access in accesses))


@cache
def bfloat16_load_store(isa: Isa) -> LoadStore:
    """The kernels that load and store BFLOAT16."""
    vector, one, address, lanes = simd_of(isa).kind, types.float32, types.int64, isa.lanes
    load = _intrinsic(vector(address), partial(_value, isa))
    load_some = _intrinsic(vector(address, types.int64), partial(_first, isa))
    store = _intrinsic(types.void(address, vector), lambda builder, at, value: _write(isa, builder, value, at))
    store_some = _intrinsic(
        types.void(address, vector, types.int64), lambda builder, at, value, count: _write_first(isa, builder, value, at, count)
    )
    load_one, store_one = _intrinsic(one(address), _one), _intrinsic(types.void(address, one), _write_one)
    read, write = counted(lanes, load, load_some, store, store_some)
    return LoadStore(_BYTES, read, write, load_one, store_one)


def _intrinsic(signature: types.Signature, generate: Callable[..., Any]) -> Any:
    """The operation whose code generate(builder, *arguments) appends."""
    return intrinsic(lambda *arguments: (signature, lambda builder, values: generate(builder, *values)))


def _at(builder: Any, address: Any, lanes: int) -> Any:
    return builder.inttoptr(address, ir.VectorType(_SHORT, lanes).as_pointer())


def _masked(builder: Any, isa: Isa, name: str, result: Any, arguments: list[Any]) -> Any:
    """Calls LLVM's masked load or store."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(declared(builder.module, kind, f"llvm.masked.{name}.v{isa.lanes}i{_BITS}.p0"), arguments)


def _value(isa: Isa, builder: Any, address: Any) -> Any:
    bits = builder.load(_at(builder, address, isa.lanes), align=_BYTES)
    return builder.bitcast(floats_of_bfloat16(builder, bits, isa.lanes), simd_of(isa).llvm_type)


def _chosen(isa: Isa, builder: Any, address: Any, chosen: Any, other: float) -> Any:
    kind = ir.VectorType(_SHORT, isa.lanes)
    others = ir.Constant(kind, [int(np.float32(other).view(np.uint32)) >> _BITS] * isa.lanes)
    bits = _masked(builder, isa, "load", kind, [_at(builder, address, isa.lanes), INDEX(_BYTES), chosen, others])
    return builder.bitcast(floats_of_bfloat16(builder, bits, isa.lanes), simd_of(isa).llvm_type)


def _first(isa: Isa, builder: Any, address: Any, count: Any) -> Any:
    return _chosen(isa, builder, address, lanes_below(builder, count, isa.lanes), 0.0)


def _bits_of(builder: Any, value: Any, lanes: int) -> Any:
    return bfloat16_of(builder, builder.bitcast(value, ir.VectorType(INDEX, lanes)), lanes)


def _write(isa: Isa, builder: Any, value: Any, address: Any) -> None:
    builder.store(_bits_of(builder, value, isa.lanes), _at(builder, address, isa.lanes), align=_BYTES)


def _write_first(isa: Isa, builder: Any, value: Any, address: Any, count: Any) -> None:
    chosen = lanes_below(builder, count, isa.lanes)
    arguments = [_bits_of(builder, value, isa.lanes), _at(builder, address, isa.lanes), INDEX(_BYTES), chosen]
    _masked(builder, isa, "store", ir.VoidType(), arguments)


def _one(builder: Any, address: Any) -> Any:
    bits = builder.load(_at(builder, address, 1), align=_BYTES)
    value = builder.bitcast(floats_of_bfloat16(builder, bits, 1), ir.VectorType(FLOAT, 1))
    return builder.extract_element(value, INDEX(0))


def _write_one(builder: Any, address: Any, value: Any) -> None:
    vector = builder.insert_element(ir.Constant(ir.VectorType(FLOAT, 1), ir.Undefined), value, INDEX(0))
    builder.store(_bits_of(builder, vector, 1), _at(builder, address, 1), align=_BYTES)
