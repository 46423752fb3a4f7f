"""The compiled functions of integers, comparisons and truth values.

One kernel has all functions, types and layouts of small tensors, element by element. Each function of contiguous elements has a kernel for
its types: vectors, then what is left one by one. Rows have the same, where operands may repeat an element. A choice has one for each
width of elements, which runs along rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import allocated, intrinsic, jit
from dmlpy.devices.cpu.elementwise.integer_plan import (
    CODES,
    ChoiceParameters,
    ContiguousParameters,
    Function,
    Kind,
    RowParameters,
    SmallParameters,
)
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.load_store import floats_of_halves
from dmlpy.devices.cpu.memory_kernels import byte_at, long_at, set_byte, set_word, word_at
from dmlpy.devices.cpu.simd import INDEX, Loop, float_at, integer_at, repeated, set_float, set_integer, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import share_units, unit_addresses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.thread_pool import TaskBody

_SHORTER = 4
"""How many times shorter the vectors are that compute the end of a row."""
_EXACT = 1 << 51
"""Integers below it are exact in float64, and so are their quotients' sides of each integer."""
_INT8, _UINT8, _INT32, _UINT32, _INT64, _FLOAT32 = map(int, Kind)
_CONVERT, _ABS, _NEGATE, _SIGN, _RELU, _CLIP, _ADD, _SUBTRACT, _MULTIPLY, _MIN, _MAX, *_OTHERS = CODES.values()
_EQUAL, _LESS, _LESS_OR_EQUAL, _AND, _OR, _XOR, _NOT, _SELECT = _OTHERS


@jit
def _integer(address: Any, kind: Any) -> Any:
    """Loads an element as an integer: of FLOAT32 its bits."""
    value = 0
    if kind == _INT64:
        value = integer_at(address)
    elif kind == _UINT8:
        value = byte_at(address)
    elif kind == _INT8:
        value = (byte_at(address) ^ 128) - 128
    elif kind == _UINT32:
        value = word_at(address) & 0xFFFFFFFF
    else:
        value = word_at(address)
    return value


@jit
def _store(address: Any, kind: Any, value: Any) -> None:
    """Stores the low bits of an integer."""
    if kind == _INT64:
        set_integer(address, value)
    elif kind in (_UINT8, _INT8):
        set_byte(address, value)
    else:
        set_word(address, value)


@jit
def _compared(function: Any, kind: Any, a: Any, b: Any) -> Any:
    """Whether elements compare as a function says."""
    holds = False
    if kind == _FLOAT32:
        x, y = float_at(a), float_at(b)
        holds = x == y if function == _EQUAL else (x < y if function == _LESS else x <= y)
    else:
        left, right = _integer(a, kind), _integer(b, kind)
        holds = left == right if function == _EQUAL else (left < right if function == _LESS else left <= right)
    return 1 if holds else 0


@jit
def _truth(function: Any, x: Any, y: Any) -> Any:
    """A function of truth values, which are true unless 0."""
    a, b = 1 if x != 0 else 0, 1 if y != 0 else 0
    return a & b if function == _AND else (a | b if function == _OR else (a ^ b if function == _XOR else 1 - a))


@jit
def _of_one(p: SmallParameters, x: Any) -> Any:
    """A function of one integer, or the integer itself."""
    result = x
    if p.function == _ABS:
        result = max(x, -x)
    elif p.function == _NEGATE:
        result = -x
    elif p.function == _SIGN:
        result = min(max(x, -1), 1)
    elif p.function == _RELU:
        result = max(x, 0)
    elif p.function == _CLIP:
        result = min(max(x, p.low), p.high)
    return result


@jit
def _number(function: Any, x: Any, y: Any) -> Any:
    """A function of integers."""
    result = x
    if function == _ADD:
        result = x + y
    elif function == _SUBTRACT:
        result = x - y
    elif function == _MULTIPLY:
        result = x * y
    elif function == _MIN:
        result = min(x, y)
    elif function == _MAX:
        result = max(x, y)
    return result


