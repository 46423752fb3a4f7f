"""The parts of `.ci/gpu`: time limits of programs, their output, stored files, missing packages, measurements."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("`.ci/gpu` is a script of bash, and ends programs by signals of POSIX", allow_module_level=True)

import dmlpy as dml
from dmlpy import compiler
from dmlpy.bench import launches, references
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.device import DEVICE_KINDS
from tests.gpu_check import bench, calls, dispatch, info, packages, programs, steps
from tests.gpu_check.calls import Asked, Call
from tests.gpu_check.programs import Ending, Program, Runner
from tests.support.bench import gpu_suite
from tests.support.cuda import emulated_gpu
from tests.support.cuda.counting import CountingRuntime
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gpu_check_runs import LIMIT_S, check_folder, has_ended, wait_until
from tests.support.folders import ROOT
from tests.support.tools import require

# time


class Exhausting(Runner):
    """Each program takes all the time that it is given, and then as long to end as it may; it writes every file that it is asked to.

    What measures ends by itself, in a part of that time.
    """

    def __init__(self) -> None:
        self.stopped = None
        self.lines: list[str] = []
        self.now = 1000.0
        self.ran: dict[str, tuple[float, Program]] = {}

    def tell(self, line: str) -> None:
        self.lines.append(line)

    def run(self, program: Program, seconds: float) -> Ending:
        self.now += seconds - 1 if any(part.startswith(SHORT) for part in program.command) else seconds + PATIENCE_S
        self.ran[program.name] = seconds, program
        for text in program.command:
            if "/out/" in text:
                self.write(Path(text))
        return self.ending(program, seconds)

    @staticmethod
    def write(path: Path) -> None:
        path.write_text("")

    @staticmethod
    def ending(program: Program, seconds: float) -> Ending:
        return Ending(program, 0, seconds, asked=False)


SHORT = ("tests.gpu_check.info", "tests.gpu_check.bench", "tests.gpu_check.steps", "tests.gpu_check.dispatch", "--import")
"""Parts of the commands of programs that end by themselves."""
PATIENCE_S = sum(programs.PATIENCE_S.values())
MEASURED = ["operators-before", "operators", "steps-before", "steps"]
PROGRAMS = {
    "check": ["info", "core", "bench", "operators", "steps"],  # and nothing is left for `rest`
    "recheck": ["info", "failed", *MEASURED, "bench", "profile", "page", "soak"],
    "core": ["info", "core"],
    "rest": ["info", "rest"],
    "profile": ["info", "profile", "page"],
    "sanitize": ["info", "memcheck", "racecheck", "synccheck"],
    "operators": ["info", "operators-before", "operators"],
}


def run_call(name: str, out: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[int, Exhausting, list[str]]:
    """A call whose programs take all the time that they are given: its status, what ran, and its output."""
    runner = Exhausting()
    out.mkdir(exist_ok=True)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.delitem(os.environ, emulated_gpu.VARIABLE, raising=False)
    monkeypatch.setattr(calls, "monotonic", lambda: runner.now)
    (out / f"{name}.log").touch()
    asked = Asked(name, out, calls.SECONDS.get(name, calls.PART_S), carried=out.parent / "carried", **more)
    return Call(asked, 1000.0, out.parent, runner).run(), runner, runner.lines


def carried(folder: Path, *names: str) -> Path:
    """The folder of what a call takes along, with folders in it."""
    for name in names:
        (folder / "carried" / name).mkdir(parents=True)
    return folder / "carried"


FAILED = json.dumps({"nodeid": "tests/devices/cuda/test_gpu.py::test_x", "outcome": "failed"})
"""A line of a record."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_ends_within_its_time_and_all_it_leaves_comes_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its programs do; and each of them has its share of the time."""
    monkeypatch.setattr(shutil, "which", lambda tool: f"/usr/bin/{tool}")
    before = carried(tmp_path, "before", "results") / "before"
    (tmp_path / "carried" / "results" / "core.jsonl.gz").write_bytes(gzip.compress(FAILED.encode()))
    status, runner, lines = run_call(name, tmp_path / "out", monkeypatch)
    assert status == 0, lines
    assert list(runner.ran) == PROGRAMS[name], lines
    assert runner.now - 1000 <= calls.SECONDS.get(name, calls.PART_S)
    assert all(seconds >= calls.LEAST_S for seconds, _ in runner.ran.values()), runner.ran
    check_folder(tmp_path / "out")
    assert os.environ["DMLPY_CACHE_DIR"] == os.environ["DMLPY_TEST_KERNELS"] == str(tmp_path / "kernels")
    for program_name, (_, program) in runner.ran.items():
        runs_nothing, waits_long = program.name in ("info", "page"), name == "sanitize" or program.name == "profile"
        assert program.environment.get("DMLPY_TIMEOUT_S") == (None if runs_nothing else "100" if waits_long else "2")
        own = program_name.endswith("-before")
        assert (program.folder, program.environment.get("PYTHONPATH", "").startswith(str(before))) == (
            (before, True) if own else (None, False)
        )


