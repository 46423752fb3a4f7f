"""The `dmlpy` command: what it prints, on which stream, and its exit status."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing
from rich.console import Console

import dmlpy as dml
from dmlpy.cli.main import REFUSED_OPTIONS, UNWRITTEN, app
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection import explain
from tests.support.folders import EXAMPLES, MODELS
from tests.support.models import RNN_LINE, put, resource_model, rnn_model, write


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")


def dmlpy(*arguments: Any) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command."""
    result = typer.testing.CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def on_numpy(*arguments: Any) -> tuple[int, str, str]:
    return dmlpy("run", "--device", "numpy", *arguments)


# --- run ------------------------------------------------------------------------------------------------------------------


def test_run_prints_the_device_the_dispatch_and_the_values(tmp_path: Path) -> None:
    status, out, err = on_numpy(write(tmp_path, rnn_model()))
    lines = out.splitlines()
    assert (status, err, len(lines)) == (0, "", 3)
    assert lines[0] == "Running on 'NumPy on the CPU'"
    assert re.fullmatch(r"Dispatch 'rnn': 1 iterations, \d+\.\d{4} ms median \(CPU\)", lines[1])
    assert lines[2] == RNN_LINE


@pytest.mark.parametrize(
    "spelling",
    [
        ["-i", "3", "-r", "2", "-w", "2", "-v", "2", "-I", "0"],
        [
            "--dispatch_iterations",
            "3",
            "--dispatch_repeat=2",
            "--warmup_samples",
            "2",
            "--timing_verbosity",
            "2",
            "--dispatch_interval",
            "0",
        ],
        [
            "--dispatch-iterations",
            "3",
            "--dispatch-repeat=2",
            "--warmup-samples",
            "2",
            "--timing-verbosity",
            "2",
            "--dispatch-interval",
            "0",
        ],
    ],
)
def test_timing_options_in_every_spelling(tmp_path: Path, spelling: list[str]) -> None:
    status, out, _ = on_numpy(write(tmp_path, rnn_model()), *spelling)
    number = r"\d+\.\d{4} ms"
    figures = f"{number} average, {number} min, {number} median, {number} max"
    wanted = [
        "Running on 'NumPy on the CPU'",
        rf"Initialize 'rnn': {number}",
        "Dispatch 'rnn': 3 iterations",
        rf"CPU Timings \(Cold\) : 2 samples, {figures}",
        rf"CPU Timings \(Hot\)  : 1 samples, {figures}",
        "The timings of each iteration: ",
        *(rf"iteration {index}: {number} \(CPU\)" for index in range(3)),
        re.escape(RNN_LINE),
    ]
    assert status == 0
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(wanted, out.splitlines(), strict=True))


def test_run_time_and_commands(tmp_path: Path) -> None:
    status, out, _ = on_numpy(write(tmp_path, rnn_model()), "-t", "20", "-d", "--print_commands", "--max_gpu_time_measurements", "0")
    lines = out.splitlines()
    assert status == 0
    assert lines[1].startswith('[StartCmd][0000]\t: {"type":"dispatch"')
    assert lines[3] == "[EndCmd][0000]\t: hr=0x00000000 "
    assert lines[4] == '[StartCmd][0001]\t: {"type":"print","resource":"y"}'
    assert lines[5:] == [RNN_LINE, "[EndCmd][0001]\t: hr=0x00000000 "]


def test_run_reads_and_writes_in_the_given_folders(tmp_path: Path) -> None:
    data = resource_model(initialValues={"sourcePath": "x.npy"})
    data["commands"] = [{"type": "writeFile", "resource": "x", "targetPath": "copy.npy"}]
    inputs, out = tmp_path / "in", tmp_path / "out"
    inputs.mkdir()
    np.save(inputs / "x.npy", np.arange(3, dtype=np.int16))
    path = write(tmp_path, data)
    assert on_numpy(path)[0] == 1
    assert dmlpy("check", path)[0] == 1
    assert dmlpy("check", path, "--input-path", inputs)[0] == 0
    status, text, _ = on_numpy("-m", path, "--input_path", inputs, "--output-path", out)
    assert (status, text.splitlines()[1:]) == (0, [f"Resource 'x' written to '{out / 'copy.npy'}'"])
    assert np.load(out / "copy.npy").tolist() == [0, 1, 2]


