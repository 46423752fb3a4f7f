"""The compiled kernel of element-wise programs: it interprets their instructions, a block of elements at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.elementwise.instruction_kernels import computation
from dmlpy.devices.cpu.elementwise.program import ALIGNMENT, Code, EncodedInstruction, ProgramParameters
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.simd import copy_float, float_at, integer_at, jit, set_integer, simd_of, struct_view
from dmlpy.devices.cpu.thread_pool_kernels import first_tile, next_tile, wait_for_all_tiles

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

_LOAD, _STORE = int(Code.LOAD), int(Code.STORE)
_SIZE = EncodedInstruction.dtype.itemsize


@jit
def _align(size: Any) -> Any:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def build_interpreter(isa: Isa) -> TaskBody:
    """Builds a thread's part of a program, to be compiled.

    Args:
        isa: the instruction set that it is compiled for.
    """
    simd, compute = simd_of(isa), computation(isa)
    load, store, all_of, lanes = simd.load, simd.store, simd.all_of, isa.lanes

    @jit
    def copy(to: Any, to_row: Any, to_column: Any, source: Any, of_row: Any, of_column: Any, rows: Any, columns: Any) -> None:
        """Copies elements between a tensor and a register, whichever is which."""
        for row in range(rows):
            into, out_of, first = to + row * to_row, source + row * of_row, 0
            if to_column == FLOAT_BYTES and of_column == FLOAT_BYTES:
                first = columns // lanes * lanes
                for at in range(0, first, lanes):
                    store(into + at * FLOAT_BYTES, load(out_of + at * FLOAT_BYTES))
            elif to_column == FLOAT_BYTES and of_column == 0:
                first = columns // lanes * lanes
                value = all_of(float_at(out_of))
                for at in range(0, first, lanes):
                    store(into + at * FLOAT_BYTES, value)
            for at in range(first, columns):
                copy_float(into + at * to_column, out_of + at * of_column)

    instruction_at = struct_view(EncodedInstruction)

    @jit
    def run(p: ProgramParameters, table: Any, first: Any, rows: Any, columns: Any, full_rows: Any, full_columns: Any) -> None:
        for number in range(first, p.count):
            i = instruction_at(p.instructions + number * _SIZE)
            result, x = integer_at(table + 8 * i.result), integer_at(table + 8 * i.x)
            if i.code == _LOAD:
                if number < p.hoisted:
                    copy(result, full_columns * FLOAT_BYTES, FLOAT_BYTES, x, i.row, i.column, full_rows, full_columns)
                else:
                    copy(result, columns * FLOAT_BYTES, FLOAT_BYTES, x, i.row, i.column, rows, columns)
            elif i.code == _STORE:
                copy(result, i.row, i.column, x, columns * FLOAT_BYTES, FLOAT_BYTES, rows, columns)
            else:
                compute(i.code, result, x, integer_at(table + 8 * i.y), rows * columns, i.a, i.b)

    parameters_at = struct_view(ProgramParameters)

    def interpret(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        p = parameters_at(parameters)
        table, state, finished = p.scratch + thread * p.scratch_size, parameters, 0
        tile = first_tile(state, p.tiles, thread, threads, sync, epoch)
        if tile < p.tiles:  # a thread that comes late must not touch the scratch, which may be in use
            first_register = table + _align((p.tensors + p.registers) * 8)
            for register in range(p.registers):
                set_integer(table + 8 * (p.tensors + register), first_register + register * p.register_size)
        while tile < p.tiles:
            begin = p.blocks * tile // p.tiles
            for block in range(begin, p.blocks * (tile + 1) // p.tiles):
                for tensor in range(p.tensors):
                    set_integer(table + 8 * tensor, integer_at(p.bases + 8 * tensor))
                rest, split = block, 0
                for axis in range(p.axes):
                    size = integer_at(p.sizes + 8 * axis)
                    place = rest % size
                    rest //= size
                    if axis == 0:
                        split = place
                    if place > 0:
                        for tensor in range(p.tensors):
                            at = table + 8 * tensor
                            set_integer(at, integer_at(at) + place * integer_at(p.strides + 8 * (tensor * p.axes + axis)))
                rows, columns = p.rows, p.columns
                if p.splits_rows != 0:
                    rows = min(rows, p.split_size - split * rows)
                else:
                    columns = min(columns, p.split_size - split * columns)
                run(p, table, 0 if block == begin else p.hoisted, rows, columns, p.rows, p.columns)
            finished += 1
            tile = next_tile(state, tile, p.tiles, threads, epoch)
        wait_for_all_tiles(state, finished, p.tiles, thread, threads)

    return interpret
