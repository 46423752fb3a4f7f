"""Every wrong desc that the facts and their relations give is refused, and the first problem names the member that is wrong.

Half of them break rules of every tensor, or have a type that test_support_rows.py finds refused as well: of these the usual run takes a
fifth, other ones of each operator.
"""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase
from functools import cache

import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs as descs
from tests.support.descs.mutant_problems import problems_of
from tests.support.descs.mutants import Mutant, mutants

LEAST = 20
TOLERATED_SHARE = 0.01
REPEATED_TAKEN = 5
"""Of the mutants that are repeated, one of so many is usual."""


def problems_of_arguments(operator: str, members: descs.Members, level: str) -> list[dml.Problem]:
    """The same of a desc built in Python."""
    try:
        return dml.check(OPERATORS[operator](**descs.in_python(operator, members)), level)
    except dml.DescError as error:
        return list(error.problems)
    except Exception as error:
        return [dml.Problem("raised", "", repr(error), "a DescError, or problems")]


def names(operator: str, problem: dml.Problem, place: str) -> bool:
    """Whether a problem's place, expectation, reasons or remedy name a member, in either spelling."""
    text = "\n".join((problem.path, problem.c_path, problem.expected, *problem.why, problem.remedy or ""))
    spellings = (place, facts.python_place(place), facts.python_member(operator, place))
    return any(re.search(rf"(?<!\w){re.escape(spelling)}(?!\w)", text) for spelling in spellings)


def chosen(operator: str, every: bool) -> list[Mutant]:
    """The mutants of an operator: all, or a part of those that are repeated."""
    first, taken, count = list(facts.operators()).index(operator), [], 0
    for mutant in mutants(operator):
        count += mutant.repeated
        if every or not mutant.repeated or (count + first) % REPEATED_TAKEN == 0:
            taken.append(mutant)
    return taken


@cache
def failures(operator: str, every: bool) -> dict[str, str]:
    """The mutants of an operator that are not refused as they should be, each with what was found."""
    found = {}
    for mutant in chosen(operator, every):
        for way in (problems_of, problems_of_arguments) if mutant.python else (problems_of,):
            if text := failure(operator, way(operator, mutant.members, mutant.level), mutant):
                found[mutant.name] = text
    return found


def failure(operator: str, problems: list[dml.Problem], mutant: Mutant) -> str:
    """What is wrong with how a mutant is refused; empty if nothing is."""
    if not problems:
        return "accepted"
    if not any(names(operator, problems[0], place) for place in mutant.at):
        return f"{' or '.join(mutant.at)} not named first in: {problems[0]}"
    if mutant.pair and not any(all(names(operator, problem, place) for place in mutant.pair) for problem in problems):
        return f"{' and '.join(mutant.pair)} never named together: {problems[0]}"
    return ""


def pattern_of(operator: str, name: str) -> str | None:
    """The pattern in `facts/tolerated.toml` that a failure falls under."""
    return next((item["what"] for item in facts.tolerated() if fnmatchcase(f"{operator}: {name}", item["what"])), None)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("operator", facts.operators())
def test_wrong_descs_are_refused(operator: str, every: bool) -> None:
    wrong_bases = {
        own.about: [problem.headline() for problem in problems]
        for own in descs.valid_descs(operator)
        if (problems := problems_of(operator, own.members, own.level))
    }
    assert not wrong_bases, f"valid descs are refused: {wrong_bases}"
    assert len(mutants(operator)) >= LEAST
    found = {name: text for name, text in failures(operator, every).items() if pattern_of(operator, name) is None}
    assert not found, f"{len(found)} of {len(chosen(operator, every))}\n" + "\n".join(f"{name}: {text}" for name, text in found.items())


def test_what_is_tolerated_still_exists_is_little_and_has_a_reason() -> None:
    named = [item["what"].partition(":")[0] for item in facts.tolerated()]
    operators = [operator for operator in facts.operators() if any(fnmatchcase(operator, pattern) for pattern in named)]
    patterns = [pattern_of(operator, name) for operator in operators for name in failures(operator, False)]
    used = Counter(pattern for pattern in patterns if pattern is not None)
    assert not [item["what"] for item in facts.tolerated() if item["what"] not in used], "nothing is tolerated by these any more"
    assert not [item["what"] for item in facts.tolerated() if len(item["reason"].split()) <= 5]
    assert used.total() < TOLERATED_SHARE * sum(len(mutants(operator)) for operator in facts.operators())


def test_a_mutant_that_is_accepted_is_found() -> None:
    operator = "DML_OPERATOR_ACTIVATION_RELU"
    own = descs.valid_descs(operator)[0]
    assert failure(operator, [], Mutant("none", own.members, ("InputTensor",), own.level)) == "accepted"
    wrong = own.members | {"OutputTensor": own.members["OutputTensor"] | {"Sizes": [0]}}
    problems = problems_of(operator, wrong, own.level)
    assert "Axis not named first" in failure(operator, problems, Mutant("another member", wrong, ("Axis",), own.level))
    pair = ("OutputTensor", "Axis")
    assert "never named together" in failure(operator, problems, Mutant("another pair", wrong, ("OutputTensor",), own.level, pair))
