"""The compiled resampling of planes, along one axis after the other.

Along the innermost axis vectors of results gather what they weigh; along the others whole rows are weighed. Sums are those of the
definition, in its order: each product is rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import declared, intrinsic, jit
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa, Storage
from dmlpy.devices.cpu.load_store import load_store_of, row_copy
from dmlpy.devices.cpu.resampling.plan import EncodedPass, ResamplingParameters
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, float_at, repeated, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import own_scratch, share_units

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_SIZE = EncodedPass.dtype.itemsize


@intrinsic
def _number_at(address: Any) -> Any:
    """Loads the 32-bit integer at an address."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.sext(builder.load(builder.inttoptr(arguments[0], INDEX.as_pointer()), align=4), ADDRESS)

    return types.int64(types.int64), generate


def _gathered_term(isa: Isa) -> Any:
    """The intrinsic `add_term(total, row, sources, weights)`.

    It adds to each lane the float of a row that a vector of int32 at `sources` numbers, times the lane of `weights`; nothing where the
    number is -1.
    """
    simd, lanes = simd_of(isa), isa.lanes
    numbers, wide, pointers = ir.VectorType(INDEX, lanes), ir.VectorType(ADDRESS, lanes), ir.VectorType(FLOAT.as_pointer(), lanes)

    @intrinsic
    def add_term(total: Any, row: Any, sources: Any, weights: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            total, row, sources, weights = arguments
            positions = builder.load(builder.inttoptr(sources, numbers.as_pointer()), align=4)
            exists = builder.icmp_signed(">=", positions, ir.Constant(numbers, [0] * lanes))
            places = builder.add(repeated(builder, row, lanes), builder.shl(builder.sext(positions, wide), ir.Constant(wide, [2] * lanes)))
            kind = ir.FunctionType(simd.llvm_type, [pointers, INDEX, exists.type, simd.llvm_type])
            gather = declared(builder.module, kind, f"llvm.masked.gather.v{lanes}f32.v{lanes}p0")
            values = builder.call(gather, [builder.inttoptr(places, pointers), INDEX(FLOAT_BYTES), exists, simd.all(0.0)])
            terms = builder.fmul(values, simd.value_of(builder, weights))
            return builder.select(exists, builder.fadd(total, terms), total)

        return simd.kind(simd.kind, types.int64, types.int64, types.int64), generate

    return add_term


def _accesses(stored: Storage, isa: Isa) -> tuple[Any, Any]:
    """The kernels that load and store the elements of a tensor or, as FLOAT32, those of scratch."""
    floats, elements = load_store_of("float32", isa), load_store_of(stored, isa)
    read_float, write_float = floats.load, floats.store
    read_own, write_own, own_size = elements.load, elements.store, elements.size

    @jit
    def read(is_own: Any, address: Any, at: Any, left: Any) -> Any:
        return read_own(address + at * own_size, left) if is_own else read_float(address + at * FLOAT_BYTES, left)

    @jit
    def write(is_own: Any, address: Any, at: Any, value: Any, left: Any) -> None:
        if is_own:
            write_own(address + at * own_size, value, left)
        else:
            write_float(address + at * FLOAT_BYTES, value, left)

    return read, write


def build_resampling(stored: Storage, isa: Isa) -> TaskBody:
    """Builds a thread's part of a resampling, to be compiled.

    Args:
        stored: the type of the tensors' elements.
        isa: the instruction set that it is compiled for.
    """
    simd, lanes, own_size, (read, write) = simd_of(isa), isa.lanes, load_store_of(stored, isa).size, _accesses(stored, isa)
    add, multiply, all_of, add_term, copy_row = simd.add, simd.multiply, simd.all_of, _gathered_term(isa), row_copy(stored, isa)

    @jit
    def weigh_elements(e: EncodedPass, reads_own: Any, source: Any, writes_own: Any, target: Any, row: Any) -> None:
        """The pass along the innermost axis; `row` is scratch."""
        for outer in range(e.outer):
            begin = source + outer * e.size * FLOAT_BYTES
            if reads_own and own_size != FLOAT_BYTES:
                copy_row(source + outer * e.size * own_size, row, e.size)
                begin = row
            for at in range(0, e.output_size, lanes):
                total = all_of(e.start)
                for turn in range(e.turns):
                    place = (turn * e.pitch + at) * FLOAT_BYTES
                    total = add_term(total, begin, e.sources + place, e.weights + place)
                write(writes_own, target, outer * e.output_size + at, total, e.output_size - at)

    @jit
    def weigh_rows(e: EncodedPass, reads_own: Any, source: Any, writes_own: Any, target: Any) -> None:
        """The pass along another axis."""
        for outer in range(e.outer):
            for entry in range(e.output_size):
                to = (outer * e.output_size + entry) * e.inner
                for at in range(0, e.inner, lanes):
                    total, left = all_of(e.start), e.inner - at
                    for turn in range(e.turns):
                        place = (turn * e.pitch + entry) * FLOAT_BYTES
                        number = _number_at(e.sources + place)
                        if number >= 0:
                            values = read(reads_own, source, (outer * e.size + number) * e.inner + at, left)
                            total = add(total, multiply(values, all_of(float_at(e.weights + place))))
                    write(writes_own, target, to + at, total, left)

    pass_at = struct_view(EncodedPass)

    @jit
    def resample(p: ResamplingParameters, first: Any, last: Any, scratch: Any) -> None:
        for plane in range(first, last):
            for number in range(p.passes):
                e = pass_at(p.table + number * _SIZE)
                is_first, is_last = number == 0, number + 1 == p.passes
                source, target = scratch + e.source, scratch + e.target
                if is_first:
                    source = p.input + plane * p.input_plane
                if is_last:
                    target = p.output + plane * p.output_plane
                if e.inner == 1:
                    weigh_elements(e, is_first, source, is_last, target, scratch)
                else:
                    weigh_rows(e, is_first, source, is_last, target)

    return share_units(ResamplingParameters, resample, own_scratch)