@pytest.mark.parametrize(
    ("call", "left", "seconds"),
    [
        ("check", 400.0, {"core": 160, "bench": 200, "operators": 267, "steps": 400, "rest": 400}),
        ("recheck", 240.0, {"failed": 60, "soak": 240}),
        ("steps", 100.0, {"steps": 100}),
    ],
)
def test_what_a_part_leaves_over_goes_to_those_behind_it(call: str, left: float, seconds: dict[str, float]) -> None:
    assert {part: round(calls.part_seconds(call, part, left)) for part in seconds} == seconds
    spent = 0.0
    for part in calls.shares(call):
        spent += calls.part_seconds(call, part, left - spent)
    assert spent == pytest.approx(left)


def test_measurements_end_by_themselves_before_they_are_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried(tmp_path, "references")
    _, runner, _ = run_call("check", tmp_path / "out", monkeypatch, operators=["GEMM"])
    for part in ("bench", "operators", "steps"):
        seconds, program = runner.ran[part]
        record = str(tmp_path / "out" / f"{part}.json")
        at = program.command.index(record)
        assert 0 < float(program.command[at + 1]) <= seconds - calls.ENDING_S + 1
        assert ("--references" in program.command) == (part != "steps")
    assert runner.ran["operators"][1].command[-1] == "GEMM"
    assert "GEMM" not in runner.ran["bench"][1].command


def test_without_their_tools_profiles_are_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    told = {"profile": "ncu is not installed", "sanitize": "compute-sanitizer is not installed"}
    for name, text in told.items():
        (tmp_path / name).mkdir()
        status, runner, lines = run_call(name, tmp_path / name / "out", monkeypatch)
        assert status == 0
        assert list(runner.ran) == ["info"]
        assert any(line.startswith(text) for line in lines)


