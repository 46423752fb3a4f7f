"""ONNX's rules for the types of a node's inputs, and for the attributes that name a type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.elements import ELEMENTS, element_name, type_string
from dmlpy.onnx.loading.schemas import inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.loading.schemas import FormalInput
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.nodes.node import Node

_SPELLED = {"float32": "float", "float64": "double"}
"""Element types as schemas spell them, where dmlpy has NumPy's names."""


def type_problems(node: Node) -> Iterator[Problem]:
    """Inputs of types that the operator does not support, and inputs of different types that must be equal."""
    schema = node.schema
    assert schema is not None
    variables: dict[str, tuple[int, str]] = {}
    formals = inputs_of(schema)
    for index, value in enumerate(node.inputs):
        formal = formals[min(index, len(formals) - 1)] if formals else None
        if value is None or formal is None:
            continue
        if (problem := _wrong_kind(node, index, value, formal)) is not None:
            yield problem
            continue
        if value.kind != "tensor" or value.element is None:
            continue
        name = element_name(value.element)
        spelled = type_string(value.element)
        if not any(allowed.startswith("tensor(") for allowed in formal.types):
            continue
        if spelled not in formal.types:
            allowed = sorted(_spell_back(item) for item in formal.types if item.startswith("tensor("))
            yield Problem("onnx.invalid", node.input_label(index), value.summary(), f"a tensor of {listed(allowed)}")
        elif formal.is_homogeneous:
            first, other = variables.setdefault(formal.type_str, (value.element, node.input_label(index)))
            if first != value.element:
                yield Problem("onnx.invalid", node.input_label(index), name, f"{element_name(first)}, as {other} is")


def _wrong_kind(node: Node, index: int, value: Value, formal: FormalInput) -> Problem | None:
    """A tensor where the operator expects a sequence, or the reverse; a known optional counts as its content."""
    prefix = {"sequence": "seq(", "tensor": "tensor("}.get(value.kind)
    is_known = value.kind != "tensor" or value.element is not None
    if prefix is None or not is_known or any(allowed.startswith((prefix, "optional(")) for allowed in formal.types):
        return None
    expected = "a sequence" if value.kind == "tensor" else "a tensor"
    return Problem("onnx.invalid", node.input_label(index), value.summary(), expected)


def _spell_back(text: str) -> str:
    """dmlpy's name of a type of a schema: `float32` for `tensor(float)`."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return next((spelling for spelling, theirs in _SPELLED.items() if theirs == name), name)


def type_number_problems(node: Node) -> Iterator[Problem]:
    """Attributes that name no type of ONNX's."""
    for name in ("to", "dtype", "output_dtype"):
        given = node.attributes.get(name, TensorProto.FLOAT)
        if given not in ELEMENTS or (name == "to" and not given):
            yield Problem("onnx.invalid", name, brief(given), "the number of one of ONNX's types, such as 1 for FLOAT")
