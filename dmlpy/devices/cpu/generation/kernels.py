"""The compiled generation of bands along diagonals, and of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.generation.plan import BandsParameters, SequenceParameters
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.memory_kernels import fill, long_at, memory_copy
from dmlpy.devices.cpu.simd import repeated, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.cpu.thread_pool import TaskBody

_DROPPED_BITS = 29
"""The bits that a double has more than a float."""


def build_bands() -> TaskBody:
    """Builds a thread's part of matrices with bands, to be compiled."""
    copy, repeat = memory_copy, fill

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

    @jit
    def run(p: BandsParameters, first: Any, last: Any, state: Any) -> None:
        for row in range(first, last):
            write_row(p, row)

    return share_units(BandsParameters, run)


def build_sequence(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a sequence, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    lanes, numbers, load_store = isa.lanes, _numbers(stored, isa), load_store_of(stored, isa)
    write, size = load_store.store, load_store.size

    @jit
    def run(p: SequenceParameters, first: Any, last: Any, state: Any) -> None:
        for vector in range(first, last):
            at = vector * lanes
            write(p.output + at * size, numbers(at, p.start, p.delta), p.elements - at)

    return share_units(SequenceParameters, run)


def _numbers(stored: Storage, isa: Isa) -> Any:
    """The intrinsic `numbers(first, start, delta)`: the numbers of a vector from an index on, which a store then rounds."""
    lanes, simd = isa.lanes, simd_of(isa)
    doubles = ir.VectorType(ir.DoubleType(), lanes)

    @intrinsic
    def numbers(first: Any, start: Any, delta: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            first, start, delta = arguments
            numbers_behind = ir.Constant(doubles, [float(n) for n in range(lanes)])
            places = builder.fadd(repeated(builder, builder.sitofp(first, ir.DoubleType()), lanes), numbers_behind)
            exact = builder.fadd(builder.fmul(places, repeated(builder, delta, lanes)), repeated(builder, start, lanes))
            return builder.fptrunc(_rounded_to_odd(builder, exact) if stored == "float16" else exact, simd.llvm_type)

        return simd.kind(types.int64, types.float64, types.float64), generate

    return numbers


def _rounded_to_odd(builder: Any, exact: Any) -> Any:
    """Doubles with as many bits as floats have, rounded to odd ones: rounded again, to halves, they are rounded once.

    What is not a normal float is 0 or infinite in FLOAT16.
    """
    longs = ir.VectorType(ir.IntType(64), exact.type.count)
    bits, dropped = builder.bitcast(exact, longs), longs([(1 << _DROPPED_BITS) - 1] * exact.type.count)
    carried = builder.or_(bits, builder.add(builder.and_(bits, dropped), dropped))  # into the last bit that is kept
    return builder.bitcast(builder.and_(carried, builder.not_(dropped)), exact.type)
