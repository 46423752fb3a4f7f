"""Removes from a graph what none of its outputs needs."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeVar

from dmlpy.graphs.desc import GraphDesc
from dmlpy.graphs.nodes import Node, OperatorNode

GraphT = TypeVar("GraphT", bound=GraphDesc)


def prune_nodes(graph: GraphT) -> GraphT:
    """Returns the graph without the nodes that no output needs, and without the optional outputs of nodes that nothing reads.

    The graph's inputs stay, so that callers bind the same ones; an output that the operator's struct requires stays too.
    """
    feeding: dict[int, list[int]] = defaultdict(list)
    for link in graph.intermediate_edges:
        feeding[link.to_node_index].append(link.from_node_index)
    needed: set[int] = set()
    waiting = [edge.from_node_index for edge in graph.output_edges]
    while waiting:
        if (node := waiting.pop()) not in needed:
            needed.add(node)
            waiting += feeding[node]
    place = {node: index for index, node in enumerate(sorted(needed))}
    links = [link for link in graph.intermediate_edges if link.to_node_index in needed]
    read = {(link.from_node_index, link.from_node_output_index) for link in links}
    read |= {(edge.from_node_index, edge.from_node_output_index) for edge in graph.output_edges}
    pruned = graph.replace(
        nodes=[_without_unread(graph.nodes[index], index, read) for index in place],
        input_edges=[edge.replace(to_node_index=place[edge.to_node_index]) for edge in graph.input_edges if edge.to_node_index in needed],
        output_edges=[edge.replace(from_node_index=place[edge.from_node_index]) for edge in graph.output_edges],
        intermediate_edges=[
            link.replace(from_node_index=place[link.from_node_index], to_node_index=place[link.to_node_index]) for link in links
        ],
    )
    return pruned.with_origins(graph.origins[index] for index in place) if graph.origins else pruned


def _without_unread(node: Node, index: int, read: set[tuple[int, int]]) -> Node:
    """The node without the optional outputs that nothing reads."""
    if not isinstance(node, OperatorNode):
        return node
    slots = enumerate(node.output_slots())
    unread = [slot.place for at, slot in slots if slot.tensor and slot.field.optional and slot.index is None and (index, at) not in read]
    return node.replace(operator=node.operator.replace(**dict.fromkeys(unread))) if unread else node
