"""Types that a released program gives DirectML and that Microsoft's page does not list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

import dmlpy as dml
from dmlpy import x
from dmlpy.cli.main import app
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.evidence.undocumented import TypeEntry, type_entries
from dmlpy.graphs import Graph, InputEdge, OperatorNode, OutputEdge
from dmlpy.inspection.explain import explain
from dmlpy.messages.problems import and_more
from dmlpy.validation.checking import lowest_level
from tests.support.dxdispatch.sarif import SARIF
from tests.support.released.rows import f32, i32, i64, tensor, u32
from tests.support.tables import table
from tests.support.tools import require

WINDOW = {"strides": [1, 1], "dilations": [1, 1], "start_padding": [0, 0], "end_padding": [0, 0]}


def _desc(operator: str, data_type: str, function: str = "") -> OperatorDesc:
    """A desc of the operator with its input, and where they share a type its output, of a type."""
    given = tensor(data_type, 2, 3)
    makers: dict[str, Any] = {
        "TILE": lambda: dml.TileDesc(input_tensor=given, output_tensor=tensor(data_type, 4, 3), repeats=[2, 1]),
        "FOLD": lambda: dml.FoldDesc(
            input_tensor=tensor(data_type, 1, 4, 4), output_tensor=tensor(data_type, 1, 1, 3, 3), window_sizes=[2, 2], **WINDOW
        ),
        "REDUCE": lambda: dml.ReduceDesc(function=function, input_tensor=given, output_tensor=tensor(data_type, 2, 1), axes=[1]),
        "ARGMIN": lambda: dml.ArgminDesc(input_tensor=given, output_tensor=u32(2, 1), axes=[1]),
        "ARGMAX": lambda: dml.ArgmaxDesc(input_tensor=given, output_tensor=u32(2, 1), axes=[1]),
        "DEQUANTIZE": lambda: dml.DequantizeDesc(
            input_tensor=given, quantization_type="SCALE", quantization_tensors=[f32(1, 1)], output_tensor=f32(2, 3)
        ),
    }
    desc: OperatorDesc = makers[operator]()
    return desc


def _cases() -> list[tuple[TypeEntry, OperatorDesc]]:
    found = []
    for entry in type_entries():
        for data_type in sorted(entry.types):
            for function in entry.when.get("function", ("",)):
                found.append((entry, _desc(entry.operator, data_type, function)))
    return found


CASES = _cases()
IDS = [f"{entry.operator}-{desc.to_dict()['Desc'].get('Function', '')}-{getattr(desc, entry.field).data_type}" for entry, desc in CASES]


def test_every_entry_of_the_programs_tables_is_decided() -> None:
    counts = dict.fromkeys(("onnxruntime", "chromium"), 0)
    for entry in type_entries():
        levels = sum(FeatureLevel.parse(entry.levels[0]) <= level <= FeatureLevel.parse(entry.levels[1]) for level in FeatureLevel)
        counts[entry.source.key] += entry.count * levels
        assert entry.reason
        assert all(DataType[name] for name in entry.types)
    assert counts == {"onnxruntime": 28, "chromium": 10}


@table(("entry", "desc"), CASES, ids=IDS)
def test_check_says_what_is_decided(entry: TypeEntry, desc: OperatorDesc) -> None:
    for level in entry.levels:
        problems = dml.check(desc, level)
        assert {problem.severity for problem in problems} == {"undocumented" if entry.decision == "undocumented" else "error"}
        assert {problem.code for problem in problems} == {"type.support"}
        if entry.decision == "undocumented":
            assert all(problem.why[-1] == entry.sentence() for problem in problems)
    first = FeatureLevel.parse(entry.levels[0])
    lower = max(level for level in FeatureLevel if level < first)
    assert any(problem.severity == "error" for problem in dml.check(desc, lower))


UNDOCUMENTED = [(entry, desc) for entry, desc in CASES if entry.decision == "undocumented"]
UNDOCUMENTED_IDS = [name for name, (entry, _) in zip(IDS, CASES, strict=True) if entry.decision == "undocumented"]


@pytest.mark.parametrize("device", ["numpy", "cpu", "cuda-emulated"])
@pytest.mark.parametrize(("entry", "desc"), UNDOCUMENTED, ids=UNDOCUMENTED_IDS)
def test_an_undocumented_desc_runs_or_is_refused_with_the_reason(entry: TypeEntry, desc: OperatorDesc, device: str) -> None:
    if device == "cuda-emulated":
        require("g++")
    level = entry.levels[0]
    reason = entry.uncomputed or (entry.uncomputed_on_cuda if device == "cuda-emulated" else "")
    if reason:
        with pytest.raises(dml.CompileError) as caught:
            dml.compile(desc, device, level)
        assert [problem.code for problem in caught.value.problems] == ["operator.not_built"]
        assert caught.value.problems[0].why[0].endswith(reason)
        assert (caught.value.problems[0].remedy is not None) == bool(not entry.uncomputed)
        return
    if device == "cuda-emulated":
        assert dml.compile(desc, device, level).desc == desc
        return
    given = getattr(desc, entry.field)
    values = np.random.default_rng(7).integers(0, 100, given.sizes).astype(given.data_type.numpy)
    found = dml.compile(desc, device, level)(input_tensor=values).output_tensor
    np.testing.assert_array_equal(found, dml.reference(desc, input_tensor=values).output_tensor)


def test_types_of_one_variable_must_still_be_equal() -> None:
    mixed = dml.ReduceDesc(function="AVERAGE", input_tensor=i32(2, 3), output_tensor=i64(2, 1), axes=[1])
    assert [(problem.code, problem.severity) for problem in dml.check(mixed)] == [("type.support", "undocumented"), ("type.equal", "error")]
    known = dml.ReduceDesc(function="AVERAGE", input_tensor=i32(2, 3), output_tensor=f32(2, 1), axes=[1])
    assert [(problem.code, problem.severity) for problem in dml.check(known)] == [("type.support", "error")]


def test_levels_where_a_desc_is_undocumented_do_not_count_as_the_lowest() -> None:
    assert str(lowest_level(_desc("ARGMAX", "INT64"))) == "4_1"
    assert lowest_level(_desc("TILE", "FLOAT64")) is None


def test_a_shortened_list_keeps_the_severity() -> None:
    problem = dml.check(_desc("TILE", "FLOAT64"))[0]
    assert and_more(problem).severity == "undocumented"
    assert problem.headline().startswith("undocumented: input_tensor.data_type is FLOAT64")
    assert problem.to_dict()["severity"] == "undocumented"


def _graph(desc: OperatorDesc) -> Graph:
    edge_in = InputEdge(graph_input_index=0, to_node_index=0, to_node_input_index=0)
    edge_out = OutputEdge(from_node_index=0, from_node_output_index=0, graph_output_index=0)
    return Graph(
        input_count=1,
        output_count=1,
        nodes=[OperatorNode(operator=desc)],
        input_edges=[edge_in],
        output_edges=[edge_out],
        input_names=["given"],
        output_names=["made"],
    )


def test_graphs_with_undocumented_nodes_compile_and_run() -> None:
    graph = _graph(_desc("TILE", "FLOAT64"))
    assert {problem.severity for problem in graph.check()} == {"undocumented"}
    values = np.arange(6.0).reshape(2, 3)
    found = dml.compile(graph, "numpy")(given=values).made
    np.testing.assert_array_equal(found, np.tile(values, (2, 1)))


def test_expressions_take_undocumented_types() -> None:
    graph = x.tile(x.input("given", [2, 3], "FLOAT64"), repeats=[2, 1]).graph()
    assert {problem.severity for problem in graph.check()} == {"undocumented"}


def test_onnx_models_run_undocumented_nodes_on_the_host() -> None:
    node = helper.make_node("Tile", ["given", "repeats"], ["made"])
    inputs = [helper.make_tensor_value_info("given", TensorProto.DOUBLE, [2, 3])]
    outputs = [helper.make_tensor_value_info("made", TensorProto.DOUBLE, [4, 3])]
    repeats = helper.make_tensor("repeats", TensorProto.INT64, [2], [2, 1])
    graph = helper.make_graph([node], "undocumented", inputs, outputs, [repeats])
    model = dml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
    (record,) = model.report().nodes
    assert (record.where, {problem.severity for problem in record.problems}) == ("host", {"undocumented"})


# files


def _written(path: Path, desc: OperatorDesc | Graph) -> Path:
    path.write_text(json.dumps(desc.to_dict()))
    return path


def _model(desc: OperatorDesc) -> dict[str, Any]:
    resource = {"initialValuesDataType": "FLOAT64", "initialValues": {"valueCount": 6, "value": 1}}
    out = {"initialValuesDataType": "FLOAT64", "initialValues": {"valueCount": 12, "value": 0}}
    bindings = {"InputTensor": "x", "OutputTensor": "y"}
    return {
        "resources": {"x": resource, "y": out},
        "dispatchables": {"tile": {"type": desc.type_name, "desc": desc.to_dict()["Desc"]}},
        "commands": [{"type": "dispatch", "dispatchable": "tile", "bindings": bindings}],
    }


@pytest.fixture(params=["desc", "graph", "model"])
def undocumented_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    desc = _desc("TILE", "FLOAT64")
    path = tmp_path / "undocumented.json"
    if request.param == "model":
        path.write_text(json.dumps(_model(desc)))
        return path
    return _written(path, desc if request.param == "desc" else _graph(desc))


def _checked(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["check", *arguments])


def test_undocumented_types_are_listed_and_do_not_fail(undocumented_file: Path) -> None:
    result = _checked(str(undocumented_file))
    assert result.exit_code == 0
    assert "no problems, 2 undocumented types" in result.stdout
    lines = [line for line in result.stderr.splitlines() if line.startswith("undocumented: ")]
    assert len(lines) == 2
    assert all("ONNX Runtime 1.25 registers it" in line for line in lines)


def test_undocumented_types_fail_if_asked(undocumented_file: Path) -> None:
    assert _checked(str(undocumented_file), "--fail-on-undocumented").exit_code == 1
    sarif = json.loads(_checked(str(undocumented_file), "--fail-on-undocumented", "--format", "sarif").stdout)
    assert sarif["runs"][0]["invocations"][0]["exitCode"] == 1


def test_undocumented_types_in_formats_of_programs(undocumented_file: Path) -> None:
    listed = json.loads(_checked(str(undocumented_file), "--json").stdout)
    assert listed["problems"] == 0
    assert [problem["severity"] for problem in listed["files"][0]["problems"]] == ["undocumented"] * 2
    log = json.loads(_checked(str(undocumented_file), "--format", "sarif").stdout)
    jsonschema.Draft202012Validator(SARIF).validate(log)
    results = log["runs"][0]["results"]
    assert [(result["level"], result["properties"]) for result in results] == [("warning", {"severity": "undocumented"})] * 2
    lines = _checked(str(undocumented_file), "--format", "github").stdout.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::warning"] * 2


def test_explain_shows_facts_and_undocumented_types() -> None:
    found = explain("TILE")
    assert [entry.operator for entry in found.undocumented] == ["TILE", "TILE"]
    assert any("ONNX Runtime 1.25 registers it for Tile" in line for line in found.shown())
    shown = CliRunner().invoke(app, ["explain", "ELEMENT_WISE_CLIP1"]).stdout
    assert "What released programs show" in shown
    assert "ONNX Runtime 1.25, DmlOperatorCast.cpp" in shown
    assert explain("LSTM_TRAINING").shown() == []
