"""The compiled max and average pooling: vectors of positions, or of a window's elements if there are few positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.convolution.gather_kernels import input_tile_gather
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, spread_writer
from dmlpy.devices.cpu.pooling.plan import PoolingParameters
from dmlpy.devices.cpu.simd import float_at, integer_at, maximum, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_pooling(kind: Literal["max", "average"], stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a pooling, to be compiled.

    Args:
        kind: the reduction of a window's elements.
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, gather, lanes = simd_of(isa), input_tile_gather(stored, isa), isa.lanes
    load_store, write = load_store_of(stored, isa), spread_writer(stored, isa)
    read, one, set_one, element_size = load_store.load, load_store.load_one, load_store.store_one, load_store.size
    load, store, all_of, multiply, divide = simd.load, simd.store, simd.all_of, simd.multiply, simd.divide
    averages = kind == "average"
    identity = np.float32(0.0 if averages else -np.inf)
    combine = simd.add if averages else maximum_of(isa)

    @jit
    def combine_scalars(a: Any, b: Any) -> Any:
        if averages:
            return a + b
        return b if b > a or b != b else a  # NaN wins

    @jit
    def pool_positions(p: PoolingParameters, input_tile: Any, output: Any, first_row: Any, rows: Any, vector: Any) -> None:
        for row in range(rows):
            begin = input_tile + row * p.pitch * FLOAT_BYTES
            for column in range(0, p.out_width, lanes):
                at = begin + column * FLOAT_BYTES
                value = load(at + integer_at(p.offsets))
                for tap in range(1, p.taps):
                    value = combine(value, load(at + integer_at(p.offsets + 8 * tap)))
                if averages:
                    height = all_of(float_at(p.row_counts + (first_row + row) * FLOAT_BYTES))
                    value = divide(value, multiply(height, load(p.column_counts + column * FLOAT_BYTES)))
                target = output + row * p.output_row + column * p.output_element
                write(target, value, p.out_width - column, p.output_element, vector)

    @jit
    def pool_within_window(p: PoolingParameters, source: Any, y: Any, x: Any, scratch: Any) -> Any:
        """The result of a window, by vectors of its rows' elements."""
        top, left = y * p.stride_y - p.pad_y, x * p.stride_x - p.pad_x
        low, high = max(0, left), min(p.width, left + p.window_x)
        whole = low + max(0, high - low) // lanes * lanes
        vector_result, scalar_result = all_of(identity), identity
        for row in range(max(0, top), min(p.height, top + p.window_y)):
            at = source + row * p.input_row
            for column in range(low, whole, lanes):
                vector_result = combine(vector_result, read(at + column * element_size, lanes))
            for column in range(whole, high):
                scalar_result = combine_scalars(scalar_result, one(at + column * element_size))
        store(scratch, vector_result)
        for lane in range(lanes):
            scalar_result = combine_scalars(scalar_result, float_at(scratch + lane * FLOAT_BYTES))
        return scalar_result

    @jit
    def pool(p: PoolingParameters, first: Any, last: Any, scratch: Any) -> None:
        for number in range(first, last):
            plane, row_split = number // p.row_splits, number % p.row_splits
            image, channel = plane // p.image_planes, plane % p.image_planes
            source = p.input + image * p.input_image + channel * p.input_channel
            output = p.output + image * p.output_image + channel * p.output_channel
            first_row = row_split * p.rows
            rows = min(p.rows, p.out_height - first_row)
            if p.within_window == 0:
                gather(p, scratch, source, 0, first_row)
                pool_positions(p, scratch, output + first_row * p.output_row, first_row, rows, scratch + p.plane)
            else:
                for y in range(first_row, first_row + rows):
                    for x in range(p.out_width):
                        value = pool_within_window(p, source, y, x, scratch)
                        if averages:
                            value /= float_at(p.row_counts + y * FLOAT_BYTES) * float_at(p.column_counts + x * FLOAT_BYTES)
                        set_one(output + y * p.output_row + x * p.output_element, value)

    return share_units(PoolingParameters, pool, own_scratch)


def maximum_of(isa: Isa) -> Any:
    """The kernel of two vectors that returns the larger number of each lane, or NaN if there is one."""
    kind = simd_of(isa).kind

    @intrinsic
    def larger(x: Any, y: Any) -> Any:
        return kind(kind, kind), lambda builder, arguments: maximum(builder, *arguments)

    return larger
