"""`Writer` and `Value`: writes ONNX nodes one by one, and represents their outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, defs, helper

from dmlpy.description.enums import DataType
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.elements import dtype_of, element_name, element_of, element_of_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


OPSET = 21
"""The version of ONNX's operators that models are written in: that of ONNX 1.16, the first with 4-bit elements."""

NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
FLOATS = (*NARROW, TensorProto.FLOAT, TensorProto.DOUBLE)
_SMALL = (TensorProto.INT32, TensorProto.INT64)
_WIDER: Mapping[int, tuple[int, ...]] = {
    **dict.fromkeys(NARROW, (TensorProto.FLOAT,)),
    TensorProto.INT4: _SMALL,
    TensorProto.UINT4: _SMALL,
    TensorProto.INT8: _SMALL,
    TensorProto.UINT8: _SMALL,
    TensorProto.INT16: _SMALL,
    TensorProto.UINT16: _SMALL,
    TensorProto.INT32: (TensorProto.INT64,),
    TensorProto.UINT32: (TensorProto.INT64, TensorProto.UINT64),
}
"""Wider types for operators that do not support a type. Sums and products wrap around when they are cast back."""


class Refusal(Exception):  # noqa: N818  (not an error: it is reported with all others)
    """ONNX cannot express a node."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, eq=False)
class Value:
    """An output of a node of the model, an input, or a constant. Python's operators write nodes; numbers take the value's type.

    Attributes:
        writer: writes the nodes that read it.
        name: its name in the model.
        element: ONNX's type of its elements.
    """

    writer: Writer
    name: str
    element: int

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS

    def __add__(self, other: Value | float) -> Value:
        return self.writer.add("Add", self, self.like(other))

    def __radd__(self, other: float) -> Value:
        return self.writer.add("Add", self.like(other), self)

    def __sub__(self, other: Value | float) -> Value:
        return self.writer.add("Sub", self, self.like(other))

    def __rsub__(self, other: float) -> Value:
        return self.writer.add("Sub", self.like(other), self)

    def __mul__(self, other: Value | float) -> Value:
        return self.writer.add("Mul", self, self.like(other))

    def __rmul__(self, other: float) -> Value:
        return self.writer.add("Mul", self.like(other), self)

    def __truediv__(self, other: Value | float) -> Value:
        return self.writer.add("Div", self, self.like(other))

    def __rtruediv__(self, other: float) -> Value:
        return self.writer.add("Div", self.like(other), self)

    def __neg__(self) -> Value:
        return self.writer.add("Neg", self)

    def __lt__(self, other: Value | float) -> Value:
        return self.writer.add("Less", self, self.like(other))

    def __gt__(self, other: Value | float) -> Value:
        return self.writer.add("Greater", self, self.like(other))

    def __le__(self, other: Value | float) -> Value:
        return self.writer.add("LessOrEqual", self, self.like(other))

    def __ge__(self, other: Value | float) -> Value:
        return self.writer.add("GreaterOrEqual", self, self.like(other))

    def __and__(self, other: Value) -> Value:
        return self.writer.add("And", self, other)

    def __or__(self, other: Value) -> Value:
        return self.writer.add("Or", self, other)

    def equals(self, other: Value | float) -> Value:
        """A BOOL value: whether elements of two values are equal."""
        return self.writer.add("Equal", self, self.like(other))

    def like(self, other: Value | float) -> Value:
        """A number as a constant of the value's type; other values are returned unchanged."""
        return other if isinstance(other, Value) else self.writer.constant(np.asarray(other, dtype_of(self.element)))

    def cast(self, element: int | DataType) -> Value:
        """The value in another type, ONNX's or DirectML's: floats are truncated to integers, and integers wrap around in smaller ones."""
        wanted = element_of(element) if isinstance(element, DataType) else element
        return self if wanted == self.element else self.writer.add("Cast", self, element=wanted, to=wanted)

    def times(self, factor: float) -> Value:
        """The value times a number; itself if that is 1."""
        return self if factor == 1 else self * factor

    def wide(self) -> Value:
        """FLOAT16 and BFLOAT16 in FLOAT32, so that several nodes round once."""
        return self.cast(TensorProto.FLOAT) if self.element in NARROW else self

    def apply(self, op_type: str, *others: Value, **attributes: Any) -> Value:
        """Applies an operator to this value and others."""
        return self.writer.add(op_type, self, *others, **attributes)

    def where(self, a: Value, b: Value | float) -> Value:
        """`a` where this boolean is true, else `b`."""
        return self.writer.add("Where", self, a, a.like(b))

    def at_least(self, other: Value | float) -> Value:
        """The larger of two values."""
        return self.writer.add("Max", self, self.like(other))

    def at_most(self, other: Value | float) -> Value:
        """The smaller of two values."""
        return self.writer.add("Min", self, self.like(other))

    def reshape(self, sizes: Sequence[int]) -> Value:
        """The same elements in other sizes. A constant is stored in them, and consecutive reshapes become one."""
        if (array := self.writer.constants.get(self.name)) is not None:
            return self.writer.constant(array.reshape(sizes))
        return self.writer.reshape(self, sizes)

    def expand(self, sizes: Sequence[int]) -> Value:
        """The elements repeated along dimensions of size 1."""
        return self.writer.add("Expand", self, self.writer.integers(sizes))

    def transpose(self, order: Sequence[int]) -> Value:
        """The dimensions in another order."""
        same = list(order) == list(range(len(order)))
        return self if same else self.writer.add("Transpose", self, perm=[int(axis) for axis in order])

    def reduce(self, op_type: str, axes: Sequence[int]) -> Value:
        """A reduction that keeps dimensions, with size 1."""
        return self.writer.add(op_type, self, self.writer.integers(sorted(set(axes))), keepdims=1)

    def pad(self, start: Sequence[int], end: Sequence[int], value: float = 0, mode: str = "constant") -> Value:
        """Elements added around."""
        if not any(start) and not any(end):
            return self
        pads = self.writer.integers([*start, *end])
        return self.writer.add("Pad", self, pads, *([self.like(value)] if mode == "constant" else []), mode=mode)

    def take(self, indices: Any, axis: int) -> Value:
        """The elements at constant positions along an axis."""
        return self.writer.add("Gather", self, self.writer.integers(indices), axis=axis)

    def part(self, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int] | None = None) -> Value:
        """A slice along some axes; ends and steps as in ONNX."""
        slices = [self.writer.integers(numbers) for numbers in (starts, ends, axes, steps or [1] * len(axes))]
        return self.writer.add("Slice", self, *slices)


