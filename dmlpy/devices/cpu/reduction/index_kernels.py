"""The compiled indices of extremes: of rows, and of several vectors of neighbouring columns at once.

A NaN is ignored. The index of a group of nothing else is that of the element that would count first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.lane_kernels import horizontal_maximum, lane_selector
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.memory_kernels import masked_load, masked_store, set_index
from dmlpy.devices.cpu.reduction.integer_kernels import Fold, of_some_lanes, of_whole_vectors
from dmlpy.devices.cpu.reduction.plan import REDUCED_VECTORS, IndexReductionParameters
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, first_bit, lanes_below, repeated, repeated_index, simd_of, zeros_of
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.thread_pool import TaskBody

_LOWEST = np.float32(-np.inf)
_EIGHT = 8
_VECTORS = 4
"""Vectors of integers that are compared in a turn: so many chains of dependent instructions are in registers."""


def build_index_reduction(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the indices of extremes of rows, to be compiled.

    Args:
        stored: the type of the elements.
        isa: the instruction set that it is compiled for.
    """
    simd, lanes, load_store = simd_of(isa), isa.lanes, load_store_of(stored, isa)
    size, load, multiply, all_of, running_maximum = load_store.size, load_store.load, simd.multiply, simd.all_of, simd.running_maximum
    select_first, largest_of, equal_lanes = lane_selector(isa), horizontal_maximum(isa), _equal_lanes(isa)

    @jit
    def index_in_vector(p: IndexReductionParameters, row: Any) -> Any:
        values = multiply(all_of(p.sign), load(row, p.entries))
        best = running_maximum(all_of(_LOWEST), select_first(p.entries, values, all_of(_LOWEST)))
        equal = equal_lanes(values, all_of(largest_of(best)), p.entries)
        if equal == 0:
            return p.entries - 1 if p.backward != 0 else 0
        return _first_of(p, equal)

    @jit
    def index_of(p: IndexReductionParameters, row: Any) -> Any:
        sign, lowest = all_of(p.sign), all_of(_LOWEST)
        best = lowest
        for at in range(0, p.entries, lanes):
            values = multiply(sign, load(row + at * size, p.entries - at))
            best = running_maximum(best, select_first(p.entries - at, values, lowest))  # a NaN is not above it
        largest, vectors = all_of(largest_of(best)), (p.entries + lanes - 1) // lanes
        for vector in range(vectors):
            at = (vectors - 1 - vector if p.backward != 0 else vector) * lanes
            equal = equal_lanes(multiply(sign, load(row + at * size, p.entries - at)), largest, p.entries - at)
            if equal != 0:
                return at + _first_of(p, equal)
        return p.entries - 1 if p.backward != 0 else 0

    return _for_each_row(index_in_vector, index_of, lanes)


@jit
def _first_of(p: IndexReductionParameters, bits: Any) -> Any:
    """The number of the bit that counts first, of some that are set."""
    return _last_bit(bits) if p.backward != 0 else first_bit(bits)


def _for_each_row(index_in_vector: Any, index_of: Any, lanes: int) -> TaskBody:
    """Writes the index that `index_in_vector(p, row)` finds in each row of at most `lanes` elements, and `index_of` in longer ones."""

    @jit
    def run(p: IndexReductionParameters, first: Any, last: Any, scratch: Any) -> None:
        outer, inner = first // p.row_size, first % p.row_size
        for _ in range(first, last):
            row, target = p.x + outer * p.x_row + inner * p.x_row1, p.y + outer * p.y_row + inner * p.y_row1
            index = index_in_vector(p, row) if p.entries <= lanes else index_of(p, row)
            set_index(target, index, p.y_width)
            inner += 1
            if inner == p.row_size:
                inner = 0
                outer += 1

    return share_units(IndexReductionParameters, run)


