"""The parts of `.ci/gpu`: time that programs have, what is told of them, what is kept, what is missing, what is measured."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import types
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.devices.cuda import machine
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.recurrent.strategies import STRATEGIES
from dmlpy.devices.device import DEVICE_KINDS
from tests.gpu_check import calls, dispatch, kernel_cache, packages, plugin, programs, steps
from tests.gpu_check.calls import Asked, Call
from tests.gpu_check.programs import Ending, Program, Runner
from tests.support.cuda import stand_in
from tests.support.cuda.counting import CountingSeam
from tests.support.cuda.cpu_seam import CpuSeam, NullSeam
from tests.support.folders import ROOT
from tests.support.gpu_check_runs import LIMIT_S, check_folder, has_ended, wait_until

# time


class Exhausting(Runner):
    """Each program takes all the time that it is given, and then as long to end as it may; it writes every file that it is told."""

    def __init__(self) -> None:
        self.stopped = None
        self.now = 1000.0
        self.ran: dict[str, tuple[float, Program]] = {}

    def run(self, programs: Sequence[Program], until: float) -> list[Ending]:
        start, self.now = self.now, until + PATIENCE_S
        for program in programs:
            self.ran[program.name] = until - start, program
            for text in (*program.command, str(program.log)):
                if "/out/" in text:
                    Path(text.rpartition("=")[2]).write_text("")
        return [Ending(program, 0, until - start, asked=False) for program in programs]


PATIENCE_S = sum(programs.PATIENCE_S.values())
PROGRAMS = {
    "first": ["info", "walk", "grid", "step"],
    "rest": ["info", "tests", "soak"],
    "bench": ["info", "bench", "steps"],
    "profile": ["info", *(name for case in calls.PROFILED for name in (case, f"page of {case}")), "memcheck", "racecheck", "synccheck"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_ends_below_nine_minutes_and_all_it_leaves_comes_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its programs do; and each of them has its share of the time."""
    out, lines, runner = tmp_path / "out", list[str](), Exhausting()
    out.mkdir()
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.delitem(os.environ, stand_in.VARIABLE, raising=False)
    monkeypatch.setattr(calls, "monotonic", lambda: runner.now)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/usr/bin/{tool}")
    (out / f"{name}.txt").touch()
    status = Call(Asked(name, out, keeps_kernels=name != "profile"), 1000.0, tmp_path, lines.append, runner).run()
    assert status == 0, lines
    assert list(runner.ran) == PROGRAMS[name]
    assert runner.now - 1000 < 9 * 60 - 5
    assert all(seconds >= calls.PAGE_S for seconds, _ in runner.ran.values()), runner.ran
    check_folder(out)
    assert os.environ["DMLPY_CACHE_DIR"] == os.environ["DMLPY_TEST_KERNELS"] == str(tmp_path / "kernels")
    for _, program in runner.ran.values():
        runs_nothing = program.name == "info" or program.name.startswith("page of")
        assert program.environment == ({} if runs_nothing else {"DMLPY_TIMEOUT_S": "100" if name == "profile" else "2"})


def test_without_their_tools_profiles_are_told_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    lines, runner = list[str](), Exhausting()
    assert Call(Asked("profile", tmp_path), time.monotonic(), tmp_path, lines.append, runner).run() == 0
    assert list(runner.ran) == ["info"]
    assert [line.partition(":")[0] for line in lines[1:3]] == ["ncu is not installed", "compute-sanitizer is not installed"]


# programs


def spawned(text: str, monkeypatch: pytest.MonkeyPatch, *, log: Path | None = None, stop: bool = False) -> tuple[Ending, list[str]]:
    """How a Python program ended, and what was told of it. When it tells its first line its time is over, or this process is to `stop`."""
    lines: list[str] = []
    monkeypatch.setattr(programs, "monotonic", lambda: time.monotonic() + (LIMIT_S if lines and not stop else 0))

    def tell(line: str) -> None:
        lines.append(line)
        if stop:
            signal.raise_signal(signal.SIGTERM)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        runner = Runner(tell)
        program = Program("it", programs.python("-c", text), log)
        (ending,) = runner.run([program], float("inf") if stop else time.monotonic() + LIMIT_S)
        assert runner.stopped == (signal.SIGTERM if stop else None)
        assert not stop or not runner.run([program], time.monotonic() + LIMIT_S), "nothing is begun after that"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return ending, lines


