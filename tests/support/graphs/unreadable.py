"""Graphs that cannot be read."""

from __future__ import annotations

from typing import Any

RELU = {"InputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}, "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}}


SHORT: dict[str, Any] = {
    "InputNames": ["x"],
    "OutputNames": ["y"],
    "Nodes": [
        {"Type": "ACTIVATION_RELU", "Name": "relu", "Desc": RELU},
        {"Type": "CONSTANT", "Name": "c", "Data": [1.5, 2], "DataType": "FLOAT32"},
    ],
    "InputEdges": [{"GraphInputIndex": "x", "ToNodeIndex": "relu", "ToNodeInputIndex": "InputTensor"}],
    "OutputEdges": [{"FromNodeIndex": "relu", "FromNodeOutputIndex": "output_tensor", "GraphOutputIndex": "y"}],
}


def edge(**changes: Any) -> dict[str, Any]:
    return SHORT | {"InputEdges": [SHORT["InputEdges"][0] | changes]}


def node(*members: Any, **changes: Any) -> dict[str, Any]:
    return SHORT | {"Nodes": [*members, changes] if changes else [*members], "InputEdges": [], "OutputEdges": []}


UNREADABLE: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "no object": ([], [("field.form", "")]),
    "a key that is not a text": ({1: 2}, [("field.form", "")]),
    "nothing": ({}, [("field.missing", "input_count"), ("field.missing", "output_count"), ("field.missing", "nodes")]),
    "an unknown member": (SHORT | {"Node": []}, [("field.unknown", "Node")]),
    "a wrong count": (SHORT | {"NodeCount": 3}, [("count.length", "NodeCount")]),
    "nodes that are no list": (SHORT | {"Nodes": 5, "InputEdges": [], "OutputEdges": []}, [("field.form", "nodes")]),
    "a node that is not an object": (node(5), [("field.form", "nodes[0]")]),
    "an operator that is not an object": (node(Type="OPERATOR", Operator=5), [("field.form", "nodes[0].operator")]),
    "a node without an operator": (node(Type="OPERATOR", Name="n"), [("field.missing", "nodes[0].operator")]),
    "an unknown operator": (node(Type="RELUX", Desc=RELU), [("operator.unknown", "nodes[0].type")]),
    "an unknown operator inside a node": (
        node(Type="OPERATOR", Operator={"Type": "RELUX", "Desc": RELU}),
        [("operator.unknown", "nodes[0].operator.type")],
    ),
    "a node without a type": (node(Desc=RELU), [("field.missing", "nodes[0].type")]),
    "numbers of no shape": (node(Type="CONSTANT", Data=[[1], [1, 2]], DataType="FLOAT32"), [("field.form", "nodes[0].data")]),
    "a node of no type": (node(Type="INVALID"), [("graph.type", "nodes[0].type")]),
    "an operator's member": (
        node(Type="ACTIVATION_RELU", Desc={**RELU, "InputTensor": {"DataType": "FLOAT31", "Sizes": [1]}}),
        [("field.form", "nodes[0].input_tensor.data_type")],
    ),
    "two nodes": (
        node({"Type": "ACTIVATION_ELU", "Desc": RELU}, Type="X"),
        [("field.missing", "nodes[0].Alpha"), ("operator.unknown", "nodes[1].type")],
    ),
    "a name that is not a text": (node(Type="ACTIVATION_RELU", Desc=RELU, Name=5), [("field.form", "nodes[0].name")]),
    "data that are no base64": (node(Type="CONSTANT", Data="?"), [("field.form", "nodes[0].data")]),
    "bytes beyond 255": (node(Type="CONSTANT", Data=[256]), [("field.form", "nodes[0].data")]),
    "half a number": (node(Type="CONSTANT", Data=[1.5], DataType="INT32"), [("field.form", "nodes[0].data")]),
    "text as a number": (node(Type="CONSTANT", Data=["1"], DataType="FLOAT32"), [("field.form", "nodes[0].data")]),
    "numbers of no type": (node(Type="CONSTANT", Data=[1], DataType="UINT4"), [("field.form", "nodes[0].data")]),
    "a DataSize that is not": (node(Type="CONSTANT", Data=[1], DataSize=4), [("count.length", "nodes[0].DataSize")]),
    "no data": (node(Type="CONSTANT"), [("field.missing", "nodes[0].data")]),
    "an edge that is not an object": (SHORT | {"InputEdges": [[]]}, [("field.form", "input_edges[0]")]),
    "an edge of another list": (edge(Type="OUTPUT"), [("graph.type", "input_edges[0].type")]),
    "an edge without an end": (
        SHORT | {"InputEdges": [{"GraphInputIndex": 0, "ToNodeIndex": 0}]},
        [("field.missing", "input_edges[0].to_node_input_index")],
    ),
    "an unknown node": (edge(ToNodeIndex="relux", ToNodeInputIndex=0), [("graph.reference", "input_edges[0].to_node_index")]),
    "a slot of an unknown node": (
        edge(ToNodeIndex="relux"),
        [("graph.reference", "input_edges[0].to_node_index")],
    ),
    "an unknown slot": (edge(ToNodeInputIndex="InputTensors"), [("graph.reference", "input_edges[0].to_node_input_index")]),
    "an unknown graph input": (edge(GraphInputIndex="y"), [("graph.reference", "input_edges[0].graph_input_index")]),
    "an index that is half": (edge(ToNodeIndex=0.5), [("field.form", "input_edges[0].to_node_index")]),
    "a slot of a node that is not there": (edge(ToNodeIndex=7), [("graph.reference", "input_edges[0].to_node_input_index")]),
    "an index that is true": (edge(ToNodeInputIndex=True), [("field.form", "input_edges[0].to_node_input_index")]),
    "a name of two nodes": (
        SHORT
        | {
            "Nodes": [SHORT["Nodes"][0], SHORT["Nodes"][0]],
            "OutputEdges": [],
            "InputEdges": [SHORT["InputEdges"][0] | {"ToNodeInputIndex": 0}],
        },
        [("graph.reference", "input_edges[0].to_node_index")],
    ),
    "only the node that an edge names": (
        SHORT | {"Nodes": [SHORT["Nodes"][1], {**SHORT["Nodes"][0], "Type": "RELUX"}]},
        [("operator.unknown", "nodes[1].type")],
    ),
    "nodes that are a text": (SHORT | {"Nodes": "relu"}, [("field.form", "nodes")]),
    "one member in two spellings": (SHORT | {"nodes": []}, [("field.twice", "nodes")]),
}
