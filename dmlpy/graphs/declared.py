"""Checks of what a graph declares of its inputs and outputs: the layouts in which their memory is bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmlpy.description.enums import TensorFlags
from dmlpy.description.tensors import TensorDesc, covers
from dmlpy.graphs.nodes import ConstantNode
from dmlpy.messages.naming import c_path, plural
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from dmlpy.description.markers import Slot
    from dmlpy.graphs.desc import GraphDesc


def declared_problems(graph: GraphDesc) -> Iterator[Problem]:
    """Yields declared tensors that are wrong by themselves, or that do not suit the nodes that read or write their memory."""
    for member, count, what in (("input_tensors", graph.input_count, "input"), ("output_tensors", graph.output_count, "output")):
        tensors: tuple[TensorDesc, ...] = getattr(graph, member)
        if not tensors:
            continue
        if len(tensors) != count:
            expected = f"{count}, one for each graph {what}, or none"
            yield Problem("graph.tensor_count", member, plural(len(tensors), "tensor"), expected)
            continue
        wrong = {index: tensor.problems(output=what == "output") for index, tensor in enumerate(tensors)}
        for index, problems in wrong.items():
            yield from (problem.under(f"{member}[{index}]") for problem in problems)
        sound = {index for index, problems in wrong.items() if not problems}
        yield from _input_problems(graph, sound) if what == "input" else _output_problems(graph, sound)


def _input_problems(graph: GraphDesc, sound: set[int]) -> Iterator[Problem]:
    for edge in graph.input_edges:
        reader = _slot(graph, edge.to_node_index, edge.to_node_input_index, output=False)
        if edge.graph_input_index not in sound or reader is None or (tensor := _sound(reader)) is None:
            continue
        declared = graph.input_tensors[edge.graph_input_index]
        path = f"input_tensors[{edge.graph_input_index}]"
        too_small = tensor.extent_in_bytes > declared.size_in_bytes
        if not too_small and (declared.flags is TensorFlags.OWNED_BY_DML) == (tensor.flags is TensorFlags.OWNED_BY_DML):
            continue
        read = f"{graph.label(edge.to_node_index)}: {c_path(reader.place)} is {tensor.summary()}"
        if too_small:
            found = f"{graph.input_label(edge.graph_input_index)} of {declared.size_in_bytes} bytes"
            expected = f"at least the {tensor.extent_in_bytes} bytes that a node reads"
            yield Problem("graph.input_tensor", path, found, expected, (read,))
        if (declared.flags is TensorFlags.OWNED_BY_DML) != (tensor.flags is TensorFlags.OWNED_BY_DML):
            expected = f"{tensor.flags}, as a node that reads it says"
            yield Problem("graph.input_flags", f"{path}.flags", str(declared.flags), expected, (read,))


def _output_problems(graph: GraphDesc, sound: set[int]) -> Iterator[Problem]:
    for edge in graph.output_edges:
        writer = _slot(graph, edge.from_node_index, edge.from_node_output_index, output=True)
        if edge.graph_output_index not in sound or writer is None or (tensor := _sound(writer)) is None:
            continue
        declared = graph.output_tensors[edge.graph_output_index]
        if tensor.extent_in_bytes != declared.extent_in_bytes or not covers(tensor, declared):
            why = f"{graph.label(edge.from_node_index)}: {c_path(writer.place)} is {tensor.summary()}"
            remedy = "ELEMENT_WISE_IDENTITY writes the elements in another order"
            path, expected = f"output_tensors[{edge.graph_output_index}]", "the bytes that the node writes"
            yield Problem("graph.output_tensor", path, declared.summary(), expected, (why,), remedy)


def _slot(graph: GraphDesc, node: int, index: int, *, output: bool) -> Slot | None:
    """The slot at an end of an edge; None if it does not exist or is a constant's, which has no layout of its own."""
    if not 0 <= node < len(graph.nodes) or isinstance(graph.nodes[node], ConstantNode):
        return None
    slots = graph.nodes[node].output_slots() if output else graph.nodes[node].input_slots()
    return slots[index] if 0 <= index < len(slots) else None


def _sound(slot: Slot) -> TensorDesc | None:
    """The slot's tensor, if it has one that can be measured: what is wrong with it is reported as its node's."""
    tensor = slot.tensor
    return tensor if tensor is not None and not tensor.problems(output=slot.field.marker.output) else None
