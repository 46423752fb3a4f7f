"""`.ci/gpu` in dry runs: what its calls run, tell and leave behind, also where tests or the calls themselves come to a bad end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from dmlpy.bench.records import Record
from tests.gpu_check import bench, calls, packages, plugin, selection
from tests.gpu_check.__main__ import parsed
from tests.support.cuda import gpu_faults, stand_in
from tests.support.folders import ROOT
from tests.support.gpu_check_runs import LIMIT_S, check_folder, wait_until
from tests.support.tools import require


@contextmanager
def call(*arguments: str | Path, over: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """`.ci/gpu` over a stand-in; its output is text."""
    variables = os.environ | {stand_in.VARIABLE: over, "PYTHON": sys.executable, **environment}
    command = ["bash", str(ROOT / ".ci" / "gpu"), *map(str, arguments)]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def told(started: subprocess.Popen[str]) -> str:
    """All that a call tells until it ends."""
    return started.communicate(timeout=LIMIT_S)[0]


def only_needed(name: str) -> dict[str, str]:
    """Variables by which tests find only the packages that a call needs."""
    plugins = "tests.support.cuda.only_needed,xdist.plugin,pytest_benchmark.plugin"
    return {"DMLPY_TEST_ONLY": name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": plugins, "DMLPY_REQUIRE_TOOLS": "0"}


# whole calls


@pytest.mark.slow
def test_first_runs_each_strategy_apart(tmp_path: Path) -> None:
    """And not the soak. The kernels that were compiled are kept, and the next call has them."""
    chosen = (
        "--tests",
        "tests/devices/cuda/test_gpu_strategies.py",
        "tests/devices/cuda/test_gpu.py",
        "-k",
        "64-5-9-FLOAT32 or late_blocks or test_timer",
    )
    with call("first", "--out", tmp_path, "--keep-kernels", *chosen, over="null", **only_needed("first")) as started:
        printed = told(started)
    assert started.returncode == 0, printed
    for strategy in selection.STRATEGIES:
        assert f"{strategy}: tests/devices/cuda/test_gpu_strategies.py: 1 expected to fail;" in printed
    assert printed.count("tests/devices/cuda/test_gpu.py: 1 passed;") == 1
    assert "DRY RUN over a stand-in for the GPU: null" in printed
    assert (tmp_path / "first.txt").read_text() == printed
    kept = re.search(r"(\d+) kernels are in \S+kernels\.tar\.gz", printed)
    assert kept is not None
    assert int(kept[1]) >= 6
    check_folder(tmp_path)
    with call("bench", "--out", tmp_path / "bench", "--kernels", tmp_path / "kernels.tar.gz", "--seconds", "1", over="null") as started:
        printed = told(started)
    assert f"{kept[1]} kernels are there" in printed
    assert "NOT RUN, the time is over: info" in printed
    assert started.returncode == 1


@pytest.mark.slow
def test_tests_that_go_wrong_end_their_own_process_and_a_signal_leaves_a_report(tmp_path: Path) -> None:
    require("g++")
    begun = tmp_path / "begun"
    arguments = ("--tests", "tests/support/cuda/gpu_faults.py", "--workers", "1", "--test-seconds", "10")
    with call("rest", "--out", tmp_path / "out", *arguments, over="cpu", **{gpu_faults.BEGUN: str(begun)}) as started:
        wait_until(lambda: begun.exists() or started.poll() is not None, "the last test begins")
        started.send_signal(signal.SIGTERM)
        printed = told(started)
    assert started.returncode == 128 + signal.SIGTERM, printed
    lines = [line.removeprefix("tests: ") for line in printed.splitlines()]
    culprits = ("kills_the_context", "is_right_and_leaves_a_dead_context")
    for name in culprits:
        at = lines.index(
            "    its process was ended; another one takes the rest", lines.index(f"FAILED tests/support/cuda/gpu_faults.py::test_{name}")
        )
        assert lines[at - 1].startswith("    after this test the CUDA context answers nothing any more: CUDA_ERROR_LAUNCH_FAILED")
    assert sum("its process died; the log may say why" in line for line in lines) == 2  # at once, and in the end
    assert sum("it did not end within 10 s, and its process was ended; the log has the tracebacks" in line for line in lines) == 1
    # Those that failed: wrong, raising, two dead contexts, a dead process, too long. Right: one before each dead context, one after.
    assert any(re.fullmatch(r"6 failed, 3 passed, 1 NOT RUN; \d+ s", line) for line in lines), printed
    assert any(re.fullmatch(r"  still running: tests/support/cuda/gpu_faults.py::test_hangs, for \d+ s", line) for line in lines)
    assert "  not run: tests/support/cuda/gpu_faults.py 1" in lines
    assert "ended by SIGTERM" in lines[-1]
    log = (tmp_path / "out" / "rest-tests.log").read_text()
    assert "gpu_faults.py" in log.partition("Timeout (0:00:10)!")[2], "the tracebacks of what took too long"
    assert "Segmentation fault" in log
    assert "tests.support.cuda.gpu_faults" in (tmp_path / "out" / "rest-tests.xml").read_text()
    check_folder(tmp_path / "out")
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
    record = tmp_path / "bench.json"
    cases = ("lstm-128-b1-t1 FLOAT32 forward", "lstm-128-b1-t512 FLOAT32 forward")
    with call("bench", "--out", tmp_path, "--cases", *cases, over="cpu") as started:
        # It is written first when the device's rates are known.
        wait_until(lambda: (record.exists() and Record.load(record).runs) or started.poll() is not None, "the first case is measured")
        started.send_signal(signal.SIGKILL)
        printed = told(started)
    found = Record.load(record)
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
"""What stands in for the tools of `profile`: they run what they are given."""


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["one test", "its own tests"])
def test_profile_runs_its_tools(own: bool, tmp_path: Path) -> None:
    for name, text in TOOLS.items():
        tool = tmp_path / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/bin/sh\n{text}\n")
        tool.chmod(0o700)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    out = tmp_path / "out"
    chosen = ("--seconds", "3000") if own else ("--tests", "tests/support/cuda/gpu_faults.py::test_computes")
    with call("profile", "--out", out, *chosen, over="null", PATH=path, **only_needed("profile")) as started:
        printed = told(started)
    assert started.returncode == 0, printed
    for name in calls.PROFILED:
        assert f"{name}: CUDA, H100 on the CPU" in printed  # its plan
        assert (out / f"profile-{name}.log").read_text() == f"details {out / f'profile-{name}.ncu-rep'}\n"
    file, count = ("devices/cuda/test_gpu_strategies", 4) if own else ("support/cuda/gpu_faults", 1)
    for sanitizer in calls.SANITIZERS:
        assert f"{sanitizer}: tests/{file}.py: {count} expected to fail" in printed
        assert (out / f"profile-{sanitizer}.log").read_text().startswith(f"tool {sanitizer}\n")
    check_folder(out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first", "rest"])
def test_all_tests_run_as_far_as_nothing_computes(name: str, tmp_path: Path) -> None:
    """Each is collected, chosen once, and fails in nothing but its results, with the packages that the call needs and no others."""
    seconds = ("--seconds", "3000", "--test-seconds", "1000", "--workers", "2")
    with call(name, "--out", tmp_path, *seconds, over="null", **only_needed(name)) as started:
        printed = told(started)
    assert started.returncode == 0, printed
    assert "FAILED" not in printed
    assert "NOT RUN" not in printed
    for file in selection.RECURRENT if name == "first" else selection.OTHERS:
        if file != "tests/torch/test_torch.py":  # PyTorch is not needed, so not found
            assert f"{file}: " in printed, "each file has tests that need a GPU"
    check_folder(tmp_path)


@pytest.mark.slow
def test_first_passes_on_the_cpu(tmp_path: Path) -> None:
    require("g++")
    with call("first", "--out", tmp_path, "-k", "64-5-9 or random_descs and RNN", "--test-seconds", "1000", over="cpu") as started:
        printed = told(started)
    assert started.returncode == 0, printed
    for strategy in selection.STRATEGIES:
        assert re.search(rf"^{strategy}: \d+ passed; \d+ s$", printed, re.MULTILINE), printed


# what is run


def test_every_test_that_needs_a_gpu_belongs_to_a_call(request: pytest.FixtureRequest) -> None:
    """Of those that are collected beside this one: all of them where the whole suite is run."""
    files = {plugin.file_of(item.nodeid) for item in request.session.items if item.get_closest_marker("gpu")}
    assert files <= {*selection.RECURRENT, *selection.OTHERS}
    assert not set(selection.RECURRENT) & set(selection.OTHERS)


def test_all_that_is_chosen_by_name_exists() -> None:
    for file in (*selection.RECURRENT, *selection.OTHERS):
        assert (ROOT / file).is_file(), file
    for chosen in (selection.SOAK, *selection.SANITIZED):
        file, _, test = chosen.partition("::")
        name, _, parameters = test.partition("[")
        text = (ROOT / file).read_text()
        assert f"def {name}(" in text, chosen
        assert all(part.rstrip("]") in text for part in parameters.split("-")), chosen
    names = [*bench.CASES, *calls.PROFILED.values()]
    assert [bench.case_of(name).name for name in names] == names
    with pytest.raises(ValueError, match="'lstm-128-b1-t513 FLOAT32 forward' is no case"):
        bench.case_of("lstm-128-b1-t513 FLOAT32 forward")


@pytest.mark.parametrize(
    ("file", "parameters", "strategy"),
    [
        ("tests/devices/cuda/test_gpu_strategies.py", {"strategy": "walk", "dtype": "x"}, "walk"),
        ("tests/devices/cuda/test_plans.py", {"strategy": "walk 4"}, "walk"),
        ("tests/devices/cuda/test_plans.py", {"strategy": "step", "cell": "GRU"}, "step"),
        ("tests/devices/cuda/test_gpu.py", {"device": "grid", "prepared": True}, "grid"),
        ("tests/devices/cuda/test_gpu.py", {}, "step"),
        ("tests/devices/cuda/test_grid.py", {"device": "cuda"}, "grid"),
        ("tests/devices/cuda/test_gradient.py", {"strategy": "grid in a name", "device": "cuda"}, "grid"),
        ("tests/devices/cuda/test_gradient.py", {"upstream": "walk", "device": "cuda"}, "step"),
    ],
)
def test_a_test_belongs_to_one_strategy(file: str, parameters: dict[str, object], strategy: str) -> None:
    assert selection.strategy_of(file, parameters) == strategy


# the script


def test_the_commands_in_the_script_are_right() -> None:
    """Those that its header shows: each is short, and names options that there are."""
    header = (ROOT / ".ci" / "gpu").read_text().partition("\nset -euo")[0]
    shown = re.findall(r"^#   (\.ci/gpu .*)$", header, re.MULTILINE)
    assert [line.split()[1] for line in shown] == 2 * list(packages.NEEDED)
    for line in shown:
        given = parsed(line.split()[1:])
        assert given.keep_kernels == (given.call in ("first", "rest"))
        assert len(line) < 300
    for option in ("--tests", "-k", "--cases", "--seconds"):
        assert option in header


@pytest.mark.parametrize(("arguments", "said"), [(["all"], "invalid choice: 'all'"), (["profile", "--keep-kernels"], "it keeps none")])
def test_what_the_script_cannot_do_is_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(arguments)
    assert said in capsys.readouterr().err
