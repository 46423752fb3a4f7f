"""The inputs and attributes that nodes of com.microsoft must have: ONNX has no schemas of these operators."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dmlpy.onnx.nodes.node import Node

PASTS = {"DecoderMaskedMultiHeadAttention": 5, "GroupQueryAttention": 3, "MultiHeadAttention": 6}
"""The input of an operator that has the keys of past steps; the next one has the values."""
TABLE = Path(__file__).with_suffix(".json")


class Requirement(NamedTuple):
    """What the nodes of an operator must have.

    Attributes:
        inputs: the names of the first inputs; those without a name may be left out.
        attributes: the names of the attributes.
    """

    inputs: tuple[str, ...]
    attributes: tuple[str, ...]


@cache
def _requirements() -> Mapping[str, Requirement]:
    """The operators that have a definition or run on the host; rules that lower operators check their nodes themselves."""
    stored = json.loads(TABLE.read_text("utf-8"))
    return {name: Requirement(tuple(item["inputs"]), tuple(item["attributes"])) for name, item in stored.items()}


def missing_parts(node: Node) -> Iterator[Problem]:
    """The inputs and attributes that a node of com.microsoft lacks."""
    required = _requirements().get(node.op_type, Requirement((), ()))
    for index, name in enumerate(required.inputs):
        if name and not node.has(index):
            yield Problem("onnx.missing", f"input {index} {name!r}", "left out", "an input that the operator requires")
    for name in required.attributes:
        if name not in node.attributes:
            yield Problem("onnx.missing", name, "left out", "an attribute that the operator requires")


def past_problems(node: Node, index: int) -> Iterator[Problem]:
    """Keys of past steps without values, or of others: without elements they are as good as left out, but then both are.

    Args:
        node: the node.
        index: the input that has the keys; the next one has the values.
    """
    keys, values = node.has(index), node.has(index + 1)
    if keys != values:
        absent, given = (index + 1, index) if keys else (index, index + 1)
        yield Problem("onnx.invalid", f"input {absent}", "left out", f"given, as input {given} is: keys and values of the same past steps")
        return
    first, second = (node.value(at).sizes if keys else None for at in (index, index + 1))
    # Other sizes may not be known yet, but what has no elements is left out already.
    if first is None or second is None or len(first) != 4 or len(second) != 4 or None in (first[2], second[2]) or first[2] == second[2]:
        return
    expected = f"{first[2]} past steps, as input {index}, {listed(first)}, has"
    yield Problem("onnx.invalid", f"input {index + 1}", listed(second), expected)
