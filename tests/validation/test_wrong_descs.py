"""Every wrong desc of the recurrent operators is refused, with nobody but the right member blamed, in both spellings."""

from __future__ import annotations

import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.messages.naming import c_path
from tests.support.descs.wrong_descs import MAKERS, STRUCTS, Wrong, exempt_axes, in_python, valid, wrong_descs


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


def faults(wrong: Wrong, problems: list[dml.Problem]) -> list[str]:
    """The faults in the report of a wrong desc."""
    if not problems:
        return ["accepted"]
    found = []
    if not any(problem.c_path.startswith(wrong.at) for problem in problems):
        found.append(f"{wrong.at} is not blamed")
    named = [text for problem in problems for text in (problem.c_path, c_path(" ".join(problem.why)), *problem.why)]
    if not any(wrong.named in text for text in named):
        found.append(f"{wrong.named} is not named")
    member = wrong.at.split(".")[0].split("[")[0]
    if wrong.alone and {problem.c_path.split(".")[0].split("[")[0] for problem in problems} != {member}:
        found.append(f"others than {member} are blamed")
    if not all(problem.code and problem.found and problem.expected for problem in problems):
        found.append("a code, what was found, or what was expected is empty")
    return found


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("operator", STRUCTS)
def test_wrong_descs_are_refused(operator: str, maker: str) -> None:
    failed = []
    for wrong in wrong_descs(operator, maker):
        for spelling, problems in (("JSON", problems_from_json(wrong)), ("arguments", problems_from_constructor(wrong))):
            failed += [f"{wrong.name} ({spelling}): {fault}: {'; '.join(map(str, problems))}" for fault in faults(wrong, problems)]
    assert not failed, f"{len(failed)} faults\n" + "\n".join(failed)


@pytest.mark.parametrize("operator", STRUCTS)
def test_there_are_enough_of_each(operator: str) -> None:
    found = wrong_descs(operator)
    assert len({wrong.name for wrong in found}) == len(found) >= 40
    # Every tensor is described, so every symbol has a second holder and no axis escapes.
    assert exempt_axes(operator) == []


def test_an_accepted_desc_and_a_wrong_blame_are_found() -> None:
    wrong = wrong_descs("DML_OPERATOR_RNN", "sizes")[0]
    assert faults(wrong, []) == ["accepted"]
    told = faults(wrong, [dml.Problem("size.equal", "direction", "2", "")])
    assert len(told) == 4
    for word in ("is not blamed", "is not named", "others than", "is empty"):
        assert word in " ".join(told)


@pytest.mark.parametrize("operator", STRUCTS)
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
def test_the_desc_that_they_are_made_of_is_valid(operator: str, direction: str) -> None:
    members = valid(operator, direction)
    assert dml.check(dml.OperatorDesc.from_dict({"Type": operator, "Desc": members}), "1_0") == []
    assert dml.check(OPERATORS[operator](**in_python(members)), "1_0") == []


@pytest.mark.parametrize("operator", STRUCTS)
def test_a_wrong_desc_does_not_compile(operator: str) -> None:
    refused = next(wrong for wrong in wrong_descs(operator) if "Sizes[1] + 1" in wrong.name)
    desc = dml.OperatorDesc.from_dict({"Type": operator, "Desc": refused.members})
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(desc, "numpy")
    assert list(caught.value.problems) == dml.check(desc)
    assert caught.value.hresult == dml.HResult.E_INVALIDARG
