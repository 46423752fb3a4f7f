"""What is wrong with a file: problems grouped by the part that they concern, and the error that carries them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dmlpy.descs import OPERATORS
from dmlpy.problems import DmlError, Problem, lay_out
from dmlpy.render import Table

MAX_FINDINGS = 50
"""Parts of a file whose problems a text tells; `--json` and `findings` have all."""


@dataclass(frozen=True)
class Finding:
    """The problems of one part of a file.

    Attributes:
        place: the part: `dispatchable 'rnn'`, `resource 'weights'`, `command at index 2`; empty where the file is the part.
        problems: what is wrong with it.
        struct: the C struct that the problems' places belong to; None where they are places in the file.
        table: the struct's members with the broken ones marked.
    """

    place: str
    problems: tuple[Problem, ...]
    struct: str | None = None
    table: Table | None = None

    def text(self, subject: str = "") -> str:
        """The problems laid out, under the part's name; `subject` is put before it."""
        parts = [part for part in (subject, self.place, self.struct) if part]
        return lay_out(
            ", ".join(parts) or "file", [problem.in_c(self._members) for problem in self.problems] if self.struct else self.problems
        )

    @property
    def _members(self) -> Iterable[str]:
        return next((kind.model_fields for kind in OPERATORS.values() if kind.c_name == self.struct), ())

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the part and its problems. Places in the file itself have one spelling only."""
        problems = [problem.to_dict() for problem in self.problems]
        if self.struct is None:
            problems = [{**problem, "c_path": problem["path"]} for problem in problems]
        return {"place": self.place, "struct": self.struct, "problems": problems}


class ModelError(DmlError):
    """A file cannot be used. `findings` holds its problems by part, `problems` all of them."""

    def __init__(self, path: Path | str, findings: Iterable[Finding]) -> None:
        self.path = Path(path)
        self.findings: Sequence[Finding] = tuple(findings)
        super().__init__(str(path), [problem for finding in self.findings for problem in finding.problems])
        if len(self.findings) == 1:
            text = self.findings[0].text(str(path))
        else:
            shown = [finding.text() for finding in self.findings[:MAX_FINDINGS]]
            rest = len(self.findings) - len(shown)
            more = [f"and {rest} more parts with problems"] if rest else []
            text = "\n".join([f"{path}: {len(self.problems)} problems", *shown, *more])
        self.args = (text,)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.findings)
