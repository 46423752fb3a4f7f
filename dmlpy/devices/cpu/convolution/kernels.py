"""The compiled convolution whose lanes are positions: tiles of them, of which each thread takes the next one that is left.

A tile's part of the input is copied with its padding (see `parts`), so vectors of positions run through rows, and the sums of a block of
filters for some vectors stay in registers over all channels and taps. Windows of one element, a step apart, read the input itself. The
other form is that of `filter_lanes_kernels`; `convolution_forms` chooses.

These kernels were taken rather than oneDNN by ctypes: layer by layer they take 0.5 to 1.04 of ONNX Runtime's processor time (those of three
networks but for the depthwise ones, one thread, AVX-512), on any system and processor that Numba knows. The oneDNN that is kept on PyPI is
one of SYCL for Linux, 97 MB and its runtime beside it; that for plain threads stopped in 2023.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.convolution.convolution_parameters import PARAMETERS
from dmlpy.devices.cpu.convolution.finished_products import finished_product
from dmlpy.devices.cpu.convolution.gather_kernels import call_filling
from dmlpy.devices.cpu.convolution.items import place_of
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, block_of
from dmlpy.devices.cpu.load_store import spread_writer
from dmlpy.devices.cpu.product_kernels import tile_product
from dmlpy.devices.cpu.simd import float_at, jit, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody


def convolution_of(single: bool, halves: bool, direct: bool, isa: Isa) -> TaskBody:
    """A thread's part of a convolution, to be compiled.

    Args:
        single: whether groups have one filter each, as depthwise convolutions have.
        halves: whether input and output are of FLOAT16.
        direct: whether results are written from registers: to FLOAT32 elements that lie side by side in rows, which begin as many positions
            apart as a vector has lanes, or more.
        isa: the instruction set that it is compiled for.
    """
    filters, most = (1, 8) if single else block_of(isa)
    simd, multiply = simd_of(isa), tile_product(filters, most, isa)
    multiply_and_finish = finished_product(filters, most, isa)
    write = spread_writer(halves, isa)
    load, all_of, subtract, multiply_add = simd.load, simd.all_of, simd.subtract, simd.multiply_add
    at_most, at_least, lanes, size = simd.at_most, simd.at_least, isa.lanes, simd.size

    @jit
    def finish(p: Any, sums: Any, coefficients: Any, output: Any, column: Any, count: Any, vector: Any) -> None:
        """Writes a filter's sums for `count` positions from a row's `column` on to the output's rows; `vector` is scratch."""
        step = p.filters * FLOAT_BYTES
        centre = all_of(float_at(coefficients))
        factor = all_of(float_at(coefficients + step))
        bias = all_of(float_at(coefficients + 2 * step))
        low, high, apart = all_of(p.low), all_of(p.high), p.output_element
        done = 0
        while done < count:
            taken = min(count - done, p.pitch - column)
            useful = min(taken, p.out_width - column)
            target = output + column * apart
            at = sums + done * FLOAT_BYTES
            for element in range(0, useful, lanes):
                value = multiply_add(subtract(load(at + element * FLOAT_BYTES), centre), factor, bias)
                value = at_least(at_most(value, high), low)
                write(target + element * apart, value, useful - element, apart, vector)
            done += taken
            output += p.output_row
            column = 0

    parameters_at = struct_view(PARAMETERS)

    def convolve(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        sums = p.scratch + thread * p.scratch_size
        part = sums + p.part
        state, finished = parameters, 0
        filled = -1
        item = first_tile(state, p.items, thread, threads, sync, epoch)
        while item < p.items:
            share, tile, first_row, rows, group, z, source, output = place_of(p, item)
            if p.copies != 0:
                if filled != tile:
                    call_filling(p.fill, (p.filling, part, source, z * p.stride_z - p.pad_z, first_row))
                    filled = tile
                source = part
            else:
                source += z * p.slice_step + first_row * p.row_step
            positions = min((rows - 1) * p.pitch + p.out_width, p.positions - first_row * p.pitch)
            first_block, last_block = p.blocks * share // p.parts, p.blocks * (share + 1) // p.parts
            block_size = p.channels * p.taps * filters * FLOAT_BYTES
            weights = p.weights + group * p.blocks * block_size
            total = (positions + lanes - 1) // lanes
            groups = (total + most - 1) // most
            for number in range(groups):
                begin = total * number // groups
                count = total * (number + 1) // groups - begin
                # Vectors must not reach behind the input: the last ones may begin among those before them, or in the tile before.
                first = min(begin * lanes, p.positions - first_row * p.pitch - count * lanes)
                useful = min(count * lanes, positions - first)
                column, of_row = first % p.pitch, output + first // p.pitch * p.output_row
                for block in range(first_block, last_block):
                    factors = p.channels, p.plane, p.taps, p.offsets, source + first * FLOAT_BYTES, weights + block * block_size
                    channel = block * filters
                    coefficients = p.coefficients + (3 * group * p.filters + channel) * FLOAT_BYTES
                    target, kept = of_row + channel * p.output_channel, p.filters - channel
                    if direct:
                        multiply_and_finish(
                            count,
                            factors,
                            (column, p.out_width, p.pitch, useful),
                            (coefficients, p.filters * FLOAT_BYTES, kept),
                            p.low,
                            p.high,
                            (target, p.output_row, p.output_channel),
                        )
                    else:
                        multiply(count, *factors, sums)
                        for one in range(min(filters, kept)):
                            own, vector = coefficients + one * FLOAT_BYTES, sums + filters * most * size
                            finish(p, sums + one * most * size, own, target + one * p.output_channel, column, useful, vector)
            finished += 1
            item = next_tile(state, item, p.items, threads, epoch)
        wait_for_all_tiles(state, finished, p.items, thread, threads)

    return convolve
