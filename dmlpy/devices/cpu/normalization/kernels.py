"""The compiled passes of batch normalization: sums over each group, coefficients, and y or dx from an element and its group's.

Sums are of x - centre and its square, or in a gradient of dy, of dy * (x - centre) and of x - centre. Each chunk has sums
of its own, which the plan adds up in float64; so results do not depend on the number of threads. The coefficients from known statistics
are those of `devices/numpy/normalization/forward.py`, which explains them, with the same operations in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.normalization.plan import (
    BLOCK_ROWS,
    CHUNK_ROWS,
    BatchNormalizationParameters,
    BatchStatisticsParameters,
    CoefficientParameters,
    EntryLayout,
    GradientStatisticsParameters,
    GroupSumsParameters,
    KnownStatisticsParameters,
)
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, float_at, set_float, set_integer, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles
from dmlpy.devices.numpy.normalization.common import FOLDED_SHARE, LARGEST_SHARE

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_INFINITY, _NAN = math.inf, math.nan
_LARGEST = float(np.finfo(np.float32).max)


def build_sums(layout: EntryLayout, gradient: bool, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the sums, to be compiled.

    Args:
        layout: the layout of the entries.
        gradient: whether they are those of a gradient.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    chunk = _plane_sums(gradient, stored, isa) if layout == "planes" else _row_sums(gradient, stored, isa)
    return _for_each_chunk(layout, chunk)


def build_results(layout: EntryLayout, gradient: bool, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of y, or of dx in a gradient, to be compiled. The arguments are those of `build_sums`."""
    chunk = _plane_results(gradient, stored, isa) if layout == "planes" else _row_results(gradient, stored, isa)
    return _for_each_chunk(layout, chunk)


