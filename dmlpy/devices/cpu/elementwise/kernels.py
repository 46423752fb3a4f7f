"""The compiled kernel of element-wise programs: it interprets their instructions, a block of elements at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.elementwise.formulas import computation
from dmlpy.devices.cpu.elementwise.program import ALIGNMENT, INSTRUCTION, PARAMETERS, Code
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Registers
from dmlpy.devices.cpu.sharing import first_item, next_item, wait_for_all
from dmlpy.devices.cpu.simd import copy_float, float_at, integer_at, jit, record_at, set_integer, vectors_of

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import Share

_LOAD, _STORE = int(Code.LOAD), int(Code.STORE)
_SIZE = INSTRUCTION.itemsize


@jit
def _padded(size: Any) -> Any:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def elements_of(registers: Registers) -> Share:
    """A thread's share of a program, to be compiled.

    Args:
        registers: the registers that it is compiled for.
    """
    vectors, compute = vectors_of(registers), computation(registers)
    load, store, all_of, lanes = vectors.load, vectors.store, vectors.all_of, registers.lanes

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

    instruction_at = record_at(INSTRUCTION)

    @jit
    def run(p: Any, table: Any, first: Any, rows: Any, columns: Any, full_rows: Any, full_columns: Any) -> None:
        for number in range(first, p.count):
            i = instruction_at(p.instructions + number * _SIZE)
            result, x = integer_at(table + 8 * i.result), integer_at(table + 8 * i.x)
            if i.code == _LOAD:
                if number < p.once:
                    copy(result, full_columns * FLOAT_BYTES, FLOAT_BYTES, x, i.row, i.column, full_rows, full_columns)
                else:
                    copy(result, columns * FLOAT_BYTES, FLOAT_BYTES, x, i.row, i.column, rows, columns)
            elif i.code == _STORE:
                copy(result, i.row, i.column, x, columns * FLOAT_BYTES, FLOAT_BYTES, rows, columns)
            else:
                compute(i.code, result, x, integer_at(table + 8 * i.y), rows * columns, i.a, i.b)

    parameters_at = record_at(PARAMETERS)

    def elements(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        p = parameters_at(parameters)
        table, state, finished = p.scratch + thread * p.scratch_size, parameters, 0
        item = first_item(state, p.items, thread, threads, board, met)
        if item < p.items:  # a thread that comes late must not touch the scratch
            first_register = table + _padded((p.tensors + p.registers) * 8)
            for register in range(p.registers):
                set_integer(table + 8 * (p.tensors + register), first_register + register * p.register_size)
        while item < p.items:
            begin = p.blocks * item // p.items
            for block in range(begin, p.blocks * (item + 1) // p.items):
                for tensor in range(p.tensors):
                    set_integer(table + 8 * tensor, integer_at(p.bases + 8 * tensor))
                rest, cut = block, 0
                for axis in range(p.axes):
                    size = integer_at(p.sizes + 8 * axis)
                    place = rest % size
                    rest //= size
                    if axis == 0:
                        cut = place
                    if place > 0:
                        for tensor in range(p.tensors):
                            at = table + 8 * tensor
                            set_integer(at, integer_at(at) + place * integer_at(p.strides + 8 * (tensor * p.axes + axis)))
                rows, columns = p.rows, p.columns
                if p.cut_rows != 0:
                    rows = min(rows, p.cut_size - cut * rows)
                else:
                    columns = min(columns, p.cut_size - cut * columns)
                run(p, table, 0 if block == begin else p.once, rows, columns, p.rows, p.columns)
            finished += 1
            item = next_item(state, item, p.items, threads, met)
        wait_for_all(state, finished, p.items, thread, threads)

    return elements
