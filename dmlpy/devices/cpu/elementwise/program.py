"""Element-wise programs, instructions on blocks of elements, each in a register of the program; and the parameters of their kernel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

from dmlpy.devices.cpu.structs import (
    Address,
    Bytes,
    Count,
    CountedParameters,
    Flag,
    Float32,
    KernelStruct,
    field,
)


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


class ProgramParameters(CountedParameters):
    """What the interpreter of programs reads. A tile is some of the blocks.

    Operands are tensors and, numbered behind them, registers, which are blocks of elements.
    """

    blocks: Count = field("blocks of the output")
    axes: Count = field("axes of the blocks")
    sizes: Address = field("blocks along each axis, the innermost first, int64 [axes]")
    strides: Address = field("the bytes from a block of each tensor to the next, int64 [tensors, axes]")
    rows: Count = field("elements of a block along the outer of its two axes")
    columns: Count = field("elements of a block along the inner one")
    splits_rows: Flag = field("whether blocks divide the outer axis; else they divide the inner one")
    split_size: Count = field("elements along the axis that blocks divide: the last block may have fewer than the others")
    tensors: Count = field("tensors, of which the output is the first")
    bases: Address = field("the addresses of the tensors, int64 [tensors]")
    registers: Count = field("registers")
    register_size: Bytes = field("from a register to the next")
    instructions: Address = field("the program's `EncodedInstruction`s")
    hoisted: Count = field("how many of the first instructions give the same in each block")
    count: Count = field("instructions")
    scratch: Address = field("for each thread the addresses of the operands, then the registers")
    scratch_size: Bytes = field("from a thread's scratch to the next")


class EncodedInstruction(KernelStruct):
    """An instruction of a program."""

    code: Count = field("its `Code`")
    result: Count = field("the operand that it writes")
    x: Count = field("its first operand")
    y: Count = field("its second operand")
    row: Bytes = field("of LOAD and STORE, from a row of the tensor's block to the next")
    column: Bytes = field("of LOAD and STORE, from a column of the tensor's block to the next")
    a: Float32 = field("its first constant")
    b: Float32 = field("its second constant")
    reserved: Count = field("fills a cache line")
