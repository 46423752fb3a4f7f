"""`Node`: the input of a function that lowers an ONNX operator, and `NotLowered`, the reason why it cannot."""

from __future__ import annotations

from ctypes import c_float
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper

from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType
from dmlpy.description.sized_arrays import SizedArray
from dmlpy.description.tensors import MAX_ELEMENTS
from dmlpy.messages.naming import Count, listed, with_article
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.elements import data_type_of, element_name, element_of
from dmlpy.onnx.loading.schemas import inputs_of, schema_of
from dmlpy.onnx.loading.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from onnx import NodeProto, defs

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.onnx.loading.limits import Budget
    from dmlpy.onnx.loading.values import Array
    from dmlpy.x.expressions import Expression

_FOR_EACH = 4
"""The bytes of a number of an array that a lowering makes."""


class NotLowered(Exception):  # noqa: N818  (control flow: no error reaches the user by it)
    """A node that no DirectML operator expresses, with the reasons."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(*problems)
        self.problems = tuple(problems)


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a model whose inputs' types and sizes are known.

    Attributes:
        name: unique in the model, after control flow was unrolled and functions were inlined.
        proto: the node as the model has it.
        domain: the domain of its operator: empty for ONNX's own.
        opset: the version of that domain that the model imports.
        inputs: its inputs in order; None for optional ones that are left out.
        outputs: its output values, as far as ONNX infers them; None for unused ones.
        level: the highest feature level that may be used.
        read: makes the expression of a value in the graph that is being built.
        budget: the remainder of the model's limits.
        problems: why the node is invalid in ONNX.
        wide: whether FLOAT32 stands for FLOAT64, in which the node is computed.
    """

    name: str
    proto: NodeProto
    domain: str
    opset: int
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    level: FeatureLevel
    read: Callable[[Value], Expression]
    budget: Budget
    problems: tuple[Problem, ...] = ()
    wide: bool = False

    @cached_property
    def op_type(self) -> str:
        """The operator's name."""
        return str(self.proto.op_type)

    def with_reader(self, read: Callable[[Value], Expression], *, wide: bool = False) -> Node:
        """The node with its inputs in a graph that is being built, which may be computed in FLOAT64."""
        return self.changed(read=read, wide=wide)

    def changed(self, **members: Any) -> Node:
        """The node with other members, of the same operator and attributes, which are not read again."""
        node, current = object.__new__(type(self)), self.__dict__
        # As `replace` does, in a fifth of its time.
        node.__dict__.update({name: current[name] for name in _KEPT if name in current} | members)
        return node

    def without_empty(self, indices: Sequence[int]) -> Node:
        """The node without those of some inputs that have no elements."""
        kept = [None if i in indices and value and value.is_empty else value for i, value in enumerate(self.inputs)]
        return self.changed(inputs=tuple(kept)) if indices else self

    @cached_property
    def schema(self) -> defs.OpSchema | None:
        """ONNX's description of the operator; None for one of another domain."""
        return schema_of(self.op_type, self.opset, self.domain)

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes that the node states, in Python's types: strings decoded, tensors as arrays or protobufs of ONNX."""
        return {item.name: _decode(helper.get_attribute_value(item)) for item in self.proto.attribute}

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute: the node's, else the schema's default, else `default`; a float is a 32-bit one, as in a file."""
        if name in self.attributes:
            return self.attributes[name]
        declared = None if self.schema is None else _default_attribute(self.op_type, self.opset, self.domain, name)
        if declared is None:
            return c_float(default).value if isinstance(default, float) else default
        return [*declared] if isinstance(declared, list) else declared

    def required(self, name: str) -> Any:
        """An attribute that has no default.

        Raises:
            NotLowered: it is left out.
        """
        given = self.attribute(name)
        if given is None:
            raise self.refusal("onnx.missing", name, "left out", "an attribute that the operator requires")
        return given

    def count(self, name: str, default: int | None = None) -> int:
        """An attribute that counts something, from 1 on.

        Raises:
            NotLowered: it is not such a number, or left out without a default.
        """
        given = self.required(name) if default is None else self.attribute(name, default)
        if not isinstance(given, int) or given < 1:
            raise self.refusal("onnx.invalid", name, brief(given), "a number of 1 or more")
        return given

    def has(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants(self, index: int) -> bool:
        """Whether an output is used."""
        return index < len(self.outputs) and self.outputs[index] is not None

    def value(self, index: int) -> Value:
        """An input that must be given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise self.refusal("onnx.missing", self.input_label(index), "left out", "an input that the operator requires")
        return value

    def sizes(self, index: int) -> tuple[int, ...]:
        """ONNX's sizes of an input: `()` for a scalar.

        Raises:
            NotLowered: they are not known.
        """
        value = self.value(index)
        if not value.is_static:
            raise NotLowered([unknown_sizes_problem(self.input_label(index), value)])
        return value.static_sizes

    def rank(self, index: int) -> int:
        """ONNX's number of dimensions of an input."""
        return len(self.sizes(index))

    def data_type(self, index: int) -> DataType:
        """DirectML's type of an input's elements.

        Raises:
            NotLowered: it is not known, or DirectML lacks it.
        """
        value = self.value(index)
        data_type = data_type_of(value.element or 0)
        if data_type is None:
            label = self.input_label(index)
            missing = Problem("onnx.type", label, element_name(value.element), "a type that DirectML's tensors have")
            raise NotLowered([*inexpressible_problems(label, value)] or [missing])
        return data_type

    def output_type(self, index: int) -> DataType:
        """DirectML's type of an output's elements.

        Raises:
            NotLowered: it is not known, or DirectML lacks it.
        """
        value = self.outputs[index]
        data_type = data_type_of(value.element or 0) if value else None
        if data_type is None:
            raise self.refusal("onnx.type", f"output {index}", element_name(value.element if value else None), "a type that tensors have")
        return data_type

    def x(self, index: int) -> Expression:
        """An input as an expression with ONNX's sizes, `[1]` for a scalar.

        Raises:
            NotLowered: no tensor of DirectML can hold it.
        """
        value = self.value(index)
        if problems := [*inexpressible_problems(self.input_label(index), value)]:
            raise NotLowered(problems)
        return self.read(value)

    def constant(self, label: str, array: Array, data_type: DataType = DataType.FLOAT32) -> Expression:
        """An array that follows from attributes: an input that DirectML owns, so that no feature level is needed for constants.

        Args:
            label: distinguishes it from other arrays of the node.
            array: the elements.
            data_type: the type of FLOAT64 elements. FLOAT32 ones keep their digits where the node is computed in FLOAT64.
        """
        value = Value.known(f"{self.name}/{label}", array)
        if value.element == TensorProto.DOUBLE:
            keeps = self.wide and data_type is DataType.FLOAT32
            converted = array if keeps else array.astype(data_type.numpy)
            value = replace(value, element=element_of(data_type), array=converted)
        return self.read(value)

    def reserve_elements(self, *sizes: int) -> None:
        """Reserves memory for an array that depends on sizes and attributes, before it is created.

        Raises:
            NotLowered: no room is left.
        """
        count = prod(sizes)
        if not self.budget.reserve(count, _FOR_EACH * count):
            found, expected = Count(f"{count} numbers that follow from its sizes"), "fewer in all nodes of the model"
            raise self.refusal("onnx.limit", "", found, expected, f"{self.budget.bytes} bytes are the limit 'bytes' of dmlpy.onnx.Limits")

    def reserve_steps(self, steps: int) -> None:
        """Reserves room for steps, each of which becomes several operators, before they are created.

        Raises:
            NotLowered: no room is left.
        """
        if steps > self.budget.nodes_left:
            why = f"{self.budget.nodes} nodes are the limit 'nodes' of dmlpy.onnx.Limits"
            raise self.refusal("onnx.limit", "", f"{steps} steps", f"at most {self.budget.nodes_left}", why)
        self.budget.count_nodes(self.name, steps)

    def array(self, index: int) -> Array:
        """The elements of an input that must be known before the model runs.

        Raises:
            NotLowered: it is not known.
        """
        value = self.value(index)
        if value.array is None:
            raise NotLowered([self.unknown_problem(index)])
        return value.array.fixed() if isinstance(value.array, SizedArray) else value.array

    def known_indices(self, index: int, size: int, column: int | None = None) -> Array | None:
        """The elements of an input that are indices along an axis; None if they are not known. Those for other sizes have to be so, too.

        Args:
            index: the input.
            size: the size of the axis.
            column: the elements along the input's last dimension that are meant; None for all.
        """
        array: Array | SizedArray | None = self.value(index).array
        if isinstance(array, SizedArray):
            array.limit_indices(size, column)
            array = array.example
        return array if array is None or column is None else array[..., column]

    def unknown_problem(self, index: int) -> Problem:
        """The problem of an input that is not known before the model runs, and has to be."""
        value = self.value(index)
        return Problem(
            "onnx.constant_input",
            self.input_label(index),
            f"{value.name!r}, which is computed while the model runs" if value.stage is not None else f"{value.name!r}, an input",
            "an initializer, or what follows from initializers and sizes",
            remedy="pass it to dmlpy.onnx.load as one of `constants`" if value.stage is None else "pass all sizes of the inputs",
        )

    def integers(self, index: int, attribute: str | None = None, default: Any = None) -> tuple[int, ...] | None:
        """Integers that are an input in newer versions and an attribute in older ones; `default` if neither is given."""
        if self.has(index):
            array = self.value(index).array
            if isinstance(array, SizedArray) and array.numbers is not None:
                return array.numbers
            return tuple(int(number) for number in np.ravel(self.array(index)))
        given = self.attribute(attribute) if attribute else None
        return default if given is None else tuple(int(number) for number in ([given] if isinstance(given, int) else given))

    def axis(self, given: int, rank: int) -> int:
        """An axis counted from the front.

        Raises:
            NotLowered: it is out of range.
        """
        if not -rank <= given < rank:
            raise self.refusal("onnx.invalid", "axis", str(given), f"{-rank} to {rank - 1}" if rank else "none: the input is a scalar")
        return given % rank if rank else 0

    def input_label(self, index: int) -> str:
        """An input as messages name it: `input 1 'shape'`."""
        formal = ""
        if self.schema and (formals := inputs_of(self.schema)):
            formal = formals[min(index, len(formals) - 1)].name
        return f"input {index}" + (f" {formal!r}" if formal else "")

    def refusal(self, code: str, path: str, found: str, expected: str, *why: str, remedy: str | None = None) -> NotLowered:
        """The exception that says why the node is not lowered."""
        return NotLowered([Problem(code, path, found, expected, why, remedy)])

    def unsupported(self, attribute: str, *allowed: Any) -> NotLowered:
        """The exception for an attribute whose value ONNX allows, and no DirectML operator expresses."""
        return self._attribute("onnx.attribute", attribute, allowed)

    def invalid(self, attribute: str, *allowed: Any) -> NotLowered:
        """The exception for an attribute whose value ONNX does not allow."""
        return self._attribute("onnx.invalid", attribute, allowed)

    def _attribute(self, code: str, attribute: str, allowed: Sequence[Any]) -> NotLowered:
        expected = f"one of {listed(allowed)}" if len(allowed) > 1 else str(allowed[0]) if allowed else "absent"
        return self.refusal(code, attribute, repr(self.attribute(attribute)), expected)


