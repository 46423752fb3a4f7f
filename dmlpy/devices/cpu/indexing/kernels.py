"""The compiled GATHER."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.indexing.plan import GatherParameters
from dmlpy.devices.cpu.movement.kernels import element_copy, memory_copy
from dmlpy.devices.cpu.quantized.byte_product_kernels import quad_at
from dmlpy.devices.cpu.simd import integer_at, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_FOUR, _EIGHT = 4, 8


def build_gather() -> TaskBody:
    """Builds a thread's part of GATHER, to be compiled.

    A negative index counts from the end, and an index out of range is that of the nearest entry, as `reference.indexing` defines it.
    """
    parameters_at = struct_view(GatherParameters)
    copy_four, copy_eight = element_copy(_FOUR), element_copy(_EIGHT)

    @jit
    def index_of(address: Any, width: Any, unsigned: Any, size: Any) -> Any:
        """The entry of the index at an address, of `size` entries."""
        index = 0
        if width == _EIGHT:
            index = integer_at(address)
            if index < 0:
                index = size - 1 if unsigned != 0 else index + size  # an unsigned one is larger than any size
        else:
            index = quad_at(address)
            if index < 0:
                index += (1 << 32) if unsigned != 0 else size
        return max(0, min(index, size - 1))

    @jit
    def copy_slices(p: GatherParameters, first: Any, last: Any) -> None:
        """Copies slices of the output."""
        # The compiler would load the parameters again after each copy.
        width, unsigned, size, slice_size, indices, x_outer = p.index_width, p.unsigned, p.size, p.slice_size, p.indices, p.x_outer
        entry, target, index = p.x + first // indices * x_outer, p.y + first * slice_size, p.index + first % indices * width
        end = p.index + indices * width
        for _ in range(first, last):
            source = entry + index_of(index, width, unsigned, size) * slice_size
            if slice_size == _FOUR:
                copy_four(target, source)
            elif slice_size == _EIGHT:
                copy_eight(target, source)
            else:
                memory_copy(target, source, slice_size)
            target += slice_size
            index += width
            if index == end:
                index -= indices * width
                entry += x_outer

    def gather(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        finished = 0
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            copy_slices(p, p.slices * tile // p.tiles, p.slices * (tile + 1) // p.tiles)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return gather
