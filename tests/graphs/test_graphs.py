"""`Graph`: its struct, its JSON, the builder, the picture."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.enums import GraphEdgeType, GraphNodeType
from dmlpy.graphs import ConstantNode, Graph, GraphBuilder, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, Value
from tests.support.descs import facts_reader
from tests.support.graphs.cases import IMAGE, NORM, large_network, network, random_network
from tests.support.graphs.unreadable import RELU, SHORT, UNREADABLE, edge
from tests.support.tables import table
from tests.support.tools import require


def problems_of(data: Any) -> list[tuple[str, str]]:
    with pytest.raises(dml.DescError) as caught:
        Graph.from_dict(data)
    return [(problem.code, problem.path) for problem in caught.value.problems]


OWN_MEMBERS = ("InputNames", "OutputNames", "InputTensors", "OutputTensors")
"""Members of a graph that DirectML's struct lacks, other than its name."""


def test_structs_mirror_the_header() -> None:
    structs = facts_reader.enums()["structs"]
    written = {
        "DML_GRAPH_DESC": network().to_dict(),
        "DML_OPERATOR_GRAPH_NODE_DESC": OperatorNode(operator=dml.ActivationReluDesc(), name="n").to_dict()["Desc"],
        "DML_CONSTANT_DATA_GRAPH_NODE_DESC": ConstantNode(data=b"1234", name="n").to_dict()["Desc"],
        "DML_INPUT_GRAPH_EDGE_DESC": network().input_edges[0].replace(name="n").to_dict()["Desc"],
        "DML_OUTPUT_GRAPH_EDGE_DESC": network().output_edges[0].replace(name="n").to_dict()["Desc"],
        "DML_INTERMEDIATE_GRAPH_EDGE_DESC": network().intermediate_edges[0].replace(name="n").to_dict()["Desc"],
    }
    names = {struct: [name for name in members if name not in OWN_MEMBERS] for struct, members in written.items()}
    names["DML_GRAPH_DESC"].remove("Name")
    assert names == {struct: [name for name, _ in structs[struct]] for struct in written}


def test_enumerations_mirror_the_header() -> None:
    enums = facts_reader.enums()["enums"]
    for kind, name in ((GraphNodeType, "DML_GRAPH_NODE_TYPE"), (GraphEdgeType, "DML_GRAPH_EDGE_TYPE")):
        assert {member.c_name: member.value for member in kind} == enums[name]["values"]


def test_a_graph_equals_its_copies() -> None:
    for graph in (network(), large_network(50), *map(random_network, range(20))):
        copies = [Graph.from_dict(graph.to_dict()), Graph.from_json(graph.to_json()), Graph.model_validate_json(graph.model_dump_json())]
        copies += [pickle.loads(pickle.dumps(graph)), graph.replace(), Graph(**{name: getattr(graph, name) for name in Graph.model_fields})]
        assert copies == [graph] * len(copies)
        assert {hash(copy) for copy in copies} == {hash(graph)}
    assert network() != network().replace(name="other")


def test_json_that_a_person_writes() -> None:
    graph = Graph.from_dict(SHORT)
    assert (graph.input_count, graph.output_count) == (1, 1)
    assert graph.input_edges == (InputEdge(graph_input_index=0, to_node_index=0, to_node_input_index=0),)
    assert graph.output_edges == (OutputEdge(from_node_index=0, from_node_output_index=0, graph_output_index=0),)
    assert graph.nodes[1] == ConstantNode(data=np.array([1.5, 2], np.float32), name="c")
    nested = graph.to_dict()
    assert nested["Nodes"][0]["Type"] == "DML_GRAPH_NODE_TYPE_OPERATOR"
    assert nested["Nodes"][0]["Desc"]["Operator"]["Type"] == "DML_OPERATOR_ACTIVATION_RELU"
    assert nested["NodeCount"] == 2
    typed = SHORT | {"Nodes": [{"Type": "OPERATOR", "Operator": {"Type": "ACTIVATION_RELU", **RELU}, "Name": "relu"}, SHORT["Nodes"][1]]}
    untyped = SHORT | {
        "Nodes": [{"Operator": {"Type": "ACTIVATION_RELU", "Desc": RELU}, "Name": "relu"}, {"Data": "AADAPwAAAEA=", "Name": "c"}]
    }
    assert Graph.from_dict(typed) == Graph.from_dict(untyped) == graph
    assert Graph.from_dict(SHORT | {"InputEdges": [{"Type": "INPUT", "Desc": SHORT["InputEdges"][0]}]}) == graph