def build_small() -> TaskBody:
    """Builds the functions, to be compiled. They run on one thread."""
    parameters_at = struct_view(SmallParameters)

    def small(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for row in range(p.rows):
            for column in range(p.columns):
                a, b = p.a + row * p.a_row + column * p.a_column, p.b + row * p.b_row + column * p.b_column
                target = p.y + row * p.y_row + column * p.y_column
                value = 0
                if p.function >= _EQUAL and p.function <= _LESS_OR_EQUAL:
                    value = _compared(p.function, p.a_kind, a, b)
                elif p.function == _SELECT:
                    value = _integer(a if byte_at(p.c + row * p.c_row + column * p.c_column) != 0 else b, p.a_kind)
                else:
                    value, other = _of_one(p, _integer(a, p.a_kind)), 0
                    if p.function > _CLIP and p.function != _NOT:
                        other = _integer(b, p.b_kind)
                    value = _truth(p.function, value, other) if p.function >= _AND else _number(p.function, value, other)
                if p.y_kind == _FLOAT32 and p.function != _SELECT:
                    set_float(target, np.float32(value))
                else:
                    _store(target, p.y_kind, value)

    return small


_UNARY = frozenset({Function.BIT_NOT, Function.ABS, Function.NEGATE, Function.SIGN, Function.RELU, Function.NOT, Function.CLIP})
_INSTRUCTIONS = {
    Function.ADD: ir.IRBuilder.add,
    Function.SUBTRACT: ir.IRBuilder.sub,
    Function.MULTIPLY: ir.IRBuilder.mul,
    Function.BIT_AND: ir.IRBuilder.and_,
    Function.BIT_OR: ir.IRBuilder.or_,
    Function.BIT_XOR: ir.IRBuilder.xor,
}
"""The functions of two operands that are an instruction each."""
_CONNECTIVES = {Function.AND: ir.IRBuilder.and_, Function.OR: ir.IRBuilder.or_, Function.XOR: ir.IRBuilder.xor}
"""The functions of two truth values, and the instructions on their masks."""
_ORDERED = {Function.EQUAL: "==", Function.LESS: "<", Function.LESS_OR_EQUAL: "<="}
"""The comparisons that are false for NaN, and LLVM's names of them."""


def _type_of(dtype: np.dtype[Any], lanes: int) -> Any:
    """LLVM's type of a vector in memory; that of FLOAT16 holds bits."""
    if dtype.kind == "f":
        return ir.VectorType(ir.IntType(16) if dtype.itemsize < FLOAT_BYTES else ir.FloatType(), lanes)
    return ir.VectorType(ir.IntType(8 * dtype.itemsize), lanes)


def _result(builder: Any, function: Function, of: np.dtype[Any], x: Any, y: Any, limits: Sequence[Any]) -> Any:
    """A function of vectors; of truth values and comparisons the mask. The limits are those of CLIP."""
    if function in _INSTRUCTIONS:
        return _INSTRUCTIONS[function](builder, x, y)
    if function in _ORDERED:
        return _mask_where(builder, of, _ORDERED[function], x, y)
    compared, kind, zero = partial(_mask_where, builder, of), x.type, ir.Constant(x.type, None)
    match function:
        case Function.BIT_NOT:
            return builder.not_(x)
        case Function.SHIFT_LEFT | Function.SHIFT_RIGHT:
            fits = builder.icmp_unsigned("<", y, ir.Constant(kind, [8 * of.itemsize] * kind.count))
            shifted = (builder.shl if function is Function.SHIFT_LEFT else builder.lshr)(x, builder.select(fits, y, zero))
            return builder.select(fits, shifted, zero)
        case Function.MIN:
            return builder.select(compared("<", y, x), y, x)
        case Function.MAX:
            return builder.select(compared("<", x, y), y, x)
        case Function.ABS:
            return builder.select(compared("<", x, zero), builder.sub(zero, x), x)
        case Function.NEGATE:
            return builder.sub(zero, x)
        case Function.SIGN:
            above = builder.zext(compared(">", x, zero), kind)
            return builder.sub(above, builder.zext(compared("<", x, zero), kind))
        case Function.RELU:
            return builder.select(compared("<", x, zero), zero, x)
        case Function.RELU_GRADIENT:
            return builder.select(compared(">", x, zero), y, zero)
        case Function.NOT:
            return builder.icmp_signed("==", x, zero)
        case Function.DIVIDE | Function.MODULUS_TRUNCATE | Function.MODULUS_FLOOR:
            return _division(builder, function, of, x, y)
        case Function.NOT_EQUAL:
            return builder.fcmp_unordered("!=", x, y) if of.kind == "f" else builder.icmp_signed("!=", x, y)
        case Function.CLIP:
            low, high = (_all_lanes(builder, limit, kind) for limit in limits)
            raised = builder.select(compared("<", x, low), low, x)
            return builder.select(compared("<", high, raised), high, raised)
        case Function.POW:
            return _power(builder, of, x, y)
        case _:
            return _CONNECTIVES[function](builder, *(builder.icmp_signed("!=", value, zero) for value in (x, y)))


def _mask_where(builder: Any, of: np.dtype[Any], relation: str, x: Any, y: Any) -> Any:
    """The mask of the lanes where a relation holds; for NaN none does."""
    if of.kind == "f":
        return builder.fcmp_ordered(relation, x, y)
    return (builder.icmp_unsigned if of.kind == "u" else builder.icmp_signed)(relation, x, y)


def _all_lanes(builder: Any, value: Any, kind: Any) -> Any:
    """A vector of the low bits of an integer."""
    return repeated(builder, value if kind.element == value.type else builder.trunc(value, kind.element), kind.count)


def _division(builder: Any, function: Function, of: np.dtype[Any], x: Any, y: Any) -> Any:
    """The quotient of integers, rounded toward zero, or a remainder; 0 where the divisor is 0."""
    kind, signed = x.type, of.kind == "i"

    def all_of(value: int) -> Any:
        return ir.Constant(kind, [value] * kind.count)

    by_zero = builder.icmp_signed("==", y, all_of(0))
    result = (_wide_quotient if of.itemsize > FLOAT_BYTES else _quotient)(builder, of, x, y, by_zero)
    if function is not Function.DIVIDE:
        result = builder.sub(x, builder.mul(result, y))
        if function is Function.MODULUS_FLOOR and signed:
            differ = builder.icmp_signed("<", builder.xor(result, y), all_of(0))
            moves = builder.and_(differ, builder.icmp_signed("!=", result, all_of(0)))
            result = builder.select(moves, builder.add(result, y), result)
    return builder.select(by_zero, all_of(0), result)


def _wide_quotient(builder: Any, of: np.dtype[Any], x: Any, y: Any, by_zero: Any) -> Any:
    """The quotient of integers of 64 bits, where the divisor is not 0.

    Vectors whose dividends have at most 51 bits, and their divisors, are divided as float64: a quotient is at least its last place away
    from the integers on either side. Others take the processor's instruction, which wraps nothing around.
    """
    kind, signed = x.type, of.kind == "i"

    def all_of(value: int) -> Any:
        return ir.Constant(kind, [value] * kind.count)

    result = allocated(builder, kind)
    divisor, moved = builder.select(by_zero, all_of(1), y), all_of(_EXACT // 2 if signed else 0)
    small = [builder.icmp_unsigned("<", builder.add(value, moved), all_of(_EXACT)) for value in (x, divisor)]
    fit = builder.bitcast(builder.and_(*small), ir.IntType(kind.count))
    with builder.if_else(builder.icmp_unsigned("==", fit, fit.type(-1))) as (exact, wide):
        with exact:
            floats = ir.VectorType(ir.DoubleType(), kind.count)
            quotient = builder.fdiv(*[(builder.sitofp if signed else builder.uitofp)(value, floats) for value in (x, divisor)])
            builder.store((builder.fptosi if signed else builder.fptoui)(quotient, kind), result)
        with wide:
            if signed:
                negates = builder.icmp_signed("==", y, all_of(-1))
                quotient = builder.sdiv(x, builder.select(negates, all_of(1), divisor))
                builder.store(builder.select(negates, builder.neg(x), quotient), result)
            else:
                builder.store(builder.udiv(x, divisor), result)
    return builder.load(result)


def _quotient(builder: Any, of: np.dtype[Any], x: Any, y: Any, by_zero: Any) -> Any:
    """The quotient of integers of at most 32 bits, where the divisor is not 0.

    A quotient of floats with more bits than both integers together lies on the same side of each integer, and so does a rounded one.
    """
    kind, signed, is_word = x.type, of.kind == "i", of.itemsize == FLOAT_BYTES
    floats = ir.VectorType(ir.DoubleType() if is_word else ir.FloatType(), kind.count)
    operands = x, builder.select(by_zero, ir.Constant(kind, [1] * kind.count), y)
    quotient = builder.fdiv(*[(builder.sitofp if signed else builder.uitofp)(value, floats) for value in operands])
    if is_word and signed:  # the only quotient that does not fit wraps around
        beyond, lowest = (ir.Constant(floats, [value] * kind.count) for value in (2.0**31 - 1, -(2.0**31)))
        quotient = builder.select(builder.fcmp_ordered(">", quotient, beyond), lowest, quotient)
    words = ir.VectorType(INDEX, kind.count)
    whole = (builder.fptosi if signed or not is_word else builder.fptoui)(quotient, words)
    return whole if kind == words else builder.trunc(whole, kind)


def _power(builder: Any, of: np.dtype[Any], x: Any, y: Any) -> Any:
    """The power of integers, which wraps around; that of a negative exponent is rounded toward zero, and that of 0 is 0."""
    kind = x.type

    def all_of(value: int) -> Any:
        return ir.Constant(kind, [value] * kind.count)

    negative = builder.icmp_signed("<", y, all_of(0)) if of.kind == "i" else None
    mask = ir.IntType(kind.count)
    loop = Loop(builder, [all_of(1), x, y if negative is None else builder.select(negative, all_of(0), y)])
    power, base, exponent = loop.values
    odd = builder.trunc(exponent, ir.VectorType(ir.IntType(1), kind.count))
    power = builder.select(odd, builder.mul(power, base), power)
    base, exponent = builder.mul(base, base), builder.lshr(exponent, all_of(1))
    left = builder.bitcast(builder.icmp_signed("!=", exponent, all_of(0)), mask)
    loop.repeat_while(builder.icmp_unsigned("!=", left, mask(0)), [power, base, exponent])
    if negative is None:
        return power
    is_even = builder.icmp_signed("==", builder.and_(y, all_of(1)), all_of(0))
    is_one, is_minus_one = (builder.icmp_signed("==", x, all_of(value)) for value in (1, -1))
    inverse = builder.select(is_one, x, builder.select(is_minus_one, builder.select(is_even, all_of(1), x), all_of(0)))
    return builder.select(negative, inverse, power)


def _step(function: Function, of: np.dtype[Any], to: np.dtype[Any], lanes: int, steps: int = 3) -> Any:
    """The intrinsic `compute(y, a, b, low, high)` on as many elements at addresses.

    `steps` has a bit for a and b, 1 and 2: whether their elements are contiguous, else one is repeated.
    """
    source, target = _type_of(of, lanes), _type_of(to, lanes)

    @intrinsic
    def compute(y: Any, a: Any, b: Any, low: Any, high: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            y, *operands, low, high = arguments

            def load(operand: int) -> Any:
                is_row = steps >> operand & 1
                pointer = builder.inttoptr(operands[operand], (source if is_row else source.element).as_pointer())
                value = builder.load(pointer, align=of.itemsize)
                value = value if is_row else repeated(builder, value, lanes)
                return floats_of_halves(builder, value) if of == np.float16 else value

            x = load(0)
            result = _result(builder, function, of, x, x if function in _UNARY else load(1), (low, high))
            if result.type != target:  # a mask
                result = builder.zext(result, target)
            builder.store(result, builder.inttoptr(y, target.as_pointer()), align=to.itemsize)

        return types.void(*[types.int64] * 5), generate

    return compute


def build_contiguous(function: Function, source: str, target: str, isa: Isa) -> TaskBody:
    """Builds a thread's part of a function, to be compiled.

    Args:
        function: the function.
        source: NumPy's name of the operands' type.
        target: that of the results' type.
        isa: the instruction set that it is compiled for.
    """
    of, to = np.dtype(source), np.dtype(target)
    of_size, to_size = of.itemsize, to.itemsize
    lanes = isa.lanes * FLOAT_BYTES // max(of_size, to_size)
    many, one = _step(function, of, to, lanes), _step(function, of, to, 1)

    @jit
    def run(p: ContiguousParameters, first: Any, last: Any, state: Any) -> None:
        y, a, b, low, high, whole = p.y, p.a, p.b, p.low, p.high, first + (last - first) // lanes * lanes
        for at in range(first, whole, lanes):
            many(y + at * to_size, a + at * of_size, b + at * of_size, low, high)
        for at in range(whole, last):
            one(y + at * to_size, a + at * of_size, b + at * of_size, low, high)

    return share_units(ContiguousParameters, run)


def _part_of_row(function: Function, of: np.dtype[Any], to: np.dtype[Any], lanes: int, steps: int) -> Any:
    """The function `run(y, a, b, at, end)` of elements of a row: vectors, then shorter ones, then what is left one by one."""
    step = _step(function, of, to, lanes, steps)
    y_size, a_size, b_size = lanes * to.itemsize, lanes * of.itemsize * (steps & 1), lanes * of.itemsize * (steps >> 1)

    @jit
    def run_vectors(y: Any, a: Any, b: Any, size: Any) -> Any:
        count = size // lanes
        for at in range(count):
            step(y + at * y_size, a + at * a_size, b + at * b_size, 0, 0)
        return count

    if lanes == 1:
        return run_vectors
    run_shorter = _part_of_row(function, of, to, max(1, lanes // _SHORTER), steps)

    @jit
    def run(y: Any, a: Any, b: Any, size: Any) -> Any:
        count = run_vectors(y, a, b, size)
        if size > count * lanes:
            run_shorter(y + count * y_size, a + count * a_size, b + count * b_size, size - count * lanes)
        return count

    return run


def build_rows(function: Function, source: str, target: str, isa: Isa) -> TaskBody:
    """Builds a thread's part of a function of two operands along rows, to be compiled. The arguments are those of `build_contiguous`."""
    of, to = np.dtype(source), np.dtype(target)
    of_size, to_size = of.itemsize, to.itemsize
    lanes = isa.lanes * FLOAT_BYTES // max(of_size, to_size)
    of_none, of_first, of_second, of_both = (_part_of_row(function, of, to, lanes if steps else 1, steps) for steps in range(4))

    @jit
    def run_row(steps: Any, y: Any, a: Any, b: Any, size: Any) -> None:
        if steps == 3:
            of_both(y, a, b, size)
        elif steps == 1:
            of_first(y, a, b, size)
        elif steps == 2:
            of_second(y, a, b, size)
        else:  # one result is repeated
            of_none(y, a, b, size)

    @jit
    def run(p: RowParameters, first: Any, last: Any, state: Any) -> None:
        size, split, steps, number = p.size, p.split, p.steps, first
        while number < last:
            y, a, b = unit_addresses(p.axes, p.table, number // split, p.y, p.a, p.b)
            if split > 1:
                begin, end = size * (number % split) // split, size * (number % split + 1) // split
                run_row(steps, y + begin * to_size, a + begin * of_size * (steps & 1), b + begin * of_size * (steps >> 1), end - begin)
                number += 1
            else:  # rows of an axis, whose addresses need no divisions
                rows = min(last - number, long_at(p.table) - number % long_at(p.table))
                y_row, a_row, b_row = long_at(p.table + 8), long_at(p.table + 16), long_at(p.table + 24)
                for row in range(rows):
                    run_row(steps, y + row * y_row, a + row * a_row, b + row * b_row, size)
                number += rows

    return share_units(RowParameters, run)


def _choice(width: int, lanes: int) -> Any:
    """The intrinsic `choose(y, a, b, condition, steps)` of as many elements: those of a where the condition is not 0, else those of b.

    `steps` has a bit for a, b and the condition, 1, 2 and 4: whether their elements are contiguous, else one is repeated.
    """
    elements, bytes_ = ir.VectorType(ir.IntType(8 * width), lanes), ir.VectorType(ir.IntType(8), lanes)

    @intrinsic
    def choose(y: Any, a: Any, b: Any, condition: Any, steps: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            y, *operands, steps = arguments
            end = builder.append_basic_block("chosen")
            case = builder.switch(steps, end)
            for operand_bits in range(8):
                block = builder.append_basic_block(f"steps{operand_bits}")
                case.add_case(ir.IntType(64)(operand_bits), block)
                builder.position_at_end(block)
                values = []
                for operand, address in enumerate(operands):
                    kind = bytes_ if operand == 2 else elements
                    is_row = operand_bits >> operand & 1
                    pointer = builder.inttoptr(address, (kind if is_row else kind.element).as_pointer())
                    value = builder.load(pointer, align=kind.element.width // 8)
                    values.append(value if is_row else _all_lanes(builder, value, kind))
                taken = builder.icmp_unsigned("!=", values[2], ir.Constant(bytes_, [0] * lanes))
                chosen = builder.select(taken, values[0], values[1])
                builder.store(chosen, builder.inttoptr(y, elements.as_pointer()), align=width)
                builder.branch(end)
            builder.position_at_end(end)

        return types.void(*[types.int64] * 5), generate

    return choose


def _part_of_chosen_row(width: int, lanes: int) -> Any:
    """The function `run(y, a, b, c, size, steps)` of elements of a row: vectors, then shorter ones, then what is left one by one."""
    step, y_size = _choice(width, lanes), lanes * width

    @jit
    def run_vectors(y: Any, a: Any, b: Any, c: Any, size: Any, steps: Any) -> Any:
        count, of_a, of_b, of_c = size // lanes, y_size * (steps & 1), y_size * (steps >> 1 & 1), lanes * (steps >> 2)
        for at in range(count):
            step(y + at * y_size, a + at * of_a, b + at * of_b, c + at * of_c, steps)
        return count

    if lanes == 1:
        return run_vectors
    run_shorter = _part_of_chosen_row(width, max(1, lanes // _SHORTER))

    @jit
    def run(y: Any, a: Any, b: Any, c: Any, size: Any, steps: Any) -> Any:
        count = run_vectors(y, a, b, c, size, steps)
        if size > count * lanes:
            at, steps_a, steps_b, steps_c = count * lanes, steps & 1, steps >> 1 & 1, steps >> 2
            run_shorter(y + at * width, a + at * width * steps_a, b + at * width * steps_b, c + at * steps_c, size - at, steps)
        return count

    return run


def build_choice(width: int, isa: Isa) -> TaskBody:
    """Builds a thread's part of a choice, to be compiled.

    Args:
        width: bytes of an element.
        isa: the instruction set that it is compiled for.
    """
    run_row = _part_of_chosen_row(width, isa.lanes * FLOAT_BYTES // width)

    @jit
    def run(p: ChoiceParameters, first: Any, last: Any, state: Any) -> None:
        size, split, steps, number = p.size, p.split, p.steps, first
        while number < last:
            y, a, b = unit_addresses(p.axes, p.table, number // split, p.y, p.a, p.b)
            c = unit_addresses(p.axes, p.of_condition, number // split, p.condition, 0, 0)[0]
            if split > 1:
                begin, end = size * (number % split) // split, size * (number % split + 1) // split
                of_a, of_b, of_c = begin * width * (steps & 1), begin * width * (steps >> 1 & 1), begin * (steps >> 2)
                run_row(y + begin * width, a + of_a, b + of_b, c + of_c, end - begin, steps)
                number += 1
            else:
                rows = min(last - number, long_at(p.table) - number % long_at(p.table))
                y_row, a_row, b_row, c_row = (
                    long_at(p.table + 8),
                    long_at(p.table + 16),
                    long_at(p.table + 24),
                    long_at(p.of_condition + 8),
                )
                for row in range(rows):
                    run_row(y + row * y_row, a + row * a_row, b + row * b_row, c + row * c_row, size, steps)
                number += rows

    return share_units(ChoiceParameters, run)
