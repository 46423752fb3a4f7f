"""The compiled plans of functions of integers, comparisons and truth values: on small tensors, and on large ones.

NumPy takes microseconds to begin such a function of a small tensor, as the conditions and counters of loops are, and ends the batch of
launches around it. Large tensors are contiguous in the same order, or have rows that are, in which a kernel computes vectors of their
elements.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.description.class_registry import name_of
from dmlpy.description.enums import DataType
from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cpu.elementwise.program import ACTIVATION, ARITHMETIC, LOGIC, MATH, RANGES, limits_of
from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, KernelStruct, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanPart, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc

SMALL = Kernel("dmlpy.devices.cpu.elementwise.integer_kernels:build_small", 5)
"""The functions of small tensors, by a loop over elements one by one."""
CONTIGUOUS = Kernel("dmlpy.devices.cpu.elementwise.integer_kernels:build_contiguous", 5)
"""A function of contiguous elements: the `Function`, the names of NumPy's types of operands and results, and the instruction set."""
ROWS = Kernel("dmlpy.devices.cpu.elementwise.integer_kernels:build_rows", 5)
"""A function of two operands along rows. The choices are those of `CONTIGUOUS`."""
CHOICE = Kernel("dmlpy.devices.cpu.elementwise.integer_kernels:build_choice", 5)
"""A choice of elements: their width, and the instruction set."""

_MOST_OF_SMALL = 256
"""More elements take longer one by one than NumPy takes in all."""
_FEWEST = _MOST_OF_SMALL + 1
"""The elements that are worth a kernel of their own."""
_BYTES_OF_A_THREAD = 1 << 18
"""Bytes of results that are worth waking another thread for."""

_BYTES_OF_A_ROW = 1 << 16
"""Bytes of a row that are worth a unit of their own."""
_UNITS_OF_A_THREAD = 4


class Function(StrEnum):
    """The functions. Small tensors have those up to SELECT, whose places are their codes; large ones have all but a few."""

    CONVERT = "convert"
    ABS = "abs"
    NEGATE = "negate"
    SIGN = "sign"
    RELU = "relu"
    CLIP = "clip"
    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    MIN = "min"
    MAX = "max"
    EQUAL = "equal"
    LESS = "less"
    LESS_OR_EQUAL = "less or equal"
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    SELECT = "select"
    NOT_EQUAL = "not equal"
    BIT_AND = "bit and"
    BIT_OR = "bit or"
    BIT_XOR = "bit xor"
    BIT_NOT = "bit not"
    SHIFT_LEFT = "shift left"
    SHIFT_RIGHT = "shift right"
    RELU_GRADIENT = "relu gradient"
    DIVIDE = "divide"
    MODULUS_TRUNCATE = "modulus truncate"
    MODULUS_FLOOR = "modulus floor"
    POW = "pow"


