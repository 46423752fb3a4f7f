"""The compiled plan of functions of many integers, of comparisons and of truth values, on tensors that are contiguous in the same order."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DataType
from dmlpy.devices.axes import merged
from dmlpy.devices.cpu.isa import host_isa, refusal_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Count, CountedParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads
from dmlpy.operators import activation
from dmlpy.operators.elementwise import arithmetic, logic, math

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc

MANY = Kernel("dmlpy.devices.cpu.elementwise.many_kernels:build_many", 5)
"""A function of many elements: the `Function`, the names of NumPy's types of operands and results, and the instruction set."""

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
    LEAST = "least"
    LARGEST = "largest"
    MAGNITUDE = "magnitude"
    NEGATIVE = "negative"
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
_FUNCTIONS: dict[type[OperatorDesc], tuple[Function, tuple[str, ...]]] = {
    logic.ElementWiseBitAndDesc: (Function.BIT_AND, _AB),
    logic.ElementWiseBitOrDesc: (Function.BIT_OR, _AB),
    logic.ElementWiseBitXorDesc: (Function.BIT_XOR, _AB),
    logic.ElementWiseBitNotDesc: (Function.BIT_NOT, _X),
    logic.ElementWiseBitShiftLeftDesc: (Function.SHIFT_LEFT, _AB),
    logic.ElementWiseBitShiftRightDesc: (Function.SHIFT_RIGHT, _AB),
    arithmetic.ElementWiseMinDesc: (Function.LEAST, _AB),
    arithmetic.ElementWiseMaxDesc: (Function.LARGEST, _AB),
    math.ElementWiseAbsDesc: (Function.MAGNITUDE, _X),
    math.ElementWiseNegateDesc: (Function.NEGATIVE, _X),
    math.ElementWiseSignDesc: (Function.SIGN, _X),
    activation.ActivationReluDesc: (Function.RELU, _X),
    activation.ActivationReluGradDesc: (Function.RELU_GRADIENT, ("input_tensor", "input_gradient_tensor")),
    logic.ElementWiseLogicalAndDesc: (Function.AND, _AB),
    logic.ElementWiseLogicalOrDesc: (Function.OR, _AB),
    logic.ElementWiseLogicalXorDesc: (Function.XOR, _AB),
    logic.ElementWiseLogicalNotDesc: (Function.NOT, _X),
    logic.ElementWiseLogicalEqualsDesc: (Function.EQUAL, _AB),
    logic.ElementWiseLogicalLessThanDesc: (Function.LESS, _AB),
    logic.ElementWiseLogicalGreaterThanDesc: (Function.LESS, _BA),
    logic.ElementWiseLogicalLessThanOrEqualDesc: (Function.LESS_OR_EQUAL, _AB),
    logic.ElementWiseLogicalGreaterThanOrEqualDesc: (Function.LESS_OR_EQUAL, _BA),
}
"""The functions by class, each with the inputs in the kernel's order."""

BITS = tuple(kind for kind, (function, _) in _FUNCTIONS.items() if function.startswith(("bit", "shift")))
"""The classes that have no other compiled form."""


class ManyParameters(CountedParameters):
    """The parameters of the functions. A tile is some of the elements."""

    count: Count = field("elements")
    y: Address = field("the output")
    a: Address = field("the first input")
    b: Address = field("the second input, if the function has two")


class ManyPlan(PlanWithoutConstants):
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
        MANY(*self._choices)

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        return f"compiled by LLVM, {self._choices[1]} on {threads}; {self._count} contiguous elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = {
            "tiles": _TILES_PER_THREAD * self._threads if self._threads > 1 else 1,
            "count": self._count,
            **{name: tensors[place] for name, place in zip("yab", self._places, strict=False)},
        }
        return TaskLaunch.of(MANY(*self._choices), ManyParameters.bound(values), self._threads)


def many_plan(desc: OperatorDesc) -> ManyPlan | None:
    """The plan of a checked desc, or None."""
    function, inputs = _FUNCTIONS.get(type(desc), (None, ()))
    if function is None or getattr(desc, "scale_bias", None) is not None:
        return None
    tensors = desc.tensors()
    places = ("output_tensor", *inputs) if function is not Function.RELU_GRADIENT else ("output_gradient_tensor", *inputs)
    descs = [tensors[place] for place in places]
    if descs[0].element_count < _FEWEST or not _takes(function, descs):
        return None
    axes = merged(descs[0].sizes, [each.element_strides for each in descs])
    return ManyPlan(function, places, descs) if len(axes) == 1 and set(axes[0].strides) == {1} else None


def _takes(function: Function, descs: Sequence[TensorDesc]) -> bool:
    """Whether there is a kernel for the types of the output and the inputs."""
    output, *inputs = (each.data_type for each in descs)
    if any(each.bits < 8 or each is DataType.BFLOAT16 for each in (output, *inputs)) or len(set(inputs)) > 1:
        return False
    if inputs[0].numpy.kind == "f":
        return function in COMPARISONS and inputs[0] in (DataType.FLOAT16, DataType.FLOAT32) and refusal_of({inputs[0]}) is None
    return function in COMPARISONS or output is inputs[0]
