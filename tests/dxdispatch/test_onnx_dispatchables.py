"""DxDispatch models that name ONNX models: sizes, bindings, deferred resources, and what is wrong with them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing
from onnx import TensorProto
from onnx.helper import make_node, make_tensor_sequence_value_info

import dmlpy as dml
from dmlpy.cli.main import app
from dmlpy.dxdispatch import Folders, ModelError, RunError, check_file, load, onnx_dispatchables, run
from dmlpy.dxdispatch.onnx_dispatchables import OnnxOptions
from tests.support.dxdispatch.models import Data, lines_of, problems_of, put, write
from tests.support.onnx.models import model

_JOIN: Data = {
    "resources": {
        "a": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5, 6]},
        "b": {"initialValuesDataType": "FLOAT32", "initialValues": [7, 8, 9, 10, 11, 12]},
        "c": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 12, "value": 0}},
        "later": {"initialValues": "deferred"},
    },
    "dispatchables": {"join": {"type": "onnx", "sourcePath": "join.onnx"}},
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "join",
            "bindings": {"x0": {"name": "a", "shape": [1, 2]}, "x1": {"name": "b", "shape": [1, 2]}, "y": {"name": "c", "shape": [2, 2]}},
        },
        {"type": "print", "resource": "c"},
        {
            "type": "dispatch",
            "dispatchable": "join",
            "bindings": {"x0": {"name": "a", "shape": [3, 2]}, "x1": {"name": "b", "shape": [2, 2]}, "y": "later"},
        },
        {"type": "print", "resource": "later"},
    ],
}
"""DxDispatch's sample of open sizes: one model in two sizes, the second into memory that the model allocates."""


def join(folder: Path) -> Data:
    """The model above, free to be changed, with its ONNX model's file; y joins x0 [n, 2] and x1 [m, 2]."""
    built = model([make_node("Concat", ["x0", "x1"], ["y"], axis=0)], {"x0": ["n", 2], "x1": ["m", 2]}, ["y"])
    built.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    (folder / "join.onnx").write_bytes(built.SerializeToString())
    return copy.deepcopy(_JOIN)


def one(folder: Path, nodes: list[Any], inputs: dict[str, Any], resources: Data, **bindings: Any) -> Path:
    """A file that dispatches one ONNX model, whose outputs are those of its last node, and prints `out`."""
    types = {"u": TensorProto.INT64, "large": TensorProto.BOOL, "words": TensorProto.STRING}
    built = model(nodes, inputs, nodes[-1].output, types=types)
    (folder / "one.onnx").write_bytes(built.SerializeToString())
    commands = [{"type": "dispatch", "dispatchable": "one", "bindings": bindings}, {"type": "print", "resource": "out"}]
    data = {"resources": resources, "dispatchables": {"one": {"type": "ONNX", "sourcePath": "one.onnx"}}, "commands": commands}
    return write(folder, data)


def floats(*values: float) -> Data:
    return {"initialValuesDataType": "FLOAT32", "initialValues": list(values)}


def test_sizes_come_from_each_dispatch(tmp_path: Path, any_device: dml.Device) -> None:
    lines = lines_of(write(tmp_path, join(tmp_path)), any_device)
    assert lines[1] == "Resource 'c': 1, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0"
    assert lines[3] == "Resource 'later': 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"


