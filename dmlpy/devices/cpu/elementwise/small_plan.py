"""The compiled plan of functions of integers, comparisons and truth values on small tensors, as the conditions and counters of loops are.

NumPy takes microseconds to begin such a function, and ends the batch of launches around it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from dmlpy.description.attachments import name_of
from dmlpy.description.enums import DataType
from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cpu.elementwise.names import ARITHMETIC, LOGIC
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, KernelStruct, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.descs import OperatorDesc

SMALL = Kernel("dmlpy.devices.cpu.elementwise.small_kernels:build_small", 5)
"""The functions, by a loop over elements one by one."""

_MOST_ELEMENTS = 256
"""More elements take longer one by one than NumPy takes in all."""


class Function(IntEnum):
    """The functions of the kernel."""

    CONVERT = 0
    ADD = 1
    SUBTRACT = 2
    MULTIPLY = 3
    MIN = 4
    MAX = 5
    EQUAL = 6
    LESS = 7
    LESS_OR_EQUAL = 8
    AND = 9
    OR = 10
    XOR = 11
    NOT = 12
    SELECT = 13


class Kind(IntEnum):
    """The types of elements in the kernel."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    FLOAT32 = 5


_COMPARISONS = {Function.EQUAL, Function.LESS, Function.LESS_OR_EQUAL}
_FUNCTIONS: dict[str, tuple[Function, tuple[str, ...]]] = {
    "dmlpy.operators.movement.copy:CastDesc": (Function.CONVERT, ("input_tensor",)),
    f"{ARITHMETIC}AddDesc": (Function.ADD, ("a_tensor", "b_tensor")),
    f"{ARITHMETIC}SubtractDesc": (Function.SUBTRACT, ("a_tensor", "b_tensor")),
    f"{ARITHMETIC}MultiplyDesc": (Function.MULTIPLY, ("a_tensor", "b_tensor")),
    f"{ARITHMETIC}MinDesc": (Function.MIN, ("a_tensor", "b_tensor")),
    f"{ARITHMETIC}MaxDesc": (Function.MAX, ("a_tensor", "b_tensor")),
    f"{LOGIC}LogicalEqualsDesc": (Function.EQUAL, ("a_tensor", "b_tensor")),
    f"{LOGIC}LogicalLessThanDesc": (Function.LESS, ("a_tensor", "b_tensor")),
    f"{LOGIC}LogicalGreaterThanDesc": (Function.LESS, ("b_tensor", "a_tensor")),
    f"{LOGIC}LogicalLessThanOrEqualDesc": (Function.LESS_OR_EQUAL, ("a_tensor", "b_tensor")),
    f"{LOGIC}LogicalGreaterThanOrEqualDesc": (Function.LESS_OR_EQUAL, ("b_tensor", "a_tensor")),
    f"{LOGIC}LogicalAndDesc": (Function.AND, ("a_tensor", "b_tensor")),
    f"{LOGIC}LogicalOrDesc": (Function.OR, ("a_tensor", "b_tensor")),
    f"{LOGIC}LogicalXorDesc": (Function.XOR, ("a_tensor", "b_tensor")),
    f"{LOGIC}LogicalNotDesc": (Function.NOT, ("input_tensor",)),
    f"{LOGIC}IfDesc": (Function.SELECT, ("a_tensor", "b_tensor", "condition_tensor")),
}
"""The functions by the names of their classes, each with the inputs in the kernel's order."""

LOGICAL = tuple(name for name in _FUNCTIONS if name.startswith(LOGIC))
"""The classes that have no other compiled form."""

_ONE = Axis(1, (0,) * 4)


class SmallParameters(KernelStruct):
    """The parameters of the functions. An input that a function does not have is not read."""

    function: Count = field("the `Function`")
    rows: Count = field("elements along the outer of two axes")
    columns: Count = field("elements along the inner one")
    y: Address = field("the output")
    y_row: Bytes = field("from a row of the output to the next")
    y_column: Bytes = field("from a column of the output to the next")
    y_kind: Count = field("the `Kind` of the output")
    a: Address = field("the first input")
    a_row: Bytes = field("from a row of the first input to the next")
    a_column: Bytes = field("from a column of the first input to the next")
    a_kind: Count = field("the `Kind` of the first input")
    b: Address = field("the second input")
    b_row: Bytes = field("from a row of the second input to the next")
    b_column: Bytes = field("from a column of the second input to the next")
    b_kind: Count = field("the `Kind` of the second input")
    c: Address = field("the condition")
    c_row: Bytes = field("from a row of the condition to the next")
    c_column: Bytes = field("from a column of the condition to the next")
    c_kind: Count = field("the `Kind` of the condition")


class SmallPlan(PlanWithoutConstants):
    """A function of a small tensor's elements, one by one.

    Args:
        function: the function.
        places: the output, and the inputs in the kernel's order.
        kinds: their types.
        axes: two axes of their elements.
    """

    temporary_size = 0

    def __init__(self, function: Function, places: tuple[str, ...], kinds: tuple[Kind, ...], axes: tuple[Axis, Axis]) -> None:
        self._function, self._places, self._kinds = function, places, kinds
        self._elements = axes[0].size * axes[1].size
        self._values = {"function": function, "rows": axes[0].size, "columns": axes[1].size}
        for at, (name, kind) in enumerate(zip("yabc", kinds, strict=False)):
            size = DataType[kind.name].numpy.itemsize
            row, column = (axis.strides[at] * size for axis in axes)
            self._values |= {f"{name}_row": row, f"{name}_column": column, f"{name}_kind": kind}

    def load(self) -> None:
        SMALL()

    def describe(self) -> str:
        return f"compiled by LLVM, {self._kinds[1].name} on 1 thread; {self._elements} element(s)"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = self._values | {name: tensors[place] for name, place in zip("yabc", self._places, strict=False)}
        return TaskLaunch.of(SMALL(), SmallParameters.bound(values), 1)


def small_plan(desc: OperatorDesc) -> SmallPlan | None:
    """The plan of a checked desc, or None."""
    function, inputs = _FUNCTIONS.get(name_of(type(desc)), (None, ()))
    if function is None:
        return None
    tensors = desc.tensors()
    places = ("output_tensor", *inputs)
    descs = [tensors[place] for place in places]
    if descs[0].element_count > _MOST_ELEMENTS or any(each.data_type.name not in Kind.__members__ for each in descs):
        return None
    kinds = tuple(Kind[each.data_type.name] for each in descs)
    if Kind.FLOAT32 in kinds[1:] and function not in _COMPARISONS and function is not Function.SELECT:
        return None
    axes = merged(descs[0].sizes, [each.element_strides for each in descs])
    if len(axes) > 2:
        return None
    outer, inner = (_ONE, _ONE, *axes)[-2:]
    return SmallPlan(function, places, kinds, (outer, inner))
