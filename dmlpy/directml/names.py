"""The tables of the names in directml.h."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import DmlEnum, DmlFlags
from dmlpy.description.registry import ALIASES, C_PREFIX, OPERATORS
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import ScaleBias, Size2D
from dmlpy.devices.plan import BindingProperties
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
    yield from ((kind.c_name, kind) for kind in OPERATORS.values() if not kind.is_extension)
    yield from ((kind.c_name, kind) for kind in _STRUCTS)
    yield "DML_BINDING_PROPERTIES", BindingProperties
    yield from ((kind.type_name(), kind) for kind in DmlEnum.__subclasses__() if kind.prefix())
    yield from ((kind.type_name(), kind) for kind in DmlFlags.__subclasses__())


TYPES = dict(sorted(_types()))
# By `__members__`, since iterating over flags leaves NONE out.
MEMBERS = {member.c_name: member for kind in TYPES.values() if issubclass(kind, DmlEnum | DmlFlags) for member in kind.__members__.values()}
OPERATOR_TYPES = {name: name for name, kind in OPERATORS.items() if not kind.is_extension}
OPERATOR_TYPES |= {C_PREFIX + alias: C_PREFIX + name for alias, name in ALIASES.items()}
# Names that only the header has, constants first.
HEADER = {name: value for name, value in vars(header).items() if name.startswith("DML")}
CONSTANTS = OPERATOR_TYPES | {name: value for name, value in HEADER.items() if isinstance(value, int)}
NAMES: dict[str, Any] = TYPES | MEMBERS | HEADER | CONSTANTS
