"""What is wrong with a graph: one row for each rule, with the problem that tells it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.graphs import ConstantNode, Graph, GraphBuilder, OperatorNode, check_graph
from tests.support.graph_cases import CHANNELS, IMAGE, NORM, RELU, SCALE, SUM, large_network, network

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

# The change, the code and the place of the problem that tells it, and texts in it.
RULES: dict[str, tuple[Change, str, str, list[str]]] = {
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
        ["without an edge to graph output 1 'z'"],
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
    "names of another number": (fields(input_names=["x", "mean"]), "graph.name_count", "input_names", ["is 2 names, expected 3"]),
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


def test_the_network_is_valid() -> None:
    graph = network()
    assert graph.check() == check_graph(graph) == []


@pytest.mark.parametrize("about", RULES)
def test_each_rule_is_told(about: str) -> None:
    change, code, path, texts = RULES[about]
    problems = change(network()).check()
    told = [problem for problem in problems if (problem.code, problem.path) == (code, path)]
    assert len(told) == 1, "\n".join(map(str, problems))
    assert [text for text in texts if text not in str(told[0])] == [], str(told[0])


def test_all_problems_are_told_at_once_in_the_order_of_the_struct() -> None:
    changes = [change for about, (change, *_) in RULES.items() if about in ("no nodes", "one name twice", "a count that no UINT holds")]
    problems = all_of(*changes)(network()).check()
    assert [problem.field for problem in problems] == ["output_count", "nodes", *["input_edges"] * 3, *["output_edges"] * 11, "input_names"]
    assert problems[-2].found == "without an edge to 4294967286 more graph outputs"


def test_a_cycle_names_its_nodes() -> None:
    change = all_of(edges("intermediate_edges", TO_RELU, from_node_index=SUM), edges("intermediate_edges", TO_A, from_node_index=RELU))
    told = [problem for problem in change(network()).check() if problem.code == "graph.cycle"]
    assert [problem.path for problem in told] == ["nodes[3]"]
    assert told[0].why[0] == "node 3 'relu' (ACTIVATION_RELU) -> node 4 'sum' (ELEMENT_WISE_ADD) -> node 3 'relu' (ACTIVATION_RELU)"
    alone = edges("intermediate_edges", TO_RELU, from_node_index=RELU)(network()).check()
    assert [problem.found for problem in alone if problem.code == "graph.cycle"] == ["an input of itself"]


def test_a_long_cycle_is_told_in_a_few_lines() -> None:
    g = GraphBuilder()
    value = g.input("x", IMAGE)
    for _ in range(1000):
        value = g.add(dml.ActivationReluDesc, input_tensor=value, output_tensor=IMAGE)
    g.output("y", value)
    graph = g.build()
    closing = {"FromNodeIndex": 999, "FromNodeOutputIndex": 0, "ToNodeIndex": 0, "ToNodeInputIndex": 0}
    graph = graph.replace(input_edges=[], intermediate_edges=[*graph.intermediate_edges, closing])
    (told,) = graph.check(lenient=True)
    assert told.code == "graph.cycle"
    assert len(str(told)) < 1000


def test_what_directml_takes_can_be_passed_over() -> None:
    for about in ("two data types of one size", "a graph input that feeds nothing"):
        change, code, *_ = RULES[about]
        assert code in {problem.code for problem in change(network()).check()}
        assert code not in {problem.code for problem in change(network()).check(lenient=True)}


def test_sizes_may_differ_where_the_bytes_are_as_many() -> None:
    flat = dml.TensorDesc(data_type="FLOAT32", sizes=[48])
    graph = operator(RELU, input_tensor=flat, output_tensor=flat)(network())
    assert graph.check() == []


def test_a_tensor_that_has_no_size_is_told_by_its_own_problem() -> None:
    broken = [IMAGE.replace(**changes) for changes in ({"strides": [1]}, {"sizes": []}, {"sizes": [0, 1]}, {"data_type": "UNKNOWN"})]
    for tensor in broken:
        problems = operator(RELU, input_tensor=tensor)(network()).check()
        assert problems
        assert {problem.field for problem in problems} == {"nodes"}


def test_levels() -> None:
    graph = network()
    codes = {str(level): {problem.code for problem in graph.check(level)} for level in dml.FeatureLevel}
    assert codes["1_0"] == codes["2_0"] == {"level.graph", "level.constant"}
    assert codes["2_1"] == codes["6_1"] == {"level.constant"}
    assert codes["6_2"] == codes["6_4"] == set()
    assert dml.lowest_level(graph) is dml.FeatureLevel.FL_6_2

    g = GraphBuilder()
    x = g.input("x", IMAGE)
    g.output("y", g.add(dml.ActivationReluDesc, input_tensor=x))
    assert dml.lowest_level(g.build()) is dml.FeatureLevel.FL_2_1
    y = g.add(dml.ActivationGeluDesc, "gelu", input_tensor=x)
    g.output("z", y)
    assert dml.lowest_level(g.build()) is dml.FeatureLevel.FL_5_1
    (problem,) = g.build().check("5_0")
    assert (problem.path, problem.why[0]) == ("nodes[1]", "node 1 'gelu' (ACTIVATION_GELU)")
    assert dml.lowest_level(operator(NORM, epsilon=1e39)(graph)) is None


def test_what_is_no_graph_and_no_level_is_refused() -> None:
    not_a_graph: Any = {}
    with pytest.raises(dml.DescError, match="expected a Graph"):
        check_graph(not_a_graph)
    with pytest.raises(dml.DescError, match="7_0"):
        network().check("7_0")


def test_every_operator_beyond_the_level_is_listed() -> None:
    """https://github.com/microsoft/onnxruntime/issues/21432: which operators a version lacks was for the user to find out."""
    g = GraphBuilder()
    value = g.input("x", IMAGE)
    for name in ("first", "second"):
        value = g.add(dml.ActivationGeluDesc, name, input_tensor=value)
    g.output("y", value)
    assert [problem.why[0] for problem in g.build().check("5_0")] == [
        "node 0 'first' (ACTIVATION_GELU)",
        "node 1 'second' (ACTIVATION_GELU)",
    ]