WAITS = "import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
DEAF = """\
import signal, subprocess, sys, time
for number in ({}):
    signal.signal(number, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("stop", [False, True], ids=["its time is over", "the call is asked to end"])
def test_a_program_is_interrupted(stop: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ending, lines = spawned(WAITS, monkeypatch, stop=stop)
    assert (ending.status, ending.asked, ending.passed) == (0, True, False)
    assert lines == ["it: ready", "it: interrupted"]
    assert str(ending).startswith("it WAS ASKED TO END after ")


@pytest.mark.parametrize(("ignored", "status"), [("2,", -signal.SIGTERM), ("2, 15", -signal.SIGKILL)])
def test_a_program_that_does_not_listen_is_ended(monkeypatch: pytest.MonkeyPatch, ignored: str, status: int) -> None:
    """With all that it has started."""
    monkeypatch.setattr(programs, "PATIENCE_S", {signal.SIGINT: 0.3, signal.SIGTERM: 0.3})
    ending, lines = spawned(DEAF.format(ignored), monkeypatch)
    assert ending.status == status
    wait_until(lambda: has_ended(int(lines[0].removeprefix("it: "))), "what it started is ended too")


def test_what_a_program_with_a_log_tells_is_what_it_writes_to_its_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    tells = f"import os; os.write(int(os.environ[{programs.LINES!r}]), b'a line\\n')"
    ending, lines = spawned(f"print('and more', flush=True); {tells}; import time; time.sleep(600)", monkeypatch, log=log)
    assert (ending.asked, lines) == (True, ["it: a line"])
    assert log.read_text().startswith("and more\n")
    ending, lines = spawned("1 / 0", monkeypatch, log=log)
    assert (ending.status, ending.passed, ending.asked) == (1, False, False)
    assert lines[-1] == "it: ZeroDivisionError: division by zero", "where it tells nothing, the end of its log"


# the report


class Pipe:
    """What a `Report` tells."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.text = ""
        monkeypatch.setattr(plugin.Report, "tell", lambda report, line: setattr(self, "text", f"{self.text}{line}\n"))
        self.report = plugin.Report(1, None)


def failing(nodeid: str, text: str) -> pytest.TestReport:
    return pytest.TestReport(nodeid, (plugin.file_of(nodeid), 1, ""), {}, "failed", text, "call", duration=0.1)


TRACEBACK = """\
tests/test_x.py:{line}: in test_x
    check(device)
tests/support/tolerance.py:44: in assert_close
    assert right, text
E   AssertionError: output: {line} of 2592 elements are off by 1.5e-03
E   assert False
"""