def test_run_reports_errors_on_stderr_without_a_traceback(tmp_path: Path) -> None:
    path = write(tmp_path, put(rnn_model(), "dispatchables/rnn/desc/WeightTensor/Sizes", [1, 1, 1, 2]))
    status, out, err = on_numpy(path)
    assert (status, out) == (1, "")
    column = path.read_text(encoding="utf-8").index("[1, 1, 1, 2]") + 11
    assert err.splitlines() == [
        f"{path}, dispatchable 'rnn', DML_RNN_OPERATOR_DESC: 1 problem",
        f"{path}:1:{column}: WeightTensor.Sizes[3] is 2, expected input_size = 1  [size.equal]",
        "      WeightTensor is [1, num_directions, hidden_size, input_size]",
        "      input_size = 1: held by InputTensor.Sizes[3]",
    ]


def test_control_characters_of_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    data = json.loads(json.dumps(rnn_model()).replace('"y"', '"\\u001b[31my"'))
    status, out, _ = on_numpy(write(tmp_path, data))
    assert (status, out.splitlines()[-1]) == (0, RNN_LINE.replace("'y'", "'\\x1b[31my'"))
    put(data, "commands/0/bindings/\x1b[2J", "x")
    for command in ("run", "check"):
        status, out, err = dmlpy(command, write(tmp_path, data))
        assert status == 1
        assert "\x1b" not in out + err


def test_run_warns_on_stderr(tmp_path: Path) -> None:
    path = write(tmp_path, put(rnn_model(), "resources/x/sizeInByte", 16))
    status, out, err = on_numpy(path)
    assert (status, out.splitlines()[-1]) == (0, RNN_LINE)
    column = path.read_text(encoding="utf-8").index('"sizeInByte"') + 1
    assert err == f"warning: {path}:1:{column}: resource 'x': sizeInByte is without meaning here; did you mean sizeInBytes?\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--device", "numpi"], 1, "did you mean 'numpy'"),
        (["--device", "numpy", "-a", "CPU"], 2, "give one of them"),
        (["-a", "Radeon"], 1, "no device's name contains 'Radeon'; there are"),
        (["--dml_feature_level", "9_9"], 1, "feature_level is '9_9'"),
        (["-i", "0"], 2, "dispatch_iterations"),
        (["-v", "3"], 2, "timing_verbosity"),
        (["--post_dispatch_barriers", "all"], 2, "uav"),
        (["--input_path", "absent"], 2, "input_path"),
        (["--unknown"], 2, "unknown"),
        (["-m", "other.json"], 2, "one model file"),
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    found, out, err = dmlpy("run", write(tmp_path, rnn_model()), *arguments)
    assert (found, out) == (status, "")
    assert message in err


@pytest.mark.parametrize("option", [*REFUSED_OPTIONS, "--disable-gpu-timeout=1"])
def test_options_without_meaning_are_refused_with_the_reason(tmp_path: Path, option: str) -> None:
    status, out, err = dmlpy("run", write(tmp_path, rnn_model()), option, "x")
    assert (status, out) == (2, "")
    assert "Windows" in err or "ONNX" in err


@pytest.mark.parametrize("option", ["-q", "--queue_type", "--queue-type"])
def test_the_queue_is_ignored_with_a_word(tmp_path: Path, option: str) -> None:
    status, out, err = on_numpy(write(tmp_path, rnn_model()), option, "compute")
    assert (status, out.splitlines()[-1]) == (0, RNN_LINE)
    assert err == "warning: --queue_type compute is ignored: command queues belong to Direct3D\n"


@pytest.mark.parametrize("level", ["6.2", "6_2", "DML_FEATURE_LEVEL_6_2"])
def test_accepted_options(tmp_path: Path, level: str) -> None:
    status, out, _ = dmlpy(
        "run", write(tmp_path, rnn_model()), "-a", "numpy", "--dml_feature_level", level, "--post_dispatch_barriers", "none"
    )
    assert (status, out.splitlines()[-1]) == (0, RNN_LINE)


