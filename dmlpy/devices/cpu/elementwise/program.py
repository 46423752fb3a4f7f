"""Element-wise programs: instructions on blocks of elements, the operators as instructions, and the parameters of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, auto
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.description.class_registry import name_of
from dmlpy.description.enums import DataType, RoundingMode
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Flag, Float32, KernelStruct, UnitParameters, field

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc

ACTIVATION = "dmlpy.operators.activation:Activation"
ARITHMETIC = "dmlpy.operators.elementwise.arithmetic:ElementWise"
LOGIC = "dmlpy.operators.elementwise.logic:ElementWise"
MATH = "dmlpy.operators.elementwise.math:ElementWise"
RANGES = "dmlpy.operators.elementwise.ranges:ElementWise"
"""The prefixes of the names of element-wise operators' classes. Tables have these names in place of classes, as `ClassRegistry` takes them:
the plan of an operator then imports no other one."""
CAST = "dmlpy.operators.movement.copy:CastDesc"
"""The class whose tensors are of two types."""


class Code(IntEnum):
    """The operations: what an instruction computes from its operands x and y, which are blocks, and its constants a and b."""

    LOAD = 0
    """Copies elements with gaps from memory."""
    STORE = auto()
    """Copies elements with gaps to memory."""
    MOVE = auto()
    """x."""
    LINEAR = auto()
    """a x + b, rounded twice."""
    MULTIPLY_ROWS = auto()
    """Each row of x times one element of y."""
    ADD_TO_ROWS = auto()
    """Each row of x plus one element of y."""
    CLIP = auto()
    """x from a to b."""
    ABS = auto()
    NEGATE = auto()
    SQRT = auto()
    FLOOR = auto()
    CEIL = auto()
    ROUND = auto()
    """To the nearest integer, halves to even ones."""
    TRUNCATE = auto()
    """To the next integer toward zero."""
    ROUND_HALVES_AWAY = auto()
    """To the nearest integer, halves away from zero."""
    ROUNDED_LINEAR = auto()
    """a x + b, rounded twice and then to an integer, as ROUND does it."""
    ROUNDED_SUM = auto()
    """x + y, rounded and then to an integer, as ROUND does it."""
    RECIP = auto()
    EXP = auto()
    ERF = auto()
    TANH = auto()
    SIGMOID = auto()
    SILU = auto()
    """x sigmoid(x)."""
    SWISH = auto()
    """x / (1 + exp(-a x)); 0 where the gate is closed."""
    HARD_SWISH = auto()
    """x times a x + b from 0 to 1; 0 where that is, even if x is infinite."""
    GELU = auto()
    SOFTSIGN = auto()
    SOFTPLUS = auto()
    """ln(1 + exp(a x)) / a."""
    PARAMETRIC_SOFTPLUS = auto()
    """a ln(1 + exp(b x))."""
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
    DIFFERENCE_SQUARE = auto()
    """The square of x - y."""
    DIVIDE = auto()
    MAX = auto()
    MIN = auto()
    PARAMETERIZED_RELU = auto()
    """x y where x < 0."""
    RELU_GRADIENT = auto()
    """y where x > 0, else 0."""
    CLIP_GRADIENT = auto()
    """0 where x <= a or x >= b, else y."""
    SIGN = auto()
    """-1, 0 or 1; 0 where x is NaN."""
    MODULUS_TRUNCATE = auto()
    """The remainder of x / y with the sign of x."""
    MODULUS_FLOOR = auto()
    """The remainder of x / y with the sign of y."""
    SIN = auto()
    COS = auto()
    TAN = auto()
    ASIN = auto()
    ACOS = auto()
    ATAN = auto()
    ATAN_YX = auto()
    """The angle of the point (y, x)."""
    SINH = auto()
    COSH = auto()
    ASINH = auto()
    ACOSH = auto()
    ATANH = auto()
    LOG = auto()
    POWER = auto()
    """x to the power y."""
    CONSTANT_POWER = auto()
    """x to the power a."""


BYTES = (DataType.UINT8, DataType.INT8)
"""The types of integers that programs read and write."""
NARROW = (DataType.FLOAT16, DataType.BFLOAT16, *BYTES)
"""The types whose elements have 2 bytes, or 1."""

OF_BYTES = frozenset(
    {
        Code.MOVE,
        Code.LINEAR,
        Code.CLIP,
        Code.ABS,
        Code.NEGATE,
        Code.ROUND,
        Code.ROUNDED_LINEAR,
        Code.ROUNDED_SUM,
        Code.ADD,
        Code.SUBTRACT,
        Code.MULTIPLY,
    }
)
"""The instructions that read and write bytes. Programs convert for others: code of all for both types of elements takes long to compile."""

EXPENSIVE = frozenset(
    {
        Code.EXP,
        Code.ERF,
        Code.TANH,
        Code.SIGMOID,
        Code.SILU,
        Code.SWISH,
        Code.GELU,
        Code.ELU,
        Code.DIVIDE,
        Code.RECIP,
        Code.SQRT,
        Code.SOFTPLUS,
        Code.PARAMETRIC_SOFTPLUS,
        Code.MODULUS_TRUNCATE,
        Code.MODULUS_FLOOR,
        *(code for code in Code if code >= Code.SIN),
    }
)
"""The instructions that take several times as long as an addition."""


class Instruction(NamedTuple):
    """One instruction; its result is the next value of its program, whose inputs are the first ones.

    Attributes:
        code: what it computes.
        reads: the numbers of the values x and y; the same twice for one operand.
        constants: a and b.
    """

    code: Code
    reads: tuple[int, int]
    constants: tuple[float, float]


class Program:
    """Instructions one after the other.

    Attributes:
        inputs: the number of input values.
        narrow: for each value whether it is of a type of `NARROW`; else it is of FLOAT32, as values within an operator are.
        narrow_types: the types of `NARROW` that it has: the kernel is of programs that have one of them.
        instructions: in order; the last one computes the result.
        others: the numbers of more results, in the order of the outputs behind the first.

    Args:
        tensors: the descs of the inputs.
    """

    def __init__(self, tensors: Sequence[TensorDesc]) -> None:
        self.inputs = len(tensors)
        self.narrow = [tensor.data_type in NARROW for tensor in tensors]
        self.narrow_types = {tensor.data_type for tensor in tensors if tensor.data_type in NARROW}
        self.instructions: list[Instruction] = []
        self.others: list[int] = []

    def add(self, code: Code, x: int, y: int | None = None, *, a: float = 0.0, b: float = 0.0) -> int:
        """Adds an instruction, and returns the number of its result."""
        self.instructions.append(Instruction(code, (x, x if y is None else y), (a, b)))
        self.narrow.append(False)
        return self.inputs + len(self.instructions) - 1

    def add_scaled(self, x: int, factor: float) -> int:
        """Adds a product with a constant, and returns the number of the result: a sum with -0, which keeps the sign of a zero."""
        return self.add(Code.LINEAR, x, a=factor, b=-0.0)

    def add_operator(self, desc: OperatorDesc, reads: Mapping[str, int]) -> int:
        """Adds the instructions of a desc, whose result is rounded to the type of its output, and returns the number of the result.

        Args:
            desc: a checked desc for which `why_untranslated` returns None.
            reads: the numbers of the values that it reads, by place.
        """
        result = _TRANSLATIONS[name_of(type(desc))](desc, self, reads)
        (output,) = (slot.tensor for slot in desc.output_slots() if slot.tensor is not None)
        assert output is not None  # it was just found
        self.narrow[result] = output.data_type in NARROW
        if output.data_type in NARROW:
            self.narrow_types.add(output.data_type)
        return result


BLOCK = 1024
"""Elements of a block, at most: the registers of a usual chain stay in a core's first cache."""
LONG_BLOCK = 1 << 13
"""Elements of a block of one instruction without registers: the interpreter places a block in the time of a hundred elements."""


