"""Vectors of floats from and to memory that holds FLOAT32, FLOAT16, BFLOAT16 or bytes: in order, spread, or transposed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage, converts_halves
from dmlpy.devices.cpu.memory_kernels import masked_load, masked_store
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, each_below, float_at, lanes_below, set_float, simd_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BITS = 16
_SHORT, _BYTE = ir.IntType(_BITS), ir.IntType(8)
_SIZES: dict[Storage, int] = {"float16": 2, "bfloat16": 2, "uint8": 1, "int8": 1}
"""The bytes of elements that are not of FLOAT32."""


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
def load_store_of(stored: Storage, isa: Isa) -> LoadStore:
    """The kernels that load and store floats of a type in memory."""
    simd, lanes = simd_of(isa), isa.lanes
    if stored == "float32":
        return LoadStore(FLOAT_BYTES, *_counted(lanes, simd.load, simd.load_some, simd.store, simd.store_some), float_at, set_float)
    accesses, vector, one, address = ir_load_store_of(stored, isa), simd.kind, types.float32, types.int64
    load = _intrinsic(vector(address), accesses.load)
    load_some = _intrinsic(vector(address, types.int64), accesses.load_first)
    store = _intrinsic(types.void(address, vector), lambda builder, at, value: accesses.store(builder, value, at))
    store_some = _intrinsic(
        types.void(address, vector, types.int64), lambda builder, at, value, count: accesses.store_first(builder, value, at, count)
    )
    load_one = _intrinsic(one(address), partial(_load_one, stored))
    store_one = _intrinsic(types.void(address, one), partial(_store_one, stored))
    return LoadStore(accesses.size, *_counted(lanes, load, load_some, store, store_some), load_one, store_one)


def _intrinsic(signature: types.Signature, generate: Callable[..., Any]) -> Any:
    """The operation whose code generate(builder, *arguments) appends."""
    return intrinsic(lambda *arguments: (signature, lambda builder, values: generate(builder, *values)))


def _counted(lanes: int, load: Any, load_some: Any, store: Any, store_some: Any) -> tuple[Any, Any]:
    """The kernels that load and store as many elements as are left: a whole vector, or its first ones."""

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
        store_masked: store_masked(builder, value, address, mask) stores the lanes of a mask.
    """

    size: int
    load: Callable[[Any, Any], Any]
    load_first: Callable[[Any, Any, Any], Any]
    load_masked: Callable[[Any, Any, Any, float], Any]
    store: Callable[[Any, Any, Any], None]
    store_first: Callable[[Any, Any, Any, Any], None]
    store_masked: Callable[[Any, Any, Any, Any], None]


def ir_load_store_of(stored: Storage, isa: Isa) -> IrLoadStore:
    """How LLVM code loads and stores floats of a type in memory."""
    if stored == "float32":
        simd = simd_of(isa)
        return IrLoadStore(FLOAT_BYTES, simd.value_of, simd.first_of, simd.chosen_of, simd.write, simd.write_first, simd.write_chosen)
    accesses = _load, _load_first, _load_masked, _store, _store_first, _store_masked
    return IrLoadStore(_SIZES[stored], *(partial(access, stored, isa) for access in accesses))


@cache
def spread_writer(stored: Storage, isa: Isa) -> Any:
    """The kernel `write(address, value, count, step, scratch)`, which stores the first `count` lanes, `step` bytes apart.

    `scratch` is the address of room for a vector. The arguments are those of `load_store_of`.
    """
    load_store, store, lanes = load_store_of(stored, isa), simd_of(isa).store, isa.lanes
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
def row_copy(stored: Storage, isa: Isa) -> Any:
    """The kernel `copy(source, target, count)`, which copies contiguous elements to floats.

    The arguments are those of `load_store_of`, for the source.
    """
    load_store, write, lanes = load_store_of(stored, isa), load_store_of("float32", isa).store, isa.lanes
    read, size = load_store.load, load_store.size

    @jit
    def copy(source: Any, target: Any, count: Any) -> None:
        for entry in range(0, count, lanes):
            write(target + entry * FLOAT_BYTES, read(source + entry * size, count - entry), count - entry)

    return copy


