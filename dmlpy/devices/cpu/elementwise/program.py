"""Element-wise programs, instructions on blocks of elements, each in a register of the program; and the parameters of their kernel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np


class Code(IntEnum):
    """What an instruction computes of its operands x and y, which are blocks, and of its constants a and b."""

    LOAD = 0
    """Copies elements with gaps from memory."""
    STORE = auto()
    """Copies elements with gaps to memory."""
    MOVE = auto()
    """x."""
    LINEAR = auto()
    """a x + b, rounded twice."""
    CLIP = auto()
    """x from a to b."""
    ABS = auto()
    NEGATE = auto()
    SQRT = auto()
    FLOOR = auto()
    CEIL = auto()
    ROUND = auto()
    """To the nearest integer, halves to even ones."""
    RECIP = auto()
    EXP = auto()
    ERF = auto()
    TANH = auto()
    SIGMOID = auto()
    SWISH = auto()
    """x / (1 + exp(-a x)); 0 where the gate is closed."""
    GELU = auto()
    SOFTSIGN = auto()
    LEAKY_RELU = auto()
    """a x where x < 0."""
    THRESHOLDED_RELU = auto()
    """x where x > a, else 0."""
    ELU = auto()
    """a (exp(x / b) - 1) where x < 0."""
    SHRINK = auto()
    """x - a where x > b, x + a where x < -b, else 0."""
    ADD = auto()
    SUBTRACT = auto()
    MULTIPLY = auto()
    DIVIDE = auto()
    MAX = auto()
    MIN = auto()
    GATE = auto()
    """x y; 0 where y is, even if x is infinite."""
    PARAMETERIZED_RELU = auto()
    """x y where x < 0."""
    RELU_GRADIENT = auto()
    """y where x > 0, else 0."""


EXPENSIVE = frozenset({Code.EXP, Code.ERF, Code.TANH, Code.SIGMOID, Code.SWISH, Code.GELU, Code.ELU, Code.DIVIDE, Code.RECIP, Code.SQRT})
"""The instructions that take several times as long as an addition."""


@dataclass(frozen=True)
class Instruction:
    """One instruction; its result is the next value of its program, whose inputs are the first ones.

    Attributes:
        code: what it computes.
        reads: the numbers of the values x and y; of one operand it is both.
        constants: a and b.
    """

    code: Code
    reads: tuple[int, int]
    constants: tuple[float, float]


class Program:
    """Instructions one after the other.

    Attributes:
        inputs: how many values it is given.
        instructions: what it does with them; the last one gives the result.
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.instructions: list[Instruction] = []

    def add(self, code: Code, x: int, y: int | None = None, *, a: float = 0.0, b: float = 0.0) -> int:
        """Adds an instruction, and returns the number of its result."""
        self.instructions.append(Instruction(code, (x, x if y is None else y), (a, b)))
        return self.inputs + len(self.instructions) - 1


BLOCK = 1024
"""Elements of a block, at most: the registers of a usual chain stay in a core's first cache."""

ALIGNMENT = 64
"""Bytes that registers are aligned to."""

_INTEGERS = (
    *("ticket", "done", "tiles", "blocks", "axes", "sizes", "strides", "rows", "columns", "splits_rows", "split_size"),
    *("tensors", "bases", "registers", "register_size", "instructions", "hoisted", "count", "scratch", "scratch_size"),
)
PARAMETERS = np.dtype([(name, np.int64) for name in _INTEGERS])
"""What a program reads: numbers, addresses, and distances in bytes.

The first two are the state of `thread_pool_kernels`. A tile is a share of the `blocks`, which are counted along `axes` axes, the innermost
first; `sizes` are the blocks along each, int64. A block spans `rows` and `columns` of the elements; one of the two, which `splits_rows`
tells, is split from `split_size` elements, so the last block has fewer. Operands are `tensors` tensors and behind them `registers`
registers of `register_size` bytes. The tensors begin at `bases`, int64; `strides` are those from one block to the next, int64 [tensors,
axes]. The first `hoisted` of the `count` instructions give the same in each block. Each thread has `scratch_size` bytes for the addresses
of the operands and, behind them, the registers.
"""

INSTRUCTION = np.dtype(
    [*((name, np.int64) for name in ("code", "result", "x", "y", "row", "column")), ("a", np.float32), ("b", np.float32), ("_", np.int64)]
)
"""An instruction: its code, the numbers of its operands, and its constants.

LOAD and STORE copy from or to a tensor whose elements are `row` and `column` bytes apart along the two axes of a block.
"""
