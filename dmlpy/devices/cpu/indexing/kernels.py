"""The compiled gathers and scatters, of blocks and of single elements, and ONE_HOT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.indexing.plan import IndexingParameters
from dmlpy.devices.cpu.movement.kernels import block_copy, element_copy, fill, long_at, word_at
from dmlpy.devices.cpu.simd import struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_WORD_BYTES, _WORD, _LARGEST = 4, 0xFFFFFFFF, (1 << 63) - 1


@jit
def _index_at(p: IndexingParameters, address: Any, size: Any) -> Any:
    """The index at an address into a dimension of a size, counted from its start. One out of range stays so."""
    if p.index_bytes == _WORD_BYTES:
        index = word_at(address)
        if p.signed == 0:
            index &= _WORD
    else:
        index = long_at(address)
        if p.signed == 0 and index < 0:
            index = _LARGEST  # above any size
    if p.signed != 0 and index < 0:
        index += size
    return index


def _for_each_unit(run: Any) -> TaskBody:
    """Calls run(p, first, last) for the units of each tile."""
    parameters_at = struct_view(IndexingParameters)

    def run_tiles(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            run(p, p.units * tile // p.tiles, p.units * (tile + 1) // p.tiles)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return run_tiles


def build_blocks(scatters: bool) -> TaskBody:
    """Builds a thread's part of gathers or scatters of blocks, to be compiled.

    Args:
        scatters: whether blocks are written where indices point, and not written where these are out of range. A gather reads the
            nearest element along each dimension then.
    """
    copy = block_copy()

    @jit
    def run(p: IndexingParameters, first: Any, last: Any) -> None:
        for unit in range(first, last):
            address = p.indices + unit % p.period * p.axes * p.index_bytes
            number, inside = 0, True
            for axis in range(p.axes):
                size = long_at(p.sizes + 8 * axis)
                index = _index_at(p, address + axis * p.index_bytes, size)
                inside = inside and 0 <= index < size
                number = number * size + min(max(index, 0), size - 1)
            indexed, other = p.indexed + unit // p.per_batch * p.batch_size + number * p.block, p.other + unit * p.block
            if scatters:
                if inside:
                    copy(indexed, other, p.block)
            else:
                copy(other, indexed, p.block)

    return _for_each_unit(run)


def build_elements(scatters: bool, width: int) -> TaskBody:
    """Builds a thread's part of gathers or scatters of elements along an axis, to be compiled.

    Args:
        scatters: as for blocks.
        width: bytes of an element.
    """
    copy = element_copy(width)

    @jit
    def run(p: IndexingParameters, first: Any, last: Any) -> None:
        size = long_at(p.sizes)
        for unit in range(first, last):
            indexed, other = p.indexed + unit // p.per_batch * p.batch_size, p.other + unit * p.columns * width
            indices = p.indices + unit * p.columns * p.index_bytes
            for column in range(p.columns):
                index = _index_at(p, indices + column * p.index_bytes, size)
                place = indexed + column * p.column_step + min(max(index, 0), size - 1) * p.index_step
                if scatters:
                    if 0 <= index < size:
                        copy(place, other + column * width)
                else:
                    copy(other + column * width, place)

    return _for_each_unit(run)


def build_one_hot(width: int) -> TaskBody:
    """Builds a thread's part of ONE_HOT, to be compiled.

    Args:
        width: bytes of an element.
    """
    copy, repeat = element_copy(width), fill

    @jit
    def run(p: IndexingParameters, first: Any, last: Any) -> None:
        size = long_at(p.sizes)
        repeat(p.indexed + first * p.batch_size, p.other, width, (last - first) * p.batch_size)
        for unit in range(first, last):
            indexed, indices = p.indexed + unit * p.batch_size, p.indices + unit * p.columns * p.index_bytes
            for column in range(p.columns):
                index = _index_at(p, indices + column * p.index_bytes, size)
                if 0 <= index < size:
                    copy(indexed + (index * p.columns + column) * width, p.other + width)

    return _for_each_unit(run)
