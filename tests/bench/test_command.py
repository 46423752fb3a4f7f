"""The command `dmlpy bench`: what it measures, writes and reports, and that it leaves no process behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import typer.testing

import dmlpy as dml
from dmlpy.bench import command, machine, readme
from dmlpy.bench.calibration import Calibration
from dmlpy.bench.libraries import PEERS
from dmlpy.bench.measure import Benchmark, Options, cases_of
from dmlpy.bench.process import Worker
from dmlpy.bench.records import Measurement, Record
from dmlpy.bench.shapes import LayerShape
from dmlpy.bench.work import Case
from dmlpy.cli.main import app
from tests.support.bench.shapes import SMALLEST, stack
from tests.support.folders import ROOT


def bench(*arguments: Any) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the command."""
    result = typer.testing.CliRunner().invoke(app, ["bench", *map(str, arguments)], env={"COLUMNS": "200", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_command_measures_and_writes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrated: list[tuple[str, bool]] = []
    measure = Calibration.measure

    def counted(self: Calibration, case: Case, worker: Worker, *, is_last: bool = False) -> None:
        calibrated.append((case.name, is_last))
        measure(self, case, worker, is_last=is_last)

    monkeypatch.setattr(Calibration, "measure", counted)
    file = tmp_path / "record.json"
    arguments = (
        "--device",
        "numpy",
        "--shape",
        SMALLEST,
        "--dtype",
        "float32",
        "--pass",
        "forward",
        "--rounds",
        2,
        "--no-peers",
        "--slope",
    )
    status, out, err = bench(*arguments, "--threads", 1, "--save", file)
    assert status == 0, err
    assert SMALLEST in out
    assert f"{SMALLEST} FLOAT32 forward: dmlpy eager: " in err
    found = json.loads(file.read_text())
    assert list(found) == ["format", "date", "device", "host", "versions", "machine", "left_out", "runs"]
    assert (found["format"], found["device"]["kind"], found["host"]["threads"]) == (1, "cpu", 1)
    assert found["host"]["processor"]
    assert len(found["host"]["load_before"]) == len(found["host"]["load_after"]) == 3
    assert found["versions"] == {"dmlpy": dml.__version__, "numpy": np.__version__}
    assert found["machine"]["copy_gb_s"] > 0
    assert set(found["machine"]["gemm_gflops"]) == {"512x128x1 FLOAT32", "512x128x2 FLOAT32"}  # with twice the steps, two columns
    (run,) = found["runs"]
    named = {name: run.get(name) for name in ("shape", "dtype", "pass", "subject", "mode", "status", "reason", "rounds")}
    assert named == {
        "shape": SMALLEST,
        "dtype": "FLOAT32",
        "pass": "forward",
        "subject": "dmlpy",
        "mode": "eager",
        "status": "ok",
        "reason": None,
        "rounds": 2,
    }
    assert run["relative_error"] < 1e-6
    assert all(run[name] > 0 for name in ("median_us", "p10_us", "p90_us", "least_us", "repeats", "packing_us", "floor_us"))
    assert run["floor_us"] <= run["least_us"]
    assert found["machine"]["rate_spread"] >= 1
    # Before, between and after the rounds; likewise with twice the steps.
    assert [is_last for _, is_last in calibrated] == [False, False, True] * 2
    assert run["slope_us"] is not None
    assert run["plan"]
    # Another load makes other figures.
    status, _, err = bench(*arguments, "--save", file, "--add", "--load", 1)
    assert status == 1
    assert "the existing record was made with --load 0, this one would be with --load 1" in " ".join(err.split())
    record = Record.load(file)
    assert ", with 1 CPU-bound background process, " not in readme.block("record", tmp_path)
    record.host.busy_loops = 1
    record.save(file)
    assert ", with 1 CPU-bound background process, " in readme.block("record", tmp_path)


def test_the_command_begins_no_case_when_its_time_is_over(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    arguments = ("--device", "numpy", "--shape", SMALLEST, "--dtype", "float32", "--seconds", 0, "--load", 1, "--save", file)
    status, _, err = bench(*arguments)
    assert status == 1
    assert Record.load(file).host.busy_loops == 1
    assert f"0 s are over; not measured: {SMALLEST} FLOAT32 forward" in err


def test_the_command_lists_shapes_and_peers() -> None:
    status, out, _ = bench("--list", "--device", "numpy", "--shape", "lstm-128-*")
    assert status == 0
    assert SMALLEST in out
    assert "gru" not in out
    assert "pip install onnx onnxruntime" in out
    assert "CuPy" not in out  # it needs a GPU


def test_the_command_fails_where_dmlpy_itself_does() -> None:
    run = Measurement(shape="a", dtype="FLOAT32", pass_="forward", subject="dmlpy", mode="eager", status="ok")
    record = Benchmark(dml.device("numpy"), Options()).record
    record.runs = [run, run.model_copy(update={"subject": "torch", "status": "failed"})]
    assert command.is_complete(record)
    record.runs.append(run.model_copy(update={"status": "wrong"}))
    assert not command.is_complete(record)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "lstm-129*"], "no shape's key matches 'lstm-129*'"),
        (["--peer", "torsh"], "did you mean 'torch'?"),
        (["--peer", "cupy"], "'cupy' is none of torch, onnxruntime"),
        (["--dtype", "float64"], "'float64' is none of float32, float16"),
        (["--list", "--dtype", "float64"], "'float64' is none of float32, float16"),
        (["--list", "--pass", "back"], "'back' is none of forward, training"),
        (["--shape", SMALLEST, "--pass", "training"], "none of these shapes is measured in that type and pass"),
        (["--python", "torch"], "expected NAME=PATH"),
        (["--peer", "torch", "--no-peers"], "contradict each other"),
        (["--picture", "a.svg"], "give both"),
        (["--add"], "give both"),
    ],
)
def test_what_cannot_be_measured_is_reported(arguments: list[str], message: str) -> None:
    found, _, err = bench("--device", "numpy", *arguments)
    assert found == 2
    assert message in " ".join(err.replace("│", " ").split())


