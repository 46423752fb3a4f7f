"""`check_file` and `dmlpy check`: every kind of file, where its problems are, what programs read, and what is never read."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.dxdispatch import Folders, ModelError, load, run
from dmlpy.dxdispatch import text as json_text
from dmlpy.dxdispatch.checker import Report, check_file
from dmlpy.dxdispatch.report import Finding, is_unreadable
from dmlpy.graphs import load_serialized
from dmlpy.messages.problems import MAX_PROBLEMS, MAX_REPORTED
from dmlpy.validation.checking import parse_level
from tests.support.dxdispatch.models import Data, put, rnn_model, write
from tests.support.graphs.flatbuffer_writer import Constant, Dump, operator
from tests.support.graphs.flatbuffer_writer import write as serialized

TENSOR: Data = {"DataType": "FLOAT32", "Sizes": [2, 3]}
DESC: Data = {"Type": "GEMM", "ATensor": TENSOR, "BTensor": {"DataType": "FLOAT32", "Sizes": [3, 4]}}
DESC |= {"OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 4]}, "TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 0}


def desc() -> Data:
    copied: Data = json.loads(json.dumps(DESC))
    return copied


def can_be_read(report: Report) -> bool:
    return not any(is_unreadable(finding.problems) for finding in report.findings)


def nested() -> Data:
    """The same with everything in `Desc` that may be."""
    members = {name: value for name, value in desc().items() if name != "Type"}
    for name in ("ATensor", "BTensor", "OutputTensor"):
        members[name] = {"Type": "BUFFER", "Desc": members[name]}
    return {"type": "DML_OPERATOR_GEMM", "desc": members}


def graph() -> Data:
    """x -> RELU -> y."""
    relu = {"Type": "ACTIVATION_RELU", "Name": "relu", "Desc": {"InputTensor": TENSOR, "OutputTensor": TENSOR}}
    data: Data = {
        "InputNames": ["x"],
        "OutputNames": ["y"],
        "Nodes": [relu],
        "InputEdges": [{"GraphInputIndex": "x", "ToNodeIndex": "relu", "ToNodeInputIndex": 0}],
        "OutputEdges": [{"FromNodeIndex": "relu", "FromNodeOutputIndex": 0, "GraphOutputIndex": "y"}],
    }
    copied: Data = json.loads(json.dumps(data))
    return copied


def dump(*, sizes: tuple[int, ...] = (2, 3), constant: str | None = None) -> bytes:
    """a, b -> ADD -> y in ONNX Runtime's form; b may be a constant in a file."""
    a = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])
    kind = dml.OperatorDesc.from_dict
    add = kind({"Type": "ELEMENT_WISE_ADD", **{f"{name}Tensor": TENSOR for name in "AB"}, "OutputTensor": TENSOR})
    add = add.replace(b_tensor=a if constant is None else a.replace(flags="OWNED_BY_DML"), output_tensor=a.replace(sizes=sizes))
    nodes: list[Any] = [] if constant is None else [Constant("weights", "b", file=constant)]
    inputs = ["a", "b"] if constant is None else ["a"]
    return serialized(Dump([*nodes, operator("add", add, ["a", "b"], ["y"])], inputs, ["y"]))


def graph_model(folder: Path, **members: Any) -> Path:
    """A model whose dispatchable is the serialized graph `graph.bin`."""
    floats = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 6, "value": 1}}
    data = {
        "resources": dict.fromkeys("aby", floats),
        "dispatchables": {"g": {"type": "dmlSerializedGraph", "sourcePath": "graph.bin", **members}},
        "commands": [{"type": "dispatch", "dispatchable": "g", "bindings": {name: name for name in "aby"}}],
    }
    return write(folder, json.dumps(data, indent=1))


def told(report: Report) -> list[tuple[str, str, str]]:
    """Code, path in C's spelling, and the text at the position, up to the end of its line."""
    lines = report.path.read_text(encoding="utf-8").splitlines()
    items = [item for item in report.to_dict()["problems"] if item["line"]]
    return [(item["code"], item["c_path"], lines[item["line"] - 1][item["column"] - 1 :]) for item in items]