def test_models_that_are_none(tmp_path: Path) -> None:
    assert dmlpy("run")[0] == 2
    assert "No such file" in dmlpy("run", tmp_path / "x.onnx")[2]
    assert on_numpy(tmp_path / "absent.json")[0] == 1
    status, _, err = on_numpy(MODELS / "good_gru_flat.json")
    assert status == 1
    assert "not a model" in err
    assert "dmlpy check FILE.json" in err


def test_adapters_and_dependencies() -> None:
    status, out, _ = dmlpy("run", "-s")
    assert (status, out.splitlines()[0]) == (0, "numpy: NumPy on the CPU")
    status, out, _ = dmlpy("run", "-S")
    assert status == 0
    assert f"dmlpy: {dml.__version__}\n" in out
    assert f"numpy: {np.__version__}\n" in out


# --- check ----------------------------------------------------------------------------------------------------------------


def test_check_of_valid_files() -> None:
    files = [*sorted(EXAMPLES.glob("*.json")), MODELS / "good_gru_flat.json"]
    status, out, err = dmlpy("check", *files)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == len(files) > 3
    for path, line in zip(files, lines, strict=True):
        assert re.fullmatch(re.escape(f"{path}: no problems; needs feature level ") + r"\d_\d \(DirectML 1\.\d+\.0\)", line)
    status, out, _ = dmlpy("check", "--json", *files)
    report = json.loads(out)
    assert (status, report["problems"]) == (0, 0)
    assert [item["file"] for item in report["files"]] == [str(path) for path in files]
    kinds = {"kind": "desc", "feature_level": "6_4", "lowest_feature_level": "1_0", "problems": []}
    assert report["files"][-1] == {"file": str(files[-1])} | kinds


def test_check_lists_all_problems_of_a_desc_and_marks_them() -> None:
    status, out, err = dmlpy("check", MODELS / "bad_rnn.json")
    table, _, report = out.partition(str(MODELS))
    marked = re.findall(r"^ x (\w+)", table, re.MULTILINE)
    assert (status, err) == (1, "")
    assert marked == ["WeightTensor", "RecurrenceTensor", "BiasTensor", "ActivationDescs"]
    assert re.findall(r"^\S+:\d+:\d+: (\S+) is .*, expected .*\[(.*)\]$", str(MODELS) + report, re.MULTILINE) == [
        ("OutputSingleTensr", "field.unknown"),
        ("WeightTensor.Sizes[1]", "size.equal"),
        ("RecurrenceTensor.Flags", "field.form"),
        ("RecurrenceTensor.Sizes[3]", "size.equal"),
        ("BiasTensor.DataType", "field.form"),
        ("BiasTensor.Sizes[3]", "size.equal"),
        ("ActivationDescs", "activation_count"),
    ]
    assert "expected 2: f of the forward time loop" in report  # prose is unchanged where members' names are spelled as in C


def test_check_for_programs(tmp_path: Path) -> None:
    data = put(rnn_model(), "dispatchables/rnn/desc/WeightTensor/Sizes", [1, 1, 1, 2])
    path = write(tmp_path, put(data, "commands/1/resource", "z"))
    status, out, err = dmlpy("check", path, EXAMPLES / "rnn.json", "--json", "--feature-level", "5.0")
    report = json.loads(out)
    assert (status, err, list(report), report["problems"]) == (1, "", ["files", "problems"], 2)
    first, second = report["files"]
    assert list(first) == ["file", "kind", "feature_level", "lowest_feature_level", "problems"]
    assert [first[name] for name in ("file", "kind", "feature_level", "lowest_feature_level")] == [str(path), "model", "5_0", None]
    assert (second["lowest_feature_level"], second["problems"]) == ("1_0", [])
    text = path.read_text(encoding="utf-8")
    wrong, unknown = first["problems"]
    assert wrong == {
        "subject": "dispatchable 'rnn'",
        "struct": "DML_RNN_OPERATOR_DESC",
        "code": "size.equal",
        "path": "weight_tensor.sizes[3]",
        "c_path": "WeightTensor.Sizes[3]",
        "found": "2",
        "expected": "input_size = 1",
        "why": [
            "weight_tensor is [1, num_directions, hidden_size, input_size]",
            "input_size = 1: held by input_tensor.sizes[3]",
        ],
        "remedy": None,
        "line": 1,
        "column": text.index("[1, 1, 1, 2]") + 11,
        "severity": "error",
    }
    assert unknown["c_path"] == "resource"
    assert (unknown["subject"], unknown["struct"]) == ("command at index 1", None)


