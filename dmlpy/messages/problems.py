"""The problems of a descriptor or an array, as objects, and the errors that carry them.

This is the only place that lays out messages: whoever finds a problem states facts (where, found, expected, why).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import Count, c_path, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_PROBLEMS = 1000
"""The most problems of one desc, graph or model that are collected."""
MAX_REPORTED = 100
"""The most problems of one kind that are listed: nobody reads more, and a damaged file may have one in every byte."""
_MAX_TEXT = 2000
"""The most characters of each text of a problem: names and numbers may come from untrusted files."""

Severity = Literal["error", "warning", "undocumented"]
"""How a finding counts. `warning`: a part of a file is ignored. `undocumented`: Microsoft's page does not list a type that a released
program uses; it refuses nothing."""


@dataclass(frozen=True)
class Problem:
    """One broken rule.

    Attributes:
        code: stable name of the rule, for programs: `size.equal`, `type.support`, `one_activation_per_direction`, ...
        path: the place, in Python's spelling: `weight_tensor.sizes[1]`.
        found: the value found.
        expected: the value that the rule allows.
        why: the reasons for the expectation, one statement each.
        remedy: the remedy, where one is certain.
        c_remedy: the remedy in a file, where that of Python does not exist there.
        severity: `undocumented` where a released program gives DirectML a type that Microsoft's page does not list: it refuses nothing.
    """

    code: str
    path: str
    found: str
    expected: str
    why: tuple[str, ...] = ()
    remedy: str | None = None
    severity: Severity = "error"
    c_remedy: str | None = None

    def __post_init__(self) -> None:
        for name in ("path", "found", "expected", "remedy", "c_remedy"):
            if (text := getattr(self, name)) is not None and len(text) > _MAX_TEXT:
                object.__setattr__(self, name, _clip(text))
        if any(len(text) > _MAX_TEXT for text in self.why):
            object.__setattr__(self, "why", tuple(map(_clip, self.why)))

    @property
    def c_path(self) -> str:
        """The place as directml.h spells it: `WeightTensor.Sizes[1]`."""
        return c_path(self.path)

    @property
    def field(self) -> str:
        """The struct's field that contains the place: `weight_tensor`."""
        return self.path.split(".")[0].split("[")[0]

    def under(self, prefix: str) -> Problem:
        """The problem with its path prefixed, for the struct that holds this one at `prefix`."""
        separator = "" if not prefix or not self.path or self.path.startswith("[") else "."
        return replace(self, path=f"{prefix}{separator}{self.path}")

    def headline(self) -> str:
        """One line: place, found, expected, code; `undocumented:` in front of a problem that refuses nothing."""
        severity = "" if self.severity == "error" else f"{self.severity}: "
        return printable(f"{severity}{self.sentence()}, expected {self.expected}  [{self.code}]")

    def sentence(self) -> str:
        """The place and what was found there: `axes[0] is 3`, `a_tensor.sizes has 5 dimensions`."""
        verb = "has" if isinstance(self.found, Count) else "is"
        return f"{self.path} {verb} {self.found}" if self.path else self.found

    def details(self) -> list[str]:
        """The lines below the headline: the reasons, then the remedy."""
        return [printable(text) for text in (*self.why, *([f"remedy: {self.remedy}"] if self.remedy else []))]

    def __str__(self) -> str:
        return "\n".join([self.headline(), *(f"     {line}" for line in self.details())])

    def in_c(self, members: Iterable[str]) -> Problem:
        """The problem with all places in directml.h's spelling; `members` are the Python names of the struct's members."""
        names = re.compile(rf"\b({'|'.join(members)})\b(\.[a-z]\w*)?")

        def spell(text: str) -> str:
            return names.sub(lambda match: c_path(match[0]), text)

        why = tuple(spell(line) for line in self.why)
        path = self.c_path
        if self.code == "field.unknown":
            # A name that is not a member's is kept as written.
            parent, dot, name = self.path.rpartition(".")
            path = c_path(parent) + dot + name
        remedy = self.c_remedy or (self.remedy and spell(self.remedy))
        return replace(self, path=path, expected=spell(self.expected), why=why, remedy=remedy)

    def to_dict(self) -> dict[str, Any]:
        """The problem as a dict for JSON: its attributes, and the place in both spellings."""
        return {
            "code": self.code,
            "path": self.path,
            "c_path": self.c_path,
            "found": self.found,
            "expected": self.expected,
            "why": list(self.why),
            "remedy": self.remedy,
            "severity": self.severity,
        }