# --- kinds of files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind", "level"),
    [
        (desc(), "desc", "4_0"),
        (nested(), "desc", "4_0"),
        (graph(), "graph", "3_0"),
        ({name[:1].lower() + name[1:]: value for name, value in graph().items()} | {"Nodes": graph()["Nodes"]}, "graph", None),
        (rnn_model(), "model", "1_0"),
        (dump(), "serialized graph", "3_0"),
    ],
    ids=["flat desc", "nested desc", "graph", "graph with a wrong member", "model", "serialized graph"],
)
def test_kinds_of_files(tmp_path: Path, data: Data | bytes, kind: str, level: str | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    report = check_file(path)
    assert (report.kind, can_be_read(report)) == (kind, True)
    if level is None:
        assert report.findings
        assert report.lowest_feature_level is None
        return
    assert (report.findings, str(report.lowest_feature_level)) == ((), level)
    assert report.text().endswith(f": no problems; needs feature level {level} (DirectML {parse_level(level).directml_version})")
    lower = [known for known in dml.FeatureLevel if known < parse_level(level)]
    if lower:
        below = check_file(path, max(lower))
        assert below.findings, "one level lower it has problems"
        assert below.lowest_feature_level is None


def test_the_level_of_a_model_is_that_of_its_most_demanding_operator(tmp_path: Path) -> None:
    data = rnn_model()
    data["dispatchables"]["gemm"] = desc()
    assert str(check_file(write(tmp_path, data)).lowest_feature_level) == "4_0"
    assert check_file(write(tmp_path, put(put(data, "dispatchables", {}), "commands", []))).lowest_feature_level is None


@pytest.mark.parametrize(
    ("changed", "remedies"),
    [
        ({"resource": {}}, {"resource": "did you mean resources?"}),
        ({"Commands": [], "x": 1}, {"Commands": "did you mean commands?", "x": None}),
        ({"$schema": "x", "_note": "y"}, {}),
    ],
    ids=str,
)
def test_unknown_members_of_a_model_are_ignored_as_those_of_its_parts_are(
    tmp_path: Path, changed: Data, remedies: dict[str, str | None]
) -> None:
    report = check_file(write(tmp_path, rnn_model() | changed))
    assert not report.findings
    found = [problem for warning in report.warnings for problem in warning.problems]
    assert {problem.path: problem.remedy for problem in found if problem.code == "member.ignored"} == remedies
    columns = [position.column for warning in report.warnings for position in warning.positions]
    assert len(set(columns)) == len(remedies) == len(found), "each has the position of its key"


def test_a_missing_part_is_told_with_the_member_that_it_may_be(tmp_path: Path) -> None:
    data = rnn_model()
    data["resource"] = data.pop("resources")
    problem = next(problem for finding in check_file(write(tmp_path, data)).findings for problem in finding.problems)
    assert (problem.code, problem.path, problem.remedy) == ("field.missing", "resources", "did you mean resources by 'resource'?")


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        ({"resource": {}, "command": []}, "did you mean resources by 'resource'?"),
        ({"Typ": "DML_OPERATOR_GEMM"}, "did you mean Type by 'Typ'?"),
        ({"Node": []}, "did you mean Nodes by 'Node'?"),
        ({"x": 1}, None),
    ],
    ids=str,
)
def test_files_whose_members_are_misspelled(tmp_path: Path, data: Data, remedy: str | None) -> None:
    [finding] = check_file(write(tmp_path, data)).findings
    assert [(problem.code, problem.remedy) for problem in finding.problems] == [("json.root", remedy)]


