"""What is wrong with a graph: one row for each rule, with the problem that reports it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.graphs import GraphBuilder, check_graph
from tests.support.graphs.cases import CHANNELS, IMAGE, NORM, RELU, SUM, large_network, network
from tests.support.graphs.rules import RULES, TO_A, TO_RELU, all_of, edges, operator


def test_the_network_is_valid() -> None:
    graph = network()
    assert graph.check() == check_graph(graph) == []


@pytest.mark.parametrize("about", RULES)
def test_each_rule_is_reported(about: str) -> None:
    change, code, path, texts = RULES[about]
    problems = change(network()).check()
    told = [problem for problem in problems if (problem.code, problem.path) == (code, path)]
    assert len(told) == 1, "\n".join(map(str, problems))
    assert [text for text in texts if text not in str(told[0])] == [], str(told[0])


def test_all_problems_are_reported_at_once_in_the_order_of_the_struct() -> None:
    changes = [change for about, (change, *_) in RULES.items() if about in ("no nodes", "one name twice", "a count that no UINT holds")]
    problems = all_of(*changes)(network()).check()
    assert [problem.field for problem in problems] == ["output_count", "nodes", *["input_edges"] * 3, *["output_edges"] * 11, "input_names"]
    assert problems[-2].found == "no edge to 4294967286 more graph outputs"


def test_a_cycle_names_its_nodes() -> None:
    change = all_of(edges("intermediate_edges", TO_RELU, from_node_index=SUM), edges("intermediate_edges", TO_A, from_node_index=RELU))
    told = [problem for problem in change(network()).check() if problem.code == "graph.cycle"]
    assert [problem.path for problem in told] == ["nodes[3]"]
    assert told[0].why[0] == "node 3 'relu' (ACTIVATION_RELU) -> node 4 'sum' (ELEMENT_WISE_ADD) -> node 3 'relu' (ACTIVATION_RELU)"
    alone = edges("intermediate_edges", TO_RELU, from_node_index=RELU)(network()).check()
    assert [problem.found for problem in alone if problem.code == "graph.cycle"] == ["an input of itself"]


def test_a_long_cycle_is_reported_in_a_few_lines() -> None:
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


def test_a_tensor_that_has_no_size_is_reported_by_its_own_problem() -> None:
    changes: list[dict[str, Any]] = [{"strides": [1]}, {"sizes": []}, {"sizes": [0, 1]}, {"data_type": "UNKNOWN"}]
    broken = [IMAGE.replace(**changed) for changed in changes]
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
    """https://github.com/microsoft/onnxruntime/issues/20575: the graph was refused, without a message of the debug layer."""
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
    """https://github.com/microsoft/DirectML/issues/81: without the null slots, inputs moved up by one, and no message said which."""
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
