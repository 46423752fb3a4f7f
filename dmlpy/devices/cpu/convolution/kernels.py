"""The compiled convolution whose lanes are positions: tiles of them, of which each thread takes the next one that is left.

A tile's part of the input is copied with its padding (see `parts`), so vectors of positions run through rows, and the sums of a block of
filters for some vectors stay in registers over all channels and taps. Windows of one element, a step apart, read the input itself. The
other form is that of `filter_lane_kernels`; `tiles_of` chooses.

These kernels were taken rather than oneDNN by ctypes: layer by layer they take 0.5 to 1.04 of ONNX Runtime's processor time (those of three
networks but for the depthwise ones, one thread, AVX-512), on any system and processor that Numba knows. The oneDNN that is kept on PyPI is
one of SYCL for Linux, 97 MB and its runtime beside it; that for plain threads stopped in 2023.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dmlpy.devices.cpu.convolution.gather_kernels import call_filling
from dmlpy.devices.cpu.convolution.layout import PARAMETERS
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, block_of
from dmlpy.devices.cpu.load_store import spread_writer
from dmlpy.devices.cpu.product_kernels import tile_product, tile_sums
from dmlpy.devices.cpu.simd import ADDRESS, each_count, float_at, jit, lanes_below, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.thread_pool import TaskBody


@jit
def place_of(p: Any, item: Any) -> Any:
    """The part of the filters, the tile, its first row of positions and its rows, the group, the slice, and where input and output begin.

    The input is that of the image and the group, the output that of the tile's first row.
    """
    share, tile = item % p.parts, item // p.parts
    first_row, rest = tile % p.tiles * p.rows, tile // p.tiles
    group, place = rest % p.groups, rest // p.groups
    image, z = place // p.out_depth, place % p.out_depth
    source = p.input + image * p.input_image + group * p.input_group
    output = p.output + image * p.output_image + z * p.output_slice + first_row * p.output_row + group * p.filters * p.output_channel
    return share, tile, first_row, min(p.rows, p.out_height - first_row), group, z, source, output


@cache
def finished_product(filters: int, most: int, isa: Isa) -> Any:
    """The kernel `multiply(vectors, factors, rows, coefficients, low, high, target)`.

    Its sums are those of `tile_product`, of which `factors` are the arguments from `channels` to `matrix`. The other tuples are:

    - rows: the first position's column, the columns of a row, those from where a row begins to where the next one does, of which there are
      no fewer than lanes, and how many positions there are: up to the end of the vectors or of a row;
    - coefficients: the address of the first filter's centre, the bytes from there to its factor and on to its bias, and how many filters
      there are;
    - target: the address of what the first filter gives for the row, and the bytes to the next row and to the next filter.

    What a filter gives for a position is clip((sum - centre) * factor + bias, low, high). Only positions in the columns of a row are
    written, and their elements lie side by side.

    Args:
        filters: the number of filters whose sums are in registers.
        most: vectors of positions, at most.
        isa: the instruction set that it is compiled for.
    """
    simd = simd_of(isa)

    @intrinsic
    def multiply(context: Any, count: Any, factors: Any, rows: Any, coefficients: Any, low: Any, high: Any, target: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            count, *tuples, low, high, target = arguments
            factors, rows, coefficients, target = (cgutils.unpack_tuple(builder, given) for given in (*tuples, target))
            limits = [simd.repeated(builder, limit) for limit in (low, high)]
            for number in each_count(builder, count, most):
                sums = tile_sums(builder, filters, number, isa, factors)
                places = _places(builder, number, rows, target, isa)
                _write(builder, sums, places, coefficients, limits, target[2], isa)
            return context.get_dummy_value()

        six, four, three = (types.UniTuple(types.int64, size) for size in (6, 4, 3))
        return types.void(types.int64, six, four, three, types.float32, types.float32, three), generate

    return multiply


class _Place(NamedTuple):
    """Where a vector of positions goes.

    Attributes:
        address: of the first lane, as far as its row goes.
        lanes: the mask of these lanes.
        goes_on: whether other lanes are in the next row.
        next_address: of the first lane, if it were in the next row.
        next_lanes: the mask of those that are.
    """

    address: Any
    lanes: Any
    goes_on: Any
    next_address: Any
    next_lanes: Any


def _places(builder: Any, count: int, rows: Sequence[Any], target: Sequence[Any], isa: Isa) -> list[_Place]:
    """The places of so many vectors, for the first filter."""
    (column, width, pitch, positions), (row, row_step, _), lanes = rows, target, isa.lanes
    places = []
    for _ in range(count):
        to_next, next_row = builder.sub(pitch, column), builder.add(row, row_step)
        before, behind = (lanes_below(builder, limit, lanes) for limit in (to_next, builder.add(to_next, width)))
        left = builder.select(builder.icmp_signed("<", positions, ADDRESS(lanes)), positions, ADDRESS(lanes))
        places.append(
            _Place(
                address=builder.add(row, builder.mul(column, ADDRESS(FLOAT_BYTES))),
                lanes=lanes_below(builder, builder.sub(width, column), lanes),
                goes_on=builder.icmp_signed("<", to_next, left),
                next_address=builder.sub(next_row, builder.mul(to_next, ADDRESS(FLOAT_BYTES))),
                next_lanes=builder.and_(behind, builder.not_(before)),
            )
        )
        column, positions = builder.add(column, ADDRESS(lanes)), builder.sub(positions, ADDRESS(lanes))
        wraps = builder.icmp_signed(">=", column, pitch)
        column, row = builder.select(wraps, builder.sub(column, pitch), column), builder.select(wraps, next_row, row)
    return places


def _write(
    builder: Any,
    sums: Sequence[Any],
    places: Sequence[_Place],
    coefficients: Sequence[Any],
    limits: Sequence[Any],
    step: Any,
    isa: Isa,
) -> None:
    """Finishes sums [filter][vector] and writes them; those of a filter lie `step` bytes behind those of the one before."""
    simd, (first, apart, kept), count = simd_of(isa), coefficients, len(places)
    end, offset = builder.append_basic_block("written"), ADDRESS(0)
    for number in range(len(sums) // count):
        there = builder.append_basic_block("filter")
        builder.cbranch(builder.icmp_signed(">", kept, ADDRESS(number)), there, end)
        builder.position_at_end(there)
        own = builder.add(first, ADDRESS(number * FLOAT_BYTES))
        centre, factor, bias = (simd.repeated_at(builder, builder.add(own, builder.mul(apart, ADDRESS(row)))) for row in range(3))
        for place, total in zip(places, sums[number * count :], strict=False):
            value = simd.fused(builder, builder.fsub(total, centre), factor, bias)
            value = simd.clipped(builder, value, *limits)
            simd.write_chosen(builder, value, builder.add(place.address, offset), place.lanes)
            with builder.if_then(place.goes_on):
                simd.write_chosen(builder, value, builder.add(place.next_address, offset), place.next_lanes)
        offset = builder.add(offset, step)
    builder.branch(end)
    builder.position_at_end(end)


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
