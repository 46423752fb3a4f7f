"""`dmlpy bench`: that works are computed the same by every library and checked, what is told of those that fail, and the command."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import typer.testing

import dmlpy as dml
from dmlpy.bench import command, machine, measure, readme
from dmlpy.bench.measure import Benchmark, Options, cases_of, line_of
from dmlpy.bench.process import FailedError, Worker
from dmlpy.bench.records import Machine, Measurement, Record
from dmlpy.bench.shapes import BatchNorm, LayerShape, Recurrent, Shape
from dmlpy.bench.subjects import PEERS, Subject, UnsupportedError
from dmlpy.bench.subjects.cupy import LoopRunner
from dmlpy.bench.subjects.dmlpy import Dmlpy
from dmlpy.bench.work import TOLERANCES, Case, RecurrentWork, SampledWork, relative_error
from dmlpy.bench.worker import Session, encode, serve
from dmlpy.cli import app
from dmlpy.devices.device import show_bytes
from dmlpy.validation.problems import DmlError
from tests.conftest import cuda_on_cpu
from tests.support import bench_peers
from tests.support.bench_peers import peer
from tests.support.folders import ROOT
from tests.support.tools import require

SMALLEST = "lstm-128-b1-t1"


def stack(*layers: LayerShape, batch: int = 4, steps: int = 5, **more: Any) -> Recurrent:
    return Recurrent(title="test", suite="cpu", layers=layers, batch=batch, steps=steps, **more)


MIXED = (LayerShape("LSTM", 5, 8, "BIDIRECTIONAL"), LayerShape("LSTM", 16, 6, projection=3), LayerShape("LSTM", 3, 4, "BACKWARD"))
SHAPES: dict[str, Shape] = {
    "stacked GRU": stack(LayerShape("GRU", 5, 8), LayerShape("GRU", 8, 8)),
    "GRU that resets before": stack(LayerShape("GRU", 5, 8, linear_before_reset=False), batch=2),
    "RNN": stack(LayerShape("RNN", 5, 8), batch=1, steps=3),
    "bidirectional, projected, backward": stack(*MIXED),
    "ragged, bidirectional": stack(LayerShape("LSTM", 5, 8, "BIDIRECTIONAL"), LayerShape("LSTM", 16, 8, "BIDIRECTIONAL"), lengths="ragged"),
    "ragged, projected": stack(LayerShape("LSTM", 5, 8, projection=4), LayerShape("LSTM", 4, 8, projection=4), batch=5, lengths="resets"),
    "NCHW": BatchNorm(title="test", suite="batch_norm", sizes=(3, 5, 4, 6), layout="NCHW"),
    "NHWC": BatchNorm(title="test", suite="batch_norm", sizes=(3, 5, 4, 6), layout="NHWC"),
}
SMALL = stack(LayerShape("LSTM", 4, 6))


def error_of(subject: Subject, case: Case, mode: Any = "eager") -> float:
    """How far off a library's results are after a few passes over other inputs."""
    work = case.work()
    runner = subject.build(work, mode)
    for number in (subject.sets - 1, 0):
        runner.run(number)
    if case.trains:
        assert isinstance(work, SampledWork)
        runner.load_upstream(work.upstream(checked=True))
        runner.run(0)
    found, expected = work.select(runner.results()), work.reference()
    assert sorted(found) == sorted(expected)
    error, name = relative_error(found, expected)
    assert error < TOLERANCES[case.dtype], f"{name} of {case.name}"
    for us in (runner.floor_us, runner.estimate_us, runner.estimate_step_us):
        assert (us is not None and us > 0) == subject.on_gpu
    return error


