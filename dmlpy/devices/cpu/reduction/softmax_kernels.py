"""The compiled softmax and logarithms of sums of powers of rows or columns, and of rows the normalizations by mean or norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.lane_kernels import horizontal_maximum, horizontal_sum, lane_selector, maximum_of
from dmlpy.devices.cpu.load_store import ir_load_store_of, load_store_of
from dmlpy.devices.cpu.reduction.kernels import for_each_unit, for_each_unit_in_place, logarithm_of, run_for_each_unit
from dmlpy.devices.cpu.reduction.plan import CHUNK, CHUNK_ROWS, GroupParameters, Layout
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, simd_of
from dmlpy.devices.cpu.simd_math import SimdMath, function_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_ZERO, _LOWEST, _INFINITY = np.float32(0.0), np.float32(-np.inf), np.float32(np.inf)


def build_softmax(layout: Layout, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a softmax or its logarithm, to be compiled.

    Args:
        layout: the layout of the entries.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    if layout == "rows":
        return run_for_each_unit(_softmax_row(stored, isa), stored, isa)
    return for_each_unit(_softmax_columns(isa), layout, stored, isa)


def build_log_sum_exp(layout: Layout, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the logarithms of sums of powers, to be compiled. The arguments are those of `build_softmax`."""
    unit = _log_sum_exp_of_row(stored, isa) if layout == "rows" else _log_sum_exp_of_columns(stored, isa)
    return for_each_unit_in_place(unit, load_store_of(stored, isa).size, isa)


def _log_sum_exp_of_row(stored: Storage, isa: Isa) -> Any:
    load_store, all_of = load_store_of(stored, isa), simd_of(isa).all_of
    one, set_one, size = load_store.load_one, load_store.store_one, load_store.size
    largest_of_row, sum_of_powers = _largest_of_row(stored, isa), _sum_of_powers(stored, isa)

    @jit
    def infinity_or_nan(p: GroupParameters, x: Any) -> Any:
        result = _INFINITY
        for outer in range(p.outer_size):
            for at in range(p.entry_size):
                value = one(x + outer * p.x_outer + at * size)
                if value != value:
                    result = value
        return result

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        largest, total = _LOWEST, 0.0
        for outer in range(p.outer_size):
            largest = max(largest, largest_of_row(x + outer * p.x_outer, p.entry_size))
        if largest == _INFINITY:
            set_one(y, infinity_or_nan(p, x))
        else:
            limit = _ZERO if largest == _LOWEST else largest  # their difference would be NaN
            for outer in range(p.outer_size):
                row = x + outer * p.x_outer
                for first in range(0, p.entry_size, CHUNK):
                    total += sum_of_powers(p, row + first * size, y, min(p.entry_size - first, CHUNK), all_of(limit))
            set_one(y, np.float32(math.log(total) + np.float64(limit)))

    return unit


def _log_sum_exp_of_columns(stored: Storage, isa: Isa) -> Any:
    simd, load_store, exp, larger = simd_of(isa), load_store_of(stored, isa), function_of("exp_of_negative", isa), maximum_of(isa)
    add, subtract, all_of, read, write = simd.add, simd.subtract, simd.all_of, load_store.load, load_store.store
    finite_or, log = _finite_or(isa), logarithm_of(isa)

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        largest, total = all_of(_LOWEST), all_of(_ZERO)
        for outer in range(p.outer_size):
            for at in range(p.entry_size):
                largest = larger(largest, read(x + outer * p.x_outer + at * p.x_entry, left))
        limit = finite_or(largest, largest, all_of(_ZERO))
        for outer in range(p.outer_size):
            for first in range(0, p.entry_size, CHUNK_ROWS):
                partial = all_of(_ZERO)
                for at in range(first, min(p.entry_size, first + CHUNK_ROWS)):
                    partial = add(partial, exp(subtract(read(x + outer * p.x_outer + at * p.x_entry, left), limit)))
                total = add(total, partial)
        write(y, finite_or(largest, add(log(total), limit), largest), left)

    return unit


