"""The compiled functions of groups: reductions to one element, running products, and hardmax.

A thread reads a group several times while it is in a cache. Sums do not depend on the number of threads: one thread has the whole group.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.elementwise.function_kernels import Functions
from dmlpy.devices.cpu.elementwise.program import Code
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.lane_kernels import horizontal_maximum_or_nan, horizontal_sum, lane_selector, maximum_of
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.reduction.plan import CHUNK, CHUNK_ROWS, REDUCED_VECTORS, GroupParameters, Layout
from dmlpy.devices.cpu.simd import ADDRESS, simd_of
from dmlpy.devices.cpu.simd_math import SimdMath, function_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_ZERO, _LOWEST, _INFINITY = np.float32(0.0), np.float32(-np.inf), np.float32(np.inf)
_LEAST_NORM = np.float32(1e-15)
"""The least norm whose squares are added in float32 without loss."""


@jit
def place_of(p: GroupParameters, number: Any) -> Any:
    """The place of a unit: its group along both axes, and its place along the axis of contiguous groups."""
    return number // p.columns // p.group_size, number // p.columns % p.group_size, number % p.columns


@jit
def following(p: GroupParameters, group: Any, group1: Any, column: Any) -> Any:
    """The place of the next unit, without divisions: one takes longer than a short row."""
    column += 1
    if column == p.columns:
        column = 0
        group1 += 1
    if group1 == p.group_size:
        group1 = 0
        group += 1
    return group, group1, column


def for_each_unit(unit: Any, layout: Layout, stored: Storage, isa: Isa) -> TaskBody:
    """Calls unit(p, x, x_outer, x_entry, y, y_outer, y_entry, group, group1, left) for each unit.

    x and y are the addresses of its first entries, with the bytes to the next ones along both axes; `left` is the number of groups of a
    vector in columns.
    """
    return run_for_each_unit(_in_place(unit) if stored == "float32" else _through_floats(unit, layout, stored, isa), stored, isa)


def run_for_each_unit(run: Any, stored: Storage, isa: Isa) -> TaskBody:
    """Calls run(p, scratch, x, y, group, group1, left) for each unit; `scratch` is the thread's, the others are as above."""
    vector, lanes = isa.lanes * load_store_of(stored, isa).size, isa.lanes

    @jit
    def run_units(p: GroupParameters, first: Any, last: Any, scratch: Any) -> None:
        group, group1, column = place_of(p, first)
        for _ in range(first, last):
            x = p.x + group * p.x_group + group1 * p.x_group1 + column * vector
            y = p.y + group * p.y_group + group1 * p.y_group1 + column * vector
            run(p, scratch, x, y, group, group1, p.inner - column * lanes)
            group, group1, column = following(p, group, group1, column)

    return share_units(GroupParameters, run_units, own_scratch)


def _in_place(unit: Any) -> Any:
    """Runs a unit on FLOAT32."""

    @jit
    def run(p: GroupParameters, scratch: Any, x: Any, y: Any, group: Any, group1: Any, left: Any) -> None:
        unit(p, x, p.x_outer, p.x_entry, y, p.y_outer, p.y_entry, group, group1, left)

    return run


def _through_floats(unit: Any, layout: Layout, stored: Storage, isa: Isa) -> Any:
    """Runs a unit on elements of 2 bytes: on a copy of its entries in FLOAT32, in scratch, from where the results are rounded once."""
    stored_elements, floats, lanes = load_store_of(stored, isa), load_store_of("float32", isa), isa.lanes
    read, write, size, load, store = stored_elements.load, stored_elements.store, stored_elements.size, floats.load, floats.store
    vector = lanes * FLOAT_BYTES

    @jit
    def run_row(p: GroupParameters, scratch: Any, x: Any, y: Any, group: Any, group1: Any, left: Any) -> None:
        count = p.entry_size
        whole = count // lanes * lanes
        pitch = (count + lanes - 1) // lanes * vector
        for outer in range(p.outer_size):
            source, to = x + outer * p.x_outer, scratch + outer * pitch
            for at in range(0, whole, lanes):
                store(to + at * FLOAT_BYTES, read(source + at * size, lanes), lanes)
            if whole < count:
                store(to + whole * FLOAT_BYTES, read(source + whole * size, count - whole), count - whole)
        unit(p, scratch, pitch, FLOAT_BYTES, scratch, pitch, FLOAT_BYTES, group, group1, left)
        for outer in range(p.outer_size):
            source, to = scratch + outer * pitch, y + outer * p.y_outer
            for at in range(0, whole, lanes):
                write(to + at * size, load(source + at * FLOAT_BYTES, lanes), lanes)
            if whole < count:
                write(to + whole * size, load(source + whole * FLOAT_BYTES, count - whole), count - whole)

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


