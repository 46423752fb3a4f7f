"""The four calls: which programs they run, how long each may take, and what is in the folder afterwards."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.gpu_check import kernel_cache
from tests.gpu_check.programs import Ending, Program, Runner, python
from tests.gpu_check.selection import OTHERS, RECURRENT, SANITIZED, SOAK, STRATEGIES

SECONDS = 525.0
"""Of a call: below nine minutes."""
RESERVED_S = 30.0
"""At the end of a call, for programs that are asked to end, and for packing kernels."""
INFO_S, PROFILE_S, PAGE_S = 60.0, 60.0, 15.0
SOAK_S = STEPS_S = 90.0
TEST_S = 100.0
WORKERS = 8
PATIENT = {"DMLPY_TIMEOUT_S": "100"}
"""For programs whose blocks may have to wait for each other for long: under a sanitizer or a profiler, and on a CPU."""
NO_TESTS = 5
"""pytest's exit status where none was chosen."""
MOST_BYTES = 16 << 20
"""Of a file that some places take."""
PROFILED = {"lstm-128-b1-t512": "lstm-128-b1-t512 FLOAT32 forward", "lstm-256-b64-t150": "lstm-256-b64-t150 FLOAT16 forward"}
"""Cases by the name of their report."""
RECURRENT_KERNELS = "regex:^(walk|grid|step)$"
SANITIZERS = {"memcheck": 0.5, "racecheck": 0.5, "synccheck": 1.0}
"""compute-sanitizer's tools, and the share of what is left that each may take."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks for.

    Attributes:
        call: its name.
        folder: for logs and results.
        seconds: that the call may take.
        workers: of `rest`.
        tests: files or tests in the place of the call's own; none means those.
        keyword: pytest's `-k`; empty for all.
        cases: of `bench` in the place of its own; none means those.
        test_seconds: that one test may take.
        kernels: packed kernels of an earlier call; None for none.
        keeps_kernels: whether they are packed in the end.
    """

    call: str
    folder: Path
    seconds: float = SECONDS
    workers: int = WORKERS
    tests: Sequence[str] = ()
    keyword: str = ""
    cases: Sequence[str] = ()
    test_seconds: float = TEST_S
    kernels: Path | None = None
    keeps_kernels: bool = False


