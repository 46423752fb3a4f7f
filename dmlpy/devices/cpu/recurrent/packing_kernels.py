"""The compiled packing of matrices in blocks of units."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.load_store import first_halves
from dmlpy.devices.cpu.recurrent.parameters import PACKED_MATRIX, PACKING_PARAMETERS
from dmlpy.devices.cpu.simd import ADDRESS, INDEX, each_below, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, acquire, commit, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cpu.isa import Isa


def turned(builder: Any, tile: Sequence[Any]) -> list[Any]:
    """The transpose of a square tile of vectors."""
    lanes, rows = len(tile), list(tile)
    # Two rows' first halves, an element of each in turn, and their second halves.
    turns = [
        ir.Constant(ir.VectorType(INDEX, lanes), [index for lane in range(start, start + lanes // 2) for index in (lane, lanes + lane)])
        for start in (0, lanes // 2)
    ]
    # Each round moves one bit of an element's row number to its place in the row, and the place's highest bit to the row number.
    for _ in range(lanes.bit_length() - 1):
        pairs = zip(rows[: lanes // 2], rows[lanes // 2 :], strict=True)
        rows = [builder.shuffle_vector(*pair, turn) for pair in pairs for turn in turns]
    return rows


@cache
def transposed_tile(isa: Isa, *, halves: bool = False) -> Any:
    """The kernel `transpose(source, source_row, rows, entries, target, target_row)`.

    target[entry][row] = source[row][entry] for the first `entries` entries of the first `rows` rows, at most a vector's lanes of each;
    the other lanes of a target's row are 0. Rows are apart by so many bytes. Memory of other rows and entries is not touched.

    Args:
        isa: the instruction set that it is compiled for.
        halves: whether the source is FLOAT16; the target is FLOAT32.
    """
    simd, lanes = simd_of(isa), isa.lanes

    @intrinsic
    def transpose(context: Any, source: Any, source_row: Any, rows: Any, entries: Any, target: Any, target_row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, source_row, rows, entries, target, target_row = arguments
            tile = []
            for row in range(lanes):
                count = builder.select(builder.icmp_signed(">", rows, ADDRESS(row)), entries, ADDRESS(0))
                tile.append(first_halves(builder, isa, source, count) if halves else simd.first_of(builder, source, count))
                source = builder.add(source, source_row)
            for value in each_below(builder, turned(builder, tile), entries):
                simd.write(builder, value, target)
                target = builder.add(target, target_row)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return transpose


def build_packing(isa: Isa) -> Callable[..., int]:
    """The packing of some matrices, a part of a launch of one stage, to be compiled. Two threads that do a tile write the same.

    Args:
        isa: the instruction set that it is compiled for.
    """
    simd, transpose, lanes = simd_of(isa), transposed_tile(isa), isa.lanes
    load, load_some, store, size = simd.load, simd.load_some, simd.store, simd.size
    parameters_at, matrix_at, matrix_size = struct_view(PACKING_PARAMETERS), struct_view(PACKED_MATRIX), PACKED_MATRIX.itemsize

    def pack(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p, stage = parameters_at(parameters), stage + 1
        tile = acquire(p, sync, thread, threads, stage, p.tiles, NOTHING)
        while tile >= 0:
            matrix, block = matrix_at(p.matrices + tile // p.blocks * matrix_size), tile % p.blocks
            width = matrix.vectors * lanes
            units, target = min(width, matrix.units - block * width), matrix.target + block * matrix.target_block
            if units > 0 and matrix.transposed != 0:
                source = matrix.source + block * lanes * matrix.source_row
                for term in range(0, matrix.terms, lanes):
                    count = min(lanes, matrix.terms - term)
                    for gate in range(matrix.gates):
                        at = source + gate * matrix.source_gate + term * FLOAT_BYTES
                        to = target + (term * matrix.gates + gate) * size
                        transpose(at, matrix.source_row, units, count, to, matrix.gates * size)
            elif units > 0:  # it may have fewer blocks than another matrix
                source = matrix.source + block * width * FLOAT_BYTES
                for _ in range(matrix.terms):
                    for first in range(0, width, lanes):
                        at, left = source + first * FLOAT_BYTES, units - first
                        store(target, load(at) if left >= lanes else load_some(at, left))
                        target += size
                    source += matrix.source_row
            if commit(sync, threads, stage, tile):
                publish(sync, threads, stage, tile)
            tile = acquire(p, sync, thread, threads, stage, p.tiles, tile)
        return stage

    return pack
