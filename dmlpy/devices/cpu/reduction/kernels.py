"""The compiled functions of groups: softmax of rows or columns, and mean-variance normalization of rows.

A thread reads a group several times while it is in a cache. Sums do not depend on the number of threads: one thread has the whole group.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.reduction.plan import CHUNK, CHUNK_ROWS, GroupParameters, Layout
from dmlpy.devices.cpu.simd import INDEX, lanes_below, simd_of
from dmlpy.devices.cpu.simd_math import function_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.thread_pool import TaskBody


@cache
def lane_selector(isa: Isa) -> Any:
    """The kernel `select_first(count, x, other)`: the first `count` lanes of x and the others of `other`."""
    kind = simd_of(isa).kind

    @intrinsic
    def select_first(count: Any, x: Any, other: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            count, x, other = arguments
            return builder.select(lanes_below(builder, count, isa.lanes), x, other)

        return kind(types.int64, kind, kind), generate

    return select_first


@cache
def horizontal_sum(isa: Isa) -> Any:
    """The kernel of a vector that adds up its lanes."""
    return _horizontal(isa, lambda builder, x, y: builder.fadd(x, y))


@cache
def horizontal_maximum(isa: Isa) -> Any:
    """The kernel of a vector that returns its largest lane; it may miss a NaN."""
    return _horizontal(isa, lambda builder, x, y: builder.select(builder.fcmp_ordered("<", x, y), y, x))


def _horizontal(isa: Isa, combine: Callable[[Any, Any, Any], Any]) -> Any:
    simd, lanes = simd_of(isa), isa.lanes

    @intrinsic
    def reduce_lanes(x: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            (x,), half = arguments, lanes // 2
            while half:
                order = ir.Constant(ir.VectorType(INDEX, lanes), [(lane + half) % lanes for lane in range(lanes)])
                x = combine(builder, x, builder.shuffle_vector(x, x, order))
                half //= 2
            return builder.extract_element(x, INDEX(0))

        return types.float32(simd.kind), generate

    return reduce_lanes


_ZERO, _LOWEST = np.float32(0.0), np.float32(-np.inf)


def build_softmax(layout: Layout, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a softmax or its logarithm, to be compiled.

    Args:
        layout: the layout of the entries.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    return for_each_unit(_softmax_row(isa) if layout == "rows" else _softmax_columns(isa), layout, stored, isa)


def build_normalization(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a mean-variance normalization of rows, to be compiled. The arguments are those of `build_softmax`."""
    return for_each_unit(_normalized_row(stored, isa), "rows", stored, isa)


def for_each_unit(unit: Any, layout: Layout, stored: Storage, isa: Isa) -> TaskBody:
    """Calls unit(p, x, x_outer, x_entry, y, y_outer, y_entry, group, group1, left) for each unit.

    x and y are the addresses of its first entries, with the bytes to the next ones along both axes; `left` is the number of groups of a
    vector in columns.
    """
    run = _in_place(unit) if stored == "float32" else _through_floats(unit, layout, stored, isa)
    vector, lanes = isa.lanes * load_store_of(stored, isa).size, isa.lanes

    @jit
    def run_units(p: GroupParameters, first: Any, last: Any, scratch: Any) -> None:
        for number in range(first, last):
            group = number // p.columns
            group, group1, column = group // p.group_size, group % p.group_size, number % p.columns
            x = p.x + group * p.x_group + group1 * p.x_group1 + column * vector
            y = p.y + group * p.y_group + group1 * p.y_group1 + column * vector
            run(p, scratch, x, y, group, group1, p.inner - column * lanes)

    return share_units(GroupParameters, run_units, own_scratch)


def _in_place(unit: Any) -> Any:
    """Runs a unit on FLOAT32."""

    @jit
    def run(p: GroupParameters, scratch: Any, x: Any, y: Any, group: Any, group1: Any, left: Any) -> None:
        unit(p, x, p.x_outer, p.x_entry, y, p.y_outer, p.y_entry, group, group1, left)

    return run


