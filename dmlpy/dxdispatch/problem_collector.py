"""Collects the problems of a model's parts while it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from dmlpy.dxdispatch.entries import ModelEntry, OperatorEntry, form_problems, unknown_members
from dmlpy.dxdispatch.report import Finding, Place
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import MAX_PROBLEMS, MAX_REPORTED, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_ENTRIES = 100_000
"""The most resources, dispatchables or commands of a model; further ones are not read."""
EntryT = TypeVar("EntryT", bound=ModelEntry)
PartT = TypeVar("PartT")


@dataclass
class ProblemCollector:
    """The problems and warnings of a model's parts.

    Attributes:
        findings: the problems.
        warnings: the ignored parts.
        warned: how many warnings there were.
        remedies: the number of further names that are compared with those of the file: comparing takes longer than reading.
    """

    findings: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    warned: int = 0
    remedies: int = MAX_REPORTED

    def did_you_mean(self, name: object, candidates: Iterable[str], show: Callable[[str], str] = str) -> str | None:
        """Suggests names as `naming.did_you_mean` does, for the first mistyped names of a file."""
        self.remedies -= 1
        return did_you_mean(name, candidates, show) if self.remedies >= 0 else None

    def each(self, parts: Iterable[PartT]) -> Iterator[PartT]:
        """Yields the parts one by one, until there are too many problems."""
        for part in islice(parts, MAX_ENTRIES):
            if self.full:
                return
            yield part

    @property
    def full(self) -> bool:
        """Whether too many problems were found to read the rest of the file."""
        return sum(len(finding.problems) for finding in self.findings) >= MAX_PROBLEMS

    def report(self, place: Place, problems: list[Problem]) -> None:
        """Adds the problems of a part, if there are any."""
        if problems:
            self.findings.append(Finding(place.words, tuple(problems), location=place.location))

    def warn(self, place: Place, problems: list[Problem]) -> None:
        """Adds warnings of a part, if there are any."""
        self.warned += len(problems)
        if problems and self.warned <= MAX_PROBLEMS:
            self.warnings.append(Finding(place.words, tuple(problems), location=place.location, severity="warning"))

    def read(self, kind: type[EntryT], place: Place, data: Any) -> EntryT | None:
        """Reads an object of the file; None, with its problems reported, if its members do not have their form."""
        try:
            entry = kind.model_validate(data)
        except ValidationError as error:
            self.report(place, form_problems(error))
            return None
        if kind is not OperatorEntry and self.warned < MAX_PROBLEMS:
            self.warn(place, unknown_members(kind, data))
        return entry
