"""The compiled TOP_K: a heap for each row has the best elements so far, the worst of them first.

An entry of a heap is an integer of 64 bits that is larger for better elements: the key of the element, whose order is theirs, above its
inverted index, by which the first of equal elements is the best. Of elements of 64 bits it is the index, by which the key is found. Vectors
of elements no better than the worst entry are passed over.

Each better element costs steps down the heap. So that a sorted row, the best element last, has no more of them than one in no order, the
vectors are not visited in their order: first few that are far from each other, then those half way between, and so on.

Bytes are counted instead where many are taken: how many there are of each tells where it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.load_store import floats_of_bfloat16, floats_of_halves
from dmlpy.devices.cpu.memory_kernels import byte_at, element_copy, long_at, set_byte, set_index, set_long, set_word, word_at
from dmlpy.devices.cpu.reduction.top_k_plan import RANKS, TopKParameters
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, first_bit, repeated
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units, unit_addresses

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_KEY_BITS = 32
"""Bits of a key, at least, and of one that an entry has room for."""
_LAST_INDEX = (1 << 32) - 1
ENTRY_BYTES = 8


def key_bits(dtype: np.dtype[Any]) -> int:
    """The bits of the keys of elements."""
    return max(_KEY_BITS, 8 * dtype.itemsize)


def keys_at(builder: Any, address: Any, dtype: np.dtype[Any], lanes: int, ascending: bool) -> Any:
    """The keys of elements at an address: signed integers. NaN has the largest one, and zeros of both signs have the same."""
    bits = key_bits(dtype)
    words, largest, lowest = ir.VectorType(ir.IntType(bits), lanes), (1 << bits - 1) - 1, -(1 << bits - 1)

    def all_of(value: int) -> Any:
        return ir.Constant(words, [value] * lanes)

    floats = ir.VectorType(ir.FloatType(), lanes)
    is_float32 = dtype.kind == "f" and dtype.itemsize == FLOAT_BYTES
    stored = floats if is_float32 else ir.VectorType(ir.IntType(8 * dtype.itemsize), lanes)
    value = builder.load(builder.inttoptr(address, stored.as_pointer()), align=dtype.itemsize)
    if dtype.kind not in "iu":
        if not is_float32:
            is_half = dtype.kind == "f"  # that of BFLOAT16 is "V"
            value = floats_of_halves(builder, value) if is_half else builder.bitcast(floats_of_bfloat16(builder, value, lanes), floats)
        signed = builder.bitcast(builder.fadd(value, ir.Constant(floats, [0.0] * lanes)), words)
        keys = builder.xor(signed, builder.and_(builder.ashr(signed, all_of(bits - 1)), all_of(largest)))
        keys = builder.select(builder.fcmp_unordered("uno", value, value), all_of(largest), keys)
    else:
        extend = builder.sext if dtype.kind == "i" else builder.zext
        keys = value if stored == words else extend(value, words)
        keys = builder.xor(keys, all_of(lowest)) if dtype.kind == "u" and stored == words else keys
    return builder.not_(keys) if ascending else keys


def _key_at(dtype: np.dtype[Any], ascending: bool) -> Any:
    """The intrinsic `key_at(address)` of an element."""

    @intrinsic
    def key_at(address: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            key = builder.extract_element(keys_at(builder, arguments[0], dtype, 1, ascending), INDEX(0))
            return key if key.type == ADDRESS else builder.sext(key, ADDRESS)

        return types.int64(types.int64), generate

    return key_at


def not_below_of(dtype: np.dtype[Any], ascending: bool, lanes: int) -> Any:
    """The intrinsic `not_below(address, key)`: an integer with a bit for each element of a vector whose key is as large, or larger."""

    @intrinsic
    def not_below(address: Any, key: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            address, key = arguments
            keys = keys_at(builder, address, dtype, lanes, ascending)
            limits = repeated(builder, key if keys.type.element == ADDRESS else builder.trunc(key, keys.type.element), lanes)
            return builder.zext(builder.bitcast(builder.icmp_signed(">=", keys, limits), ir.IntType(lanes)), ADDRESS)

        return types.int64(types.int64, types.int64), generate

    return not_below


class Order:
    """The entries of heaps, and which is the better of two.

    Attributes:
        key_at: key_at(address), the key of an element.
        entry_at: entry_at(x, step, index), the entry of a row's element.
        index_of: index_of(entry), the index of its element.
        key_of: key_of(x, step, entry), the key of its element.
        is_below: is_below(x, step, entry, other), whether the other entry is better.

    Args:
        dtype: the type of the elements.
        ascending: whether the smallest come first.
    """

    def __init__(self, dtype: np.dtype[Any], ascending: bool) -> None:
        key_at = _key_at(dtype, ascending)

        @jit
        def entry_at(x: Any, step: Any, index: Any) -> Any:
            return (key_at(x + index * step) << 32) | (_LAST_INDEX - index)

        @jit
        def index_of(entry: Any) -> Any:
            return _LAST_INDEX - (entry & _LAST_INDEX)

        @jit
        def key_of(x: Any, step: Any, entry: Any) -> Any:
            return entry >> 32

        @jit
        def is_below(x: Any, step: Any, entry: Any, other: Any) -> Any:
            return entry < other

        @jit
        def index_at(x: Any, step: Any, index: Any) -> Any:
            return index

        @jit
        def index_itself(entry: Any) -> Any:
            return entry

        @jit
        def key_at_index(x: Any, step: Any, entry: Any) -> Any:
            return key_at(x + entry * step)

        @jit
        def is_below_by_key(x: Any, step: Any, entry: Any, other: Any) -> Any:
            key, other_key = key_at(x + entry * step), key_at(x + other * step)
            return key < other_key or (key == other_key and entry > other)

        self.key_at = key_at
        packed = entry_at, index_of, key_of, is_below
        indices = index_at, index_itself, key_at_index, is_below_by_key
        self.entry_at, self.index_of, self.key_of, self.is_below = packed if key_bits(dtype) == _KEY_BITS else indices


def _heap_kernels(order: Order) -> tuple[Any, Any]:
    """The kernels `sink(x, step, heap, place, count, entry)` and `sort(x, step, heap, count)`."""
    is_below = order.is_below

    @jit
    def sink(x: Any, step: Any, heap: Any, place: Any, count: Any, entry: Any) -> None:
        """Puts an entry at a place of a heap of some entries, or below: no entry is smaller than the one above it."""
        child = 2 * place + 1
        while child < count:
            least = long_at(heap + child * ENTRY_BYTES)
            if child + 1 < count and is_below(x, step, long_at(heap + (child + 1) * ENTRY_BYTES), least):
                child += 1
                least = long_at(heap + child * ENTRY_BYTES)
            if not is_below(x, step, least, entry):
                break
            set_long(heap + place * ENTRY_BYTES, least)
            place = child
            child = 2 * place + 1
        set_long(heap + place * ENTRY_BYTES, entry)

    @jit
    def sort(x: Any, step: Any, heap: Any, count: Any) -> None:
        """Sorts the entries of a heap, the largest first."""
        last = count - 1
        while last > 0:
            entry = long_at(heap + last * ENTRY_BYTES)
            set_long(heap + last * ENTRY_BYTES, long_at(heap))
            sink(x, step, heap, 0, last, entry)
            last -= 1

    return sink, sort


def _best_finder(dtype: np.dtype[Any], ascending: bool, isa: Isa) -> tuple[Any, Any]:
    """The kernel `find(p, x, heap)`, which sorts the best elements of a row in a heap, and `index_of(entry)`."""
    width, lanes, order = dtype.itemsize, 2 * isa.lanes, Order(dtype, ascending)
    not_below, (sink, sort) = not_below_of(dtype, ascending, lanes), _heap_kernels(order)
    entry_at, index_of, key_of, is_below = order.entry_at, order.index_of, order.key_of, order.is_below
    largest = (1 << key_bits(dtype) - 1) - 1

    @jit
    def take(x: Any, step: Any, heap: Any, k: Any, entry: Any) -> None:
        """Replaces the worst entry by a better one."""
        if is_below(x, step, long_at(heap), entry):
            sink(x, step, heap, 0, k, entry)

    @jit
    def take_of_vector(x: Any, at: Any, heap: Any, k: Any) -> None:
        worst = long_at(heap)
        key = key_of(x, width, worst)
        # Behind the worst entry's element an equal one is no better; no key is above the largest.
        is_behind = at > index_of(worst)
        candidates = not_below(x + at * width, key + 1 if is_behind and key < largest else key)
        while candidates != 0:
            take(x, width, heap, k, entry_at(x, width, at + first_bit(candidates)))
            candidates &= candidates - 1

    @jit
    def find(p: TopKParameters, x: Any, heap: Any) -> None:
        k, size, step = p.k, p.size, p.x_step
        for index in range(k):
            set_long(heap + index * ENTRY_BYTES, entry_at(x, step, index))
        place = k // 2 - 1
        while place >= 0:
            sink(x, step, heap, place, k, long_at(heap + place * ENTRY_BYTES))
            place -= 1
        first = k + (size - k) // lanes * lanes if step == width else k
        gap, begin = lanes, 0
        while gap * k < (first - k) * lanes:  # of a sorted row the first vectors are all better, and then as many elements each time
            gap *= 2
        while True:
            for at in range(k + begin, first, gap):
                take_of_vector(x, at, heap, k)
            gap = gap if begin == 0 else gap // 2
            begin = gap // 2
            if begin < lanes:
                break
        for index in range(first, size):
            take(x, step, heap, k, entry_at(x, step, index))
        sort(x, step, heap, k)

    return find, index_of


def build_top_k(kind: str, ascending: bool, isa: Isa) -> TaskBody:
    """Builds a thread's part of the first elements of sorted rows, to be compiled.

    Args:
        kind: NumPy's name of the elements' type.
        ascending: whether the smallest elements come first.
        isa: the instruction set that it is compiled for.
    """
    dtype = np.dtype(kind)
    (find, index_of), copy = _best_finder(dtype, ascending, isa), element_copy(dtype.itemsize)

    @jit
    def run(p: TopKParameters, first: Any, last: Any, heap: Any) -> None:
        for number in range(first, last):
            x, values, indices = unit_addresses(p.axes, p.table, number, p.x, p.values, p.indices)
            find(p, x, heap)
            for at in range(p.k):
                index = index_of(long_at(heap + at * ENTRY_BYTES))
                copy(values + at * p.value_step, x + index * p.x_step)
                set_index(indices + at * p.index_step, index, p.index_bytes)

    return share_units(TopKParameters, run, own_scratch)


def build_counted_top_k(flip: int) -> TaskBody:
    """Builds a thread's part of the first bytes of sorted rows, to be compiled.

    Args:
        flip: the bits by which a byte differs from its rank: 0 is the first one's.
    """

    @jit
    def find(p: TopKParameters, x: Any, values: Any, indices: Any, counts: Any) -> None:
        # Read once: LLVM cannot know that the stores below do not write the parameters.
        size, step, k, value_step, index_step, index_bytes = p.size, p.x_step, p.k, p.value_step, p.index_step, p.index_bytes
        for rank in range(RANKS):
            set_word(counts + 4 * rank, 0)
        for index in range(size):
            at = counts + 4 * (byte_at(x + index * step) ^ flip)
            set_word(at, word_at(at) + 1)
        before = 0
        for rank in range(RANKS):
            count = word_at(counts + 4 * rank)
            set_word(counts + 4 * rank, before)
            before += count
        for index in range(size):
            value = byte_at(x + index * step)
            at = counts + 4 * (value ^ flip)
            place = word_at(at)
            set_word(at, place + 1)
            if place < k:
                set_byte(values + place * value_step, value)
                set_index(indices + place * index_step, index, index_bytes)

    @jit
    def run(p: TopKParameters, first: Any, last: Any, counts: Any) -> None:
        for number in range(first, last):
            x, values, indices = unit_addresses(p.axes, p.table, number, p.x, p.values, p.indices)
            find(p, x, values, indices, counts)

    return share_units(TopKParameters, run, own_scratch)