def test_remedies_are_those_of_files(tmp_path: Path) -> None:
    """Python's remedies name calls, which a file has not."""
    relu = {"Type": "DML_OPERATOR_ACTIVATION_RELU", "Desc": {"InputTensor": {"DataType": "FLOAT16", "Sizes": [2, 3]}}}
    nothing = {"Type": "DML_OPERATOR_ACTIVATION_RELU", "Desc": {}}
    entries = {name: {"type": data["Type"], "desc": data["Desc"]} for name, data in (("relu", relu), ("nothing", nothing))}
    found = check_file(write(tmp_path, put(put(rnn_model(), "dispatchables", entries), "commands", []))).text()
    assert "remedy: describe it: FLOAT16 [2, 3]\n" in found
    assert "remedy: describe it\n" in f"{found}\n"
    assert "with_outputs" not in found
    assert "describe it: FLOAT16 [2, 3]" in json.dumps(check_file(write(tmp_path, relu)).to_dict())


def test_files_that_hold_nothing_known(tmp_path: Path) -> None:
    for content, code, readable in [
        (b"{}", "json.root", True),
        (b"[]", "json.root", True),
        (b"", "json.syntax", True),
        (b"\xff\xfe{\x00}\x00", "json.encoding", True),
        (b"\x10\x00\x00\x00", "serialized", True),
        (b"\x10\x00\x00\x00" + bytes(60), "serialized", True),
        (bytes(1000), "serialized", True),
        (b"<\x00\x00\x00" + bytes(60), "serialized", True),  # an offset of 60, as a graph may begin, and not HTML
        (b"PK\x03\x04\x14" + bytes(60), "file.format", True),
        (b"\x1c\x00\x00\x00TFL3" + bytes(60), "file.format", True),
        (b'\x40\x00\x00\x00\x00\x00\x00\x00{"w":{"dtype":"F32"}}' + bytes(60), "file.format", True),
        (b"\x80\x04\x95\x10", "file.format", True),
        (b"<!DOCTYPE html>", "file.format", True),
        (b"version https://git-lfs.github.com/spec/v1\n", "file.format", True),
        (b"\xef\xbb\xbf // a comment\n{}", "json.root", True),
        (None, "file.unreadable", False),
    ]:
        path = tmp_path / "file"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        report = check_file(path)
        codes = [problem.code for finding in report.findings for problem in finding.problems]
        assert len(codes) == 1, content
        assert codes[0].startswith(("serialized", "flatbuffer") if code == "serialized" else code), (content, codes)
        assert can_be_read(report) == readable
    assert not can_be_read(check_file(tmp_path))


def test_large_files_of_other_formats_are_named_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MAX_BYTES", 100)
    for content, code in ((b"GGUF" + bytes(200), "file.format"), (b"{" + b" " * 200, "file.size")):
        (tmp_path / "file").write_bytes(content)
        report = check_file(tmp_path / "file")
        assert [problem.code for finding in report.findings for problem in finding.problems] == [code]


# --- positions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [False, True], ids=["flat", "nested"])
def test_positions_in_a_desc(tmp_path: Path, inside: bool) -> None:
    base = nested() if inside else desc()
    members = base["desc"] if inside else base
    tensor = members["BTensor"]["Desc"] if inside else members["BTensor"]
    tensor["Sizes"] = [5, 4]
    tensor["Flag"] = "NONE"
    members["Beta"] = "one"
    members["Gamma"] = 3
    del members["Alpha"]
    found = {(code, path): text for code, path, text in told(check_file(write(tmp_path, json.dumps(base, indent=1))))}
    assert found["size.equal", "BTensor.Sizes[0]"] == "5,"
    assert found["field.unknown", "BTensor.Flag"].startswith('"Flag"')
    assert found["field.form", "Beta"].startswith('"one"')
    assert found["field.unknown", "Gamma"] == '"Gamma": 3'
    assert found["field.missing", "Alpha"] == "{"
    assert len(found) == 5


