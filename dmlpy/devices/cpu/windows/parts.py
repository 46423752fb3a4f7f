"""Parts of images, copied with their padding and divided by the remainders of coordinates by the strides of a window.

What a tap of the window sees from all positions then lies side by side but for what is left over at the end of each row.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit

from dmlpy.devices.cpu.registers import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.stored import elements_of
from dmlpy.devices.cpu.vectors import jit, set_float, vectors_of


@cache
def part_filler(halves: bool, registers: Registers) -> Any:
    """The kernel `fill(p, part, source, first_slice, first_row)`, which copies the part that the windows of rows of positions reach.

    `p` has the fields `channels`, `depth`, `height`, `width`, `stride_y`, `stride_x`, `pad_y`, `pad_x`, `dilation_z`, `depth_taps`,
    `phase_rows`, `pitch`, `plane`, `input_channel`, `input_slice`, `input_row`, `input_element`, and `padding`, the value of what is
    outside of the image. The part's `channels` are those of the image, each with the slices of all `depth_taps` from `first_slice` on.

    Args:
        halves: whether the image is of FLOAT16; the part is always of FLOAT32.
        registers: the registers that it is compiled for.
    """
    vectors, elements = vectors_of(registers), elements_of(halves, registers)
    store, store_some, lanes, every_second = vectors.store, vectors.store_some, registers.lanes, vectors.every_second()
    read, one, size = elements.read, elements.one, elements.size

    @jit
    def copy_row(p: Any, target: Any, source: Any, phase: Any) -> None:
        """Copies a phase of the columns of a row; `source` is 0 for a row outside of the image."""
        length = p.pitch
        # Column c of the phase is the input's column c * stride + phase - padding.
        low = min(length, max(0, (p.pad_x - phase + p.stride_x - 1) // p.stride_x)) if source != 0 else length
        high = max(low, min(length, (p.width + p.pad_x - phase + p.stride_x - 1) // p.stride_x))
        for column in range(low):
            set_float(target + column * FLOAT_BYTES, p.padding)
        # An element behind the last one of a pair is not read where it may be behind the row.
        at, first, whole = target, source + (phase - p.pad_x) * p.input_element, low
        step = p.stride_x * p.input_element
        if step == size:
            whole = high - (high - low) % lanes
            for column in range(low, whole, lanes):
                store(at + column * FLOAT_BYTES, read(first + column * size, lanes))
            if whole < high:
                store_some(at + whole * FLOAT_BYTES, read(first + whole * size, high - whole), high - whole)
        else:
            if step == 2 * size and high > low:
                whole = high - 1 - (high - 1 - low) % lanes
                for column in range(low, whole, lanes):
                    place = first + 2 * column * size
                    store(at + column * FLOAT_BYTES, every_second(read(place, lanes), read(place + lanes * size, lanes)))
            for column in range(whole, high):
                set_float(at + column * FLOAT_BYTES, one(first + column * step))
        for column in range(high, length):
            set_float(target + column * FLOAT_BYTES, p.padding)

    @njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def fill(p: Any, part: Any, source: Any, first_slice: Any, first_row: Any) -> None:
        begin = first_row * p.stride_y - p.pad_y
        phase_size = p.phase_rows * p.pitch * FLOAT_BYTES
        for channel in range(p.channels):
            z = first_slice + channel % p.depth_taps * p.dilation_z
            plane = source + channel // p.depth_taps * p.input_channel + z * p.input_slice
            for phase_y in range(p.stride_y):
                for row in range(p.phase_rows):
                    y = begin + row * p.stride_y + phase_y
                    from_row = plane + y * p.input_row if 0 <= y < p.height and 0 <= z < p.depth else 0
                    for phase_x in range(p.stride_x):
                        at = part + channel * p.plane + (phase_y * p.stride_x + phase_x) * phase_size + row * p.pitch * FLOAT_BYTES
                        copy_row(p, at, from_row, phase_x)

    return fill
