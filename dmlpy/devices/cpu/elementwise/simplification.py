"""Element-wise programs of other instructions with the same results: of fewer ones, and of those that bytes have."""

from __future__ import annotations

from collections import Counter
from copy import copy
from math import copysign
from typing import TYPE_CHECKING

from dmlpy.devices.cpu.elementwise.program import BYTES, OF_BYTES, Code, Instruction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.enums import DataType
    from dmlpy.devices.cpu.elementwise.program import Program

_ROUNDED = {Code.LINEAR: Code.ROUNDED_LINEAR, Code.ADD: Code.ROUNDED_SUM}
"""The instructions whose results another one rounds in the same pass."""


def simplified(program: Program) -> Program:
    """The program without instructions that those before or behind them do as well.

    These are copies, bounds of bytes, which conversions to bytes have anyway, factors before addends, and ROUND behind `_ROUNDED`.
    """
    return with_silu(_Merging(program).merged())


class _Merging:
    """Merges each instruction with the one whose result it reads, if nothing else reads that.

    Args:
        program: the program.
    """

    def __init__(self, program: Program) -> None:
        self._program, first = program, program.inputs
        self._kept, self._narrow = dict(enumerate(program.instructions, first)), list(program.narrow)
        self._same: dict[int, int] = {}
        self._readers = Counter(value for each in program.instructions for value in set(each.reads))
        self._readers.update(program.others)
        self._results = {first + len(program.instructions) - 1, *program.others}
        types = program.narrow_types
        self._type: DataType | None = next(iter(types)) if len(types) == 1 else None

    def merged(self) -> Program:
        """The program of fewer instructions."""
        count = len(self._kept)
        for value, instruction in list(self._kept.items()):
            x, y = (self._same.get(read, read) for read in instruction.reads)
            self._kept[value] = instruction._replace(reads=(x, y))
            if instruction.code is Code.MOVE and not self._narrow[value] and value not in self._results:
                self._same[value] = x
                self._readers[x] += self._readers[value] - 1
                del self._kept[value]
            else:
                self._merge(value)
        return _renumbered(self._program, self._kept, self._narrow) if len(self._kept) < count else self._program

    def _merge(self, value: int) -> None:
        """Puts the instruction before into one, as often as there is one that does both."""
        while (whole := self._whole(value)) is not None:
            del self._kept[self._kept[value].reads[0]]
            self._kept[value] = whole

    def _whole(self, value: int) -> Instruction | None:
        """An instruction that does what this one and the one before do; None if there is none."""
        instruction = self._kept[value]
        source = instruction.reads[0]
        before = self._kept.get(source)
        if before is None or instruction.reads[1] != source or self._readers[source] > 1 or source in self._results or self._narrow[source]:
            return None
        if instruction.code is Code.MOVE or self._only_bounds(value):
            return before
        if instruction.code is Code.ROUND and before.code in _ROUNDED:
            return before._replace(code=_ROUNDED[before.code])
        if instruction.code is before.code is Code.LINEAR and instruction.constants[0] == 1 and _is_nothing(before.constants[1]):
            return before._replace(constants=(before.constants[0], instruction.constants[1]))
        return None

    def _only_bounds(self, value: int) -> bool:
        """Whether an instruction does no more than a conversion to bytes behind it."""
        code, _, (low, high) = self._kept[value]
        if code is not Code.CLIP or not self._narrow[value] or self._type is None or self._type not in BYTES:
            return False
        least, most = self._type.limits
        return low <= least and high >= most


def _is_nothing(addend: float) -> bool:
    """Whether a sum with a number is the other one, also if that is a zero of any sign."""
    return type(addend) is float and addend == 0 and copysign(1.0, addend) < 0


def with_silu(program: Program) -> Program:
    """The program with x sigmoid(x) as one instruction where nothing else reads the sigmoid: the same results, from one pass less.

    A sigmoid that is rounded to 2 bytes stays apart.
    """
    reads = Counter(value for instruction in program.instructions for value in instruction.reads)
    reads.update(program.others)
    first, arguments = program.inputs, {}
    for value, instruction in enumerate(program.instructions, first):
        if instruction.code is Code.SIGMOID and reads[value] == 1 and not program.narrow[value]:
            arguments[value] = instruction.reads[0]
    products = {
        at: value
        for at, instruction in enumerate(program.instructions, first)
        for value, other in (instruction.reads, instruction.reads[::-1])
        if instruction.code is Code.MULTIPLY and arguments.get(value, -1) == other
    }
    if not products:
        return program
    kept = dict(enumerate(program.instructions, first))
    for at, value in products.items():
        x = arguments[value]
        kept[at] = kept[at]._replace(code=Code.SILU, reads=(x, x))
    for value in products.values():
        del kept[value]
    return _renumbered(program, kept, program.narrow)


def _renumbered(program: Program, kept: Mapping[int, Instruction], narrow: Sequence[bool]) -> Program:
    """The program of some of its instructions, which read none of the others' results.

    Args:
        program: the program.
        kept: the instructions by the number of their result.
        narrow: for each value whether it is narrow.
    """
    renumbered, numbers = copy(program), {value: value for value in range(program.inputs)}
    renumbered.instructions, renumbered.narrow = [], list(narrow[: program.inputs])
    for value in range(program.inputs, program.inputs + len(program.instructions)):
        if value in kept:
            code, (x, y), (a, b) = kept[value]
            numbers[value] = renumbered.add(code, numbers[x], numbers[y], a=a, b=b)
            renumbered.narrow[-1] = narrow[value]
    renumbered.others = [numbers[value] for value in program.others]
    return renumbered


def with_conversions(program: Program) -> Program:
    """A program of bytes whose instructions other than `OF_BYTES` read and write floats, which copies convert."""
    converted, first, floats = copy(program), program.inputs, dict[int, int]()
    converted.instructions, converted.narrow, numbers = [], list(program.narrow[:first]), list(range(first))
    for value, (code, reads, (a, b)) in enumerate(program.instructions, first):
        x, y = (numbers[read] for read in reads)
        if code in OF_BYTES:
            result = converted.add(code, x, y, a=a, b=b)
        else:
            for read in (x, y):
                if converted.narrow[read] and read not in floats:
                    floats[read] = converted.add(Code.MOVE, read)
            result = converted.add(code, floats.get(x, x), floats.get(y, y), a=a, b=b)
            if program.narrow[value]:
                result = converted.add(Code.MOVE, result)
        converted.narrow[result] = program.narrow[value]
        numbers.append(result)
    converted.others = [numbers[value] for value in program.others]
    return converted