def test_positions_in_a_model(tmp_path: Path) -> None:
    data = rnn_model()
    put(data, "resources/x/initialValues", [1, 2, "three"])
    put(data, "resources/w", {"initialValues": {"sourcePath": "absent.npy"}})
    put(data, "resources/r/sizeInByte", 4)
    put(data, "dispatchables/rnn/desc/WeightTensor", {"Type": "BUFFER", "Desc": {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 77]}})
    put(data, "dispatchables/rnn/executionFlags", "FAST")
    put(data, "commands/0/bindings/Input", "x")
    put(data, "commands/0/bindings/WeightTensor", {"name": "ww"})
    put(data, "commands/1/resource", "z")
    text = json.dumps(data, indent=1).replace('"FORWARD"', '"FORWARD", // a comment').replace("77", "/* here */ 77")
    found = told(check_file(write(tmp_path, text)))
    wanted = [
        ("value.form", "initialValues[2]", '"three"'),
        ("file.missing", "initialValues.sourcePath", '"absent.npy"'),
        ("size.equal", "WeightTensor.Sizes[3]", "77"),
        ("field.form", "executionFlags", '"FAST"'),
        ("bind.resource", "WeightTensor", "{"),
        ("bind.unknown", "Input", '"Input": "x"'),
        ("command.name", "resource", '"z"'),
    ]
    assert found == wanted
    (unknown,) = told(check_file(write(tmp_path, put(put(rnn_model(), "resources/r/sizeInByte", 4), "commands/1/resource", "y"))))
    assert unknown[:2] == ("member.ignored", "sizeInByte")
    assert unknown[2].startswith('"sizeInByte": 4')


def test_positions_in_a_graph(tmp_path: Path) -> None:
    data = graph()
    put(data, "Nodes/0/Desc/OutputTensor/Sizes", [2, 77])
    put(data, "OutputEdges/0/FromNodeOutputIndex", 9)
    found = told(check_file(write(tmp_path, json.dumps(data, indent=1))))
    assert ("size.equal", "Nodes[0].OutputTensor.Sizes[1]", "77") in found
    assert ("graph.index", "OutputEdges[0].FromNodeOutputIndex", "9,") in found
    text = check_file(write(tmp_path, json.dumps(data, indent=1))).text()
    assert "from InputTensor.Sizes[1]" in text, "as the file spells its members"


def test_keys_given_twice_and_syntax_errors_have_positions(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(desc(), indent=1).replace('"Beta": 0', '"Beta": 0,\n "Beta": 0'))
    assert [item[::2] for item in told(check_file(path))] == [("json.duplicate", '"Beta": 0')]
    path = write(tmp_path, '{"Type": "GEMM",\n  "ATensor": tru}')
    assert [item[::2] for item in told(check_file(path))] == [("json.syntax", "tru}")]


def test_editors_can_jump_to_each_problem(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(put(desc(), "BTensor/Sizes", [5, 4]), indent=1))
    report = check_file(path)
    (position,) = report.findings[0].positions
    headline = report.text().splitlines()[1]
    assert headline.startswith(f"{path}:{position.line}:{position.column}: BTensor.Sizes[0] is 5, expected ")
    with pytest.raises(ModelError) as caught:
        load(write(tmp_path, put(rnn_model(), "commands/1/resource", "z")))
    assert str(caught.value).splitlines()[1].startswith(f"{path}:1:")
    assert Finding("", report.findings[0].problems).text().splitlines()[1].startswith(" 1. ")


# --- serialized graphs in models --------------------------------------------------------------------------------------------