CODES = {function: code for code, function in enumerate(tuple(Function)[: tuple(Function).index(Function.SELECT) + 1])}
"""The functions of small tensors, and their codes in the kernel."""
COMPARISONS = frozenset({Function.EQUAL, Function.NOT_EQUAL, Function.LESS, Function.LESS_OR_EQUAL})
_ONLY_SMALL = frozenset({Function.CONVERT, Function.SELECT})
_AS_FAST = frozenset({Function.ADD, Function.SUBTRACT, Function.MULTIPLY})
"""The functions whose contiguous elements NumPy computes as fast."""
_TO_32_BITS = frozenset({Function.POW})
"""The functions of contiguous elements that have no kernel for integers of 64 bits."""
_X, _AB, _BA = ("input_tensor",), ("a_tensor", "b_tensor"), ("b_tensor", "a_tensor")
FUNCTIONS: dict[str, tuple[Function, tuple[str, ...]]] = {
    "dmlpy.operators.movement.copy:CastDesc": (Function.CONVERT, _X),
    f"{ARITHMETIC}AddDesc": (Function.ADD, _AB),
    f"{ARITHMETIC}SubtractDesc": (Function.SUBTRACT, _AB),
    f"{ARITHMETIC}MultiplyDesc": (Function.MULTIPLY, _AB),
    f"{ARITHMETIC}MinDesc": (Function.MIN, _AB),
    f"{ARITHMETIC}MaxDesc": (Function.MAX, _AB),
    f"{LOGIC}LogicalEqualsDesc": (Function.EQUAL, _AB),
    f"{LOGIC}LogicalLessThanDesc": (Function.LESS, _AB),
    f"{LOGIC}LogicalGreaterThanDesc": (Function.LESS, _BA),
    f"{LOGIC}LogicalLessThanOrEqualDesc": (Function.LESS_OR_EQUAL, _AB),
    f"{LOGIC}LogicalGreaterThanOrEqualDesc": (Function.LESS_OR_EQUAL, _BA),
    f"{LOGIC}LogicalAndDesc": (Function.AND, _AB),
    f"{LOGIC}LogicalOrDesc": (Function.OR, _AB),
    f"{LOGIC}LogicalXorDesc": (Function.XOR, _AB),
    f"{LOGIC}LogicalNotDesc": (Function.NOT, _X),
    f"{LOGIC}IfDesc": (Function.SELECT, (*_AB, "condition_tensor")),
    f"{LOGIC}BitAndDesc": (Function.BIT_AND, _AB),
    f"{LOGIC}BitOrDesc": (Function.BIT_OR, _AB),
    f"{LOGIC}BitXorDesc": (Function.BIT_XOR, _AB),
    f"{LOGIC}BitNotDesc": (Function.BIT_NOT, _X),
    f"{LOGIC}BitShiftLeftDesc": (Function.SHIFT_LEFT, _AB),
    f"{LOGIC}BitShiftRightDesc": (Function.SHIFT_RIGHT, _AB),
    f"{MATH}AbsDesc": (Function.ABS, _X),
    f"{MATH}NegateDesc": (Function.NEGATE, _X),
    f"{MATH}SignDesc": (Function.SIGN, _X),
    f"{ACTIVATION}ReluDesc": (Function.RELU, _X),
    f"{ACTIVATION}ReluGradDesc": (Function.RELU_GRADIENT, ("input_tensor", "input_gradient_tensor")),
    f"{ARITHMETIC}DivideDesc": (Function.DIVIDE, _AB),
    f"{ARITHMETIC}ModulusTruncateDesc": (Function.MODULUS_TRUNCATE, _AB),
    f"{ARITHMETIC}ModulusFloorDesc": (Function.MODULUS_FLOOR, _AB),
    f"{ARITHMETIC}PowDesc": (Function.POW, ("input_tensor", "exponent_tensor")),
    f"{RANGES}ClipDesc": (Function.CLIP, _X),
    f"{RANGES}Clip1Desc": (Function.CLIP, _X),
    f"{RANGES}ThresholdDesc": (Function.CLIP, _X),
}
"""The functions by the names of their classes, each with the inputs in the kernels' order."""

WITHOUT_PROGRAMS = tuple(name for name, (function, _) in FUNCTIONS.items() if name.startswith(LOGIC) or function is Function.POW)
"""The classes that have no other compiled form."""


