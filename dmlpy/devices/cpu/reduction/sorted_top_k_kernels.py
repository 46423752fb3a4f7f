"""The compiled TOP_K that takes a large share of long rows: the best elements are found by bisection of their keys, and sorted by digits.

Bisection counts the elements that are not below a key, until they are few more than are taken. These are sorted by one digit of their keys
after the other, the last one first; each pass keeps the order of equal digits, and so that of equal elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.memory_kernels import element_copy, long_at, set_index, set_long, set_word, word_at
from dmlpy.devices.cpu.reduction.top_k_kernels import ENTRY_BYTES, Order, key_bits, keys_at, not_below_of
from dmlpy.devices.cpu.reduction.top_k_plan import RANKS, TopKParameters
from dmlpy.devices.cpu.simd import ADDRESS, Loop, first_bit
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units, unit_addresses

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_DIGIT, _COUNT_BYTES = 8, 4
_SPARE = 4
"""Bisection ends when the elements that are left exceed those that are taken by at most one in this many."""


@intrinsic
def _count_bits(bits: Any) -> Any:
    """How many bits of an integer are set."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.call(declared(builder.module, ir.FunctionType(ADDRESS, [ADDRESS]), "llvm.ctpop.i64"), arguments)

    return types.int64(types.int64), generate