def test_a_tensor_that_was_described_and_not_connected() -> None:
    """https://github.com/microsoft/onnxruntime/issues/20575: the graph was refused, and the debug layer had nothing to say."""
    g = GraphBuilder()
    value = g.input("x", IMAGE)
    for _ in range(7):
        value = g.add(dml.ActivationReluDesc, input_tensor=value)
    members: dict[str, Any] = {"axes": [2, 3], "normalize_variance": True, "epsilon": 0.5}
    norm = g.add(dml.MeanVarianceNormalization1Desc, "norm", input_tensor=value, scale_tensor=CHANNELS, bias_tensor=CHANNELS, **members)
    g.output("y", norm)
    slots = ["1 ScaleTensor", "2 BiasTensor"]
    told = [problem.why[0] for problem in g.build().check()]
    assert told == [f"node 7 'norm' (MEAN_VARIANCE_NORMALIZATION1): input {slot} is described but has no edge" for slot in slots]


def test_an_edge_between_two_sizes() -> None:
    """The same issue: of an edge, both sizes."""
    larger = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 8, 16])
    g = GraphBuilder()
    small = g.add(dml.ActivationReluDesc, "a", input_tensor=g.input("x", larger.replace(sizes=[1, 1, 8, 8])))
    g.output("y", g.add(dml.ActivationReluDesc, "b", input_tensor=small.viewed(larger)))
    (problem,) = g.build().check()
    assert str(problem).splitlines() == [
        "intermediate_edges[0] is an edge from 256 bytes to 512 bytes, "
        "expected TotalTensorSizeInBytes equal at both ends  [graph.total_size]",
        "     node 0 'a' (ACTIVATION_RELU): output 0 OutputTensor is FLOAT32 [1, 1, 8, 8] (packed, 256 bytes)",
        "     node 1 'b' (ACTIVATION_RELU): input 0 InputTensor is FLOAT32 [1, 1, 8, 16] (packed, 512 bytes)",
    ]