class Kind(IntEnum):
    """The types of elements in the kernel."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    FLOAT32 = 5


_ONE = Axis(1, (0,) * 4)


class SmallParameters(KernelStruct):
    """The parameters of the functions. An input that a function does not have is not read."""

    function: Count = field("the code of the `Function`")
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
    low: Count = field("of CLIP, the lower limit")
    high: Count = field("of CLIP, the upper limit, which wins")


class SmallPlan(PlanWithoutConstants):
    """A function of a small tensor's elements, one by one.

    Args:
        function: the function.
        places: the output, and the inputs in the kernel's order.
        kinds: their types.
        axes: two axes of their elements.
        limits: of CLIP, the limits of the results.
    """

    temporary_size = 0

    def __init__(
        self, function: Function, places: tuple[str, ...], kinds: tuple[Kind, ...], axes: tuple[Axis, Axis], limits: tuple[int, int]
    ) -> None:
        self._function, self._places, self._kinds = function, places, kinds
        self._elements = axes[0].size * axes[1].size
        self._values = {"function": CODES[function], "rows": axes[0].size, "columns": axes[1].size, "low": limits[0], "high": limits[1]}
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


class ContiguousParameters(UnitParameters):
    """The parameters of the functions. A tile is some of the elements."""

    y: Address = field("the output")
    a: Address = field("the first input")
    b: Address = field("the second input, if the function has two")
    low: Count = field("of CLIP, the lower limit")
    high: Count = field("of CLIP, the upper limit, which wins")


class ContiguousPlan(PlanWithoutConstants):
    """A function of contiguous elements.

    Args:
        function: the function.
        places: the output, and the inputs in the kernel's order.
        tensors: their descs.
        limits: of CLIP, the limits of the results.
    """

    temporary_size = 0

    def __init__(self, function: Function, places: Sequence[str], tensors: Sequence[TensorDesc], limits: tuple[int, int] = (0, 0)) -> None:
        output, operand, *_ = tensors
        self._places, self._count, self._limits = places, output.element_count, dict(zip(("low", "high"), limits, strict=True))
        self._choices = function, operand.data_type.numpy.name, output.data_type.numpy.name, host_isa()
        moved = self._count * output.data_type.numpy.itemsize
        self._shares = WorkShares(self._count, Threads.of(available_threads(), moved, _BYTES_OF_A_THREAD))

    def load(self) -> None:
        CONTIGUOUS(*self._choices)

    def describe(self) -> str:
        return f"compiled by LLVM, {self._choices[1]} on {self._shares}; {self._count} contiguous elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = {
            **self._shares.values,
            **self._limits,
            **{name: tensors[place] for name, place in zip("yab", self._places, strict=False)},
        }
        return TaskLaunch.of(CONTIGUOUS(*self._choices), ContiguousParameters.bound(values), self._shares.threads)


class RowParameters(UnitParameters):
    """The parameters of functions along rows. Units are parts of rows."""

    axes: Count = field("axes of the rows")
    table: Address = field(
        "the axes, innermost first, int64 [axes, 4]: rows, and the bytes from one to the next in the output and both inputs"
    )
    split: Count = field("units of a row")
    size: Count = field("elements of a row")
    steps: Count = field(
        "whether elements of a row are contiguous in the first input, 1, the second one, 2, and a condition, 4; else one is repeated"
    )
    y: Address = field("the output")
    a: Address = field("the first input")
    b: Address = field("the second input")


class ChoiceParameters(RowParameters):
    """The parameters of a choice."""

    of_condition: Address = field("the axes in the same way: rows, the bytes from one to the next in the condition, and 0 twice")
    condition: Address = field("the condition, a byte for each element")


class _Rows(PlanPart):
    """How threads share rows.

    Attributes:
        values: the kernel's parameters by name, but for the addresses of tensors.
        shares: the units of the threads.

    Args:
        widths: bytes of an element of the output and of both inputs.
        axes: the axes of the elements, outermost first, of which the last one is that of the rows.
    """

    def __init__(self, widths: Sequence[int], axes: Sequence[Axis]) -> None:
        *outer, row = axes
        outer = outer or [_ONE]
        count, width = prod(axis.size for axis in axes), widths[0]
        threads = Threads.of(available_threads(), count * width, _BYTES_OF_A_THREAD)
        split = max(1, min(row.size * width // _BYTES_OF_A_ROW, threads.most * _UNITS_OF_A_THREAD))
        table = [
            (axis.size, *(step * element_size for step, element_size in zip(axis.strides, widths, strict=False)))
            for axis in reversed(outer)
        ]
        self.shares = WorkShares(count // row.size * split, threads)
        self.values: dict[str, Any] = {
            **self.shares.values,
            "axes": len(outer),
            "table": FixedArray.of_rows(table),
            "split": split,
            "size": row.size,
            "steps": sum(stride << place for place, stride in enumerate(row.strides[1:])),
        }
        self._count, self._row = count, row.size

    def text(self) -> str:
        """The number of elements and of those in a row, for `describe`; sizes that are symbolic have no text."""
        return f"{self._count} elements in rows of {self._row}"


class RowsPlan(PlanWithoutConstants):
    """A function of one or two operands along rows, in which each is contiguous or repeats an element.

    Args:
        function: the function.
        places: the output, and two inputs in the kernel's order; an only one is given twice.
        tensors: their descs.
        axes: the axes of their elements, outermost first.
    """

    temporary_size = 0

    def __init__(self, function: Function, places: Sequence[str], tensors: Sequence[TensorDesc], axes: Sequence[Axis]) -> None:
        self._places = places
        output, operand, _ = (tensor.data_type.numpy for tensor in tensors)
        self._choices = function, operand.name, output.name, host_isa()
        self._rows = _Rows((output.itemsize, operand.itemsize, operand.itemsize), axes)

    def load(self) -> None:
        ROWS(*self._choices)

    def describe(self) -> str:
        return f"compiled by LLVM, {self._choices[1]} on {self._rows.shares}; {self._rows.text()}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        names = zip(("y", "a", "b"), self._places, strict=True)
        values: Mapping[str, Any] = {**self._rows.values, **{name: tensors[place] for name, place in names}}
        return TaskLaunch.of(ROWS(*self._choices), RowParameters.bound(values), self._rows.shares.threads)


class ChoicePlan(PlanWithoutConstants):
    """A choice of elements of any width along rows, whose inputs are contiguous or repeat an element there.

    Args:
        places: the output, both inputs, and the condition.
        tensors: their descs.
        axes: the axes of their elements, outermost first.
    """

    temporary_size = 0

    def __init__(self, places: Sequence[str], tensors: Sequence[TensorDesc], axes: Sequence[Axis]) -> None:
        self._places, self._width = places, tensors[0].data_type.numpy.itemsize
        self._rows = _Rows((self._width,) * 3, axes)
        self._of_condition = FixedArray.of_rows([(axis.size, axis.strides[3], 0, 0) for axis in reversed(axes[:-1] or [_ONE])])

    def load(self) -> None:
        CHOICE(self._width, host_isa())

    def describe(self) -> str:
        return f"compiled by LLVM on {self._rows.shares}; {self._rows.text()}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        names = zip(("y", "a", "b", "condition"), self._places, strict=True)
        addresses = {name: tensors[place] for name, place in names}
        values: Mapping[str, Any] = {**self._rows.values, "of_condition": self._of_condition, **addresses}
        return TaskLaunch.of(CHOICE(self._width, host_isa()), ChoiceParameters.bound(values), self._rows.shares.threads)


def integer_plan(desc: OperatorDesc) -> SmallPlan | ContiguousPlan | RowsPlan | ChoicePlan | None:
    """The plan of a checked desc, or None."""
    function, inputs = FUNCTIONS.get(name_of(type(desc)), (None, ()))
    if function is None:
        return None
    tensors = desc.tensors()
    places = ("output_gradient_tensor" if function is Function.RELU_GRADIENT else "output_tensor", *inputs)
    return _planned(desc, function, places, [tensors[place] for place in places])


def inequality_plan(desc: ElementwiseGroupDesc) -> ContiguousPlan | RowsPlan | None:
    """The plan of a checked group that is an inverted LOGICAL_EQUALS, or None."""
    if [name_of(type(node.desc)) for node in desc.nodes] != [f"{LOGIC}LogicalEqualsDesc", f"{LOGIC}LogicalNotDesc"]:
        return None
    reads, tensors = dict(desc.nodes[0].reads), desc.tensors()
    places = ("output_tensor", *(f"input_tensors[{reads[place]}]" for place in _AB))
    plan = _planned(desc, Function.NOT_EQUAL, places, [tensors[place] for place in places])
    assert not isinstance(plan, (SmallPlan, ChoicePlan))  # these have no such function
    return plan


def _planned(
    desc: OperatorDesc, function: Function, places: tuple[str, ...], descs: Sequence[TensorDesc]
) -> SmallPlan | ContiguousPlan | RowsPlan | ChoicePlan | None:
    """The plan of a function, or None; its places are the output, and the inputs in the kernel's order."""
    if getattr(desc, "scale_bias", None) is not None:
        return None
    axes = merged(descs[0].sizes, [each.element_strides for each in descs])
    if _is_small(function, descs) and len(axes) <= 2:
        outer, inner = (_ONE, _ONE, *axes)[-2:]
        limits = _limits(desc, descs[0]) if function is Function.CLIP else (0, 0)
        return SmallPlan(function, places, tuple(Kind[each.data_type.name] for each in descs), (outer, inner), limits)
    if descs[0].data_type.bits < 8:
        return None
    axes = axes or (Axis(1, (1,) * len(descs)),)
    has_rows = axes[-1].strides[0] == 1 and max(axes[-1].strides) == 1
    if function is Function.SELECT:
        return ChoicePlan(places, descs, axes) if has_rows else None
    if not _is_large(function, descs):
        return None
    if len(axes) == 1 and set(axes[0].strides) == {1}:
        limits = _limits(desc, descs[0]) if function is Function.CLIP else (0, 0)
        return None if function in _AS_FAST else ContiguousPlan(function, places, descs, limits)
    if not has_rows or function is Function.CLIP:
        return None
    if len(places) == 2:  # of one operand, which is then both
        places, descs = (*places, places[-1]), [*descs, descs[-1]]
        axes = merged(descs[0].sizes, [each.element_strides for each in descs])
    return RowsPlan(function, places, descs, axes)


