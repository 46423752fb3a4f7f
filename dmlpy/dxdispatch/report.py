"""Problems of a file, grouped by the part that they concern, and the error that carries them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dmlpy.description.registry import OPERATORS
from dmlpy.graphs import Graph, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import MAX_REPORTED, DmlError, Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dmlpy.description.structs import Struct
    from dmlpy.messages.json_positions import Key, Position, Positions
    from dmlpy.messages.tables import Table

MAX_FINDINGS = 50
"""The most parts of a file whose problems the text shows; `--json` and `findings` have all."""

OF_KEYS = frozenset({"bind.unknown", "field.twice", "field.unknown", "member.ignored"})
"""Codes of problems that concern a member's name: their position is that of the key."""

UNREADABLE = frozenset({"file.unreadable", "file.size", "onnx.file", "onnx.package"})
"""Codes of files that are missing, not readable, too large to be read, or whose reader is not installed.

Nothing is known about their contents.
"""


ARGUMENTS = frozenset({"bind.shape", "onnx.inputs", "onnx.limit", "onnx.sizes"})
"""Codes of problems of the command's arguments, where their places are options."""


def is_unreadable(problems: Iterable[Problem]) -> bool:
    """Returns whether a file could not be read, in contrast to one that has problems: commands end with 2 in place of 1."""
    return any(problem.code in UNREADABLE for problem in problems)


def is_wrong_argument(problem: Problem) -> bool:
    """Returns whether an option of the command is wrong, in contrast to the file: commands end with 2 in place of 1."""
    return problem.path.startswith("--") and problem.code in ARGUMENTS


def status_of(problems: Iterable[Problem]) -> Literal[1, 2]:
    """The exit status of a command that has these problems: 2 if a file could not be read or an option is wrong."""
    listed = tuple(problems)
    return 2 if is_unreadable(listed) or any(map(is_wrong_argument, listed)) else 1


class Place(NamedTuple):
    """A part of a file: in words for people, and as keys and indices from the root of the file's JSON."""

    words: str = ""
    location: tuple[Key, ...] = ()

    def below(self, key: Key) -> Place:
        """The same part in words; its problems' paths begin in one of its members."""
        return Place(self.words, (*self.location, key))