def test_a_serialized_graph_in_a_model(tmp_path: Path) -> None:
    path = graph_model(tmp_path)
    (tmp_path / "graph.bin").write_bytes(dump())
    report = check_file(path)
    assert (report.findings, report.warnings, str(report.lowest_feature_level)) == ((), (), "3_0")
    data = json.loads(path.read_text(encoding="utf-8"))
    data["commands"].append({"type": "print", "resource": "y"})
    lines: list[str] = []
    run(load(write(tmp_path, data)), dml.device("numpy"), inform=lines.append)
    assert lines[-1] == "Resource 'y': 2, 2, 2, 2, 2, 2", "1 + 1"
    table: list[tuple[dict[str, Any], tuple[str, str] | None]] = [
        ({"commands/0/bindings/b": None}, ("bind.missing", "bind point b of dispatchable 'g'")),
        ({"commands/0/bindings/c": "a"}, ("bind.unknown", "c")),
        ({"resources/b/initialValues/valueCount": 5}, ("bind.size", "b")),
        ({"dispatchables/g/executionFlags": "FAST"}, ("field.form", "executionFlags")),
        ({"dispatchables/g/bindings": {"a": "a"}}, ("bind.owned", "a")),
        ({"dispatchables/g/sourcePath": "absent.bin"}, ("file.missing", "")),
        ({"dispatchables/g/sourcePath": "model.json"}, None),
    ]
    for changes, wanted in table:
        data = json.loads(graph_model(tmp_path).read_text(encoding="utf-8"))
        for place, value in changes.items():
            put(data, place, value)
        found = check_file(write(tmp_path, data)).to_dict()["problems"]
        assert len(found) == 1, found
        assert wanted is None or (found[0]["code"], found[0]["path"]) == wanted
        assert found[0]["line"]


def test_problems_of_a_serialized_graph_stand_where_the_model_names_it(tmp_path: Path) -> None:
    (tmp_path / "graph.bin").write_bytes(dump(sizes=(2, 4)))
    (problem,) = {text for *_, text in told(check_file(graph_model(tmp_path)))}
    assert problem == '"graph.bin"'
    assert "OutputTensor.Sizes[1] is 4" in check_file(graph_model(tmp_path)).text()
    assert check_file(tmp_path / "graph.bin").to_dict()["problems"][0]["line"] is None


def test_dumps_are_checked_leniently_and_graphs_on_demand(tmp_path: Path) -> None:
    """ONNX Runtime reads bytes as other types on purpose, and a partition may have inputs that nothing reads."""
    tensors = [dml.TensorDesc(data_type=data_type, sizes=[2, 3]) for data_type in ("FLOAT32", "INT32")]
    descs = [dml.ActivationReluDesc(input_tensor=tensor, output_tensor=tensor) for tensor in tensors]
    nodes = [operator("first", descs[0], ["a"], ["t"]), operator("second", descs[1], ["t"], ["y"])]
    data = serialized(Dump(nodes, ["a", "b"], ["y"]))
    (tmp_path / "graph.bin").write_bytes(data)
    assert check_file(tmp_path / "graph.bin").findings == ()
    assert check_file(graph_model(tmp_path)).findings == ()
    path = tmp_path / "graph.json"
    path.write_text(load_serialized(data).graph.to_json())
    assert {item[0] for item in told(check_file(path))} == {"graph.data_type", "graph.unused_input"}
    assert check_file(path, lenient=True).findings == ()


def test_all_missing_constants_are_reported(tmp_path: Path) -> None:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])
    relu = dml.ActivationReluDesc(input_tensor=tensor.replace(flags="OWNED_BY_DML"), output_tensor=tensor)
    nodes = [Constant(name, f"{name}-out", file=name) for name in "cd"]
    nodes += [operator(f"relu {name}", relu, [f"{name}-out"], [f"y {name}"]) for name in "cd"]  # type: ignore[misc]
    (tmp_path / "graph.bin").write_bytes(serialized(Dump(nodes, [], ["y c", "y d"])))
    found = check_file(tmp_path / "graph.bin").to_dict()["problems"]
    assert [(item["code"], item["found"]) for item in found] == [("file.missing", f"'{name}.bin', no file") for name in "cd"]


