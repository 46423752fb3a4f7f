"""The compiled kernel of element-wise programs: it interprets their instructions, a block of elements at a time."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit, phis
from dmlpy.devices.cpu.elementwise.function_kernels import Functions
from dmlpy.devices.cpu.elementwise.half_function_kernels import HalfFunctions
from dmlpy.devices.cpu.elementwise.program import (
    NARROW_RESULT,
    NARROW_X,
    NARROW_Y,
    OF_BYTES,
    Code,
    EncodedInstruction,
    ProgramParameters,
)
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import ir_load_store_of, load_store_of
from dmlpy.devices.cpu.simd import ADDRESS, Loop, Simd, copy_float, float_at, integer_at, set_float, set_integer, simd_of, struct_view
from dmlpy.devices.cpu.simd_math import SimdMath
from dmlpy.devices.cpu.structs import ALIGNMENT
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.load_store import IrLoadStore, LoadStore
    from dmlpy.devices.cpu.thread_pool import TaskBody


def _formulas(math: SimdMath, builder: Any) -> dict[Code, Callable[[Any, Any, Any, Any], Any]]:
    """The function of x, y, a and b that each instruction computes."""
    zero = math.constant(0.0)
    one = math.constant(1.0)
    return {
        Code.MOVE: lambda x, y, a, b: x,
        Code.LINEAR: lambda x, y, a, b: math.linear(x, a, b),
        Code.CLIP: lambda x, y, a, b: math.clipped(x, a, b),
        Code.ABS: lambda x, y, a, b: math.magnitude(x),
        Code.NEGATE: lambda x, y, a, b: builder.fneg(x),
        Code.SQRT: lambda x, y, a, b: math.square_root(x),
        Code.FLOOR: lambda x, y, a, b: math.built_in("floor", x),
        Code.CEIL: lambda x, y, a, b: math.built_in("ceil", x),
        Code.ROUND: lambda x, y, a, b: math.built_in("rint", x),
        Code.TRUNCATE: lambda x, y, a, b: math.built_in("trunc", x),
        Code.ROUND_HALVES_AWAY: lambda x, y, a, b: _with_halves_away(math, x),
        Code.ROUNDED_LINEAR: lambda x, y, a, b: math.built_in("rint", math.linear(x, a, b)),
        Code.ROUNDED_SUM: lambda x, y, a, b: math.built_in("rint", math.add(x, y)),
        Code.RECIP: lambda x, y, a, b: math.divide(one, x),
        Code.EXP: lambda x, y, a, b: math.exp(x),
        Code.ERF: lambda x, y, a, b: math.erf(x),
        Code.TANH: lambda x, y, a, b: math.tanh(x),
        Code.SIGMOID: lambda x, y, a, b: math.sigmoid(x),
        Code.SILU: lambda x, y, a, b: math.multiply(x, math.sigmoid(x)),
        Code.SWISH: lambda x, y, a, b: math.swish(x, math.multiply(x, a)),
        Code.HARD_SWISH: lambda x, y, a, b: math.gate(x, math.clipped(math.linear(x, a, b), zero, one)),
        Code.GELU: lambda x, y, a, b: math.gelu(x),
        Code.SOFTSIGN: lambda x, y, a, b: math.softsign(x),
        Code.SOFTPLUS: lambda x, y, a, b: math.divided_softplus(x, a),
        Code.PARAMETRIC_SOFTPLUS: lambda x, y, a, b: math.multiply(math.add(*math.softplus(x, b)), a),
        Code.LEAKY_RELU: lambda x, y, a, b: math.leaky_relu(x, a),
        Code.THRESHOLDED_RELU: lambda x, y, a, b: math.thresholded_relu(x, a),
        Code.ELU: lambda x, y, a, b: math.elu(x, a, b),
        Code.SHRINK: lambda x, y, a, b: math.shrink(x, a, b),
        Code.ADD: lambda x, y, a, b: math.add(x, y),
        Code.SUBTRACT: lambda x, y, a, b: math.subtract(x, y),
        Code.MULTIPLY: lambda x, y, a, b: math.multiply(x, y),
        Code.DIFFERENCE_SQUARE: lambda x, y, a, b: _square(math, math.subtract(x, y)),
        Code.DIVIDE: lambda x, y, a, b: math.divide(x, y),
        Code.MAX: lambda x, y, a, b: math.larger(x, y),
        Code.MIN: lambda x, y, a, b: math.smaller(x, y),
        Code.PARAMETERIZED_RELU: lambda x, y, a, b: math.leaky_relu(x, y),
        Code.RELU_GRADIENT: lambda x, y, a, b: math.select(math.less(zero, x), y, zero),
        Code.CLIP_GRADIENT: lambda x, y, a, b: math.within(x, y, a, b),
        Code.SIGN: lambda x, y, a, b: math.sign(x),
        Code.MODULUS_TRUNCATE: lambda x, y, a, b: remainder(math, builder, x, y),
        Code.MODULUS_FLOOR: lambda x, y, a, b: floored_remainder(math, builder, x, y),
    }


def _square(math: SimdMath, x: Any) -> Any:
    return math.multiply(x, x)


def _with_halves_away(math: SimdMath, x: Any) -> Any:
    """The nearest integer, halves away from zero: the fraction is exact, while x + 0.5 would round the number below 0.5 up."""
    whole = math.built_in("trunc", x)
    is_below = math.less(math.magnitude(math.subtract(x, whole)), math.constant(0.5))
    return math.select(is_below, whole, math.add(whole, math.built_in("copysign", math.constant(1.0), x)))


_SIGN = 1 << 15
_OF_BITS: dict[Code, Callable[[Any, Any], Any]] = {
    Code.ABS: lambda builder, x: builder.and_(x, x.type([_SIGN - 1] * x.type.count)),
    Code.NEGATE: lambda builder, x: builder.xor(x, x.type([_SIGN] * x.type.count)),
}
"""The instructions that on elements of 2 bytes need no floats: what they make of their bits."""
_UNROLLED = frozenset({Code.EXP, Code.SIGMOID, Code.SILU})
"""The instructions whose loops are unrolled: their formulas take many numbers, which several vectors then share."""
_UNROLLED_NARROW = _UNROLLED | {Code.ADD, Code.MULTIPLY, Code.LINEAR}
"""Those of kernels with elements of 2 bytes, where each turn of a loop finds out which operands have such."""
_UNROLL = 4
"""Vectors that a turn of an unrolled loop computes."""


def computation(narrow: IrLoadStore | None, stored: Storage, isa: Isa) -> Any:
    """The intrinsic `compute(code, formats, result, x, y, count, a, b)`: an instruction on `count` elements at addresses.

    Args:
        narrow: how operands of 1 or 2 bytes are loaded and stored, which `formats` may name; None if there are none.
        stored: the type of these.
        isa: the instruction set that it is compiled for.
    """
    simd = simd_of(isa)

    @intrinsic
    def compute(code: Any, formats: Any, result: Any, x: Any, y: Any, count: Any, a: Any, b: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            code, formats, result, x, y, count, a, b = arguments
            constants = simd.repeated(builder, a), simd.repeated(builder, b)
            bits = (result, NARROW_RESULT), (x, NARROW_X), (y, NARROW_Y)
            of_floats, of_both = (
                [_Operand(isa, builder, storage, address, formats, bit) for address, bit in bits] for storage in (None, narrow)
            )
            end = builder.append_basic_block("computed")
            choice = builder.switch(code, end)
            math = SimdMath(builder, simd)
            functions = HalfFunctions if stored == "float16" else Functions
            formulas = _formulas(math, builder) | functions(math, builder).formulas()
            unrolled = _UNROLLED if narrow is None else _UNROLLED_NARROW
            for number, formula in formulas.items():
                block = builder.append_basic_block(number.name)
                choice.add_case(ADDRESS(number), block)
                builder.position_at_end(block)
                operands = of_floats if stored in ("uint8", "int8") and number not in OF_BYTES else of_both
                if number in unrolled:
                    first = _unrolled_loop(builder, simd, operands, count, formula, constants)
                elif number in _OF_BITS and narrow is not None and narrow.size == 2:
                    first = _loop_on_bits(builder, simd, formats, (result, x, count), _OF_BITS[number])
                else:
                    first = ADDRESS(0)
                _loop(builder, simd, operands, (first, count), formula, constants)
                builder.branch(end)
            builder.position_at_end(end)

        return types.void(*[types.int64] * 6, types.float32, types.float32), generate

    return compute


class _Operand:
    """The elements at an address: of FLOAT32, or of 1 or 2 bytes if `formats` says so and the kernel has code for that.

    Args:
        isa: the instruction set.
        builder: where code is appended.
        narrow: how elements of 1 or 2 bytes are loaded and stored; None if the kernel has no code for them.
        address: the first element.
        formats: the instruction's formats.
        bit: the operand's bit among them.
    """

    def __init__(self, isa: Isa, builder: Any, narrow: IrLoadStore | None, address: Any, formats: Any, bit: int) -> None:
        self._builder, self._address = builder, address
        self._floats, self._narrow = ir_load_store_of("float32", isa), narrow
        self._is_narrow, self._size = None, ADDRESS(self._floats.size)
        if narrow is not None:
            self._is_narrow = builder.icmp_signed("!=", builder.and_(formats, ADDRESS(bit)), ADDRESS(0))
            self._size = builder.select(self._is_narrow, ADDRESS(narrow.size), self._size)

    def place(self, at: Any) -> Any:
        """The address of an element."""
        return self._builder.add(self._address, self._builder.mul(at, self._size))

    def load(self, places: Sequence[Any], left: Any = None) -> list[Any]:
        """Loads the vectors at some addresses, or their first `left` lanes."""

        def load(load_store: IrLoadStore) -> list[Any]:
            return [load_store.load(self._builder, at) if left is None else load_store.load_first(self._builder, at, left) for at in places]

        if self._narrow is None:
            return load(self._floats)
        with self._builder.if_else(self._is_narrow) as (as_narrow, as_floats):
            with as_narrow:
                shorts, after_short = load(self._narrow), self._builder.block
            with as_floats:
                wholes, after_whole = load(self._floats), self._builder.block
        return phis(self._builder, (after_short, shorts), (after_whole, wholes))

    def store(self, values: Sequence[Any], places: Sequence[Any], left: Any = None) -> None:
        """Stores vectors at some addresses, or their first `left` lanes."""

        def store(load_store: IrLoadStore) -> None:
            for value, at in zip(values, places, strict=True):
                if left is None:
                    load_store.store(self._builder, value, at)
                else:
                    load_store.store_first(self._builder, value, at, left)

        if self._narrow is None:
            store(self._floats)
            return
        with self._builder.if_else(self._is_narrow) as (as_narrow, as_floats):
            with as_narrow:
                store(self._narrow)
            with as_floats:
                store(self._floats)


def _loop_over_blocks(builder: Any, count: Any, size: int, compute: Callable[[Any], None], condition: Any = None) -> Any:
    """A loop over whole blocks of elements. Returns the first element that is left.

    Args:
        builder: where the loop is written.
        count: the elements.
        size: the elements of a block, a power of two.
        compute: writes the code for a block, given its first element.
        condition: whether the loop runs at all; always by default.
    """
    before, last = builder.block, builder.and_(count, ADDRESS(-size))
    runs = builder.icmp_signed(">", last, ADDRESS(0))
    with builder.if_then(runs if condition is None else builder.and_(condition, runs)):
        loop = Loop(builder, [ADDRESS(0)])
        compute(loop.values[0])
        following = builder.add(loop.values[0], ADDRESS(size))
        loop.repeat_while(builder.icmp_signed("<", following, last), [following])
        after = builder.block
    first = builder.phi(ADDRESS)
    first.add_incoming(ADDRESS(0), before)
    first.add_incoming(last, after)
    return first


def _unrolled_loop(
    builder: Any, simd: Simd, operands: Sequence[_Operand], count: Any, formula: Callable[..., Any], constants: tuple[Any, Any]
) -> Any:
    """A loop over whole vectors, several in each iteration. Returns the first element that is left."""
    result, *reads = operands

    def compute(first: Any) -> None:
        parts = [builder.add(first, ADDRESS(part * simd.lanes)) for part in range(_UNROLL)]
        loaded = [read.load([read.place(at) for at in parts]) for read in reads]
        result.store([formula(*values, *constants) for values in zip(*loaded, strict=True)], [result.place(at) for at in parts])

    return _loop_over_blocks(builder, count, _UNROLL * simd.lanes, compute)


def _loop_on_bits(builder: Any, simd: Simd, formats: Any, given: tuple[Any, Any, Any], formula: Callable[[Any, Any], Any]) -> Any:
    """A loop over whole vectors of elements of 2 bytes, if both operands have such. Returns the first element that is left."""
    result, x, count = given
    lanes, size = 2 * simd.lanes, ADDRESS(2)
    vector = ir.VectorType(ir.IntType(16), lanes)
    are_narrow = builder.icmp_signed("==", builder.and_(formats, ADDRESS(NARROW_RESULT + NARROW_X)), ADDRESS(NARROW_RESULT + NARROW_X))

    def compute(first: Any) -> None:
        offset = builder.mul(first, size)
        source, target = (builder.inttoptr(builder.add(address, offset), vector.as_pointer()) for address in (x, result))
        builder.store(formula(builder, builder.load(source, align=2)), target, align=2)

    return _loop_over_blocks(builder, count, lanes, compute, condition=are_narrow)


def _loop(
    builder: Any, simd: Simd, operands: Sequence[_Operand], span: tuple[Any, Any], formula: Callable[..., Any], constants: tuple[Any, Any]
) -> None:
    """A loop over a span of elements by vectors; the last vector may be partial."""
    (begin, count), (result, *reads) = span, operands
    before, head, body, whole, part, join, put, put_some, following, after = (
        builder.block,
        *(builder.append_basic_block(name) for name in ("head", "body", "whole", "part", "join", "put", "put_some", "next", "after")),
    )
    builder.branch(head)
    builder.position_at_end(head)
    at = builder.phi(ADDRESS)
    at.add_incoming(begin, before)
    builder.cbranch(builder.icmp_signed("<", at, count), body, after)
    builder.position_at_end(body)
    target, *sources = [operand.place(at) for operand in operands]
    left = builder.sub(count, at)
    is_whole = builder.icmp_signed(">=", left, ADDRESS(simd.lanes))
    builder.cbranch(is_whole, whole, part)
    builder.position_at_end(whole)
    full = [read.load([source])[0] for read, source in zip(reads, sources, strict=True)]
    after_whole = builder.block
    builder.branch(join)
    builder.position_at_end(part)
    some = [read.load([source], left)[0] for read, source in zip(reads, sources, strict=True)]
    after_part = builder.block
    builder.branch(join)
    builder.position_at_end(join)
    values = phis(builder, (after_whole, full), (after_part, some))
    computed = formula(*values, *constants)
    builder.cbranch(is_whole, put, put_some)
    builder.position_at_end(put)
    result.store([computed], [target])
    builder.branch(following)
    builder.position_at_end(put_some)
    result.store([computed], [target], left)
    builder.branch(following)
    builder.position_at_end(following)
    at.add_incoming(builder.add(at, ADDRESS(simd.lanes)), following)
    builder.branch(head)
    builder.position_at_end(after)


_LOAD, _STORE = int(Code.LOAD), int(Code.STORE)
_LINEAR, _MULTIPLY_ROWS, _ADD_TO_ROWS = int(Code.LINEAR), int(Code.MULTIPLY_ROWS), int(Code.ADD_TO_ROWS)
_ONE: Any = np.float32(1.0)
_NOTHING: Any = np.float32(-0.0)
_SIZE = EncodedInstruction.dtype.itemsize


@jit
def _align(size: Any) -> Any:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _copy_floats(isa: Isa) -> Any:
    """The kernel that copies floats between a tensor and a register, whichever is which."""
    simd, lanes = simd_of(isa), isa.lanes
    load, store, all_of = simd.load, simd.store, simd.all_of

    @jit
    def copy(formats: Any, to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any) -> None:
        for row in range(rows):
            into, out_of, first = to + row * to_row, source + row * of_row, 0
            if to_column == FLOAT_BYTES and of_column == FLOAT_BYTES:
                first = columns // lanes * lanes
                for at in range(0, first, lanes):
                    store(into + at * FLOAT_BYTES, load(out_of + at * FLOAT_BYTES))
            elif to_column == FLOAT_BYTES and of_column == 0:
                first = columns // lanes * lanes
                value = all_of(float_at(out_of))
                for at in range(0, first, lanes):
                    store(into + at * FLOAT_BYTES, value)
            for at in range(first, columns):
                copy_float(into + at * to_column, out_of + at * of_column)

    return copy


def _copy_from_narrow(narrow: LoadStore, isa: Isa) -> Any:
    """The kernel that copies elements of 1 or 2 bytes of a tensor to floats of a register."""
    simd, lanes = simd_of(isa), isa.lanes
    size = narrow.size
    read, one, store, all_of = narrow.load, narrow.load_one, load_store_of("float32", isa).store, simd.all_of

    @jit
    def copy(to: Any, to_row: Any, source: Any, row_step: Any, column_step: Any, rows: Any, columns: Any) -> None:
        for row in range(rows):
            into, out_of = to + row * to_row, source + row * row_step
            if column_step == size:
                for at in range(0, columns, lanes):
                    store(into + at * FLOAT_BYTES, read(out_of + at * size, columns - at), columns - at)
            elif column_step == 0:
                value = all_of(one(out_of))
                for at in range(0, columns, lanes):
                    store(into + at * FLOAT_BYTES, value, columns - at)
            else:
                for at in range(columns):
                    set_float(into + at * FLOAT_BYTES, one(out_of + at * column_step))

    return copy


def _copy_to_narrow(narrow: LoadStore, isa: Isa) -> Any:
    """The kernel that copies floats of a register to elements of 1 or 2 bytes of a tensor."""
    size = narrow.size
    write, set_one, read, lanes = narrow.store, narrow.store_one, load_store_of("float32", isa).load, isa.lanes

    @jit
    def copy(to: Any, row_step: Any, column_step: Any, source: Any, of_row: Any, rows: Any, columns: Any) -> None:
        for row in range(rows):
            into, out_of = to + row * row_step, source + row * of_row
            if column_step == size:
                for at in range(0, columns, lanes):
                    write(into + at * size, read(out_of + at * FLOAT_BYTES, columns - at), columns - at)
            else:
                for at in range(columns):
                    set_one(into + at * column_step, float_at(out_of + at * FLOAT_BYTES))

    return copy


def _register_copy(narrow: LoadStore | None, isa: Isa) -> Any:
    """The kernel of LOAD and STORE, which converts what the instruction's formats say. The arguments are those of `_interpreter`."""
    copy_floats = _copy_floats(isa)
    if narrow is None:
        return copy_floats
    copy_from_narrow, copy_to_narrow = _copy_from_narrow(narrow, isa), _copy_to_narrow(narrow, isa)

    @jit
    def copy(formats: Any, to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any) -> None:
        if formats & NARROW_X != 0:
            copy_from_narrow(to, to_row, source, of_row, of_column, rows, columns)
        elif formats & NARROW_RESULT != 0:
            copy_to_narrow(to, to_row, to_column, source, of_row, rows, columns)
        else:
            copy_floats(formats, to, to_row, to_column, source, of_row, of_column, rows, columns)

    return copy


