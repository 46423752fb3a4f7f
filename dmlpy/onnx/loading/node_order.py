"""`with_sorted_nodes`: a model whose nodes stand behind those whose values they read, as ONNX asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import ModelProto

from dmlpy.onnx.loading.model_checks import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import GraphProto, NodeProto


def with_sorted_nodes(model: ModelProto, *, in_place: bool) -> ModelProto | None:
    """The model with its nodes sorted, also those of bodies; None if they are sorted already, or cannot be.

    ONNX Runtime sorts nodes, and models that its converter to FLOAT16 makes need that: it appends the casts of inputs behind the nodes that
    read them. Nodes that may stay where they are do so.

    Args:
        model: the model.
        in_place: whether it may be changed; otherwise the result is a copy.
    """
    if not in_place:
        copy = ModelProto()
        copy.CopyFrom(model)
        model = copy
    try:
        return model if _sort(model.graph, 0) else None
    except (RecursionError, TypeError):  # bodies that are too deep, names that are no text: other problems are reported
        return None


def _sort(graph: GraphProto, depth: int) -> bool:
    """Sorts the nodes of a graph and of its bodies; whether the order was another one."""
    if depth > MAX_DEPTH:
        raise RecursionError
    changed = False
    for node in graph.node:
        for body in _bodies(node):
            changed |= _sort(body, depth + 1)
    order = _order(graph)
    if order == sorted(order):
        return changed
    nodes = [graph.node[index] for index in order]
    del graph.node[:]
    graph.node.extend(nodes)
    return True


def _order(graph: GraphProto) -> list[int]:
    """The places of nodes, each behind those whose values it reads, as far as there are no circles."""
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    order: list[int] = []
    entered: set[int] = set()
    for first in range(len(graph.node)):
        if first in entered:
            continue
        entered.add(first)
        stack = [(first, _reads(graph.node[first], 0))]
        while stack:
            index, reads = stack[-1]
            behind = next((makers[name] for name in reads if makers.get(name, index) not in entered), None)
            if behind is None:
                order.append(index)
                stack.pop()
            else:
                entered.add(behind)
                stack.append((behind, _reads(graph.node[behind], 0)))
    return order


def _reads(node: NodeProto, depth: int) -> Iterator[str]:
    """The names that a node and its bodies read: those that a body makes itself are no one else's."""
    yield from node.input
    if depth <= MAX_DEPTH:
        for body in _bodies(node):
            defined = {item.name for item in (*body.input, *body.initializer)} | {item.values.name for item in body.sparse_initializer}
            defined.update(name for inner in body.node for name in inner.output)
            for inner in body.node:
                yield from (name for name in _reads(inner, depth + 1) if name not in defined)
            yield from (item.name for item in body.output if item.name not in defined)


def _bodies(node: NodeProto) -> Iterator[GraphProto]:
    for item in node.attribute:
        if item.HasField("g"):
            yield item.g
        yield from item.graphs
