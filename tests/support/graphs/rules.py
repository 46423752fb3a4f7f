"""Changes that make a valid graph break a rule, each with the problem that it has then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dmlpy as dml
from dmlpy.graphs import ConstantNode, Graph, OperatorNode
from tests.support.graphs.cases import CHANNELS, IMAGE, NORM, OWNED, RELU, SCALE

Change = Callable[[Graph], Graph]


def edges(member: str, index: int, **changes: Any) -> Change:
    """An edge with other indices."""

    def change(graph: Graph) -> Graph:
        found = list(getattr(graph, member))
        found[index] = found[index].replace(**changes)
        return graph.replace(**{member: found})

    return change


def without(member: str, index: int) -> Change:
    return lambda graph: graph.replace(**{member: [edge for place, edge in enumerate(getattr(graph, member)) if place != index]})


def added(member: str, **edge: int) -> Change:
    return lambda graph: graph.replace(**{member: [*getattr(graph, member), edge]})


def operator(index: int, **members: Any) -> Change:
    """A node whose desc has other members."""

    def change(graph: Graph) -> Graph:
        nodes = list(graph.nodes)
        node = nodes[index]
        assert isinstance(node, OperatorNode)
        nodes[index] = node.replace(operator=node.operator.replace(**members))
        return graph.replace(nodes=nodes)

    return change


def all_of(*changes: Change) -> Change:
    def change(graph: Graph) -> Graph:
        for item in changes:
            graph = item(graph)
        return graph

    return change


def fields(**members: Any) -> Change:
    return lambda graph: graph.replace(**members)


# The network's edges, in order: inputs x, mean, variance; output y; norm's scale and bias, relu's input, sum's a and b.
TO_SCALE, TO_BIAS, TO_RELU, TO_A, TO_B = range(5)


NORM_LABEL = "node 2 'norm' (BATCH_NORMALIZATION)"


HALF = IMAGE.replace(data_type="FLOAT16", total_tensor_size_in_bytes=IMAGE.size_in_bytes)


LARGER = IMAGE.replace(sizes=[1, 3, 4, 8])


HALVED = dml.SplitDesc(input_tensor=IMAGE, output_tensors=[IMAGE.replace(sizes=[1, 3, 4, 2])] * 2, axis=3)


# The change, the code and the place of the problem that reports it, and texts in it.
RULES: dict[str, tuple[Change, str, str, list[str]]] = {
    "fewer declared inputs than inputs": (
        fields(input_tensors=[IMAGE]),
        "graph.tensor_count",
        "input_tensors",
        ["has 1 tensor, expected 3, one for each graph input, or none"],
    ),
    "a declared input of fewer bytes than a node reads": (
        fields(input_tensors=[CHANNELS, OWNED, OWNED]),
        "graph.input_tensor",
        "input_tensors[0]",
        ["graph input 0 'x' of 12 bytes, expected at least the 192 bytes", f"{NORM_LABEL}: InputTensor is FLOAT32"],
    ),
    "a declared input that is not owned": (
        fields(input_tensors=[IMAGE, CHANNELS, OWNED]),
        "graph.input_flags",
        "input_tensors[1].flags",
        ["is NONE, expected OWNED_BY_DML", f"{NORM_LABEL}: MeanTensor"],
    ),
    "a declared output that the node does not write": (
        fields(output_tensors=[IMAGE.replace(strides=[0, 1, 12, 3], sizes=[1, 3, 4, 3])]),
        "graph.output_tensor",
        "output_tensors[0]",
        ["expected the bytes that the node writes", "node 4 'sum' (ELEMENT_WISE_ADD): OutputTensor is FLOAT32 [1, 3, 4, 4]"],
    ),
    "a declared output that overlaps itself": (
        fields(output_tensors=[IMAGE.replace(strides=[48, 0, 4, 1])]),
        "stride.broadcast",
        "output_tensors[0].strides[1]",
        ["expected a stride that keeps the 3 entries of axis 1 apart"],
    ),
    "a node that is not there": (
        edges("intermediate_edges", TO_RELU, to_node_index=5),
        "graph.index",
        "intermediate_edges[2].to_node_index",
        ["is 5, expected 0 to 4: the graph has 5 nodes"],
    ),
    "a negative node": (
        edges("output_edges", 0, from_node_index=-1),
        "graph.index",
        "output_edges[0].from_node_index",
        ["is -1, expected 0 to 4"],
    ),
    "a slot that is not there": (
        edges("intermediate_edges", TO_RELU, to_node_input_index=1),
        "graph.index",
        "intermediate_edges[2].to_node_input_index",
        ["expected 0 to 0: node 3 'relu' (ACTIVATION_RELU) has 1 input", "slots: 0 InputTensor"],
    ),
    "the second output of a constant": (
        edges("intermediate_edges", TO_SCALE, from_node_output_index=1),
        "graph.index",
        "intermediate_edges[0].from_node_output_index",
        ["expected 0 to 0: node 0 'scale' (constant) has 1 output"],
    ),
    "an edge to a constant": (
        added("intermediate_edges", FromNodeIndex=RELU, FromNodeOutputIndex=0, ToNodeIndex=SCALE, ToNodeInputIndex=0),
        "graph.index",
        "intermediate_edges[5].to_node_input_index",
        ["expected no edge: node 0 'scale' (constant) has no inputs"],
    ),
    "a graph input that is not there": (
        edges("input_edges", 0, graph_input_index=3),
        "graph.index",
        "input_edges[0].graph_input_index",
        ["is 3, expected 0 to 2: the graph has 3 inputs", "remedy: raise input_count"],
    ),
    "a graph output that is not there": (
        edges("output_edges", 0, graph_output_index=1),
        "graph.index",
        "output_edges[0].graph_output_index",
        ["is 1, expected 0 to 0: the graph has 1 output"],
    ),
    "a described input without an edge": (
        without("intermediate_edges", TO_SCALE),
        "graph.unfed",
        "nodes[2].scale_tensor",
        [f"{NORM_LABEL}: input 3 ScaleTensor is described but has no edge"],
    ),
    "two edges to one input": (
        added("input_edges", GraphInputIndex=1, ToNodeIndex=NORM, ToNodeInputIndex=3),
        "graph.fed_twice",
        "nodes[2].scale_tensor",
        ["is fed by 2 edges, expected one edge", "input 3 ScaleTensor is fed by input edge 3, intermediate edge 0"],
    ),
    "the same edge twice": (
        added("intermediate_edges", FromNodeIndex=NORM, FromNodeOutputIndex=0, ToNodeIndex=RELU, ToNodeInputIndex=0),
        "graph.fed_twice",
        "nodes[3].input_tensor",
        ["is fed by intermediate edge 2, intermediate edge 5"],
    ),
    "an output that nobody reads": (
        edges("intermediate_edges", TO_B, from_node_index=NORM),
        "graph.unread",
        "nodes[3].output_tensor",
        ["node 3 'relu' (ACTIVATION_RELU): output 0 OutputTensor is described but has no edge", "remedy: make it a graph output"],
    ),
    "a node of which no output is read": (
        all_of(
            lambda graph: graph.replace(nodes=[*graph.nodes, OperatorNode(operator=HALVED)]),
            added("input_edges", GraphInputIndex=0, ToNodeIndex=5, ToNodeInputIndex=0),
        ),
        "graph.unread",
        "nodes[5].output_tensors[0]",
        ["OutputTensors[0] is described but has no edge, nor has any other output of the node", "remedy: make it a graph output"],
    ),
    "a constant that nobody reads": (
        without("intermediate_edges", TO_BIAS),
        "graph.unread",
        "nodes[1].data",
        ["node 1 'bias' (constant)", "remedy: leave the node out"],
    ),
    "a graph output that is written twice": (
        added("output_edges", FromNodeIndex=RELU, FromNodeOutputIndex=0, GraphOutputIndex=0),
        "graph.written_twice",
        "output_edges[1].graph_output_index",
        ["graph output 0 'y' is written by output edge 0 already"],
    ),
    "a graph output that is not written": (
        fields(output_count=2, output_names=["y", "z"]),
        "graph.unwritten",
        "output_edges",
        ["no edge to graph output 1 'z'"],
    ),
    "a graph input that feeds nothing": (
        fields(input_count=4, input_names=["x", "mean", "variance", "mask"]),
        "graph.unused_input",
        "input_edges",
        ["graph input 3 'mask' feeds no node"],
    ),
    "no nodes": (
        fields(nodes=[], input_edges=[], output_edges=[], intermediate_edges=[]),
        "graph.empty",
        "nodes",
        ["remedy: ELEMENT_WISE_IDENTITY copies an input to an output"],
    ),
    "two sizes": (
        operator(RELU, input_tensor=LARGER),
        "graph.total_size",
        "intermediate_edges[2]",
        ["an edge from 192 bytes to 384 bytes, expected TotalTensorSizeInBytes equal", "input 0 InputTensor is FLOAT32 [1, 3, 4, 8]"],
    ),
    "two data types of one size": (
        operator(RELU, input_tensor=HALF, output_tensor=HALF),
        "graph.data_type",
        "intermediate_edges[2]",
        ["an edge from FLOAT32 to FLOAT16, expected one data type"],
    ),
    "a constant of another size": (
        lambda graph: graph.replace(nodes=[ConstantNode(data=bytes(16), name="scale"), *graph.nodes[1:]]),
        "graph.constant_size",
        "intermediate_edges[0]",
        ["an edge from 16 bytes to 12 bytes", "node 0 'scale' (constant): output 0 Data holds 16 bytes"],
    ),
    "an owned input that a node feeds": (
        operator(RELU, input_tensor=IMAGE.replace(flags="OWNED_BY_DML")),
        "graph.owned",
        "nodes[3].input_tensor.flags",
        ["fed by intermediate edge 2 from node 2 'norm' (BATCH_NORMALIZATION)"],
    ),
    "an owned input that a constant feeds": (
        operator(NORM, scale_tensor=CHANNELS.replace(flags="OWNED_BY_DML")),
        "graph.owned",
        "nodes[2].scale_tensor.flags",
        ["a constant node's data are copied when the graph is compiled"],
    ),
    "one graph input, owned here and not there": (
        all_of(edges("input_edges", 2, graph_input_index=1), operator(NORM, variance_tensor=CHANNELS)),
        "graph.owned_mixed",
        "nodes[2].variance_tensor.flags",
        ["graph input 1 'mean' also feeds node 2 'norm' (BATCH_NORMALIZATION): input 1 MeanTensor, which is OWNED_BY_DML"],
    ),
    "names of another number": (fields(input_names=["x", "mean"]), "graph.name_count", "input_names", ["has 2 names, expected 3"]),
    "one name twice": (
        fields(input_names=["x", "mean", "x"]),
        "graph.name",
        "input_names[2]",
        ["is 'x', as graph input 0 'x' is"],
    ),
    "an output named as an input": (fields(output_names=["mean"]), "graph.name", "output_names[0]", ["as graph input 1 'mean' is"]),
    "an empty name": (fields(output_names=[""]), "graph.name", "output_names[0]", ["is empty"]),
    "a count that no UINT holds": (fields(output_count=2**32, output_names=[]), "attribute.range", "output_count", ["0 to 4294967295"]),
    "a node's own desc": (
        operator(NORM, epsilon=1e39),
        "attribute.range",
        "nodes[2].epsilon",
        [NORM_LABEL],
    ),
}
