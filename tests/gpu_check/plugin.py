"""pytest's side of the calls: the order of the tests, a line for each file as soon as it is done, and a record of how all of them fare.

The lines go to the descriptor that `LINES` names, all that pytest itself prints to its log. Of failures only the first are told, so that
the last 12,000 characters hold what matters however many there are; the record has all of them.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dmlpy.description.descs import OperatorDesc
from tests.gpu_check.programs import LINES
from tests.gpu_check.selection import SAMPLE, SAMPLED

TOLD = 20
"""Failures of a program that are told as they happen; the record has all."""
WIDTH = 300
WORKERS_END_S = 2
"""Seconds that pytest-xdist waits for workers at the end before it kills them: results are written after that. Its default is 10."""
RECORD_S = 1.0
"""Seconds between two writings of the record."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpu_check")
    group.addoption("--gpu-record", type=Path, help="the file that says how the tests fare, rewritten as they end")
    group.addoption("--gpu-worth", action="store_true", help="in the order of worth; of the tests of batch normalization only each tenth")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        seconds = float(config.getini("faulthandler_timeout") or 0)
        record = config.getoption("--gpu-record")
        config.pluginmanager.register(Report(int(os.environ.get(LINES, "1")), seconds, record), "gpu_check_report")


@pytest.hookimpl(trylast=True)  # of those that were chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--gpu-worth"):
        chosen = in_order_of_worth(items)
        config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
        items[:] = chosen


