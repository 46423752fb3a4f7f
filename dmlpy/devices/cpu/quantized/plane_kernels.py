"""The compiled convolution of bytes for planes of groups of one channel, with instructions that move bytes within a register.

A plane is copied with its padding. From there one load and one permutation give the quads of 16 positions. Four vectors of results fill a
register; those of positions that there are move side by side, and are written at once: rows of the output follow each other.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit, unpacked
from dmlpy.devices.cpu.memory_kernels import masked_load
from dmlpy.devices.cpu.quantized.byte_move_kernels import BIT, BYTES, flags, moved, put_some, put_valid
from dmlpy.devices.cpu.quantized.byte_product_kernels import (
    QUAD,
    all_of,
    dot,
    integers,
    quad_of_padding,
    repeated_quad,
    store,
)
from dmlpy.devices.cpu.quantized.plane_tiling import CHUNK, CHUNK_VECTORS, FILL, DepthwisePlaneParameters
from dmlpy.devices.cpu.quantized.products import REGISTER, Output
from dmlpy.devices.cpu.quantized.result_kernels import ROW_SIZE, FilterResults, filter_results, first_term, row_terms_at
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, Loop, field_at, integer_at, repeated_index
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.quantized.products import ByteIsa
    from dmlpy.devices.cpu.thread_pool import TaskBody

_CHUNK_SIZE, _FILL_SIZE = CHUNK.itemsize, FILL.itemsize
_CHUNK_SUMS = CHUNK_VECTORS * REGISTER
"""Bytes of a chunk's sums."""


