"""Facts about DirectML that released programs, their tests and the words of DirectML's developers show, each with its sources."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dmlpy.evidence.sources import Source, read, sources

if TYPE_CHECKING:
    from collections.abc import Mapping

FactClass = Literal["agrees", "corrected", "differs", "question"]
FACT_CLASSES: tuple[FactClass, ...] = ("agrees", "corrected", "differs", "question")

Page = Literal["says it", "says part of it", "silent", "says both", "says otherwise"]
PAGES: tuple[Page, ...] = ("says it", "says part of it", "silent", "says both", "says otherwise")

NEWEST = "6_4"
"""The newest feature level: facts without an end hold up to it."""


@dataclass(frozen=True)
class Fact:
    """One fact.

    Attributes:
        id: its name: the family and a number that never changes.
        operators: the operators that it is about, as patterns without `DML_OPERATOR_`; empty if it is about tensors, graphs or bindings.
        field: the member that it is about, as Python spells it; empty if it is about several or none.
        levels: the first and the last feature level that it holds for.
        text: the fact, one sentence.
        page: what Microsoft's documentation says about it.
        sources: where it is shown: the source, and the file or the thread in it.
        kind: `agrees` if dmlpy does the same, `corrected` if it was changed to do so when the fact became known, `differs` if it does
            something else by choice, `question` if the sources do not decide it.
        reason: why dmlpy differs, or what dmlpy does about a question.
    """

    id: str
    operators: tuple[str, ...]
    field: str
    levels: tuple[str, str]
    text: str
    page: Page
    sources: tuple[tuple[Source, str], ...]
    kind: FactClass
    reason: str

    def is_about(self, operator: str) -> bool:
        """Returns whether the fact is about an operator, by its name without `DML_OPERATOR_`."""
        return any(fnmatch(operator, pattern) for pattern in self.operators)

    def citation(self) -> str:
        """The sources in one line: `ONNX Runtime 1.25, DmlOperatorCast.cpp`."""
        return "; ".join(f"{source.name}, {place}" for source, place in self.sources)

    def span(self) -> str:
        """The feature levels that it holds for: `from 3_0 on`, `3_0 to 4_0`."""
        first, last = self.levels
        return f"from {first} on" if last == NEWEST else first if first == last else f"{first} to {last}"

    def verdict(self) -> str:
        """A sentence about dmlpy's behaviour; empty if it does the same."""
        return {"differs": f"dmlpy differs: {self.reason}", "question": f"Not decided: {self.reason}"}.get(self.kind, "")

    def line(self) -> str:
        """The fact with what dmlpy does and its sources, in one line."""
        return " ".join(filter(None, (f"{self.span()}:", self.text, self.verdict(), f"[{self.citation()}]")))


@cache
def facts() -> tuple[Fact, ...]:
    """All facts, by family."""
    files = sorted(Path(__file__).with_name("families").glob("*.toml"))
    return tuple(_fact(row) for file in files for row in read(file)["fact"])


def facts_about(operator: str) -> tuple[Fact, ...]:
    """The facts about an operator, by its name without `DML_OPERATOR_`."""
    return tuple(fact for fact in facts() if fact.is_about(operator))


def _fact(row: Mapping[str, Any]) -> Fact:
    return Fact(
        id=row["id"],
        operators=tuple(row["operators"]),
        field=row.get("field", ""),
        levels=(row["level"], row.get("until", NEWEST)),
        text=row["fact"],
        page=row["page"],
        sources=tuple(_source(text) for text in row["sources"]),
        kind=row["class"],
        reason=row.get("reason", ""),
    )


def _source(text: str) -> tuple[Source, str]:
    key, _, place = text.partition(": ")
    return sources()[key], place