def test_many_failures_do_not_hide_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are, all of what is told is shorter than what comes back of a call."""
    pipe = Pipe(monkeypatch)
    nodeids = [f"tests/test_x.py::test_x[{number}]" for number in range(1000)]
    pipe.report.pytest_xdist_node_collection_finished(None, [*nodeids, "tests/test_y.py::test_y"])
    for number, nodeid in enumerate(nodeids):
        pipe.report.pytest_runtest_logstart(nodeid)
        pipe.report.pytest_runtest_logreport(failing(nodeid, TRACEBACK.format(line=number)))
        pipe.report.pytest_runtest_logfinish(nodeid)
    pipe.report.pytest_runtest_logstart("tests/test_y.py::test_y")
    session: Any = types.SimpleNamespace(config=types.SimpleNamespace(pluginmanager=pytest.PytestPluginManager()))
    pipe.report.pytest_sessionfinish(session)
    lines = pipe.text.splitlines()
    assert len(pipe.text) < 6000
    assert lines[:5] == [
        "1001 tests",
        "FAILED tests/test_x.py::test_x[0]",
        "    tests/test_x.py:0: in test_x",
        "    tests/support/tolerance.py:44: in assert_close",
        "    AssertionError: output: 0 of 2592 elements are off by 1.5e-03 assert False",
    ]
    assert "tests/test_x.py: 1000 failed; 100.0 s" in lines
    assert re.fullmatch(r"1000 failed, 1 NOT RUN; \d+ s", lines[-4])
    assert lines[-3].startswith("  still running: tests/test_y.py::test_y, for ")
    assert lines[-2] == "  not run: tests/test_y.py 1"
    assert lines[-1].startswith("  1000 × AssertionError: output: N of N elements are off by N assert False | tests/test_x.py::test_x[0]")


# packages and kernels


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    """With what brings it; by a Python that has no packages."""
    command = [sys.executable, "-S", "-m", "tests.gpu_check", "rest", "--out", str(tmp_path)]
    variables = {name: text for name, text in os.environ.items() if name != stand_in.VARIABLE} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    first, network, none, then = done.stdout.splitlines()
    assert first == f"rest needs what is not installed here: cupy, {', '.join(packages.NEEDED['rest'])}"
    own = ["cupy-cuda13x", "numpy", "pydantic", "lazy-loader", "platformdirs", "threadpoolctl"]
    names = [*own, "pytest", "pytest-benchmark", "pytest-xdist", "hypothesis", "matplotlib", "psutil", "rich", "typer"]
    assert network.split()[-len(names) :] == names
    assert f"--python-version 3.{sys.version_info.minor} " in none
    assert " -d .whl cupy-cuda13x numpy " in none
    assert then.endswith("--wheels .whl")
    assert (tmp_path / "rest.txt").read_text() == done.stdout


def test_measuring_needs_no_other_packages() -> None:
    """Than those that a call says; for the calls that run tests the dry runs show it."""
    text = "import tests.support.cuda.only_needed, tests.gpu_check.bench, tests.gpu_check.steps, tests.gpu_check.info;"
    text += "import dmlpy.bench.worker as worker;"
    text += "worker.Session().start('tests.gpu_check.bench:StandIn', 'cuda:0', 1); from dmlpy.bench import machine; machine.host(1)"
    variables = os.environ | {"DMLPY_TEST_ONLY": "bench", stand_in.VARIABLE: "null", "PYTHONPATH": str(ROOT)}
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


def test_kernels_are_packed_and_unpacked(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir(mode=0o700)
    kernels = {hashlib.sha256(data).hexdigest(): data for data in (b"one" * 1000, b"two")}
    for name, data in kernels.items():
        (before / name).write_bytes(data)
    (before / "tmp12345").write_bytes(b"not written to its end")
    assert kernel_cache.pack(before, tmp_path / "kernels.tar.gz") == 2
    assert kernel_cache.unpack(tmp_path / "kernels.tar.gz", after) == 2
    assert {path.name: path.read_bytes() for path in after.iterdir()} == kernels


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a/b"])
def test_what_is_no_kernel_is_not_unpacked(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    with tarfile.open(tmp_path / "file", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(tarfile.ReadError, match="is no kernel"):
        kernel_cache.unpack(tmp_path / "file", folder)
    assert [path.name for path in tmp_path.rglob("*")] == ["kernels", "file"] or not list(folder.iterdir())


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_kernels_that_cannot_be_read_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    lines, runner = list[str](), Exhausting()
    Call(Asked("bench", tmp_path, kernels=file), time.monotonic(), tmp_path, lines.append, runner).run()
    assert lines[0].startswith(f"all kernels will be compiled, {file} cannot be used: ")
    assert list(runner.ran) == PROGRAMS["bench"]


# what is measured beside the benchmark


SMALL: Any = (("RNN", "FLOAT32", 8, 2), ("LSTM", "FLOAT16", 512, 1))


def test_a_step_of_each_strategy_stands_beside_its_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS", 5)
    device = CudaDevice(NullSeam())
    rows = list(steps.rows(device, SMALL))
    assert [(row.work, row.strategy) for row in rows] == [
        (work, strategy) for work in ("rnn-8-b2-t5 FLOAT32", "lstm-512-b1-t5 FLOAT16") for strategy in STRATEGIES
    ]
    assert "strategy 'walk' cannot take" in rows[3].reason  # R of 2 MB
    assert [row.strategy for row in rows if row.chosen] == ["walk", "grid"]
    for row, (cell, dtype, hidden, batch) in zip(rows, [size for size in SMALL for _ in STRATEGIES], strict=True):
        if not row.reason:
            (desc,) = steps.shape_of(cell, hidden, batch, 5).descs("forward", dtype)
            report = dml.compile(desc, CudaDevice(NullSeam(), strategy=row.strategy)).explain_plan()
            assert (row.estimate_us, row.estimate_step_us) == (report.estimate_us, report.estimate_step_us)
            assert row.whole_us is not None
            assert any(row.strategy in line for line in row.plan)


def test_steps_are_saved_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An interruption loses the one that is being measured."""

    def interrupted(device: object, sizes: object) -> Iterator[steps.Row]:
        yield steps.Row("a", "walk", True, 2.0, 1.0, 200.0, 100.0)
        yield steps.Row("a", "grid", reason="it does not fit")
        raise KeyboardInterrupt

    monkeypatch.setattr(stand_in, "install", lambda: CudaDevice(CpuSeam()))
    monkeypatch.setattr(steps, "rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        steps.main(str(tmp_path / "steps.json"))
    found = json.loads((tmp_path / "steps.json").read_text())
    assert [(row["strategy"], row["step_us"], row["reason"]) for row in found["rows"]] == [
        ("walk", 2.0, ""),
        ("grid", None, "it does not fit"),
    ]
    assert found["device"]["name"] == "H100 on the CPU"
    assert found["launches"]["captured"]["model"] == machine.CAPTURED_LAUNCH_US
    assert all(found["launches"][how]["us"] > 0 for how in ("by itself", "captured"))
    assert "a walk (chosen): 2.00 us a step (1.00 by the model), 200 us for 100 steps (100)" in capsys.readouterr().out


def test_a_profiler_sees_a_few_passes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seam = CountingSeam()
    monkeypatch.setattr(stand_in, "install", lambda: None)
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: CudaDevice(seam))
    for case in calls.PROFILED.values():
        before = seam.counts["launch"]
        dispatch.main(case)
        assert seam.counts["launch"] - before >= dispatch.PASSES
    assert "strategy " in capsys.readouterr().out
