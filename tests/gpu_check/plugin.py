"""pytest's side of the calls: which tests belong to a strategy, how long one may take, and a line for each file as soon as it is done.

The lines go to the descriptor that `LINES` names, all that pytest itself prints to its log. Failures are told at once: the first of them
with the end of their traceback, then in a line each, in the end counted by what they say, so that the last 12,000 characters hold what
matters however many there are.
"""

from __future__ import annotations

import faulthandler
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from tests.gpu_check.programs import LINES
from tests.gpu_check.selection import STRATEGIES, strategy_of

IN_FULL, IN_A_LINE, KINDS = 6, 20, 12
"""Failures of a process that are told with their traceback, then in a line each; and kinds of them that are counted in the end."""
WIDTH = 200
WORKERS_END_S = 2
"""Seconds that pytest-xdist waits for workers at the end before it kills them: results are written after that. Its default is 10."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gpu_check")
    group.addoption("--gpu-strategy", choices=STRATEGIES, help="only the recurrent tests of this strategy")
    group.addoption("--gpu-test-seconds", type=float, help="a test that takes longer ends its process, with the tracebacks of all threads")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    seconds = config.getoption("--gpu-test-seconds")
    if seconds and (is_worker or not getattr(config.option, "numprocesses", None)):
        config.pluginmanager.register(Watch(seconds), "gpu_check_watch")
    if not is_worker:
        config.pluginmanager.register(Report(int(os.environ.get(LINES, "1")), seconds), "gpu_check_report")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    strategy = config.getoption("--gpu-strategy")
    if strategy is None:
        return
    belong = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        belong.append(strategy_of(file_of(item.nodeid), callspec.params if callspec else {}) == strategy)
    config.hook.pytest_deselected(items=[item for item, belongs in zip(items, belong, strict=True) if not belongs])
    items[:] = [item for item, belongs in zip(items, belong, strict=True) if belongs]


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class Watch:
    """Ends the process when a test takes too long, even where Python itself is stuck in a call of the driver."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stderr = os.dup(2)  # before a test's output is captured

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._stderr)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


class Report:
    """Tells how the tests fare, in the process that has their results.

    Args:
        descriptor: where the lines go.
        test_seconds: after which a test's process was ended; None for no such limit.
    """

    def __init__(self, descriptor: int, test_seconds: float | None) -> None:
        self._descriptor, self._test_seconds = descriptor, test_seconds
        self._start = time.monotonic()
        self._planned: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._running: dict[str, float] = {}
        self._outcomes: dict[str, str] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failures: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._skips: Counter[str] = Counter()

    def tell(self, line: str) -> None:
        os.write(self._descriptor, f"{line}\n".encode(errors="replace"))

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

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._outcomes:  # each worker collects
            self._outcomes[report.nodeid] = "failed"
            self._failed(report.nodeid, report.longreprtext)

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
            self._failed(nodeid, report.longreprtext)
        elif hasattr(report, "wasxfail"):
            self._outcomes[nodeid] = before or "expected to fail"
        elif report.skipped:
            self._outcomes[nodeid] = before or "skipped"
            self._skips[report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)] += 1
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
            self.tell(f"{file}: {self._counted(file)}; {self._seconds[file]:.1f} s")

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        """Says why the process is gone, in the words of `tests.conftest` where it ended itself."""
        took = time.monotonic() - self._running.get(crashitem, time.monotonic())
        if self._outcomes.get(crashitem) == "failed":
            report.longrepr = "its process was ended; another one takes the rest"
        elif self._test_seconds is not None and took >= self._test_seconds:
            report.longrepr = f"it did not end within {self._test_seconds:g} s, and its process was ended; the log has the tracebacks"
        else:
            report.longrepr = "its process died; the log may say why"

    def pytest_internalerror(self, excrepr: object) -> None:
        self.tell(f"pytest itself failed: {str(excrepr).strip().splitlines()[-1][:WIDTH]}")

    def _failed(self, nodeid: str, text: str) -> None:
        digest = digested(text)
        kind = re.sub(r"\d[\d.]*(e[-+]?\d+)?", "N", digest[-1])[:WIDTH]
        self._failures[kind] += 1
        self._examples.setdefault(kind, nodeid)
        count = self._failures.total()
        if count <= IN_FULL:
            self.tell(f"FAILED {nodeid}")
            for line in digest:
                self.tell(f"    {line[:WIDTH]}")
        elif count <= IN_A_LINE:
            self.tell(f"FAILED {nodeid}: {digest[-1]}"[:WIDTH])
        elif count == IN_A_LINE + 1:
            self.tell("more failures are counted in the end")

    def _counted(self, file: str | None = None) -> str:
        found = Counter(outcome for nodeid, outcome in self._outcomes.items() if file is None or file_of(nodeid) == file)
        return ", ".join(f"{count} {outcome}" for outcome, count in found.most_common()) or "no tests"

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist ends its workers
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        manager = getattr(session.config.pluginmanager.getplugin("dsession"), "nodemanager", None)
        if manager is not None:
            manager.EXIT_TIMEOUT = WORKERS_END_S
        now = time.monotonic()
        left = self._left.total()
        self.tell(f"{self._counted()}{f', {left} NOT RUN' if left else ''}; {now - self._start:.0f} s")
        for nodeid, start in self._running.items():
            self.tell(f"  still running: {nodeid}, for {now - start:.0f} s")
        if left:
            self.tell(f"  not run: {', '.join(f'{file} {count}' for file, count in self._left.items() if count)}")
        for kind, count in self._failures.most_common(KINDS):
            self.tell(f"  {count} × {kind}"[:WIDTH] + f" | {self._examples[kind]}")
        for reason, count in self._skips.most_common(KINDS // 2):
            self.tell(f"  skipped {count} × {reason}"[:WIDTH])


def digested(text: str) -> list[str]:
    """Of a short traceback where it ended and the beginning of what was raised, which comes last, in a line."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("[gw")] or ["no text"]  # pytest-xdist's name of a worker
    raised = [line[1:].strip() for line in lines if re.match(r"E(\s|$)", line) and line[1:].strip()]
    places = [line for line in lines if re.match(r"\S+:\d+: in ", line)]
    if not raised:
        return lines[-4:]
    return [*places[-2:], " ".join(raised[:3])]
