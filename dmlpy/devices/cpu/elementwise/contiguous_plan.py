"""The compiled plan of functions of integers, comparisons and truth values on large tensors that are contiguous in the same order."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from dmlpy.description.attachments import name_of
from dmlpy.description.enums import DataType
from dmlpy.devices.axes import merged
from dmlpy.devices.cpu.elementwise.names import ACTIVATION, ARITHMETIC, LOGIC, MATH
from dmlpy.devices.cpu.isa import host_isa, refusal_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc

CONTIGUOUS = Kernel("dmlpy.devices.cpu.elementwise.contiguous_kernels:build_contiguous", 5)
"""A function of contiguous elements: the `Function`, the names of NumPy's types of operands and results, and the instruction set."""

_FEWEST = 1 << 11
"""The elements that are worth a kernel of their own."""
_BYTES_OF_A_THREAD = 1 << 18
"""Bytes of results that are worth waking another thread for."""
_TILES_PER_THREAD = 4


class Function(StrEnum):
    """The functions of the kernel."""

    BIT_AND = "bit and"
    BIT_OR = "bit or"
    BIT_XOR = "bit xor"
    BIT_NOT = "bit not"
    SHIFT_LEFT = "shift left"
    SHIFT_RIGHT = "shift right"
    MIN = "min"
    MAX = "max"
    ABS = "abs"
    NEGATE = "negate"
    SIGN = "sign"
    RELU = "relu"
    RELU_GRADIENT = "relu gradient"
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    EQUAL = "equal"
    LESS = "less"
    LESS_OR_EQUAL = "less or equal"


COMPARISONS = frozenset({Function.EQUAL, Function.LESS, Function.LESS_OR_EQUAL})
_X, _AB, _BA = ("input_tensor",), ("a_tensor", "b_tensor"), ("b_tensor", "a_tensor")
_FUNCTIONS: dict[str, tuple[Function, tuple[str, ...]]] = {
    f"{LOGIC}BitAndDesc": (Function.BIT_AND, _AB),
    f"{LOGIC}BitOrDesc": (Function.BIT_OR, _AB),
    f"{LOGIC}BitXorDesc": (Function.BIT_XOR, _AB),
    f"{LOGIC}BitNotDesc": (Function.BIT_NOT, _X),
    f"{LOGIC}BitShiftLeftDesc": (Function.SHIFT_LEFT, _AB),
    f"{LOGIC}BitShiftRightDesc": (Function.SHIFT_RIGHT, _AB),
    f"{ARITHMETIC}MinDesc": (Function.MIN, _AB),
    f"{ARITHMETIC}MaxDesc": (Function.MAX, _AB),
    f"{MATH}AbsDesc": (Function.ABS, _X),
    f"{MATH}NegateDesc": (Function.NEGATE, _X),
    f"{MATH}SignDesc": (Function.SIGN, _X),
    f"{ACTIVATION}ReluDesc": (Function.RELU, _X),
    f"{ACTIVATION}ReluGradDesc": (Function.RELU_GRADIENT, ("input_tensor", "input_gradient_tensor")),
    f"{LOGIC}LogicalAndDesc": (Function.AND, _AB),
    f"{LOGIC}LogicalOrDesc": (Function.OR, _AB),
    f"{LOGIC}LogicalXorDesc": (Function.XOR, _AB),
    f"{LOGIC}LogicalNotDesc": (Function.NOT, _X),
    f"{LOGIC}LogicalEqualsDesc": (Function.EQUAL, _AB),
    f"{LOGIC}LogicalLessThanDesc": (Function.LESS, _AB),
    f"{LOGIC}LogicalGreaterThanDesc": (Function.LESS, _BA),
    f"{LOGIC}LogicalLessThanOrEqualDesc": (Function.LESS_OR_EQUAL, _AB),
    f"{LOGIC}LogicalGreaterThanOrEqualDesc": (Function.LESS_OR_EQUAL, _BA),
}
"""The functions by the names of their classes, each with the inputs in the kernel's order."""

BITS = tuple(name for name, (function, _) in _FUNCTIONS.items() if function.startswith(("bit", "shift")))
"""The classes that have no other compiled form."""


class ContiguousParameters(UnitParameters):
    """The parameters of the functions. A tile is some of the elements."""

    y: Address = field("the output")
    a: Address = field("the first input")
    b: Address = field("the second input, if the function has two")


class ContiguousPlan(PlanWithoutConstants):
    """A function of contiguous elements.

    Args:
        function: the function.
        places: the output, and the inputs in the kernel's order.
        tensors: their descs.
    """

    temporary_size = 0

    def __init__(self, function: Function, places: Sequence[str], tensors: Sequence[TensorDesc]) -> None:
        output, operand, *_ = tensors
        self._places, self._count = places, output.element_count
        self._choices = function, operand.data_type.numpy.name, output.data_type.numpy.name, host_isa()
        self._threads = max(1, min(available_threads(), self._count * output.data_type.numpy.itemsize // _BYTES_OF_A_THREAD))

    def load(self) -> None:
        CONTIGUOUS(*self._choices)

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        return f"compiled by LLVM, {self._choices[1]} on {threads}; {self._count} contiguous elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = {
            "tiles": _TILES_PER_THREAD * self._threads if self._threads > 1 else 1,
            "units": self._count,
            **{name: tensors[place] for name, place in zip("yab", self._places, strict=False)},
        }
        return TaskLaunch.of(CONTIGUOUS(*self._choices), ContiguousParameters.bound(values), self._threads)


def contiguous_plan(desc: OperatorDesc) -> ContiguousPlan | None:
    """The plan of a checked desc, or None."""
    function, inputs = _FUNCTIONS.get(name_of(type(desc)), (None, ()))
    if function is None or getattr(desc, "scale_bias", None) is not None:
        return None
    tensors = desc.tensors()
    places = ("output_tensor", *inputs) if function is not Function.RELU_GRADIENT else ("output_gradient_tensor", *inputs)
    descs = [tensors[place] for place in places]
    if descs[0].element_count < _FEWEST or not _takes(function, descs):
        return None
    axes = merged(descs[0].sizes, [each.element_strides for each in descs])
    return ContiguousPlan(function, places, descs) if len(axes) == 1 and set(axes[0].strides) == {1} else None


def _takes(function: Function, descs: Sequence[TensorDesc]) -> bool:
    """Whether there is a kernel for the types of the output and the inputs."""
    output, *inputs = (each.data_type for each in descs)
    if any(each.bits < 8 or each is DataType.BFLOAT16 for each in (output, *inputs)) or len(set(inputs)) > 1:
        return False
    if inputs[0].numpy.kind == "f":
        return function in COMPARISONS and inputs[0] in (DataType.FLOAT16, DataType.FLOAT32) and refusal_of({inputs[0]}) is None
    return function in COMPARISONS or output is inputs[0]
