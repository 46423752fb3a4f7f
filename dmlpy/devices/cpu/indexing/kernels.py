"""The compiled gathers and scatters, of blocks and of single elements, and ONE_HOT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.indexing.plan import IndexingParameters
from dmlpy.devices.cpu.movement.kernels import block_copy, element_copy, fill, long_at, word_at
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
    def run(p: IndexingParameters, first: Any, last: Any, own: Any) -> None:
        # In variables: what is written might be the parameters, for all that LLVM knows.
        axes, width, signed, sizes, block = p.axes, p.index_bytes, p.signed, p.sizes, p.block
        while first < last:
            batch, place = first // p.per_batch, first % p.period
            following = min(last, first - place + p.period, (batch + 1) * p.per_batch)
            indexed, indices, others = p.indexed + batch * p.batch_size, p.indices + (place - first) * axes * width, p.other
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
    copy = element_copy(width)

    @jit
    def run(p: IndexingParameters, first: Any, last: Any, own: Any) -> None:
        size = long_at(p.sizes)
        for unit in range(first, last):
            indexed, other = p.indexed + unit // p.per_batch * p.batch_size, p.other + unit * p.columns * width
            index_width, signed, column_step, index_step = p.index_bytes, p.signed, p.column_step, p.index_step
            indices = p.indices + unit * p.columns * index_width
            for column in range(p.columns):
                index = _index_at(index_width, signed, indices + column * index_width, size)
                place = indexed + column * column_step + min(max(index, 0), size - 1) * index_step
                if scatters:
                    if 0 <= index < size:
                        copy(place, other + column * width)
                else:
                    copy(other + column * width, place)

    return share_units(IndexingParameters, run)


def build_one_hot(width: int) -> TaskBody:
    """Builds a thread's part of ONE_HOT, to be compiled.

    Args:
        width: bytes of an element.
    """
    copy, repeat = element_copy(width), fill

    @jit
    def run(p: IndexingParameters, first: Any, last: Any, own: Any) -> None:
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
