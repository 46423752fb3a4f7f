"""Mistakes in an operator's desc: its sample with one member changed, and the resulting message. Everything here is computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from dmlpy.inspection import alternatives
from dmlpy.inspection.samples import sample, source
from dmlpy.messages.problems import DescError, Problem, lay_out
from dmlpy.validation.checking import LATEST, check

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import FeatureLevel

MOST_SHOWN = 8
"""The most mistakes on an operator's page."""
_USUAL = ("size.equal", "type.support", "type.equal", "dims.support", "tensor.missing", "attribute.length", "attribute.range", "flag.owned")
"""The codes that most descs can break, the most common first."""

SHOWN_BY = {
    **dict.fromkeys(("dims.range", "dims.support", "field.form", "flag.output", "flag.owned"), "GRU"),
    **dict.fromkeys(("size.equal", "size.range", "stride.broadcast", "type.equal", "type.support"), "GRU"),
    **{"attribute.length": "FOLD", "attribute.range": "FOLD", "dims.equal": "CAST", "tensor.missing": "GEMM", "attribute.axis": "JOIN"},
    **{"attribute.choice": "QUANTIZE", "attribute.type": "PADDING1", "stride.reserve": "GRU_GRAD"},
}
"""The codes of descs that are neither rules nor have an example, each with an operator whose sample can be changed to give it.

To search all operators for a code takes seconds.
"""


@dataclass(frozen=True)
class Mistake:
    """A wrong desc and its message.

    Attributes:
        code: the code of the problem that it is an example of.
        statement: the Python expression that checks it, in terms of the valid `desc`.
        message: the error as printed.
        problem_count: all problems that it has.
    """

    code: str
    statement: str
    message: str
    problem_count: int


@cache
def mistakes(kind: type[OperatorDesc]) -> dict[str, Mistake]:
    """The changes of an operator's sample that break the fewest other rules, by code.

    The sample is checked at the highest feature level, and at the operator's first one as far as its rules concern lower levels only.
    """
    by_code = _mistakes_at(kind, LATEST)
    if kind.rules().keys() - by_code.keys() and not kind.is_extension:
        earlier = _mistakes_at(kind, kind.introduced())
        by_code |= {code: mistake for code, mistake in earlier.items() if code not in by_code and code in kind.rules()}
    return by_code


def _mistakes_at(kind: type[OperatorDesc], level: FeatureLevel) -> dict[str, Mistake]:
    desc = sample(kind)
    by_code: dict[str, Mistake] = {}
    for changes in alternatives.changes(desc):
        problems = _problems(desc, changes, level)
        for code in {problem.code for problem in problems}:
            if code not in by_code or len(problems) < by_code[code].problem_count:
                changed = f"desc.replace({', '.join(f'{name}={source(value)}' for name, value in changes.items())})"
                at = "" if level is LATEST else f', feature_level="{level}"'
                by_code[code] = Mistake(code, f"dml.check({changed}{at})", lay_out(desc.c_name, problems), len(problems))
    return by_code


def shown(kind: type[OperatorDesc], found: dict[str, Mistake]) -> list[Mistake]:
    """The mistakes for an operator's page: first those against the rules that it adds, then the usual ones."""
    of_rules = [name for name in kind.rules() if name in found]
    usual = [code for code in _USUAL if code in found]
    return [found[code] for code in [*of_rules, *usual][: max(len(of_rules), MOST_SHOWN)]]


def _problems(desc: OperatorDesc, changes: dict[str, Any], level: FeatureLevel) -> list[Problem]:
    try:
        return check(desc.replace(**changes), level)
    except DescError as error:
        return list(error.problems)
