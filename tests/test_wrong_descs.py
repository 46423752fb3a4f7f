"""Every wrong desc that the facts give is refused, with the right member named, in both spellings."""

from __future__ import annotations

import pytest

import dmlpy as dml
from dmlpy.descs import OPERATORS
from dmlpy.naming import c_path
from tests import facts_reader as facts
from tests.wrong_descs import STRUCTS, Wrong, exempt_axes, in_python, valid, wrong_descs

ALL = [wrong for struct in STRUCTS for wrong in wrong_descs(struct)]


def name(wrong: Wrong) -> str:
    return f"{wrong.operator.removeprefix('DML_OPERATOR_')} {wrong.name}"


def problems_from_json(wrong: Wrong) -> list[dml.Problem]:
    try:
        return dml.check(dml.OperatorDesc.from_dict({"Type": wrong.operator, "Desc": wrong.members}), wrong.level)
    except dml.DescError as error:
        return list(error.problems)


def problems_from_constructor(wrong: Wrong) -> list[dml.Problem]:
    try:
        return dml.check(OPERATORS[wrong.operator](**in_python(wrong.members)), wrong.level)
    except dml.DescError as error:
        return list(error.problems)


def judge(wrong: Wrong, problems: list[dml.Problem]) -> None:
    report = "\n".join(map(str, problems)) or "accepted"
    assert problems, "accepted"
    assert any(problem.c_path.startswith(wrong.at) for problem in problems), report
    named = [text for problem in problems for text in (problem.c_path, c_path(" ".join(problem.why)), *problem.why)]
    assert any(wrong.named in text for text in named), report
    if wrong.alone:
        member = wrong.at.split(".")[0].split("[")[0]
        assert {problem.c_path.split(".")[0].split("[")[0] for problem in problems} == {member}, report
    for problem in problems:
        assert problem.code, report
        assert problem.found, report
        assert problem.expected, report


@pytest.mark.parametrize("wrong", ALL, ids=name)
def test_wrong_json_is_refused(wrong: Wrong) -> None:
    judge(wrong, problems_from_json(wrong))


@pytest.mark.parametrize("wrong", [wrong for wrong in ALL if not wrong.json_only], ids=name)
def test_wrong_arguments_are_refused(wrong: Wrong) -> None:
    judge(wrong, problems_from_constructor(wrong))


@pytest.mark.parametrize("operator", STRUCTS)
def test_there_are_enough_of_each(operator: str) -> None:
    found = wrong_descs(operator)
    assert len({wrong.name for wrong in found}) == len(found) >= 40
    # Every tensor is described, so every symbol has a second holder and no axis escapes.
    assert exempt_axes(operator) == []


@pytest.mark.parametrize("operator", STRUCTS)
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
def test_the_desc_that_they_are_made_of_is_valid(operator: str, direction: str) -> None:
    members = valid(operator, direction)
    assert dml.check(dml.OperatorDesc.from_dict({"Type": operator, "Desc": members}), "1_0") == []
    assert dml.check(OPERATORS[operator](**in_python(members)), "1_0") == []


@pytest.mark.parametrize("operator", facts.relations())
def test_relations_cover_every_constraint(operator: str) -> None:
    assert facts.relations()[operator]["constraints"] == facts.operators()[operator]["constraints"]


@pytest.mark.parametrize("operator", STRUCTS)
def test_a_wrong_desc_does_not_compile(operator: str) -> None:
    refused = next(wrong for wrong in wrong_descs(operator) if "Sizes[1] + 1" in wrong.name)
    desc = dml.OperatorDesc.from_dict({"Type": operator, "Desc": refused.members})
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(desc, "numpy")
    assert list(caught.value.problems) == dml.check(desc)
    assert caught.value.hresult == dml.HResult.E_INVALIDARG
