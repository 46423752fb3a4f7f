"""The compiled gathers and scatters, of blocks and of single elements, ONE_HOT, and NONZERO_COORDINATES."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.indexing.plan import IndexingParameters, NonzeroParameters
from dmlpy.devices.cpu.memory_kernels import block_copy, element_copy, fill, long_at, set_long, set_word, word_at
from dmlpy.devices.cpu.simd import ADDRESS, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


_WORD_BYTES, _WORD, _LARGEST = 4, 0xFFFFFFFF, (1 << 63) - 1


@jit
def _index_at(width: Any, signed: Any, address: Any, size: Any) -> Any:
    """The index of some bytes at an address into a dimension of a size, counted from its start. One out of range stays so."""
    if width == _WORD_BYTES:
        index = word_at(address)
        if signed == 0:
            index &= _WORD
    else:
        index = long_at(address)
        if signed == 0 and index < 0:
            index = _LARGEST  # above any size
    return index + size if signed != 0 and index < 0 else index


def build_blocks(scatters: bool) -> TaskBody:
    """Builds a thread's part of gathers or scatters of blocks, to be compiled.

    Args:
        scatters: whether blocks are written where indices point, and not written where these are out of range. A gather reads the
            nearest element along each dimension then.
    """
    copy = block_copy()

    @jit
    def gather_one_by_one(other: Any, indexed: Any, indices: Any, count: Any, p: IndexingParameters) -> None:
        size, width, signed, block = long_at(p.sizes), p.index_bytes, p.signed, p.block
        for unit in range(count):
            at = indices + unit * width
            index = word_at(at) if width == _WORD_BYTES else long_at(at)
            if index < 0 or index >= size:  # a branch: most indices need none of this
                index = min(max(_index_at(width, signed, at, size), 0), size - 1)
            copy(other + unit * block, indexed + index * block, block)

    @jit
    def run(p: IndexingParameters, first: Any, last: Any, state: Any) -> None:
        # Read once: LLVM cannot know that the stores below do not write the parameters.
        axes, width, signed, sizes, block = p.axes, p.index_bytes, p.signed, p.sizes, p.block
        while first < last:
            batch, place = first // p.per_batch, first % p.period
            following = min(last, first - place + p.period, (batch + 1) * p.per_batch)
            indexed, indices, others = p.indexed + batch * p.batch_size, p.indices + (place - first) * axes * width, p.other
            if not scatters and axes == 1:
                gather_one_by_one(others + first * block, indexed, indices + first * width, following - first, p)
                first = following
                continue
            for unit in range(first, following):
                number, inside = 0, True
                for axis in range(axes):
                    size = long_at(sizes + 8 * axis)
                    index = _index_at(width, signed, indices + (unit * axes + axis) * width, size)
                    inside = inside and 0 <= index < size
                    number = number * size + min(max(index, 0), size - 1)
                if scatters:
                    if inside:
                        copy(indexed + number * block, others + unit * block, block)
                else:
                    copy(others + unit * block, indexed + number * block, block)
            first = following

    return share_units(IndexingParameters, run)


def build_elements(scatters: bool, width: int) -> TaskBody:
    """Builds a thread's part of gathers or scatters of elements along an axis, to be compiled.

    Args:
        scatters: as for blocks.
        width: bytes of an element.
    """
    words, signed_words, longs, signed_longs = (_row_of_elements(scatters, width, *kind) for kind in product((4, 8), (0, 1)))

    @jit
    def run(p: IndexingParameters, first: Any, last: Any, state: Any) -> None:
        # Read once: LLVM cannot know that the stores below do not write the parameters.
        size, columns, steps = long_at(p.sizes), p.columns, (p.column_step, p.index_step)
        index_bytes, signed, per_batch, batch_size = p.index_bytes, p.signed != 0, p.per_batch, p.batch_size
        indices_of, others, indexed_of, row_indices = p.indices, p.other, p.indexed, p.row_indices
        for unit in range(first, last):
            indexed, other = indexed_of + unit // per_batch * batch_size, others + unit * columns * width
            indices = indices_of + unit * row_indices
            if index_bytes == _WORD_BYTES and signed:
                signed_words(indexed, other, indices, columns, size, steps)
            elif index_bytes == _WORD_BYTES:
                words(indexed, other, indices, columns, size, steps)
            elif signed:
                signed_longs(indexed, other, indices, columns, size, steps)
            else:
                longs(indexed, other, indices, columns, size, steps)

    return share_units(IndexingParameters, run)


def _row_of_elements(scatters: bool, width: int, index_bytes: int, signed: int) -> Any:
    """The kernel `run(indexed, other, indices, columns, size, steps)` of a row, for indices of one type."""
    copy = element_copy(width)
    load = word_at if index_bytes == _WORD_BYTES else long_at

    @jit
    def gather_from_row(indexed: Any, other: Any, indices: Any, columns: Any, size: Any) -> None:
        for column in range(columns):
            index = load(indices + column * index_bytes)
            if index < 0 or index >= size:  # a branch: most indices need none of this
                index = min(max(_index_at(index_bytes, signed, indices + column * index_bytes, size), 0), size - 1)
            copy(other + column * width, indexed + index * width)

    @jit
    def run_row(indexed: Any, other: Any, indices: Any, columns: Any, size: Any, steps: Any) -> None:
        column_step, index_step = steps
        if not scatters and column_step == 0 and index_step == width:
            gather_from_row(indexed, other, indices, columns, size)
            return
        for column in range(columns):
            index = _index_at(index_bytes, signed, indices + column * index_bytes, size)
            place = indexed + column * column_step + min(max(index, 0), size - 1) * index_step
            if scatters:
                if 0 <= index < size:
                    copy(place, other + column * width)
            else:
                copy(other + column * width, place)

    return run_row


def build_one_hot(width: int) -> TaskBody:
    """Builds a thread's part of ONE_HOT, to be compiled.

    Args:
        width: bytes of an element.
    """
    copy, repeat = element_copy(width), fill

    @jit
    def run(p: IndexingParameters, first: Any, last: Any, state: Any) -> None:
        size = long_at(p.sizes)
        repeat(p.indexed + first * p.batch_size, p.other, width, (last - first) * p.batch_size)
        for unit in range(first, last):
            index_width, signed, columns, value = p.index_bytes, p.signed, p.columns, p.other + width
            indexed, indices = p.indexed + unit * p.batch_size, p.indices + unit * columns * index_width
            for column in range(columns):
                index = _index_at(index_width, signed, indices + column * index_width, size)
                if 0 <= index < size:
                    copy(indexed + (index * columns + column) * width, value)

    return share_units(IndexingParameters, run)


def _bits_at(width: int) -> Any:
    """The intrinsic that loads an element's bits."""
    kind = ir.IntType(8 * width)

    @intrinsic
    def load(address: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=width)
            return value if kind == ADDRESS else builder.zext(value, ADDRESS)

        return types.int64(types.int64), generate

    return load


