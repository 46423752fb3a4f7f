"""The types that constructors of structs accept for a member, for type checkers: for generated stubs and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description import member_docs
from dmlpy.description.enums import DmlEnum

if TYPE_CHECKING:
    from dmlpy.description.structs import Struct

_ALSO_ACCEPTED = {
    "bool": "bool_",
    "float": "str | floating[Any]",
    "int": "integer[Any]",
    "int | float": "str | Mapping[str, Any] | number[Any]",
    "DataType | str": "int | dtype[Any] | type[generic]",
    "ScaleBias": "Mapping[str, Any]",
    "Size2D": "Mapping[str, Any]",
}
"""The types that a constructor accepts for a member in addition to those in its signature, by the latter."""

_ARRAYS = {
    "Sequence[FeatureLevel | str]": "Iterable[FeatureLevel | str | int]",
    "Sequence[ActivationDesc]": "Iterable[ActivationDesc]",
    "Sequence[TensorDesc]": "Iterable[TensorDesc]",
    **{f"Sequence[{edge}]": f"Sequence[{edge} | Mapping[str, Any]]" for edge in ("InputEdge", "OutputEdge", "IntermediateEdge")},
}


def accepted_type(kind: type[Struct], field: str) -> tuple[str, bool]:
    """The type that a constructor accepts for a member other than None, as Python writes it, and whether None is accepted too."""
    info = kind.model_fields[field]
    shown = member_docs.accepted_type(info.annotation)
    accepted = shown.removesuffix(" | None")
    if isinstance(info.annotation, type) and issubclass(info.annotation, DmlEnum):
        accepted += " | " + _ALSO_ACCEPTED.get(accepted, "int")
    elif accepted in _ALSO_ACCEPTED:
        accepted += " | " + _ALSO_ACCEPTED[accepted]
    return _ARRAYS.get(accepted, accepted), shown.endswith(" | None")