def _extreme_of_vectors(dtype: np.dtype[Any], ascending: bool, lanes: int, *, is_least: bool) -> Any:
    """The intrinsic `extreme(address, count)`: the least or the largest key of vectors, at least one."""

    @intrinsic
    def extreme(address: Any, count: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            address, count = arguments
            first = keys_at(builder, address, dtype, lanes, ascending)
            loop = Loop(builder, [address, count, first])
            place, left, extremes = loop.values
            keys = keys_at(builder, place, dtype, lanes, ascending)
            extremes = builder.select(builder.icmp_signed("<" if is_least else ">", keys, extremes), keys, extremes)
            left = builder.sub(left, ADDRESS(1))
            step = ADDRESS(lanes * dtype.itemsize)
            loop.repeat_while(builder.icmp_signed(">", left, ADDRESS(0)), [builder.add(place, step), left, extremes])
            kind = extremes.type.element
            name = f"llvm.vector.reduce.{'smin' if is_least else 'smax'}.v{lanes}i{kind.width}"
            key = builder.call(declared(builder.module, ir.FunctionType(kind, [extremes.type]), name), [extremes])
            return key if kind == ADDRESS else builder.sext(key, ADDRESS)

        return types.int64(types.int64, types.int64), generate

    return extreme


def _candidates_finder(order: Order, dtype: np.dtype[Any], ascending: bool, isa: Isa) -> Any:
    """The kernel `find(x, size, k, entries)`: writes the entries of the k best elements, and maybe others, in order; returns how many."""
    width, lanes, bits = dtype.itemsize, 2 * isa.lanes, key_bits(dtype)
    not_below, key_of, entry_at = not_below_of(dtype, ascending, lanes), order.key_at, order.entry_at
    largest = (1 << bits - 1) - 1
    least_of, greatest_of = (_extreme_of_vectors(dtype, ascending, lanes, is_least=least) for least in (True, False))

    @jit
    def count_from(x: Any, size: Any, key: Any) -> Any:
        whole, count = size // lanes * lanes, 0
        for at in range(0, whole, lanes):
            count += _count_bits(not_below(x + at * width, key))
        for at in range(whole, size):
            count += 1 if key_of(x + at * width) >= key else 0
        return count

    @jit
    def find(x: Any, size: Any, k: Any, entries: Any) -> Any:
        whole, low, high = size // lanes * lanes, key_of(x), key_of(x)
        if whole > 0:
            low, high = least_of(x, size // lanes), greatest_of(x, size // lanes)
        for at in range(whole, size):
            low, high = min(low, key_of(x + at * width)), max(high, key_of(x + at * width))
        high, count = high + 1 if high < largest else high, size
        while count > k + k // _SPARE and low + 1 < high:
            middle = (low >> 1) + (high >> 1) + (low & high & 1)
            at_least = count_from(x, size, middle)
            if at_least >= k:
                low, count = middle, at_least
            else:
                high = middle
        count = 0
        for at in range(0, whole, lanes):
            chosen = not_below(x + at * width, low)
            while chosen != 0:
                set_long(entries + count * ENTRY_BYTES, entry_at(x, width, at + first_bit(chosen)))
                count += 1
                chosen &= chosen - 1
        for at in range(whole, size):
            if key_of(x + at * width) >= low:
                set_long(entries + count * ENTRY_BYTES, entry_at(x, width, at))
                count += 1
        return count

    return find


def _sorter(order: Order, dtype: np.dtype[Any]) -> Any:
    """The kernel `sort(x, counts, entries, others, count)`, which returns where the sorted entries are."""
    width, bits, key_of = dtype.itemsize, key_bits(dtype), order.key_of

    @jit
    def rank(x: Any, entry: Any, shift: Any, flip: Any) -> Any:
        return ((key_of(x, width, entry) >> shift) & (RANKS - 1)) ^ flip

    @jit
    def sort(x: Any, counts: Any, entries: Any, others: Any, count: Any) -> Any:
        for shift in range(0, bits, _DIGIT):
            flip = RANKS // 2 - 1 if shift + _DIGIT == bits else RANKS - 1  # large digits come first; the first bit is the sign
            for at in range(RANKS):
                set_word(counts + at * _COUNT_BYTES, 0)
            for at in range(count):
                place = counts + rank(x, long_at(entries + at * ENTRY_BYTES), shift, flip) * _COUNT_BYTES
                set_word(place, word_at(place) + 1)
            if word_at(counts + rank(x, long_at(entries), shift, flip) * _COUNT_BYTES) != count:
                before = 0
                for at in range(RANKS):
                    of_digit = word_at(counts + at * _COUNT_BYTES)
                    set_word(counts + at * _COUNT_BYTES, before)
                    before += of_digit
                for at in range(count):
                    entry = long_at(entries + at * ENTRY_BYTES)
                    place = counts + rank(x, entry, shift, flip) * _COUNT_BYTES
                    to = word_at(place)
                    set_word(place, to + 1)
                    set_long(others + to * ENTRY_BYTES, entry)
                entries, others = others, entries
        return entries

    return sort


def build_sorted_top_k(kind: str, ascending: bool, isa: Isa) -> TaskBody:
    """Builds a thread's part of the first elements of sorted rows, to be compiled.

    Args:
        kind: NumPy's name of the elements' type.
        ascending: whether the smallest elements come first.
        isa: the instruction set that it is compiled for.
    """
    dtype = np.dtype(kind)
    order, width, copy = Order(dtype, ascending), dtype.itemsize, element_copy(dtype.itemsize)
    find, sort, index_of = _candidates_finder(order, dtype, ascending, isa), _sorter(order, dtype), order.index_of

    @jit
    def run_row(p: TopKParameters, x: Any, values: Any, indices: Any, counts: Any) -> None:
        entries = counts + RANKS * _COUNT_BYTES
        others = entries + p.size * ENTRY_BYTES
        row = x
        if p.x_step != width:
            row = others + p.size * ENTRY_BYTES
            for at in range(p.size):
                copy(row + at * width, x + at * p.x_step)
        ordered = sort(row, counts, entries, others, find(row, p.size, p.k, entries))
        for at in range(p.k):
            index = index_of(long_at(ordered + at * ENTRY_BYTES))
            copy(values + at * p.value_step, row + index * width)
            set_index(indices + at * p.index_step, index, p.index_bytes)

    @jit
    def run(p: TopKParameters, first: Any, last: Any, counts: Any) -> None:
        for number in range(first, last):
            x, values, indices = unit_addresses(p.axes, p.table, number, p.x, p.values, p.indices)
            run_row(p, x, values, indices, counts)

    return share_units(TopKParameters, run, own_scratch)