# --- works ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["forward", "training"])
@pytest.mark.parametrize("dtype", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_dmlpy_computes_the_reference(shape: Shape, dtype: Any, which: Any) -> None:
    error = error_of(Dmlpy("numpy", 1), Case(shape, dtype, which))
    assert (error < 1e-6) == (dtype == "FLOAT32")


@pytest.mark.parametrize("shape", [shape for shape in SHAPES.values() if isinstance(shape, Recurrent)], ids=lambda shape: shape.key)
def test_a_plain_loop_computes_the_reference(shape: Recurrent) -> None:
    work = Case(shape, "FLOAT32", "forward").work()
    assert isinstance(work, RecurrentWork)
    runner = LoopRunner(np, lambda function: function, work, 1, lambda: None)
    runner.run(0)
    assert relative_error(work.select(runner.results()), work.reference())[0] < 1e-6


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("which", ["forward", "training"])
def test_dmlpy_computes_the_reference_on_a_gpu(cuda_device: dml.Device, which: Any, mode: Any) -> None:
    error_of(Dmlpy(cuda_device, 1), Case(stack(LayerShape("RNN", 5, 8), LayerShape("RNN", 8, 8)), "FLOAT32", which), mode)


def test_a_gpu_is_timed_by_its_own_clock_and_takes_turns_with_inputs() -> None:
    subject = Dmlpy(cuda_on_cpu(), 1)
    work = Case(SHAPES["NCHW"], "FLOAT32", "forward").work()
    runner = subject.build(work, "graph")
    seam: Any = subject.place.seam  # type: ignore[attr-defined]
    before = seam.counts.copy()
    assert subject.microseconds(lambda: runner.run(2), 3) > 0
    assert dict(seam.counts - before) == {"record_event": 2, "launch_graph": 3, "elapsed_ms": 1}
    assert (subject.sets, subject.modes(work)) == (3, ("eager", "graph"))
    assert subject.versions()["dmlpy"] == dml.__version__
    used = subject.peak_bytes()
    assert used is not None
    assert used >= 3 * 5 * 4 * 6 * 4  # y


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("library", ["torch", "onnxruntime"])
def test_peers_compute_the_reference(library: str, shape: Shape) -> None:
    require(library)
    module, _, name = next(peer.target for peer in PEERS if peer.name == library).partition(":")
    subject = getattr(__import__(module, fromlist=[name]), name)("numpy", 1)
    for which in ("forward", "training") if library == "torch" else ("forward",):
        case = Case(shape, "FLOAT32", which)
        lacking = {
            "torch": {"GRU that resets before"},
            "onnxruntime": {"bidirectional, projected, backward", "ragged, projected", "NCHW", "NHWC"},
        }
        if next(key for key, value in SHAPES.items() if value is shape) in lacking[library]:
            with pytest.raises(UnsupportedError):
                subject.build(case.work(), "eager")
        else:
            error_of(subject, case)


def test_upstream_gradients_of_other_samples_are_zero_in_a_check() -> None:
    work = Case(stack(LayerShape("RNN", 5, 8), batch=8), "FLOAT32", "training").work()
    assert isinstance(work, SampledWork)
    assert work.chosen == [0, 4, 7]
    full, checked = work.upstream(), work.upstream(checked=True)
    assert (checked[:, work.chosen] == full[:, work.chosen]).all()
    assert not np.delete(checked, work.chosen, axis=1).any()
    assert full.all()


def test_errors_are_relative_and_nothing_hides_in_them() -> None:
    expected = {"a": np.array([3.0, 4.0]), "b": np.zeros(2)}
    assert relative_error({"a": np.array([3.0, 4.5]), "b": np.zeros(2)}, expected) == (0.1, "a")
    assert relative_error({"a": expected["a"], "b": np.array([0.0, 0.5])}, expected) == (0.5, "b")
    for broken in (np.array([3.0, np.nan]), np.array([3.0]), np.array([3.0, np.inf])):
        assert relative_error({"a": broken, "b": np.zeros(2)}, expected) == (np.inf, "a")
    assert relative_error({"a": expected["a"]}, expected) == (np.inf, "b")


def test_memory_that_a_case_needs_counts_all_its_tensors() -> None:
    case = Case(stack(LayerShape("RNN", 4, 8), batch=2, steps=3), "FLOAT32", "forward")
    x, y, parameters, states = 3 * 2 * 4, 3 * 2 * 8, 8 * 4 + 8 * 8 + 16, 2 * 2 * 8
    assert case.needed_bytes(1) == 4 * (x + y + parameters + states)
    assert case.needed_bytes(3) == case.needed_bytes(1) + 2 * 4 * x


# --- the worker -----------------------------------------------------------------------------------------------------------


def answers(*requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """A worker's answers, without a separate process."""
    told = io.StringIO()
    serve(io.StringIO("".join(encode(name, **arguments) + "\n" for name, arguments in requests)), told)
    return [json.loads(line) for line in told.getvalue().splitlines()]


def test_a_worker_answers_every_request(tmp_path: Path) -> None:
    case = Case(SMALL, "FLOAT32", "training")
    file = tmp_path / "results"
    started, opened, checked, timed, packed = answers(
        ("start", {"target": "dmlpy.bench.subjects.dmlpy:Dmlpy", "device": "numpy", "threads": 1}),
        ("open", {"case": case}),
        ("check", {"mode": "eager", "file": str(file)}),
        ("time", {"mode": "eager", "repeats": 3}),
        ("pack", {"mode": "eager"}),
    )
    assert started["value"]["versions"]["dmlpy"] == dml.__version__
    assert opened["value"]["eager"]["plan"]
    assert not opened["value"]["eager"]["packs"]
    with np.load(file) as found:
        assert relative_error(found, case.work().reference())[0] < 1e-6
    assert checked == {"value": None}
    assert timed["value"] > 0
    assert packed == {"absent": "nothing is packed"}


def test_a_worker_tells_why_it_cannot(capfd: pytest.CaptureFixture[str]) -> None:
    found = {}
    for kind in (bench_peers.Missing, bench_peers.Unable, bench_peers.Raising):
        start = ("start", {"target": f"tests.support.bench_peers:{kind.__name__}", "device": "numpy", "threads": 1})
        found[kind.__name__] = answers(start, ("open", {"case": Case(SMALL, "FLOAT32", "forward")}))
    assert found["Missing"][0] == {"not installed": "No module named 'missing': pip install missing"}
    assert found["Unable"][1] == {"value": {"eager": {"absent": "layers are not known here"}}}
    assert found["Raising"][1] == {"value": {"eager": {"failed": "ValueError: nothing"}}}
    assert "works" in capfd.readouterr().err  # the traceback


def test_packing_is_repeated() -> None:
    session = Session()
    session.start("dmlpy.bench.subjects.dmlpy:Dmlpy", "numpy", 1)
    assert session.open(Case(SMALL, "FLOAT32", "forward"))["eager"]["packs"]
    assert all(value > 0 for value in session.pack("eager"))


def test_every_request_after_the_limit_is_told(tmp_path: Path) -> None:
    with Worker("late", tmp_path, python=sys.executable, threads=1, limit_s=0.001) as worker:
        for _ in range(2):
            with pytest.raises(FailedError, match=r"no answer within 0\.001 s"):
                worker.ask("anything")


class Impatient(Worker):
    """Waits for the figures of a slow library no longer than a second."""

    def __init__(self, name: str, folder: Path, **more: Any) -> None:
        super().__init__(name, folder, **more)
        self._is_slow = name == "slow"

    def send(self, request: str, **arguments: Any) -> None:
        if request == "time" and self._is_slow:
            self.limit_s = 1.0
        super().send(request, **arguments)


def test_a_benchmark_measures_what_is_right_and_tells_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(measure, "Worker", Impatient)
    device = dml.device("numpy")
    monkeypatch.setattr(type(device), "available_memory", lambda self: 1_000_000)
    kinds = (bench_peers.Wrong, bench_peers.Dying, bench_peers.Slow, bench_peers.Missing)
    options = Options(peers=[peer(kind) for kind in kinds], own=peer(bench_peers.Exact), rounds=3, threads=1)
    lines: list[str] = []
    large = replace(SMALL, steps=10_000)
    file = tmp_path / "folder" / "record.json"
    record = Benchmark(device, options, lines.append).run([Case(shape, "FLOAT32", "forward") for shape in (SMALL, large)], file)
    assert Record.load(file) == record
    by_name = {run.subject: run for run in record.runs if run.shape == SMALL.key}
    assert {name: run.status for name, run in by_name.items()} == {
        "exact": "ok",
        "wrong": "wrong",
        "dying": "failed",
        "slow": "failed",
        "missing": "absent",
    }
    figures = by_name["exact"]
    assert figures.median_us is not None
    assert figures.least_us is not None
    assert 0 < figures.least_us <= figures.p10_us <= figures.median_us <= figures.p90_us  # type: ignore[operator]
    assert figures.rounds == 3
    assert figures.per_step_us == figures.median_us / SMALL.steps
    assert figures.relative_error is not None
    assert figures.relative_error < 1e-6
    assert figures.plan == list(LoopRunner.plan)
    reasons = {name: run.reason for name, run in by_name.items()}
    assert reasons["wrong"] is not None
    assert "are allowed for FLOAT32" in reasons["wrong"]
    assert by_name["wrong"].relative_error > TOLERANCES["FLOAT32"]  # type: ignore[operator]
    assert reasons["dying"] == "its process ended with status 3: a last word"
    assert reasons["slow"] == "no answer within 1 s"
    assert reasons["missing"] == "No module named 'missing': pip install missing"
    assert all(run.median_us is None for name, run in by_name.items() if name != "exact")
    refused = {run.subject: run for run in record.runs if run.shape == large.key}
    assert {run.status for run in refused.values()} == {"failed", "absent"}
    assert refused["missing"].status == "absent"
    needed = 4 * Case(large, "FLOAT32", "forward").needed_bytes(1)
    assert f"4 libraries at a time would need {show_bytes(needed)} ({needed} bytes)" in str(refused["exact"].reason)
    assert "1.0 MB are available on numpy" in str(refused["exact"].reason)
    assert f"{SMALL.key} FLOAT32 forward: missing eager: absent: {reasons['missing']}" in lines
    assert not psutil.Process().children()


@pytest.mark.parametrize("which", ["forward", "training"])
def test_a_run_holds_what_the_model_predicts_for_its_operators(which: Any) -> None:
    device, case = cuda_on_cpu(), Case(stack(LayerShape("RNN", 5, 8), LayerShape("RNN", 8, 8)), "FLOAT32", which)
    reports = [dml.compile(desc, device).explain_plan() for desc in case.shape.descs(which, "FLOAT32")]
    runner = Dmlpy(device, 1).build(case.work(), "eager")
    assert runner.estimate_us == pytest.approx(sum(report.estimate_us or 0 for report in reports))
    assert runner.estimate_step_us == pytest.approx(sum(report.estimate_step_us or 0 for report in reports))


def test_what_a_library_s_model_predicts_is_in_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options = Options(peers=[peer(bench_peers.Exact)], own=peer(bench_peers.Modelled), rounds=1, threads=1)
    runs = Benchmark(dml.device("numpy"), options).run([Case(SMALL, "FLOAT32", "forward")]).runs
    assert [(run.subject, run.estimate_us, run.estimate_step_us) for run in runs] == [("modelled", 50.0, 10.0), ("exact", None, None)]


def test_when_its_time_is_over_a_benchmark_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured by then is in the record, a library that is slow is told, and no other case is begun."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    class Late(Worker):
        """Comes to the slow library just before the end."""

        def send(self, request: str, **arguments: Any) -> None:
            if request == "time" and "slow" in self._printed.name:
                self.until = benchmark._until = time.monotonic() + 0.5
            super().send(request, **arguments)

    monkeypatch.setattr(measure, "Worker", Late)
    lines: list[str] = []
    cases = [Case(SMALL, dtype, "forward") for dtype in ("FLOAT32", "FLOAT16")]
    options = Options(peers=[peer(bench_peers.Slow)], own=peer(bench_peers.Exact), rounds=1, threads=1, limit_s=30, seconds=300)
    benchmark = Benchmark(dml.device("numpy"), options, lines.append)
    record = benchmark.run(cases)
    assert [(run.subject, run.dtype, run.status) for run in record.runs] == [("exact", "FLOAT32", "ok"), ("slow", "FLOAT32", "failed")]
    assert re.fullmatch(r"no answer within 0\.\d+ s, which were left", str(record.runs[1].reason))
    assert lines[-1] == f"300 s are over; not measured: {SMALL.key} FLOAT16 forward"
    assert not psutil.Process().children()


def test_a_reference_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    over = threading.Event()
    monkeypatch.setattr(RecurrentWork, "reference", lambda self: over.wait(60) and {})
    lines: list[str] = []
    options = Options(peers=(), own=peer(bench_peers.Exact), rounds=1, threads=1, seconds=1)
    began = time.monotonic()
    record = Benchmark(dml.device("numpy"), options, lines.append).run([Case(SMALL, "FLOAT32", "forward")], tmp_path / "record.json")
    over.set()
    assert time.monotonic() - began < 20
    assert Record.load(tmp_path / "record.json") == record
    assert (record.runs, record.left_out) == ([], [f"{SMALL.key} FLOAT32 forward"])
    assert lines == [f"1 s are over; not measured: {SMALL.key} FLOAT32 forward"]
    assert not psutil.Process().children()


def test_an_error_of_a_reference_is_no_end_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> Any:
        raise ValueError("no reference")

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(RecurrentWork, "reference", fail)
    options = Options(peers=(), own=peer(bench_peers.Exact), rounds=1, threads=1, seconds=60)
    with pytest.raises(ValueError, match="no reference"):
        Benchmark(dml.device("numpy"), options).run([Case(SMALL, "FLOAT32", "forward")])
    assert not psutil.Process().children()


def test_a_process_stays_for_the_next_case_and_runs_are_added_to_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    device, options = dml.device("numpy"), Options(peers=(), own=peer(bench_peers.Reusable), rounds=1, threads=1)
    first, second = (Case(SMALL, dtype, "forward") for dtype in ("FLOAT32", "FLOAT16"))
    before = Benchmark(device, options).record
    before.runs = [
        Measurement(shape=SMALL.key, dtype=dtype, pass_=which, subject="reusable", mode="eager", status="failed")
        for dtype, which in (("FLOAT32", "forward"), ("FLOAT32", "training"))
    ]
    record = Benchmark(device, options, before=before).run([first, second])
    runs = [(run.dtype, run.pass_, run.status) for run in record.runs]
    assert runs == [("FLOAT32", "training", "failed"), ("FLOAT32", "forward", "ok"), ("FLOAT16", "forward", "ok")]
    assert not psutil.Process().children()
    record.device["name"] = "another"
    with pytest.raises(DmlError, match="the existing record is for"):
        Benchmark(device, options, before=record)
    record.device["name"] = before.device["name"]
    with pytest.raises(DmlError, match=r"reusable is \d+ here, and \d+ in the existing record"):  # the version is the process
        Benchmark(device, options, before=record).run([first])
    assert not psutil.Process().children()


def test_a_worker_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    options = Options(peers=(), pythons={"dmlpy": str(tmp_path / "python")})
    (run,) = Benchmark(dml.device("numpy"), options).run([Case(SMALL, "FLOAT32", "forward")]).runs
    assert (run.status, run.reason) == ("failed", f"{tmp_path / 'python'} cannot be started: No such file or directory")


# --- the machine ----------------------------------------------------------------------------------------------------------


def test_rates_of_a_gpu_come_from_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(machine.COPIED_BYTES, "cuda", 1 << 12)
    monkeypatch.setattr(machine, "MEASURED_S", 1e-4)
    monkeypatch.setattr(machine, "gpu_facts", lambda ordinal: {"clocks.sm": f"{ordinal} MHz"})
    device: Any = cuda_on_cpu()
    monkeypatch.setattr(dml, "device", lambda name: device)
    assert machine.product_of_gpu() == (8192, 8192, 8192, "FLOAT16")
    found = machine.rates("cuda:0", [(8, 4, 2, "FLOAT16")], [1 << 12])
    assert found["copies"][1 << 12] > 0
    assert found["products"]["8x4x2 FLOAT16"] > 0
    assert found["device"] == {"clocks.sm": "0 MHz"}
    assert device.seam.counts["copy"] > 5
    assert device.seam.counts["gemm"] > 5


def test_the_floor_on_the_processor_is_of_products_or_of_memory() -> None:
    shape = stack(LayerShape("RNN", 4, 8), batch=2, steps=3)
    rates = Machine(copy_gb_s=1e-3, gemm_gflops={"8x4x6 FLOAT32": 2e-6, "8x8x2 FLOAT32": 1e-6})
    at_once, by_step = 2 * 8 * 4 * 6, 2 * 8 * 8 * 6
    forward, training = (machine.floor_us(Case(shape, "FLOAT32", which), rates) for which in ("forward", "training"))
    assert forward == pytest.approx((at_once / 2 + by_step) * 1e3)
    assert training == pytest.approx((3 * at_once / 2 + by_step / 2 + 2 * by_step) * 1e3)
    slow = rates.model_copy(update={"copy_gb_s": 1e-9})
    case = Case(shape, "FLOAT32", "forward")
    assert machine.floor_us(case, slow) == pytest.approx(shape.bytes("forward", "FLOAT32") * 1e6)
    assert machine.floor_us(case, Machine()) is None
    assert machine.floor_us(case, Machine(copy_gb_s=1.0)) is None
    assert machine.products_of(case) == [(8, 4, 6, "FLOAT32"), (8, 8, 2, "FLOAT32")]
    assert machine.copies_of(case) == [machine.COPIED_BYTES["cpu"], 1 << 12]


# --- records --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a record of `dmlpy bench`: the file"),
        ('{"format": 2}', "is not a record of `dmlpy bench`: format"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_record_is_told(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "record.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DmlError, match=message):
        Record.load(path)


def test_a_run_as_a_line() -> None:
    run = Measurement(shape="a", dtype="FLOAT32", pass_="forward", subject="x", mode="eager", status="absent", reason="it is not there")
    assert line_of(run) == "a FLOAT32 forward: x eager: absent: it is not there"
    run = run.model_copy(update={"status": "ok", "median_us": 1234.0, "relative_error": 2e-7, "slope_us": 12.0})
    assert line_of(run) == "a FLOAT32 forward: x eager: 1.23 ms, 12.0 µs a step more, error 2.0e-07"
    run = run.model_copy(update={"estimate_us": 987.0, "slope_us": None})
    assert line_of(run) == "a FLOAT32 forward: x eager: 1.23 ms, 987 µs by the model, error 2.0e-07"


# --- the command ----------------------------------------------------------------------------------------------------------


def bench(*arguments: Any) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the command."""
    result = typer.testing.CliRunner().invoke(app, ["bench", *map(str, arguments)], env={"COLUMNS": "200", "TERM": "dumb"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_command_measures_and_writes_a_record(tmp_path: Path) -> None:
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
    named = {name: run[name] for name in ("shape", "dtype", "pass", "subject", "mode", "status", "reason", "rounds")}
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
    assert run["slope_us"] is not None
    assert run["plan"]


def test_the_command_begins_no_case_when_its_time_is_over() -> None:
    status, _, err = bench("--device", "numpy", "--shape", SMALLEST, "--dtype", "float32", "--seconds", 0)
    assert status == 1
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
    ("arguments", "status", "message"),
    [
        (["--shape", "lstm-129*"], 1, "no shape's key matches 'lstm-129*'"),
        (["--peer", "torsh"], 1, "did you mean 'torch'?"),
        (["--peer", "cupy"], 1, "'cupy' is none of torch, onnxruntime"),
        (["--dtype", "float64"], 1, "'float64' is none of float32, float16"),
        (["--shape", SMALLEST, "--pass", "training"], 1, "none of these shapes is measured in that type and pass"),
        (["--python", "torch"], 1, "expected NAME=PATH"),
        (["--peer", "torch", "--no-peers"], 2, "contradict each other"),
        (["--picture", "a.svg"], 2, "give both"),
        (["--add"], 2, "give both"),
    ],
)
def test_what_cannot_be_measured_is_told(arguments: list[str], status: int, message: str) -> None:
    found, _, err = bench("--device", "numpy", *arguments)
    assert found == status
    assert message in " ".join(err.replace("│", " ").split())


def test_types_and_passes_are_chosen() -> None:
    shape = stack(LayerShape("RNN", 4, 8), dtypes=("FLOAT32", "FLOAT16"))
    assert [(case.dtype, case.which) for case in cases_of([shape], [], ["training"])] == [("FLOAT32", "training"), ("FLOAT16", "training")]
    assert [(case.dtype, case.which) for case in cases_of([shape], ["FLOAT16"], [])] == [("FLOAT16", "forward"), ("FLOAT16", "training")]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a single process")
def test_an_interruption_leaves_no_process() -> None:
    arguments = ["bench", "--device", "numpy", "--shape", SMALLEST, "--rounds", "1000000", "--no-peers", "--threads", "1"]
    # Where this process ignores SIGINT, as one in a shell's background does, its children would as well.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from dmlpy.cli import main; main()"
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
    program = "import os, time\nfrom dmlpy.bench import machine\nwith machine.busy(1):\n    time.sleep(1)\n    os._exit(0)"
    started = subprocess.Popen([sys.executable, "-c", program])
    found: list[psutil.Process] = []
    while not found:
        found = psutil.Process(started.pid).children()
    started.wait()
    psutil.wait_procs(found, timeout=10)
    assert not any(loop.is_running() for loop in found)


def test_dmlpy_on_one_thread_is_measured_beside_busy_loops() -> None:
    (alone,) = (peer for peer in PEERS if peer.name == "dmlpy-one-thread")
    assert alone.threads == 1
    device = dml.device("cpu")
    assert alone.stands_beside(device, load=1)
    assert not alone.stands_beside(device)


def test_a_record_tells_the_busy_loops_and_takes_no_runs_of_another_load(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    asked = ("--device", "numpy", "--no-peers", "--shape", SMALLEST, "--rounds", 1, "--save", file)
    status, _, err = bench(*asked, "--load", 1)
    assert status == 0, err
    record = Record.load(file)
    assert record.host.busy_loops == 1
    assert ", beside 1 busy loop, " in readme.block("record", tmp_path)
    status, _, err = bench(*asked, "--add")
    assert status == 1
    assert "the existing record was made with --load 1, this one would be with --load 0" in " ".join(err.split())