@pytest.mark.parametrize(
    ("member", "sizes", "options", "wanted"),
    [
        (None, {}, OnnxOptions(), "1, 2, 7, 8"),
        ("freeDimensionNameOverrides", {"n": 2}, OnnxOptions(), "1, 2, 3, 4, 7, 8"),
        ("freeDimensionDenotationOverrides", {"DATA_BATCH": 3}, OnnxOptions(), "1, 2, 3, 4, 5, 6, 7, 8"),
        ("freeDimensionNameOverrides", {"n": 2}, OnnxOptions(names={"n": 1, "m": 2}), "1, 2, 7, 8, 9, 10"),
        (None, {}, OnnxOptions(denotations={"DATA_BATCH": 2}), "1, 2, 3, 4, 7, 8"),
        (None, {}, OnnxOptions(shapes={"x1": (3, 2)}), "1, 2, 7, 8, 9, 10, 11, 12"),
    ],
)
def test_open_sizes_are_overridden_or_1(tmp_path: Path, member: str | None, sizes: Data, options: OnnxOptions, wanted: str) -> None:
    data = join(tmp_path)
    if member is not None:
        put(data, f"dispatchables/join/{member}", sizes)
    data["commands"] = [
        {"type": "dispatch", "dispatchable": "join", "bindings": {"x0": "a", "x1": "b", "y": "later"}},
        {"type": "print", "resource": "later"},
    ]
    lines: list[str] = []
    loaded = load(write(tmp_path, data), onnx_options=options)
    run(loaded, dml.device("numpy"), inform=lines.append, warn=lines.append)
    assert (lines[-1], loaded.warnings) == (f"Resource 'later': {wanted}", ())