def test_warnings_are_no_problems(tmp_path: Path) -> None:
    path = write(tmp_path, put(rnn_model(), "resources/x/sizeInByte", 16))
    status, out, err = dmlpy("check", path)
    assert status == 0
    assert out.startswith(f"{path}: no problems")
    assert err.startswith(f"warning: {path}:1:")
    status, out, err = dmlpy("check", path, "--json")
    report = json.loads(out)
    assert (status, err, report["problems"]) == (0, "", 0)
    (warning,) = report["files"][0]["problems"]
    assert (warning["severity"], warning["code"], warning["path"]) == ("warning", "member.ignored", "sizeInByte")


def test_check_distinguishes_files_that_cannot_be_read_from_wrong_ones(tmp_path: Path) -> None:
    good, wrong, absent = EXAMPLES / "rnn.json", write(tmp_path, "{}"), tmp_path / "absent.json"
    for files, status, count in (
        ([good], 0, 0),
        ([good, wrong], 1, 1),
        ([absent], 2, 1),
        ([good, absent, wrong], 2, 2),
        ([tmp_path], 2, 1),
    ):
        assert dmlpy("check", *files)[0] == status
        found, out, _ = dmlpy("check", "--json", *files)
        assert (found, json.loads(out)["problems"], len(json.loads(out)["files"])) == (status, count, len(files))


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        ('{"Type": "RNN", ]', [], "json.syntax"),
        ("{}", [], "json.root"),
        ('{"Type": "RNN", "Type": "RNN"}', [], "json.duplicate"),
        ('{"Type": "GEM"}', [], "operator.unknown"),
        ('{"Type": "ACTIVATION_GELU", "InputTensor": TENSOR, "OutputTensor": TENSOR}', ["--feature-level", "5_0"], "level.operator"),
        ('{"Type": "ACTIVATION_GELU", "InputTensor": ALIGNED, "OutputTensor": TENSOR}', ["--strict"], "strict.alignment"),
    ],
)
def test_check_of_wrong_files(tmp_path: Path, text: str, arguments: list[str], code: str) -> None:
    tensor = {"DataType": "FLOAT32", "Sizes": [4]}
    text = text.replace("TENSOR", json.dumps(tensor)).replace("ALIGNED", json.dumps(tensor | {"GuaranteedBaseOffsetAlignment": 4}))
    path = write(tmp_path, text)
    status, out, _ = dmlpy("check", path, *arguments)
    assert status == 1
    assert f"[{code}]" in out
    status, out, _ = dmlpy("check", path, "--json", *arguments)
    assert status == 1
    assert code in [problem["code"] for problem in json.loads(out)["files"][0]["problems"]]
    if arguments:
        assert dmlpy("check", path)[0] == 0


def test_check_of_an_unknown_level_is_no_traceback() -> None:
    status, out, err = dmlpy("check", MODELS / "good_gru_flat.json", "--feature-level", "7_7")
    assert (status, out) == (2, "")
    assert "feature_level is '7_7'" in err


# --- explain, info, schemas -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RNN", "rnn", "DML_OPERATOR_RNN", "DML_RNN_OPERATOR_DESC", "RNNDesc"])
def test_explain_takes_every_name(name: str) -> None:
    assert explain.find(name) is dml.RNNDesc


