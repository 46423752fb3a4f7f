"""pydirectml's enumerations, and the members that it also has as names of the module."""

from __future__ import annotations

from enum import Enum, IntFlag
from typing import Any

from dmlpy.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    DataType,
    DmlEnum,
    DmlFlags,
    ExecutionFlags,
    InterpolationMode,
    MatrixTransform,
    PaddingMode,
    RecurrentDirection,
    TensorFlags,
)
from dmlpy.description.registry import OPERATORS

TensorDataType = DataType
RecurrentNetworkDirection = RecurrentDirection


def _operator_types() -> Any:
    names = [kind.short_name() for kind in OPERATORS.values() if not kind.is_extension]
    members = {name: name for name in ("INVALID", *names)}
    return Enum("OperatorType", members, module=__name__)  # type checkers do not know the members


OperatorType = _operator_types()
"""The operators of DirectML by their names without DML_OPERATOR_, and INVALID for none."""


class OutputOptions(IntFlag):
    """The outputs of `gru`."""

    Both = 0
    Sequence = 1
    Single = 2


# In pydirectml's order: of members with one name, the last enumeration's is the module's.
_EXPORTED: tuple[Any, ...] = (
    TensorDataType,
    TensorFlags,
    MatrixTransform,
    RecurrentNetworkDirection,
    ConvolutionMode,
    ConvolutionDirection,
    InterpolationMode,
    PaddingMode,
    ExecutionFlags,
    OperatorType,
)


def export_enumerations() -> dict[str, Enum | DmlEnum | DmlFlags]:
    """The members that are names of the module."""
    return {name: member for kind in _EXPORTED for name, member in kind.__members__.items()}