@intrinsic
def _fill(fills: Any, end: Any, plane: Any, padding: Any, flip: Any, target: Any) -> Any:
    """Copies a plane, changed by `flip`, with padding around it, into registers that begin at `target`."""

    def generate(builder: Any, arguments: Any) -> None:
        fills, end, plane, padding, flip, target = arguments
        around, flips = (builder.bitcast(repeated_index(builder, value, REGISTER // 4), BYTES) for value in (padding, flip))
        loop = Loop(builder, [fills, target])
        at, to = loop.values
        offset, read, inside = (field_at(builder, FILL, at, name) for name in ("offset", "read", "inside"))
        source = builder.inttoptr(builder.add(plane, offset), BYTES.as_pointer())
        loaded = builder.xor(masked_load(builder, source, 1, flags(builder, read), around), flips)
        store(builder, moved(builder, "expand", loaded, around, flags(builder, inside)), to)
        following = builder.add(at, ADDRESS(_FILL_SIZE))
        loop.repeat_while(builder.icmp_signed("<", following, end), [following, builder.add(to, ADDRESS(REGISTER))])

    return types.void(*[types.int64] * 6), generate


def _put_chunk(builder: Any, value: Any, chunk: Any, target: Any) -> None:
    """Stores the results of a chunk, a register of bytes, at their place in the plane at `target`."""
    valid, written, offset = (field_at(builder, CHUNK, chunk, name) for name in ("valid", "written", "target"))
    put_valid(builder, value, builder.add(target, offset), valid, written)


@cache
def _chunk_writer(output: Output) -> Any:
    """The kernel `write(results, chunk, target)`, which stores results that lie at `results` at their place in the plane at `target`."""
    lanes = REGISTER // 4

    @intrinsic
    def write(results: Any, chunk: Any, target: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            results, chunk, target = arguments
            if output is Output.BYTES:
                _put_chunk(builder, builder.load(builder.inttoptr(results, BYTES.as_pointer()), align=1), chunk, target)
                return
            valid, to = field_at(builder, CHUNK, chunk, "valid"), builder.add(target, field_at(builder, CHUNK, chunk, "target"))
            words = ir.VectorType(INDEX, lanes)
            for vector in range(CHUNK_VECTORS):
                loaded = builder.load(builder.inttoptr(builder.add(results, ADDRESS(vector * REGISTER)), words.as_pointer()), align=1)
                chosen = builder.and_(builder.lshr(valid, ADDRESS(vector * lanes)), ADDRESS((1 << lanes) - 1))
                count = builder.ctpop(chosen)
                side_by_side = moved(builder, "compress", loaded, ir.Constant(words, None), flags(builder, chosen, lanes))
                first = builder.sub(builder.shl(ADDRESS(1), count), ADDRESS(1))
                put_some(builder, side_by_side, to, flags(builder, first, lanes))
                to = builder.add(to, builder.shl(count, ADDRESS(2)))

        return types.void(*[types.int64] * 3), generate

    return write


@cache
def plane_product(quads: int, orders: int, quantized: bool, looks_up: bool, isa: ByteIsa) -> Any:
    """The kernel `multiply(chunk, end, source, offsets, order, weights, sums, results)`: sums of products of quads of a padded plane.

    It stores the sums of one chunk; or it writes quantized results of chunks up to `end`, to the one that has some that may be wrong, whose
    sums it stores. It returns where it stops.

    Args:
        quads: quads of a window.
        orders: orders of their bytes: as many, or one for all.
        quantized: whether results are written. `results` are the address of the filter's `RowTerms`, whose second term is 0, both limits,
            and the plane of results.
        looks_up: whether results are looked up in the filter's table.
        isa: the instruction set that it is compiled for.
    """
    kind = ir.FunctionType(BYTES, [BYTES, BYTES])

    def read(builder: Any, address: Any) -> Any:
        return builder.load(builder.inttoptr(address, BYTES.as_pointer()), align=1)

    @intrinsic
    def multiply(chunk: Any, end: Any, source: Any, offsets: Any, order: Any, weights: Any, sums: Any, results: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            first_chunk, end, source, offsets, order, weights, sums, results = arguments
            row, low, high, target = unpacked(builder, results)
            permute = declared(builder.module, kind, "llvm.x86.avx512.permvar.qi.512")
            factors = [repeated_quad(builder, isa, builder.add(weights, ADDRESS(QUAD * quad))) for quad in range(quads)]
            places = [read(builder, builder.add(order, ADDRESS(REGISTER * number))) for number in range(orders)]
            bases = [builder.add(source, _address_at(builder, builder.add(offsets, ADDRESS(8 * quad)))) for quad in range(quads)]
            begin = first_term(builder, isa, row) if quantized else all_of(isa, 0)
            of_filter = FilterResults(builder, isa, row, (low, high), looks_up=looks_up) if quantized else None
            loop = Loop(builder, [first_chunk])
            (at,) = loop.values
            starts = [_address_at(builder, builder.add(at, ADDRESS(8 * vector))) for vector in range(CHUNK_VECTORS)]
            totals = [begin] * CHUNK_VECTORS
            for quad, (base, factor) in enumerate(zip(bases, factors, strict=True)):
                for vector, start in enumerate(starts):
                    windows = builder.call(permute, [read(builder, builder.add(base, start)), places[quad % orders]])
                    totals[vector] = dot(builder, isa, totals[vector], builder.bitcast(windows, integers(isa)), factor)
            following = builder.add(at, ADDRESS(_CHUNK_SIZE))
            if of_filter is None:
                for vector, total in enumerate(totals):
                    store(builder, total, builder.add(sums, ADDRESS(vector * REGISTER)))
                loop.repeat_while(BIT(0), [following])
                return at
            unsure = of_filter.write(builder, totals, sums, lambda value: _put_chunk(builder, value, at, target))
            more = builder.and_(builder.not_(unsure), builder.icmp_signed("<", following, end))
            loop.repeat_while(more, [following])
            return builder.select(unsure, at, following)

        return types.int64(*[types.int64] * 7, types.UniTuple(types.int64, 4)), generate

    return multiply


def _address_at(builder: Any, address: Any) -> Any:
    """Loads an integer of 64 bits."""
    return builder.load(builder.inttoptr(address, ADDRESS.as_pointer()), align=8)


def _plane_multiplication(output: Output, quads: int, orders: int, looks_up: bool, isa: ByteIsa) -> Any:
    """The kernel `multiply_plane(p, source, scratch, channel, target)`, which convolves a padded plane with a filter."""
    multiply, write = plane_product(quads, orders, False, False, isa), _chunk_writer(output)
    finish = filter_results(output, looks_up, isa)
    is_quantized, nothing = output is Output.BYTES, (0, 0, 0, 0)
    quantize: Any = plane_product(quads, orders, True, looks_up, isa) if is_quantized else None

    @jit
    def multiply_plane(p: DepthwisePlaneParameters, source: Any, scratch: Any, channel: Any, target: Any) -> None:
        sums, byte_sums, results = scratch, scratch + _CHUNK_SUMS, scratch + 2 * _CHUNK_SUMS
        of_row, uses_second = p.row_terms + channel * ROW_SIZE, integer_at(p.uses_second) != 0
        second, weights = row_terms_at(of_row).second, p.weights + channel * quads * QUAD
        ones, orders_at, offsets = p.ones, p.orders, p.offsets
        chunk, end, result_arguments = p.chunks, p.chunks + p.chunk_bytes, (of_row, p.low, p.high, target)
        columns = (p.column_first, byte_sums if uses_second else p.column_first, p.column_factor, p.column_scale)
        while chunk < end:
            if is_quantized and not uses_second:
                chunk = quantize(chunk, end, source, offsets, orders_at, weights, sums, result_arguments)
            else:
                chunk = multiply(chunk, end, source, offsets, orders_at, weights, sums, nothing)
                if uses_second:
                    chunk = multiply(chunk, end, source, offsets, orders_at, ones, byte_sums, nothing)
            if chunk < end:
                finish(p, of_row, second, sums, columns, CHUNK_VECTORS, 0, results)
                write(results, chunk, target)
                chunk += _CHUNK_SIZE

    return multiply_plane


def build_depthwise_planes(output: Output, quads: int, orders: int, looks_up: bool, isa: ByteIsa) -> TaskBody:
    """Builds a thread's part of a convolution, to be compiled.

    Args:
        output: what becomes of the sums.
        quads: quads of a window.
        orders: orders of their bytes: as many, or one for all.
        looks_up: whether results are looked up in tables.
        isa: the instruction set that it is compiled for.
    """
    multiply_plane = _plane_multiplication(output, quads, orders, looks_up, isa)

    @jit
    def fill(p: DepthwisePlaneParameters, image: Any, group: Any, padding: Any, target: Any) -> None:
        """Copies a plane with its padding."""
        source = p.input + image * p.input_image + group * p.input_channel
        _fill(p.fills, p.fills + p.fill_bytes, source, padding, p.input_flip, target)

    @jit
    def begin(p: DepthwisePlaneParameters, thread: Any) -> Any:
        """Returns the thread's scratch and a quad of padding."""
        return own_scratch(p, thread), quad_of_padding(p)

    @jit
    def convolve(p: DepthwisePlaneParameters, tile: Any, state: Any) -> Any:
        (scratch, padding), filters, groups = state, p.filters, p.groups
        unit, last = p.units * tile // p.tiles, p.units * (tile + 1) // p.tiles
        padded, following = scratch + 3 * _CHUNK_SUMS, scratch + 3 * _CHUNK_SUMS + p.padded_size
        filter_number, group, image = unit % filters, unit // filters % groups, unit // filters // groups
        if unit < last:
            fill(p, image, group, padding, padded)
        while unit < last:
            channel = group * filters + filter_number
            source, target = padded, p.output + image * p.output_image + channel * p.output_channel
            unit, filter_number = unit + 1, filter_number + 1
            if filter_number == filters:
                filter_number, group = 0, group + 1
                if group == groups:
                    group, image = 0, image + 1
                if unit < last:  # copied ahead: its bytes are loaded late enough after they were stored
                    fill(p, image, group, padding, following)
                padded, following = following, padded
            multiply_plane(p, source, scratch, channel, target)
        return state

    return share_tiles(DepthwisePlaneParameters, convolve, begin)