def only_errors(problems: Iterable[Problem]) -> list[Problem]:
    """The problems that refuse a desc: all but the undocumented ones."""
    return [problem for problem in problems if problem.severity == "error"]


def only_undocumented(problems: Iterable[Problem]) -> list[Problem]:
    """The problems that refuse nothing, as sources disagree."""
    return [problem for problem in problems if problem.severity == "undocumented"]


def truncate(problems: Iterable[Problem], most: int = MAX_REPORTED) -> Iterator[Problem]:
    """Limits the number of problems. If there are more, the last one says so, and the rest are not computed."""
    remaining = iter(problems)
    yield from islice(remaining, most)
    if (more := next(remaining, None)) is not None:
        yield and_more(more)


def and_more(problem: Problem) -> Problem:
    """A problem that stands for the given one and all that follow it."""
    found = f"{problem.found}, and more of this kind follow"
    return replace(problem, found=Count(found) if isinstance(problem.found, Count) else found, remedy=None)


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 40]}... ({len(text)} characters)"


def lay_out(subject: str, problems: Sequence[Problem]) -> str:
    """Formats a report: the subject with the number of problems, then each problem with its reasons."""
    count = "no problems" if not problems else plural(len(problems), "problem")
    lines = [printable(f"{subject}: {count}")]
    for number, problem in enumerate(problems[:MAX_REPORTED], 1):
        lines.append(f"{number:2}. {problem.headline()}")
        lines.extend(f"      {line}" for line in problem.details())
    if len(problems) > MAX_REPORTED:
        lines.append(f"and {len(problems) - MAX_REPORTED} more")
    return "\n".join(lines)


@foreign_members
class DmlError(Exception):
    """The base class of dmlpy's errors.

    Attributes:
        subject: the subject of the error: a struct's name, or a whole sentence where there is no list of problems.
        problems: every broken rule, in the order of the struct's fields.
        hresult: DirectML's answer.
    """

    default_hresult = HResult.E_INVALIDARG

    def __init__(self, subject: str, problems: Iterable[Problem] = (), hresult: HResult | None = None) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        self.hresult = self.default_hresult if hresult is None else hresult
        super().__init__(lay_out(subject, self.problems) if self.problems else subject)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.subject, self.problems, self.hresult)


class DescError(DmlError, ValueError):
    """A desc cannot be built: a field is unknown, missing, or has the wrong form for the C struct."""


class CompileError(DmlError):
    """A desc breaks rules, or the device cannot run it. `desc` is the refused desc."""

    def __init__(self, subject: str, problems: Iterable[Problem] = (), hresult: HResult | None = None, desc: Any = None) -> None:
        super().__init__(subject, problems, hresult)
        self.desc = desc

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.subject, self.problems, self.hresult, self.desc)

    def __rich__(self) -> Any:
        """The desc's table with the broken fields marked, then the problems; for `rich.print(error)`."""
        from rich.console import Group
        from rich.text import Text

        return Group(*([] if self.desc is None else [self.desc.table(self.problems)]), Text(self.args[0]))

    def _repr_html_(self) -> str:
        from dmlpy.messages.tables import paragraph_html

        table = "" if self.desc is None else self.desc.table(self.problems).to_html()
        return table + paragraph_html(self.args[0])


class BindError(DmlError):
    """An array or buffer does not fit the desc that the operator was compiled for. Nothing was written."""


class DeviceError(DmlError):
    """The device failed or is missing: no GPU, no memory, a failed launch, an unknown device name."""

    default_hresult = HResult.DXGI_ERROR_UNSUPPORTED


class DispatchError(DmlError, RuntimeError):
    """A dispatch was called while another call of it was under way. That call is not disturbed."""


class PickleError(DmlError, TypeError):
    """An object can be neither pickled nor copied, or a pickle does not fit this machine."""