def for_each_unit_in_place(unit: Any, size: int, isa: Isa, vectors: int = 1) -> TaskBody:
    """Calls unit(p, x, y, left) for each unit, on the tensors as they are, whose elements have `size` bytes.

    `left` is the number of groups behind the unit's first along their axis, of which the unit has at most those of some vectors.
    """
    lanes = vectors * isa.lanes
    vector = lanes * size

    @jit
    def run_units(p: GroupParameters, first: Any, last: Any, scratch: Any) -> None:
        group, group1, column = place_of(p, first)
        for _ in range(first, last):
            x = p.x + group * p.x_group + group1 * p.x_group1 + column * vector
            y = p.y + group * p.y_group + group1 * p.y_group1 + column * vector
            unit(p, x, y, p.inner - column * lanes)
            group, group1, column = following(p, group, group1, column)

    return share_units(GroupParameters, run_units)


def build_reduction(layout: Layout, extreme: bool, stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a reduction, to be compiled.

    Args:
        layout: the layout of the entries.
        extreme: whether it is the largest or smallest entry, else a sum.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    size = load_store_of(stored, isa).size
    if layout == "rows":
        return for_each_unit_in_place(_largest_of_row(stored, isa) if extreme else _sum_of_row(stored, isa), size, isa)
    return for_each_unit_in_place(_reduced_columns(extreme, stored, isa), size, isa, REDUCED_VECTORS)


def _term(isa: Isa) -> Any:
    """The term of an entry: itself, its magnitude or its square."""
    multiply, magnitude = simd_of(isa).multiply, function_of("magnitude", isa)

    @jit
    def term(p: GroupParameters, value: Any) -> Any:
        if p.squares != 0:
            return multiply(value, value)
        return magnitude(value) if p.magnitudes != 0 else value

    return term


def logarithm_of(isa: Isa) -> Any:
    """The kernel `log(x)`: the natural logarithm of each lane."""
    simd = simd_of(isa)

    @intrinsic
    def log(x: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            return Functions(SimdMath(builder, simd), builder).formulas()[Code.LOG](arguments[0], None, None, None)

        return simd.kind(simd.kind), generate

    return log


def _norm_of(stored: Storage, isa: Isa) -> Any:
    """The kernel `check_norms(p, x, y, count)`: computes norms anew, in float64, whose squares may have left the range of float32."""
    load_store = load_store_of(stored, isa)
    one, set_one, size = load_store.load_one, load_store.store_one, load_store.size

    @jit
    def check_norms(p: GroupParameters, x: Any, y: Any, count: Any) -> None:
        for group in range(count):
            norm = one(y + group * size)
            if not _LEAST_NORM < norm < _INFINITY:
                total = 0.0
                for outer in range(p.outer_size):
                    for entry in range(p.entry_size):
                        value = np.float64(one(x + group * size + outer * p.x_outer + entry * p.x_entry))
                        total += value * value
                set_one(y + group * size, np.float32(math.sqrt(total)))

    return check_norms


def _sum_of_row(stored: Storage, isa: Isa) -> Any:
    simd, load_store, term = simd_of(isa), load_store_of(stored, isa), _term(isa)
    add, all_of, read, set_one, size, lanes = simd.add, simd.all_of, load_store.load, load_store.store_one, load_store.size, isa.lanes
    select_first, sum_of, check_norms = lane_selector(isa), horizontal_sum(isa), _norm_of(stored, isa)

    @jit
    def vector_at(p: GroupParameters, at: Any, count: Any) -> Any:
        return select_first(count, term(p, read(at, count)), all_of(_ZERO))

    @jit
    def finish(p: GroupParameters, y: Any, total: Any) -> None:
        if p.log != 0:
            total = math.log(total)
        set_one(y, np.float32(math.sqrt(total) if p.root != 0 else total * p.factor))

    @jit
    def sum_chunks(p: GroupParameters, x: Any, y: Any) -> None:
        total = 0.0
        for outer in range(p.outer_size):
            row = x + outer * p.x_outer
            for first in range(0, p.entry_size, CHUNK):
                a, b, c, d = all_of(_ZERO), all_of(_ZERO), all_of(_ZERO), all_of(_ZERO)
                last = min(p.entry_size, first + CHUNK)
                whole = first + (last - first) // (4 * lanes) * (4 * lanes)
                for at in range(first, whole, 4 * lanes):
                    place = row + at * size
                    a, b = add(a, term(p, read(place, lanes))), add(b, term(p, read(place + lanes * size, lanes)))
                    place += 2 * lanes * size
                    c, d = add(c, term(p, read(place, lanes))), add(d, term(p, read(place + lanes * size, lanes)))
                for at in range(whole, last, lanes):
                    a = add(a, vector_at(p, row + at * size, last - at))
                total += np.float64(sum_of(add(add(a, b), add(c, d))))
        finish(p, y, total)

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        if p.outer_size == 1 and p.entry_size <= lanes:
            finish(p, y, np.float64(sum_of(vector_at(p, x, p.entry_size))))
        else:
            sum_chunks(p, x, y)
        if p.root != 0:
            check_norms(p, x, y, 1)

    return unit


def _largest_of_row(stored: Storage, isa: Isa) -> Any:
    """Entries are multiplied by 1 or, for the smallest, by -1, and so is the result. A NaN wins."""
    simd, load_store = simd_of(isa), load_store_of(stored, isa)
    multiply, all_of, larger, largest_of = simd.multiply, simd.all_of, maximum_of(isa), horizontal_maximum_or_nan(isa)
    read, set_one, size, lanes, select_first = load_store.load, load_store.store_one, load_store.size, isa.lanes, lane_selector(isa)

    @jit
    def vector_at(p: GroupParameters, at: Any, count: Any) -> Any:
        return select_first(count, multiply(read(at, count), all_of(np.float32(p.factor))), all_of(_LOWEST))

    @jit
    def search(p: GroupParameters, x: Any, y: Any) -> None:
        sign, a, b, c, d = all_of(np.float32(p.factor)), all_of(_LOWEST), all_of(_LOWEST), all_of(_LOWEST), all_of(_LOWEST)
        for outer in range(p.outer_size):
            row = x + outer * p.x_outer
            whole = p.entry_size // (4 * lanes) * (4 * lanes)
            for at in range(0, whole, 4 * lanes):
                place = row + at * size
                a = larger(a, multiply(read(place, lanes), sign))
                b = larger(b, multiply(read(place + lanes * size, lanes), sign))
                place += 2 * lanes * size
                c = larger(c, multiply(read(place, lanes), sign))
                d = larger(d, multiply(read(place + lanes * size, lanes), sign))
            for at in range(whole, p.entry_size, lanes):
                a = larger(a, vector_at(p, row + at * size, p.entry_size - at))
        set_one(y, np.float32(largest_of(larger(larger(a, b), larger(c, d))) * np.float32(p.factor)))

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        if p.outer_size == 1 and p.entry_size <= lanes:
            set_one(y, np.float32(largest_of(vector_at(p, x, p.entry_size)) * np.float32(p.factor)))
        else:
            search(p, x, y)

    return unit


def _reduced_columns(extreme: bool, stored: Storage, isa: Isa) -> Any:
    load_store, check_norms, start = load_store_of(stored, isa), _norm_of(stored, isa), _LOWEST if extreme else _ZERO
    joined, total_of, finish = _column_parts(extreme, stored, isa)
    all_of, lanes, size, vector = simd_of(isa).all_of, isa.lanes, load_store.size, isa.lanes * load_store.size

    @jit
    def one(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        total = all_of(start)
        for outer in range(p.outer_size):
            column = x + outer * p.x_outer
            for first in range(0, p.entry_size, CHUNK_ROWS):
                partial = all_of(start)
                for at in range(first, min(p.entry_size, first + CHUNK_ROWS)):
                    partial = joined(p, partial, column + at * p.x_entry, left)
                total = total_of(total, partial)
        finish(p, y, total, left)

    @jit
    def four(p: GroupParameters, x: Any, y: Any) -> None:
        a, b, c, d = all_of(start), all_of(start), all_of(start), all_of(start)
        for outer in range(p.outer_size):
            column = x + outer * p.x_outer
            for first in range(0, p.entry_size, CHUNK_ROWS):
                e, f, g, h = all_of(start), all_of(start), all_of(start), all_of(start)
                for at in range(first, min(p.entry_size, first + CHUNK_ROWS)):
                    place = column + at * p.x_entry
                    e, f = joined(p, e, place, lanes), joined(p, f, place + vector, lanes)
                    place += 2 * vector
                    g, h = joined(p, g, place, lanes), joined(p, h, place + vector, lanes)
                a, b, c, d = total_of(a, e), total_of(b, f), total_of(c, g), total_of(d, h)
        finish(p, y, a, lanes)
        finish(p, y + vector, b, lanes)
        finish(p, y + 2 * vector, c, lanes)
        finish(p, y + 3 * vector, d, lanes)

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        if left >= REDUCED_VECTORS * lanes:
            four(p, x, y)
        else:
            for at in range(0, left, lanes):  # fewer vectors than a unit may have
                one(p, x + at * size, y + at * size, left - at)
        if p.root != 0:
            check_norms(p, x, y, min(left, REDUCED_VECTORS * lanes))

    return unit


def _column_parts(extreme: bool, stored: Storage, isa: Isa) -> tuple[Any, Any, Any]:
    """The kernels of a vector of columns: what joins an entry to a partial result, a partial one to the total, and writes the total."""
    simd, load_store, term, larger = simd_of(isa), load_store_of(stored, isa), _term(isa), maximum_of(isa)
    add, multiply, all_of, read, write = simd.add, simd.multiply, simd.all_of, load_store.load, load_store.store
    log, root_of = logarithm_of(isa), function_of("square_root", isa)

    @jit
    def joined(p: GroupParameters, partial: Any, at: Any, left: Any) -> Any:
        value = read(at, left)
        return larger(partial, multiply(value, all_of(np.float32(p.factor)))) if extreme else add(partial, term(p, value))

    @jit
    def total_of(total: Any, partial: Any) -> Any:
        return larger(total, partial) if extreme else add(total, partial)

    @jit
    def finish(p: GroupParameters, y: Any, total: Any, left: Any) -> None:
        if p.log != 0:
            total = log(total)
        write(y, root_of(total) if p.root != 0 else multiply(total, all_of(np.float32(p.factor))), left)

    return joined, total_of, finish


def build_hardmax(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a hardmax of rows, to be compiled. The arguments are those of `build_reduction`."""
    simd, load_store, maximum, lanes = simd_of(isa), load_store_of(stored, isa), maximum_of(isa), isa.lanes
    read, write, set_one, size = load_store.load, load_store.store, load_store.store_one, load_store.size
    all_of, largest_of, select_first, first_of = simd.all_of, horizontal_maximum_or_nan(isa), lane_selector(isa), _first_winner(isa)

    @jit
    def unit(p: GroupParameters, x: Any, y: Any, left: Any) -> None:
        count, a, b = p.entry_size, all_of(_LOWEST), all_of(_LOWEST)
        whole = count // (2 * lanes) * (2 * lanes)
        for at in range(0, whole, 2 * lanes):
            a, b = maximum(a, read(x + at * size, lanes)), maximum(b, read(x + (at + lanes) * size, lanes))
        for at in range(whole, count, lanes):
            a = maximum(a, select_first(count - at, read(x + at * size, count - at), all_of(_LOWEST)))
        limit, winner = largest_of(maximum(a, b)), 0
        while winner < count:
            lane = first_of(read(x + winner * size, count - winner), all_of(limit))
            winner += lane
            if lane < lanes:
                break
        for at in range(0, count, lanes):
            write(y + at * size, all_of(_ZERO), count - at)
        set_one(y + winner * size, np.float32(1.0))

    return for_each_unit_in_place(unit, size, isa)


def _first_winner(isa: Isa) -> Any:
    """The intrinsic `first(x, limit)`: the first lane that is the limit or NaN, or the number of lanes if there is none."""
    bits, kind = ir.IntType(isa.lanes), simd_of(isa).kind

    @intrinsic
    def first(x: Any, limit: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            x, limit = arguments
            wins = builder.or_(builder.fcmp_ordered("==", x, limit), builder.fcmp_unordered("uno", x, x))
            function = declared(builder.module, ir.FunctionType(bits, [bits, ir.IntType(1)]), f"llvm.cttz.i{isa.lanes}")
            number = builder.call(function, [builder.bitcast(wins, bits), ir.IntType(1)(0)])
            return builder.zext(number, ADDRESS)

        return types.int64(kind, kind), generate

    return first
