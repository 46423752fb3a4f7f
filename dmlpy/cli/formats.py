"""The outcome of `dmlpy check` in the formats of other programs: JSON, SARIF 2.1.0, GitHub's workflow commands."""

from __future__ import annotations

import json
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dmlpy.dxdispatch.report import status_of
from dmlpy.messages.naming import printable
from dmlpy.system.files import current_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dmlpy.dxdispatch.checker import Report
    from dmlpy.dxdispatch.report import Finding
    from dmlpy.messages.json_positions import Position
    from dmlpy.messages.problems import Problem, Severity

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


LEVELS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "undocumented": "warning"}
"""The levels of SARIF and of GitHub's annotations, which have no `undocumented`."""


class Format(StrEnum):
    """The values of `--format`."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def exit_status(reports: Sequence[Report], *, undocumented_fails: bool = False) -> int:
    """The exit status: 0 if no file has problems, 2 if a file cannot be read or an option is wrong, 1 otherwise.

    Undocumented types are not problems.

    Args:
        reports: the files' reports.
        undocumented_fails: whether the status is 1 for undocumented parts, too.
    """
    undocumented = undocumented_fails and any(finding.severity == "undocumented" for report in reports for finding in report.warnings)
    return max((status_of(finding.problems) for report in reports for finding in report.findings), default=1 if undocumented else 0)


def as_json(reports: Sequence[Report]) -> str:
    """The files with their problems, and the total number of problems."""
    count = sum(report.problem_count for report in reports)
    return json.dumps({"files": [report.to_dict() for report in reports], "problems": count}, indent=2)


def as_sarif(reports: Sequence[Report], *, undocumented_fails: bool = False) -> str:
    """A SARIF 2.1.0 log of one run for code scanning services: a result for each problem, warning and undocumented type.

    A rule is a problem's code. Columns count characters. Paths below the current directory are relative to it (`%SRCROOT%`).

    Args:
        reports: the files' reports.
        undocumented_fails: as for `exit_status`.
    """
    entries = [(report, *item) for report in reports for item in _list_problems(report)]
    codes = sorted({problem.code for _, _, problem, _, _ in entries})
    results = []
    for report, finding, problem, position, severity in entries:
        place: dict[str, Any] = {"artifactLocation": _artifact(report.path)}
        if position is not None:
            place["region"] = {"startLine": position.line, "startColumn": position.column}
        location: dict[str, Any] = {"physicalLocation": place}
        if part := ": ".join(filter(None, (finding.place, problem.path))):
            location["logicalLocations"] = [{"fullyQualifiedName": printable(part)}]
        text = _message(finding, problem)
        results.append(
            {
                "ruleId": problem.code,
                "ruleIndex": codes.index(problem.code),
                "level": LEVELS[severity],
                "message": {"text": text},
                "locations": [location],
            }
            | ({"properties": {"severity": severity}} if severity == "undocumented" else {})
        )
    driver = {"name": "dmlpy", "version": version("dmlpy"), "rules": [{"id": code} for code in codes]}
    status = exit_status(reports, undocumented_fails=undocumented_fails)
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": status < 2, "exitCode": status}],
        "columnKind": "unicodeCodePoints",
        "artifacts": [{"location": _artifact(report.path)} for report in reports],
        "results": results,
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def as_github(reports: Sequence[Report]) -> str:
    """GitHub's workflow commands: each line is an annotation that GitHub shows in the changes of a pull request."""
    lines = []
    for report in reports:
        path = _relative(report.path) or report.path
        for finding, problem, position, severity in _list_problems(report):
            properties = {"file": path.as_posix()}
            if position is not None:
                properties |= {"line": str(position.line), "col": str(position.column)}
            properties["title"] = f"dmlpy {problem.code}"
            entries = ",".join(f"{name}={_escape(value, ':,')}" for name, value in properties.items())
            lines.append(f"::{LEVELS[severity]} {entries}::{_escape(_message(finding, problem))}")
    return "\n".join(lines)


FORMATS: Mapping[Format, Callable[[Sequence[Report]], str]] = {Format.JSON: as_json, Format.SARIF: as_sarif, Format.GITHUB: as_github}
"""The formats of reports for all files together; text is written file by file."""


def _list_problems(report: Report) -> Iterator[tuple[Finding, Problem, Position | None, Severity]]:
    """Each problem and warning of a file, in the file's spelling, with its position."""
    for finding in (*report.findings, *report.warnings):
        for problem, position in finding.spelled():
            yield finding, problem, position, finding.severity


def _message(finding: Finding, problem: Problem) -> str:
    """The problem with its reasons and its remedy below it, as multi-line text."""
    part = ", ".join(filter(None, (finding.place, finding.struct)))
    return printable("\n".join([f"{part}: {problem.headline()}" if part else problem.headline(), *problem.details()]), "\n")


def _escape(text: str, more: str = "") -> str:
    """Escapes text for a workflow command: percent-encodes characters that would end the line or a property."""
    for char in "%\r\n" + more:  # the percent sign first: the others are written with it
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def _artifact(path: Path) -> dict[str, str]:
    relative = _relative(path)
    if relative is None:
        return {"uri": path.absolute().as_uri()}
    return {"uri": quote(relative.as_posix()), "uriBaseId": "%SRCROOT%"}


def _relative(path: Path) -> Path | None:
    """The path from the current directory; None if the file is not below it."""
    if (here := current_folder()) is None:
        return None
    absolute = path.absolute()
    return absolute.relative_to(here) if absolute.is_relative_to(here) and ".." not in absolute.parts else None