def test_a_graph_input_that_feeds_nothing() -> None:
    """https://github.com/microsoft/DirectML/issues/133: it gave an unknown exception, or wrong results."""
    g = GraphBuilder()
    inputs = [g.input("x", IMAGE), g.input("mask", IMAGE)]
    prelu = g.add(dml.ActivationParameterizedReluDesc, "prelu", input_tensor=inputs[0], slope_tensor=inputs[0])
    g.output("y", prelu)
    (problem,) = g.build().check()
    assert problem.why == ("graph input 1 'mask' feeds no node",)


def test_a_thousand_nodes_are_checked_within_a_second() -> None:
    graph = large_network(1000)
    assert len(graph.nodes) == 1000
    times = []
    for _ in range(3):
        began = time.perf_counter()
        assert graph.check() == []
        times.append(time.perf_counter() - began)
    assert min(times) < 1.0


def test_hostile_counts_cost_no_time() -> None:
    graph = network().replace(input_count=2**32 - 1, output_count=2**32 - 1, input_names=[], output_names=[])
    began = time.perf_counter()
    problems = graph.check()
    assert time.perf_counter() - began < 1.0
    assert len([problem for problem in problems if problem.code == "graph.unwritten"]) == 11


def test_slots_that_the_desc_leaves_null_count_and_have_no_edge() -> None:
    """https://github.com/microsoft/DirectML/issues/81: without the null slots, inputs moved up by one, and nothing said which."""
    sizes = {
        "input_tensor": [1, 3, 2, 4],
        "weight_tensor": [1, 1, 5, 4],
        "recurrence_tensor": [1, 1, 5, 5],
        "hidden_init_tensor": [1, 1, 2, 5],
    }
    g = GraphBuilder()
    tensors = {name: g.input(name, dml.TensorDesc(data_type="FLOAT32", sizes=given)) for name, given in sizes.items()}
    rnn = g.add(dml.RNNDesc, "rnn", **tensors, activation_descs=[dml.ActivationTanhDesc()], direction="FORWARD")
    for name, value in zip(("sequence", "single"), rnn, strict=True):
        g.output(name, value)
    graph = g.build()
    assert graph.check() == []
    assert [edge.to_node_input_index for edge in graph.input_edges] == [0, 1, 2, 4]
    told = edges("input_edges", 3, to_node_input_index=3)(graph).check()
    assert [(problem.code, problem.path) for problem in told] == [
        ("graph.unfed", "nodes[0].hidden_init_tensor"),
        ("graph.slot", "input_edges[3].to_node_input_index"),
    ]
    assert told[0].remedy == "add an edge to it, or leave hidden_init_tensor null"
    slots = "0 InputTensor, 1 WeightTensor, 2 RecurrenceTensor, 3 BiasTensor, 4 HiddenInitTensor, 5 SequenceLengthsTensor"
    assert told[1].why == ("node 0 'rnn' (RNN): input 3 BiasTensor is null", f"slots: {slots}")


def test_an_array_of_tensors_has_one_slot_for_each() -> None:
    g = GraphBuilder()
    parts = [g.input(f"part{index}", dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 3])) for index in range(3)]
    g.output("whole", g.add(dml.JoinDesc, "join", input_tensors=parts, axis=3))
    graph = g.build()
    assert graph.check() == []
    assert [edge.to_node_input_index for edge in graph.input_edges] == [0, 1, 2]
    (problem,) = graph.replace(input_edges=graph.input_edges[:2]).check(lenient=True)
    assert problem.path == "nodes[0].input_tensors[2]"
    assert problem.why == ("node 0 'join' (JOIN): input 2 InputTensors[2] is described but has no edge",)


def test_constants_may_be_outputs_of_the_graph() -> None:
    g = GraphBuilder()
    g.output("y", g.constant("c", np.ones(3, np.float32)))
    assert g.build().check() == []
