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
from dmlpy import explain
from dmlpy.cli import REFUSED_OPTIONS, app
from dmlpy.descs import OPERATORS
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.numpy.device import NumpyDevice
from tests.models import RNN_LINE, put, resource_model, rnn_model, write

ROOT = Path(__file__).parent.parent
MODELS = Path(__file__).parent / "data" / "models"


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


def test_run_tells_errors_on_stderr_without_a_traceback(tmp_path: Path) -> None:
    path = write(tmp_path, put(rnn_model(), "dispatchables/rnn/desc/WeightTensor/Sizes", [1, 1, 1, 2]))
    status, out, err = on_numpy(path)
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        f"{path}, dispatchable 'rnn', DML_RNN_OPERATOR_DESC: 1 problem",
        " 1. WeightTensor.Sizes[3] is 2, expected input_size = 1  [size.equal]",
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
    status, out, err = on_numpy(write(tmp_path, put(rnn_model(), "resources/x/sizeInByte", 16)))
    assert (status, out.splitlines()[-1]) == (0, RNN_LINE)
    assert err == "warning: resource 'x': 'sizeInByte' means nothing here; did you mean sizeInBytes?\n"


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


@pytest.mark.parametrize("option", [*REFUSED_OPTIONS, "--queue-type", "--disable-gpu-timeout=1"])
def test_options_without_meaning_are_refused_with_the_reason(tmp_path: Path, option: str) -> None:
    status, out, err = dmlpy("run", write(tmp_path, rnn_model()), option, "x")
    assert (status, out) == (2, "")
    assert "Windows" in err or "ONNX" in err


@pytest.mark.parametrize("level", ["6.2", "6_2", "DML_FEATURE_LEVEL_6_2"])
def test_accepted_options(tmp_path: Path, level: str) -> None:
    status, out, _ = dmlpy(
        "run", write(tmp_path, rnn_model()), "-a", "numpy", "--dml_feature_level", level, "--post_dispatch_barriers", "none"
    )
    assert (status, out.splitlines()[-1]) == (0, RNN_LINE)


def test_models_that_are_none(tmp_path: Path) -> None:
    assert dmlpy("run")[0] == 2
    assert "ONNX" in dmlpy("run", tmp_path / "x.onnx")[2]
    assert on_numpy(tmp_path / "absent.json")[0] == 1
    status, _, err = on_numpy(MODELS / "good_gru_flat.json")
    assert status == 1
    assert "no model" in err
    assert "dmlpy check FILE.json" in err


def test_adapters_and_dependencies() -> None:
    status, out, _ = dmlpy("run", "-s")
    assert (status, out.splitlines()[0]) == (0, "numpy: NumPy on the CPU")
    status, out, _ = dmlpy("run", "-S")
    assert status == 0
    assert f"dmlpy: {dml.__version__}\n" in out
    assert f"numpy: {np.__version__}\n" in out


# --- check ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*sorted((ROOT / "examples").glob("*.json")), MODELS / "good_gru_flat.json"], ids=lambda path: path.name)
def test_check_of_valid_files(path: Path) -> None:
    assert dmlpy("check", path) == (0, f"{path}: no problems\n", "")
    status, out, _ = dmlpy("check", "--json", path)
    assert (status, json.loads(out)) == (
        0,
        {"file": str(path), "feature_level": "6_4", "valid": True, "findings": [], "warnings": []},
    )


def test_check_lists_all_problems_of_a_desc_and_marks_them() -> None:
    status, out, err = dmlpy("check", MODELS / "bad_rnn.json")
    table, _, report = out.partition(str(MODELS))
    marked = re.findall(r"^ x (\w+)", table, re.MULTILINE)
    assert (status, err) == (1, "")
    assert marked == ["WeightTensor", "RecurrenceTensor", "BiasTensor", "ActivationDescs"]
    assert re.findall(r"^ \d\. (\S+) is .*, expected .*\[(.*)\]$", report, re.MULTILINE) == [
        ("OutputSingleTensr", "field.unknown"),
        ("WeightTensor.Sizes[1]", "size.equal"),
        ("RecurrenceTensor.Flags", "field.form"),
        ("RecurrenceTensor.Sizes[3]", "size.equal"),
        ("BiasTensor.DataType", "field.form"),
        ("BiasTensor.Sizes[3]", "size.equal"),
        ("ActivationDescs", "activation_count"),
    ]
    assert "expected 2: f of the forward walk" in report  # prose keeps its words where members' names are spelled as in C


