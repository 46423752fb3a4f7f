"""The calls: which parts they have, which programs those run, how long each may take, and what is in the folder afterwards."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.gpu_check.programs import Ending, Program, Runner, python
from tests.gpu_check.selection import CORE, LONG_CASES, OTHERS, PROFILED, PROFILED_KERNELS, SANITIZED, SOAK

CALLS: Mapping[str, Mapping[str, float]] = {
    "check": {"core": 0.4, "bench": 0.3, "operators": 0.2, "steps": 0.1, "rest": 1.0},
    "recheck": {"failed": 0.25, "bench": 0.25, "operators": 0.15, "steps": 0.1, "profile": 0.15, "soak": 0.1},
}
"""The parts of the two calls in the order of worth, and the share of each in what is left when it begins.

Of the shares of the parts that are still to come, that is: what a part leaves over goes to those behind it. `rest` has all that is left
in the end, and counts for nothing before.
"""
PARTS = ("core", "bench", "operators", "steps", "rest", "failed", "profile", "soak", "sanitize")
"""Each is a call of its own, too."""
SECONDS = {"check": 400.0, "recheck": 240.0}
PART_S = 240.0
"""Of a call with one part."""
RESERVED_S = 20.0
"""At the end of a call, for programs that are asked to end."""
INFO_S, LEAST_S = 60.0, 3.0
ENDING_S = 6.0
"""What a measurement that ends by itself has for that."""
TEST_S, WORKERS = 40.0, 12
PATIENT = {"DMLPY_TIMEOUT_S": "100"}
"""For programs whose blocks may have to wait for each other for long: under a sanitizer or a profiler, and on a CPU."""
SOAKED = 0.1
"""The share of the soak's 100,000 steps that are taken."""
NO_TESTS = 5
"""pytest's exit status where none was chosen."""
MOST_BYTES = 16 << 20
"""Of a file that some places take."""
SANITIZERS = {"memcheck": 0.5, "racecheck": 0.5, "synccheck": 1.0}
"""compute-sanitizer's tools, and the share of what is left that each may take."""


def shares(call: str) -> Mapping[str, float]:
    """The parts of a call, and the share of each."""
    return CALLS.get(call, {call: 1.0})


def part_seconds(call: str, part: str, left: float) -> float:
    """The most seconds that a part may take when so many are left."""
    parts = shares(call)
    later = list(parts)[list(parts).index(part) :]
    if len(later) == 1:
        return left
    total = sum(parts[name] for name in later if name != "rest")
    return left * parts[part] / total