def test_explain_shows_the_whole_struct() -> None:
    status, out, _ = dmlpy("explain", "LSTM")
    assert status == 0
    for word in (*dml.LSTMDesc.model_fields, "ActivationDescCount", "[1, num_directions, 4*hidden_size, input_size]", "FLOAT32 or FLOAT16"):
        assert word in out, word
    for text in (*dml.LSTMDesc.formula.splitlines(), *dml.LSTMDesc.rules().values(), "FORWARD | BACKWARD | BIDIRECTIONAL"):
        assert text in out, text
    assert "The hidden state h after" in out
    assert "never runs in place" in out


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_tables_keep_every_word_on_narrow_terminals(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(explain.explain("LSTM").members())
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    shown = "".join(lines).replace(" ", "")
    for word in (*dml.LSTMDesc.model_fields, "CellMemInitTensor", "4*hidden_size", "FLOAT32", "UINT32", "BIDIRECTIONAL"):
        assert word in shown, word


def test_errors_render_on_narrow_terminals_with_broken_fields_marked() -> None:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 1])
    desc = dml.RNNDesc(
        input_tensor=tensor,
        weight_tensor=tensor.replace(sizes=[1, 1, 1, 2]),
        recurrence_tensor=tensor,
        output_single_tensor=tensor,
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
    )
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(desc, "numpy")
    for width in (30, 80, 200):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(caught.value)
        assert re.findall(r"✗ (\w+)", console.export_text()) == ["weight_tensor"]


def test_explain_at_a_feature_level() -> None:
    (row,) = explain.explain("ACTIVATION_RELU", "2_0").rows
    assert (str(row.level), row.dims) == ("2_0", (4, 5))
    assert explain.explain("ACTIVATION_RELU").rows == (dml.ActivationReluDesc.support[-1],)
    status, out, _ = dmlpy("explain", "ACTIVATION_GELU", "--feature-level", "5_0")
    assert status == 0
    assert "Feature level 5_0 does not have it." in out


def test_every_operator_is_explained() -> None:
    wrong = []
    for type_name, kind in OPERATORS.items():
        found = explain.explain(type_name)
        told = {
            "fields": [item.name for item in found.fields if item.name] == list(kind.model_fields),
            "counts": [item.c_name for item in found.fields if not item.name] == list(kind.c_counts),
            "summary": bool(found.summary),
            "forms": all(item.form for item in found.fields),
            "title": kind.c_name in found.members().to_text(),
        }
        wrong += [f"{type_name}: {what}" for what, right in told.items() if not right]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "encoding", [pytest.param("ascii", marks=pytest.mark.slow), "cp1252", pytest.param("utf-8", marks=pytest.mark.slow)]
)
def test_output_in_encodings_that_lack_characters(encoding: str) -> None:
    program = [sys.executable, "-c", "from dmlpy.cli.main import main; main()", "check", str(MODELS / "bad_rnn.json")]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    shown = subprocess.run(program, capture_output=True, check=False, env=environment)
    assert (shown.returncode, shown.stderr) == (1, b"")
    assert b"WeightTensor.Sizes[1] is " in shown.stdout


def test_explain_of_unknown_operators_names_the_nearest() -> None:
    status, out, err = dmlpy("explain", "LSTN")
    assert (status, out) == (1, "")
    assert "did you mean LSTM?" in err


@pytest.mark.parametrize("command", ["explain", "ops"])
def test_operators_are_listed(command: str) -> None:
    status, out, _ = dmlpy(command)
    assert status == 0
    names = re.findall(r"^ ([A-Z]\w+) ", out, re.MULTILINE)
    assert sorted(names) == sorted(kind.short_name() for kind in OPERATORS.values())
    assert re.search(r"^ GRU +recurrent +1_0 +numpy, cpu, cuda +ONNX Runtime, Keras$", out, re.MULTILINE)
    assert re.search(r"^ GRU_GRAD +recurrent +dmlpy's own +numpy, cpu, cuda", out, re.MULTILINE)
    assert re.search(r"^ ROI_ALIGN_GRAD +pooling +4_1 +numpy, cpu, cuda +PyTorch", out, re.MULTILINE)
    assert re.search(r"^ GEMM +matrix +1_0 +numpy, cpu, cuda +ONNX Runtime$", out, re.MULTILINE)