@pytest.mark.parametrize("failed", ["", FAILED], ids=["none failed", "one failed"])
def test_rest_may_run_out_of_time(failed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is not a failure, but a test that failed is one; and `core` has to come to its end."""
    for part in ("core", "rest"):
        out = tmp_path / part / "out"
        out.mkdir(parents=True)
        monkeypatch.setattr(
            Exhausting,
            "ending",
            staticmethod(lambda program, seconds: Ending(program, 2 * (program.name != "info"), seconds, program.name != "info")),
        )
        monkeypatch.setattr(Exhausting, "write", staticmethod(lambda path: path.write_bytes(gzip.compress(failed.encode()))))
        status, _, _ = run_call(part, out, monkeypatch)
        assert status == int(part == "core" or bool(failed))


# programs


Spawn = Callable[..., tuple[Ending, list[str]]]


@pytest.fixture
def spawned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Spawn]:
    """Runs a Python program: how it ended, and its output.

    When it has printed a line its time is over, or this process is to `stop`; a quiet one has all the time.
    """
    log = tmp_path / "log"
    log.write_text("of another program\n")

    def run(text: str, *, quiet: bool = False, stop: bool = False) -> tuple[Ending, list[str]]:
        def clock() -> float:
            begun = not quiet and log.read_text().count("\n") > 1
            if begun and stop:
                signal.raise_signal(signal.SIGTERM)
            return time.monotonic() + (LIMIT_S if begun and not stop else 0)

        monkeypatch.setattr(programs, "monotonic", clock)
        runner, program = Runner(log), Program("it", programs.python("-c", text), quiet)
        ending = runner.run(program, float("inf") if stop else LIMIT_S)
        assert ending is not None
        assert runner.stopped == (signal.SIGTERM if stop else None)
        assert not stop or runner.run(program, LIMIT_S) is None, "nothing is begun after that"
        return ending, capfd.readouterr().out.splitlines()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


WAITS = "import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
DEAF = """\
import signal, subprocess, sys, time
for number in ({}):
    signal.signal(number, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("stop", [False, True], ids=["its time is over", "the call is asked to end"])
def test_a_program_is_interrupted(stop: bool, spawned: Spawn, tmp_path: Path) -> None:
    ending, lines = spawned(WAITS, stop=stop)
    assert (ending.status, ending.asked, ending.passed) == (0, True, False)
    assert lines == ["ready", "interrupted"]
    assert (tmp_path / "log").read_text().splitlines() == ["of another program", *lines]
    assert str(ending).startswith("it WAS ASKED TO END after ")


@pytest.mark.parametrize(("ignored", "status"), [("2,", -signal.SIGTERM), ("2, 15", -signal.SIGKILL)])
def test_a_program_that_does_not_listen_is_ended(monkeypatch: pytest.MonkeyPatch, spawned: Spawn, ignored: str, status: int) -> None:
    """With all that it has started."""
    monkeypatch.setattr(programs, "PATIENCE_S", {signal.SIGINT: 0.3, signal.SIGTERM: 0.3, signal.SIGKILL: 5})
    ending, lines = spawned(DEAF.format(ignored))
    assert ending.status == status
    wait_until(lambda: has_ended(int(lines[0])), "what it started is ended too")


def test_only_the_end_of_a_quiet_program_s_output_is_shown(spawned: Spawn, tmp_path: Path) -> None:
    """However much it is, and however long its lines are."""
    ending, lines = spawned("print(*('x' * 1000 for _ in range(30)), sep='\\n'); 1 / 0", quiet=True)
    assert (ending.status, ending.passed) == (1, False)
    assert (tmp_path / "log").read_text().count("x" * 1000) == 30
    assert len(lines) == programs.TAIL
    assert lines[0] == "x" * programs.WIDTH
    assert lines[-1] == "ZeroDivisionError: division by zero"
    ending, lines = spawned("print('little')", quiet=True)
    assert lines == ["little"], "of what it printed itself"


def test_who_failed_is_read_of_a_record_that_was_cut_off(tmp_path: Path) -> None:
    record = tmp_path / "core.jsonl.gz"
    passed = json.dumps({"nodeid": "tests/test_x.py::test_y", "outcome": "passed"})
    with gzip.open(record, "wt") as lines:
        lines.write(f'{{"$report_type": "SessionStart"}}\n{FAILED}\n{passed}\n{FAILED[:-3]}')
        lines.flush()
        record.with_suffix(".part").write_bytes(record.read_bytes())
    record.with_suffix(".part").replace(record)
    assert calls.failed_in(record) == {"tests/devices/cuda/test_gpu.py::test_x": True}


# packages and kernels


@pytest.mark.parametrize("call", ["check", "plan", "kernels"])
def test_all_that_is_missing_is_reported_at_once(tmp_path: Path, call: str) -> None:
    """With what brings it; by a Python that has no packages. What is prepared without a GPU needs no CuPy for that."""
    of_gpu = ["cupy"] if call == "check" else []
    command = [sys.executable, "-S", "-m", "tests.gpu_check", call, *(["--out", str(tmp_path)] if of_gpu else [])]
    variables = {name: text for name, text in os.environ.items() if name != emulated_gpu.VARIABLE} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    first, network, none, then = done.stdout.splitlines()
    assert first == f"what is not installed here is needed: {', '.join([*of_gpu, *packages.NEEDED])}"
    own = [*["cupy-cuda13x"] * len(of_gpu), "numpy", "pydantic", "lazy-loader", "platformdirs", "threadpoolctl"]
    wanted = [*own, "'pytest>=9'", "pytest-benchmark", "pytest-reportlog", "pytest-xdist", "hypothesis"]
    wanted += ["psutil", "matplotlib", "rich", "typer"]
    assert network.split()[-len(wanted) :] == wanted
    assert f"--python-version 3.{sys.version_info.minor} " in none
    assert f" -d .gpu/wheels {' '.join(own)} " in none
    assert then == "then bring the folder here"
    if of_gpu:
        assert (tmp_path / "check.log").read_text() == done.stdout


def test_a_pytest_that_is_too_old_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take the option that ends a test for none of its own, and wait for ever."""
    assert packages.missing(["pytest"]) == []
    monkeypatch.setattr(packages, "version", lambda name: "8.4.2")
    assert packages.missing(["pytest"]) == ["pytest"]


def test_measuring_needs_no_other_packages() -> None:
    """Than those that a call says; for the calls that run tests the dry runs show it."""
    text = "import tests.support.cuda.only_needed, tests.gpu_check.bench, tests.gpu_check.steps, tests.gpu_check.info;"
    text += "import dmlpy.bench.worker as worker;"
    text += (
        "worker.Session().start('tests.support.bench.gpu_suite:OverStandIn', 'cuda:0', 1); from dmlpy.bench import machine; machine.host(1)"
    )
    variables = os.environ | {emulated_gpu.VARIABLE: "null", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_wheels_bring_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "wheels" / "brought_along-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("brought_along.py", "")
        archive.writestr("brought_along-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: brought_along\nVersion: 1.0\n")
        archive.writestr("brought_along-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("brought_along-1.0.dist-info/RECORD", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert packages.missing(["brought_along", "json"]) == ["brought_along"]
    assert packages.install(wheel.parent, tmp_path / "site") is None
    assert packages.missing(["brought_along", "json"]) == []
    assert packages.install(tmp_path, tmp_path / "other") == f"there are no wheels in {tmp_path}"
    wheel.write_bytes(b"no wheel")
    assert "brought_along" in str(packages.install(wheel.parent, tmp_path / "other"))


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_kernels_that_cannot_be_read_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    file = carried(tmp_path, "") / "kernels.tar.gz"
    if content is not None:
        file.write_bytes(content)
    _, runner, lines = run_call("bench", tmp_path / "out", monkeypatch)
    assert lines[0].startswith(f"all kernels are compiled here, {file} cannot be used: ")
    assert list(runner.ran) == ["info", "bench"]


def test_kernels_that_are_brought_along_lie_where_the_product_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the archive's files could be written by others."""
    with tarfile.open(carried(tmp_path, "") / "kernels.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("a" * 64)
        member.size, member.mode = 3, 0o666
        archive.addfile(member, io.BytesIO(b"one"))
    run_call("bench", tmp_path / "out", monkeypatch)
    (kernel,) = (tmp_path / "kernels").iterdir()
    assert (kernel.name, kernel.read_bytes(), kernel.stat().st_mode & 0o022) == ("a" * 64, b"one", 0)


def test_the_machine_says_whether_the_kernels_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLPY_CACHE_DIR", str(tmp_path))
    device = CudaDevice(DryRunRuntime())
    assert info.fit(device, 7) == "NONE of 7 kernels that were brought along fits sm_90 and none: all are compiled here"
    compiler._compile.cache_clear()
    assert info.fit(CudaDevice(DryRunRuntime()), 7) == "7 kernels were brought along, for sm_90 and none"


# what is measured


def test_references_that_cannot_be_used_are_computed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Because there are none, the file is damaged, or it is of another dmlpy."""
    cases = bench.layer_cases(["lstm-64-b1-t100 FLOAT32 forward"])
    file = tmp_path / "references"
    assert bench.usable(None, cases) is None
    assert capsys.readouterr().out == ""
    assert bench.usable(file, cases) is None
    references.write(file, cases)
    found = bench.usable(file, cases)
    assert found is not None
    assert found.of(cases[0]) is not None
    file.write_bytes(file.read_bytes()[:-100])
    assert bench.usable(file, cases) is None
    assert capsys.readouterr().out.count("references are computed here: ") == 2
    write_stale(file, cases)
    assert bench.usable(file, cases) is None
    assert "was made by another dmlpy" in capsys.readouterr().out


def write_stale(file: Path, cases: Sequence[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(references, "checksum", lambda case: "another")
        references.write(file, cases)


SMALL: Any = (("RNN", "FLOAT32", 8, 2), ("LSTM", "FLOAT16", 512, 1))


def test_a_step_of_each_strategy_is_shown_with_its_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS", 5)
    device = CudaDevice(DryRunRuntime())
    rows = list(steps.rows(device, SMALL))
    assert [(row.work, row.strategy) for row in rows] == [
        (work, strategy) for work in ("rnn-8-b2-t5 FLOAT32", "lstm-512-b1-t5 FLOAT16") for strategy in STRATEGIES
    ]
    assert "strategy 'persistent_block' cannot take" in rows[3].reason  # R of 2 MB
    assert [row.strategy for row in rows if row.chosen] == ["persistent_block", "persistent_grid"]
    for row, (cell, dtype, hidden, batch) in zip(rows, [size for size in SMALL for _ in STRATEGIES], strict=True):
        if not row.reason:
            (desc,) = steps.shape_of(cell, hidden, batch, 5).descs("forward", dtype)
            report = dml.compile(desc, CudaDevice(DryRunRuntime(), strategy=row.strategy)).explain_plan()
            assert (row.estimate_us, row.estimate_step_us) == (report.estimate_us, report.estimate_step_us)
            assert row.whole_us is not None
            assert any(row.strategy in line for line in row.plan)


def test_rows_are_chosen_by_a_part_of_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS", 5)
    rows = list(steps.rows(CudaDevice(DryRunRuntime()), SMALL, ["rnn-8", "FLOAT16 persistent_grid"]))
    assert [(row.work, row.strategy) for row in rows] == [
        *(("rnn-8-b2-t5 FLOAT32", strategy) for strategy in STRATEGIES),
        ("lstm-512-b1-t5 FLOAT16", "persistent_grid"),
    ]
    assert [f"{row.work} {row.strategy}" for row in steps.rows(CudaDevice(DryRunRuntime()), SMALL)] == steps.names(SMALL)


@pytest.mark.parametrize("interrupted", [True, False], ids=["interrupted", "the time is over"])
def test_steps_are_saved_one_by_one(
    interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever ends it loses the one that is being measured."""
    require("g++")
    names = [f"rnn-8-b2-t100 FLOAT32 {strategy}" for strategy in STRATEGIES]
    works, strategies = zip(*(name.rsplit(" ", 1) for name in names), strict=True)

    def rows(*arguments: object) -> Iterator[steps.Row]:
        yield steps.Row(works[0], strategies[0], True, 2.0, 1.0, 200.0, 100.0)
        yield steps.Row(works[1], strategies[1], reason="it does not fit")
        if interrupted:
            raise KeyboardInterrupt
        assert 200 < signal.getitimer(signal.ITIMER_REAL)[0] <= LIMIT_S, "the end is set"
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(LIMIT_S)

    device = CudaDevice(EmulatedRuntime())
    monkeypatch.setattr(emulated_gpu, "install", lambda: device)
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: device)
    monkeypatch.setattr(launches, "LAUNCHES", 5)
    monkeypatch.setattr(steps, "left_of", lambda seconds: seconds)
    monkeypatch.setattr(steps, "rows", rows)
    steps.main(str(tmp_path / "steps.json"), str(LIMIT_S), sizes=SMALL[:1])
    found = json.loads((tmp_path / "steps.json").read_text())
    assert [(row["strategy"], row["step_us"], row["reason"]) for row in found["rows"]] == [
        (strategies[0], 2.0, ""),
        (strategies[1], None, "it does not fit"),
    ]
    assert found["left_out"] == names[2:]
    assert found["device"]["name"] == "H100 on the CPU"
    assert found["launch_us"].keys() == launches.NAMES.keys()
    assert all(us > 0 for us in found["launch_us"].values())
    printed = capsys.readouterr().out
    assert f"{names[0]} (chosen): 2.00 us a step (1.00 by the model), 200 us for 100 steps (100)" in printed
    assert f"ended before all was measured: {', '.join(names[2:])}" in printed


def test_a_measurement_s_time_begins_with_its_process() -> None:
    """Libraries take seconds to be imported."""
    assert 0 < 1e6 - bench.left_of(1e6) < 1e6
    text = "import time; time.sleep(0.2); from tests.gpu_check.bench import left_of; print(left_of(100))"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 99.8


def test_a_profiler_sees_a_pass_of_each_case(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And the kernels that it looks for are what runs."""
    runtime = CountingRuntime()
    monkeypatch.setattr(emulated_gpu, "install", lambda: CudaDevice(runtime))
    device = CudaDevice(runtime)
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: device)
    with gpu_suite.shrunken():
        dispatch.main(calls.PROFILED)
    assert runtime.counts["launch"] >= len(calls.PROFILED)
    named = {kernel.entry.partition("<")[0] for kernel in device.library.keys}
    assert {name for name in named if re.fullmatch(calls.PROFILED_KERNELS.removeprefix("regex:"), name)} == {
        "persistent_grid",
        "convolve_tiles",
        "attend_halves",
    }
    assert "strategy " in capsys.readouterr().out
