"""The calls: which parts they have, which programs those run, how long each may take, and what is in the folder afterwards.

`core.txt`, `rest.txt` and `sanitized.txt` name tests in the order in which they run, as `pytest @FILE` takes them.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from tests.gpu_check.programs import Ending, Program, Runner, python

CALLS: Mapping[str, Mapping[str, float]] = {
    "check": {"core": 0.4, "bench": 0.3, "operators": 0.2, "steps": 0.1, "rest": 1.0},
    "recheck": {"failed": 0.25, "operators": 0.3, "steps": 0.15, "bench": 0.15, "profile": 0.1, "soak": 0.05},
}
"""The parts of the two calls by priority, and the share of each in what is left when it begins.

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
CARRIED = Path(".gpu")
"""The folder of what is made beforehand: `wheels`, `kernels.tar.gz`, `references`; and of an earlier call, `results` and `before`."""
SOAK = "tests/devices/cuda/test_gpu_strategies.py::test_a_hundred_thousand_steps_with_late_blocks"
SOAKED = 0.1
"""The share of the soak's steps that are taken."""
LONG_CASES = ("lstm-2048-1024x3-b32-t100 FLOAT16 forward", "gru-512-b32-t1375 FLOAT32 forward")
"""Of `bench` in `recheck`: a processor takes half a minute for their references, which are brought along."""
PROFILED = ("lstm-256-b64-t150 FLOAT16 forward", "CONVOLUTION:NHWC FLOAT16 forward", "MULTIHEAD_ATTENTION:D128 FLOAT16 forward")
PROFILED_KERNELS = "regex:^(persistent_grid|convolve_tiles|attend_halves)$"
"""Cases of the benchmark, and the kernel of each that `profile` looks at."""
SANITIZERS = {"memcheck": 0.5, "racecheck": 0.5, "synccheck": 1.0}
"""compute-sanitizer's tools, and the share of what is left that each may take."""
NO_TESTS = 5
"""pytest's exit status where none was chosen."""
MOST_BYTES = 16 << 20
"""Of a file that some places take."""


def shares(call: str) -> Mapping[str, float]:
    """The parts of a call, and the share of each."""
    return CALLS.get(call, {call: 1.0})


def part_seconds(call: str, part: str, left: float) -> float:
    """The most seconds that a part may take when so many are left."""
    parts = shares(call)
    later = list(parts)[list(parts).index(part) :]
    if len(later) == 1:
        return left
    return left * parts[part] / sum(parts[name] for name in later if name != "rest")


def named_in(part: str) -> str:
    """The argument for pytest by which it takes the tests of `core`, `rest` or `sanitized`."""
    return f"@{Path(__file__).parent / part}.txt"


def failed_in(record: Path) -> dict[str, bool]:
    """The tests that failed by a record of pytest-reportlog, as pytest's `--lf` wants them."""
    failed = dict[str, bool]()
    with gzip.open(record, "rt", encoding="utf-8") as lines, suppress(EOFError, ValueError):  # where pytest was killed it has no end
        for line in lines:
            report = json.loads(line)
            failed |= {report["nodeid"]: True} if report.get("outcome") == "failed" else {}
    return failed


@dataclass(frozen=True)
class Asked:
    """What the command line asks for: its options. An empty field means what the call has by itself."""

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
    carried: Path = CARRIED


