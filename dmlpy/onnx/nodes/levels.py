"""Which feature level caps the operators of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.validation.checking import LATEST

if TYPE_CHECKING:
    from dmlpy.description.enums import FeatureLevel


def cap_of(level: FeatureLevel) -> FeatureLevel | None:
    """The cap at a highest level that may be used: the latest caps nothing, so that tensors may be of BFLOAT16, which no level has."""
    return None if level >= LATEST else level
