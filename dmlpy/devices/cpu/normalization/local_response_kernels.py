"""The compiled local response normalization and its gradient: by vectors of columns, with the sums of rows first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.elementwise.function_kernels import Functions
from dmlpy.devices.cpu.elementwise.program import Code
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.normalization.local_response_plan import LocalResponseParameters
from dmlpy.devices.cpu.simd import simd_of
from dmlpy.devices.cpu.simd_math import SimdMath
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


def build_responses(usual: bool, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a normalization, to be compiled.

    Args:
        usual: whether the exponent beta is 3 / 4.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, write, size, all_of, divide = load_store.load, load_store.store, load_store.size, simd.all_of, simd.divide
    sum_of_squares, power_of, multiply_add = _sum_of_squares(stored, isa), _power(usual, isa), simd.multiply_add
    clear, store, sum_along = _clear(isa), simd.store, _sum_along(isa)

    @jit
    def normalize(p: LocalResponseParameters, source: Any, output: Any, y: Any, count: Any, line: Any) -> None:
        """Normalizes a row of a block."""
        scale, bias, x, target, window = (
            all_of(p.scale),
            all_of(p.bias),
            source + y * p.x_row,
            output + y * p.output_row,
            p.before + p.after,
        )
        if window > 0:
            for at in range(0, count, lanes):
                store(line + (p.before + at) * FLOAT_BYTES, sum_of_squares(p, source + at * size, y, count - at))
        for at in range(0, count, lanes):
            left = count - at
            total = sum_along(line + at * FLOAT_BYTES, window) if window > 0 else sum_of_squares(p, source + at * size, y, left)
            divisor = power_of(multiply_add(scale, total, bias), p.beta)
            write(target + at * size, divide(read(x + at * size, left), divisor), left)

    @jit
    def run(p: LocalResponseParameters, plane: Any, first: Any, last: Any, column: Any, count: Any, scratch: Any) -> None:
        clear(p, scratch)
        source, output = p.x + plane * p.x_plane + column * size, p.output + plane * p.output_plane + column * size
        for y in range(first, last):
            normalize(p, source, output, y, count, scratch)

    return _for_each_block(run)


def build_response_gradient(usual: bool, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a gradient, to be compiled. The arguments are those of `build_responses`."""
    simd, lanes, size = simd_of(isa), isa.lanes, load_store_of(stored, isa).size
    clear, prepare, finish = _clear(isa), _prepared_row(usual, stored, isa), _gradient_row(stored, isa)
    store, sum_of_squares, sum_of_terms = simd.store, _sum_of_squares(stored, isa), _sum_of_terms(isa)

    @jit
    def run(p: LocalResponseParameters, plane: Any, first: Any, last: Any, column: Any, count: Any, scratch: Any) -> None:
        source, incoming = p.x + plane * p.x_plane + column * size, p.incoming + plane * p.incoming_plane + column * size
        output, shares, terms, row = (
            p.output + plane * p.output_plane + column * size,
            scratch + p.shares,
            scratch + p.terms,
            p.pitch * FLOAT_BYTES,
        )
        clear(p, scratch)
        for y in range(first, last):
            if p.before + p.after > 0:
                for at in range(0, count, lanes):
                    store(scratch + (p.before + at) * FLOAT_BYTES, sum_of_squares(p, source + at * size, y, count - at))
            place = (y - first) * row
            prepare(p, source, incoming + y * p.incoming_row, y, count, scratch, shares + place, terms + place)
        clear(p, scratch)
        for y in range(first, last):
            if p.before + p.after > 0:
                for at in range(0, count, lanes):
                    store(scratch + (p.after + at) * FLOAT_BYTES, sum_of_terms(p, terms + at * FLOAT_BYTES, y, first, count - at))
            share = shares + (y - first) * row
            finish(p, source + y * p.x_row, output + y * p.output_row, share, terms, y, first, count, scratch)

    return _for_each_block(run)


