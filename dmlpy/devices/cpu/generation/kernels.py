"""The compiled generation of bands along diagonals, and of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.generation.plan import BandsParameters, SequenceParameters
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.movement.kernels import fill, long_at, memory_copy
from dmlpy.devices.cpu.simd import INDEX, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.thread_pool import TaskBody


def build_bands() -> TaskBody:
    """Builds a thread's part of matrices with bands, to be compiled."""
    parameters_at, copy, repeat = struct_view(BandsParameters), memory_copy, fill

    @jit
    def write_row(p: BandsParameters, row: Any) -> None:
        size = p.width * p.element
        output = p.output + row * size
        if p.input != 0:
            copy(output, p.input + row * size, size)
        else:
            repeat(output, p.values + p.element, p.element, size)
        for band in range(p.count):
            first = max(0, row % p.height + long_at(p.bands + 16 * band))
            last = min(p.width, row % p.height + long_at(p.bands + 16 * band + 8))
            if first < last:
                repeat(output + first * p.element, p.values, p.element, (last - first) * p.element)

    def run_tiles(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            for row in range(p.rows * tile // p.tiles, p.rows * (tile + 1) // p.tiles):
                write_row(p, row)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return run_tiles


def build_sequence(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a sequence, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    parameters_at, lanes, numbers = struct_view(SequenceParameters), isa.lanes, _numbers(stored, isa)
    load_store = load_store_of(stored, isa)
    write, size = load_store.store, load_store.size

    def run_tiles(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p, finished = parameters_at(parameters), 0
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            for vector in range(p.vectors * tile // p.tiles, p.vectors * (tile + 1) // p.tiles):
                at = vector * lanes
                write(p.output + at * size, numbers(at, p.start, p.delta), p.elements - at)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return run_tiles


def _numbers(stored: Storage, isa: Isa) -> Any:
    """The intrinsic `numbers(first, start, delta)`: the numbers of a vector from an index on, which a store then rounds."""
    lanes, simd = isa.lanes, simd_of(isa)
    doubles, words = ir.VectorType(ir.DoubleType(), lanes), ir.VectorType(INDEX, lanes)

    @intrinsic
    def numbers(first: Any, start: Any, delta: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            def everywhere(value: Any) -> Any:
                none = ir.Constant(doubles, ir.Undefined)
                return builder.shuffle_vector(builder.insert_element(none, value, INDEX(0)), none, ir.Constant(words, [0] * lanes))

            first, start, delta = arguments
            places = builder.fadd(
                everywhere(builder.sitofp(first, ir.DoubleType())), ir.Constant(doubles, [float(n) for n in range(lanes)])
            )
            exact = builder.fadd(builder.fmul(places, everywhere(delta)), everywhere(start))
            nearest = builder.fptrunc(exact, simd.llvm_type)
            return _rounded_to_odd(builder, exact, nearest, words) if stored != "float32" else nearest

        return simd.kind(types.int64, types.float64, types.float64), generate

    return numbers


def _rounded_to_odd(builder: Any, exact: Any, nearest: Any, words: Any) -> Any:
    """Doubles as floats that are rounded to odd bits, given the nearest floats: rounded again, to halves, they are rounded once."""

    def all_of(value: int) -> Any:
        return ir.Constant(words, [value] * words.count)

    magnitude = builder.fpext(nearest, exact.type)
    bits = builder.bitcast(nearest, words)
    sign = ir.Constant(exact.type, [0.0] * words.count)
    above = builder.select(
        builder.fcmp_ordered(">", exact, sign), builder.fcmp_ordered(">", magnitude, exact), builder.fcmp_ordered("<", magnitude, exact)
    )
    toward_zero = builder.sub(bits, builder.zext(above, words))
    inexact = builder.zext(builder.fcmp_ordered("!=", magnitude, exact), words)
    return builder.bitcast(builder.or_(toward_zero, builder.and_(inexact, all_of(1))), nearest.type)