def _through_floats(unit: Any, layout: Layout, stored: Storage, isa: Isa) -> Any:
    """Runs a unit on elements of 2 bytes: on a copy of its entries in FLOAT32, in scratch, from where the results are rounded once."""
    own, floats, lanes = load_store_of(stored, isa), load_store_of("float32", isa), isa.lanes
    read, write, size, load, store = own.load, own.store, own.size, floats.load, floats.store
    vector = lanes * FLOAT_BYTES

    @jit
    def run_row(p: GroupParameters, scratch: Any, x: Any, y: Any, group: Any, group1: Any, left: Any) -> None:
        count = p.entry_size
        pitch = (count + lanes - 1) // lanes * vector
        for outer in range(p.outer_size):
            source, to = x + outer * p.x_outer, scratch + outer * pitch
            for at in range(0, count, lanes):
                store(to + at * FLOAT_BYTES, read(source + at * size, count - at), count - at)
        unit(p, scratch, pitch, FLOAT_BYTES, scratch, pitch, FLOAT_BYTES, group, group1, left)
        for outer in range(p.outer_size):
            source, to = scratch + outer * pitch, y + outer * p.y_outer
            for at in range(0, count, lanes):
                write(to + at * size, load(source + at * FLOAT_BYTES, count - at), count - at)

    @jit
    def run_columns(p: GroupParameters, scratch: Any, x: Any, y: Any, group: Any, group1: Any, left: Any) -> None:
        pitch = p.entry_size * vector
        for outer in range(p.outer_size):
            for at in range(p.entry_size):
                store(scratch + outer * pitch + at * vector, read(x + outer * p.x_outer + at * p.x_entry, left), left)
        unit(p, scratch, pitch, vector, scratch, pitch, vector, group, group1, left)
        for outer in range(p.outer_size):
            for at in range(p.entry_size):
                write(y + outer * p.y_outer + at * p.y_entry, load(scratch + outer * pitch + at * vector, left), left)

    return run_row if layout == "rows" else run_columns


def _softmax_row(isa: Isa) -> Any:
    simd, load_store, exp = simd_of(isa), load_store_of("float32", isa), function_of("exp", isa)
    add, subtract, multiply, all_of, at_least = simd.add, simd.subtract, simd.multiply, simd.all_of, simd.at_least
    read, write, load, lanes = load_store.load, load_store.store, simd.load, isa.lanes
    select_first, sum_of, largest_of = lane_selector(isa), horizontal_sum(isa), horizontal_maximum(isa)

    @jit
    def unit(
        p: GroupParameters,
        x: Any,
        x_outer: Any,
        x_entry: Any,
        y: Any,
        y_outer: Any,
        y_entry: Any,
        group: Any,
        group1: Any,
        left: Any,
    ) -> None:
        size = p.entry_size
        whole, rest = size // lanes * lanes, size % lanes
        largest = all_of(_LOWEST)
        for outer in range(p.outer_size):
            row = x + outer * x_outer
            for at in range(0, whole, lanes):
                largest = at_least(load(row + at * FLOAT_BYTES), largest)
            if rest > 0:
                value = select_first(rest, read(row + whole * FLOAT_BYTES, rest), all_of(_LOWEST))
                largest = at_least(value, largest)
        # A NaN that the maximum missed makes the sum NaN, and so do differences of infinities.
        limit, total = all_of(largest_of(largest)), 0.0
        for outer in range(p.outer_size):
            row, to = x + outer * x_outer, y + outer * y_outer
            for first in range(0, size, CHUNK):
                partial = all_of(_ZERO)
                for at in range(first, min(size, first + CHUNK), lanes):
                    position, left = at * FLOAT_BYTES, size - at
                    power = exp(subtract(read(row + position, left), limit))
                    if p.log == 0:
                        write(to + position, power, left)
                    partial = add(partial, power if left >= lanes else select_first(left, power, all_of(_ZERO)))
                total += np.float64(sum_of(partial))
        factor, log_total = all_of(np.float32(1.0 / total)), all_of(np.float32(math.log(total)))
        for outer in range(p.outer_size):
            row, to = x + outer * x_outer, y + outer * y_outer
            for at in range(0, size, lanes):
                position, left = at * FLOAT_BYTES, size - at
                if p.log == 0:
                    write(to + position, multiply(read(to + position, left), factor), left)
                else:
                    write(to + position, subtract(subtract(read(row + position, left), limit), log_total), left)

    return unit