class Call:
    """A call under way since `start`, by the monotonic clock. Nobody else can write to the folder `scratch`."""

    def __init__(self, asked: Asked, start: float, scratch: Path, runner: Runner) -> None:
        self._asked, self._start, self._runner, self._tell = asked, start, runner, runner.tell
        self._kernels, self._cache = scratch / "kernels", scratch / "cache"
        self._kernels.mkdir(mode=0o700)
        self._endings: list[Ending] = []
        self._complete = True
        os.environ |= {"DMLPY_CACHE_DIR": str(self._kernels), "DMLPY_TEST_KERNELS": str(self._kernels), "COLUMNS": "200"}

    def run(self) -> int:
        """All of it. The exit status: 0 where everything passed, 128 and the signal's number where it was asked to end, else 1."""
        self._unpack()
        if self._run(Program("info", python("-m", "tests.gpu_check.info", str(self._kernels))), INFO_S):
            for part in shares(self._asked.call):
                until = monotonic() + part_seconds(self._asked.call, part, self._left())
                for program, share in self._programs(part):
                    self._run(program, share * (until - monotonic()))
        stopped = self._runner.stopped
        self._tell(f"== {self._asked.call}: {'; '.join(map(str, self._endings)) or 'nothing was run'}")
        took = f"{monotonic() - self._start:.0f} s"
        self._tell(f"== {took}{'' if stopped is None else f', ended by {stopped.name}'}; results in {self._asked.folder}")
        return 128 + stopped if stopped is not None else int(not self._complete)

    def _unpack(self) -> None:
        file = self._asked.carried / "kernels.tar.gz"
        try:
            with tarfile.open(file) as archive:
                archive.extractall(self._kernels, filter="data")
        except (OSError, EOFError, tarfile.TarError) as error:
            self._tell(f"all kernels are compiled here, {file} cannot be used: {error}")

    def _left(self) -> float:
        return self._start + self._asked.seconds - RESERVED_S - monotonic()

    def _file(self, name: str) -> Path:
        return self._asked.folder / name

    def _run(self, program: Program, most_s: float) -> bool:
        """Runs a program for so long at most. Whether it passed."""
        seconds = min(self._left(), most_s)
        ending = self._runner.run(program, seconds) if seconds >= LEAST_S else None
        self._tell(f"NOT RUN, the time is over: {program.name}" if ending is None else f"== {ending}")
        self._endings += [ending] if ending is not None else []
        passed = ending is not None and ending.passed
        if program.name == "rest" and (ending is None or ending.asked):  # the time need not suffice for all of it
            record = self._file("rest.jsonl.gz")
            self._complete &= ending is None or (record.is_file() and not failed_in(record))
        else:
            self._complete &= passed
        return passed

    def _programs(self, part: str) -> Iterator[tuple[Program, float]]:
        """Those of a part, each with its share of what is left of the part's time."""
        asked = self._asked
        if part == "core":
            yield self._tests(part, asked.tests or [named_in(part)], "--deselect", SOAK), 1.0
        elif part == "rest":
            yield self._tests(part, asked.tests or [named_in(part)], "-p", "tests.gpu_check.plugin"), 1.0
        elif part == "failed":
            if files := self._failed_before():
                yield self._tests(part, files, "--lf"), 1.0
        elif part == "soak":
            yield self._tests(part, [SOAK], environment={"DMLPY_TEST_SOAKED": str(SOAKED)}), 1.0
        else:
            yield from {"profile": self._profile, "sanitize": self._sanitize}.get(part, lambda: self._measure(part))()

    def _failed_before(self) -> list[str]:
        """The files of the tests that failed in an earlier call, which pytest's `--lf` then finds in its cache."""
        folder = self._asked.carried / "results"
        records = [path for name in ("core", "rest", "failed") if (path := folder / f"{name}.jsonl.gz").is_file()]
        failed = {nodeid: True for record in records for nodeid in failed_in(record)}
        self._tell(f"{len(failed)} tests failed before" if records else f"no test is run again: {folder} has no results of an earlier call")
        kept = self._cache / "v" / "cache" / "lastfailed"
        kept.parent.mkdir(parents=True)
        kept.write_text(json.dumps(failed))
        return [file for file in dict.fromkeys(nodeid.partition("::")[0] for nodeid in failed) if Path(file).exists()]

    def _measure(self, part: str) -> Iterator[tuple[Program, float]]:
        """`bench`, `operators` or `steps`, which end by themselves: of an earlier version first where there is one to compare with."""
        asked = self._asked
        long = LONG_CASES if asked.call == "recheck" else ()
        names = {"bench": asked.cases or long, "operators": asked.operators, "steps": asked.steps}[part]
        made, before = asked.carried.resolve() / "references", asked.carried.resolve() / "before"
        references = ["--references", str(made)] if made.exists() and part != "steps" else []
        versions = [before] * (asked.call != "check" and part != "bench" and before.exists()) + [None]
        seconds = part_seconds(asked.call, part, self._left()) / len(versions)
        for number, folder in enumerate(versions):
            name = part if folder is None else f"{part}-before"
            own = {} if folder is None else {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
            module = ["tests.gpu_check.bench", "--operators"] if part == "operators" else [f"tests.gpu_check.{part}"]
            command = python("-m", *module, *references, str(self._file(f"{name}.json")), f"{max(seconds - ENDING_S, 0):.0f}", *names)
            yield Program(name, command, environment=self._environment | own, folder=folder), 1 / (len(versions) - number)

    def _profile(self) -> Iterator[tuple[Program, float]]:
        if (ncu := shutil.which("ncu")) is None:
            self._tell("ncu is not installed: no kernel is profiled")
            return
        report = self._file("profile.ncu-rep")
        chosen = ["--kernel-name-base", "function", "--kernel-name", PROFILED_KERNELS, "--launch-count", str(len(PROFILED))]
        command = [ncu, "--force-overwrite", "--set", "full", "--clock-control", "none", *chosen, "--export", str(report)]
        yield Program("profile", [*command, *python("-m", "tests.gpu_check.dispatch", *PROFILED)], environment=PATIENT), 0.8
        yield Program("page", [ncu, "--import", str(report), "--page", "details"], quiet=True), 1.0

    def _sanitize(self) -> Iterator[tuple[Program, float]]:
        if (sanitizer := shutil.which("compute-sanitizer")) is None:
            self._tell("compute-sanitizer is not installed: memory accesses, races and barriers are not checked")
            return
        tests = self._pytest(self._asked.tests or [named_in("sanitized")])
        for tool, share in SANITIZERS.items():
            yield Program(tool, [sanitizer, "--tool", tool, "--error-exitcode", "9", *tests], True, PATIENT), share

    def _pytest(self, tests: Sequence[str], *more: str) -> list[str]:
        """A library's warning shall not hide what a GPU does, though warnings are errors in CI."""
        chosen = ("-m", "gpu and not slow", *(["-k", self._asked.keyword] if self._asked.keyword else []))
        told = ("-q", "-r", "fE", "--tb=short", "-W", "default", "-o", f"cache_dir={self._cache}", "--continue-on-collection-errors")
        return python("-m", "pytest", *told, *chosen, *more, *tests)

    def _tests(self, name: str, tests: Sequence[str], *more: str, environment: Mapping[str, str] | None = None) -> Program:
        """Tests in processes separate from pytest's, so that one which dies is replaced, however often."""
        processes = ("-n", str(1 if name == "soak" else self._asked.workers), "--dist", "load", "--maxschedchunk", "4")
        limit = self._asked.seconds if name == "soak" else self._asked.test_seconds
        ends = ("--max-worker-restart", "10000", "-o", f"faulthandler_timeout={limit:g}", "-o", "faulthandler_exit_on_timeout=true")
        record = () if name == "soak" else ("--report-log", str(self._file(f"{name}.jsonl.gz")))
        command = self._pytest(tests, *processes, *ends, *record, *more)
        right = (0, NO_TESTS) if self._asked.tests or self._asked.keyword else (0,)
        return Program(name, command, True, {**self._environment, **(environment or {})}, right)

    @property
    def _environment(self) -> dict[str, str]:
        """Where blocks wait in vain this ends soon, but on a CPU."""
        return PATIENT if (os.environ.get("DMLPY_TEST_GPU") or "").startswith("cpu") else {"DMLPY_TIMEOUT_S": "2"}
