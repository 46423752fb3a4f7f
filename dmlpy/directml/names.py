"""The tables of the names in directml.h, and what type checkers read of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DmlEnum, DmlFlags
from dmlpy.description.registry import ALIASES, C_PREFIX, OPERATORS
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import ScaleBias, Size2D
from dmlpy.devices.operator import BindingProperties
from dmlpy.directml import header
from dmlpy.graphs import ConstantNode, Graph, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from dmlpy.validation.features import (
    FeatureDataFeatureLevels,
    FeatureDataTensorDataTypeSupport,
    FeatureQueryFeatureLevels,
    FeatureQueryTensorDataTypeSupport,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_STRUCTS = (
    TensorDesc,
    ScaleBias,
    Size2D,
    FeatureQueryTensorDataTypeSupport,
    FeatureDataTensorDataTypeSupport,
    FeatureQueryFeatureLevels,
    FeatureDataFeatureLevels,
    Graph,
    OperatorNode,
    ConstantNode,
    InputEdge,
    OutputEdge,
    IntermediateEdge,
)


def _types() -> Iterator[tuple[str, type]]:
    """The structs, enumerations and flags by their names in the header."""
    yield from ((kind.c_name, kind) for kind in OPERATORS.values() if not kind.beyond_directml)
    yield from ((kind.c_name, kind) for kind in _STRUCTS)
    yield "DML_BINDING_PROPERTIES", BindingProperties
    yield from ((kind.type_name(), kind) for kind in DmlEnum.__subclasses__() if kind.prefix())
    yield from ((kind.type_name(), kind) for kind in DmlFlags.__subclasses__())


TYPES = dict(sorted(_types()))
# By `__members__`, since iterating over flags leaves NONE out.
MEMBERS = {member.c_name: member for kind in TYPES.values() if issubclass(kind, DmlEnum | DmlFlags) for member in kind.__members__.values()}
OPERATOR_TYPES = {name: name for name, kind in OPERATORS.items() if not kind.beyond_directml}
OPERATOR_TYPES |= {C_PREFIX + alias: C_PREFIX + name for alias, name in ALIASES.items()}
# Names that only the header has, constants first.
HEADER = {name: value for name, value in vars(header).items() if name.startswith("DML")}
CONSTANTS = OPERATOR_TYPES | {name: value for name, value in HEADER.items() if isinstance(value, int)}
NAMES: dict[str, Any] = TYPES | MEMBERS | HEADER | CONSTANTS


def stub() -> str:
    """The text of `__init__.pyi`."""
    lines = ["# Written by `python -m dmlpy.stubs`: do not edit.", "from typing import Final"]
    lines += [f"from {kind.__module__} import {kind.__name__} as {name}" for name, kind in TYPES.items()]
    lines += [f"from {header.__name__} import {name} as {name}" for name in sorted(HEADER.keys() - CONSTANTS.keys())]
    # A final name that is the member itself keeps its literal type.
    lines += [f"{name} = {type(member).type_name()}.{member.name}" for name, member in sorted(MEMBERS.items())]
    lines += [f"{name}: Final = {json.dumps(value)}" for name, value in sorted(CONSTANTS.items())]
    # What is imported under another name is exported by this list only.
    lines += ["__all__ = [", *(f'    "{name}",' for name in sorted(NAMES)), "]"]
    return "\n".join(lines) + "\n"
