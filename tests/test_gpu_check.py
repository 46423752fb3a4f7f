"""`.ci/gpu` in dry runs: what its calls run, tell and leave behind, also where tests or the calls themselves come to a bad end."""

from __future__ import annotations

import hashlib
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from dmlpy.bench.records import Record
from tests import gpu_faults, stand_in
from tests.gpu_check import bench, calls, kernel_cache, packages, plugin, programs, selection
from tests.gpu_check.__main__ import parsed
from tests.gpu_check.calls import Asked, Call
from tests.gpu_check.programs import Ending, Program, Runner
from tests.scripts import ROOT
from tests.tools import missing, require

LIMIT_S = 300
FILES_BACK, DEEPEST = 8, 2
"""What some machines give back of the folder of results: so many files, no more than so many folders down."""


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


def wait_until(holds: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def only_needed(name: str) -> dict[str, str]:
    """Variables by which tests find only the packages that a call needs."""
    plugins = "tests.only_needed,xdist.plugin,pytest_benchmark.plugin"
    return {"DMLPY_TEST_ONLY": name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": plugins}


def check_folder(folder: Path) -> None:
    """All of it can be given back."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert 0 < len(files) <= FILES_BACK, files
    for path in files:
        name = path.relative_to(folder)
        assert len(name.parts) <= DEEPEST
        assert re.fullmatch(r"[A-Za-z0-9._/-]+", str(name)), name
        assert path.stat().st_size <= calls.MOST_BYTES


# whole calls


def test_first_runs_each_family_apart(tmp_path: Path) -> None:
    """And not the soak. The kernels that were compiled are kept, and the next call has them."""
    chosen = ("--tests", "tests/test_gpu_families.py", "tests/test_gpu.py", "-k", "64-5-9-FLOAT32 or late_blocks or test_timer")
    with call("first", "--out", tmp_path, "--keep-kernels", *chosen, over="null", **only_needed("first")) as started:
        printed = told(started)
    assert started.returncode == 0, printed
    for family in selection.FAMILIES:
        assert f"{family}: tests/test_gpu_families.py: 1 expected to fail;" in printed
    assert printed.count("tests/test_gpu.py: 1 passed;") == 1
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


def test_tests_that_go_wrong_end_their_own_process_and_a_signal_leaves_a_report(tmp_path: Path) -> None:
    require("g++")
    begun = tmp_path / "begun"
    arguments = ("--tests", "tests/gpu_faults.py", "--workers", "1", "--test-seconds", "10")
    with call("rest", "--out", tmp_path / "out", *arguments, over="cpu", **{gpu_faults.BEGUN: str(begun)}) as started:
        wait_until(lambda: begun.exists() or started.poll() is not None, "the last test begins")
        started.send_signal(signal.SIGTERM)
        printed = told(started)
    assert started.returncode == 128 + signal.SIGTERM, printed
    lines = [line.removeprefix("tests: ") for line in printed.splitlines()]
    culprits = ("kills_the_context", "is_right_and_leaves_a_dead_context")
    for name in culprits:
        at = lines.index("    its process was ended; another one takes the rest", lines.index(f"FAILED tests/gpu_faults.py::test_{name}"))
        assert lines[at - 1].startswith("    after this test the CUDA context answers nothing any more: CUDA_ERROR_LAUNCH_FAILED")
    assert sum("its process died; the log may say why" in line for line in lines) == 2  # at once, and in the end
    assert sum("it did not end within 10 s, and its process was ended; the log has the tracebacks" in line for line in lines) == 1
    # Those that failed: wrong, raising, two dead contexts, a dead process, too long. Right: one before each dead context, one after.
    assert any(re.fullmatch(r"6 failed, 3 passed, 1 NOT RUN; \d+ s", line) for line in lines), printed
    assert any(re.fullmatch(r"  still running: tests/gpu_faults.py::test_hangs, for \d+ s", line) for line in lines)
    assert "  not run: tests/gpu_faults.py 1" in lines
    assert "ended by SIGTERM" in lines[-1]
    log = (tmp_path / "out" / "rest-tests.log").read_text()
    assert "gpu_faults.py" in log.partition("Timeout (0:00:10)!")[2], "the tracebacks of what took too long"
    assert "Segmentation fault" in log
    assert "tests.gpu_faults" in (tmp_path / "out" / "rest-tests.xml").read_text()
    check_folder(tmp_path / "out")
    assert not left_behind(str(tmp_path))


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def left_behind(folder: str) -> list[psutil.Process]:
    """Processes whose command or environment has a folder's name in it."""

    def belongs(process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and folder in " ".join([*process.cmdline(), *process.environ().values()])
        except psutil.Error:
            return False

    return [process for process in psutil.process_iter() if belongs(process)]


def test_a_benchmark_that_is_killed_has_saved_what_it_measured(tmp_path: Path) -> None:
    require("g++")
    record = tmp_path / "bench.json"
    cases = ("lstm-128-b1-t1 FLOAT32 forward", "lstm-128-b1-t512 FLOAT32 forward")
    with call("bench", "--out", tmp_path, "--cases", *cases, over="cpu") as started:
        wait_until(lambda: record.exists() or started.poll() is not None, "the first case is measured")
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
        if file != "tests/test_torch.py" or missing("torch") is None:
            assert f"{file}: " in printed, "each file has tests that need a GPU"
    check_folder(tmp_path)


@pytest.mark.slow
def test_first_passes_on_the_cpu(tmp_path: Path) -> None:
    require("g++")
    with call("first", "--out", tmp_path, "-k", "64-5-9 or random_descs and RNN", "--test-seconds", "1000", over="cpu") as started:
        printed = told(started)
    assert started.returncode == 0, printed
    for family in selection.FAMILIES:
        assert re.search(rf"^{family}: \d+ passed; \d+ s$", printed, re.MULTILINE), printed


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
    ("file", "parameters", "family"),
    [
        ("tests/test_gpu_families.py", {"family": "walk", "dtype": "x"}, "walk"),
        ("tests/test_cuda_plans.py", {"family": "walk 4"}, "walk"),
        ("tests/test_cuda_plans.py", {"family": "step", "cell": "GRU"}, "step"),
        ("tests/test_gpu.py", {"device": "grid", "prepared": True}, "grid"),
        ("tests/test_gpu.py", {}, "step"),
        ("tests/test_cuda_grid.py", {"device": "cuda"}, "grid"),
        ("tests/test_cuda_gradient.py", {"family": "grid in a name", "device": "cuda"}, "grid"),
        ("tests/test_cuda_gradient.py", {"upstream": "walk", "device": "cuda"}, "step"),
    ],
)
def test_a_test_belongs_to_one_family(file: str, parameters: dict[str, object], family: str) -> None:
    assert selection.family_of(file, parameters) == family


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
    "bench": ["info", "bench"],
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
    for chosen in (program for _, program in runner.ran.values() if program.name in (*PROGRAMS["first"], *PROGRAMS["rest"])):
        assert chosen.environment == ({} if chosen.name == "info" else {"DMLPY_MOST_POLLS": str(1 << 21)})


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
tests/tolerance.py:44: in assert_close
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
        "    tests/tolerance.py:44: in assert_close",
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
    names = ["cupy-cuda13x", "numpy", "pydantic", "pytest", "pytest-benchmark", "pytest-xdist", "hypothesis", "matplotlib", "psutil"]
    assert network.split()[-len(names) - 2 :] == [*names, "rich", "typer"]
    assert f"--python-version 3.{sys.version_info.minor} " in none
    assert " -d .whl cupy-cuda13x numpy " in none
    assert then.endswith("--wheels .whl")
    assert (tmp_path / "rest.txt").read_text() == done.stdout


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
    assert list(runner.ran) == ["info", "bench"]


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