@table("about", UNREADABLE)
def test_what_cannot_be_read_is_reported_with_its_place(about: str) -> None:
    data, expected = UNREADABLE[about]
    assert problems_of(data) == expected


def test_a_mistyped_name_has_a_remedy() -> None:
    with pytest.raises(dml.DescError, match="did you mean relu") as caught:
        Graph.from_dict(edge(ToNodeIndex="rellu", ToNodeInputIndex=0))
    assert "'rellu', expected an index, or the name of one node" in str(caught.value)
    for name, meant in (("InputTensr", "InputTensor"), ("input_tensr", "input_tensor")):
        with pytest.raises(dml.DescError, match=f"did you mean {meant}?"):
            Graph.from_dict(edge(ToNodeInputIndex=name))
    with pytest.raises(dml.DescError, match="an index: no graph output has a name"):
        Graph.from_dict({**SHORT, "OutputNames": [], "OutputCount": 1})


def test_text_that_is_no_json() -> None:
    for text in ("", "{", "[" * 100_000, "1e999", b"\xff"):
        with pytest.raises(dml.DescError):
            Graph.from_json(text)


def test_replace_takes_both_spellings_and_names() -> None:
    graph = network()
    way = {"FromNodeIndex": "relu", "FromNodeOutputIndex": "OutputTensor", "GraphOutputIndex": 0}
    assert graph.replace(OutputEdges=[way]).output_edges[0].from_node_index == 3
    assert graph.replace(InputNames=[]).input_count == 3
    with pytest.raises(dml.DescError, match="given twice"):
        graph.replace(name="a", Name="b")


def test_constants_hold_the_bytes_of_arrays() -> None:
    array = np.arange(6, dtype=np.int16)
    for data in (array, array.tobytes(), bytearray(array.tobytes()), memoryview(array.tobytes())):
        constant = ConstantNode(data=data, name="c")
        assert (constant.data, constant.data_size) == (array.tobytes(), 12)
    assert "<12 bytes>" in repr(constant)
    for kind, other in ((ConstantNode, OperatorNode(operator=dml.ActivationReluDesc())), (OperatorNode, constant)):
        assert type(other).from_dict(other.to_dict()) == other
        with pytest.raises(dml.DescError):
            kind.from_dict(other.to_dict())


def test_the_builder_joins_values() -> None:
    graph = network()
    assert graph.input_names == ("x", "mean", "variance")
    assert graph.nodes[NORM].input_slots()[0].tensor == IMAGE
    assert graph.intermediate_edges[-1] == IntermediateEdge(
        from_node_index=3, from_node_output_index=0, to_node_index=4, to_node_input_index=1
    )


def test_the_builder_infers_outputs_unless_they_are_given() -> None:
    g = GraphBuilder()
    x = g.input("x", IMAGE)
    nhwc = IMAGE.replace(strides=[48, 1, 12, 3])
    (first, second) = (g.add(dml.ActivationReluDesc, input_tensor=x), g.add(dml.ActivationReluDesc, input_tensor=x, OutputTensor=nhwc))
    assert (first.tensor, second.tensor) == (IMAGE, nhwc)
    desc = dml.ActivationEluDesc(input_tensor=IMAGE, alpha=2)
    assert g.add(desc, "whole", input_tensor=second).tensor == IMAGE
    assert g.build().nodes[2].input_slots()[0].tensor == nhwc


def test_the_builder_views_bytes_as_another_tensor() -> None:
    g = GraphBuilder()
    x = g.input("x", IMAGE)
    flat = g.add(dml.ActivationReluDesc, input_tensor=x).viewed(dml.TensorDesc(data_type="FLOAT32", sizes=[48]))
    g.output("y", g.add(dml.ActivationReluDesc, input_tensor=flat))
    assert g.build().check() == []


