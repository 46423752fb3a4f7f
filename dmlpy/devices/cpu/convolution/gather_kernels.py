"""The gathering of input tiles: parts of images are copied with their padding, split by coordinate modulo stride.

What a tap reads for all positions is then contiguous, except for gaps at the ends of rows.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import called, jit
from dmlpy.devices.cpu.convolution.layout import GatherParameters
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, row_copy
from dmlpy.devices.cpu.runtime_kernels import indirect_call
from dmlpy.devices.cpu.simd import set_float, simd_of, struct_view

if TYPE_CHECKING:
    from collections.abc import Callable


call_gather = indirect_call(5)
"""call_gather(gather_parameters, arguments) calls the kernel of `build_gather` by its address."""


def build_gather(stored: Storage, isa: Isa) -> Callable[..., None]:
    """Builds `gather(parameters, input_tile, source, first_slice, first_row)`, which several kernels call, to be compiled.

    `parameters` is the address of GatherParameters. The arguments are those of `input_tile_gather`.
    """
    copy, parameters_at = jit(_build_gather(stored, isa)), struct_view(GatherParameters)

    def gather(parameters: Any, input_tile: Any, source: Any, first_slice: Any, first_row: Any) -> None:
        copy(parameters_at(parameters), input_tile, source, first_slice, first_row)

    return gather


@cache
def input_tile_gather(stored: Storage, isa: Isa) -> Any:
    """The kernel `gather(p, input_tile, source, first_slice, first_row)`, which copies what the windows of rows of positions read.

    `p` has the fields `channels`, `depth`, `height`, `width`, `stride_y`, `stride_x`, `pad_y`, `pad_x`, `dilation_z`, `depth_taps`,
    `subplane_rows`, `run_rows`, `left_out_rows`, `pitch`, `plane`, `input_channel`, `input_slice`, `input_row`, `input_element`, and
    `padding`, the value outside of the image. The tile's `channels` are those of the image, each with the slices of all `depth_taps`
    from `first_slice` on.

    Args:
        stored: the type of the image's elements; the tile is always of FLOAT32.
        isa: the instruction set that it is compiled for.
    """
    return called(_build_gather(stored, isa))


def _column_kernels(stored: Storage, isa: Isa) -> tuple[Any, Any]:
    """The kernels `pad(p, target, first, last)` and `copy_columns(p, target, source, low, high)`, which write columns of a tile's row."""
    simd, load_store = simd_of(isa), load_store_of(stored, isa)
    store, store_some, all_of, every_second = simd.store, simd.store_some, simd.all_of, simd.every_second()
    read, one, size, lanes = load_store.load, load_store.load_one, load_store.size, isa.lanes

    @jit
    def pad(p: Any, target: Any, first: Any, last: Any) -> None:
        """Writes padding to some columns of a row."""
        for column in range(first, last, lanes):
            store_some(target + column * FLOAT_BYTES, all_of(p.padding), last - column)

    @jit
    def copy_columns(p: Any, target: Any, source: Any, low: Any, high: Any) -> None:
        """Copies the columns of a row from `low` to `high`; `source` is that of the first column, if it is in the image."""
        vectorized, step = low, p.stride_x * p.input_element
        if step == size:
            vectorized = high - (high - low) % lanes
            for column in range(low, vectorized, lanes):
                store(target + column * FLOAT_BYTES, read(source + column * size, lanes))
            if vectorized < high:
                store_some(target + vectorized * FLOAT_BYTES, read(source + vectorized * size, high - vectorized), high - vectorized)
        else:
            if step == 2 * size and high > low:
                # The element after the last pair is not read: it may be past the row.
                vectorized = high - 1 - (high - 1 - low) % lanes
                for column in range(low, vectorized, lanes):
                    pair = source + 2 * column * size
                    store(target + column * FLOAT_BYTES, every_second(read(pair, lanes), read(pair + lanes * size, lanes)))
            for column in range(vectorized, high):
                set_float(target + column * FLOAT_BYTES, one(source + column * step))

    return pad, copy_columns


def _build_gather(stored: Storage, isa: Isa) -> Callable[..., None]:
    """The function that `input_tile_gather` compiles."""
    size, copy_row = load_store_of(stored, isa).size, row_copy(stored, isa)
    pad, copy_columns = _column_kernels(stored, isa)

    def gather(p: Any, input_tile: Any, source: Any, first_slice: Any, first_row: Any) -> None:
        begin = first_row * p.stride_y - p.pad_y
        if p.plane == FLOAT_BYTES and p.input_channel == size and p.depth_taps * p.depth == 1 and p.pad_x == 0 and 0 <= begin < p.height:
            # All channels of one position are one row, as in the branches of squeeze-and-excitation networks.
            copy_row(source + begin * p.input_row, input_tile, p.channels)
            return
        row_size, subplane_size = p.pitch * FLOAT_BYTES, p.subplane_rows * p.pitch * FLOAT_BYTES
        for sub_x in range(p.stride_x):
            # Column c of the subplane is the input's column c * stride + sub_x - padding.
            low = min(p.pitch, max(0, (p.pad_x - sub_x + p.stride_x - 1) // p.stride_x))
            high = max(low, min(p.pitch, (p.width + p.pad_x - sub_x + p.stride_x - 1) // p.stride_x))
            first_column = (sub_x - p.pad_x) * p.input_element
            for channel in range(p.channels):
                z = first_slice + channel % p.depth_taps * p.dilation_z
                plane = source + channel // p.depth_taps * p.input_channel + z * p.input_slice + first_column
                for sub_y in range(p.stride_y):
                    target = input_tile + channel * p.plane + (sub_y * p.stride_x + sub_x) * subplane_size
                    y = begin + sub_y
                    for row in range(1, p.subplane_rows + 1):
                        if 0 <= y < p.height and 0 <= z < p.depth:
                            pad(p, target, 0, low)
                            copy_columns(p, target, plane + y * p.input_row, low, high)
                            pad(p, target, high, p.pitch)
                        else:
                            pad(p, target, 0, p.pitch)
                        target += row_size
                        y += p.stride_y
                        if row % p.run_rows == 0:
                            y += p.left_out_rows

    return gather
