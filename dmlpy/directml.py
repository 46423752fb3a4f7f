"""The names of directml.h: `DML_RNN_OPERATOR_DESC` is `dmlpy.RNNDesc`, and so on for every struct, enumeration and constant that dmlpy has.

For code that is carried over from C: `from dmlpy.directml import *`. What type checkers read, `directml.pyi`, is printed by
`python -m dmlpy.directml`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dmlpy.enums import DmlEnum, DmlFlags
from dmlpy.features import (
    FeatureDataFeatureLevels,
    FeatureDataTensorDataTypeSupport,
    FeatureQueryFeatureLevels,
    FeatureQueryTensorDataTypeSupport,
)
from dmlpy.registry import OPERATORS
from dmlpy.tensors import TensorDesc
from dmlpy.values import ScaleBias, Size2D

_STRUCTS = (
    TensorDesc,
    ScaleBias,
    Size2D,
    FeatureQueryTensorDataTypeSupport,
    FeatureDataTensorDataTypeSupport,
    FeatureQueryFeatureLevels,
    FeatureDataFeatureLevels,
)


def _types() -> Iterator[tuple[str, type]]:
    """The structs, enumerations and flags by their names in the header."""
    yield from ((kind.c_name, kind) for kind in OPERATORS.values() if not kind.own)
    yield from ((kind.c_name, kind) for kind in _STRUCTS)
    yield from ((kind.type_name(), kind) for kind in DmlEnum.__subclasses__() if kind.prefix())
    yield from ((kind.type_name(), kind) for kind in DmlFlags.__subclasses__())


_TYPES = dict(sorted(_types()))
# By `__members__`, since iterating over flags leaves NONE out.
_MEMBERS = {
    member.c_name: member for kind in _TYPES.values() if issubclass(kind, DmlEnum | DmlFlags) for member in kind.__members__.values()
}

globals().update(_TYPES | _MEMBERS)
__all__ = sorted([*_TYPES, *_MEMBERS])


def stub() -> str:
    """The text of `directml.pyi`."""
    lines = ["# Printed by `python -m dmlpy.directml`: do not edit."]
    lines += [f"from {kind.__module__} import {kind.__name__} as {name}" for name, kind in _TYPES.items()]
    # A final name that is the member itself keeps its literal type.
    lines += [f"{name} = {type(member).type_name()}.{member.name}" for name, member in sorted(_MEMBERS.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(stub(), end="")
