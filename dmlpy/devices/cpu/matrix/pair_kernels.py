"""The compiled conversion of floats to pairs of BFLOAT16, and the instruction that multiplies them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import binding, ir

from dmlpy.devices.cpu.compiler.functions import intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of
from dmlpy.devices.cpu.matrix.pair_plan import PairParameters
from dmlpy.devices.cpu.simd import INDEX, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_HALF_BITS = 16


def add_pairs(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """Adds both products of the pairs of each lane to its sum, by AVX512-BF16. Pairs are held in vectors of floats."""
    words = ir.VectorType(INDEX, z.type.count)
    kind = ir.FunctionType(z.type, [z.type, words, words])
    # LLVM's intrinsic takes vectors of bfloat, a type that llvmlite does not have; inline assembly needs the parser.
    binding.initialize_native_asmparser()
    code = ir.InlineAsm(kind, "vdpbf16ps $3, $2, $0", "=v,0,v,v")
    return builder.call(code, [z, builder.bitcast(x, words), builder.bitcast(y, words)])


@cache
def _pairs(isa: Isa) -> Any:
    """The intrinsic `pairs(low, high)`: of each lane both floats, rounded to BFLOAT16, to even ones of equally near numbers."""
    simd = simd_of(isa)
    words = ir.VectorType(INDEX, isa.lanes)

    def all_of(value: int) -> Any:
        return ir.Constant(words, [value] * isa.lanes)

    def rounded(builder: Any, value: Any) -> Any:
        """The bits of the rounded floats, in the high half of each lane; a NaN stays one."""
        bits = builder.bitcast(value, words)
        odd = builder.and_(builder.lshr(bits, all_of(_HALF_BITS)), all_of(1))
        up = builder.add(bits, builder.add(odd, all_of(0x7FFF)))
        quiet = builder.or_(bits, all_of(0x400000))
        return builder.select(builder.fcmp_unordered("uno", value, value), quiet, up)

    @intrinsic
    def pairs(low: Any, high: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            low, high = (rounded(builder, value) for value in arguments)
            both = builder.or_(builder.lshr(low, all_of(_HALF_BITS)), builder.and_(high, all_of(0xFFFF0000)))
            return builder.bitcast(both, simd.llvm_type)

        return simd.kind(simd.kind, simd.kind), generate

    return pairs


def build_pairs(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a conversion of elements of a type, to be compiled."""
    simd, load_store, pairs, lanes = simd_of(isa), load_store_of(stored, isa), _pairs(isa), isa.lanes
    read, write, size = load_store.load, load_store_of("float32", isa).store, load_store.size
    all_of, even, odd = simd.all_of, simd.every_second(), simd.every_second(1)
    parameters_at = struct_view(PairParameters)

    @jit
    def vector_at(address: Any, count: Any) -> Any:
        """The next floats of a row, with zeros behind its end."""
        return read(address, count) if count > 0 else all_of(0.0)

    def convert(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        finished, rows = 0, p.entries * p.rows
        tile = first_tile(parameters, p.tiles, thread, threads, sync, epoch)
        while tile < p.tiles:
            for number in range(rows * tile // p.tiles, rows * (tile + 1) // p.tiles):
                entry, row = number // p.rows, number % p.rows
                source = p.source + entry // p.batch * p.source_outer + entry % p.batch * p.source_inner + row * p.source_row
                target = p.target + number * p.columns * FLOAT_BYTES
                for column in range(0, p.columns, lanes):
                    left = p.columns - column
                    if p.second == 0:  # pairs of a row
                        at, count = source + 2 * column * size, p.terms - 2 * column
                        low, high = vector_at(at, count), vector_at(at + lanes * size, count - lanes)
                        write(target + column * FLOAT_BYTES, pairs(even(low, high), odd(low, high)), left)
                    else:  # pairs of neighbouring rows
                        at = source + column * size
                        high = vector_at(at + p.second, left if 2 * row + 1 < p.terms else 0)
                        write(target + column * FLOAT_BYTES, pairs(vector_at(at, left), high), left)
            finished += 1
            tile = next_tile(parameters, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(parameters, finished, p.tiles, thread, threads)

    return convert