def test_the_builder_refuses_what_no_edge_can_say() -> None:
    g, other = GraphBuilder(), GraphBuilder()
    x = g.input("x", IMAGE)
    with pytest.raises(dml.DescError, match="another builder"):
        other.add(dml.ActivationReluDesc, input_tensor=x)
    with pytest.raises(dml.DescError, match="expected a value"):
        g.output("y", "x")
    assert isinstance(x, Value)
    parts = g.add(
        dml.SplitDesc, input_tensor=x, output_tensors=[IMAGE.replace(sizes=[1, 1, 4, 4]), IMAGE.replace(sizes=[1, 2, 4, 4])], axis=1
    )
    refused: list[tuple[Any, str]] = [
        (lambda: g.add(dml.ActivationReluDesc, input_tensor=parts), "input_tensor has 2 values, expected one value"),
        (lambda: g.output("y", parts), "value has 2 values, expected one value"),
        (lambda: g.add(dml.ActivationEluDesc, input_tensor=x, alpha=x), "alpha is a value of the graph"),
        (lambda: g.add(dml.SplitDesc, input_tensor=x, output_tensors=[x, x], axis=1), "output_tensors is a value of the graph"),
        (lambda: g.add("RELU", input_tensor=x), "operator is 'RELU', expected an operator's desc"),
        (lambda: g.constant("c", [1.0]), "c is [1.0], expected an array"),
        (lambda: g.input("z", np.ones(3, np.float32)), "describe the array with TensorDesc.of(array)"),
        (lambda: g.add(dml.ActivationReluDesc, input_tensor=np.ones(3, np.float32)), "remedy: builder.constant(name, array) makes a value"),
        (lambda: x.viewed([1]), "tensor is [1], expected a TensorDesc"),
    ]
    before = g.build()
    for call, text in refused:
        with pytest.raises(dml.DescError) as caught:
            call()
        assert text in str(caught.value)
    assert g.build() == before, "what is refused leaves nothing behind"
    assert "builder" not in repr(x)


