"""Errors of graphs: of building and reading them, and those that a graph's check finds."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.docs.error_examples.example import shows
from dmlpy.graphs import load_serialized

image = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 3])
relu = dml.OperatorNode(operator=dml.ActivationReluDesc(input_tensor=image, output_tensor=image), name="relu")
add = dml.OperatorNode(operator=dml.ElementWiseAddDesc(a_tensor=image, b_tensor=image, output_tensor=image), name="sum")
ones = dml.ConstantNode(data=bytes(24), name="ones")
to_relu = dml.InputEdge(graph_input_index=0, to_node_index=0, to_node_input_index=0)
to_sum = dml.IntermediateEdge(from_node_index=0, from_node_output_index=0, to_node_index=1, to_node_input_index=0)
ones_to_sum = dml.IntermediateEdge(from_node_index=2, from_node_output_index=0, to_node_index=1, to_node_input_index=1)
to_y = dml.OutputEdge(from_node_index=1, from_node_output_index=0, graph_output_index=0)
graph = dml.Graph(
    input_count=1,
    output_count=1,
    nodes=[relu, add, ones],
    input_edges=[to_relu],
    output_edges=[to_y],
    intermediate_edges=[to_sum, ones_to_sum],
    input_names=["x"],
    output_names=["y"],
)
larger = image.replace(sizes=[1, 1, 4, 3])
half = dml.TensorDesc(data_type="FLOAT16", sizes=[1, 1, 4, 3])


@shows("bind.unprepared")
def bind_unprepared() -> Any:
    owned = image.replace(flags="OWNED_BY_DML")
    g = dml.GraphBuilder()
    g.output("y", g.add(dml.ElementWiseAddDesc, a_tensor=g.input("x", image), b_tensor=g.input("w", owned)))
    x, w, y = (np.zeros(image.sizes, np.float32) for _ in range(3))
    dml.compile(g.build(), "numpy").bind({"x": x, "w": w}, {"y": y})


@shows("graph.constant_size")
def graph_constant_size() -> Any:
    return graph.replace(nodes=[relu, add, dml.ConstantNode(data=bytes(16), name="ones")]).check()


@shows("graph.cycle")
def graph_cycle() -> Any:
    back = dml.IntermediateEdge(from_node_index=1, from_node_output_index=0, to_node_index=0, to_node_input_index=0)
    return graph.replace(input_edges=[], input_count=0, input_names=[], intermediate_edges=[to_sum, ones_to_sum, back]).check()


@shows("graph.data_type")
def graph_data_type() -> Any:
    wide = dml.OperatorNode(operator=dml.ActivationReluDesc(input_tensor=half, output_tensor=half), name="relu")
    return graph.replace(nodes=[wide, add, ones]).check()


@shows("graph.empty")
def graph_empty() -> Any:
    return dml.Graph(input_count=0, output_count=0, nodes=[], input_edges=[], output_edges=[], intermediate_edges=[]).check()


@shows("graph.fed_twice")
def graph_fed_twice() -> Any:
    return graph.replace(intermediate_edges=[to_sum, ones_to_sum, ones_to_sum]).check()


@shows("graph.index")
def graph_index() -> Any:
    return graph.replace(input_edges=[to_relu.replace(to_node_index=3)]).check()


@shows("graph.input_flags")
def graph_input_flags() -> Any:
    return graph.replace(input_tensors=[image.replace(flags="OWNED_BY_DML")]).check()


@shows("graph.input_tensor")
def graph_input_tensor() -> Any:
    return graph.replace(input_tensors=[image.replace(sizes=[1, 1, 1, 3])]).check()


@shows("graph.name")
def graph_name() -> Any:
    return graph.replace(output_names=["x"]).check()


@shows("graph.name_count")
def graph_name_count() -> Any:
    return graph.replace(input_names=["x", "z"]).check()


@shows("graph.output_tensor")
def graph_output_tensor() -> Any:
    return graph.replace(output_tensors=[larger]).check()


@shows("graph.owned")
def graph_owned() -> Any:
    owned = image.replace(flags="OWNED_BY_DML")
    node = dml.OperatorNode(operator=dml.ElementWiseIdentityDesc(input_tensor=owned, output_tensor=image), name="copy")
    last = dml.OperatorNode(operator=dml.ActivationReluDesc(input_tensor=image, output_tensor=image), name="relu")
    return dml.Graph(
        input_count=1,
        output_count=1,
        nodes=[last, node],
        input_edges=[to_relu],
        output_edges=[to_y],
        intermediate_edges=[to_sum],
    ).check()


@shows("graph.owned_mixed")
def graph_owned_mixed() -> Any:
    owned = image.replace(flags="OWNED_BY_DML")
    g = dml.GraphBuilder()
    x = g.input("x", image)
    y = g.add(dml.ElementWiseIdentityDesc, input_tensor=x)
    z = g.add(dml.ElementWiseIdentityDesc(input_tensor=owned, output_tensor=image))
    g.output("y", y)
    g.output("z", z)
    built = g.build()
    second = dml.InputEdge(graph_input_index=0, to_node_index=1, to_node_input_index=0)
    return built.replace(input_edges=[*built.input_edges, second]).check()


@shows("graph.reference")
def graph_reference() -> Any:
    data = graph.to_dict()
    data["InputEdges"] = [{"GraphInputIndex": 0, "ToNodeIndex": "rely", "ToNodeInputIndex": 0}]
    dml.Graph.from_dict(data)


@shows("graph.slot")
def graph_slot() -> Any:
    tensors = {"a_tensor": image, "b_tensor": image, "output_tensor": image}
    gemm = dml.OperatorNode(operator=dml.GEMMDesc(**tensors, trans_a="NONE", trans_b="NONE", alpha=1, beta=0), name="gemm")
    edge = dml.InputEdge(graph_input_index=0, to_node_index=3, to_node_input_index=2)
    return graph.replace(nodes=[*graph.nodes, gemm], input_edges=[to_relu, edge]).check()


@shows("graph.total_size")
def graph_total_size() -> Any:
    large = dml.OperatorNode(operator=dml.ActivationReluDesc(input_tensor=larger, output_tensor=larger), name="relu")
    return graph.replace(nodes=[large, add, ones]).check()


@shows("graph.type")
def graph_type() -> Any:
    data = graph.to_dict()
    data["Nodes"][0] = {"Type": "INVALID"}
    dml.Graph.from_dict(data)


@shows("graph.unfed")
def graph_unfed() -> Any:
    return graph.replace(intermediate_edges=[to_sum]).check()


@shows("graph.unread")
def graph_unread() -> Any:
    return graph.replace(nodes=[relu, add, ones, ones]).check()


@shows("graph.unused_input")
def graph_unused_input() -> Any:
    return graph.replace(input_count=2, input_names=["x", "z"]).check()


@shows("graph.unwritten")
def graph_unwritten() -> Any:
    return graph.replace(output_count=2, output_names=["y", "z"]).check()


@shows("graph.value")
def graph_value() -> Any:
    g = dml.GraphBuilder()
    x = g.input("x", image)
    g.add(dml.ActivationEluDesc, input_tensor=x, alpha=x)


@shows("graph.written_twice")
def graph_written_twice() -> Any:
    return graph.replace(output_edges=[to_y, to_y.replace(from_node_index=0)]).check()


@shows("level.constant")
def level_constant() -> Any:
    return graph.check(feature_level="6_1")


@shows("level.graph")
def level_graph() -> Any:
    return graph.check(feature_level="2_0")


@shows("flatbuffer.bounds")
def flatbuffer_bounds() -> Any:
    load_serialized(b"DML")


@shows("graph.tensor_count")
def graph_tensor_count() -> Any:
    return graph.replace(input_tensors=[image, image]).check()


@shows("graph.view")
def graph_view() -> Any:
    return dml.GraphBuilder().input("x", image).reshape(4, 2)
