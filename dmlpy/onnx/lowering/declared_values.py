"""What a model's file declares of the values that its nodes make, against what they make.

ONNX Runtime refuses other types, and warns of other sizes, which exporters and tools that change a model leave behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.coercion import brief
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.elements import element_name
from dmlpy.onnx.loading.values import can_be_equal, listed_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import TypeProto

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.nodes.node import Node

_MOST_TOLD = 3
"""The most wrong declarations that a sentence names."""


def declared_type_problems(node: Node, declared: Mapping[str, Value], labels: Sequence[str]) -> list[Problem]:
    """Outputs whose types are not those that the file declares.

    Args:
        node: the node.
        declared: the values that the file declares, by name.
        labels: the names of the node's outputs there.
    """
    pairs = [(label, value) for label, value in zip(labels, node.outputs, strict=True) if value is not None and label in declared]
    problems = (type_problem(label, declared[label], value, "the nodes make") for label, value in pairs)
    return [problem for problem in problems if problem is not None]


def type_problem(label: str, declared: Value, value: Value, maker: str) -> Problem | None:
    """A value of another type than the file declares for it; None as far as one of the two is not known.

    Args:
        label: its name in the file.
        declared: what the file declares.
        value: what it is.
        maker: what makes it, with a verb.
    """
    inferred, wanted = type_text(value), type_text(declared)
    if inferred is None or wanted is None or inferred == wanted:
        return None
    return Problem("onnx.declared", f"declared type of {brief(label)}", wanted, f"{inferred}, which {maker}")


def type_text(value: Value) -> str | None:
    """The type in words, `sequence of float32`; None if a part of it is unknown."""
    if value.kind == "tensor":  # whose sizes, which may be symbolic, are not read
        return element_name(value.element) if value.element else None
    return None if value.described is None and value.kind != "sequence" else _proto_text(value.proto)


def _proto_text(proto: TypeProto) -> str | None:
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        element = getattr(proto, kind).elem_type
        return ("sparse " if kind != "tensor_type" else "") + element_name(element) if element else None
    if kind in ("sequence_type", "optional_type"):
        inner = _proto_text(getattr(proto, kind).elem_type)
        return None if inner is None else f"{kind.removesuffix('_type')} of {inner}"
    if kind == "map_type":
        inner = _proto_text(proto.map_type.value_type)
        return None if inner is None else f"map from {element_name(proto.map_type.key_type)} to {inner}"
    return None


def declared_size_problems(declared: Mapping[str, Value], values: Mapping[str, Value]) -> Iterator[Problem]:
    """Sizes that the model's file declares, and that the values do not have: the model runs with those that they have.

    Args:
        declared: the values that the file declares, by name.
        values: the values of the lowered model, by name.
    """
    for name, value in declared.items():
        inferred = values.get(name)
        if inferred is None or value.sizes is None or inferred.sizes is None or can_be_equal(value.sizes, inferred.sizes):
            continue
        expected = f"{listed_sizes(inferred.sizes)}, which the nodes make"
        yield Problem("onnx.declared", f"declared size of {brief(name)}", listed_sizes(value.sizes), expected)


def tell_contradicted(contradicted: Sequence[Problem]) -> str:
    """A sentence about wrong sizes, which names the first few."""
    sentences = [f"{problem.sentence()}, expected {problem.expected}" for problem in contradicted[:_MOST_TOLD]]
    if more := len(contradicted) - len(sentences):
        sentences.append(f"{more} more")
    return f"the file is wrong, and the model runs: {'; '.join(sentences)}"
