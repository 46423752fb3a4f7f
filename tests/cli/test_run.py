"""`dmlpy run`: what it prints, on which stream, and its exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.cli.main import REFUSED_OPTIONS
from tests.support.commands import dmlpy, on_numpy
from tests.support.dxdispatch.models import RNN_LINE, put, resource_model, rnn_model, write
from tests.support.folders import MODELS


def test_run_prints_the_device_the_dispatch_and_the_values(tmp_path: Path) -> None:
    status, out, err = on_numpy(write(tmp_path, rnn_model()))
    lines = out.splitlines()
    assert (status, err, len(lines)) == (0, "", 3)
    assert lines[0] == "Running on 'NumPy on the CPU'"
    assert re.fullmatch(r"Dispatch 'rnn': 1 iteration, \d+\.\d{4} ms median \(CPU\)", lines[1])
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
        rf"CPU Timings \(Hot\)  : 1 sample, {figures}",
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
        "      input_size = 1: from InputTensor.Sizes[3]",
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
    assert err == f"warning: {path}:1:{column}: resource 'x': sizeInByte is not used here; did you mean sizeInBytes?\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--device", "numpi"], 2, "did you mean 'numpy'"),
        (["--device", "numpy", "-a", "CPU"], 2, "give one of them"),
        (["-a", "Radeon"], 2, "no device's name contains 'Radeon'; there are"),
        (["--dml_feature_level", "9_9"], 2, "feature_level is '9_9'"),
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
    assert on_numpy(tmp_path / "absent.json")[0] == 2
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


def test_dispatches_are_profiled(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    status, out, err = on_numpy(write(tmp_path, rnn_model()), "--trace", str(trace))
    assert (status, err) == (0, "")
    assert RNN_LINE in out
    assert re.search(r"^rnn on numpy, 20 runs: whole [0-9.,]+ us \(median\), 1 node one by one", out, re.MULTILINE)
    assert re.search(r"^ RNN +numpy +1 +[0-9.,]+ +100\.0%$", out, re.MULTILINE)
    assert out.splitlines()[-1] == f"trace in {trace}: https://ui.perfetto.dev opens it"
    events = json.loads(trace.read_text())["traceEvents"]
    assert [event["args"]["run"] for event in events if event.get("cat") == "RNN"] == list(range(20))
    assert "one by one" not in on_numpy(write(tmp_path, rnn_model()))[1]
    assert "one by one" in on_numpy(write(tmp_path, rnn_model()), "--profile")[1]


def test_a_trace_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    status, _, err = on_numpy(write(tmp_path, rnn_model()), "--trace", str(tmp_path))
    assert status != 0
    assert str(tmp_path) in err