def test_the_builder_infers_the_outputs_that_are_named() -> None:
    g = GraphBuilder()
    sizes = {"input_tensor": [1, 5, 2, 3], "weight_tensor": [1, 1, 4, 3], "recurrence_tensor": [1, 1, 4, 4]}
    tensors = {name: g.input(name, dml.TensorDesc(data_type="FLOAT32", sizes=size)) for name, size in sizes.items()}
    members = {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD"}
    last = g.add(dml.RNNDesc, "rnn", outputs=["output_single_tensor"], **tensors, **members)
    g.output("last", last)
    assert (last.index, last.tensor.sizes) == (1, (1, 1, 2, 4))
    assert g.build().check() == []


def test_long_files_are_read_in_time_that_grows_with_their_length() -> None:
    """Names in edges are looked up, not searched for; of many that are wrong the first ones are reported."""
    count = 4000
    nodes = [{"Type": "ACTIVATION_RELU", "Name": f"n{index}", "Desc": RELU} for index in range(count)]
    edges = [{"GraphInputIndex": "x", "ToNodeIndex": f"n{index}", "ToNodeInputIndex": "InputTensor"} for index in range(count)]
    data = SHORT | {"Nodes": nodes, "InputEdges": edges, "OutputEdges": []}
    began = time.process_time()
    assert Graph.from_dict(data).input_edges[-1].to_node_index == count - 1
    told = problems_of(data | {"InputEdges": [edge | {"ToNodeIndex": f"m{index}"} for index, edge in enumerate(edges)]})
    assert len(told) == 100
    assert time.process_time() - began < 10


def test_the_picture_shows_nodes_sizes_and_slots() -> None:
    dot = network().to_dot()
    for text in (
        'input0 [label=x fillcolor="#e3f2fd" shape=ellipse',
        'output0 [label=y fillcolor="#e8f5e9" shape=ellipse',
        'node0 [label="0 constant\\nscale\\n12 bytes" shape=note]',
        'node2 [label="2 BATCH_NORMALIZATION\\nnorm\\nSpatial True\\nEpsilon 0.5',
        'node2 -> node3 [label="FLOAT32 [1, 3, 4, 4], 192 bytes"',
        'input1 -> node2 [label="FLOAT32 [1, 3, 1, 1], 12 bytes, owned\\nto MeanTensor"',
        'node3 -> node4 [label="FLOAT32 [1, 3, 4, 4], 192 bytes\\nto BTensor"',
    ):
        assert text in dot


def test_the_picture_marks_problems() -> None:
    graph = network().replace(output_edges=[OutputEdge(from_node_index=9, from_node_output_index=0, graph_output_index=0)])
    marked = [line.split("[")[0].strip() for line in graph.to_dot(graph.check()).splitlines() if "tooltip" in line]
    assert marked == ["node4", "node9 -> output0"]
    assert 'node9 [label="no node 9"' in graph.to_dot()
    assert "x 4 " in graph.table(graph.check()).to_text() or "✗ 4" in str(graph.table(graph.check()).to_html())


HOSTILE = ['"]; evil [label="', "a\\", "\\n\\N", "<b>bold</b>", "line\nbreak\x1b[31m", "&lt;", "é漢", "\ud800", "x" * 500]


def test_text_from_files_means_nothing_in_the_picture() -> None:
    for name in HOSTILE:
        g = GraphBuilder()
        g.output("y", g.add(dml.ActivationReluDesc, input_tensor=g.input("x", IMAGE)))
        graph = Graph.model_construct(**{**g.build()._members(), "input_names": (name,), "output_names": (name,), "name": name})
        nodes = (OperatorNode.model_construct(operator=graph.nodes[0].operator, name=name),)  # type: ignore[union-attr]
        dot = Graph.model_construct(**{**graph._members(), "nodes": nodes}).to_dot()
        assert len(dot.splitlines()) == len(g.build().to_dot().splitlines()), name
        assert len(dot) < 3000
        assert "evil [label" not in strings_removed(dot)
        assert "label=<" not in dot
        assert all(char.isprintable() or char in "\n\t" for char in dot), name


def strings_removed(dot: str) -> str:
    """DOT text without what is in quotation marks."""
    rest, inside, escaped = [], False, False
    for char in dot:
        if inside and escaped:
            escaped = False
        elif inside and char == "\\":
            escaped = True
        elif char == '"':
            inside = not inside
        elif not inside:
            rest.append(char)
    assert not inside
    return "".join(rest)


def test_dot_draws_the_picture() -> None:
    require("dot")
    svg = network()._repr_svg_()
    assert svg is not None
    assert "BATCH_NORMALIZATION" in svg
    assert network()._repr_html_() == svg


def test_a_notebook_shows_a_table_without_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert network()._repr_svg_() is None
    assert network()._repr_html_().startswith("<table>")
    assert "BATCH_NORMALIZATION" in str(network())


def test_describing_graphs_imports_neither_library() -> None:
    program = "import sys, dmlpy.graphs; print([name for name in ('flatbuffers', 'graphviz') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_docstring_shows_json_that_is_read() -> None:
    text = Graph.from_dict.__doc__ or ""
    example = text[text.index('{"InputNames"') : text.index("Raises:")].replace("{...}", '{"DataType": "FLOAT32", "Sizes": [2]}')
    assert Graph.from_dict(json.loads(example)).check() == []


VECTOR = dml.TensorDesc(data_type="FLOAT32", sizes=[3])
ALONE = OperatorNode(operator=dml.ActivationReluDesc(input_tensor=VECTOR, output_tensor=VECTOR))
ONE_NODE: dict[str, Any] = {
    "nodes": [ALONE],
    "input_edges": [InputEdge(graph_input_index=0, to_node_index=0, to_node_input_index=0)],
    "output_edges": [OutputEdge(from_node_index=0, from_node_output_index=0, graph_output_index=0)],
}


@pytest.mark.parametrize(
    ("changed", "path", "remedy"),
    [
        ({"nodes": ALONE}, "nodes", "put it into a list: [...]"),
        ({"input_edges": ONE_NODE["input_edges"][0]}, "input_edges", "put it into a list: [...]"),
        ({"input_edges": [(0, 0, 0)]}, "input_edges[0]", "InputEdge(graph_input_index=0, to_node_index=0, to_node_input_index=0)"),
        (
            {"output_edges": ONE_NODE["input_edges"]},
            "output_edges[0]",
            "OutputEdge(from_node_index=..., from_node_output_index=..., graph_output_index=...)",
        ),
    ],
)
def test_what_stands_in_the_place_of_lists_and_edges(changed: dict[str, Any], path: str, remedy: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        Graph(**{"input_count": 1, "output_count": 1} | ONE_NODE | changed)
    assert [(problem.path, problem.code, problem.remedy) for problem in caught.value.problems] == [(path, "field.form", remedy)]
