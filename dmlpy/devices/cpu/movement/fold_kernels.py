"""The compiled sums of columns in an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.memory_kernels import long_at
from dmlpy.devices.cpu.movement.fold_plan import SumsParameters
from dmlpy.devices.cpu.simd import float_at, set_float, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_sums(isa: Isa) -> TaskBody:
    """Builds a thread's part of the sums, to be compiled.

    Args:
        isa: the instruction set that it is compiled for.
    """
    floats, add, lanes = load_store_of("float32", isa), simd_of(isa).add, isa.lanes
    read, write = floats.load, floats.store

    @jit
    def add_row(to: Any, of: Any, count: Any) -> None:
        whole = count // lanes * lanes
        for at in range(0, whole, lanes):
            place = to + at * FLOAT_BYTES
            write(place, add(read(place, lanes), read(of + at * FLOAT_BYTES, lanes)), lanes)
        if whole < count:
            place, left = to + whole * FLOAT_BYTES, count - whole
            write(place, add(read(place, left), read(of + whole * FLOAT_BYTES, left)), left)

    @jit
    def add_rows(p: SumsParameters, to: Any, of: Any, rows: Any, columns: Any) -> None:
        y_row, y_column, x_row, x_column = p.y_row, p.y_column, p.x_row, p.x_column
        for row in range(rows):
            into, out_of = to + row * y_row, of + row * x_row
            if y_column == FLOAT_BYTES and x_column == FLOAT_BYTES:
                add_row(into, out_of, columns)
            else:
                for at in range(columns):
                    place = into + at * y_column
                    set_float(place, float_at(place) + float_at(out_of + at * x_column))

    @jit
    def run(p: SumsParameters, first: Any, last: Any, state: Any) -> None:
        for plane in range(first, last):
            batch, channel = plane // p.channels, plane % p.channels
            x, y = p.x + batch * p.x_batch + channel * p.x_channel, p.y + batch * p.y_batch + channel * p.y_channel
            for number in range(p.count):
                part = p.parts + number * p.part_size
                for entry in range(long_at(part + 32)):
                    of, to, rest = x + long_at(part), y + long_at(part + 8), entry
                    for axis in range(p.axes):
                        size = long_at(part + 40 + 8 * axis)
                        index = rest % size
                        rest //= size
                        of += index * long_at(p.steps + 16 * axis)
                        to += index * long_at(p.steps + 16 * axis + 8)
                    add_rows(p, to, of, long_at(part + 16), long_at(part + 24))

    return share_units(SumsParameters, run)