NARROW_RESULT, NARROW_X, NARROW_Y = 1, 2, 4
"""The operands of an instruction as bits of its formats."""


class ProgramParameters(UnitParameters):
    """The parameters of the interpreter. A tile is some of the blocks.

    Operands are tensors and, numbered behind them, registers, which are blocks of elements.
    """

    axes: Count = field("axes of the blocks")
    sizes: Address = field("blocks along each axis, the innermost first, int64 [axes]")
    strides: Address = field("the bytes from a block of each tensor to the next, int64 [tensors, axes]")
    rows: Count = field("elements of a block along the outer of its two axes")
    columns: Count = field("elements of a block along the inner one")
    splits_rows: Flag = field("whether blocks divide the outer axis; else they divide the inner one")
    split_size: Count = field("elements along the axis that blocks divide: the last block may have fewer than the others")
    tensors: Count = field("tensors, of which the first is an output whose blocks are counted")
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
    row: Bytes = field("of LOAD, STORE, MULTIPLY_ROWS and ADD_TO_ROWS, from a row of the tensor's block to the next")
    column: Bytes = field("of LOAD and STORE, from a column of the tensor's block to the next")
    a: Float32 = field("its first constant")
    b: Float32 = field("its second constant")
    formats: Count = field("the sum of `NARROW_RESULT`, `NARROW_X` and `NARROW_Y` for the operands of 1 or 2 bytes")


