"""The compiled gradient of means of regions of interest for the images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.memory_kernels import long_at
from dmlpy.devices.cpu.pooling.kernels import image_of, place_samples, sample_count
from dmlpy.devices.cpu.pooling.region_gradient_plan import RegionGradientParameters
from dmlpy.devices.cpu.pooling.region_plan import SAMPLE_BYTES
from dmlpy.devices.cpu.simd import float_at, set_float, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@jit
def _add(at: Any, value: Any) -> None:
    set_float(at, float_at(at) + value)


@jit
def _spread_along(line: Any, column: Any, value: Any) -> None:
    share = float_at(column + 16)
    _add(line + long_at(column), value * (_ONE - share))
    if share != _ZERO:
        _add(line + long_at(column + 8), value * share)


@jit
def _spread(plane: Any, row: Any, column: Any, value: Any) -> None:
    """Adds a sample's gradient to the pixels, up to four, that have a share of it."""
    share = float_at(row + 16)
    _spread_along(plane + long_at(row), column, value * (_ONE - share))
    if share != _ZERO:
        _spread_along(plane + long_at(row + 8), column, value * share)


def build_gradient(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of the gradient, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    load_store, floats, lanes = load_store_of(stored, isa), load_store_of("float32", isa), isa.lanes
    one, write, size = load_store.load_one, load_store.store, load_store.size
    read, clear, all_of = floats.load, floats.store, simd_of(isa).all_of

    @jit
    def spread_region(p: RegionGradientParameters, region: Any, channel: Any, scratch: Any) -> None:
        at, table = p.corners + 4 * region * size, scratch + p.row_samples
        left, right = np.float64(one(at)) * p.scale_x, np.float64(one(at + 2 * size)) * p.scale_x
        top, bottom = np.float64(one(at + size)) * p.scale_y, np.float64(one(at + 3 * size)) * p.scale_y
        rows, columns = sample_count(p, bottom - top, p.out_height), sample_count(p, right - left, p.out_width)
        place_samples(p, scratch, top, bottom, rows, p.out_height, p.height, p.width * FLOAT_BYTES)
        place_samples(p, table, left, right, columns, p.out_width, p.width, FLOAT_BYTES)
        total = np.float32(np.float64(rows) * np.float64(columns))
        plane = scratch + p.samples + image_of(p, region) * p.height * p.width * FLOAT_BYTES
        for y in range(p.out_height):
            source = p.output + region * p.output_region + channel * p.output_channel + y * p.output_row
            for x in range(p.out_width):
                share = one(source + x * p.output_element) / total
                for row in range(scratch + y * rows * SAMPLE_BYTES, scratch + (y + 1) * rows * SAMPLE_BYTES, SAMPLE_BYTES):
                    if long_at(row) >= 0:
                        for column in range(table + x * columns * SAMPLE_BYTES, table + (x + 1) * columns * SAMPLE_BYTES, SAMPLE_BYTES):
                            if long_at(column) >= 0:
                                _spread(plane, row, column, share)

    @jit
    def run(p: RegionGradientParameters, first: Any, last: Any, scratch: Any) -> None:
        planes, pixels = scratch + p.samples, p.height * p.width
        for channel in range(first, last):
            for pixel in range(0, p.images * pixels, lanes):
                clear(planes + pixel * FLOAT_BYTES, all_of(np.float32(0.0)), p.images * pixels - pixel)
            for region in range(p.regions):
                spread_region(p, region, channel, scratch)
            for image in range(p.images):
                target, source = p.input + image * p.input_image + channel * p.input_channel, planes + image * pixels * FLOAT_BYTES
                for pixel in range(0, pixels, lanes):
                    write(target + pixel * size, read(source + pixel * FLOAT_BYTES, pixels - pixel), pixels - pixel)

    return share_units(RegionGradientParameters, run, own_scratch)
