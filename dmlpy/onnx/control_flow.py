"""If, Loop and Scan, where it is known before the model runs what they do: branches are chosen and iterations are unrolled."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onnx import GraphProto, NodeProto

    from dmlpy.onnx.nodes import Node
    from dmlpy.onnx.scopes import Scope, Values, Walk

MAX_ITERATIONS = 4096
"""The most iterations that are unrolled; a longer loop runs on the host."""


def unrolled(walk: Walk, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values | None:
    """The outputs of a node of control flow whose course is known; None for every other node."""
    if node.domain != "" or node.op_type not in ("If", "Loop", "Scan"):
        return None
    if node.op_type == "If":
        return _chosen(walk, node, scope)
    return None


def captured(proto: NodeProto) -> list[str]:
    """The names of the values that the bodies of a node read from around it."""
    found: dict[str, None] = {}
    for body in _bodies(proto):
        found.update(dict.fromkeys(_free(body)))
    return list(found)


def _chosen(walk: Walk, node: Node, scope: Scope) -> Values | None:
    condition = node.inputs[0]
    if condition is None or condition.array is None:
        return None
    body: GraphProto = node.attribute("then_branch" if bool(np.ravel(condition.array)[0]) else "else_branch")
    inner: Scope = ChainMap({}, scope)
    walk.walk(body, inner, f"{node.name}/")
    return [inner[item.name] if name else None for item, name in zip(body.output, node.proto.output, strict=True)]


def _bodies(proto: NodeProto) -> Iterator[GraphProto]:
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _free(graph: GraphProto) -> Iterator[str]:
    """The names that a body reads and does not make."""
    made = {item.name for item in graph.input} | {tensor.name for tensor in graph.initializer}
    for proto in graph.node:
        yield from (name for name in proto.input if name and name not in made)
        for body in _bodies(proto):
            yield from (name for name in _free(body) if name not in made)
        made.update(proto.output)
    yield from (item.name for item in graph.output if item.name not in made)
