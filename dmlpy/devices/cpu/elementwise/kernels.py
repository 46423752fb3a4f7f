"""The compiled kernel of element-wise programs: it interprets their instructions, a block of elements at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import types
from numba.extending import intrinsic

from dmlpy.devices.cpu.elementwise.program import ALIGNMENT, Code, EncodedInstruction, ProgramParameters
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.simd import ADDRESS, copy_float, float_at, integer_at, jit, set_integer, simd_of, struct_view
from dmlpy.devices.cpu.simd_math import SimdMath
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.simd import Simd
    from dmlpy.devices.cpu.thread_pool import TaskBody


def _formulas(math: SimdMath, builder: Any) -> dict[Code, Callable[[Any, Any, Any, Any], Any]]:
    """The function of x, y, a and b that each instruction computes."""
    zero = math.constant(0.0)
    one = math.constant(1.0)
    return {
        Code.MOVE: lambda x, y, a, b: x,
        Code.LINEAR: lambda x, y, a, b: math.linear(x, a, b),
        Code.CLIP: lambda x, y, a, b: math.at_most(math.at_least(x, a), b),
        Code.ABS: lambda x, y, a, b: math.magnitude(x),
        Code.NEGATE: lambda x, y, a, b: builder.fneg(x),
        Code.SQRT: lambda x, y, a, b: math.built_in("sqrt", x),
        Code.FLOOR: lambda x, y, a, b: math.built_in("floor", x),
        Code.CEIL: lambda x, y, a, b: math.built_in("ceil", x),
        Code.ROUND: lambda x, y, a, b: math.built_in("rint", x),
        Code.RECIP: lambda x, y, a, b: math.divide(one, x),
        Code.EXP: lambda x, y, a, b: math.exp(x),
        Code.ERF: lambda x, y, a, b: math.erf(x),
        Code.TANH: lambda x, y, a, b: math.tanh(x),
        Code.SIGMOID: lambda x, y, a, b: math.sigmoid(x),
        Code.SWISH: lambda x, y, a, b: math.swish(x, math.multiply(x, a)),
        Code.GELU: lambda x, y, a, b: math.gelu(x),
        Code.SOFTSIGN: lambda x, y, a, b: math.softsign(x),
        Code.LEAKY_RELU: lambda x, y, a, b: math.leaky_relu(x, a),
        Code.THRESHOLDED_RELU: lambda x, y, a, b: math.thresholded_relu(x, a),
        Code.ELU: lambda x, y, a, b: math.elu(x, a, b),
        Code.SHRINK: lambda x, y, a, b: math.shrink(x, a, b),
        Code.ADD: lambda x, y, a, b: math.add(x, y),
        Code.SUBTRACT: lambda x, y, a, b: math.subtract(x, y),
        Code.MULTIPLY: lambda x, y, a, b: math.multiply(x, y),
        Code.DIVIDE: lambda x, y, a, b: math.divide(x, y),
        Code.MAX: lambda x, y, a, b: math.larger(x, y),
        Code.MIN: lambda x, y, a, b: math.smaller(x, y),
        Code.GATE: lambda x, y, a, b: math.gate(x, y),
        Code.PARAMETERIZED_RELU: lambda x, y, a, b: math.leaky_relu(x, y),
        Code.RELU_GRADIENT: lambda x, y, a, b: math.select(math.less(zero, x), y, zero),
    }


def computation(isa: Isa) -> Any:
    """The intrinsic `compute(code, result, x, y, count, a, b)`: an instruction on `count` elements at addresses."""
    simd = simd_of(isa)

    @intrinsic
    def compute(context: Any, code: Any, result: Any, x: Any, y: Any, count: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            code, result, x, y, count, a, b = arguments
            constants = simd.repeated(builder, a), simd.repeated(builder, b)
            end = builder.append_basic_block("computed")
            choice = builder.switch(code, end)
            for number, formula in _formulas(SimdMath(builder, simd), builder).items():
                block = builder.append_basic_block(number.name)
                choice.add_case(ADDRESS(number), block)
                builder.position_at_end(block)
                _loop(builder, simd, (result, x, y), count, formula, constants)
                builder.branch(end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5, types.float32, types.float32), generate

    return compute


def _loop(
    builder: Any, simd: Simd, addresses: tuple[Any, Any, Any], count: Any, formula: Callable[..., Any], constants: tuple[Any, Any]
) -> None:
    """A loop over elements by vectors; the last vector may be partial."""
    before, head, body, whole, part, join, put, put_some, following, after = (
        builder.block,
        *(builder.append_basic_block(name) for name in ("head", "body", "whole", "part", "join", "put", "put_some", "next", "after")),
    )
    builder.branch(head)
    builder.position_at_end(head)
    at = builder.phi(ADDRESS)
    at.add_incoming(ADDRESS(0), before)
    builder.cbranch(builder.icmp_signed("<", at, count), body, after)
    builder.position_at_end(body)
    result, x, y = (builder.add(address, builder.mul(at, ADDRESS(FLOAT_BYTES))) for address in addresses)
    left = builder.sub(count, at)
    is_whole = builder.icmp_signed(">=", left, ADDRESS(simd.lanes))
    builder.cbranch(is_whole, whole, part)
    builder.position_at_end(whole)
    full = [simd.value_of(builder, address) for address in (x, y)]
    builder.branch(join)
    builder.position_at_end(part)
    some = [simd.first_of(builder, address, left) for address in (x, y)]
    builder.branch(join)
    builder.position_at_end(join)
    values = []
    for of_whole, of_part in zip(full, some, strict=True):
        value = builder.phi(of_whole.type)
        value.add_incoming(of_whole, whole)
        value.add_incoming(of_part, part)
        values.append(value)
    computed = formula(*values, *constants)
    builder.cbranch(is_whole, put, put_some)
    builder.position_at_end(put)
    simd.write(builder, computed, result)
    builder.branch(following)
    builder.position_at_end(put_some)
    simd.write_first(builder, computed, result, left)
    builder.branch(following)
    builder.position_at_end(following)
    at.add_incoming(builder.add(at, ADDRESS(simd.lanes)), following)
    builder.branch(head)
    builder.position_at_end(after)


_LOAD, _STORE = int(Code.LOAD), int(Code.STORE)
_SIZE = EncodedInstruction.dtype.itemsize


@jit
def _align(size: Any) -> Any:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def build_interpreter(isa: Isa) -> TaskBody:
    """Builds a thread's part of a program, to be compiled.

    Args:
        isa: the instruction set that it is compiled for.
    """
    simd, compute = simd_of(isa), computation(isa)
    load, store, all_of, lanes = simd.load, simd.store, simd.all_of, isa.lanes

    @jit
    def copy(to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any) -> None:
        """Copies elements between a tensor and a register, whichever is which."""
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

    instruction_at = struct_view(EncodedInstruction)

    @jit
    def run(p: ProgramParameters, table: Any, first: Any, rows: Any, columns: Any, full_rows: Any, full_columns: Any) -> None:
        for number in range(first, p.count):
            i = instruction_at(p.instructions + number * _SIZE)
            result, x = integer_at(table + 8 * i.result), integer_at(table + 8 * i.x)
            if i.code == _LOAD:
                if number < p.hoisted:
                    copy(result, full_columns * FLOAT_BYTES, FLOAT_BYTES, x, i.row, i.column, full_rows, full_columns)
                else:
                    copy(result, columns * FLOAT_BYTES, FLOAT_BYTES, x, i.row, i.column, rows, columns)
            elif i.code == _STORE:
                copy(result, i.row, i.column, x, columns * FLOAT_BYTES, FLOAT_BYTES, rows, columns)
            else:
                compute(i.code, result, x, integer_at(table + 8 * i.y), rows * columns, i.a, i.b)

    parameters_at = struct_view(ProgramParameters)

    def interpret(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        table, state, finished = p.scratch + thread * p.scratch_size, parameters, 0
        tile = first_tile(state, p.tiles, thread, threads, sync, epoch)
        if tile < p.tiles:  # a late thread must not touch the scratch, which may be in use
            first_register = table + _align((p.tensors + p.registers) * 8)
            for register in range(p.registers):
                set_integer(table + 8 * (p.tensors + register), first_register + register * p.register_size)
        while tile < p.tiles:
            begin = p.blocks * tile // p.tiles
            for block in range(begin, p.blocks * (tile + 1) // p.tiles):
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
                rows, columns = p.rows, p.columns
                if p.splits_rows != 0:
                    rows = min(rows, p.split_size - split * rows)
                else:
                    columns = min(columns, p.split_size - split * columns)
                run(p, table, 0 if block == begin else p.hoisted, rows, columns, p.rows, p.columns)
            finished += 1
            tile = next_tile(state, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(state, finished, p.tiles, thread, threads)

    return interpret