@cache
def _formals(op_type: str) -> tuple[list[str], list[str], Mapping[str, frozenset[str]]]:
    """The types of an operator's inputs and outputs, as type variables or types, and the types of each variable."""
    schema = defs.get_schema(op_type, OPSET, "")
    inputs = [item.type_str for item in schema.inputs]
    if schema.inputs and schema.inputs[-1].option is defs.OpSchema.FormalParameterOption.Variadic:
        inputs += inputs[-1:] * 64
    variables = {item.type_param_str: frozenset(item.allowed_type_strs) for item in schema.type_constraints}
    return inputs, [item.type_str for item in schema.outputs], variables


def _type_string(element: int) -> str:
    return f"tensor({TensorProto.DataType.Name(element).lower()})"


class Writer:
    """The nodes and constants of a model under construction.

    Args:
        taken: names that values of the model may not have.
    """

    def __init__(self, taken: Sequence[str]) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.label = ""
        """Prefix of the names of the nodes that are written next."""
        self._taken = set(taken)
        self._sources: dict[str, Value] = {}
        self._names_of_constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, op_type: str, *inputs: Value | None, element: int | None = None, **attributes: Any) -> Value:
        """Writes a node with one output.

        Args:
            op_type: an operator of ONNX.
            *inputs: its inputs, None for omitted ones. Unsupported types are cast to wider ones, and back.
            element: the type of the output, if the inputs' types do not determine it.
            **attributes: its attributes; those that are None are omitted.
        """
        return self.several(op_type, *inputs, count=1, element=element, **attributes)[0]

    def several(self, op_type: str, *inputs: Value | None, count: int, element: int | None = None, **attributes: Any) -> list[Value]:
        """Writes a node with several outputs; see `add`."""
        formals, results, variables = _formals(op_type)
        chosen: dict[str, tuple[int, int]] = {}
        for source, formal in zip(inputs, formals, strict=False):
            if source is not None and formal in variables and formal not in chosen:
                chosen[formal] = (source.element, self._is_used_by(op_type, source.element, variables[formal]))
        names = []
        for source, formal in zip(inputs, formals, strict=False):
            names.append("" if source is None else source.cast(chosen[formal][1]).name if formal in chosen else source.name)
        outputs = [self.unique(op_type) for _ in range(count)]
        present = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op_type, names, outputs, name=outputs[0], **present))
        values = []
        for at, output in enumerate(outputs):
            formal = results[min(at, len(results) - 1)]
            if element is not None:
                values.append(Value(self, output, element))
            elif formal in chosen:
                wanted, stand_in = chosen[formal]
                values.append(Value(self, output, stand_in).cast(wanted))
            else:
                (variable,) = variables.get(formal, (formal,))
                values.append(Value(self, output, _ELEMENTS[variable]))
        return values

    def reshape(self, value: Value, sizes: Sequence[int]) -> Value:
        """Writes a Reshape; of a reshaped value, reshapes the original."""
        source = self._sources.get(value.name, value)
        reshaped = self.add("Reshape", source, self.integers(sizes))
        self._sources[reshaped.name] = source
        return reshaped

    def prune(self, outputs: Sequence[str]) -> list[NodeProto]:
        """Returns the nodes that outputs need, and removes the constants that none of these reads."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                kept.append(node)
        self.constants = {name: array for name, array in self.constants.items() if name in needed}
        return kept[::-1]

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        """A constant; equal ones are stored once."""
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._names_of_constants:
            self._names_of_constants[key] = self.unique("constant")
            self.constants[self._names_of_constants[key]] = array
        return Value(self, self._names_of_constants[key], element_of_array(array))

    def integers(self, values: Any) -> Value:
        """A constant of INT64."""
        return self.constant(np.asarray(values, np.int64))

    def unique(self, stem: str) -> str:
        """A name that no other value has."""
        whole = f"{self.label}/{stem}" if self.label else stem
        name, count = whole, 1
        while name in self._taken:
            count += 1
            name = f"{whole}_{count}"
        self._taken.add(name)
        return name

    def _is_used_by(self, op_type: str, element: int, allowed: frozenset[str]) -> int:
        for candidate in (element, *_WIDER.get(element, ())):
            if _type_string(candidate) in allowed:
                return candidate
        names = ", ".join(sorted(name.removeprefix("tensor(").removesuffix(")") for name in allowed))
        actual = f"{element_name(element)} for ONNX's {op_type} of opset {OPSET}"
        raise Refusal(Problem("onnx.export", "", actual, f"a type that it takes: {names}"))


_ELEMENTS = {_type_string(element): element for element in TensorProto.DataType.values() if element}
