"""The inputs and attributes that nodes of com.microsoft must have: ONNX has no schemas of these operators."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dmlpy.onnx.nodes.node import Node

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