@dataclass(frozen=True)
class Asked:
    """What the command line asks for; an empty field means what the call has by itself.

    Attributes:
        call: its name.
        folder: for logs and results.
        seconds: that the call may take.
        workers: of tests.
        test_seconds: that one test may take.
        tests: files or tests in the place of those of `core`, `rest` and `sanitize`.
        keyword: pytest's `-k`.
        cases: of `bench`.
        operators: of `operators`.
        steps: texts of which a row of `steps` has one.
        kernels: an archive of compiled kernels.
        references: a file of references of `bench` and `operators`.
        after: the folder with the results of an earlier call, whose failed tests are those of `failed`.
        before: the folder of an earlier version, whose operators and steps are measured, too.
    """

    call: str
    folder: Path
    seconds: float
    workers: int = WORKERS
    test_seconds: float = TEST_S
    tests: Sequence[str] = ()
    keyword: str = ""
    cases: Sequence[str] = ()
    operators: Sequence[str] = ()
    steps: Sequence[str] = ()
    kernels: Path | None = None
    references: Path | None = None
    after: Path | None = None
    before: Path | None = None


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
        os.environ |= {"DMLPY_CACHE_DIR": str(self._kernels), "DMLPY_TEST_KERNELS": str(self._kernels)}

    def run(self) -> int:
        """All of it. The exit status: 0 where everything passed, 128 and the signal's number where it was asked to end, else 1."""
        self._unpack()
        if self._run(Program("info", python("-m", "tests.gpu_check.info", str(self._kernels))), INFO_S):
            for part in shares(self._asked.call):
                self._part(part)
        stopped = self._runner.stopped
        self._tell(f"== {self._asked.call}: {'; '.join(map(str, self._endings)) or 'nothing was run'}")
        took = f"{monotonic() - self._start:.0f} s"
        self._tell(f"== {took}{'' if stopped is None else f', ended by {stopped.name}'}; results in {self._asked.folder}")
        return 128 + stopped if stopped is not None else int(not self._complete)

    def _unpack(self) -> None:
        file = self._asked.kernels
        if file is None:
            self._tell("no kernels are brought along: all are compiled here")
            return
        try:
            with tarfile.open(file) as archive:
                archive.extractall(self._kernels, filter="data")
        except (OSError, EOFError, tarfile.TarError) as error:
            self._tell(f"all kernels are compiled here, {file} cannot be used: {error}")

    # the parts

    def _part(self, part: str) -> None:
        seconds = part_seconds(self._asked.call, part, self._left())
        until = monotonic() + seconds
        for program, share in self._programs(part, seconds):
            self._run(program, share * (until - monotonic()))

    def _programs(self, part: str, seconds: float) -> Iterator[tuple[Program, float]]:
        """Those of a part that may take so long, each with its share of what is left of that."""
        asked = self._asked
        if part in ("core", "rest"):
            chosen = asked.tests or {"core": (*CORE, "--deselect", SOAK), "rest": OTHERS}[part]
            yield self._tests(part, chosen, *(["--gpu-worth"] if part == "rest" else [])), 1.0
        elif part == "failed":
            if failed := self._failed_before():
                yield self._tests(part, failed), 1.0
        elif part == "soak":
            yield self._tests(part, [SOAK], environment={"DMLPY_TEST_SOAKED": str(SOAKED)}), 1.0
        elif part == "profile":
            yield from self._profile()
        elif part == "sanitize":
            yield from self._sanitize()
        else:
            yield from self._measure(part, seconds)

    def _measure(self, part: str, seconds: float) -> Iterator[tuple[Program, float]]:
        """`bench`, `operators` or `steps`, which end by themselves: of an earlier version first where there is one to compare with."""
        asked = self._asked
        long = LONG_CASES if asked.call == "recheck" else ()
        names = {"bench": asked.cases or long, "operators": asked.operators, "steps": asked.steps}[part]
        references = [] if asked.references is None or part == "steps" else ["--references", str(asked.references.resolve())]
        versions = [asked.before] * (asked.before is not None and part != "bench") + [None]
        for number, folder in enumerate(versions):
            name = part if folder is None else f"{part}-before"
            own = {} if folder is None else {"PYTHONPATH": os.pathsep.join([str(folder.resolve()), os.environ.get("PYTHONPATH", "")])}
            limit = f"{max(seconds / len(versions) - ENDING_S, 0):.0f}"
            module = ["tests.gpu_check.bench", "--operators"] if part == "operators" else [f"tests.gpu_check.{part}"]
            command = python("-m", *module, *references, str(self._file(f"{name}.json")), limit, *names)
            yield Program(name, command, environment=self._environment | own, folder=folder), 1 / (len(versions) - number)

    def _failed_before(self) -> list[str]:
        """The tests that failed in an earlier call."""
        folder = self._asked.after
        records = [] if folder is None else [path for name in ("core", "rest", "failed") if (path := folder / f"{name}.json").is_file()]
        failed = [nodeid for path in records for nodeid in json.loads(path.read_text())["failed"]]
        self._tell(f"{len(failed)} tests failed before" if records else f"no test is run again: {folder} has no results of an earlier call")
        return failed

    def _profile(self) -> Iterator[tuple[Program, float]]:
        if (ncu := shutil.which("ncu")) is None:
            self._tell("ncu is not installed: no kernel is profiled")
            return
        report = self._file("profile.ncu-rep")
        chosen = ["--kernel-name-base", "function", "--kernel-name", PROFILED_KERNELS, "--launch-count", str(len(PROFILED))]
        command = [ncu, "--force-overwrite", "--set", "full", "--clock-control", "none", *chosen, "--export", str(report)]
        yield Program("profile", [*command, *python("-m", "tests.gpu_check.dispatch", *PROFILED)], environment=PATIENT), 0.8
        yield Program("page", [ncu, "--import", str(report), "--page", "details"], self._log), 1.0

    def _sanitize(self) -> Iterator[tuple[Program, float]]:
        if (sanitizer := shutil.which("compute-sanitizer")) is None:
            self._tell("compute-sanitizer is not installed: memory accesses, races and barriers are not checked")
            return
        tests = self._pytest(self._asked.tests or SANITIZED)
        for tool, share in SANITIZERS.items():
            yield Program(tool, [sanitizer, "--tool", tool, "--error-exitcode", "9", *tests], self._log, PATIENT), share

    # programs

    def _file(self, name: str) -> Path:
        return self._asked.folder / name

    @property
    def _log(self) -> Path:
        """Of the call: few files are easier to bring home than many."""
        return self._file(f"{self._asked.call}.log")

    def _left(self) -> float:
        return self._start + self._asked.seconds - RESERVED_S - monotonic()

    def _run(self, program: Program, most_s: float) -> bool:
        """Runs a program for so long at most. Whether it passed."""
        seconds = min(self._left(), most_s)
        ending = self._runner.run(program, monotonic() + seconds) if seconds >= LEAST_S else None
        self._tell(f"NOT RUN, the time is over: {program.name}" if ending is None else f"== {ending}")
        self._endings += [ending] if ending is not None else []
        passed = ending is not None and ending.passed
        self._complete &= passed or (program.name == "rest" and (ending is None or self._is_enough(ending)))
        return passed

    def _is_enough(self, ending: Ending) -> bool:
        """Whether it is only that the time did not suffice for all of `rest`."""
        record = self._file("rest.json")
        return ending.asked and record.is_file() and not json.loads(record.read_text())["failed"]

    def _pytest(self, tests: Sequence[str], *more: str) -> list[str]:
        """A library's warning shall not hide what a GPU does, though warnings are errors in CI."""
        plugins = ("-p", "no:cacheprovider", "-p", "tests.gpu_check.plugin")
        chosen = ("-m", "gpu and not slow", *(["-k", self._asked.keyword] if self._asked.keyword else []))
        return python("-m", "pytest", *plugins, "-W", "default", "--tb=short", "--continue-on-collection-errors", *chosen, *more, *tests)

    def _tests(self, name: str, tests: Sequence[str], *more: str, environment: dict[str, str] | None = None) -> Program:
        """Tests in processes beside pytest's, so that one which dies is replaced, however often."""
        processes = ("-n", str(1 if name == "soak" else self._asked.workers), "--dist", "load", "--maxschedchunk", "4")
        limit = self._asked.seconds if name == "soak" else self._asked.test_seconds
        ends = ("--max-worker-restart", "10000", "-o", f"faulthandler_timeout={limit:g}", "-o", "faulthandler_exit_on_timeout=true")
        record = () if name == "soak" else ("--gpu-record", str(self._file(f"{name}.json")))
        command = self._pytest(tests, *processes, *ends, *record, *more)
        right = (0, NO_TESTS) if self._asked.tests or self._asked.keyword else (0,)
        return Program(name, command, self._log, self._environment | (environment or {}), right)

    @property
    def _environment(self) -> dict[str, str]:
        """Where blocks wait in vain this ends soon, but on a CPU."""
        return PATIENT if (os.environ.get("DMLPY_TEST_GPU") or "").startswith("cpu") else {"DMLPY_TIMEOUT_S": "2"}
