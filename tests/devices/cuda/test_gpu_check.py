"""`.ci/gpu` in dry runs: what its calls run, print and leave behind, also where tests or the calls themselves come to a bad end."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

if sys.platform == "win32":
    pytest.skip("`.ci/gpu` is a script of bash, and ends programs by signals of POSIX", allow_module_level=True)

from dmlpy.bench import priorities
from dmlpy.bench.records import Record
from tests.gpu_check import bench, calls, plugin
from tests.gpu_check.__main__ import parsed
from tests.support.cuda import emulated_gpu, gpu_faults
from tests.support.cuda.gpu_check_runs import LIMIT_S, check_folder, named_for, outcomes, reports, wait_until
from tests.support.folders import ROOT
from tests.support.tools import require


@contextmanager
def call(*arguments: str | Path, over: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`.ci/gpu` on an emulated GPU; its output is text."""
    variables = os.environ | {emulated_gpu.VARIABLE: over, "PYTHON": sys.executable, **environment}
    command = ["bash", str(ROOT / ".ci" / "gpu"), *map(str, arguments)]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def told(started: subprocess.Popen[str]) -> str:
    """All output of a call until it ends."""
    return started.communicate(timeout=LIMIT_S)[0]


ONLY_NEEDED = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "tests.support.cuda.only_needed,xdist.plugin,pytest_benchmark.plugin,pytest_reportlog.plugin",
    "DMLPY_REQUIRE_TOOLS": "0",
}
"""Variables by which tests find only the packages that the calls need."""


def record(folder: Path, part: str) -> dict[str, Any]:
    """What a part has written."""
    found: dict[str, Any] = json.loads((folder / f"{part}.json").read_text())
    return found


# whole calls

SLICE = ("--cases", "lstm-64-b1-t100 FLOAT32 forward", "--operators", "TOP_K", "--steps", "lstm-128-b64-t100 FLOAT16 persistent_block")
TESTS = ("--tests", "tests/devices/cuda/test_gpu.py", "-k", "timer", "--workers", "0")


@pytest.mark.slow
def test_the_first_call_in_small(tmp_path: Path) -> None:
    """All of its parts, one after the other, with the packages that it needs and no others; each leaves a record."""
    with call("check", "--out", tmp_path, *TESTS, *SLICE, over="null", **ONLY_NEEDED) as started:
        printed = told(started)
    assert started.returncode == 0, printed
    ended = re.findall(r"^== (\w+) passed after \d+ s$", printed, re.MULTILINE)
    assert ended == ["info", *calls.shares("check")], printed
    assert "DRY RUN on an emulated GPU: null" in printed
    log = (tmp_path / "check.log").read_text()
    assert [line for line in printed.splitlines() if line not in log] == []
    assert re.search(r"^1 (passed|xfailed)", log, re.MULTILINE), "what pytest printed"
    for part in ("core", "rest"):
        assert [*outcomes(tmp_path, part).values()] in (["passed"], ["skipped"]), "where nothing computes, wrong results are skipped"
    layers, operators = Record.load(tmp_path / "bench.json"), Record.load(tmp_path / "operators.json")
    assert {run.shape for run in layers.runs} == {"lstm-64-b1-t100"}
    assert {(run.shape, run.dtype) for run in operators.runs} == {("TOP_K:ROWS", "FLOAT16"), ("TOP_K:ROWS", "FLOAT32")}
    assert [(row["work"], row["strategy"]) for row in record(tmp_path, "steps")["rows"]] == [
        ("lstm-128-b64-t100 FLOAT16", "persistent_block")
    ]
    check_folder(tmp_path)


GONE = "tests/support/cuda/gpu_faults.py::test_that_is_there_no_more"


