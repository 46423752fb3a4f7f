"""What a graph should give: its nodes by `dml.reference` in float64, one after the other, with every view of memory as it is described."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import Any

import numpy as np

import dmlpy as dml

Array = np.ndarray[Any, Any]
End = tuple[int | None, int]


def graph_reference(graph: dml.Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """The outputs of a graph in float64, integers in their own type.

    Args:
        graph: a valid graph with names.
        inputs: the flat memory of each input, in elements of its type.
    """
    memory: dict[End, Array] = {}
    sources: dict[End, End] = {}
    for edge in graph.input_edges:
        sources[edge.to_node_index, edge.to_node_input_index] = (None, edge.graph_input_index)
        memory[None, edge.graph_input_index] = inputs[graph.input_names[edge.graph_input_index]]
    for link in graph.intermediate_edges:
        sources[link.to_node_index, link.to_node_input_index] = (link.from_node_index, link.from_node_output_index)
    needs: dict[int, set[int]] = {index: set() for index in range(len(graph.nodes))}
    for (reader, _), (writer, _) in sources.items():
        if reader is not None and writer is not None:
            needs[reader].add(writer)
    for index in TopologicalSorter(needs).static_order():
        node = graph.nodes[index]
        if isinstance(node, dml.ConstantNode):
            memory[index, 0] = np.frombuffer(node.data, np.uint8)
            continue
        values: dict[str, Any] = {}
        for place, slot in enumerate(node.input_slots()):
            if slot.tensor is None:
                continue
            read = _seen(memory[sources[index, place]], slot.tensor)
            if slot.index is None:
                values[slot.field.name] = read
            else:
                values.setdefault(slot.field.name, []).append(read)
        found = dml.reference(node.operator, values).as_dict()
        for place, slot in enumerate(node.output_slots()):
            if slot.tensor is not None:
                result = found[slot.field.name] if slot.index is None else found[slot.field.name][slot.index]
                memory[index, place] = _written(result, slot.tensor)
    outputs = {}
    for way_out in graph.output_edges:
        at = way_out.from_node_index, way_out.from_node_output_index
        slot = graph.nodes[at[0]].output_slots()[at[1]]
        declared = graph.output_tensors[way_out.graph_output_index] if graph.output_tensors else slot.tensor
        assert declared is not None
        outputs[graph.output_names[way_out.graph_output_index]] = _seen(memory[at], declared)
    return outputs


def _seen(flat: Array, tensor: dml.TensorDesc) -> Array:
    """The elements of a tensor in flat memory; bytes, those of a constant, are read as its type."""
    own = tensor.data_type.numpy
    if flat.dtype == np.uint8 and own != np.uint8:
        flat = flat[: flat.size // own.itemsize * own.itemsize].view(own)
    return np.lib.stride_tricks.as_strided(flat, tensor.sizes, [stride * flat.itemsize for stride in tensor.element_strides])


def _written(result: Array, tensor: dml.TensorDesc) -> Array:
    """The flat memory of a tensor that holds the result."""
    flat = np.zeros(tensor.size_in_bytes // tensor.data_type.numpy.itemsize, result.dtype)
    _seen(flat, tensor)[...] = result
    return flat
