"""The parts of `dmlpy bench`: workers, reports of libraries that fail, the machine's rates, and records."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import dmlpy as dml
from dmlpy.bench import machine, measure
from dmlpy.bench.libraries.cupy import LoopRunner
from dmlpy.bench.libraries.dmlpy import Dmlpy
from dmlpy.bench.measure import Benchmark, Options, line_of
from dmlpy.bench.process import FailedError, Worker
from dmlpy.bench.records import Machine, Measurement, Record
from dmlpy.bench.shapes import LayerShape
from dmlpy.bench.work import TOLERANCES, Case, RecurrentWork, relative_error
from dmlpy.bench.worker import Session, encode, serve
from dmlpy.messages.problems import DmlError
from dmlpy.messages.quantities import show_bytes
from tests.conftest import cuda_on_cpu
from tests.support.bench import peers as bench_peers
from tests.support.bench.peers import peer
from tests.support.bench.shapes import SMALL, stack
from tests.support.folders import ROOT

# --- the worker -----------------------------------------------------------------------------------------------------------


def responses(*requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """A worker's answers, without a separate process."""
    told = io.StringIO()
    serve(io.StringIO("".join(encode(name, **arguments) + "\n" for name, arguments in requests)), told)
    return [json.loads(line) for line in told.getvalue().splitlines()]


def test_a_worker_answers_every_request(tmp_path: Path) -> None:
    case = Case(SMALL, "FLOAT32", "training")
    file = tmp_path / "results"
    started, opened, checked, timed, packed = responses(
        ("start", {"target": "dmlpy.bench.libraries.dmlpy:Dmlpy", "device": "numpy", "threads": 1}),
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


def test_a_worker_reports_why_it_cannot(capfd: pytest.CaptureFixture[str]) -> None:
    found = {}
    for kind in (bench_peers.Missing, bench_peers.Unable, bench_peers.Raising):
        start = ("start", {"target": f"tests.support.bench.peers:{kind.__name__}", "device": "numpy", "threads": 1})
        found[kind.__name__] = responses(start, ("open", {"case": Case(SMALL, "FLOAT32", "forward")}))
    assert found["Missing"][0] == {"not installed": "No module named 'missing': pip install missing"}
    assert found["Unable"][1] == {"value": {"eager": {"absent": "layers are not known here"}}}
    assert found["Raising"][1] == {"value": {"eager": {"failed": "ValueError: nothing"}}}
    assert "works" in capfd.readouterr().err  # the traceback


def test_packing_is_repeated() -> None:
    session = Session()
    session.start("dmlpy.bench.libraries.dmlpy:Dmlpy", "numpy", 1)
    assert session.open(Case(SMALL, "FLOAT32", "forward"))["eager"]["packs"]
    assert all(value > 0 for value in session.pack("eager"))


def test_every_request_after_the_limit_is_reported(tmp_path: Path) -> None:
    with Worker("late", tmp_path, python=sys.executable, threads=1, limit_s=0.001) as worker:
        for _ in range(2):
            with pytest.raises(FailedError, match=r"no answer within 0\.001 s"):
                worker.ask("anything")


class Impatient(Worker):
    """Waits for the figures of a slow library no longer than half a second."""

    def __init__(self, name: str, folder: Path, **more: Any) -> None:
        super().__init__(name, folder, **more)
        self._is_slow = name == "slow"

    def send(self, request: str, **arguments: Any) -> None:
        if request == "time" and self._is_slow:
            self.limit_s = 0.5
        super().send(request, **arguments)


def test_a_benchmark_measures_what_is_right_and_reports_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    assert (figures.estimate_us, figures.estimate_step_us) == (None, None)
    assert figures.per_step_us == figures.median_us / SMALL.steps
    assert figures.relative_error is not None
    assert figures.relative_error < 1e-6
    assert figures.plan == list(LoopRunner.plan)
    reasons = {name: run.reason for name, run in by_name.items()}
    assert reasons["wrong"] is not None
    assert "are allowed for FLOAT32" in reasons["wrong"]
    assert by_name["wrong"].relative_error > TOLERANCES["FLOAT32"]  # type: ignore[operator]
    assert reasons["dying"] == "its process ended with status 3: a last word"
    assert reasons["slow"] == "no answer within 0.5 s"
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


def test_when_its_time_is_over_a_benchmark_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured by then is in the record, a library that is slow is reported, and no other case is begun."""
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


def test_a_case_for_which_the_measured_library_has_no_time_left_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it has failed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    class Late(Worker):
        """The time is over when anything is to be timed."""

        def send(self, request: str, **arguments: Any) -> None:
            if request == "time":
                self.until = benchmark._until = time.monotonic()
            super().send(request, **arguments)

    monkeypatch.setattr(measure, "Worker", Late)
    options = Options(peers=[peer(bench_peers.Exact)], own=peer(bench_peers.Slow), rounds=1, threads=1, limit_s=30, seconds=300)
    benchmark = Benchmark(dml.device("numpy"), options)
    record = benchmark.run([Case(SMALL, dtype, "forward") for dtype in ("FLOAT32", "FLOAT16")])
    assert (record.runs, record.left_out) == ([], [f"{SMALL.key} {dtype} forward" for dtype in ("FLOAT32", "FLOAT16")])


def test_a_reference_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    over = threading.Event()
    monkeypatch.setattr(RecurrentWork, "reference", lambda self: over.wait(60) and {})
    lines: list[str] = []
    options = Options(peers=(), own=peer(bench_peers.Exact), rounds=1, threads=1, seconds=0.3)
    began = time.monotonic()
    record = Benchmark(dml.device("numpy"), options, lines.append).run([Case(SMALL, "FLOAT32", "forward")], tmp_path / "record.json")
    over.set()
    assert time.monotonic() - began < 20
    assert Record.load(tmp_path / "record.json") == record
    assert (record.runs, record.left_out) == ([], [f"{SMALL.key} FLOAT32 forward"])
    assert lines == [f"0.3 s are over; not measured: {SMALL.key} FLOAT32 forward"]
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
    # What the library's own model predicts is in its runs.
    assert [(run.estimate_us, run.estimate_step_us) for run in record.runs] == [(None, None), (50.0, 10.0), (50.0, 10.0)]
    assert not psutil.Process().children()
    record.device["name"] = "another"
    with pytest.raises(DmlError, match="the existing record is for"):
        Benchmark(device, options, before=record)
    record.device["name"] = before.device["name"]
    with pytest.raises(DmlError, match=r"reusable is \d+ here, and \d+ in the existing record"):  # the version is the process
        Benchmark(device, options, before=record).run([first])
    assert not psutil.Process().children()


def test_a_worker_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
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
    assert device.runtime.counts["copy"] > 5
    assert device.runtime.counts["gemm"] > 5


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
        ('{"format": 2}', "is not a record of `dmlpy bench`: 'format'"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_record_is_reported(tmp_path: Path, text: str | None, message: str) -> None:
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