@dataclass(frozen=True)
class Finding:
    """The problems of one part of a file.

    Attributes:
        place: the part: `dispatchable 'rnn'`, `resource 'weights'`, `command at index 2`; empty where the file is the part.
        problems: the problems of the part.
        struct: the C struct that the problems' places belong to; None where they are places in the file.
        table: the struct's members with the broken ones marked.
        members: names that the problems' texts spell in Python; empty if they are those of the struct.
        location: keys and indices from the root of the file's JSON to where the problems' paths begin.
        positions: the position of each problem in the file's text; empty if unknown.
        severity: `warning` if the part is ignored, `undocumented` if Microsoft's page does not list its type and a released program uses
            it: the file can still be used.
    """

    place: str
    problems: tuple[Problem, ...]
    struct: str | None = None
    table: Table | None = None
    members: frozenset[str] = frozenset()
    location: tuple[Key, ...] = ()
    positions: tuple[Position, ...] = ()
    severity: Severity = "error"

    def located(self, positions: Positions) -> Finding:
        """The part with the positions of its problems."""
        if self.positions:
            return self
        located = [
            positions.of(
                self.location, problem.path, key=problem.code in OF_KEYS, outer=self.struct is None or problem.code == "operator.unknown"
            )
            for problem in self.problems
        ]
        return replace(self, positions=tuple(located))

    def text(self, path: str = "", *, alone: bool = False) -> str:
        """Formats the problems under the part's name; those with a position begin with `FILE:LINE:COLUMN:`, as editors expect.

        Args:
            path: the file.
            alone: whether the file is named in front of the part.
        """
        parts = [part for part in (path if alone else "", self.place, self.struct) if part]
        lines = [f"{', '.join(parts) or 'file'}: {plural(len(self.problems), 'problem')}"]
        for index, problem in enumerate(self._spelled(self.problems[:MAX_REPORTED])):
            lines.append(f"{self._position(path, index) or f'{index + 1:2}. '}{problem.headline()}")
            lines += [f"      {line}" for line in problem.details()]
        if len(self.problems) > MAX_REPORTED:
            lines.append(f"and {len(self.problems) - MAX_REPORTED} more")
        return "\n".join(lines)

    def sentences(self, path: str = "") -> list[str]:
        """Formats a line for each problem: place, problem, what sources say if they disagree or nodes make, remedy."""
        sentences = []
        for index, problem in enumerate(self._spelled(self.problems)):
            place = f"{self.place}: " if self.place else ""
            remedy = f"; {problem.remedy}" if problem.remedy else ""
            reason = f". {problem.why[-1]}" if self.severity == "undocumented" else ""
            if problem.code == "onnx.declared":
                reason = f", expected {problem.expected}"
            sentences.append(f"{self._position(path, index)}{place}{problem.sentence()}{reason}{remedy}")
        return sentences

    def spelled(self) -> Iterator[tuple[Problem, Position | None]]:
        """The problems in the file's spelling, each with its position if known."""
        for index, problem in enumerate(self._spelled(self.problems)):
            yield problem, self.positions[index] if index < len(self.positions) else None

    def _position(self, path: str, index: int) -> str:
        if index >= len(self.positions):
            return ""
        return f"{path}:{self.positions[index].line}:{self.positions[index].column}: "

    def _spelled(self, problems: Sequence[Problem]) -> Sequence[Problem]:
        if self.struct is None:
            return problems
        kind = OPERATORS.get(re.sub(r"^([A-Z]+)_(\w+)_OPERATOR_DESC$", r"\1_OPERATOR_\2", self.struct))
        members = self.members or (frozenset() if kind is None else frozenset(kind.model_fields))
        return [problem.in_c(sorted(members)) for problem in problems]

    def to_dicts(self) -> list[dict[str, Any]]:
        """The problems as dicts for JSON, each with its part. All but `path` have the file's spelling."""
        dicts = []
        for index, (problem, spelled) in enumerate(zip(self.problems, self._spelled(self.problems), strict=True)):
            position = self.positions[index] if index < len(self.positions) else None
            dicts.append(
                {
                    "subject": self.place,
                    "struct": self.struct,
                    **spelled.to_dict(),
                    "path": problem.path,
                    "c_path": spelled.path,
                    "line": position and position.line,
                    "column": position and position.column,
                    "severity": self.severity,
                }
            )
        return dicts


def graph_finding(place: Place, problems: Iterable[Problem], graph: Graph | None = None) -> Finding:
    """The problems of a graph, which name its members, its edges and its nodes' operators; None if the graph could not be read."""
    kinds: set[type[Struct]] = {Graph, InputEdge, OutputEdge, IntermediateEdge}
    kinds |= {type(node.operator) for node in graph.nodes if isinstance(node, OperatorNode)} if graph else set()
    # Words of one part, like `nodes` and `name`, are plain English too and are left as they are.
    members = frozenset(name for kind in kinds for name in kind.model_fields if "_" in name)
    listed = tuple(problems)
    severity = listed[0].severity if listed else "error"
    return Finding(place.words, listed, Graph.c_name, members=members, location=place.location, severity=severity)


class ModelError(DmlError):
    """A file cannot be used. `findings` holds its problems by part, `problems` all of them."""

    def __init__(self, path: Path | str, findings: Iterable[Finding]) -> None:
        self.path = Path(path)
        self.findings: Sequence[Finding] = tuple(findings)
        super().__init__(str(path), [problem for finding in self.findings for problem in finding.problems])
        if len(self.findings) == 1:
            text = self.findings[0].text(str(path), alone=True)
        else:
            shown = [finding.text(str(path)) for finding in self.findings[:MAX_FINDINGS]]
            rest = len(self.findings) - len(shown)
            more = [f"and {rest} more parts with problems"] if rest else []
            text = "\n".join([f"{path}: {plural(len(self.problems), 'problem')}", *shown, *more])
        self.args = (text,)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.findings)
