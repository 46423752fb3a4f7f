"""Parts of images, copied with their padding and divided by the remainders of coordinates by the strides of a window.

What a tap of the window sees from all positions then lies side by side but for what is left over at the end of each row.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit

from dmlpy.devices.cpu.registers import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.vectors import copy_float, jit, set_float, vectors_of


@cache
def part_filler(registers: Registers) -> Any:
    """The kernel `fill(p, part, source, first_row)`, which copies the part that the windows of rows of positions reach.

    `p` has the fields `channels`, `height`, `width`, `stride_y`, `stride_x`, `pad_y`, `pad_x`, `phase_rows`, `pitch`, `plane`,
    `input_channel`, `input_row`, and `padding`, the value of what is outside of the image.

    Args:
        registers: the registers that it is compiled for.
    """
    vectors = vectors_of(registers)
    load, store, lanes, size = vectors.load, vectors.store, registers.lanes, vectors.size
    every_second, load_some, store_some = vectors.every_second(), vectors.load_some, vectors.store_some

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
        at, first, whole = target, source + (phase - p.pad_x) * FLOAT_BYTES, low
        if p.stride_x == 1:
            whole = high - (high - low) % lanes
            for column in range(low, whole, lanes):
                store(at + column * FLOAT_BYTES, load(first + column * FLOAT_BYTES))
            if whole < high:
                store_some(at + whole * FLOAT_BYTES, load_some(first + whole * FLOAT_BYTES, high - whole), high - whole)
        else:
            if p.stride_x == 2 and high > low:
                whole = high - 1 - (high - 1 - low) % lanes
                for column in range(low, whole, lanes):
                    place = first + 2 * column * FLOAT_BYTES
                    store(at + column * FLOAT_BYTES, every_second(load(place), load(place + size)))
            for column in range(whole, high):
                copy_float(at + column * FLOAT_BYTES, first + column * p.stride_x * FLOAT_BYTES)
        for column in range(high, length):
            set_float(target + column * FLOAT_BYTES, p.padding)

    @njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
    def fill(p: Any, part: Any, source: Any, first_row: Any) -> None:
        begin = first_row * p.stride_y - p.pad_y
        phase_size = p.phase_rows * p.pitch * FLOAT_BYTES
        for channel in range(p.channels):
            for phase_y in range(p.stride_y):
                for row in range(p.phase_rows):
                    y = begin + row * p.stride_y + phase_y
                    from_row = source + channel * p.input_channel + y * p.input_row if 0 <= y < p.height else 0
                    for phase_x in range(p.stride_x):
                        at = part + channel * p.plane + (phase_y * p.stride_x + phase_x) * phase_size + row * p.pitch * FLOAT_BYTES
                        copy_row(p, at, from_row, phase_x)

    return fill
