"""What the kernel of element-wise programs runs: instructions on blocks of elements, each block in a register of the program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto


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


LONG = frozenset({Code.EXP, Code.ERF, Code.TANH, Code.SIGMOID, Code.SWISH, Code.GELU, Code.ELU, Code.DIVIDE, Code.RECIP, Code.SQRT})
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
