"""The feature level that caps the operators of a model, and remedies for BFLOAT16 below the latest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dmlpy.description.bfloat16 import WHY_NO_LEVEL
from dmlpy.validation.checking import LATEST

if TYPE_CHECKING:
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.messages.problems import Problem


def cap_of(level: FeatureLevel) -> FeatureLevel | None:
    """The cap at a highest level that may be used: the latest caps nothing, so that tensors may be of BFLOAT16, which no level has."""
    return None if level >= LATEST else level


def with_remedy(problem: Problem) -> Problem:
    """The problem of a desc below the latest level, with the remedy of a model where it is BFLOAT16."""
    uncapped = problem.code == "type.support" and problem.found == "BFLOAT16" and WHY_NO_LEVEL in problem.why
    return replace(problem, remedy=f"feature level {LATEST}, the latest, runs it, on dmlpy's devices alone") if uncapped else problem