KINDS: list[tuple[str, list[Any], dict[str, Any], Data, Data, str]] = [
    ("a view", [make_node("Transpose", ["x"], ["y"])], {"x": [2, 3]}, {"x": "x"}, floats(0, 0, 0, 0, 0, 0), "1, 4, 2, 5, 3, 6"),
    ("in place", [make_node("Neg", ["x"], ["y"])], {"x": [6]}, {"x": "out"}, floats(1, 2, 3, 4, 5, 6), "-1, -2, -3, -4, -5, -6"),
    ("from an offset", [make_node("Neg", ["x"], ["y"])], {"x": [2]}, {"x": {"name": "x", "elementOffset": 4}}, floats(0, 0), "-5, -6"),
    ("a scalar", [make_node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": [6]}, {"x": "x"}, floats(0), "21"),
    ("nothing bound", [make_node("Exp", ["x"], ["y"])], {"x": [2]}, {}, floats(0, 0), "1, 1"),
    (
        "booleans",
        [make_node("Greater", ["x", "x0"], ["large"])],
        {"x": [6], "x0": [1]},
        {"x": "x"},
        {"initialValuesDataType": "UINT8", "initialValues": [9] * 6},
        "1, 1, 1, 1, 1, 1",
    ),
    ("a node on the host", [make_node("Unique", ["x"], ["y"])], {"x": [6]}, {"x": "x"}, {"initialValues": "deferred"}, "1, 2, 3, 4, 5, 6"),
    ("no elements", [make_node("Concat", ["x", "e"], ["y"], axis=0)], {"x": [1], "e": [0]}, {"x": "x"}, floats(5), "1"),
]


@pytest.mark.parametrize(("nodes", "inputs", "bindings", "out", "wanted"), [case[1:] for case in KINDS], ids=[case[0] for case in KINDS])
def test_kinds_of_tensors(
    tmp_path: Path, any_device: dml.Device, nodes: list[Any], inputs: dict[str, Any], bindings: Data, out: Data, wanted: str
) -> None:
    resources = {"x": floats(1, 2, 3, 4, 5, 6), "out": out}
    path = one(tmp_path, nodes, inputs, resources, **bindings, **{nodes[-1].output[0]: "out"})
    assert lines_of(path, any_device, debug=True)[-1] == f"Resource 'out': {wanted}"


def test_4_bit_elements_are_packed(tmp_path: Path) -> None:
    built = model([make_node("Transpose", ["x"], ["y"])], {"x": [2, 3]}, ["y"], opset=23, types=dict.fromkeys("xy", TensorProto.INT4))
    (tmp_path / "one.onnx").write_bytes(built.SerializeToString())
    nibbles = {"initialValuesDataType": "INT4", "initialValues": [1, -2, 3, 4, -5, 6]}
    data = {
        "resources": {"x": nibbles, "y": nibbles},
        "dispatchables": {"one": {"type": "onnx", "sourcePath": "one.onnx"}},
        "commands": [
            {"type": "dispatch", "dispatchable": "one", "bindings": {"x": "x", "y": "y"}},
            {"type": "print", "resource": "y"},
        ],
    }
    assert lines_of(write(tmp_path, data))[-1] == "Resource 'y': 1, 4, -2, -5, 3, 6"


def test_deferred_outputs_are_written_to_files(tmp_path: Path) -> None:
    data = join(tmp_path)
    data["commands"].append({"type": "writeFile", "resource": "later", "targetPath": "y.npy", "dimensions": [5, 2]})
    lines_of(write(tmp_path, data), folders=Folders((tmp_path,), tmp_path))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.arange(1, 11, dtype=np.float32).reshape(5, 2))
    put(data, "commands/4/dimensions", [6, 2])
    with pytest.raises(RunError, match=r"at most the 10 values"):
        lines_of(write(tmp_path, data), folders=Folders((tmp_path,), tmp_path))


def test_sizes_that_only_a_run_determines_are_compared(tmp_path: Path) -> None:
    nodes = [make_node("NonZero", ["x"], ["u"])]
    integers = {"initialValuesDataType": "INT64", "initialValues": [0, 0, 0]}
    resources = {"x": floats(1, 0, 3), "out": integers}
    path = one(tmp_path, nodes, {"x": [3]}, resources, x="x", u={"name": "out", "shape": [1, 2]})
    assert lines_of(path)[-1] == "Resource 'out': 0, 2, 0"
    path = one(tmp_path, nodes, {"x": [3]}, resources, x="x", u={"name": "out", "shape": [1, 3]})
    with pytest.raises(RunError, match="u is of sizes \\[1, 2\\], expected the given shape"):
        lines_of(path)
    unsized = one(tmp_path, nodes, {"x": [3]}, resources, x="x", u="out")
    with pytest.raises(ModelError, match=r"bind\.shape") as caught:
        load(unsized)
    assert "deferred" in (caught.value.problems[0].remedy or "")


WRONG: list[tuple[str, Any, str, str]] = [
    ("dispatchables/join/sourcePath", None, "dispatchable 'join': sourcePath [field.missing]", "required"),
    ("dispatchables/join/sourcePath", "none.onnx", "dispatchable 'join':  [file.missing]", "no file"),
    ("dispatchables/join/sourcePath", "../join.onnx", "dispatchable 'join':  [file.outside]", "outside the input folders"),
    ("dispatchables/join/sourcePath", "model.json", "dispatchable 'join':  [onnx.protobuf]", "text in JSON"),
    ("dispatchables/join/graphOptimizationLevel", 3, "dispatchable 'join': graphOptimizationLevel [field.form]", "99"),
    (
        "dispatchables/join/freeDimensionNameOverrides",
        {"n": 0},
        "dispatchable 'join': freeDimensionNameOverrides.n [field.form]",
        "greater than or equal to 1",
    ),
    ("commands/0/bindings/z", "a", "command at index 0: z [bind.unknown]", "one of x0, x1, y"),
    ("commands/0/bindings/x0", "aa", "command at index 0: x0 [bind.resource]", "did you mean"),
    ("commands/0/bindings/x0", ["a", "b"], "command at index 0: x0 [bind.count]", "2 resources, expected 1"),
    ("commands/0/bindings/x0", "later", "command at index 0: x0 [bind.deferred]", "one of its outputs"),
    ("commands/0/bindings/x0/shape", [1, 3], "command at index 0: x0.shape [bind.shape]", "[n, 2]"),
    ("commands/0/bindings/x0/shape", [2], "command at index 0: x0.shape [bind.shape]", "[n, 2]"),
    ("commands/0/bindings/x0/shape", [4, 2], "command at index 0: x0 [bind.size]", "24 bytes of 'a', expected at least 32"),
    ("commands/0/bindings/x0/shape", [2**62, 2], "command at index 0: x0 [bind.size]", "24 bytes of 'a'"),
    ("commands/0/bindings/y/shape", [2, 3], "command at index 0: y.shape [bind.shape]", "[2, 2]"),
    ("commands/2/bindings/y", "a", "command at index 2: y [bind.size]", "expected at least 40"),
    ("commands/2", {"type": "print", "resource": "later"}, "command at index 2: resource [command.resource]", "before this command"),
    (
        "commands/2",
        {"type": "writeFile", "resource": "later", "targetPath": "y.dat"},
        "command at index 2: resource [command.resource]",
        "before this command",
    ),
]


@pytest.mark.parametrize(("place", "value", "wanted", "words"), WRONG)
def test_wrong_models(tmp_path: Path, place: str, value: Any, wanted: str, words: str) -> None:
    problems = problems_of(tmp_path, put(join(tmp_path), place, value))
    assert wanted in problems
    assert words in str(problems[wanted])


def test_what_no_resource_can_be_is_reported(tmp_path: Path) -> None:
    sequence = [make_node("SequenceConstruct", ["x"], ["s"]), make_node("SequenceLength", ["s"], ["y"])]
    words = [make_node("Cast", ["x"], ["words"], to=TensorProto.STRING)]
    floats4 = {"x": floats(1, 2, 3, 4), "out": floats(1, 2, 3, 4)}
    assert lines_of(one(tmp_path, sequence, {"x": [4]}, floats4 | {"out": {"initialValues": "deferred"}}, x="x", y="out"))[-1].endswith(
        ": 1"
    )
    with pytest.raises(ModelError, match=r"words is .*\[bind\.type\]"):
        load(one(tmp_path, words, {"x": [4]}, floats4, x="x", words="out"))


@pytest.mark.parametrize(("places", "wrong"), [(("out", "out"), True), (("out", {"name": "out", "elementOffset": 4}), False)])
def test_outputs_share_no_memory(tmp_path: Path, places: tuple[Any, Any], wrong: bool) -> None:
    nodes = [make_node("Split", ["x"], ["y0", "y1"], num_outputs=2)]
    resources = {"x": floats(*range(8)), "out": floats(*[0] * 8)}
    path = one(tmp_path, nodes, {"x": [8]}, resources, x="x", y0=places[0], y1=places[1])
    if not wrong:
        assert lines_of(path)[-1] == "Resource 'out': 0, 1, 2, 3, 4, 5, 6, 7"
        return
    with pytest.raises(ModelError, match=r"y1 is memory that y0 uses too.*\[hazard\.outputs\]"):
        load(path)


def test_inputs_that_are_sequences_have_no_resources(tmp_path: Path) -> None:
    built = model([make_node("SequenceAt", ["s", "i"], ["y"])], {"i": []}, ["y"], types={"i": TensorProto.INT64})
    built.graph.input.append(make_tensor_sequence_value_info("s", TensorProto.FLOAT, None))
    (tmp_path / "one.onnx").write_bytes(built.SerializeToString())
    with pytest.raises(ModelError, match=r"s is an input that is a sequence.*\[bind\.type\]"):
        load(tmp_path / "one.onnx")


@pytest.mark.parametrize("limit", ["MAX_SIZED", "MAX_SIZED_NODES"])
def test_a_model_runs_in_few_sizes_and_is_read_once(limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = join(tmp_path)
    data["dispatchables"]["again"] = data["dispatchables"]["join"]
    data["commands"][2]["dispatchable"] = "again"
    found = load(write(tmp_path, data)).dispatchables
    assert found["join"].model is found["again"].model  # type: ignore[attr-defined]
    monkeypatch.setattr(onnx_dispatchables, limit, 1)
    put(data, "commands/2/dispatchable", "join")
    problems = problems_of(tmp_path, data)
    assert "more than 1 sizes" in str(problems["command at index 2: dispatchable 'join' [file.parts]"])


def test_members_for_onnx_runtime_and_names_that_nothing_has_are_reported(tmp_path: Path) -> None:
    data = join(tmp_path)
    data["dispatchables"]["join"] |= {
        "loggingLevel": 1,
        "freeDimensionNameOverrides": {"nn": 2},
        "freeDimensionDenotationOverrides": {"C": 3},
    }
    loaded = load(write(tmp_path, data), onnx_options=OnnxOptions(names={"k": 2, "n": 1}))
    told = [f"{finding.place}: {problem.path} {problem.expected}" for finding in loaded.warnings for problem in finding.problems]
    assert told == [
        "dispatchable 'join': loggingLevel nothing",
        "dispatchable 'join': freeDimensionNameOverrides.nn one of m, n",
        "dispatchable 'join': freeDimensionDenotationOverrides.C one of DATA_BATCH",
        ": --onnx_free_dim_name_override k a name that an ONNX model of the file has",
    ]


def test_models_are_checked_at_their_level(tmp_path: Path) -> None:
    report = check_file(write(tmp_path, join(tmp_path)))
    assert (report.findings, str(report.lowest_feature_level)) == ((), "1_0")


def test_the_time_of_a_model_is_reported_for_each_size(tmp_path: Path) -> None:
    lines = lines_of(write(tmp_path, join(tmp_path)), verbosity=1, iterations=2, repeat=2)
    assert [line.partition(":")[0] for line in lines if line.startswith(("Initialize", "Dispatch"))] == [
        "Initialize 'join'",
        "Dispatch 'join'",
        "Dispatch 'join'",
    ]


def dmlpy(*arguments: Any) -> tuple[int, str, str]:
    result = typer.testing.CliRunner().invoke(app, ["run", "--device", "numpy", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_a_model_between_resources_is_profiled(tmp_path: Path) -> None:
    nodes = [make_node("Neg", ["x"], ["y"], name="negative")]
    built = one(tmp_path, nodes, {"x": [2]}, {"x": floats(1, 2), "out": floats(0, 0)}, x="x", y="out")
    status, out, _ = dmlpy(built, "--profile")
    assert (status, "negative/" in out, "1 node one by one" in out) == (0, True, True)


def test_an_onnx_file_runs_without_a_model_around_it(tmp_path: Path) -> None:
    join(tmp_path)
    status, out, err = dmlpy(tmp_path / "join.onnx", "-f", "n:4", "-b", "x1:3,2", "--dispatch_iterations", 2)
    assert (status, err) == (0, "")
    assert out.splitlines()[1].startswith("Dispatch 'join': 2 iterations, ")
    for option, given in (("-F", "q:4"), ("-f", "N:4"), ("-b", "x:2")):
        assert f" {given[0]} is not used here" in dmlpy(tmp_path / "join.onnx", option, given)[2]
    assert "--onnx_free_dim_name_override N is not used here; did you mean n?" in dmlpy(tmp_path / "join.onnx", "-f", "N:4")[2]
    (tmp_path / "bad.onnx").write_bytes(b"\xff")
    status, _, err = dmlpy(tmp_path / "bad.onnx")
    assert (status, "not an ONNX model" in err) == (1, True)


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("-f", "n", "a name and its size, as batch:3"),
        ("-f", "n:1,2", "a name and its size, as batch:3"),
        ("-F", "n:0", "a name and its size, as batch:3"),
        ("-b", "x1:3;2", "a name and its sizes, as x:2,3"),
        ("-b", "x1:", "a name and its sizes, as x:2,3"),
        ("-b", "x1:3,3", "[m, 2]"),
    ],
)
def test_sizes_on_the_command_line_have_a_form(tmp_path: Path, option: str, text: str, words: str) -> None:
    join(tmp_path)
    status, _, err = dmlpy(tmp_path / "join.onnx", option, text)
    assert (status, words in err) == (2, True)