Translation = Callable[[Any, Program, Mapping[str, int]], int]
"""Adds the instructions of a desc to a program, given the numbers of the values that it reads by place; returns that of its result."""

_X = "input_tensor"


def _unary(code: Code, *constants: str) -> Translation:
    """A function of one operand, whose constants are members of the desc."""

    def translate(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
        return program.add(code, reads[_X], **dict(zip("ab", (getattr(desc, name) for name in constants), strict=False)))

    return translate


def _binary(code: Code, x: str = "a_tensor", y: str = "b_tensor") -> Translation:
    return lambda desc, program, reads: program.add(code, reads[x], reads[y])


def _scaled(desc: Any, program: Program, x: int) -> int:
    """x * scale + bias."""
    return x if desc.scale_bias is None else program.add(Code.LINEAR, x, a=desc.scale_bias.scale, b=desc.scale_bias.bias)


def _of_scaled(code: Code) -> Translation:
    return lambda desc, program, reads: program.add(code, _scaled(desc, program, reads[_X]))


def _identity(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add(Code.MOVE, reads[_X]) if desc.scale_bias is None else _scaled(desc, program, reads[_X])


def _limits(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    """CLIP and THRESHOLD: the upper limit wins where it is below the lower one."""
    low, high = limits_of(desc)
    return program.add(Code.CLIP, _scaled(desc, program, reads[_X]), a=low, b=high)


def _clip1(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    """CLIP1: the lower limit wins."""
    low, high = limits_of(desc)
    return program.add(Code.CLIP, _scaled(desc, program, reads[_X]), a=low, b=max(low, high))


def limits_of(desc: Any) -> tuple[float, float]:
    """The lower and the upper limit of a CLIP desc. NaN means that there is no limit."""
    low, high = desc.min, getattr(desc, "max", inf)
    return -inf if low != low else low, inf if high != high else high  # `isnan` would need the numbers of symbolic ones


def _clip_gradient(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add(Code.CLIP_GRADIENT, reads[_X], reads["input_gradient_tensor"], a=desc.min, b=desc.max)


_ROUNDINGS = {
    RoundingMode.HALVES_TO_NEAREST_EVEN: Code.ROUND,
    RoundingMode.TOWARD_ZERO: Code.TRUNCATE,
    RoundingMode.TOWARD_INFINITY: Code.ROUND_HALVES_AWAY,
}


def _mean(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add_scaled(program.add(Code.ADD, reads["a_tensor"], reads["b_tensor"]), 0.5)


def _add1(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    total = program.add(Code.ADD, reads["a_tensor"], reads["b_tensor"])
    function = desc.fused_activation
    return total if function is None else _TRANSLATIONS[name_of(type(function))](function, program, {_X: total})


def _constant_power(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    x = _scaled(desc, program, reads[_X])
    if desc.exponent == 2.0:
        return program.add(Code.MULTIPLY, x, x)
    return program.add(Code.SQRT, x) if desc.exponent == 0.5 else program.add(Code.CONSTANT_POWER, x, a=desc.exponent)


def _power(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add(Code.POWER, _scaled(desc, program, reads[_X]), reads["exponent_tensor"])


def _celu(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add(Code.ELU, reads[_X], a=desc.alpha, b=desc.alpha)


def _elu(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add(Code.ELU, reads[_X], a=desc.alpha, b=1.0)


def _scaled_elu(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add_scaled(_elu(desc, program, reads), desc.gamma)


def _scaled_tanh(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    inner = program.add(Code.TANH, program.add_scaled(reads[_X], desc.beta))
    return program.add_scaled(inner, desc.alpha)


def _hard_sigmoid(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add(Code.CLIP, program.add(Code.LINEAR, reads[_X], a=desc.alpha, b=desc.beta), a=0.0, b=1.0)


def _hard_swish(desc: Any, program: Program, reads: Mapping[str, int]) -> int:
    return program.add(Code.HARD_SWISH, reads[_X], a=desc.alpha, b=desc.beta)


_OF_FUNCTIONS: dict[str, Translation] = {
    f"{ACTIVATION}IdentityDesc": _unary(Code.MOVE),
    f"{ACTIVATION}ReluDesc": lambda desc, program, reads: program.add(Code.CLIP, reads[_X], a=0.0, b=inf),
    f"{ACTIVATION}SigmoidDesc": _unary(Code.SIGMOID),
    f"{ACTIVATION}TanhDesc": _unary(Code.TANH),
    f"{ACTIVATION}SoftsignDesc": _unary(Code.SOFTSIGN),
    f"{ACTIVATION}SoftplusDesc": _unary(Code.SOFTPLUS, "steepness"),
    f"{ACTIVATION}ParametricSoftplusDesc": _unary(Code.PARAMETRIC_SOFTPLUS, "alpha", "beta"),
    f"{ACTIVATION}GeluDesc": _unary(Code.GELU),
    f"{ACTIVATION}EluDesc": _elu,
    f"{ACTIVATION}CeluDesc": _celu,
    f"{ACTIVATION}ScaledEluDesc": _scaled_elu,
    f"{ACTIVATION}LeakyReluDesc": _unary(Code.LEAKY_RELU, "alpha"),
    f"{ACTIVATION}ThresholdedReluDesc": _unary(Code.THRESHOLDED_RELU, "alpha"),
    f"{ACTIVATION}LinearDesc": _unary(Code.LINEAR, "alpha", "beta"),
    f"{ACTIVATION}HardSigmoidDesc": _hard_sigmoid,
    f"{ACTIVATION}ScaledTanhDesc": _scaled_tanh,
    f"{ACTIVATION}ShrinkDesc": _unary(Code.SHRINK, "bias", "threshold"),
    f"{ACTIVATION}SwishDesc": _unary(Code.SWISH, "sigmoid_input_scale"),
    f"{ACTIVATION}HardSwishDesc": _hard_swish,
    f"{ACTIVATION}ParameterizedReluDesc": _binary(Code.PARAMETERIZED_RELU, _X, "slope_tensor"),
    f"{ACTIVATION}ReluGradDesc": _binary(Code.RELU_GRADIENT, _X, "input_gradient_tensor"),
}
_BY_RANGE: dict[str, Translation] = {
    f"{ARITHMETIC}PowDesc": _power,
    f"{MATH}SinDesc": _of_scaled(Code.SIN),
    f"{MATH}CosDesc": _of_scaled(Code.COS),
    f"{MATH}TanDesc": _of_scaled(Code.TAN),
    f"{MATH}AsinDesc": _of_scaled(Code.ASIN),
    f"{MATH}AcosDesc": _of_scaled(Code.ACOS),
    f"{MATH}AtanDesc": _of_scaled(Code.ATAN),
    f"{MATH}SinhDesc": _of_scaled(Code.SINH),
    f"{MATH}CoshDesc": _of_scaled(Code.COSH),
    f"{MATH}AsinhDesc": _of_scaled(Code.ASINH),
    f"{MATH}AcoshDesc": _of_scaled(Code.ACOSH),
    f"{MATH}AtanhDesc": _of_scaled(Code.ATANH),
    f"{MATH}LogDesc": _of_scaled(Code.LOG),
}
"""The functions whose formulas of FLOAT16 rely on its range."""
_OF_OPERATORS: dict[str, Translation] = {
    f"{ARITHMETIC}AddDesc": _binary(Code.ADD),
    f"{ARITHMETIC}Add1Desc": _add1,
    f"{ARITHMETIC}SubtractDesc": _binary(Code.SUBTRACT),
    f"{ARITHMETIC}MultiplyDesc": _binary(Code.MULTIPLY),
    f"{ARITHMETIC}DivideDesc": _binary(Code.DIVIDE),
    f"{ARITHMETIC}MaxDesc": _binary(Code.MAX),
    f"{ARITHMETIC}MinDesc": _binary(Code.MIN),
    f"{ARITHMETIC}ModulusTruncateDesc": _binary(Code.MODULUS_TRUNCATE),
    f"{ARITHMETIC}ModulusFloorDesc": _binary(Code.MODULUS_FLOOR),
    f"{ARITHMETIC}AtanYXDesc": _binary(Code.ATAN_YX),
    f"{ARITHMETIC}MeanDesc": _mean,
    f"{ARITHMETIC}DifferenceSquareDesc": _binary(Code.DIFFERENCE_SQUARE),
    f"{ARITHMETIC}ConstantPowDesc": _constant_power,
    f"{MATH}IdentityDesc": _identity,
    f"{MATH}AbsDesc": _of_scaled(Code.ABS),
    f"{MATH}NegateDesc": _unary(Code.NEGATE),
    f"{MATH}SignDesc": _unary(Code.SIGN),
    f"{MATH}SqrtDesc": _of_scaled(Code.SQRT),
    f"{MATH}FloorDesc": _of_scaled(Code.FLOOR),
    f"{MATH}CeilDesc": _of_scaled(Code.CEIL),
    f"{MATH}RecipDesc": _of_scaled(Code.RECIP),
    f"{MATH}ExpDesc": _of_scaled(Code.EXP),
    f"{MATH}ErfDesc": _of_scaled(Code.ERF),
    f"{MATH}TanhDesc": _of_scaled(Code.TANH),
    f"{RANGES}ClipDesc": _limits,
    f"{RANGES}ClipGradDesc": _clip_gradient,
    f"{RANGES}ClipGrad1Desc": _clip_gradient,
    f"{RANGES}Clip1Desc": _clip1,
    f"{RANGES}ThresholdDesc": _limits,
    f"{RANGES}RoundDesc": lambda desc, program, reads: program.add(_ROUNDINGS[desc.rounding_mode], reads[_X]),
}

FUNCTIONS, OPERATORS, OPERATORS_BY_RANGE = tuple(_OF_FUNCTIONS), (*_OF_OPERATORS, *_BY_RANGE), tuple(_BY_RANGE)
"""The names of the activations, and of the other operators, that have a translation; and of those whose formulas rely on ranges."""

_TRANSLATIONS = _OF_FUNCTIONS | _OF_OPERATORS | _BY_RANGE | {CAST: _unary(Code.MOVE)}


def _is_in_range(desc: Any) -> bool:
    """Whether the operand is not a scaled one of FLOAT16, which may be beyond the range of halves."""
    return desc.input_tensor.data_type is not DataType.FLOAT16 or desc.scale_bias is None


_BEYOND_RANGE = "scaled halves may be beyond the range of the compiled form"
_PARTIAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    f"{ARITHMETIC}ConstantPowDesc": (lambda desc: desc.exponent in (0.5, 2.0) or _is_in_range(desc), _BEYOND_RANGE),
    **dict.fromkeys(_BY_RANGE, (_is_in_range, _BEYOND_RANGE)),
}
"""The operators whose translation is for some of their attributes: whether it is for these, and the reason if it is not."""


def why_untranslated(desc: Any) -> str | None:
    """The reason why a checked desc cannot be translated, or None."""
    if name_of(type(desc)) not in _TRANSLATIONS:
        return f"{desc.short_name()} has no compiled form"
    types = {tensor.data_type for tensor in desc.tensors().values()}
    if name_of(type(desc)) == CAST:
        is_of_bytes = DataType.FLOAT32 in types and not types.isdisjoint(BYTES)
        return None if is_of_bytes else "of the conversions those between FLOAT32 and UINT8 or INT8 are part of compiled chains"
    if types not in ({DataType.FLOAT32}, {DataType.FLOAT16}, {DataType.BFLOAT16}):
        return "compiled element-wise operators are of FLOAT32, FLOAT16 or BFLOAT16, or of integers in small or contiguous tensors"
    return why_function_untranslated(desc)


def why_function_untranslated(desc: Any) -> str | None:
    """The reason why a function has no translation, whatever its tensors are, or None."""
    name = name_of(type(desc))
    if name not in _TRANSLATIONS:
        return f"{desc.short_name()} has no compiled form"
    function = getattr(desc, "fused_activation", None)
    if function is not None and name_of(type(function)) not in _TRANSLATIONS:
        return f"{function.short_name()} has no compiled form"
    translates, reason = _PARTIAL.get(name, (None, None))
    return None if translates is None or translates(desc) else reason