def test_ops_of_a_family_and_a_level() -> None:
    status, out, _ = dmlpy("ops", "--family", "activation", "--feature-level", "5.1", "--json")
    listed = {item["operator"]: item for item in json.loads(out)}
    kinds = [kind for kind in OPERATORS.values() if kind.family() == "activation" and kind.introduced() <= dml.FeatureLevel.FL_5_1]
    assert (status, sorted(listed)) == (0, sorted(kind.type_name for kind in kinds))
    assert "DML_OPERATOR_ACTIVATION_SWISH" not in listed, "of level 6_2"
    softmax = listed["DML_OPERATOR_ACTIVATION_SOFTMAX1"]
    assert softmax.pop("runs_on") == {"numpy": True, "cpu": True, "cuda": True}
    assert softmax == {
        "operator": "DML_OPERATOR_ACTIVATION_SOFTMAX1",
        "class": "ActivationSoftmax1Desc",
        "family": "activation",
        "own": False,
        "feature_level": "5_1",
        "verified_against": ["ONNX Runtime"],
    }
    assert listed["DML_OPERATOR_ACTIVATION_RELU"]["runs_on"]["numpy"] is True
    status, out, err = dmlpy("ops", "--family", "activations")
    assert (status, out) == (1, "")
    assert "did you mean activation?" in err


def test_levels() -> None:
    status, out, _ = dmlpy("levels")
    assert status == 0
    assert re.findall(r"^ (\d_\d) ", out, re.MULTILINE) == [str(level) for level in dml.FeatureLevel]
    assert re.search(r"^ 5_0 +1\.8\.0 +Windows 11 22H2 ", out, re.MULTILINE)
    status, out, _ = dmlpy("levels", "5.1")
    assert (status, out.splitlines()[0]) == (0, "5_1: DirectML 1.9.0")
    assert "ACTIVATION_SOFTMAX1" in out
    assert "  ACTIVATION_PARAMETERIZED_RELU, ACTIVATION_RELU, ACTIVATION_RELU_GRAD: also INT32, INT16, INT8\n" in out
    (level,) = json.loads(dmlpy("levels", "5_1", "--json")[1])
    assert list(level) == ["level", "value", "directml", "windows", "operators", "grown", "beyond_operators"]
    assert (level["value"], level["windows"], level["grown"]["ACTIVATION_RELU"]) == (0x5100, None, ["also INT32, INT16, INT8"])
    assert len(json.loads(dmlpy("levels", "--json")[1])) == len(dml.FeatureLevel)
    status, out, err = dmlpy("levels", "7_7")
    assert (status, out) == (1, "")
    assert "feature_level is '7_7'" in err


def test_info() -> None:
    status, out, _ = dmlpy("info")
    assert status == 0
    for line in (f"dmlpy: {dml.__version__}", "feature levels: 1_0 to 6_4 (DirectML 1.0.0 to 1.15.0)", "device numpy"):
        assert line in out.splitlines(), line
    kinds, numpy = OPERATORS.values(), dml.device("numpy")
    own = sum(kind.is_extension for kind in kinds)
    assert f"operators described: {len(OPERATORS) - own} of DirectML, {own} of dmlpy's own" in out.splitlines()
    run, own_run = (sum(numpy.runs(kind) for kind in kinds if kind.is_extension == own) for own in (False, True))
    assert f"  runs {run} of DirectML's operators and {own_run} of dmlpy's own (dmlpy ops lists them)" in out.splitlines()