_KEPT = (*(member.name for member in fields(Node)), "op_type", "schema", "attributes")
"""What a node has in common with those made of it, if it was read: the members, and what follows from the operator and its attributes."""


@lru_cache(4096)
def _default_attribute(op_type: str, opset: int, domain: str, name: str) -> Any:
    """The default that an operator's schema declares for an attribute; None if there is none."""
    schema = schema_of(op_type, opset, domain)
    declared = schema.attributes.get(name) if schema else None
    return _decode(helper.get_attribute_value(declared.default_value)) if declared is not None and declared.default_value.type else None


def inexpressible_problems(label: str, value: Value) -> Iterator[Problem]:
    """Why DirectML's tensors cannot hold a value.

    Args:
        label: what messages call it.
        value: an input or an output of a node; unknown parts of an output are not reported.
    """
    if value.kind != "tensor":
        yield Problem("onnx.type", label, with_article(value.kind), "a tensor")
    elif value.element is not None and data_type_of(value.element) is None:
        yield Problem("onnx.type", label, element_name(value.element), "a type that DirectML's tensors have")
    elif label.startswith("input") and not value.is_static:
        yield unknown_sizes_problem(label, value)
    elif value.is_static and prod(value.static_sizes) > MAX_ELEMENTS:
        yield Problem("onnx.sizes", label, value.summary(), f"at most {MAX_ELEMENTS} elements, as DirectML's tensors have")
    elif value.is_static and 0 in (value.sizes or ()):
        yield Problem("onnx.empty", label, value.summary(), "at least one element along each dimension: no DirectML tensor is empty")


def unknown_sizes_problem(label: str, value: Value) -> Problem:
    """The problem that sizes of an input are not known."""
    symbols = [size for size in value.sizes or () if isinstance(size, str)]
    remedy = "pass sizes for " + ", ".join(repr(symbol) for symbol in dict.fromkeys(symbols)) if symbols else None
    return Problem("onnx.dynamic", label, f"{value.name!r}, {value.summary()}", "sizes that are known before the model runs", (), remedy)


def _decode(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return [_decode(item) for item in value]
    return value