def why_not_planned(desc: OperatorDesc) -> str | None:
    """Why a checked desc has no plan here, for the classes that have no other compiled form; None for others."""
    name = name_of(type(desc))
    if name not in WITHOUT_PROGRAMS or (function := FUNCTIONS[name][0]) is Function.POW:
        return None
    if function is Function.SELECT:
        return "a compiled choice needs rows of elements that are contiguous or repeat"
    types = " of FLOAT32, FLOAT16 or integers" if function in COMPARISONS else ""
    if function in CODES:
        return f"{desc.short_name()} is compiled for contiguous rows{types}, or for {_MOST_OF_SMALL} or fewer elements"
    return f"{desc.short_name()} is compiled for {_FEWEST} or more elements in contiguous rows{types}"


def _is_small(function: Function, descs: Sequence[TensorDesc]) -> bool:
    """Whether a function's output and inputs are few elements, of types that the kernel of small tensors has."""
    if (
        function not in CODES
        or descs[0].element_count > _MOST_OF_SMALL
        or any(each.data_type.name not in Kind.__members__ for each in descs)
    ):
        return False
    has_floats = any(each.data_type is DataType.FLOAT32 for each in descs[1:])
    return not has_floats or function in COMPARISONS or function is Function.SELECT


def _is_large(function: Function, descs: Sequence[TensorDesc]) -> bool:
    """Whether a function's output and inputs are many elements, of types that the kernels of contiguous ones and of rows have."""
    if function in _ONLY_SMALL or descs[0].element_count < _FEWEST:
        return False
    output, *inputs = (each.data_type for each in descs)
    if any(each.bits < 8 or each is DataType.BFLOAT16 for each in (output, *inputs)) or len(set(inputs)) > 1:
        return False
    if inputs[0].numpy.kind == "f":
        return function in COMPARISONS and inputs[0] in (DataType.FLOAT16, DataType.FLOAT32)
    if function in _TO_32_BITS and output.bits > 32:
        return False
    return function in COMPARISONS or output is inputs[0]


def _limits(desc: Any, output: TensorDesc) -> tuple[int, int]:
    """The limits of a clipped tensor of integers, as signed integers of the same bits."""
    from dmlpy.reference.integers import holding

    low, high = (int(holding(limit, output.data_type.numpy)) for limit in limits_of(desc))
    if name_of(type(desc)) == f"{RANGES}Clip1Desc":  # where the lower limit wins
        high = max(low, high)
    return tuple(limit - (1 << 64) if limit >= 1 << 63 else limit for limit in (low, high))  # type: ignore[return-value]  # two
