"""Names of parametrized rows: what a value holds, where pytest would number it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.tensors import TensorDesc

LONGEST = 60
"""Letters of a name, at most: pytest numbers longer ones."""
_DEEPEST = 2
"""The depth of nested containers that are read."""


def row_id(value: object) -> str | None:
    """The name of a value in the ids of tests: sizes as 2x3, options as name=value; None if pytest is to name it."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | type | enum.Enum):
        return None  # pytest's own names say what these hold
    text = _text(value, 0)
    is_short = text is not None and len(text) <= LONGEST and text.isascii() and text.isprintable()
    return text if is_short else None


def _text(value: Any, depth: int) -> str | None:
    """A value in words; None if it cannot be said shortly, or not the same in each process.

    Containers of other classes may be made to raise errors, and are not read.
    """
    if value is None or isinstance(value, bool | int | float | np.generic):
        return str(value)
    if isinstance(value, enum.Enum | np.dtype):
        return value.name
    if type(value) is str:
        return value.removesuffix("_tensor")
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, TensorDesc):
        return f"{value.data_type.name} {_text(value.sizes, depth)}"
    if isinstance(value, OperatorDesc):
        return type(value).short_name() or type(value).__name__
    if depth > _DEEPEST:
        return None
    if type(value) is dict:
        return _joined([(f"{_text(name, depth + 1)}=", item) for name, item in value.items()], ",", depth) if value else "default"
    if type(value) in (set, frozenset):
        return _joined([("", item) for item in sorted(value, key=str)], "+", depth) if value else "none"
    if type(value) in (tuple, list):
        return _text_of_items(value, depth)
    if dataclasses.is_dataclass(value):
        held = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        # Values are compared by their texts: of arrays `!=` is an array.
        changed = [
            (field.name, own)
            for field, own in held
            if own is not field.default and _text(own, depth + 1) != _text(field.default, depth + 1)
        ]
        return _joined([(f"{name}=", own) for name, own in changed], ",", depth)
    return None


def _text_of_items(values: Sequence[Any], depth: int) -> str | None:
    """Sizes as 2x3, other items with commas."""
    if not values:
        return "none"
    if all(type(item) is int for item in values):
        return "x".join(map(str, values)) if len(values) > 1 else f"[{values[0]}]"
    text = _joined([("", item) for item in values], ",", depth)
    return f"({text})" if text is not None and depth else text


def _joined(items: list[tuple[str, Any]], separator: str, depth: int) -> str | None:
    texts = [(label, _text(item, depth + 1)) for label, item in items]
    return None if any(text is None for _, text in texts) else separator.join(f"{label}{text}" for label, text in texts)