def in_order_of_worth(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Tests so that as much as possible is known early: of each test a row for each operator, then all other rows, then the samples."""
    known: set[tuple[str, str]] = set()
    firsts: list[pytest.Item] = []
    others: list[pytest.Item] = []
    sampled = [item for item in items if item.nodeid.startswith(SAMPLED)]
    for item in items:
        if not item.nodeid.startswith(SAMPLED):
            row = item.nodeid.partition("[")[0], operator_of(item)
            (others if row in known else firsts).append(item)
            known.add(row)
    return [*firsts, *others, *sampled[::SAMPLE]]


def operator_of(item: pytest.Item) -> str:
    """The operator that one of a test's parameters is or describes; empty where none does."""
    callspec = getattr(item, "callspec", None)
    kinds = [] if callspec is None else [value if isinstance(value, type) else type(value) for value in callspec.params.values()]
    return next((kind.__name__ for kind in kinds if issubclass(kind, OperatorDesc)), "")


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Report:
    """Tells how the tests fare, in the process that has their results.

    Args:
        descriptor: where the lines go.
        test_seconds: after which a test's process is ended; 0 for no such limit.
        record: the file that has the same; None for none.
    """

    def __init__(self, descriptor: int, test_seconds: float, record: Path | None = None) -> None:
        self._descriptor, self._test_seconds, self._record = descriptor, test_seconds, record
        self._start = self._recorded = time.monotonic()
        self._planned: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._running: dict[str, float] = {}
        self._outcomes: dict[str, str] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failed: dict[str, list[str]] = {}

    def tell(self, line: str) -> None:
        os.write(self._descriptor, f"{line}\n".encode(errors="replace"))

    def record(self) -> None:
        """Writes the record anew: whoever reads it finds all of it, whenever this process ends."""
        self._recorded = time.monotonic()
        if self._record is None:
            return
        files: dict[str, Counter[str]] = {file: Counter() for file in self._planned}
        for nodeid, outcome in self._outcomes.items():
            files.setdefault(file_of(nodeid), Counter())[outcome] += 1
        found = {
            "tests": self._planned.total(),
            "seconds": round(self._recorded - self._start, 1),
            "outcomes": self._counts(),
            "left": +self._left,
            "failed": self._failed,
            "files": {file: {"seconds": round(self._seconds[file], 2), **counts} for file, counts in files.items()},
        }
        unfinished = self._record.with_suffix(".part")
        unfinished.write_text(json.dumps(found, indent=1) + "\n")
        unfinished.replace(self._record)

    # what there is to do

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._plan([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        self._plan(ids)

    def _plan(self, ids: Sequence[str]) -> None:
        if ids and not self._planned:
            self._planned = Counter(map(file_of, ids))
            self._left = self._planned.copy()
            self.tell(f"{len(ids)} tests")
            self.record()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._outcomes:  # each worker collects
            self._outcomes[report.nodeid] = "failed"
            self._fail(report.nodeid, report.longreprtext)

    # what becomes of it

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        nodeid = report.nodeid
        self._seconds[file_of(nodeid)] += report.duration
        before = self._outcomes.get(nodeid)
        is_crash = str(report.when) == "???"  # pytest-xdist's word for a test whose process is gone
        if is_crash and before == "failed":
            self.tell(f"    {report.longrepr}")
        elif report.failed:
            self._outcomes[nodeid] = "failed"
            self._fail(nodeid, report.longreprtext)
        elif hasattr(report, "wasxfail"):
            self._outcomes[nodeid] = before or "expected to fail"
        elif report.skipped:
            self._outcomes[nodeid] = before or "skipped"
        elif report.when == "call":
            self._outcomes[nodeid] = before or "passed"
        if is_crash:
            self.pytest_runtest_logfinish(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self._running.pop(nodeid, None) is None:
            return
        file = file_of(nodeid)
        self._left[file] -= 1
        if self._left[file] == 0:
            self.tell(f"{file}: {told(self._counts(file))}; {self._seconds[file]:.1f} s")
        if time.monotonic() >= self._recorded + RECORD_S:
            self.record()

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        """Says why the process is gone, in the words of `tests.conftest` where it ended itself."""
        took = time.monotonic() - self._running.get(crashitem, time.monotonic())
        if self._outcomes.get(crashitem) == "failed":
            report.longrepr = "its process was ended; another one takes the rest"
        elif 0 < self._test_seconds <= took:
            report.longrepr = f"it did not end within {self._test_seconds:g} s, and its process was ended; the log has the tracebacks"
        else:
            report.longrepr = "its process died; the log may say why"

    def pytest_internalerror(self, excrepr: object) -> None:
        self.tell(f"pytest itself failed: {str(excrepr).strip().splitlines()[-1][:WIDTH]}")

    def _fail(self, nodeid: str, text: str) -> None:
        self._failed[nodeid] = digest = digested(text)
        if len(self._failed) <= TOLD:
            self.tell(f"FAILED {nodeid}")
            self.tell(f"    {' | '.join(digest)}"[:WIDTH])

    def _counts(self, file: str | None = None) -> dict[str, int]:
        found = Counter(outcome for nodeid, outcome in self._outcomes.items() if file is None or file_of(nodeid) == file)
        return dict(found.most_common())

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist ends its workers
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        manager = getattr(session.config.pluginmanager.getplugin("dsession"), "nodemanager", None)
        if manager is not None:
            manager.EXIT_TIMEOUT = WORKERS_END_S
        self.record()
        left = self._left.total()
        self.tell(f"{told(self._counts())}{f', {left} NOT RUN' if left else ''}; {time.monotonic() - self._start:.0f} s")
        for nodeid, start in self._running.items():
            self.tell(f"  still running: {nodeid}, for {time.monotonic() - start:.0f} s")
        if left:
            self.tell(f"  not run: {', '.join(f'{file} {count}' for file, count in (+self._left).items())}")


def told(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "no tests"


def digested(text: str) -> list[str]:
    """Of a short traceback where it ended and the beginning of what was raised, which comes last, in a line."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("[gw")] or ["no text"]  # pytest-xdist's name of a worker
    raised = [line[1:].strip() for line in lines if re.match(r"E(\s|$)", line) and line[1:].strip()]
    places = [line for line in lines if re.match(r"\S+:\d+: in ", line)]
    if not raised:
        return lines[-4:]
    return [*places[-2:], " ".join(raised[:3])]