def _for_each_block(run: Any) -> TaskBody:
    """Calls run(p, plane, the first and last row, the first column, the number of columns, scratch) for each block."""

    @jit
    def run_blocks(p: LocalResponseParameters, first: Any, last: Any, scratch: Any) -> None:
        for number in range(first, last):
            block, column = number // p.column_blocks, number % p.column_blocks * p.block_columns
            row = block % p.row_blocks * p.block_rows
            count = min(p.block_columns, p.columns - column)
            run(p, block // p.row_blocks, row, min(p.rows, row + p.block_rows), column, count, scratch)

    return share_units(LocalResponseParameters, run_blocks, own_scratch)


def _clear(isa: Isa) -> Any:
    """The kernel `clear(p, line)`, which fills the row of scratch with zeros, if windows have several columns."""
    simd = simd_of(isa)
    store, all_of, lanes = simd.store, simd.all_of, isa.lanes

    @jit
    def clear(p: LocalResponseParameters, line: Any) -> None:
        if p.before + p.after > 0:
            for at in range(0, p.line, lanes):
                store(line + at * FLOAT_BYTES, all_of(_ZERO))

    return clear


def _sum_of_squares(stored: Storage, isa: Isa) -> Any:
    """The kernel `sum_of_squares(p, source, y, left)`: of the rows of a window of a block; lanes beyond `left` are 0."""
    simd, read = simd_of(isa), load_store_of(stored, isa).load
    all_of, multiply_add = simd.all_of, simd.multiply_add

    @jit
    def sum_of_squares(p: LocalResponseParameters, source: Any, y: Any, left: Any) -> Any:
        total = all_of(_ZERO)
        for row in range(max(0, y - p.above), min(p.rows, y + p.below + 1)):
            value = read(source + row * p.x_row, left)
            total = multiply_add(value, value, total)
        return total

    return sum_of_squares


def _sum_of_terms(isa: Isa) -> Any:
    """The kernel `sum_of_terms(p, terms, y, first, left)`: of the rows whose windows have row y; lanes beyond `left` are 0."""
    simd, read = simd_of(isa), load_store_of("float32", isa).load
    all_of, add = simd.all_of, simd.add

    @jit
    def sum_of_terms(p: LocalResponseParameters, terms: Any, y: Any, first: Any, left: Any) -> Any:
        total = all_of(_ZERO)
        for row in range(max(0, y - p.below), min(p.rows, y + p.above + 1)):
            total = add(total, read(terms + (row - first) * p.pitch * FLOAT_BYTES, left))
        return total

    return sum_of_terms


def _sum_along(isa: Isa) -> Any:
    """The kernel `sum_along(at, window)`: for each lane the sum of an element and the next `window` ones of a row of scratch."""
    load, add = simd_of(isa).load, simd_of(isa).add

    @jit
    def sum_along(at: Any, window: Any) -> Any:
        total = load(at)
        for column in range(1, window + 1):
            total = add(total, load(at + column * FLOAT_BYTES))
        return total

    return sum_along


def _power(usual: bool, isa: Isa) -> Any:
    """The intrinsic `power_of(divisors, beta)`: to the power of a number, which is 3 / 4 if `usual`."""
    simd = simd_of(isa)

    @intrinsic
    def power_of(divisors: Any, beta: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            divisors, beta = arguments
            math = SimdMath(builder, simd)
            if usual:
                root = math.square_root(divisors)
                return math.multiply(root, math.square_root(root))
            return Functions(math, builder).formulas()[Code.POWER](divisors, simd.repeated(builder, beta), None, None)

        return simd.kind(simd.kind, types.float32), generate

    return power_of


def _prepared_row(usual: bool, stored: Storage, isa: Isa) -> Any:
    """The kernel of a row of a gradient that writes the divided incoming elements, and what is summed over windows."""
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, size, all_of, divide, multiply = load_store.load, load_store.size, simd.all_of, simd.divide, simd.multiply
    sum_of_squares, power_of, multiply_add = _sum_of_squares(stored, isa), _power(usual, isa), simd.multiply_add
    store, sum_along = simd.store, _sum_along(isa)

    @jit
    def prepare(p: LocalResponseParameters, source: Any, incoming: Any, y: Any, count: Any, line: Any, shares: Any, terms: Any) -> None:
        scale, bias, x, window = all_of(p.scale), all_of(p.bias), source + y * p.x_row, p.before + p.after
        for at in range(0, count, lanes):
            left, place = count - at, at * FLOAT_BYTES
            total = sum_along(line + place, window) if window > 0 else sum_of_squares(p, source + at * size, y, left)
            divisor, gradient = multiply_add(scale, total, bias), read(incoming + at * size, left)
            power = power_of(divisor, p.beta)
            next_power = multiply(power, divisor) if usual else power_of(divisor, p.beta + _ONE)
            store(shares + place, divide(gradient, power))
            store(terms + place, divide(multiply(gradient, read(x + at * size, left)), next_power))

    return prepare


def _gradient_row(stored: Storage, isa: Isa) -> Any:
    """The kernel of a row of a gradient that writes the results."""
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, write, size, all_of, multiply = load_store.load, load_store.store, load_store.size, simd.all_of, simd.multiply
    load, subtract, sum_of_terms, sum_along = simd.load, simd.subtract, _sum_of_terms(isa), _sum_along(isa)

    @jit
    def finish(p: LocalResponseParameters, x: Any, output: Any, shares: Any, terms: Any, y: Any, first: Any, count: Any, line: Any) -> None:
        factor, window = all_of(p.factor), p.before + p.after
        for at in range(0, count, lanes):
            left, place = count - at, at * FLOAT_BYTES
            through = sum_along(line + place, window) if window > 0 else sum_of_terms(p, terms + place, y, first, left)
            value = multiply(multiply(factor, read(x + at * size, left)), through)
            write(output + at * size, subtract(load(shares + place), value), left)

    return finish
