"""The plan of element-wise programs: the blocks of their tensors, and the operands of their instructions."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.description.sized_arrays import SizedArray
from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cpu.elementwise.program import (
    BLOCK,
    EXPENSIVE,
    LONG_BLOCK,
    NARROW,
    NARROW_RESULT,
    NARROW_X,
    NARROW_Y,
    Code,
    EncodedInstruction,
    ProgramParameters,
)
from dmlpy.devices.cpu.elementwise.simplification import simplified, with_conversions
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Storage, host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import FixedArray, aligned
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.elementwise.program import Program
    from dmlpy.devices.cpu.jit import Function


class Blocks(NamedTuple):
    """The blocks of some tensors.

    Attributes:
        rows: elements of a block along the outer of its two axes.
        columns: along the inner one.
        row: the strides along the rows, in elements, of each tensor.
        column: along the columns.
        splits_rows: whether the rows are split, not the columns.
        split_size: the elements along the axis that is split.
        sizes: the blocks along each axis, the innermost first.
        strides: from one block to the next, in elements, of each tensor [tensor][axis].
    """

    rows: int
    columns: int
    row: tuple[int, ...]
    column: tuple[int, ...]
    splits_rows: bool
    split_size: int
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, sizes: Sequence[int], strides: Sequence[Sequence[int]], lanes: int, most: int, shortest: int = 1) -> Blocks:
        """The blocks of tensors, the output first.

        Args:
            sizes: entries along each dimension.
            strides: for each tensor, the elements from one entry to the next along each dimension.
            lanes: elements of a vector: columns that are split are whole vectors.
            most: elements of a block, at most.
            shortest: rows of a block, at least, if an axis has that many: a shorter axis next to the columns is passed over.
        """
        none = (0,) * len(strides)
        *outer, inner = merged(sizes, strides) or (Axis(1, none),)
        splits_rows = bool(outer) and inner.size <= most // 2
        if splits_rows:
            across, columns = outer.pop(_rows_of(outer, shortest)), inner.size
            pieces = -(-across.size // (most // columns))
            rows = -(-across.size // pieces)
            pieces, length, split = -(-across.size // rows), rows, across
        else:
            across, rows = Axis(1, none), 1
            pieces = -(-inner.size // most)
            columns = min(inner.size, -(-inner.size // (pieces * lanes)) * lanes)
            pieces, length, split = -(-inner.size // columns), columns, inner
        axes = [Axis(pieces, tuple(stride * length for stride in split.strides)), *reversed(outer)]
        along = tuple(tuple(axis.strides[tensor] for axis in axes) for tensor in range(len(strides)))
        return cls(rows, columns, across.strides, inner.strides, splits_rows, split.size, tuple(axis.size for axis in axes), along)

    def is_contiguous(self, tensor: int) -> bool:
        """Whether the elements of a block are contiguous."""
        return (self.columns == 1 or self.column[tensor] == 1) and (self.rows == 1 or self.row[tensor] == self.columns)

    def is_invariant(self, tensor: int) -> bool:
        """Whether all blocks have the same elements."""
        return not any(stride for size, stride in zip(self.sizes, self.strides[tensor], strict=True) if size > 1)


def _rows_of(axes: Sequence[Axis], shortest: int) -> int:
    """The index of the axis of rows: the innermost of this many entries, or else the longest."""
    return max(range(len(axes)), key=lambda at: (min(axes[at].size, shortest), at))


INTERPRETER = Kernel("dmlpy.devices.cpu.elementwise.kernels:build_interpreter", 5)
"""The interpreter of programs: the type of tensors that are not of FLOAT32, and the instruction set."""

_Encoded = tuple[int, int, int, int, int, int, float, float, int]

_STORAGES: dict[DataType, Storage] = {
    DataType.FLOAT16: "float16",
    DataType.BFLOAT16: "bfloat16",
    DataType.UINT8: "uint8",
    DataType.INT8: "int8",
}
_WORK_OF_A_THREAD = 1 << 18
"""Additions that are worth waking another thread for."""
_FEWEST_BLOCKS = 4
"""Blocks of a thread, at least, where they are longer than others."""
_EXPENSIVE_COST = 8
"""Additions in the time of a long instruction."""


class ElementwisePlan(PlanWithoutConstants):
    """A program on tensors of FLOAT32 and of one type of `NARROW` by the compiled kernel.

    Args:
        program: the program.
        inputs: the place of each of its inputs, and its desc. All have the sizes of the output.
        output: the place of the result, and its desc.
        others: the places of the program's other results, and their descs. Of each block all results are computed before one is written.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[tuple[str, TensorDesc]],
        output: tuple[str, TensorDesc],
        others: Sequence[tuple[str, TensorDesc]] = (),
    ) -> None:
        program, named = simplified(program), [output, *inputs, *others]
        self._names, descs = [name for name, _ in named], [desc for _, desc in named]
        self._storage = _storage_of(program, descs)
        has_bytes = self._storage in ("uint8", "int8")
        program = with_conversions(program) if has_bytes else program
        self._count = output[1].element_count
        self._isa = host_isa()
        work = self._count * sum(_EXPENSIVE_COST if each.code in EXPENSIVE else 1 for each in program.instructions)
        threads = Threads.of(available_threads(), work, _WORK_OF_A_THREAD)
        self._blocks = _blocks_of(program, descs, self._isa.lanes, self._count // (_FEWEST_BLOCKS * threads.most))
        self._length = len(program.instructions)
        self._sizes = FixedArray.of_rows([self._blocks.sizes])
        widths = [desc.data_type.numpy.itemsize for desc in descs]
        along = zip(self._blocks.strides, widths, strict=True)
        self._strides = FixedArray.of_rows([[stride * width for stride in strides] for strides, width in along])
        of_others = [desc.data_type in NARROW for _, desc in others]
        allocation = _RegisterAllocation(program, self._blocks, of_others, 1 if has_bytes else 2)
        instructions, self._hoisted, self._used = allocation.instructions()
        self._instructions = FixedArray(instructions)
        self._shares = WorkShares(prod(self._blocks.sizes), threads)
        self._register_size = aligned(self._blocks.rows * self._blocks.columns * FLOAT_BYTES)
        self._scratch_size = aligned((len(descs) + self._used) * 8) + self._used * self._register_size
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def _kernel(self) -> Function:
        return INTERPRETER(self._storage, self._isa)

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        block = self._blocks.rows * self._blocks.columns
        steps = f"{self._length} instruction{'s' * (self._length > 1)}"
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; {steps} on {self._count} elements in blocks of {block}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        blocks = self._blocks
        bases = [tensors[name] for name in self._names]
        values: Mapping[str, Any] = {
            **self._shares.values,
            "axes": len(blocks.sizes),
            "sizes": self._sizes,
            "strides": self._strides,
            "rows": blocks.rows,
            "columns": blocks.columns,
            "splits_rows": blocks.splits_rows,
            "split_size": blocks.split_size,
            "tensors": len(bases),
            "bases": bases,
            "registers": self._used,
            "register_size": self._register_size,
            "instructions": self._instructions,
            "hoisted": self._hoisted,
            "count": self._instructions.array.shape[0],
            "scratch": temporary,
            "scratch_size": self._scratch_size,
        }
        return TaskLaunch.of(self._kernel(), ProgramParameters.bound(values), self._shares.threads)


def _blocks_of(program: Program, tensors: Sequence[TensorDesc], lanes: int, share: int) -> Blocks:
    """The blocks of tensors, the output first: long ones where an instruction needs no registers and `share` elements are as many."""
    sizes, strides, numbers = tensors[0].sizes, [tensor.element_strides for tensor in tensors], range(len(tensors))
    blocks = Blocks.of(sizes, strides, lanes, BLOCK)
    if len(program.instructions) > 1 or share < LONG_BLOCK or not all(map(blocks.is_contiguous, numbers)):
        return blocks
    longer = Blocks.of(sizes, strides, lanes, LONG_BLOCK)
    return longer if all(map(longer.is_contiguous, numbers)) else blocks


def _storage_of(program: Program, tensors: Sequence[TensorDesc]) -> Storage:
    """The type of elements that are not of FLOAT32. Values within a program may be rounded to FLOAT16 where no tensor is of that."""
    types = program.narrow_types.union(tensor.data_type for tensor in tensors if tensor.data_type in NARROW)
    if not types:
        return "float16" if any(program.narrow) else "float32"
    [data_type] = types
    return _STORAGES[data_type]


_OF_ROWS = {Code.MULTIPLY: Code.MULTIPLY_ROWS, Code.ADD: Code.ADD_TO_ROWS}
"""The instructions that have a form for an operand with one element for each row of a block."""
_SHORTEST_ROW = 8
"""Elements of a row, at least, for which these take less time than a register with copies of the element."""


class _RegisterAllocation:
    """The operands of a program's instructions: tensors, the output first, and registers, which values share.

    Args:
        program: the program.
        blocks: the blocks of the output, the inputs and the other outputs.
        others: for each of the other outputs whether its elements are narrow.
        narrow_size: the bytes of narrow elements.
    """

    def __init__(self, program: Program, blocks: Blocks, others: Sequence[bool], narrow_size: int) -> None:
        self._program, self._blocks, self._others, self._narrow_size = program, blocks, others, narrow_size
        self._tensors = program.inputs + 1 + len(others)
        self._last: dict[int, int] = {}
        """The last instruction that reads a value."""
        for at, instruction in enumerate(program.instructions):
            self._last.update(dict.fromkeys(instruction.reads, at))
        self._last.update(dict.fromkeys(program.others, len(program.instructions)))
        self._free: list[int] = []
        self._used = 0

    def instructions(self) -> tuple[Any, int, int]:
        """The instructions of the kernel, how many of them are hoisted, and the number of registers."""
        program, blocks = self._program, self._blocks
        encoded: list[_Encoded] = []
        operands: dict[int, int] = {}
        of_rows = self._elements_of_rows()
        loaded = [value for value in range(program.inputs) if value in self._last and not blocks.is_contiguous(value + 1)]
        loaded = [value for value in loaded if value not in of_rows]
        loaded.sort(key=lambda value: not blocks.is_invariant(value + 1))
        hoisted = [value for value in loaded if blocks.is_invariant(value + 1)]
        for value in range(program.inputs):
            operands[value] = value + 1
        narrow = [stays_narrow and value not in loaded for value, stays_narrow in enumerate(program.narrow)]  # LOAD converts
        for value in loaded:
            operands[value] = self._register()
            is_narrow = program.narrow[value]
            row, column = (step[value + 1] * self._size_of(is_narrow) for step in (blocks.row, blocks.column))
            encoded.append((Code.LOAD, operands[value], value + 1, 0, row, column, 0.0, 0.0, NARROW_X * is_narrow))
        hoisted_registers = {operands[value] for value in hoisted}
        for at, instruction in enumerate(program.instructions):
            x, y = (operands[value] for value in instruction.reads)
            is_last = at + 1 == len(program.instructions)
            stored = is_last and (bool(self._others) or not blocks.is_contiguous(0))  # behind all instructions
            is_narrow = narrow[program.inputs + at] and not stored
            over = [value for value in set(instruction.reads) if self._last[value] == at and operands[value] >= self._tensors]
            over = [value for value in over if operands[value] not in hoisted_registers]
            # A result that is wider than an operand would be written over elements that are still to be read.
            reused = [operands[value] for value in over if is_narrow or not narrow[value]]
            self._free += reused
            result = 0 if is_last and not stored else self._register()
            self._free += [register for value in over if (register := operands[value]) not in reused]
            operands[program.inputs + at] = result
            of_x, of_y = (narrow[value] for value in instruction.reads)
            code, row, (first, second) = instruction.code, 0, instruction.reads
            if first in of_rows:
                x, y, of_x, of_y, second = y, x, of_y, of_x, first
            if second in of_rows:
                code, row = _OF_ROWS[code], blocks.row[second + 1] * self._size_of(of_y)
            formats = NARROW_RESULT * is_narrow + NARROW_X * of_x + NARROW_Y * of_y
            encoded.append((code, result, x, y, row, 0, *instruction.constants, formats))
        if self._others or not blocks.is_contiguous(0):
            encoded.append(self._stored(0, encoded[-1][1], program.narrow[-1]))
        first = 1 + program.inputs
        for tensor, (value, is_narrow) in enumerate(zip(program.others, self._others, strict=True), first):
            encoded.append(self._stored(tensor, operands[value], is_narrow))
        return _encode(encoded), len(hoisted), self._used

    def _elements_of_rows(self) -> set[int]:
        """The inputs of which a block has one element for each row, and all instructions that read them work on rows."""
        program, blocks, inputs = self._program, self._blocks, set[int]()
        for value in range(program.inputs):
            if blocks.column[value + 1] != 0 or blocks.is_contiguous(value + 1) or blocks.columns < _SHORTEST_ROW:
                continue
            readers = [each for each in program.instructions if value in each.reads]
            if all(each.code in _OF_ROWS and each.reads[0] != each.reads[1] and inputs.isdisjoint(each.reads) for each in readers):
                inputs.add(value)
        return inputs

    def _stored(self, tensor: int, operand: int, is_narrow: bool) -> _Encoded:
        """The instruction that writes a register of floats to an output."""
        blocks = self._blocks
        if blocks.is_contiguous(tensor):
            return Code.MOVE, tensor, operand, operand, 0, 0, 0.0, 0.0, NARROW_RESULT * is_narrow
        row, column = (step[tensor] * self._size_of(is_narrow) for step in (blocks.row, blocks.column))
        return Code.STORE, tensor, operand, 0, row, column, 0.0, 0.0, NARROW_RESULT * is_narrow

    def _size_of(self, is_narrow: bool) -> int:
        return self._narrow_size if is_narrow else FLOAT_BYTES

    def _register(self) -> int:
        if self._free:
            return self._free.pop()
        self._used += 1
        return self._tensors + self._used - 1


def _encode(instructions: Sequence[_Encoded]) -> Any:
    with np.errstate(over="ignore"):
        return SizedArray.of_records(instructions, EncodedInstruction.dtype)