@pytest.mark.slow
def test_the_second_call_runs_what_failed_and_compares_with_the_version_before(tmp_path: Path) -> None:
    failed = ["tests/support/cuda/gpu_faults.py::test_raises", "tests/support/cuda/gpu_faults.py::test_computes"]
    carried, out = tmp_path / "carried", tmp_path / "out"
    (carried / "results").mkdir(parents=True)
    lines = [json.dumps({"nodeid": name, "outcome": "failed"}) + "\n" for name in (*failed, GONE)]
    (carried / "results" / "core.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (carried / "before").symlink_to(ROOT)
    more = ("--carried", carried, "--workers", "1", *SLICE)
    with call("recheck", "--out", out, *more, over="null", **ONLY_NEEDED, PATH=tools_in(tmp_path / "bin")) as started:
        printed = told(started)
    assert started.returncode == 1, printed
    assert "3 tests failed before" in printed
    assert outcomes(out, "failed") == {failed[0]: "failed", failed[1]: "skipped"}
    ended = re.findall(r"^== ([\w-]+) (?:passed|FAILED with status 1) after \d+ s$", printed, re.MULTILINE)
    assert ended == ["info", "failed", "operators-before", "operators", "steps-before", "steps", "bench", "profile", "page", "soak"], (
        printed
    )
    assert [record(out, part)["rows"][0]["strategy"] for part in ("steps", "steps-before")] == ["persistent_block", "persistent_block"]


@pytest.mark.slow
def test_tests_that_go_wrong_end_their_own_process_and_a_signal_leaves_a_report(tmp_path: Path) -> None:
    require("g++")
    begun, out = tmp_path / "begun", tmp_path / "out"
    arguments = ("--tests", "tests/support/cuda/gpu_faults.py", "--workers", "1", "--test-seconds", "10")
    with call("core", "--out", out, *arguments, over="cpu", **{gpu_faults.BEGUN: str(begun)}) as started:
        wait_until(lambda: begun.exists() or started.poll() is not None, "the last test begins")
        wait_until(lambda: len(outcomes(out, "core")) == 9, "the record is written while tests run")
        started.send_signal(signal.SIGTERM)
        printed = told(started)
    assert started.returncode == 128 + signal.SIGTERM, printed
    assert "ended by SIGTERM" in printed.splitlines()[-1]
    crashed = ("kills_the_context", "is_right_and_leaves_a_dead_context", "dies", "takes_too_long")
    failed = ("is_wrong", "raises", *crashed)
    assert outcomes(out, "core") == {
        f"{gpu_faults.FILE}::{name}": "failed" if name.removeprefix("test_") in failed else "passed"
        for name in vars(gpu_faults)
        if name.startswith("test_") and name != "test_hangs"
    }
    record = [json.dumps(report) for report in reports(out / "core.jsonl.gz")]
    for name in crashed:
        assert any(f"crashed while running '{gpu_faults.FILE}::test_{name}'" in line for line in record)
    died = "after this test the CUDA context answers nothing any more: CUDA_ERROR_LAUNCH_FAILED"
    assert sum(died in line for line in record) == 2
    log = (out / "core.log").read_text()
    assert "gpu_faults.py" in log.partition("Timeout (0:00:10)!")[2], "the tracebacks of what took too long"
    assert "Segmentation fault" in log
    check_folder(out)
    assert not left_behind(str(tmp_path))


def left_behind(folder: str) -> list[psutil.Process]:
    """Processes whose command or environment has a folder's name in it."""

    def belongs(process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and folder in " ".join([*process.cmdline(), *process.environ().values()])
        except psutil.Error:
            return False

    return [process for process in psutil.process_iter() if belongs(process)]


@pytest.mark.slow
def test_a_benchmark_that_is_killed_has_saved_what_it_measured(tmp_path: Path) -> None:
    require("g++")
    file = tmp_path / "bench.json"
    cases = ("lstm-128-b1-t1 FLOAT32 forward", "lstm-128-b1-t512 FLOAT32 forward")
    with call("bench", "--out", tmp_path, "--cases", *cases, over="cpu") as started:
        # It is written first when the device's rates are known.
        wait_until(lambda: (file.exists() and Record.load(file).runs) or started.poll() is not None, "the first case is measured")
        started.send_signal(signal.SIGKILL)
        printed = told(started)
    found = Record.load(file)
    assert {run.shape for run in found.runs} == {"lstm-128-b1-t1"}, "the other case was not done yet"
    assert [(run.subject, run.mode, run.status) for run in found.runs if run.subject == "dmlpy"] == [
        ("dmlpy", "eager", "ok"),
        ("dmlpy", "graph", "ok"),
    ], printed
    assert {run.subject for run in found.runs} == {"dmlpy", *bench.PEER_NAMES}
    assert all((run.estimate_us or 0) > 0 and (run.median_us or 0) > 0 for run in found.runs if run.subject == "dmlpy")
    assert (found.device["through"], found.device["name"]) == ("cpu", "H100 on the CPU")
    assert {"dmlpy", "numpy", "compiler"} <= found.versions.keys()
    check_folder(tmp_path)
    wait_until(lambda: not left_behind(str(tmp_path)), "the benchmark's processes end too")


TOOLS = {
    "ncu": 'while [ "$1" != --export ] && [ "$1" != --import ]; do shift; done; [ "$1" = --import ] && echo details "$2" && exit\n'
    'touch "$2"; shift 2; exec "$@"',
    "compute-sanitizer": 'echo "tool $2"; shift 4; exec "$@"',
}
"""Fakes of the tools of `profile` and `sanitize`: they run their arguments."""


def tools_in(folder: Path) -> str:
    """A search path with these tools first."""
    folder.mkdir()
    for name, text in TOOLS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o700)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.slow
def test_profile_shows_a_pass_of_each_case_to_the_profiler(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with call("profile", "--out", out, over="null", PATH=tools_in(tmp_path / "bin"), **ONLY_NEEDED) as started:
        printed = told(started)
    assert started.returncode == 0, printed
    for case in calls.PROFILED:
        assert f"\n{case}\n" in printed
    assert f"details {out / 'profile.ncu-rep'}\n" in (out / "profile.log").read_text()
    check_folder(out)


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["one test", "its own tests"])
def test_sanitize_runs_its_tools(own: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    chosen = ("--seconds", "3000") if own else ("--tests", "tests/support/cuda/gpu_faults.py::test_computes")
    with call("sanitize", "--out", out, *chosen, over="null", PATH=tools_in(tmp_path / "bin"), **ONLY_NEEDED) as started:
        printed = told(started)
    assert started.returncode == 0, printed
    log = (out / "sanitize.log").read_text()
    for sanitizer in calls.SANITIZERS:
        assert f"tool {sanitizer}\n" in log
    counts = re.findall(r"^(?:\d+ deselected, )?(\d+) xfailed in", log, re.MULTILINE)
    assert len(counts) == len(calls.SANITIZERS)
    assert min(map(int, counts)) >= (len(named_for("sanitized")) if own else 1)
    check_folder(out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["core", "rest"])
def test_all_tests_run_as_far_as_nothing_computes(name: str, tmp_path: Path) -> None:
    """Each is collected, chosen once, and fails in nothing but its results, with the packages that the call needs and no others."""
    seconds = ("--seconds", "3000", "--test-seconds", "1000", "--workers", "2")
    with call(name, "--out", tmp_path, *seconds, over="null", **ONLY_NEEDED) as started:
        printed = told(started)
    assert started.returncode == 0, printed
    files = {nodeid.partition("::")[0] for nodeid in outcomes(tmp_path, name)}
    assert {*named_for(name)} - files <= {"tests/torch/test_torch.py"}, "each file has tests that need a GPU; PyTorch is not found"
    check_folder(tmp_path)


@pytest.mark.slow
def test_core_passes_on_the_cpu(tmp_path: Path) -> None:
    require("g++")
    with call("core", "--out", tmp_path, "-k", "64-5-9", "--workers", "2", "--test-seconds", "1000", over="cpu") as started:
        printed = told(started)
    assert started.returncode == 0, printed
    assert {*outcomes(tmp_path, "core").values()} == {"passed"}


# what is run


def test_every_test_that_needs_a_gpu_belongs_to_a_part(request: pytest.FixtureRequest) -> None:
    """Of those that are collected with this one: all of them where the whole suite is run."""
    files = {item.nodeid.partition("::")[0] for item in request.session.items if item.get_closest_marker("gpu")}
    assert files <= {*named_for("core"), *named_for("rest")}
    assert not set(named_for("core")) & set(named_for("rest"))


def test_all_that_is_chosen_by_name_exists() -> None:
    for file in (*named_for("core"), *named_for("rest")):
        assert (ROOT / file).is_file(), file
    assert any(file.startswith(plugin.SAMPLED) for file in named_for("rest"))
    for chosen in (calls.SOAK, *named_for("sanitized")):
        file, _, test = chosen.partition("::")
        name, _, parameters = test.partition("[")
        text = (ROOT / file).read_text()
        assert f"def {name}(" in text, chosen
        assert all(part.rstrip("]") in text for part in parameters.split("-")), chosen
    names = [*calls.LONG_CASES, *calls.PROFILED]
    assert [priorities.case_of(name).name for name in names] == names
    assert [case.name for case in bench.layer_cases()] == [name for name in priorities.FIRST_LAYERS if name not in calls.LONG_CASES]


# the script


def test_the_commands_in_the_script_are_right() -> None:
    """Those that its header shows, the two calls among them: they name what there is."""
    header = (ROOT / ".ci" / "gpu").read_text().partition("\nset -euo")[0]
    shown = re.findall(r"^#   \.ci/gpu (.*)$", header, re.MULTILINE)
    assert [line.split()[0] for line in shown] == ["kernels", "plan", *calls.CALLS]
    for line in shown:
        parsed(line.split())
    for name, seconds in calls.SECONDS.items():
        assert parsed([name]).seconds == seconds
        assert f"It ends within {seconds:g} s" in header
        assert re.search(rf"\b{', '.join(calls.CALLS[name])}\b", header.replace("\n# ", " "))
    for option in ("--tests", "-k", "--cases", "--operators", "--steps", "--seconds"):
        assert option in header


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["all"], "invalid choice: 'all'"),
        (["steps", "--tests", "file"], "unrecognized arguments: --tests file"),
        (["kernels", "--out", "folder"], "unrecognized arguments: --out folder"),
    ],
)
def test_what_the_script_cannot_do_is_reported(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(arguments)
    assert said in capsys.readouterr().err