def test_check_for_programs(tmp_path: Path) -> None:
    data = put(rnn_model(), "dispatchables/rnn/desc/WeightTensor/Sizes", [1, 1, 1, 2])
    path = write(tmp_path, put(data, "commands/1/resource", "z"))
    status, out, err = dmlpy("check", path, "--json", "--feature-level", "5.0")
    report = json.loads(out)
    assert (status, err, report["valid"], report["feature_level"]) == (1, "", False, "5_0")
    assert [(finding["place"], finding["struct"]) for finding in report["findings"]] == [
        ("dispatchable 'rnn'", "DML_RNN_OPERATOR_DESC"),
        ("command at index 1", None),
    ]
    first = report["findings"][0]["problems"][0]
    assert (first["code"], first["path"], first["c_path"]) == ("size.equal", "weight_tensor.sizes[3]", "WeightTensor.Sizes[3]")
    assert report["findings"][1]["problems"][0]["c_path"] == "resource"


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        ('{"Type": "RNN", ]', [], "json.syntax"),
        ("{}", [], "json.root"),
        ('{"Type": "RNN", "Type": "RNN"}', [], "json.duplicate"),
        ('{"Type": "GEMM"}', [], "operator.unknown"),
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
    assert code in [problem["code"] for finding in json.loads(out)["findings"] for problem in finding["problems"]]
    if arguments:
        assert dmlpy("check", path)[0] == 0


def test_check_of_an_unknown_level_is_no_traceback() -> None:
    status, out, err = dmlpy("check", MODELS / "good_gru_flat.json", "--feature-level", "7_7")
    assert (status, out) == (1, "")
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
    assert "h after the last step walked" in out
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
    relu = explain.explain("ACTIVATION_RELU", "2_0")
    assert relu.row is not None
    assert (str(relu.row.level), relu.row.dims) == ("2_0", (4, 5))
    assert explain.explain("ACTIVATION_RELU").row is dml.ActivationReluDesc.support[-1]
    status, out, _ = dmlpy("explain", "ACTIVATION_GELU", "--feature-level", "5_0")
    assert status == 0
    assert "Feature level 5_0 does not have it." in out


@pytest.mark.parametrize("type_name", OPERATORS)
def test_every_operator_is_explained(type_name: str) -> None:
    found = explain.explain(type_name)
    kind = OPERATORS[type_name]
    assert [item.name for item in found.fields if item.name] == list(kind.model_fields)
    assert [item.c_name for item in found.fields if not item.name] == list(kind.c_counts)
    assert found.summary
    assert all(item.form for item in found.fields)
    assert kind.c_name in found.members().to_text()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_output_in_encodings_that_lack_characters(encoding: str) -> None:
    program = [sys.executable, "-c", "from dmlpy.cli import main; main()", "check", str(MODELS / "bad_rnn.json")]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    shown = subprocess.run(program, capture_output=True, check=False, env=environment)
    assert (shown.returncode, shown.stderr) == (1, b"")
    assert b"WeightTensor.Sizes[1] is " in shown.stdout


def test_explain_of_unknown_operators_tells_the_nearest() -> None:
    status, out, err = dmlpy("explain", "LSTN")
    assert (status, out) == (1, "")
    assert "did you mean LSTM?" in err


def test_explain_without_a_name_lists_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    for device in (NumpyDevice, CudaDevice):
        monkeypatch.setattr(device, "runs", lambda self, kind: kind is not dml.ActivationSoftmax1Desc)
    status, out, _ = dmlpy("explain")
    assert status == 0
    assert all(type_name in out for type_name in OPERATORS)
    assert re.search(r"DML_OPERATOR_GRU +GRUDesc +1_0 +numpy", out)
    assert re.search(r"DML_OPERATOR_ACTIVATION_SOFTMAX1 .*described only", out)


def test_info() -> None:
    status, out, _ = dmlpy("info")
    assert status == 0
    for line in (f"dmlpy: {dml.__version__}", "feature levels: 1_0 to 6_4 (DirectML 1.0.0 to 1.15.0)", "device numpy"):
        assert line in out.splitlines(), line
    assert f"operators described: {len(OPERATORS)}" in out
    assert "GRU" in out


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
    assert "dmlpy schemas" in err


# --- the program itself -----------------------------------------------------------------------------------------------------


def test_help_and_version() -> None:
    status, out, _ = dmlpy("--help")
    assert status == 0
    assert all(command in out for command in ("run", "check", "explain", "info", "schemas"))
    assert dmlpy("--version") == (0, f"dmlpy {dml.__version__}\n", "")
    assert dmlpy("check")[0] == 2


def test_the_program_runs_and_loads_little_for_help(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; from dmlpy.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"]
    shown = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert shown.stdout == f"dmlpy {dml.__version__}\n"
    loaded = set(shown.stderr.split())
    assert not {"cupy", "PIL", "psutil", "dmlpy.dxdispatch", "dmlpy.schemas"} & loaded
    failed = subprocess.run([*program, "run", "absent.json"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("absent.json: 1 problem\n 1. file is missing, expected a JSON file  [json.file]\n")