class Call:
    """A call under way.

    Args:
        asked: what for.
        start: when it began, by the monotonic clock.
        scratch: a folder that nobody else can write to.
        tell: takes a line for people.
        runner: runs its programs.
    """

    def __init__(self, asked: Asked, start: float, scratch: Path, tell: Callable[[str], None], runner: Runner) -> None:
        self._asked, self._start, self._tell, self._runner = asked, start, tell, runner
        self._kernels = scratch / "kernels"
        self._kernels.mkdir(mode=0o700)
        self._endings: list[Ending] = []
        self._complete = True
        self._packed = asked.folder / "kernels.tar.gz"
        os.environ |= {"DMLPY_CACHE_DIR": str(self._kernels), "DMLPY_TEST_KERNELS": str(self._kernels)}

    def run(self) -> int:
        """All of it. The exit status: 0 where everything passed, 128 and the signal's number where it was asked to end, else 1."""
        self._unpack()
        if self._run([Program("info", python("-m", "tests.gpu_check.info"))], INFO_S):
            {"first": self._first, "rest": self._rest, "bench": self._bench, "profile": self._profile}[self._asked.call]()
        stopped = self._runner.stopped
        if stopped is None:
            self._pack()
        self._tell(f"== {self._asked.call}: {'; '.join(map(str, self._endings)) or 'nothing was run'}")
        took = f"{monotonic() - self._start:.0f} s"
        self._tell(f"== {took}{'' if stopped is None else f', ended by {stopped.name}'}; logs in {self._asked.folder}")
        return 128 + stopped if stopped is not None else int(not self._complete)

    # the calls

    def _first(self) -> None:
        files = [*(self._asked.tests or RECURRENT), "--deselect", SOAK]
        self._run([self._tests(strategy, files, 1, "--gpu-strategy", strategy) for strategy in STRATEGIES])

    def _rest(self) -> None:
        soaks = not self._asked.tests and not self._asked.keyword
        self._run([self._tests("tests", self._asked.tests or OTHERS, self._asked.workers)], reserved_s=SOAK_S if soaks else 0.0)
        if soaks:
            self._run([self._tests("soak", [SOAK], 1, "--gpu-test-seconds", str(self._asked.seconds))])

    def _bench(self) -> None:
        reserved = 0.0 if self._asked.cases else STEPS_S
        record, seconds = str(self._asked.folder / "bench.json"), f"{max(0.0, self._left() - reserved):.0f}"
        cases = python("-m", "tests.gpu_check.bench", record, seconds, *self._asked.cases)
        self._run([Program("bench", cases, environment=self._environment)], reserved_s=reserved)
        if not self._asked.cases:
            steps = python("-m", "tests.gpu_check.steps", str(self._asked.folder / "bench-steps.json"))
            self._run([Program("steps", steps, environment=self._environment)])

    def _profile(self) -> None:
        if (ncu := shutil.which("ncu")) is None:
            self._tell("ncu is not installed: no kernel is profiled")
        else:
            for name, case in PROFILED.items():
                self._profile_case(ncu, name, case)
        if (sanitizer := shutil.which("compute-sanitizer")) is None:
            self._tell("compute-sanitizer is not installed: memory accesses, races and barriers are not checked")
        else:
            tests = self._pytest(self._asked.tests or SANITIZED)
            for tool, share in SANITIZERS.items():
                command = [sanitizer, "--tool", tool, "--error-exitcode", "9", *tests]
                self._run([Program(tool, command, self._file(f"{tool}.log"), PATIENT)], share * self._left())

    def _profile_case(self, ncu: str, name: str, case: str) -> None:
        report = self._file(f"{name}.ncu-rep")
        chosen = ["--kernel-name-base", "function", "--kernel-name", RECURRENT_KERNELS, "--launch-skip", "1", "--launch-count", "1"]
        command = [ncu, "--force-overwrite", "--set", "full", "--clock-control", "none", *chosen, "--export", str(report)]
        profile = [*command, *python("-m", "tests.gpu_check.dispatch", case)]
        self._run([Program(name, profile, environment=PATIENT)], PROFILE_S)
        if report.is_file():
            page = Program(f"page of {name}", [ncu, "--import", str(report), "--page", "details"], self._file(f"{name}.log"))
            self._run([page], PAGE_S)

    # programs

    def _file(self, name: str) -> Path:
        return self._asked.folder / f"{self._asked.call}-{name}"

    def _left(self) -> float:
        return self._start + self._asked.seconds - RESERVED_S - monotonic()

    def _run(self, programs: Sequence[Program], most_s: float = float("inf"), *, reserved_s: float = 0.0) -> bool:
        """Runs programs at the same time: for so long at most, and so long before the call's end. Whether they passed."""
        if self._left() <= reserved_s:
            self._tell(f"NOT RUN, the time is over: {', '.join(program.name for program in programs)}")
            endings = []
        else:
            endings = self._runner.run(programs, monotonic() + min(self._left() - reserved_s, most_s))
        for ending in endings:
            self._tell(f"== {ending}")
        self._endings += endings
        passed = len(endings) == len(programs) and all(ending.passed for ending in endings)
        self._complete &= passed
        return passed

    def _pytest(self, tests: Sequence[str], *more: str) -> list[str]:
        """A library's warning shall not hide what a GPU does, though warnings are errors in CI."""
        plugins = ("-p", "no:cacheprovider", "-p", "tests.gpu_check.plugin")
        chosen = ("-m", "gpu and not slow", *(["-k", self._asked.keyword] if self._asked.keyword else []))
        return python("-m", "pytest", *plugins, "-W", "default", "--tb=short", "--continue-on-collection-errors", *chosen, *more, *tests)

    def _tests(self, name: str, tests: Sequence[str], workers: int, *more: str) -> Program:
        """Tests in processes beside pytest's, so that one which dies is replaced, however often."""
        processes = ("-n", str(workers), "--dist", "load", "--max-worker-restart", "10000")
        results = (f"--junitxml={self._file(f'{name}.xml')}", "--durations=15")
        limit = ("--gpu-test-seconds", str(self._asked.test_seconds))
        right = (0, NO_TESTS) if self._asked.tests or self._asked.keyword else (0,)
        command = self._pytest(tests, *processes, *results, *limit, *more)
        return Program(name, command, self._file(f"{name}.log"), self._environment, right)

    @property
    def _environment(self) -> dict[str, str]:
        """Where blocks wait in vain this ends soon, but on a CPU."""
        return PATIENT if os.environ.get("DMLPY_TEST_GPU") == "cpu" else {"DMLPY_TIMEOUT_S": "2"}

    # kernels

    def _unpack(self) -> None:
        file = self._asked.kernels
        if file is None:
            return
        try:
            self._tell(f"{kernel_cache.unpack(file, self._kernels)} kernels are there from {file}")
        except (OSError, tarfile.TarError, EOFError) as error:
            self._tell(f"all kernels will be compiled, {file} cannot be used: {error}")

    def _pack(self) -> None:
        if not self._asked.keeps_kernels:
            return
        count, size = kernel_cache.pack(self._kernels, self._packed), self._packed.stat().st_size
        large = f", MORE THAN {MOST_BYTES >> 20} MiB" if size > MOST_BYTES else ""
        self._tell(f"{count} kernels are in {self._packed}, {size / 1e6:.1f} MB{large}")
