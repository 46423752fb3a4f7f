"""The compiled convolution that is vectorized over positions, and what its other forms share with it: a tile's place, and the epilogue.

An input tile is copied with its padding (see `gather_kernels`), so vectors of positions run through its rows, and the sums of a block of
filters for some vectors stay in registers over all channels and taps. Pointwise convolutions with strides of 1 read the input in place.
`output_channel_kernels` has the other form; `choose_tiling` chooses.

These kernels are used rather than oneDNN through ctypes: per layer they take 0.5 to 1.04 of ONNX Runtime's processor time (three
networks without depthwise layers, one thread, AVX-512), on any system and processor that LLVM supports. The oneDNN on PyPI is
a SYCL build for Linux, 97 MB plus its runtime; the build for plain threads ended in 2023.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit, unpacked
from dmlpy.devices.cpu.convolution.gather_kernels import call_gather
from dmlpy.devices.cpu.convolution.layout import ConvolutionParameters, Epilogue, PositionParameters
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage, block_of
from dmlpy.devices.cpu.load_store import ir_load_store_of, load_store_of, spread_writer
from dmlpy.devices.cpu.product_kernels import tile_product, tile_sums
from dmlpy.devices.cpu.simd import ADDRESS, each_count, float_at, lanes_below, simd_of
from dmlpy.devices.cpu.simd_math import SimdMath
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.load_store import IrLoadStore
    from dmlpy.devices.cpu.simd import Simd
    from dmlpy.devices.cpu.thread_pool import TaskBody


@jit
def locate_tile(p: ConvolutionParameters, tile: Any) -> Any:
    """The split of the filters, the image tile, its first row and row count, the group, the slice, and the start of input and output.

    The input is that of the image and the group, the output that of the image tile's first row.
    """
    filter_split, image_tile = tile % p.filter_splits, tile // p.filter_splits
    first_row, rest = image_tile % p.row_splits * p.rows, image_tile // p.row_splits
    group, slice_number = rest % p.groups, rest // p.groups
    image, z = slice_number // p.out_depth, slice_number % p.out_depth
    source = p.input + image * p.input_image + group * p.input_group
    output = p.output + image * p.output_image + z * p.output_slice + first_row * p.output_row + group * p.filters * p.output_channel
    return filter_split, image_tile, first_row, min(p.rows, p.out_height - first_row), group, z, source, output


@jit
def locate_input(p: ConvolutionParameters, source: Any, z: Any, first_row: Any, first_copied: Any, copied: Any, input_tile: Any) -> Any:
    """The address of what a tile's first position reads: in the input, or in the input tile, which is copied unless it has been.

    `source` is the input of the image and the group, and `first_copied` the first row that is copied, in rows of positions.
    """
    if p.copies == 0:
        return source + z * p.slice_step + first_row * p.row_step
    if not copied:
        call_gather(p.gather, (p.gather_parameters, input_tile, source, z * p.stride_z - p.pad_z, first_copied))
    return input_tile


EPILOGUE_NUMBERS = ("low", "high", "alpha", "beta")
"""The parameters that an epilogue reads."""


def epilogue_result(builder: Any, simd: Simd, epilogue: Epilogue, value: Any, added: Any, numbers: Sequence[Any]) -> Any:
    """The result of an epilogue as LLVM code.

    Args:
        builder: where the code is appended.
        simd: the operations.
        epilogue: the epilogue.
        value: a vector of sums with their coefficients.
        added: what is added to it, if anything.
        numbers: vectors of the `EPILOGUE_NUMBERS`.
    """
    low, high, alpha, beta = numbers
    math = SimdMath(builder, simd)
    if epilogue.adds:
        value = math.add(value, added)
    if epilogue.gate == "silu":
        value = math.half_silu(value)
    elif epilogue.gate == "swish":
        value = math.half_swish(value, value)
    elif epilogue.gate is not None:
        line = math.clipped(math.linear(value, alpha, beta), math.constant(0.0), math.constant(1.0))
        value = math.multiply(value, line) if epilogue.gate == "hard_silu" else math.gate(value, line)
    return simd.clipped(builder, value, low, high) if epilogue.clips else value


@cache
def epilogue_kernel(epilogue: Epilogue, isa: Isa) -> Any:
    """The kernel `finish(p, value, added)`: `epilogue_result` for vectors, with the numbers of the parameters `p`."""
    simd = simd_of(isa)

    @intrinsic
    def compute(value: Any, added: Any, low: Any, high: Any, alpha: Any, beta: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            value, added, *numbers = arguments
            return epilogue_result(builder, simd, epilogue, value, added, [simd.repeated(builder, number) for number in numbers])

        return simd.kind(simd.kind, simd.kind, *[types.float32] * len(EPILOGUE_NUMBERS)), generate

    @jit
    def finish(p: ConvolutionParameters, value: Any, added: Any) -> Any:
        return compute(value, added, p.low, p.high, p.alpha, p.beta)

    return finish


@cache
def _product_with_epilogue(filters: int, most: int, read: Storage, stored: Storage, epilogue: Epilogue, isa: Isa) -> Any:
    """The kernel `multiply(count, factors, rows, coefficients, numbers, target)`.

    It sums as `tile_product` does; `factors` are that kernel's arguments from `channels` to `matrix`. The other tuples are:

    - rows: the first position's column, the columns of a row, those from where a row begins to where the next one does, which is
      no less than the number of lanes, and how many positions there are: up to the end of the vectors or of a row;
    - coefficients: the address of the first filter's centre, the bytes from there to its factor and on to its bias, and the number of
      filters;
    - numbers: the `EPILOGUE_NUMBERS`;
    - target: the address of the first filter's results for the row, the bytes to the next row and to the next filter, and those from a
      result to what is added to it.

    The result for a filter and a position is the epilogue of (sum - centre) * factor + bias. Only positions in the columns of a row are
    written, and their elements are contiguous.

    Args:
        filters: the number of filters whose sums are in registers.
        most: vectors of positions, at most.
        read: the type of the vectors of positions in memory.
        stored: the type of the results.
        epilogue: the epilogue.
        isa: the instruction set that it is compiled for.
    """
    simd, load_store = simd_of(isa), ir_load_store_of(stored, isa)

    @intrinsic
    def multiply(count: Any, factors: Any, rows: Any, coefficients: Any, numbers: Any, target: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            count, *tuples = arguments
            factors, rows, coefficients, numbers, target = (unpacked(builder, packed) for packed in tuples)
            numbers = [simd.repeated(builder, number) for number in numbers]
            for number in each_count(builder, count, most):
                sums = tile_sums(builder, filters, number, read, isa, factors)
                destinations = _destinations(builder, number, rows, target, (load_store.size, isa.lanes))
                _write_results(builder, sums, destinations, coefficients, (epilogue, numbers), target[2:], (simd, load_store))

        six, four, three = (types.UniTuple(types.int64, size) for size in (6, 4, 3))
        floats = types.UniTuple(types.float32, len(EPILOGUE_NUMBERS))
        return types.void(types.int64, six, four, three, floats, four), generate

    return multiply


class _Destination(NamedTuple):
    """The target of a vector of positions.

    Attributes:
        address: of the first lane.
        lanes: the mask of the lanes in its row.
        crosses_row: whether other lanes are in the next row.
        next_address: of the first lane, if it were in the next row.
        next_lanes: the mask of those that are.
    """

    address: Any
    lanes: Any
    crosses_row: Any
    next_address: Any
    next_lanes: Any


def _destinations(builder: Any, count: int, rows: Sequence[Any], target: Sequence[Any], vector: tuple[int, int]) -> list[_Destination]:
    """The destinations of `count` vectors, for the first filter; `vector` is the bytes of an element, and the lanes."""
    (column, width, pitch, positions), (row, row_step, *_), (size, lanes) = rows, target, vector
    destinations = []
    for _ in range(count):
        to_next, next_row = builder.sub(pitch, column), builder.add(row, row_step)
        before, behind = (lanes_below(builder, limit, lanes) for limit in (to_next, builder.add(to_next, width)))
        left = builder.select(builder.icmp_signed("<", positions, ADDRESS(lanes)), positions, ADDRESS(lanes))
        destinations.append(
            _Destination(
                address=builder.add(row, builder.mul(column, ADDRESS(size))),
                lanes=lanes_below(builder, builder.sub(width, column), lanes),
                crosses_row=builder.icmp_signed("<", to_next, left),
                next_address=builder.sub(next_row, builder.mul(to_next, ADDRESS(size))),
                next_lanes=builder.and_(behind, builder.not_(before)),
            )
        )
        column, positions = builder.add(column, ADDRESS(lanes)), builder.sub(positions, ADDRESS(lanes))
        wraps = builder.icmp_signed(">=", column, pitch)
        column, row = builder.select(wraps, builder.sub(column, pitch), column), builder.select(wraps, next_row, row)
    return destinations


def _write_results(
    builder: Any,
    sums: Sequence[Any],
    destinations: Sequence[_Destination],
    coefficients: Sequence[Any],
    epilogue: tuple[Epilogue, Sequence[Any]],
    steps: Sequence[Any],
    operations: tuple[Simd, IrLoadStore],
) -> None:
    """Writes the results of sums [filter][vector]: `steps` are from a filter's to the next one's, and to what is added to a result."""
    (first, stride, left), count, (form, numbers), (step, to_added) = coefficients, len(destinations), epilogue, steps
    (simd, load_store), end, offset = operations, builder.append_basic_block("written"), ADDRESS(0)

    def write(value: Any, address: Any, lanes: Any) -> None:
        if form.adds:
            added = load_store.load_masked(builder, builder.add(address, to_added), lanes, 0.0)
            value = epilogue_result(builder, simd, form, value, added, numbers)
        load_store.store_masked(builder, value, address, lanes)

    for number in range(len(sums) // count):
        there = builder.append_basic_block("filter")
        builder.cbranch(builder.icmp_signed(">", left, ADDRESS(number)), there, end)
        builder.position_at_end(there)
        of_channel = builder.add(first, ADDRESS(number * FLOAT_BYTES))
        centre, factor, bias = (simd.repeated_at(builder, builder.add(of_channel, builder.mul(stride, ADDRESS(row)))) for row in range(3))
        for destination, total in zip(destinations, sums[number * count :], strict=False):
            value = simd.fused(builder, builder.fsub(total, centre), factor, bias)
            if not form.adds:
                value = epilogue_result(builder, simd, form, value, None, numbers)
            write(value, builder.add(destination.address, offset), destination.lanes)
            with builder.if_then(destination.crosses_row):
                write(value, builder.add(destination.next_address, offset), destination.next_lanes)
        offset = builder.add(offset, step)
    builder.branch(end)
    builder.position_at_end(end)


def build_convolution(single: bool, read: Storage, stored: Storage, direct: bool, epilogue: Epilogue, isa: Isa) -> TaskBody:
    """Builds a thread's part of a convolution, to be compiled.

    Args:
        single: whether groups have one filter each, as depthwise convolutions have.
        read: the type of what is multiplied: that of tensors read in place, or FLOAT32 in input tiles.
        stored: the type of the tensors' elements.
        direct: whether results are written from registers: to elements that are contiguous in rows, which begin at least as many
            positions apart as a vector has lanes.
        epilogue: what is computed of the sums.
        isa: the instruction set that it is compiled for.
    """
    (filters, most), lanes, element = (1, 8) if single else block_of(isa), isa.lanes, load_store_of(read, isa).size
    if direct:
        compute_block = _product_from_registers(filters, most, read, stored, epilogue, isa)
    else:
        compute_block = _product_by_scratch(filters, most, read, stored, epilogue, isa)

    @jit
    def begin(p: PositionParameters, thread: Any) -> Any:
        """The scratch, and the image tile whose input is there: none."""
        return own_scratch(p, thread), -1

    @jit
    def convolve(p: PositionParameters, tile: Any, state: Any) -> Any:
        sums, gathered = state
        filter_split, image_tile, first_row, rows, group, z, source, output = locate_tile(p, tile)
        source = locate_input(p, source, z, first_row, first_row, image_tile == gathered, sums + p.input_tile)
        positions = min((rows - 1) * p.pitch + p.out_width, p.positions - first_row * p.pitch)
        first_block, last_block = p.blocks * filter_split // p.filter_splits, p.blocks * (filter_split + 1) // p.filter_splits
        block_size = p.channels * p.taps * filters * FLOAT_BYTES
        weights = p.weights + group * p.blocks * block_size
        total = (positions + lanes - 1) // lanes
        groups = (total + most - 1) // most
        for number in range(groups):
            start = total * number // groups
            count = total * (number + 1) // groups - start
            # Vectors must not reach past the input: the last ones may overlap those before them, or begin in the previous tile.
            first = min(start * lanes, p.positions - first_row * p.pitch - count * lanes)
            useful = min(count * lanes, positions - first)
            column, of_row = first % p.pitch, output + first // p.pitch * p.output_row
            for block in range(first_block, last_block):
                factors = p.channels, p.plane, p.taps, p.offsets, source + first * element, weights + block * block_size
                channel = block * filters
                coefficients = p.coefficients + (3 * group * p.filters + channel) * FLOAT_BYTES
                compute_block(
                    p, count, factors, column, useful, coefficients, p.filters - channel, of_row + channel * p.output_channel, sums
                )
        return sums, image_tile

    return share_tiles(PositionParameters, convolve, begin)


def _product_from_registers(filters: int, most: int, read: Storage, stored: Storage, epilogue: Epilogue, isa: Isa) -> Any:
    """compute_block(p, count, factors, column, useful, coefficients, left, target, sums): a block of filters for some vectors of positions.

    `factors` are those of `_product_with_epilogue`. The first of `useful` positions is a row's `column`, and `target` its result of the
    first of the `left` filters.
    """
    multiply = _product_with_epilogue(filters, most, read, stored, epilogue, isa)

    @jit
    def compute_block(
        p: PositionParameters, count: Any, factors: Any, column: Any, useful: Any, coefficients: Any, left: Any, target: Any, sums: Any
    ) -> None:
        rows, numbers = (column, p.out_width, p.pitch, useful), (p.low, p.high, p.alpha, p.beta)
        results = target, p.output_row, p.output_channel, p.added - p.output
        multiply(count, factors, rows, (coefficients, p.filters * FLOAT_BYTES, left), numbers, results)

    return compute_block


def _product_by_scratch(filters: int, most: int, read: Storage, stored: Storage, epilogue: Epilogue, isa: Isa) -> Any:
    """The `compute_block` of `_product_from_registers` for any output: `sums` is scratch for sums, and for a vector behind them."""
    multiply, simd = tile_product(filters, most, read, isa), simd_of(isa)
    write, finish, adds = spread_writer(stored, isa), epilogue_kernel(epilogue, isa), epilogue.adds
    load, all_of, subtract, multiply_add = simd.load, simd.all_of, simd.subtract, simd.multiply_add
    load_added = load_store_of(stored, isa).load
    lanes, size = isa.lanes, simd.size

    @jit
    def apply_epilogue(p: PositionParameters, sums: Any, coefficients: Any, output: Any, column: Any, count: Any, vector: Any) -> None:
        """Writes the results of a filter for `count` positions from a row's `column` on; `vector` is scratch."""
        step = p.filters * FLOAT_BYTES
        centre = all_of(float_at(coefficients))
        factor = all_of(float_at(coefficients + step))
        bias = all_of(float_at(coefficients + 2 * step))
        stride, done = p.output_element, 0
        while done < count:
            count_in_row = min(count - done, p.pitch - column)
            useful = min(count_in_row, p.out_width - column)
            target = output + column * stride
            at = sums + done * FLOAT_BYTES
            for element in range(0, useful, lanes):
                place, added = target + element * stride, centre
                if adds:
                    added = load_added(place - p.output + p.added, useful - element)
                value = finish(p, multiply_add(subtract(load(at + element * FLOAT_BYTES), centre), factor, bias), added)
                write(place, value, useful - element, stride, vector)
            done += count_in_row
            output += p.output_row
            column = 0

    @jit
    def compute_block(
        p: PositionParameters, count: Any, factors: Any, column: Any, useful: Any, coefficients: Any, left: Any, target: Any, sums: Any
    ) -> None:
        multiply(count, *factors, sums)
        vector = sums + filters * most * size
        for number in range(min(filters, left)):
            of_filter, output = coefficients + number * FLOAT_BYTES, target + number * p.output_channel
            apply_epilogue(p, sums + number * most * size, of_filter, output, column, useful, vector)

    return compute_block