def test_types_and_passes_are_chosen() -> None:
    shape = stack(LayerShape("RNN", 4, 8), dtypes=("FLOAT32", "FLOAT16"))
    assert [(case.dtype, case.which) for case in cases_of([shape], [], ["training"])] == [("FLOAT32", "training"), ("FLOAT16", "training")]
    assert [(case.dtype, case.which) for case in cases_of([shape], ["FLOAT16"], [])] == [("FLOAT16", "forward"), ("FLOAT16", "training")]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a single process")
def test_an_interruption_leaves_no_process() -> None:
    arguments = ["bench", "--device", "numpy", "--shape", SMALLEST, "--rounds", "1000000", "--no-peers", "--threads", "1"]
    # Where this process ignores SIGINT, as one in a shell's background does, its children would as well.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from dmlpy.cli.main import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True, env=environment) as started:
        try:
            parent = psutil.Process(started.pid)
            assert started.stderr is not None
            assert "1 cases" in started.stderr.readline()
            children: list[psutil.Process] = []
            while not children:
                assert started.poll() is None, started.stderr.read()
                time.sleep(0.01)
                children = parent.children()
            # Where Python cannot raise an exception it drops it, so more than one may be needed. The next one comes late: it must not
            # interrupt what a busy machine still does about the one before.
            for _ in range(6):
                started.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    assert started.wait(20) == 130
                    break
            else:
                pytest.fail("it goes on after 6 interruptions")
        finally:
            started.kill()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


def test_busy_loops_end_with_the_block() -> None:
    before = set(psutil.Process().children())
    with machine.busy(2):
        loops = set(psutil.Process().children()) - before
        until = time.monotonic() + 20
        while min(sum(loop.cpu_times()[:2]) for loop in loops) < 0.2 and time.monotonic() < until:
            time.sleep(0.02)
        assert [loop.is_running() for loop in loops] == [True, True]
        assert min(sum(loop.cpu_times()[:2]) for loop in loops) >= 0.2, "they are busy"
    assert not any(loop.is_running() for loop in loops)


def test_busy_loops_end_with_the_process_that_started_them() -> None:
    program = "import os, time\nfrom dmlpy.bench import machine\nwith machine.busy(1):\n    time.sleep(0.3)\n    os._exit(0)"
    started = subprocess.Popen([sys.executable, "-c", program])
    found: list[psutil.Process] = []
    while not found:
        time.sleep(0.01)
        found = psutil.Process(started.pid).children()
    started.wait()
    psutil.wait_procs(found, timeout=10)
    assert not any(loop.is_running() for loop in found)


def test_dmlpy_on_one_thread_is_measured_next_to_busy_loops() -> None:
    (alone,) = (peer for peer in PEERS if peer.name == "dmlpy-one-thread")
    assert alone.threads == 1
    device = dml.device("cpu")
    assert alone.stands_beside(device, load=1)
    assert not alone.stands_beside(device)