def _softmax_columns(isa: Isa) -> Any:
    simd, load_store, exp = simd_of(isa), load_store_of("float32", isa), function_of("exp", isa)
    add, subtract, divide, all_of, at_least = simd.add, simd.subtract, simd.divide, simd.all_of, simd.at_least
    read, write, lanes, lane_of, with_lane = load_store.load, load_store.store, isa.lanes, simd.lane, simd.with_lane

    @jit
    def unit(
        p: GroupParameters,
        x: Any,
        x_outer: Any,
        x_entry: Any,
        y: Any,
        y_outer: Any,
        y_entry: Any,
        group: Any,
        group1: Any,
        left: Any,
    ) -> None:
        limit, total = all_of(_LOWEST), all_of(_ZERO)
        for outer in range(p.outer_size):
            for at in range(p.entry_size):
                limit = at_least(read(x + outer * x_outer + at * x_entry, left), limit)
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
            for lane in range(lanes):
                total = with_lane(total, lane, np.float32(math.log(lane_of(total, lane))))
        for outer in range(p.outer_size):
            for at in range(p.entry_size):
                to = y + outer * y_outer + at * y_entry
                if p.log == 0:
                    write(to, divide(read(to, left), total), left)
                else:
                    value = read(x + outer * x_outer + at * x_entry, left)
                    write(to, subtract(subtract(value, limit), total), left)

    return unit


def _normalized_row(stored: Storage, isa: Isa) -> Any:
    """The unit of a row; `stored` is the type of scale and bias."""
    simd, load_store, operands = simd_of(isa), load_store_of("float32", isa), load_store_of(stored, isa)
    read_operand, operand_at, operand_size = operands.load, operands.load_one, operands.size
    add, subtract, multiply, all_of = simd.add, simd.subtract, simd.multiply, simd.all_of
    multiply_add, at_least, read, write, lanes = simd.multiply_add, simd.at_least, load_store.load, load_store.store, isa.lanes
    select_first, sum_of = lane_selector(isa), horizontal_sum(isa)

    @jit
    def moments(p: GroupParameters, x: Any, x_outer: Any, centre: Any) -> Any:
        """The sums of x - centre and of its square."""
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

    @jit
    def values(address: Any, step: Any, at: Any, left: Any) -> Any:
        """A vector of a tensor whose entries are contiguous or, with a step of 0, are one."""
        return all_of(operand_at(address)) if step == 0 else read_operand(address + at * operand_size, left)

    @jit
    def unit(
        p: GroupParameters,
        x: Any,
        x_outer: Any,
        x_entry: Any,
        y: Any,
        y_outer: Any,
        y_entry: Any,
        group: Any,
        group1: Any,
        left: Any,
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
        centres, factors, offsets = all_of(mean), all_of(np.float32(factor)), all_of(np.float32(-rest * factor))
        low = all_of(p.low)
        for outer in range(p.outer_size):
            row, to = x + outer * x_outer, y + outer * y_outer
            row_scale, row_bias = scale + outer * p.scale_outer, bias + outer * p.bias_outer
            for at in range(0, p.entry_size, lanes):
                position, left = at * FLOAT_BYTES, p.entry_size - at
                value = multiply_add(subtract(read(row + position, left), centres), factors, offsets)
                if p.scale != 0:
                    value = multiply(value, values(row_scale, p.scale_entry, at, left))
                if p.bias != 0:
                    value = add(value, values(row_bias, p.bias_entry, at, left))
                write(to + position, at_least(value, low), left)

    return unit