def build_nonzero(width: int) -> TaskBody:
    """Builds the search, to be compiled. It runs on one thread.

    Args:
        width: bytes of an element.
    """
    bits_at, parameters_at, repeat = _bits_at(width), struct_view(NonzeroParameters), fill

    @jit
    def search(p: NonzeroParameters, x: Any, target: Any) -> Any:
        """Writes the coordinates of a row's elements, and returns where the next ones go."""
        # Read once: LLVM cannot know that the stores below do not write the parameters.
        outer, columns, step, mask, indices = p.dimensions - 1, p.columns, p.column, p.mask, p.indices
        size = (outer + 1) * _WORD_BYTES
        if outer == 1:
            row = long_at(indices)
            for column in range(columns):
                set_word(target, row)
                set_word(target + _WORD_BYTES, column)
                target += size if bits_at(x + column * step) & mask != 0 else 0
        else:
            for column in range(columns):
                for dimension in range(outer):
                    set_word(target + dimension * _WORD_BYTES, long_at(indices + dimension * 8))
                set_word(target + outer * _WORD_BYTES, column)
                target += size if bits_at(x + column * step) & mask != 0 else 0
        return target

    def find(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        x, target, size = p.x, p.coordinates, p.dimensions * _WORD_BYTES
        for dimension in range(p.dimensions):
            set_long(p.indices + dimension * 8, 0)
        for _ in range(p.rows):
            target = search(p, x, target)
            dimension = p.dimensions - 2
            while dimension >= 0:
                index, stride = long_at(p.indices + dimension * 8) + 1, long_at(p.strides + dimension * 8)
                x += stride
                if index < long_at(p.sizes + dimension * 8):
                    set_long(p.indices + dimension * 8, index)
                    dimension = -1
                else:
                    x -= index * stride
                    set_long(p.indices + dimension * 8, 0)
                    dimension -= 1
        count = (target - p.coordinates) // size
        set_word(p.count, count)
        if target < p.coordinates + p.size:
            set_word(target, 0)
            repeat(target, target, _WORD_BYTES, p.coordinates + p.size - target)

    return find