def test_schemas_are_written_and_compared(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    assert dmlpy("schemas", "--check", "--folder", folder)[0] == 1
    status, out, _ = dmlpy("schemas", "--folder", folder)
    assert status == 0
    assert str(folder / "DML_RNN_OPERATOR_DESC.json") in out
    assert dmlpy("schemas", "--check", "--folder", folder)[0] == 0
    (folder / "DML_RNN_OPERATOR_DESC.json").write_text("{}", encoding="utf-8")
    status, _, err = dmlpy("schemas", "--check", "--folder", folder)
    assert status == 1
    assert "DML_RNN_OPERATOR_DESC.json" in err
    assert "run: dmlpy schemas\n" in err


def test_schemas_are_bundled(tmp_path: Path) -> None:
    assert dmlpy("schemas", "--folder", tmp_path)[0] == 0
    status, _, err = dmlpy("schemas", "--bundle", "--check", "--folder", tmp_path)
    assert status == 1
    assert "run: dmlpy schemas --bundle\n" in err
    status, out, _ = dmlpy("schemas", "--bundle", "--folder", tmp_path)
    assert status == 0
    assert "definitions.json" not in out
    assert "definitions.json" not in (tmp_path / "DML_RNN_OPERATOR_DESC.json").read_text(encoding="utf-8")
    assert dmlpy("schemas", "--bundle", "--check", "--folder", tmp_path)[0] == 0


def test_docs_reports_warnings_and_fails_for_them_when_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dmlpy import docs

    asked = []

    def build(output: Path, **options: Any) -> docs.Built:
        asked.append((output, options))
        return docs.Built(pages=7, missing=(".github/CONTRIBUTING.md",), warnings=("a.md:1: WARNING: no such place",))

    monkeypatch.setattr(docs, "build", build)
    status, out, err = dmlpy("docs", "--output", tmp_path / "o", "--sources", tmp_path / "s", "--jobs", "3")
    assert (status, out) == (0, f"7 pages: {tmp_path / 'o' / 'index.html'}\n")
    assert asked == [(tmp_path / "o", {"sources": tmp_path / "s", "jobs": 3})]
    assert "a.md:1: WARNING: no such place" in err
    assert "left out, as they are in a checkout only: .github/CONTRIBUTING.md" in err
    assert dmlpy("docs", "--strict")[0] == 1


def test_docs_names_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in ("sphinx", "furo") else find(name, *rest))
    status, _, err = dmlpy("docs")
    assert status == 1
    assert "not installed" in err
    assert "sphinx" in err
    assert "pip install -e '.[docs]'" in err


# --- the program itself -----------------------------------------------------------------------------------------------------


def test_help_and_version() -> None:
    status, out, _ = dmlpy("--help")
    assert status == 0
    assert all(command in out for command in ("run", "check", "explain", "ops", "levels", "info", "schemas"))
    assert dmlpy("--version") == (0, f"dmlpy {dml.__version__}\n", "")
    assert dmlpy("check")[0] == 2


@pytest.mark.parametrize("name", ["rnn.json", "RNN.JSON", "folder/dump.bin", "net.onnx", "absent.json"])
def test_a_file_in_the_place_of_a_command(name: str) -> None:
    status, out, err = dmlpy(name)
    assert (status, out) == (2, "")
    command = "onnx run" if name.endswith(".onnx") else "run"
    assert f"did you mean dmlpy {command} {name}?" in " ".join(err.replace("│", " ").split())


def test_a_file_without_a_known_ending_and_an_unknown_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, rnn_model()).rename(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    assert "dmlpy run model" in dmlpy("model")[2]
    status, _, err = dmlpy("models")
    assert status == 2
    assert "dmlpy run" not in err


def test_python_runs_the_package_as_the_command() -> None:
    shown = subprocess.run([sys.executable, "-m", "dmlpy", "--version"], capture_output=True, text=True, check=True)
    assert (shown.stdout, shown.stderr) == (f"dmlpy {dml.__version__}\n", "")


def test_the_program_runs_and_loads_little_for_help(tmp_path: Path) -> None:
    program = [
        sys.executable,
        "-c",
        "import sys; from dmlpy.cli.main import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)",
    ]
    shown = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stdout == f"dmlpy {dml.__version__}\n"
    loaded = set(shown.stderr.split())
    assert not {"cupy", "PIL", "psutil", "flatbuffers", "dmlpy.dxdispatch", "dmlpy.inspection.catalog", "dmlpy.inspection.schemas"} & loaded
    failed = subprocess.run([*program, "run", "absent.json"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("absent.json: 1 problem\n 1. file is missing, expected a file  [file.unreadable]\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        *("--help", "check absent.json --json"),
        *(pytest.param(command, marks=pytest.mark.slow) for command in ("explain GEMM", "ops --family attention", "onnx --help")),
    ],
)
def test_output_that_cannot_be_written_is_reported_on_one_line(command: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        program = [sys.executable, "-m", "dmlpy", *command.split()]
        failed = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert (failed.returncode, failed.stderr) == (UNWRITTEN, "the output cannot be written: No space left on device\n")