def _for_each_chunk(layout: EntryLayout, chunk: Any) -> TaskBody:
    """Calls chunk(p, outer, group, first, last, number, scratch) for each chunk: a part of a plane, or of the rows."""

    @jit
    def run_planes(p: BatchNormalizationParameters, tile: Any, scratch: Any) -> Any:
        groups, inner, chunks, count = p.groups, p.inner, p.chunks, p.outer * p.groups * p.chunks
        begin = count * tile // p.tiles
        plane, part = begin // chunks, begin % chunks
        outer, group = plane // groups, plane % groups
        for number in range(begin, count * (tile + 1) // p.tiles):
            first, last = 0, inner
            if chunks > 1:  # a division takes longer than a small plane
                first, last = inner * part // chunks, inner * (part + 1) // chunks
            chunk(p, outer, group, first, last, number, scratch)
            part += 1
            if part == chunks:
                part = 0
                group += 1
            if group == groups:
                group = 0
                outer += 1
        return scratch

    @jit
    def run_rows(p: BatchNormalizationParameters, tile: Any, scratch: Any) -> Any:
        for number in range(p.chunks * tile // p.tiles, p.chunks * (tile + 1) // p.tiles):
            first = number * CHUNK_ROWS
            chunk(p, 0, 0, first, min(p.outer, first + CHUNK_ROWS), number, scratch)
        return scratch

    run_tile = run_planes if layout == "planes" else run_rows
    return share_tiles(BatchNormalizationParameters, run_tile, own_scratch)


def _plane_sums(gradient: bool, stored: Storage, isa: Isa) -> Any:
    simd, load_store = simd_of(isa), load_store_of(stored, isa)
    add, subtract, multiply_add, all_of = simd.add, simd.subtract, simd.multiply_add, simd.all_of
    store, load_some, read, element, lanes = simd.store, simd.load_some, load_store.load, load_store.size, isa.lanes
    size, zero = simd.size, np.float32(0.0)

    @jit
    def chunk(p: BatchNormalizationParameters, outer: Any, group: Any, first: Any, last: Any, number: Any, scratch: Any) -> None:
        x = p.x + outer * p.x_outer + group * p.x_group
        dy = p.dy + outer * p.dy_outer + group * p.dy_group
        centre = all_of(float_at(p.centre + group * FLOAT_BYTES))
        a0, a1, b0, b1, c0, c1 = all_of(zero), all_of(zero), all_of(zero), all_of(zero), all_of(zero), all_of(zero)
        whole = first + (last - first) // (2 * lanes) * (2 * lanes)
        for at in range(first, whole, 2 * lanes):
            position, following = at * element, (at + lanes) * element
            v0, v1 = subtract(read(x + position, lanes), centre), subtract(read(x + following, lanes), centre)
            if gradient:
                g0, g1 = read(dy + position, lanes), read(dy + following, lanes)
                a0, a1 = add(a0, g0), add(a1, g1)
                b0, b1 = multiply_add(g0, v0, b0), multiply_add(g1, v1, b1)
                c0, c1 = add(c0, v0), add(c1, v1)
            else:
                a0, a1 = add(a0, v0), add(a1, v1)
                b0, b1 = multiply_add(v0, v0, b0), multiply_add(v1, v1, b1)
        for at in range(whole, last, lanes):
            left = last - at
            v0 = subtract(read(x + at * element, left), centre)
            if left < lanes:  # lanes without an entry must not be the centre
                store(scratch, v0)
                v0 = load_some(scratch, left)
            if gradient:
                g0 = read(dy + at * element, left)
                a0, b0, c0 = add(a0, g0), multiply_add(g0, v0, b0), add(c0, v0)
            else:
                a0, b0 = add(a0, v0), multiply_add(v0, v0, b0)
        sums = p.sums + number * size
        store(sums, add(a0, a1))
        store(sums + p.sum_size, add(b0, b1))
        if gradient:
            store(sums + 2 * p.sum_size, add(c0, c1))

    return chunk


def _row_sums(gradient: bool, stored: Storage, isa: Isa) -> Any:
    sum_vector, sum_four_vectors = _vector_sum(gradient, stored, isa), _four_vector_sums(gradient, stored, isa)
    element, lanes, size = load_store_of(stored, isa).size, isa.lanes, simd_of(isa).size

    @jit
    def chunk(p: BatchNormalizationParameters, outer: Any, group: Any, first: Any, last: Any, number: Any, scratch: Any) -> None:
        sums = p.sums + number * ((p.groups + lanes - 1) // lanes * size)
        fours = p.groups // (4 * lanes) * (4 * lanes)
        for begin in range(first, last, BLOCK_ROWS):
            rows, overwrites = min(BLOCK_ROWS, last - begin), begin == first
            x, dy = p.x + begin * p.x_outer, p.dy + begin * p.dy_outer
            for column in range(0, fours, 4 * lanes):
                sum_four_vectors(p, x + column * element, dy + column * element, rows, column, sums + column * FLOAT_BYTES, overwrites)
            for column in range(fours, p.groups, lanes):
                sum_vector(p, x + column * element, dy + column * element, rows, column, sums + column * FLOAT_BYTES, overwrites)

    return chunk


def _accumulation(isa: Isa) -> Any:
    """accumulate(to, value, overwrites): the vector at an address is the value, or what it was before is added."""
    load, store, add = simd_of(isa).load, simd_of(isa).store, simd_of(isa).add

    @jit
    def accumulate(to: Any, value: Any, overwrites: Any) -> None:
        store(to, value if overwrites else add(load(to), value))

    return accumulate


def _vector_sum(gradient: bool, stored: Storage, isa: Isa) -> Any:
    """sum_vector(p, x, dy, rows, column, to, overwrites): adds up rows of a vector of groups."""
    simd, accumulate, zero = simd_of(isa), _accumulation(isa), np.float32(0.0)
    add, subtract, multiply_add, all_of = simd.add, simd.subtract, simd.multiply_add, simd.all_of
    read, read_floats = load_store_of(stored, isa).load, load_store_of("float32", isa).load

    @jit
    def sum_vector(p: BatchNormalizationParameters, x: Any, dy: Any, rows: Any, column: Any, to: Any, overwrites: Any) -> None:
        left = p.groups - column
        centre = read_floats(p.centre + column * FLOAT_BYTES, left)
        a, b, c = all_of(zero), all_of(zero), all_of(zero)
        for _ in range(rows):
            v = subtract(read(x, left), centre)
            if gradient:
                g = read(dy, left)
                a, b, c = add(a, g), multiply_add(g, v, b), add(c, v)
            else:
                a, b = add(a, v), multiply_add(v, v, b)
            x += p.x_outer
            dy += p.dy_outer
        accumulate(to, a, overwrites)
        accumulate(to + p.sum_size, b, overwrites)
        if gradient:
            accumulate(to + 2 * p.sum_size, c, overwrites)

    return sum_vector


def _four_vector_sums(gradient: bool, stored: Storage, isa: Isa) -> Any:
    """The `sum_vector` of four vectors, a cache line or more at a time."""
    simd, load_store, accumulate, zero = simd_of(isa), load_store_of(stored, isa), _accumulation(isa), np.float32(0.0)
    add, subtract, multiply_add, all_of, load = simd.add, simd.subtract, simd.multiply_add, simd.all_of, simd.load
    read, step, lanes, size = load_store.load, isa.lanes * load_store.size, isa.lanes, simd.size

    @jit
    def sum_four_vectors(p: BatchNormalizationParameters, x: Any, dy: Any, rows: Any, column: Any, to: Any, overwrites: Any) -> None:
        centres = p.centre + column * FLOAT_BYTES
        m0, m1, m2, m3 = load(centres), load(centres + size), load(centres + 2 * size), load(centres + 3 * size)
        a0, a1, a2, a3 = all_of(zero), all_of(zero), all_of(zero), all_of(zero)
        b0, b1, b2, b3 = all_of(zero), all_of(zero), all_of(zero), all_of(zero)
        c0, c1, c2, c3 = all_of(zero), all_of(zero), all_of(zero), all_of(zero)
        for _ in range(rows):
            v0, v1 = subtract(read(x, lanes), m0), subtract(read(x + step, lanes), m1)
            v2, v3 = subtract(read(x + 2 * step, lanes), m2), subtract(read(x + 3 * step, lanes), m3)
            if gradient:
                g0, g1, g2, g3 = read(dy, lanes), read(dy + step, lanes), read(dy + 2 * step, lanes), read(dy + 3 * step, lanes)
                a0, a1, a2, a3 = add(a0, g0), add(a1, g1), add(a2, g2), add(a3, g3)
                b0, b1, b2, b3 = multiply_add(g0, v0, b0), multiply_add(g1, v1, b1), multiply_add(g2, v2, b2), multiply_add(g3, v3, b3)
                c0, c1, c2, c3 = add(c0, v0), add(c1, v1), add(c2, v2), add(c3, v3)
            else:
                a0, a1, a2, a3 = add(a0, v0), add(a1, v1), add(a2, v2), add(a3, v3)
                b0, b1, b2, b3 = multiply_add(v0, v0, b0), multiply_add(v1, v1, b1), multiply_add(v2, v2, b2), multiply_add(v3, v3, b3)
            x += p.x_outer
            dy += p.dy_outer
        for number, value in enumerate((a0, a1, a2, a3)):
            accumulate(to + number * size, value, overwrites)
        for number, value in enumerate((b0, b1, b2, b3)):
            accumulate(to + p.sum_size + number * size, value, overwrites)
        if gradient:
            for number, value in enumerate((c0, c1, c2, c3)):
                accumulate(to + 2 * p.sum_size + number * size, value, overwrites)

    return sum_four_vectors


def _result_kernel(gradient: bool, isa: Isa) -> Any:
    """result(has_more, low, x, other, centre, factor, offset, slope): `other` is dy, or what is added to y if there is more.

    A gradient has more if it passes through the statistics. `has_more` and `low`, the lower bound of y, are arguments: LLVM cannot know
    that a loop does not write the parameters.
    """
    simd = simd_of(isa)
    add, subtract, multiply, multiply_add = simd.add, simd.subtract, simd.multiply, simd.multiply_add
    at_least = simd.at_least

    @jit
    def result(has_more: Any, low: Any, x: Any, other: Any, centre: Any, factor: Any, offset: Any, slope: Any) -> Any:
        if gradient:
            if has_more:
                return multiply(add(multiply_add(subtract(x, centre), slope, offset), other), factor)
            return multiply(other, factor)
        y = multiply_add(subtract(x, centre), factor, offset)
        if has_more:
            y = add(y, other)
        return at_least(y, low)

    return result


def _plane_results(gradient: bool, stored: Storage, isa: Isa) -> Any:
    simd, load_store, result = simd_of(isa), load_store_of(stored, isa), _result_kernel(gradient, isa)
    all_of, read, write, element, lanes = simd.all_of, load_store.load, load_store.store, load_store.size, isa.lanes
    zero = np.float32(0.0)

    @jit
    def coefficient(coefficients: Any, group: Any) -> Any:
        return all_of(float_at(coefficients + group * FLOAT_BYTES) if coefficients != 0 else zero)

    @jit
    def read_if(exists: Any, address: Any, left: Any) -> Any:
        return read(address, left) if exists else all_of(zero)

    @jit
    def chunk(p: BatchNormalizationParameters, outer: Any, group: Any, first: Any, last: Any, number: Any, scratch: Any) -> None:
        x = p.x + outer * p.x_outer + group * p.x_group
        if gradient:
            other, reads_other, has_more = p.dy + outer * p.dy_outer + group * p.dy_group, True, p.slope != 0
        else:
            other, reads_other, has_more = p.add + outer * p.add_outer + group * p.add_group, p.add != 0, p.add != 0
        output, reads_x, low = p.output + outer * p.output_outer + group * p.output_group, p.x != 0, all_of(p.low)
        centre, factor = coefficient(p.centre, group), coefficient(p.factor, group)
        offset, slope = coefficient(p.offset, group), coefficient(p.slope, group)
        whole = first + (last - first) // lanes * lanes
        for at in range(first, whole, lanes):
            position = at * element
            value, more = read_if(reads_x, x + position, lanes), read_if(reads_other, other + position, lanes)
            write(output + position, result(has_more, low, value, more, centre, factor, offset, slope), lanes)
        if whole < last:
            position, left = whole * element, last - whole
            value, more = read_if(reads_x, x + position, left), read_if(reads_other, other + position, left)
            write(output + position, result(has_more, low, value, more, centre, factor, offset, slope), left)

    return chunk


def _row_results(gradient: bool, stored: Storage, isa: Isa) -> Any:
    simd, load_store, result = simd_of(isa), load_store_of(stored, isa), _result_kernel(gradient, isa)
    all_of, read, write, read_floats = simd.all_of, load_store.load, load_store.store, load_store_of("float32", isa).load
    element, lanes, zero = load_store.size, isa.lanes, np.float32(0.0)

    @jit
    def coefficient(coefficients: Any, column: Any, left: Any) -> Any:
        if coefficients == 0:
            return all_of(zero)
        return read_floats(coefficients + column * FLOAT_BYTES, left)

    @jit
    def chunk(p: BatchNormalizationParameters, outer: Any, group: Any, first: Any, last: Any, number: Any, scratch: Any) -> None:
        has_more, low = p.slope != 0 if gradient else p.add != 0, all_of(p.low)
        for row in range(first, last):
            x, output = p.x + row * p.x_outer, p.output + row * p.output_outer
            other = p.dy + row * p.dy_outer if gradient else p.add + row * p.add_outer
            for column in range(0, p.groups, lanes):
                position, left, other_value, value = column * element, p.groups - column, all_of(zero), all_of(zero)
                if p.x != 0:
                    value = read(x + position, left)
                if gradient or has_more:
                    other_value = read(other + position, left)
                centre, factor = coefficient(p.centre, column, left), coefficient(p.factor, column, left)
                offset, slope = coefficient(p.offset, column, left), coefficient(p.slope, column, left)
                write(output + position, result(has_more, low, value, other_value, centre, factor, offset, slope), left)

    return chunk


def build_coefficients(stored: Storage, isa: Isa) -> TaskBody:
    """Builds the computation of y's coefficients from known statistics, to be compiled. It runs on one thread.

    Args:
        stored: the type of the statistics in memory.
        isa: the instruction set that it is compiled for.
    """
    element, set_coefficients = _coefficient_setter(stored, isa)
    parameters_at = struct_view(KnownStatisticsParameters)

    def compute(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for group in range(p.groups):
            set_coefficients(p, group, element(p.mean, p.mean_step, group), element(p.variance, p.variance_step, group))

    return compute


def _coefficient_setter(stored: Storage, isa: Isa) -> tuple[Any, Any]:
    """element(address, step, group), a statistic; set_coefficients(p, group, mean, variance), of y = (x - centre) * factor + offset."""
    number_at = load_store_of(stored, isa).load_one

    @jit
    def element(address: Any, step: Any, group: Any) -> Any:
        return float(number_at(address + step * group))

    @jit
    def set_coefficients(p: CoefficientParameters, group: Any, mean: Any, variance: Any) -> None:
        scale, bias = element(p.scale, p.scale_step, group), element(p.bias, p.bias_step, group)
        factor = float(np.float32(scale / math.sqrt(variance + p.epsilon)))
        rounded = float(np.float32(mean))
        rest = (mean - rounded) * factor
        offset = bias - rest if abs(rest) < _INFINITY else bias
        folded = float(np.float32(mean - bias / factor))
        folds = variance > 0.0 and mean * mean <= FOLDED_SHARE * variance and abs(folded) < _INFINITY and abs(factor) < _INFINITY
        at = group * FLOAT_BYTES
        set_float(p.factor + at, np.float32(factor))
        set_float(p.centre + at, np.float32(folded if folds else rounded))
        set_float(p.offset + at, np.float32(0.0 if folds else offset))

    return element, set_coefficients


def build_first_shifts(stored: Storage, isa: Isa) -> TaskBody:
    """Builds the choice of the shifts of a batch's first sums, to be compiled. It runs on one thread.

    They are 0 but for groups that a few entries show to lie far from 0, which have their first entry.

    Args:
        stored: the type of x in memory.
        isa: the instruction set that it is compiled for.
    """
    parameters_at, element_at = struct_view(BatchStatisticsParameters), load_store_of(stored, isa).load_one

    def choose(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for group in range(p.groups):
            x, total, squares, shift = p.x + group * p.x_group, 0.0, 0.0, np.float32(0.0)
            for sample in range(p.samples):
                value = float(element_at(x + sample * p.sample_size))
                total += value
                squares += value * value
            if p.samples > 0 and squares < _INFINITY and squares > LARGEST_SHARE * (squares - total * total / p.samples):
                shift = element_at(x)
            set_float(p.shifts + group * FLOAT_BYTES, shift)

    return choose


def build_batch_coefficients(layout: EntryLayout, of_x: Storage, stored: Storage, isa: Isa) -> TaskBody:
    """Builds the computation of a batch's statistics, from the sums of x - shift and its square, and of y's coefficients, to be compiled.

    It runs on one thread. Groups whose sums have lost digits are counted, and get another shift: the first entry, then the mean.

    Args:
        layout: the layout of the entries.
        of_x: the type of x in memory.
        stored: the type of the statistics.
        isa: the instruction set that it is compiled for.
    """
    _, set_coefficients = _coefficient_setter(stored, isa)
    element_at = load_store_of(of_x, isa).load_one
    parameters_at, set_one = struct_view(BatchStatisticsParameters), load_store_of(stored, isa).store_one
    total = _sum_of_group(layout, isa)

    @jit
    def set_statistic(address: Any, step: Any, group: Any, value: Any) -> None:
        if address != 0:
            set_one(address + step * group, np.float32(value))

    @jit
    def set_shift(p: BatchStatisticsParameters, group: Any, shift: Any, mean: Any) -> None:
        first = float(element_at(p.x + group * p.x_group))
        nearer = float(np.float32(first if shift == 0.0 and first != 0.0 and abs(first) < _INFINITY else mean))
        if abs(nearer) < _INFINITY:
            set_float(p.shifts + group * FLOAT_BYTES, np.float32(nearer))

    def compute(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, unsettled = parameters_at(parameters), 0
        for group in range(p.groups):
            sum_of_group, squares = total(p, p.sums, group), total(p, p.sums + p.sum_size, group)
            shift = float(float_at(p.shifts + group * FLOAT_BYTES))
            from_shift = sum_of_group / p.entries
            about_mean, mean = squares - from_shift * sum_of_group, shift + from_shift
            if squares == _INFINITY or squares > LARGEST_SHARE * about_mean:
                unsettled += 1
                set_shift(p, group, shift, mean)
            # Whether a sum overflows depends on its values; whether to infinity or to NaN, on the order of addition.
            variance, mean = (float(np.float32(max(about_mean, 0.0) / p.entries)), mean) if about_mean <= _LARGEST else (_NAN, _NAN)
            set_statistic(p.batch_mean, p.batch_mean_step, group, mean)
            set_statistic(p.batch_variance, p.batch_variance_step, group, variance)
            set_coefficients(p, group, mean, variance)
        set_integer(p.unsettled, unsettled)

    return compute


def build_gradient_centres(stored: Storage, isa: Isa) -> TaskBody:
    """Builds the choice of what is subtracted from x in the sums of a gradient, to be compiled. It runs on one thread.

    It is 0, and the mean of a group that is large compared with its deviation.

    Args:
        stored: the type of the statistics in memory.
        isa: the instruction set that it is compiled for.
    """
    parameters_at, number_at = struct_view(GradientStatisticsParameters), load_store_of(stored, isa).load_one

    def choose(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for group in range(p.groups):
            mean = float(number_at(p.mean + p.mean_step * group))
            variance = float(number_at(p.variance + p.variance_step * group))
            set_float(p.centre + group * FLOAT_BYTES, np.float32(0.0 if mean * mean <= LARGEST_SHARE * variance else mean))

    return choose


def build_gradient_coefficients(layout: EntryLayout, stored: Storage, isa: Isa) -> TaskBody:
    """Builds the computation of dx's coefficients and of the gradients of scale and bias, from the sums, to be compiled.

    It runs on one thread.

    Args:
        layout: the layout of the entries.
        stored: the type of the statistics in memory, and of their gradients.
        isa: the instruction set that it is compiled for.
    """
    parameters_at, load_store, total = struct_view(GradientStatisticsParameters), load_store_of(stored, isa), _sum_of_group(layout, isa)
    number_at, set_one = load_store.load_one, load_store.store_one

    @jit
    def set_coefficients(p: GradientStatisticsParameters, group: Any, mean: Any, variance: Any, of_dy: Any, products: Any) -> None:
        """Sets those of dx = ((x - centre) * slope + offset + dy) * factor."""
        at, inverse = group * FLOAT_BYTES, 1.0 / math.sqrt(variance + p.epsilon)
        centre = float(float_at(p.centre + at))
        given = mean
        if p.centres_anew != 0:
            mean = centre + total(p, p.sums + 2 * p.sum_size, group) / p.entries
        products -= (mean - centre) * of_dy  # the sum of dy * (x - mean)
        slope = float(np.float32(-inverse * inverse * (products / p.entries)))
        level, rounded = -of_dy / p.entries, float(np.float32(mean))
        rest, folded = (mean - rounded) * slope, float(np.float32(mean - level / slope))
        folds = variance > 0.0 and mean * mean <= FOLDED_SHARE * variance and abs(folded) < _INFINITY and abs(slope) < _INFINITY
        if not (abs(products) < _INFINITY and abs(given) < _INFINITY):
            set_float(p.factor + at, np.float32(_NAN))
        set_float(p.slope + at, np.float32(slope))
        set_float(p.centre + at, np.float32(folded if folds else rounded))
        set_float(p.offset + at, np.float32(0.0 if folds else (level - rest if abs(rest) < _INFINITY else level)))

    def compute(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        for group in range(p.groups):
            mean = float(number_at(p.mean + p.mean_step * group))
            variance = float(number_at(p.variance + p.variance_step * group))
            inverse = 1.0 / math.sqrt(variance + p.epsilon)
            of_dy = total(p, p.sums, group) if p.sums != 0 else 0.0
            products = total(p, p.sums + p.sum_size, group) if p.has_products != 0 else 0.0
            if p.d_bias != 0:
                set_one(p.d_bias + p.d_bias_step * group, np.float32(of_dy))
            if p.d_scale != 0:
                centre = float(float_at(p.centre + group * FLOAT_BYTES))
                about_mean = products - (mean - centre) * of_dy
                set_one(p.d_scale + p.d_scale_step * group, np.float32(about_mean * inverse if abs(about_mean) < _INFINITY else _NAN))
            if p.factor != 0:
                set_float(p.factor + group * FLOAT_BYTES, np.float32(float(number_at(p.scale + p.scale_step * group)) * inverse))
            if p.slope != 0:
                set_coefficients(p, group, mean, variance, of_dy, products)

    return compute


def _sum_of_group(layout: EntryLayout, isa: Isa) -> Any:
    """The kernel `total(p, sums, group)`: the float64 sum of the chunks' sums of a group, with the fields of `GroupSumsParameters`."""
    planes, add_up = layout == "planes", _sum_of_vectors(isa)

    @jit
    def total(p: GroupSumsParameters, sums: Any, group: Any) -> Any:
        if planes:
            return add_up(sums + group * p.group_size, p.outer, p.outer_size, p.chunks)
        result = 0.0
        for chunk in range(p.chunks):
            result += float(float_at(sums + chunk * p.outer_size + group * FLOAT_BYTES))
        return result

    return total


def _sum_of_vectors(isa: Isa) -> Any:
    """The intrinsic `add_up(first, rows, row_size, count)`: the float64 sum of all lanes of `count` vectors, in some rows."""
    simd, lanes = simd_of(isa), isa.lanes

    @intrinsic
    def add_up(first: Any, rows: Any, row_size: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            first, rows, row_size, count = arguments
            doubles = ir.VectorType(ir.DoubleType(), lanes)
            outside = Loop(builder, [first, ADDRESS(0), ir.Constant(doubles, [0.0] * lanes)])
            row, number, total = outside.values
            inside = Loop(builder, [row, ADDRESS(0), total])
            place, vector, total = inside.values
            total = builder.fadd(total, builder.fpext(simd.value_of(builder, place), doubles))
            following = builder.add(vector, ADDRESS(1))
            inside.repeat_while(builder.icmp_signed("<", following, count), [builder.add(place, ADDRESS(simd.size)), following, total])
            following = builder.add(number, ADDRESS(1))
            outside.repeat_while(builder.icmp_signed("<", following, rows), [builder.add(row, row_size), following, total])
            result = builder.extract_element(total, INDEX(0))
            for lane in range(1, lanes):
                result = builder.fadd(result, builder.extract_element(total, INDEX(lane)))
            return result

        return types.float64(*[types.int64] * 4), generate

    return add_up