def _finite_or(isa: Isa) -> Any:
    """The kernel `finite_or(x, y, z)`: of each lane y if x is finite, else z."""
    kind = simd_of(isa).kind

    @intrinsic
    def finite_or(x: Any, y: Any, z: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            math = SimdMath(builder, simd_of(isa))
            return math.select(math.less(math.magnitude(arguments[0]), math.constant(np.inf)), *arguments[1:])

        return kind(kind, kind, kind), generate

    return finite_or


def build_normalization(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a mean-variance normalization of rows, to be compiled. The arguments are those of `build_softmax`."""
    return for_each_unit(_normalized_row(stored, isa), "rows", stored, isa)


_VECTORS = 4
"""Vectors of a turn of a loop over a row: so many chains of dependent instructions are in registers."""


def _largest_of_row(stored: Storage, isa: Isa) -> Any:
    """The kernel `largest_of_row(row, size)`: the largest of contiguous entries; it may miss a NaN."""
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, element, all_of, running_maximum, turn = load_store.load, load_store.size, simd.all_of, simd.running_maximum, _VECTORS * isa.lanes
    select_first, largest_of = lane_selector(isa), horizontal_maximum(isa)
    vector = lanes * element

    @jit
    def largest_of_row(row: Any, size: Any) -> Any:
        whole = size // turn * turn
        a, b, c, d = all_of(_LOWEST), all_of(_LOWEST), all_of(_LOWEST), all_of(_LOWEST)
        for at in range(0, whole, turn):
            position = row + at * element
            a, b = running_maximum(read(position, lanes), a), running_maximum(read(position + vector, lanes), b)
            c, d = running_maximum(read(position + 2 * vector, lanes), c), running_maximum(read(position + 3 * vector, lanes), d)
        for at in range(whole, size, lanes):
            left = size - at
            value = read(row + at * element, left)
            a = running_maximum(value if left >= lanes else select_first(left, value, all_of(_LOWEST)), a)
        return largest_of(running_maximum(running_maximum(a, b), running_maximum(c, d)))

    return largest_of_row


def _sum_of_powers(stored: Storage, isa: Isa) -> Any:
    """The kernel `sum_of_powers(p, row, to, size, limit)`: the sum of exp(x - limit) of contiguous entries, at most `CHUNK`."""
    simd, load_store, exp = simd_of(isa), load_store_of(stored, isa), function_of("exp_of_negative", isa)
    add, subtract, all_of, store = simd.add, simd.subtract, simd.all_of, simd.store
    read, element, lanes, turn = load_store.load, load_store.size, isa.lanes, _VECTORS * isa.lanes
    write, select_first, sum_of = _power_writer(stored, isa), lane_selector(isa), horizontal_sum(isa)
    vector = lanes * element

    @jit
    def sum_of_powers(p: GroupParameters, row: Any, to: Any, size: Any, limit: Any) -> Any:
        """Writes the powers, as floats, unless their logarithms are asked for."""
        whole = size // turn * turn
        a, b, c, d = all_of(_ZERO), all_of(_ZERO), all_of(_ZERO), all_of(_ZERO)
        for at in range(0, whole, turn):
            source, target = row + at * element, to + at * FLOAT_BYTES
            e, f = exp(subtract(read(source, lanes), limit)), exp(subtract(read(source + vector, lanes), limit))
            g = exp(subtract(read(source + 2 * vector, lanes), limit))
            h = exp(subtract(read(source + 3 * vector, lanes), limit))
            if p.log == 0:
                store(target, e)
                store(target + lanes * FLOAT_BYTES, f)
                store(target + 2 * lanes * FLOAT_BYTES, g)
                store(target + 3 * lanes * FLOAT_BYTES, h)
            a, b, c, d = add(a, e), add(b, f), add(c, g), add(d, h)
        for at in range(whole, size, lanes):
            left = size - at
            power = exp(subtract(read(row + at * element, left), limit))
            if p.log == 0:
                write(to + at * FLOAT_BYTES, power, left)
            a = add(a, power if left >= lanes else select_first(left, power, all_of(_ZERO)))
        return np.float64(sum_of(add(add(a, b), add(c, d))))

    return sum_of_powers


def _power_writer(stored: Storage, isa: Isa) -> Any:
    """Writes a row's last powers: in scratch, where those of elements of 2 bytes are, whole vectors, which take less time."""
    if stored == "float32":
        return load_store_of(stored, isa).store
    store = simd_of(isa).store

    @jit
    def write(address: Any, value: Any, left: Any) -> None:
        store(address, value)

    return write


def _softmax_row(stored: Storage, isa: Isa) -> Any:
    """The unit of a row, whose powers are in the output if that is of FLOAT32, else in scratch."""
    simd, load_store, floats, lanes = simd_of(isa), load_store_of(stored, isa), load_store_of("float32", isa), isa.lanes
    subtract, multiply, all_of = simd.subtract, simd.multiply, simd.all_of
    read, write, element, read_power = load_store.load, load_store.store, load_store.size, floats.load
    largest_of_row, sum_of_powers = _largest_of_row(stored, isa), _sum_of_powers(stored, isa)
    is_in_place = stored == "float32"

    @jit
    def unit(p: GroupParameters, scratch: Any, x: Any, y: Any, group: Any, group1: Any, left: Any) -> None:
        size, largest = p.entry_size, _LOWEST
        powers = y if is_in_place else scratch
        pitch = p.y_outer if is_in_place else (size + lanes - 1) // lanes * (lanes * FLOAT_BYTES)
        for outer in range(p.outer_size):
            largest = max(largest, largest_of_row(x + outer * p.x_outer, size))
        # A NaN that the maximum missed makes the sum NaN, and so do differences of infinities.
        limit, total = all_of(largest), 0.0
        for outer in range(p.outer_size):
            row, to = x + outer * p.x_outer, powers + outer * pitch
            for first in range(0, size, CHUNK):
                total += sum_of_powers(p, row + first * element, to + first * FLOAT_BYTES, min(size - first, CHUNK), limit)
        of_total = all_of(np.float32(math.log(total) if p.log != 0 else 1.0 / total))
        whole = size // lanes * lanes
        for outer in range(p.outer_size):
            row, to, row_powers = x + outer * p.x_outer, y + outer * p.y_outer, powers + outer * pitch
            if p.log == 0:
                for at in range(0, whole, lanes):
                    write(to + at * element, multiply(read_power(row_powers + at * FLOAT_BYTES, lanes), of_total), lanes)
            else:
                for at in range(0, whole, lanes):
                    write(to + at * element, subtract(subtract(read(row + at * element, lanes), limit), of_total), lanes)
            if whole < size:
                position, rest = whole * element, size - whole
                if p.log == 0:
                    write(to + position, multiply(read_power(row_powers + whole * FLOAT_BYTES, rest), of_total), rest)
                else:
                    write(to + position, subtract(subtract(read(row + position, rest), limit), of_total), rest)

    return unit


def _softmax_columns(isa: Isa) -> Any:
    simd, load_store, exp = simd_of(isa), load_store_of("float32", isa), function_of("exp_of_negative", isa)
    add, subtract, divide, all_of, running_maximum = simd.add, simd.subtract, simd.divide, simd.all_of, simd.running_maximum
    read, write, log = load_store.load, load_store.store, logarithm_of(isa)

    @jit
    def unit(
        p: GroupParameters, x: Any, x_outer: Any, x_entry: Any, y: Any, y_outer: Any, y_entry: Any, group: Any, group1: Any, left: Any
    ) -> None:
        limit, total = all_of(_LOWEST), all_of(_ZERO)
        for outer in range(p.outer_size):
            for at in range(p.entry_size):
                limit = running_maximum(read(x + outer * x_outer + at * x_entry, left), limit)
        for outer in range(p.outer_size):
            for first in range(0, p.entry_size, CHUNK_ROWS):
                partial = all_of(_ZERO)
                for at in range(first, min(p.entry_size, first + CHUNK_ROWS)):
                    power = exp(subtract(read(x + outer * x_outer + at * x_entry, left), limit))
                    if p.log == 0:
                        write(y + outer * y_outer + at * y_entry, power, left)
                    partial = add(partial, power)
                total = add(total, partial)
        if p.log != 0:
            total = log(total)
        for outer in range(p.outer_size):
            for at in range(p.entry_size):
                to = y + outer * y_outer + at * y_entry
                if p.log == 0:
                    write(to, divide(read(to, left), total), left)
                else:
                    value = read(x + outer * x_outer + at * x_entry, left)
                    write(to, subtract(subtract(value, limit), total), left)

    return unit


def _moments(isa: Isa) -> Any:
    """The kernel `moments(p, x, x_outer, centre)`: the sums of x - centre and of its square over a row's entries."""
    simd, read, lanes = simd_of(isa), load_store_of("float32", isa).load, isa.lanes
    add, subtract, multiply_add, all_of = simd.add, simd.subtract, simd.multiply_add, simd.all_of
    select_first, sum_of = lane_selector(isa), horizontal_sum(isa)

    @jit
    def moments(p: GroupParameters, x: Any, x_outer: Any, centre: Any) -> Any:
        size, first_sum, second_sum, centres = p.entry_size, 0.0, 0.0, all_of(centre)
        for outer in range(p.outer_size):
            row = x + outer * x_outer
            for first in range(0, size, CHUNK):
                a0, a1, b0, b1 = all_of(_ZERO), all_of(_ZERO), all_of(_ZERO), all_of(_ZERO)
                last = min(size, first + CHUNK)
                whole = first + (last - first) // (2 * lanes) * (2 * lanes)
                for at in range(first, whole, 2 * lanes):
                    v0 = subtract(read(row + at * FLOAT_BYTES, lanes), centres)
                    v1 = subtract(read(row + (at + lanes) * FLOAT_BYTES, lanes), centres)
                    a0, a1, b0, b1 = add(a0, v0), add(a1, v1), multiply_add(v0, v0, b0), multiply_add(v1, v1, b1)
                for at in range(whole, last, lanes):
                    value = select_first(last - at, subtract(read(row + at * FLOAT_BYTES, last - at), centres), all_of(_ZERO))
                    a0, b0 = add(a0, value), multiply_add(value, value, b0)
                first_sum += np.float64(sum_of(add(a0, a1)))
                second_sum += np.float64(sum_of(add(b0, b1)))
        return first_sum, second_sum

    return moments


def _normalize(stored: Storage, isa: Isa) -> Any:
    """The kernel `normalize(row, to, at, left, statistics, scales, biases)`, which writes a vector of results from the entry `at` on.

    `statistics` are vectors of the mean, the factor, the offset and the least result; `scales` and `biases` are whether there are some,
    their address, and their step, 0 if one is for all entries.
    """
    simd, load_store, operands = simd_of(isa), load_store_of("float32", isa), load_store_of(stored, isa)
    read_operand, operand_at, operand_size = operands.load, operands.load_one, operands.size
    add, subtract, multiply, multiply_add = simd.add, simd.subtract, simd.multiply, simd.multiply_add
    at_least, all_of, read, write = simd.at_least, simd.all_of, load_store.load, load_store.store

    @jit
    def values(address: Any, step: Any, at: Any, left: Any) -> Any:
        """A vector of a tensor whose entries are contiguous or, with a step of 0, are one."""
        return all_of(operand_at(address)) if step == 0 else read_operand(address + at * operand_size, left)

    @jit
    def normalize(row: Any, to: Any, at: Any, left: Any, statistics: Any, scales: Any, biases: Any) -> None:
        (centres, factors, offsets, low), (has_scale, scale, scale_step), (has_bias, bias, bias_step) = statistics, scales, biases
        value = multiply_add(subtract(read(row + at * FLOAT_BYTES, left), centres), factors, offsets)
        if has_scale:
            value = multiply(value, values(scale, scale_step, at, left))
        if has_bias:
            value = add(value, values(bias, bias_step, at, left))
        write(to + at * FLOAT_BYTES, at_least(value, low), left)

    return normalize


def _normalized_row(stored: Storage, isa: Isa) -> Any:
    """The unit of a row; `stored` is the type of scale and bias."""
    all_of, moments, normalize, lanes = simd_of(isa).all_of, _moments(isa), _normalize(stored, isa), isa.lanes

    @jit
    def unit(
        p: GroupParameters, x: Any, x_outer: Any, x_entry: Any, y: Any, y_outer: Any, y_entry: Any, group: Any, group1: Any, left: Any
    ) -> None:
        scale = p.scale + group * p.scale_group + group1 * p.scale_group1
        bias = p.bias + group * p.bias_group + group1 * p.bias_group1
        mean, rest, factor = _ZERO, 0.0, 1.0
        if p.centres != 0:
            mean = np.float32(moments(p, x, x_outer, _ZERO)[0] / p.count)
        first, second = moments(p, x, x_outer, mean)
        if p.centres != 0:
            rest = first / p.count  # the rounding error of the mean, which matters for entries far from 0
        if p.scales != 0:
            factor = 1.0 / math.sqrt(max(second / p.count - rest * rest, 0.0) + p.epsilon)
            if second != second:  # `max` passes over NaN
                factor = second
        statistics = all_of(mean), all_of(np.float32(factor)), all_of(np.float32(-rest * factor)), all_of(p.low)
        size = p.entry_size
        whole = size // lanes * lanes
        # Read once: LLVM cannot know that the loop does not write the parameters.
        has_scale, has_bias, scale_entry, bias_entry = p.scale != 0, p.bias != 0, p.scale_entry, p.bias_entry
        for outer in range(p.outer_size):
            row, to = x + outer * x_outer, y + outer * y_outer
            row_scale, row_bias = scale + outer * p.scale_outer, bias + outer * p.bias_outer
            scales, biases = (has_scale, row_scale, scale_entry), (has_bias, row_bias, bias_entry)
            for at in range(0, whole, lanes):
                normalize(row, to, at, lanes, statistics, scales, biases)
            if whole < size:
                normalize(row, to, whole, size - whole, statistics, scales, biases)

    return unit


def build_lp_normalization(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a normalization, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store, lanes = simd_of(isa), load_store_of(stored, isa), isa.lanes
    read, write, one, size = load_store.load, load_store.store, load_store.load_one, load_store.size
    divide, all_of = simd.divide, simd.all_of
    sum_of_squares, sum_of_magnitudes = (_sum(magnitudes, stored, isa) for magnitudes in (False, True))

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        count, magnitudes = p.entry_size, p.magnitudes
        whole, total = count // lanes * lanes, 0.0
        if whole > 0:
            total = sum_of_magnitudes(x, whole) if magnitudes != 0 else sum_of_squares(x, whole)
        for at in range(whole, count):
            value = abs(np.float64(one(x + at * size)))
            total += value if magnitudes != 0 else value * value
        norm = np.float32(total if magnitudes != 0 else math.sqrt(total))
        least = np.float32(p.epsilon)
        divisor = all_of(least if norm < least else norm)  # NaN stays NaN
        for at in range(0, count, lanes):
            write(y + at * size, divide(read(x + at * size, count - at), divisor), count - at)

    return for_each_unit_in_place(unit, size, isa)


def _sum(magnitudes: bool, stored: Storage, isa: Isa) -> Any:
    """The intrinsic `add_up(address, count)`: the sum of magnitudes or squares of whole vectors, at least one, in double precision."""
    access, lanes = ir_load_store_of(stored, isa), isa.lanes
    double = ir.DoubleType()
    doubles = ir.VectorType(double, lanes)

    @intrinsic
    def add_up(address: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            address, count = arguments
            zeros = ir.Constant(doubles, [0.0] * lanes)
            loop = Loop(builder, [ADDRESS(0), zeros])
            at, total = loop.values
            value = builder.fpext(access.load(builder, builder.add(address, builder.mul(at, ADDRESS(access.size)))), doubles)
            if magnitudes:
                negative = builder.fcmp_ordered("<", value, zeros)
                value = builder.select(negative, builder.fneg(value), value)
            else:
                value = builder.fmul(value, value)
            total, following = builder.fadd(total, value), builder.add(at, ADDRESS(lanes))
            loop.repeat_while(builder.icmp_signed("<", following, count), [following, total])
            sum_of_lanes = builder.extract_element(total, INDEX(0))
            for lane in range(1, lanes):
                sum_of_lanes = builder.fadd(sum_of_lanes, builder.extract_element(total, INDEX(lane)))
            return sum_of_lanes

        return types.float64(types.int64, types.int64), generate

    return add_up