def build_integer_index(function: str, kind: str, isa: Isa) -> TaskBody:
    """Builds a thread's part of the indices of extremes of rows of integers, to be compiled.

    Args:
        function: `min` or `max`.
        kind: NumPy's name of the integers' type.
        isa: the instruction set that it is compiled for.
    """
    fold, lanes, turn = Fold(function, np.dtype(kind)), isa.lanes, _VECTORS * isa.lanes
    width, of_some, equal_to, start = fold.width, of_some_lanes(fold, lanes), _equal_to(fold, lanes), fold.start_of(kind)
    search_vectors = _search(equal_to, lanes, width)
    search_turns = _search(_equal_to(fold, turn, masks=False), turn, width)
    of_turns, of_vectors = (of_whole_vectors(fold, count) for count in (turn, lanes))

    @jit
    def index_in_vector(p: IndexReductionParameters, row: Any) -> Any:
        return _first_of(p, equal_to(row, p.entries, of_some(row, p.entries, start)))

    @jit
    def index_in_few(p: IndexReductionParameters, row: Any) -> Any:
        whole = p.entries // lanes
        best = of_vectors(row, whole, start)
        if whole * lanes < p.entries:
            best = of_some(row + whole * lanes * width, p.entries - whole * lanes, best)
        return search_vectors(p, row, 0, (p.entries + lanes - 1) // lanes, best)

    @jit
    def index_in_many(p: IndexReductionParameters, row: Any) -> Any:
        turns, whole = p.entries // turn, p.entries // lanes * lanes
        first, best = turns * turn, of_turns(row, turns, start)
        if first < whole:
            best = of_vectors(row + first * width, (whole - first) // lanes, best)
        if whole < p.entries:
            best = of_some(row + whole * width, p.entries - whole, best)
        vectors = (p.entries - first + lanes - 1) // lanes
        if p.backward != 0:
            index = search_vectors(p, row, first, vectors, best)
            return search_turns(p, row, 0, turns, best) if index < 0 else index
        index = search_turns(p, row, 0, turns, best)
        return search_vectors(p, row, first, vectors, best) if index < 0 else index

    @jit
    def index_of(p: IndexReductionParameters, row: Any) -> Any:
        return index_in_few(p, row) if p.entries < turn else index_in_many(p, row)

    return _for_each_row(index_in_vector, index_of, lanes)


def _search(equal_to: Any, lanes: int, width: int) -> Any:
    """The kernel `search(p, row, first, count, value)`: the index of a value in vectors from the element `first` on, or -1.

    Args:
        equal_to: the kernel of `_equal_to` for these vectors.
        lanes: elements of a vector.
        width: bytes of an element.
    """

    @jit
    def search(p: IndexReductionParameters, row: Any, first: Any, count: Any, value: Any) -> Any:
        index = -1
        for number in range(count):
            at = first + (count - 1 - number if p.backward != 0 else number) * lanes
            equal = equal_to(row + at * width, p.entries - at, value)
            if equal != 0:
                index = at + _first_of(p, equal)
                break
        return index

    return search


def _equal_to(fold: Fold, lanes: int, *, masks: bool = True) -> Any:
    """The kernel `equal_to(address, count, value)`: an integer with a bit for each of the first `count` lanes that are a value.

    Without masks, all lanes are read.
    """

    @intrinsic
    def equal_to(address: Any, count: Any, value: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            address, count, value = arguments
            mask, none = lanes_below(builder, count, lanes), fold.all_of(lanes)
            pointer = builder.inttoptr(address, none.type.as_pointer())
            values = masked_load(builder, pointer, fold.width, mask, none) if masks else builder.load(pointer, align=fold.width)
            wanted = value if fold.integer == ADDRESS else builder.trunc(value, fold.integer)
            equal = builder.icmp_signed("==", values, repeated(builder, wanted, lanes))
            bits = builder.bitcast(builder.and_(mask, equal) if masks else equal, ir.IntType(lanes))
            return bits if bits.type == ADDRESS else builder.zext(bits, ADDRESS)

        return types.int64(*[types.int64] * 3), generate

    return equal_to


def _equal_lanes(isa: Isa) -> Any:
    """The kernel `equal_lanes(x, y, count)`: an integer with a bit for each of the first `count` lanes that are equal."""
    kind, lanes = simd_of(isa).kind, isa.lanes

    @intrinsic
    def equal_lanes(x: Any, y: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            x, y, count = arguments
            equal = builder.and_(builder.fcmp_ordered("==", x, y), lanes_below(builder, count, lanes))
            return builder.zext(builder.bitcast(equal, ir.IntType(lanes)), ADDRESS)

        return types.int64(kind, kind, types.int64), generate

    return equal_lanes


@intrinsic
def _last_bit(bits: Any) -> Any:
    """The number of the highest bit that is set."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.sub(ADDRESS(63), zeros_of(builder, "ctlz", arguments[0]))

    return types.int64(types.int64), generate


def build_index_columns(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the indices of extremes of columns, to be compiled. The arguments are those of `build_index_reduction`."""
    load_store, lanes, all_of = load_store_of(stored, isa), isa.lanes, simd_of(isa).all_of
    read, size, multiply = load_store.load, load_store.size, simd_of(isa).multiply
    better, numbers_of, write = _better(isa), _numbers_of(isa), _index_writer(isa)
    nothing, vectors, vector = np.float32(np.nan), REDUCED_VECTORS * lanes, lanes * load_store.size

    @jit
    def start(p: IndexReductionParameters) -> Any:
        return (p.entries - 1) if p.backward != 0 else 0

    @jit
    def one(p: IndexReductionParameters, x: Any, y: Any, left: Any) -> None:
        best, numbers, sign = all_of(nothing), numbers_of(start(p)), all_of(p.sign)
        for number in range(p.entries):
            entry = p.entries - 1 - number if p.backward != 0 else number
            value = multiply(sign, read(x + entry * p.x_entry, left))
            numbers, best = better(value, best, numbers_of(entry), numbers), better(value, best, value, best)
        write(y, numbers, left, p.y_width)

    @jit
    def four(p: IndexReductionParameters, x: Any, y: Any) -> None:
        a, b, c, d, sign = all_of(nothing), all_of(nothing), all_of(nothing), all_of(nothing), all_of(p.sign)
        e, f, g, h = numbers_of(start(p)), numbers_of(start(p)), numbers_of(start(p)), numbers_of(start(p))
        for number in range(p.entries):
            entry = p.entries - 1 - number if p.backward != 0 else number
            at, index = x + entry * p.x_entry, numbers_of(entry)
            first, second = multiply(sign, read(at, lanes)), multiply(sign, read(at + vector, lanes))
            e, a = better(first, a, index, e), better(first, a, first, a)
            f, b = better(second, b, index, f), better(second, b, second, b)
            first, second = multiply(sign, read(at + 2 * vector, lanes)), multiply(sign, read(at + 3 * vector, lanes))
            g, c = better(first, c, index, g), better(first, c, first, c)
            h, d = better(second, d, index, h), better(second, d, second, d)
        step = lanes * p.y_width
        write(y, e, lanes, p.y_width)
        write(y + step, f, lanes, p.y_width)
        write(y + 2 * step, g, lanes, p.y_width)
        write(y + 3 * step, h, lanes, p.y_width)

    @jit
    def run(p: IndexReductionParameters, first: Any, last: Any, scratch: Any) -> None:
        for number in range(first, last):
            group, column = number // p.columns, number % p.columns * vectors
            outer, inner = group // p.row_size, group % p.row_size
            x = p.x + outer * p.x_row + inner * p.x_row1 + column * size
            y = p.y + outer * p.y_row + inner * p.y_row1 + column * p.y_width
            left = p.inner - column
            if left >= vectors:
                four(p, x, y)
            else:
                for at in range(0, left, lanes):
                    one(p, x + at * size, y + at * p.y_width, left - at)

    return share_units(IndexReductionParameters, run)


def _better(isa: Isa) -> Any:
    """The kernel `better(value, best, x, y)`: of each lane x if a value is a number above the best or the first, else y."""
    kind = simd_of(isa).kind

    @intrinsic
    def better(value: Any, best: Any, x: Any, y: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            value, best, x, y = arguments
            is_number = builder.fcmp_ordered("ord", value, value)
            return builder.select(builder.and_(is_number, builder.fcmp_unordered(">", value, best)), x, y)

        return kind(kind, kind, kind, kind), generate

    return better


def _numbers_of(isa: Isa) -> Any:
    """The kernel `numbers_of(number)`: the low 32 bits of an integer in all lanes, as those of a vector of floats."""
    simd, lanes = simd_of(isa), isa.lanes

    @intrinsic
    def numbers_of(number: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            return builder.bitcast(repeated_index(builder, arguments[0], lanes), simd.llvm_type)

        return simd.kind(types.int64), generate

    return numbers_of


def _index_writer(isa: Isa) -> Any:
    """The kernel `write(address, numbers, count, width)`, which writes the first of some numbers in 4 or 8 bytes each."""
    lanes, kind = isa.lanes, simd_of(isa).kind
    words, longs = (ir.VectorType(each, lanes) for each in (INDEX, ADDRESS))

    @intrinsic
    def write(address: Any, numbers: Any, count: Any, width: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            address, numbers, count, width = arguments
            indices, mask = builder.bitcast(numbers, words), lanes_below(builder, count, lanes)
            with builder.if_else(builder.icmp_signed("==", width, ADDRESS(_EIGHT))) as (is_wide, is_narrow):
                with is_wide:
                    masked_store(builder, builder.zext(indices, longs), builder.inttoptr(address, longs.as_pointer()), _EIGHT, mask)
                with is_narrow:
                    masked_store(builder, indices, builder.inttoptr(address, words.as_pointer()), _EIGHT // 2, mask)

        return types.void(types.int64, kind, types.int64, types.int64), generate

    return write