def build_interpreter(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a program, to be compiled.

    Args:
        stored: the type of tensors that are not of FLOAT32.
        isa: the instruction set that it is compiled for.
    """
    if stored == "float32":
        return _interpreter(None, None, stored, isa)
    return _interpreter(ir_load_store_of(stored, isa), load_store_of(stored, isa), stored, isa)


@jit
def _place_block(p: ProgramParameters, table: Any, block: Any) -> Any:
    """Writes the addresses of a block of all tensors into a table, and returns its number along the axis that blocks divide."""
    for tensor in range(p.tensors):
        set_integer(table + 8 * tensor, integer_at(p.bases + 8 * tensor))
    rest, split = block, 0
    for axis in range(p.axes):
        size = integer_at(p.sizes + 8 * axis)
        index = rest % size
        rest //= size
        if axis == 0:
            split = index
        if index > 0:
            for tensor in range(p.tensors):
                at = table + 8 * tensor
                set_integer(at, integer_at(at) + index * integer_at(p.strides + 8 * (tensor * p.axes + axis)))
    return split


def _interpreter(vectors: IrLoadStore | None, elements: LoadStore | None, stored: Storage, isa: Isa) -> TaskBody:
    """A thread's part of a program.

    Args:
        vectors: how instructions load and store operands of 1 or 2 bytes; None if there are none.
        elements: how LOAD and STORE do.
        stored: the type of these.
        isa: the instruction set that it is compiled for.
    """
    compute, copy = computation(vectors, stored, isa), _register_copy(elements, isa)
    instruction_at, narrow_one = struct_view(EncodedInstruction), float_at if elements is None else elements.load_one
    narrow_size = FLOAT_BYTES if elements is None else elements.size

    @jit
    def run(p: ProgramParameters, table: Any, first: Any, rows: Any, columns: Any, full_rows: Any, full_columns: Any) -> None:
        for number in range(first, p.count):
            i = instruction_at(p.instructions + number * _SIZE)
            result, x = integer_at(table + 8 * i.result), integer_at(table + 8 * i.x)
            if i.code == _LOAD:
                if number < p.hoisted:
                    copy(i.formats, result, full_columns * FLOAT_BYTES, FLOAT_BYTES, x, i.row, i.column, full_rows, full_columns)
                else:
                    copy(i.formats, result, columns * FLOAT_BYTES, FLOAT_BYTES, x, i.row, i.column, rows, columns)
            elif i.code == _STORE:
                copy(i.formats, result, i.row, i.column, x, columns * FLOAT_BYTES, FLOAT_BYTES, rows, columns)
            else:
                y, code, count, times, a, b = integer_at(table + 8 * i.y), i.code, rows * columns, 1, i.a, i.b
                if code == _MULTIPLY_ROWS:
                    code, count, times, b = _LINEAR, columns, rows, _NOTHING
                elif code == _ADD_TO_ROWS:
                    code, count, times, a = _LINEAR, columns, rows, _ONE
                to_row = count * (narrow_size if i.formats & NARROW_RESULT != 0 else FLOAT_BYTES)
                of_row = count * (narrow_size if i.formats & NARROW_X != 0 else FLOAT_BYTES)
                for row in range(times):
                    if i.code == _MULTIPLY_ROWS:
                        a = narrow_one(y + row * i.row) if i.formats & NARROW_Y != 0 else float_at(y + row * i.row)
                    elif i.code == _ADD_TO_ROWS:
                        b = narrow_one(y + row * i.row) if i.formats & NARROW_Y != 0 else float_at(y + row * i.row)
                    compute(code, i.formats, result + row * to_row, x + row * of_row, y, count, a, b)

    @jit
    def begin(p: ProgramParameters, thread: Any) -> Any:
        """Writes the addresses of a thread's registers into its table."""
        table = own_scratch(p, thread)
        first_register = table + _align((p.tensors + p.registers) * 8)
        for register in range(p.registers):
            set_integer(table + 8 * (p.tensors + register), first_register + register * p.register_size)
        return table

    @jit
    def run_blocks(p: ProgramParameters, first: Any, last: Any, table: Any) -> None:
        for block in range(first, last):
            split, rows, columns = _place_block(p, table, block), p.rows, p.columns
            if p.splits_rows != 0:
                rows = min(rows, p.split_size - split * rows)
            else:
                columns = min(columns, p.split_size - split * columns)
            run(p, table, 0 if block == first else p.hoisted, rows, columns, p.rows, p.columns)

    return share_units(ProgramParameters, run_blocks, begin)


_MOST = 2.0**24
"""A quotient below it is one too large at most, once it is rounded and truncated, and never too small."""
_FRACTION_BITS = 52
_STEP = 24
"""The bits of a quotient that a step of the long division finds: with a float's, they fit into a double."""


def remainder(math: SimdMath, builder: Any, x: Any, y: Any) -> Any:
    """The remainder of x / y with the sign of x."""
    magnitude, divisor = math.magnitude(x), math.magnitude(y)
    quotient = math.divide(magnitude, divisor)
    near = _corrected(builder, math, magnitude, divisor, math.built_in("trunc", quotient))
    are_near = builder.and_(math.less(quotient, math.constant(_MOST)), math.less(divisor, math.constant(inf)))
    lanes = ir.IntType(are_near.type.count)
    others = builder.icmp_unsigned("!=", builder.bitcast(are_near, lanes), lanes(-1))
    before = builder.block
    with builder.if_then(others, likely=False):
        long = _long_division(builder, math, magnitude, divisor)
        after = builder.block
    (result,) = phis(builder, (before, [near]), (after, [long]))
    return math.built_in("copysign", result, x)


def floored_remainder(math: SimdMath, builder: Any, x: Any, y: Any) -> Any:
    """The remainder of x / y with the sign of y."""
    truncated, zero = remainder(math, builder, x, y), math.constant(0.0)
    differ = builder.icmp_signed("!=", math.less(truncated, zero), math.less(y, zero))
    moved = math.select(differ, math.add(truncated, y), truncated)
    return math.select(builder.fcmp_ordered("==", truncated, zero), math.built_in("copysign", zero, y), moved)


def _corrected(builder: Any, math: SimdMath, dividend: Any, divisor: Any, quotient: Any) -> Any:
    """The remainder of a dividend, given its whole quotient or one more. Nothing is rounded."""
    left = math.fused_once(builder.fneg(quotient), divisor, dividend)
    return math.select(math.less(left, math.constant(0.0)), math.add(left, divisor), left)


def _long_division(builder: Any, math: SimdMath, dividend: Any, divisor: Any) -> Any:
    """The remainder of any magnitudes, in double precision, in which all floats are normal numbers."""
    count = dividend.type.count
    doubles, longs = ir.VectorType(ir.DoubleType(), count), ir.VectorType(ADDRESS, count)

    def number(value: float) -> Any:
        return ir.Constant(doubles, [value] * count)

    def integer(value: int) -> Any:
        return ir.Constant(longs, [value] * count)

    x, y = (builder.fpext(value, doubles) for value in (dividend, divisor))
    undefined = builder.or_(builder.fcmp_unordered("==", x, number(inf)), builder.fcmp_unordered("==", y, number(0.0)))
    whole = builder.or_(undefined, builder.fcmp_unordered("==", y, number(inf)))
    loop = Loop(builder, [builder.select(whole, number(0.0), x)])
    y = builder.select(whole, number(1.0), y)
    (left,) = loop.values
    bits_of_y = builder.bitcast(y, longs)
    gap = builder.sub(builder.lshr(builder.bitcast(left, longs), integer(_FRACTION_BITS)), builder.lshr(bits_of_y, integer(_FRACTION_BITS)))
    power = builder.sub(gap, integer(_STEP))
    power = builder.select(builder.icmp_signed("<", power, integer(0)), integer(0), power)
    scaled = builder.bitcast(builder.add(bits_of_y, builder.shl(power, integer(_FRACTION_BITS))), doubles)
    trunc = declared(builder.module, ir.FunctionType(doubles, [doubles]), f"llvm.trunc.v{count}f64")
    quotient = builder.call(trunc, [builder.fdiv(left, scaled)])
    rest = builder.fsub(left, builder.fmul(quotient, scaled))
    rest = builder.select(builder.fcmp_ordered("<", rest, number(0.0)), builder.fadd(rest, scaled), rest)
    mask = ir.IntType(count)
    again = builder.icmp_unsigned("!=", builder.bitcast(builder.fcmp_ordered(">=", rest, y), mask), mask(0))
    loop.repeat_while(again, [rest])
    result = builder.select(whole, x, rest)
    return builder.fptrunc(builder.select(undefined, number(nan), result), dividend.type)