def loaded_floats(stored: Storage, builder: Any, address: Any, lanes: int) -> Any:
    """LLVM code that loads elements of a type as a vector of as many floats."""
    if stored == "float32":
        return builder.load(builder.inttoptr(address, ir.VectorType(FLOAT, lanes).as_pointer()), align=FLOAT_BYTES)
    return _value_of(stored, builder, builder.load(_at(stored, builder, address, lanes), align=_SIZES[stored]), lanes)


def store_floats(stored: Storage, builder: Any, value: Any, address: Any) -> None:
    """LLVM code that stores a vector of floats as elements of a type."""
    size = FLOAT_BYTES if stored == "float32" else _SIZES[stored]
    bits = value if stored == "float32" else _bits_of(stored, builder, value, value.type.count)
    builder.store(bits, builder.inttoptr(address, bits.type.as_pointer()), align=size)


def transposed(builder: Any, tile: Sequence[Any]) -> list[Any]:
    """The transpose of a square tile of vectors."""
    lanes, rows = len(tile), list(tile)
    # Two rows' first halves, an element of each in turn, and their second halves.
    turns = [
        ir.Constant(ir.VectorType(INDEX, lanes), [index for lane in range(start, start + lanes // 2) for index in (lane, lanes + lane)])
        for start in (0, lanes // 2)
    ]
    # Each round moves one bit of an element's row number to its place in the row, and the place's highest bit to the row number.
    for _ in range(lanes.bit_length() - 1):
        pairs = zip(rows[: lanes // 2], rows[lanes // 2 :], strict=True)
        rows = [builder.shuffle_vector(*pair, turn) for pair in pairs for turn in turns]
    return rows


@cache
def transposed_tile(isa: Isa, *, stored: Storage = "float32") -> Any:
    """The kernel `transpose(source, source_row, rows, entries, target, target_row)`.

    target[entry][row] = source[row][entry] for the first `entries` entries of the first `rows` rows, at most a vector's lanes of each;
    the other lanes of a target's row are 0. `source_row` and `target_row` are in bytes. Memory of other rows and entries is not touched.

    Args:
        isa: the instruction set that it is compiled for.
        stored: the type of the source's elements; the target is of FLOAT32.
    """
    simd, lanes, load_first = simd_of(isa), isa.lanes, ir_load_store_of(stored, isa).load_first

    @intrinsic
    def transpose(source: Any, source_row: Any, rows: Any, entries: Any, target: Any, target_row: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            source, source_row, rows, entries, target, target_row = arguments
            tile = []
            for row in range(lanes):
                exists = builder.icmp_signed(">", rows, ADDRESS(row))
                # Processors take long over memory that is not there, even if no lane of it is loaded: a row that exists is read again.
                source = builder.add(source, builder.select(exists, source_row, ADDRESS(0))) if row > 0 else source
                tile.append(load_first(builder, source, builder.select(exists, entries, ADDRESS(0))))
            for value in each_below(builder, transposed(builder, tile), entries):
                simd.write(builder, value, target)
                target = builder.add(target, target_row)

        return types.void(*[types.int64] * 6), generate

    return transpose


def floats_of_bfloat16(builder: Any, bits: Any, lanes: int) -> Any:
    """The bits of numbers of BFLOAT16 as those of floats."""
    wide = ir.VectorType(INDEX, lanes)
    return builder.shl(builder.zext(bits, wide), ir.Constant(wide, [_BITS] * lanes))


def bfloat16_of(builder: Any, bits: Any, lanes: int) -> Any:
    """The bits of floats as those of BFLOAT16, rounded to nearest, ties to even; a NaN becomes a quiet one of its sign."""
    wide, short = ir.VectorType(INDEX, lanes), ir.VectorType(_SHORT, lanes)

    def all_of(value: int) -> Any:
        return ir.Constant(wide, [value] * lanes)

    odd = builder.and_(builder.lshr(bits, all_of(_BITS)), all_of(1))
    rounded = builder.add(bits, builder.add(odd, all_of(0x7FFF)))
    value = builder.bitcast(bits, ir.VectorType(FLOAT, lanes))
    quiet = builder.or_(bits, all_of(0x400000))
    chosen = builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded)
    return builder.trunc(builder.lshr(chosen, all_of(_BITS)), short)


def floats_of_halves(builder: Any, bits: Any) -> Any:
    """A vector of the bits of FLOAT16 as floats; a NaN becomes a quiet one."""
    lanes = bits.type.count
    wide, floats = ir.VectorType(INDEX, lanes), ir.VectorType(FLOAT, lanes)
    if converts_halves():
        return builder.fpext(builder.bitcast(bits, ir.VectorType(ir.HalfType(), lanes)), floats)

    def all_of(value: int) -> Any:
        return ir.Constant(wide, [value] * lanes)

    whole = builder.zext(bits, wide)
    # Exponent and mantissa in their places; of a subnormal half the exponent is 1 too large, which the subtraction of 2^-14 mends.
    moved = builder.add(builder.shl(builder.and_(whole, all_of(0x7FFF)), all_of(13)), all_of(112 << 23))
    least = all_of(113 << 23)
    subnormal = builder.fsub(builder.bitcast(builder.add(moved, all_of(1 << 23)), floats), builder.bitcast(least, floats))
    is_nan = builder.icmp_signed(">", moved, all_of(143 << 23))
    result = builder.select(builder.icmp_signed("<", moved, all_of(143 << 23)), moved, builder.add(moved, all_of(112 << 23)))
    result = builder.select(is_nan, builder.or_(result, all_of(0x400000)), result)
    result = builder.select(builder.icmp_signed("<", moved, least), builder.bitcast(subnormal, wide), result)
    sign = builder.shl(builder.and_(whole, all_of(0x8000)), all_of(16))
    return builder.bitcast(builder.or_(result, sign), floats)


def halves_of_floats(builder: Any, value: Any) -> Any:
    """A vector of floats as the bits of FLOAT16, rounded to nearest, ties to even; a NaN becomes a quiet one of its sign."""
    lanes = value.type.count
    wide, short = ir.VectorType(INDEX, lanes), ir.VectorType(_SHORT, lanes)
    if converts_halves():
        return builder.bitcast(builder.fptrunc(value, ir.VectorType(ir.HalfType(), lanes)), short)

    def all_of(number: int) -> Any:
        return ir.Constant(wide, [number] * lanes)

    bits = builder.bitcast(value, wide)
    magnitude = builder.and_(bits, all_of(0x7FFFFFFF))
    # What is larger than all halves is rounded to infinity, as 2^16 is.
    limited = builder.select(builder.icmp_signed("<", magnitude, all_of(143 << 23)), magnitude, all_of(143 << 23))
    odd = builder.and_(builder.lshr(limited, all_of(13)), all_of(1))
    rounded = builder.lshr(builder.add(builder.sub(limited, all_of(112 << 23)), builder.add(odd, all_of(0xFFF))), all_of(13))
    # Added to 0.5, a number below 2^-14 is rounded to a multiple of 2^-24, the least half.
    half = all_of(126 << 23)
    subnormal = builder.sub(
        builder.bitcast(builder.fadd(builder.bitcast(magnitude, value.type), builder.bitcast(half, value.type)), wide), half
    )
    result = builder.select(builder.icmp_signed("<", magnitude, all_of(113 << 23)), subnormal, rounded)
    nan = builder.or_(all_of(0x7E00), builder.and_(builder.lshr(magnitude, all_of(13)), all_of(0x3FF)))
    result = builder.select(builder.icmp_signed(">", magnitude, all_of(0x7F800000)), nan, result)
    sign = builder.and_(builder.lshr(bits, all_of(16)), all_of(0x8000))
    return builder.trunc(builder.or_(result, sign), short)


def bytes_of_floats(builder: Any, value: Any, *, signed: bool) -> Any:
    """A vector of floats as bytes: their fractions are dropped, what is beyond the bytes becomes the nearest of them, and NaN 0."""
    lanes, kind = value.type.count, value.type
    least, most = (ir.Constant(kind, [number] * lanes) for number in ((-128.0, 127.0) if signed else (0.0, 255.0)))
    clamped = builder.select(builder.fcmp_unordered("uno", value, value), ir.Constant(kind, [0.0] * lanes), value) if signed else value
    clamped = builder.select(builder.fcmp_ordered(">", clamped, least), clamped, least)
    clamped = builder.select(builder.fcmp_ordered("<", clamped, most), clamped, most)
    return builder.trunc(builder.fptosi(clamped, ir.VectorType(INDEX, lanes)), ir.VectorType(_BYTE, lanes))


def _value_of(stored: Storage, builder: Any, bits: Any, lanes: int) -> Any:
    """Elements of 1 or 2 bytes, given as integers, as floats."""
    if stored == "float16":
        return floats_of_halves(builder, bits)
    if stored == "bfloat16":
        return builder.bitcast(floats_of_bfloat16(builder, bits, lanes), ir.VectorType(FLOAT, lanes))
    extend = builder.sext if stored == "int8" else builder.zext
    return builder.sitofp(extend(bits, ir.VectorType(INDEX, lanes)), ir.VectorType(FLOAT, lanes))


def _bits_of(stored: Storage, builder: Any, value: Any, lanes: int) -> Any:
    """Floats, converted to elements of 1 or 2 bytes, as integers."""
    if stored == "float16":
        return halves_of_floats(builder, value)
    if stored == "bfloat16":
        return bfloat16_of(builder, builder.bitcast(value, ir.VectorType(INDEX, lanes)), lanes)
    return bytes_of_floats(builder, value, signed=stored == "int8")


def _at(stored: Storage, builder: Any, address: Any, lanes: int) -> Any:
    return builder.inttoptr(address, ir.VectorType(ir.IntType(8 * _SIZES[stored]), lanes).as_pointer())


def _load(stored: Storage, isa: Isa, builder: Any, address: Any) -> Any:
    bits = builder.load(_at(stored, builder, address, isa.lanes), align=_SIZES[stored])
    return _value_of(stored, builder, bits, isa.lanes)


def _load_masked(stored: Storage, isa: Isa, builder: Any, address: Any, chosen: Any, other: float) -> Any:
    others = _bits_of(stored, builder, ir.Constant(ir.VectorType(FLOAT, isa.lanes), [other] * isa.lanes), isa.lanes)
    bits = masked_load(builder, _at(stored, builder, address, isa.lanes), _SIZES[stored], chosen, others)
    return _value_of(stored, builder, bits, isa.lanes)


def _load_first(stored: Storage, isa: Isa, builder: Any, address: Any, count: Any) -> Any:
    return _load_masked(stored, isa, builder, address, lanes_below(builder, count, isa.lanes), 0.0)


def _store(stored: Storage, isa: Isa, builder: Any, value: Any, address: Any) -> None:
    place = _at(stored, builder, address, isa.lanes)
    builder.store(_bits_of(stored, builder, value, isa.lanes), place, align=_SIZES[stored])


def _store_first(stored: Storage, isa: Isa, builder: Any, value: Any, address: Any, count: Any) -> None:
    _store_masked(stored, isa, builder, value, address, lanes_below(builder, count, isa.lanes))


def _store_masked(stored: Storage, isa: Isa, builder: Any, value: Any, address: Any, chosen: Any) -> None:
    place = _at(stored, builder, address, isa.lanes)
    masked_store(builder, _bits_of(stored, builder, value, isa.lanes), place, _SIZES[stored], chosen)


def _load_one(stored: Storage, builder: Any, address: Any) -> Any:
    value = _value_of(stored, builder, builder.load(_at(stored, builder, address, 1), align=_SIZES[stored]), 1)
    return builder.extract_element(value, INDEX(0))


def _store_one(stored: Storage, builder: Any, address: Any, value: Any) -> None:
    vector = builder.insert_element(ir.Constant(ir.VectorType(FLOAT, 1), ir.Undefined), value, INDEX(0))
    builder.store(_bits_of(stored, builder, vector, 1), _at(stored, builder, address, 1), align=_SIZES[stored])
