"""`dmlpy onnx check`, `dmlpy onnx run`, `dmlpy onnx export`, and `dmlpy check` of ONNX models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper
from onnx.helper import make_node

import dmlpy as dml
from tests.support.commands import dmlpy
from tests.support.graphs.flatbuffer_writer import dump_of, write
from tests.support.onnx.models import model


def written(folder: Path, built: ModelProto, name: str = "net.onnx") -> Path:
    path = folder / name
    path.write_bytes(built.SerializeToString())
    return path


def good() -> ModelProto:
    return model([make_node("Relu", ["x"], ["out/y"], name="act")], {"x": ["n", 3]}, ["out/y"])


def mixed() -> ModelProto:
    return model([make_node("Unique", ["x"], ["u"], name="unique"), make_node("Neg", ["x"], ["y"])], {"x": [2, 3]}, ["y", "u"])


def test_check_shows_the_nodes_and_the_reasons(tmp_path: Path) -> None:
    path = written(tmp_path, good())
    status, out, _ = dmlpy("onnx", "check", path, "--size", "n=2", "--all")
    assert (status, "ACTIVATION_RELU" in out, "1: 1 on DirectML" in out) == (0, True, True)
    assert "ACTIVATION_RELU" not in dmlpy("onnx", "check", path, "--size", "n=2")[1]
    status, out, _ = dmlpy("onnx", "check", path)
    assert (status, "1: 1 on DirectML, with n=1" in out, "open sizes   n" in out) == (0, True, True)
    assert json.loads(dmlpy("onnx", "check", path, "--json")[1])["files"][0]["tried_sizes"] == {"n": 1}
    status, out, _ = dmlpy("onnx", "check", written(tmp_path, mixed(), "mixed.onnx"))
    assert (status, "node 'unique' (Unique) falls back to the host" in out) == (1, True)
    assert dmlpy("onnx", "check", path, "--like", "onnxruntime", "--size", "x=2,3")[0] == 0


def test_check_has_the_formats_of_dmlpy_check(tmp_path: Path) -> None:
    path = written(tmp_path, mixed())
    status, out, _ = dmlpy("onnx", "check", path, "--json", "--feature-level", "5_0")
    (found,) = json.loads(out)["files"]
    assert status == json.loads(out)["problems"] == 1
    assert (found["kind"], found["feature_level"], found["problems"][0]["code"]) == ("ONNX model", "5_0", "onnx.kernel")
    assert [node["where"] for node in found["nodes"]] == ["host", "directml"]
    sarif = json.loads(dmlpy("onnx", "check", path, "--format", "sarif")[1])
    assert sarif["runs"][0]["results"][0]["ruleId"] == "onnx.kernel"
    assert dmlpy("onnx", "check", path, "--format", "github")[1].startswith("::error file=")


def test_check_writes_a_page(tmp_path: Path) -> None:
    path, page = written(tmp_path, mixed()), tmp_path / "report.html"
    status, out, _ = dmlpy("onnx", "check", path, "--html", page)
    assert (status, "likely cause" in out) == (1, True)
    assert page.read_text().startswith("<!doctype html>")
    assert "unique" in page.read_text()
    status, _, err = dmlpy("onnx", "check", path, path, "--html", page)
    assert (status, "one file" in err) == (2, True)
    status, _, err = dmlpy("onnx", "check", path, "--html", tmp_path / "net.onnx" / "page.html")
    assert (status, "cannot be written" in err) == (2, True)


def test_limits_are_raised_and_lowered(tmp_path: Path) -> None:
    path = written(tmp_path, mixed())
    for command in ("check", "run"):
        status, out, err = dmlpy("onnx", command, path, "--limit", "nodes=1")
        assert (status != 0, "onnx.limit" in out + err, "--limit nodes=..." in out + err) == (True, True, True)
        assert "onnx.limit" not in "".join(dmlpy("onnx", command, path, "--limit", "nodes=2", "--limit", "unrolled=0")[1:])
        status, out, err = dmlpy("onnx", command, path, "--limit", "node=2")
        assert (status != 0, "did you mean" in err, "'node=2'" in err) == (True, True, True)


STATUSES = {
    "damaged": (1, "net.onnx", lambda data: data[:-7], [], "onnx.protobuf"),
    "empty": (1, "net.onnx", lambda data: b"", [], "onnx.protobuf"),
    "absent": (2, "net.onnx", None, [], "onnx.file file.unreadable"),
    "wrong level": (2, "net.onnx", lambda data: data, ["--feature-level", "9_9"], "field.form"),
    "damaged JSON": (1, "net.json", lambda data: b"{", [], "json.syntax"),
    "damaged dump": (1, "net.json", lambda data: b"\0\1\2\3\0\0\0\0", [], "flatbuffer. json.syntax"),
    "absent JSON": (2, "net.json", None, [], "file.unreadable"),
}
"""Files and arguments with the exit status of every command that takes them, and the codes that commands name."""


@pytest.mark.parametrize("case", STATUSES)
def test_every_command_ends_with_the_same_status(case: str, tmp_path: Path) -> None:
    status, name, change, more, codes = STATUSES[case]
    path = tmp_path / name
    if change is not None:
        path.write_bytes(change(good().SerializeToString()))
    commands = [["check"], ["run"], *([["onnx", "check"], ["onnx", "run"]] if path.suffix == ".onnx" else [["onnx", "export"]])]
    for command in commands:
        found, out, err = dmlpy(*command, path, *more)
        assert (found, any(code in out + err for code in codes.split())) == (status, True), (command, out, err)


def test_what_is_wrong_has_a_status(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    wrong = good()
    wrong.graph.node[0].op_type = "Relo"
    status, out, _ = dmlpy("onnx", "check", written(tmp_path, wrong))
    assert (status, "Relo" in out) == (1, True)
    assert "batch=1" in dmlpy("onnx", "check", written(tmp_path, good()), "--size", "n")[2]
    assert "--like is" in dmlpy("onnx", "check", broken, "--like", "tvm")[2]
    assert "--format is" in dmlpy("onnx", "check", broken, "--format", "xml")[2]


ARGUMENTS: dict[str, tuple[str, list[str]]] = {
    "--size N is neither a symbol nor an input, expected one of [n, x]": ("onnx check, onnx run", ["--size", "N=1"]),
    "--size x is 3, expected the sizes of the input": ("onnx check, onnx run", ["--size", "x=3"]),
    "--size x is [2, 4], expected sizes that the input has": ("onnx check, onnx run", ["--size", "x=2,4"]),
    "--input y is no input of the model, expected one of [x]": ("onnx run", ["--input", "y=x.npy"]),
    "--input x is of sizes [2], expected float32 [n, 3]": ("onnx run", ["--input", "x=x.npy"]),
    "remedy: --input x=FILE.npy": ("onnx run", []),
    "--binding_shape x is [2, 4], expected sizes of float32 [n, 3]": ("run", ["-b", "x:2,4"]),
    "--binding_shape out/y is [4, 3], expected sizes of float32 [2, 3]": ("run", ["-b", "x:2,3", "-b", "out/y:4,3"]),
}
"""What wrong options are told, with the commands that take them: all end with 2."""


@pytest.mark.parametrize("told", ARGUMENTS)
def test_options_that_do_not_fit_the_model_are_wrong_arguments(told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones(2, np.float32))
    path = written(tmp_path, good())
    commands, options = ARGUMENTS[told]
    for command in commands.split(", "):
        device = [] if command == "onnx check" else ["--device", "numpy"]
        status, out, err = dmlpy(*command.split(), path, *device, *options)
        assert (status, told in out + err) == (2, True), (command, out, err)


@pytest.mark.parametrize("command", ["check", "run", "export"])
def test_models_and_graphs_are_read_from_standard_input(command: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    graph = dml.GraphBuilder()
    x = graph.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=[2]))
    graph.output("y", graph.add(dml.ActivationReluDesc, "relu", input_tensor=x))
    given = graph.build().to_json().encode() if command == "export" else good().SerializeToString()
    target = tmp_path / "made.onnx"
    given_options: dict[str, list[object]] = {
        "check": [],
        "run": ["--input", f"x={tmp_path / 'x.npy'}", "--device", "numpy"],
        "export": ["--output", target],
    }
    options = given_options[command]
    status, out, err = dmlpy("onnx", command, "-", *options, stdin=given)
    told = {"check": "1: 1 on DirectML", "run": "out/y: float32 [1, 3]", "export": f"{target}: 1 nodes of ONNX for 1 of the graph"}
    assert (status, told[command] in out) == (0, True), (out, err)
    assert dmlpy("onnx", command, "-", *options, stdin=b"\1\2\3")[0] == 1
    if command == "export":
        status, _, err = dmlpy("onnx", "export", "-", stdin=given)
        assert (status, "pass --output MODEL.onnx" in err) == (2, True)
        assert dmlpy("onnx", "export", ".")[0] == 2


def test_other_commands_name_those_of_onnx_models(tmp_path: Path) -> None:
    status, out, _ = dmlpy("check", "-", stdin=good().SerializeToString())
    assert (status, "dmlpy onnx check checks it" in out) == (1, True)


def test_dmlpy_check_takes_onnx_models(tmp_path: Path) -> None:
    status, out, _ = dmlpy("check", written(tmp_path, mixed()))
    assert (status, "node 'unique' (Unique): 1 problem" in out or "node 'unique' (Unique)" in out) == (1, True)
    plain = written(tmp_path, model([make_node("Abs", ["x"], ["y"])], {"x": [2]}, ["y"]), "plain.onnx")
    assert dmlpy("check", plain)[:2] == (0, f"{plain}: no problems; needs feature level 1_0 (DirectML 1.0.0)\n")


def test_run_reads_and_writes_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, -2, 3]], np.float32))
    path = written(tmp_path, good())
    status, out, err = dmlpy("onnx", "run", path, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out", "--device", "numpy")
    assert (status, err) == (0, "")
    assert out.splitlines()[1].startswith("out/y: float32 [1, 3] in ")
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "out_y.npy"), [[1, 0, 3]])
    assert "not written" in dmlpy("onnx", "run", path, "--input", f"x={tmp_path / 'x.npy'}", "--device", "numpy")[2]


def test_a_run_is_profiled(tmp_path: Path) -> None:
    path, trace = written(tmp_path, mixed()), tmp_path / "trace.json"
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    arguments = ("onnx", "run", path, "--input", f"x={tmp_path / 'x.npy'}", "--device", "numpy")
    status, out, _ = dmlpy(*arguments, "--trace", trace)
    assert (status, "2 nodes one by one" in out, f"trace in {trace}" in out) == (0, True, True)
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"}
    assert "unique" in names
    assert "one by one" in dmlpy(*arguments, "--profile")[1]
    assert "one by one" not in dmlpy(*arguments)[1]


def test_outputs_whose_names_differ_only_in_odd_characters_have_files_of_their_own(tmp_path: Path) -> None:
    nodes = [make_node(operator, ["x"], [name]) for operator, name in (("Relu", "a/b"), ("Neg", "a:b"), ("Abs", "A_b"))]
    path = written(tmp_path, model(nodes, {"x": [2]}, ["a/b", "a:b", "A_b"]))
    np.save(tmp_path / "x.npy", np.array([-1, 2], np.float32))
    assert dmlpy("onnx", "run", path, "--device", "numpy", "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "o")[0] == 0
    found = {file.name: np.load(file).tolist() for file in (tmp_path / "o").iterdir()}
    assert found == {"a_b.npy": [0, 2], "a_b_1.npy": [1, -2], "A_b_2.npy": [1, 2]}


ODD = "\x1b]0;t\x07\r\x00\x9b\u202e[/red]"


@pytest.mark.parametrize("like", ["dmlpy", "onnxruntime"])
@pytest.mark.parametrize("place", ["node", "domain", "operator", "size", "input", "graph"])
def test_names_do_not_control_the_terminal(place: str, like: str, tmp_path: Path) -> None:
    names = {name: ODD if name == place else name for name in ("node", "input", "size", "graph")}
    odd = {"domain": ODD} if place == "domain" else {}
    node = make_node(f"Relu{ODD}" if place == "operator" else "Relu", [names["input"]], ["y"], names["node"], **odd)
    built = model([node, make_node("Unique", [names["input"]], ["u"])], {names["input"]: [names["size"], 3]}, ["y", "u"])
    built.graph.name = names["graph"]
    path = written(tmp_path, built)
    told = [*dmlpy("onnx", "check", path, "--all", "--like", like)[1:], *dmlpy("check", path)[1:], *dmlpy("onnx", "run", path)[1:]]
    assert [text for text in told if not text.replace("\n", "").isprintable()] == []
    assert place == "graph" or r"\x1b]0;t\x07\r\x00\x9b\u202e" in "".join(told)


@pytest.mark.parametrize(
    ("given", "text", "expected"),
    [
        (["--input", "x=absent.npy"], "absent.npy", 2),
    ],
)
def test_run_names_what_is_wrong(tmp_path: Path, given: list[str], text: str, expected: int) -> None:
    status, _, err = dmlpy("onnx", "run", written(tmp_path, good()), "--device", "numpy", *given)
    assert (status, text in err) == (expected, True)
    assert dmlpy("onnx", "run", "net.onnx", "--input", "x")[0] == 2


def test_run_writes_maps_and_sequences(tmp_path: Path) -> None:
    nodes = [
        make_node("ZipMap", ["x"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"]),
        make_node("SequenceConstruct", ["x", "x"], ["pair"]),
    ]
    built = model(nodes, {"x": [1, 2]}, ["maps", "pair"], domains={"ai.onnx.ml": 1})
    for output in built.graph.output:
        output.type.Clear()
    np.save(tmp_path / "x.npy", np.array([[0.25, 0.75]], np.float32))
    given = ("--input", f"x={tmp_path / 'x.npy'}", "--device", "numpy", "--output", tmp_path)
    status, out, err = dmlpy("onnx", "run", written(tmp_path, built), *given)
    assert (status, err) == (0, "")
    assert out.startswith("Running on 'NumPy on the CPU'\nmaps: a list of 1, the first a map of 2 keys in ")
    assert "pair: a list of 2, the first float32 [1, 2] in " in out
    assert json.loads((tmp_path / "maps.json").read_text()) == [{"no": 0.25, "yes": 0.75}]
    assert json.loads((tmp_path / "pair.json").read_text()) == [[[0.25, 0.75]]] * 2


# export


def exported_graph() -> dml.Graph:
    g = dml.GraphBuilder("net")
    x, w = (g.input(name, dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 2])) for name in "xw")
    g.output("y", g.add(dml.ElementWiseAdd1Desc, "sum", a_tensor=x, b_tensor=w, fused_activation=dml.ActivationReluDesc()))
    return g.build()


def test_export_writes_a_graph_as_a_model(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(exported_graph().to_json())
    status, out, _ = dmlpy("onnx", "export", path)
    assert (status, out) == (0, f"{tmp_path / 'net.onnx'}: 2 nodes of ONNX for 1 of the graph\n")
    made = onnx.load(tmp_path / "net.onnx")
    assert [node.op_type for node in made.graph.node] == ["Add", "Relu"]
    assert dmlpy("onnx", "export", path, "--output", tmp_path / "other.onnx")[0] == 0
    assert (tmp_path / "other.onnx").read_bytes() == (tmp_path / "net.onnx").read_bytes()


def test_export_stores_the_constants_of_a_serialized_graph(tmp_path: Path) -> None:
    g = dml.GraphBuilder()
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 2], total_tensor_size_in_bytes=16)
    x, w = g.input("x", tensor), g.input("w", tensor.replace(flags="OWNED_BY_DML"))
    g.output("y", g.add(dml.ElementWiseAddDesc, "sum", a_tensor=x, b_tensor=w, output_tensor=tensor))
    (tmp_path / "constants").mkdir()
    (tmp_path / "constants" / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    path = tmp_path / "Partition_0.bin"
    path.write_bytes(write(dump_of(g.build())))
    status, _, err = dmlpy("onnx", "export", path, "--input_path", tmp_path / "constants")
    assert status == 0, err
    made = onnx.load(tmp_path / "Partition_0.onnx")
    assert [item.name for item in made.graph.input] == ["x"]
    (stored,) = made.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(stored).reshape(-1), np.arange(4))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("desc.json", '{"Type": "DML_OPERATOR_GEMM", "Desc": {}}', "file is a single desc, expected a graph in JSON (Nodes, edges), or"),
        ("model.json", '{"resources": {}}', "file is not a graph, expected a graph in JSON"),
        ("net.onnx", "{}", "file is named as an ONNX model, expected a graph"),
    ],
)
def test_export_takes_graphs_alone(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    status, _, err = dmlpy("onnx", "export", path)
    assert (status, message in err, path.read_text(), [*tmp_path.iterdir()]) == (1, True, content, [path])


def test_export_reports_what_onnx_cannot_express(tmp_path: Path) -> None:
    g = dml.GraphBuilder()
    state, numbers = (dml.TensorDesc(data_type="UINT32", sizes=[1, 1, 1, count]) for count in (6, 8))
    g.output("y", g.add(dml.RandomGeneratorDesc, input_state_tensor=g.input("s", state), output_tensor=numbers, type="PHILOX_4X32_10"))
    path = tmp_path / "random.json"
    path.write_text(g.build().to_json())
    status, _, err = dmlpy("onnx", "export", path)
    assert (status, "nodes[0] is RANDOM_GENERATOR" in err, (tmp_path / "random.onnx").exists()) == (1, True, False)
    path.write_text("{")
    assert dmlpy("onnx", "export", path)[0] == 1
    path.write_text('{"Nodes": 1}')
    assert dmlpy("onnx", "export", path)[0] == 1
    assert dmlpy("onnx", "export", tmp_path / "none.json")[0] == 2