def test_constants_lie_next_to_their_graph(tmp_path: Path) -> None:
    (tmp_path / "graph.bin").write_bytes(dump(constant="weights"))
    assert [problem.code for problem in check_file(tmp_path / "graph.bin").findings[0].problems] == ["file.missing"]
    np.ones(6, np.float32).tofile(tmp_path / "weights.bin")
    assert check_file(tmp_path / "graph.bin").findings == ()
    data = json.loads(graph_model(tmp_path).read_text(encoding="utf-8"))
    del data["commands"][0]["bindings"]["b"]
    assert check_file(write(tmp_path, data)).findings == (), "a constant needs no binding"
    data["commands"].append({"type": "print", "resource": "y"})
    (np.arange(6, dtype=np.float32)).tofile(tmp_path / "weights.bin")
    lines: list[str] = []
    run(load(write(tmp_path, data)), dml.device("numpy"), inform=lines.append)
    assert lines[-1] == "Resource 'y': 1, 2, 3, 4, 5, 6", "its values are read from the file"
    (tmp_path / "weights.bin").write_bytes(b"too few")
    assert [problem.code for problem in check_file(tmp_path / "graph.bin").findings[0].problems] == ["file.size"]


# --- untrusted files ------------------------------------------------------------------------------------------------------------


def test_nothing_outside_the_folders_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    monkeypatch.chdir(inside)
    (outside / "graph.bin").write_bytes(dump())
    np.ones(6, np.float32).tofile(outside / "weights.bin")
    (inside / "link.bin").symlink_to(outside / "graph.bin")
    (inside / "folder").symlink_to(outside, target_is_directory=True)
    for name in ("../outside/graph.bin", str(outside / "graph.bin"), "link.bin", "folder/graph.bin", "..\\outside\\graph.bin"):
        (problem,) = check_file(graph_model(inside, sourcePath=name)).to_dict()["problems"]
        assert problem["code"] == "file.outside", name
    (inside / "weights.bin").symlink_to(outside / "weights.bin")
    for name in ("../outside/weights", str(outside / "weights"), "folder/weights", "weights", "..\\outside\\weights"):
        (inside / "graph.bin").write_bytes(dump(constant=name))
        (problem,) = check_file(inside / "graph.bin").to_dict()["problems"]
        assert problem["code"] in ("file.outside", "file.name"), name


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are files of POSIX")
def test_only_regular_files_are_checked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not can_be_read(check_file(tmp_path / "pipe"))
    if sys.platform == "linux":
        assert not can_be_read(check_file(Path("/dev/zero")))


def test_deep_and_long_texts_are_bounded(tmp_path: Path) -> None:
    for text in ('{"Type": ' * 65 + "1" + "}" * 65, '{"Type": ' + "[" * 10**5, '{"a": ' * 10**5):
        (problem,) = check_file(write(tmp_path, text)).to_dict()["problems"]
        assert problem["code"] == "json.depth"
    data = rnn_model()
    data["commands"] = [{"type": "print", "resource": f"r{index}"} for index in range(3000)]
    report = check_file(write(tmp_path, data))
    assert report.problem_count == MAX_PROBLEMS + 1, "the last one says that the rest was not read"
    assert len(report.text().splitlines()) < 200


def test_long_files_are_checked_in_time_that_grows_with_their_length(tmp_path: Path) -> None:
    """Positions and names are looked up, not searched for: 16 times these texts would take minutes if they were."""
    began = time.perf_counter()
    assert check_file(write(tmp_path, {**graph(), **{f"k{index}": 1 for index in range(3000)}})).problem_count == MAX_REPORTED + 1
    node, edge = graph()["Nodes"][0], graph()["InputEdges"][0]
    nodes = [{**node, "Name": f"n{index}"} for index in range(3000)]
    edges = [{**edge, "ToNodeIndex": f"n{index}"} for index in range(3000)]
    report = check_file(write(tmp_path, {**graph(), "Nodes": nodes, "InputEdges": edges, "OutputEdges": []}))
    assert report.problem_count == MAX_PROBLEMS + 1, "no output is read, and the graph's is not written"
    assert time.perf_counter() - began < 8


def test_folders_of_the_command_line_replace_the_file_s_own(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "graph.bin").write_bytes(dump())
    path = graph_model(tmp_path)
    assert check_file(path, input_path=other).findings == ()
    assert load(path, Folders((other,), tmp_path)).dispatchables["g"].bind_points()[0].name == "a"
