"""The numbers that a struct of directml.h holds: its FLOAT members are 32-bit floats, whatever a desc was given."""

from __future__ import annotations

from ctypes import c_float
from functools import cache
from typing import Any, TypeVar, get_args

from dmlpy.description.structs import Struct
from dmlpy.description.symbolic_sizes import applied, is_symbolic
from dmlpy.description.tensors import TensorDesc

Kind = TypeVar("Kind", bound=Struct)


def stored(struct: Kind) -> Kind:
    """A desc that computes with the numbers of the struct: each FLOAT member, also of a struct within, rounded to a 32-bit float.

    A desc whose members are such numbers is returned itself. Its sizes and numbers may be symbolic, so it is not hashed.
    """
    changed = {name: rounded for name in _members(type(struct)) if (rounded := _rounded(value := getattr(struct, name))) is not value}
    return struct.replace(**changed) if changed else struct


def _rounded(value: Any) -> Any:
    """The value that a member holds; itself if it is that already."""
    if isinstance(value, float):
        if is_symbolic(value):
            return applied(_nearest, value)
        rounded = _nearest(value)
        return value if rounded == value or value != value else rounded
    if isinstance(value, tuple):
        items = tuple(_rounded(item) for item in value)
        return value if all(one is given for one, given in zip(items, value, strict=True)) else items
    return stored(value) if isinstance(value, Struct) else value


def _nearest(value: float) -> float:
    return c_float(value).value


@cache
def _members(kind: type[Struct]) -> tuple[str, ...]:
    """The members that are FLOAT, arrays of it, or structs other than tensors, and arrays of them."""
    return tuple(name for name, item in kind.model_fields.items() if _holds_floats(item.annotation))


def _holds_floats(annotation: Any) -> bool:
    kinds = [item for item in (annotation, *get_args(annotation)) if isinstance(item, type)]
    scalar = int in kinds  # DML_SCALAR_UNION, whose numbers have the type that is named beside them
    return any((kind is float and not scalar) or (issubclass(kind, Struct) and kind is not TensorDesc) for kind in kinds)
